use super::*;
use crate::{ParsedMail, ReadOptions};

fn read(header: &str) -> ParsedMail {
    let options = ReadOptions {
        trusted_servers: vec!["mx.example.org".to_owned(), "MX2.example.org".to_owned()],
        most_text: 1_000,
        most_files: 5,
        largest_file: 1_000,
    };
    let raw = format!("{header}\nSubject: x\n\nbody");
    crate::read(raw.as_bytes(), &options).unwrap_or_else(|error| panic!("{error}: {header}"))
}

fn result(header: &str) -> (ProofResult, &'static str) {
    let proof = read(header).proof;
    (proof.result, proof.method)
}

const FROM: &str = "From: Ada <ada@bank.org>";

#[test]
fn what_the_own_server_proves_is_proved() {
    for found in [
        "mx.example.org; dmarc=pass header.from=bank.org",
        "MX.Example.ORG 1; dmarc=pass (p=REJECT sp=REJECT dis=NONE) header.from=Bank.org",
        "mx2.example.org;\n dkim=pass header.i=@bank.org header.s=x header.b=abc=;\n\tspf=pass (x: domain of \
         a@bank.org designates 1.2.3.4) smtp.mailfrom=a@bank.org;\n dmarc=pass header.from=bank.org",
        "(c) mx.example.org (d) ; (e) dmarc (f) = (g) pass (h) header.from (i) = (j) bank.org",
        "mx.example.org; dmarc=pass; dkim=pass header.d=bank.org",
        "mx.example.org; dmarc=pass header.from=\"bank.org\"",
        "mx.example.org; dmarc/1=pass reason=\"a; b=c (d\" header.from=bank.org;",
        "mx.example.org; dkim=fail header.d=x.org; dkim=pass header.d=bank.org; dmarc=pass header.from=bank.org",
    ] {
        assert_eq!(
            result(&format!("Authentication-Results: {found}\n{FROM}")),
            (ProofResult::Pass, "dmarc"),
            "{found}"
        );
    }
    for found in [
        "mx.example.org; dkim=pass header.d=bank.org",
        "mx.example.org; dkim=pass header.i=ada@bank.org; spf=fail smtp.mailfrom=x.org",
        "mx.example.org; dmarc=none header.from=bank.org; dkim=pass header.d=bank.org",
        "mx.example.org; spf=pass smtp.mailfrom=\"a;b\"@bank.org; dkim=pass header.d=bank.org",
    ] {
        assert_eq!(result(&format!("Authentication-Results: {found}\n{FROM}")), (ProofResult::Pass, "dkim"), "{found}");
    }
    let below =
        "Authentication-Results: mx.example.org; dmarc=pass; dkim=pass header.d=bank.org\nFrom: a@mail.bank.org";
    assert_eq!(result(below), (ProofResult::Pass, "dmarc"));
    let fail = format!("Authentication-Results: mx.example.org; dmarc=fail header.from=bank.org\n{FROM}");
    assert_eq!(result(&fail), (ProofResult::Fail, "dmarc"));
    // The sender's own field takes nothing back.
    let softened =
        fail.replace("\nFrom", "\nAuthentication-Results: mx.example.org; dmarc=pass header.from=bank.org\nFrom");
    assert_eq!(result(&softened), (ProofResult::Fail, "dmarc"));
}

/// From fields that seem to be `ada@bank.org`, under a server that proves that domain.
#[test]
fn forged_senders_are_not_proved() {
    let found = "Authentication-Results: mx.example.org; dmarc=pass header.from=bank.org; dkim=pass header.d=bank.org";
    assert_eq!(result(&format!("{found}\n{FROM}")).0, ProofResult::Pass);
    for from in [
        "From: ada@bank.org <evil@x.org>",
        "From: \"ada@bank.org\" <evil@x.org>",
        "From: \"Ada <ada@bank.org>\" <evil@x.org>",
        "From: =?utf-8?q?ada=40bank.org?= <evil@x.org>",
        "From: =?utf-8?q?Ada_=3Cada=40bank.org=3E?= <evil@x.org>",
        "From: =?utf-8?b?YWRhQGJhbmsub3Jn?= <evil@x.org>",
        "From: evil@x.org (ada@bank.org)",
        "From: (ada@bank.org) evil@x.org",
        "From: (<ada@bank.org>) <evil@x.org>",
        "From: ada@bank.org, evil@x.org",
        "From: evil@x.org, ada@bank.org",
        "From: <evil@x.org> <ada@bank.org>\nSender: ada@bank.org",
        "From: <evil@x.org>, <ada@bank.org>",
        "From: ada@bank.org\nFrom: evil@x.org",
        "From: evil@x.org\nFrom: ada@bank.org",
        "From: ada@bank.org\nFROM : ada@bank.org",
        "From: ada@bank.org\nF\u{a0}rom: evil@x.org",
        "From: ada@bank.org\nFrom\0: evil@x.org",
        "From: ada@bank.org\nX: y\rFrom: evil@x.org",
        "From: Group: ada@bank.org;",
        "From: evil@x.org: ada@bank.org;",
        "From: ada@bank.org;",
        "From: ada@bank.org,",
        "From: ada@bank.org.evil.org",
        "From: ada@sub.bank.org",
        "From: ada@xbank.org",
        "From: ada@bank.org@evil.org\nSender: x@bank.org",
        "From: \"ada@bank.org\"@evil.org\nSender: x@bank.org",
        "From: <@bank.org:evil@x.org>\nSender: x@bank.org",
        "From: <ada@bank.org\nSender: x@bank.org",
        "From: nobody\nSender: ada@bank.org",
        "From:\nReturn-Path: <ada@bank.org>",
        "Sender: ada@bank.org",
        "From: ada@bаnk.org",
        "From: ada@bank。org\nSender: x@bank.org",
        "From: ada@ｂank.org",
        "From: ada@bank.org\u{202E}\nSender: x@bank.org",
        "From: ada@xn--bnk-5cd.org",
        "From: \"evil@x.org\" <ada@bank.org> extra\nSender: x@bank.org",
        "From: ada(x)@bank.org\nSender: x@bank.org",
        "From: =?utf-8?q?x?=@bank.org\nSender: x@bank.org",
    ] {
        assert_ne!(result(&format!("{found}\n{from}")).0, ProofResult::Pass, "{from:?}");
    }
}

/// Fields that seem to be the own server's, above `ada@bank.org`.
#[test]
fn forged_findings_prove_nothing() {
    let pass = "dmarc=pass header.from=bank.org";
    for found in [
        format!("mx.example.org.evil; {pass}"),
        format!("evil.mx.example.org; {pass}"),
        format!("mx.example.orq; {pass}"),
        format!("mx.examplе.org; {pass}"),
        format!("(mx.example.org) evil.org; {pass}"),
        format!("evil.org (mx.example.org); {pass}"),
        format!("evil.org mx.example.org; {pass}"),
        format!("mx.example.org evil.org; {pass}"),
        format!("mx.example.org 2; {pass}"),
        format!("; mx.example.org; {pass}"),
        format!("\"mx.example.org; {pass}"),
        format!("\"mx.example.org\"x; {pass}"),
        format!("mx.example.org\0; {pass}"),
        format!("mx.example.org, {pass}"),
        format!("mx.example.org {pass}"),
        pass.to_owned(),
        format!("=?utf-8?q?mx.example.org?=; {pass}"),
        format!("mx.example.org (; {pass}"),
        format!("mx.example.org; none; {pass}"),
        "mx.example.org; dmarc=pass".to_owned(),
        "mx.example.org; dmarc=pass header.from=evil.org".to_owned(),
        "mx.example.org; dmarc=pass header.from=bank.org.evil".to_owned(),
        "mx.example.org; dmarc=pass header.from=bank.org header.from=evil.org".to_owned(),
        "mx.example.org; dmarc=pass header.from=evil.org; dkim=pass header.d=bank.org".to_owned(),
        "mx.example.org; dmarc=pass header.from=bank.org; dmarc=fail header.from=bank.org".to_owned(),
        "mx.example.org; dmarc=fail header.from=bank.org; dmarc=pass header.from=bank.org".to_owned(),
        "mx.example.org; dmarc=pass header.from=evil.org; dmarc=pass header.from=bank.org".to_owned(),
        "mx.example.org; dmarc=fail header.from=bank.org; dkim=pass header.d=bank.org".to_owned(),
        "mx.example.org; dmarc=fail (dmarc=pass header.from=bank.org) header.from=bank.org".to_owned(),
        "mx.example.org; spf=pass smtp.mailfrom=ada@bank.org".to_owned(),
        "mx.example.org; spf=pass smtp.mailfrom=\"x; dmarc=pass header.from=bank.org;\"@evil.org".to_owned(),
        "mx.example.org; spf=pass smtp.mailfrom=\"x\\\"; dmarc=pass header.from=bank.org;\"@evil.org".to_owned(),
        "mx.example.org; spf=pass (x\\); dmarc=pass header.from=bank.org) smtp.mailfrom=evil.org".to_owned(),
        "mx.example.org; spf=pass (x)); dmarc=pass header.from=bank.org".to_owned(),
        "mx.example.org; dkim=pass header.d=evil.org".to_owned(),
        "mx.example.org; dkim=pass header.d=org".to_owned(),
        "mx.example.org; dkim=pass header.d=evil.org header.i=@bank.org".to_owned(),
        "mx.example.org; dkim=pass header.d=sub.bank.org".to_owned(),
        "mx.example.org; dkim=pass header.i=bank.org".to_owned(),
        "mx.example.org; dkim=fail header.d=bank.org".to_owned(),
        "mx.example.org; dkim=none header.d=bank.org; dkim=pass header.d=evil.org".to_owned(),
        "mx.example.org; dkim=policy pass header.d=bank.org".to_owned(),
        "mx.example.org; arc=pass header.d=bank.org".to_owned(),
        "mx.example.org; dmarc=bestguesspass header.from=bank.org".to_owned(),
        "mx.example.org; x.dmarc=pass header.from=bank.org".to_owned(),
        "mx.example.org; dmarc=fail reason=\"; dmarc=pass header.from=bank.org\" header.from=bank.org".to_owned(),
        "mx.example.org; none".to_owned(),
        "mx.example.org".to_owned(),
        String::new(),
        "mx.example.org;;;;dmarc=pass header.from=bank.org".to_owned(),
    ] {
        let header = format!("Authentication-Results: {found}\n{FROM}");
        assert_ne!(result(&header).0, ProofResult::Pass, "{found:?}");
    }
}

#[test]
fn a_finding_counts_only_on_top() {
    let pass = "Authentication-Results: mx.example.org; dmarc=pass header.from=bank.org";
    for header in [
        format!("Authentication-Results: evil.org; none\n{pass}\n{FROM}"),
        format!("Authentication-Results: mx.example.org; spf=pass smtp.mailfrom=x.org\n{pass}\n{FROM}"),
        format!("Authentication-Results: mx.example.org; dmarc=fail header.from=bank.org\n{pass}\n{FROM}"),
        format!("{pass}\nAuthentication-Results: mx2.example.org; dmarc=fail header.from=bank.org\n{FROM}"),
        format!("Authentication-Results:\n{pass}\n{FROM}"),
        format!("{FROM}\n{pass}"),
        format!("To: x@y.org\n{pass}\n{FROM}"),
        format!("{FROM}\nX: y\n\n{pass}"),
        format!("ARC-Authentication-Results: i=1; mx.example.org; dmarc=pass header.from=bank.org\n{FROM}"),
        format!("X-{pass}\n{FROM}"),
        format!("Original-{pass}\n{FROM}"),
        format!("X: y\r{pass}\n{FROM}"),
        format!(" {pass}\n{FROM}"),
        format!("X: y\n {pass}\n{FROM}"),
        format!("{FROM}\nContent-Type: multipart/mixed; boundary=b\n\n--b\n{pass}\n\nx\n--b--"),
        format!("{FROM}\nContent-Type: message/rfc822\n\n{pass}\n{FROM}\n\nx"),
        format!("{}\n{FROM}", pass.replace("Results", "Results\u{a0}")),
        format!("{}\n{FROM}", pass.replace("dmarc", "dm\0arc")),
        format!("{}X: y\n{FROM}\n{pass}", "Received: x\n".repeat(1_000)),
    ] {
        assert_ne!(result(&header).0, ProofResult::Pass, "{header:?}");
    }
    let suffix = "Authentication-Results: mx.example.org; dmarc=pass; dkim=pass header.d=co.uk\nFrom: ada@bank.co.uk";
    assert_eq!(result(suffix).0, ProofResult::None);
    let nobody = ReadOptions { trusted_servers: Vec::new(), most_text: 9, most_files: 9, largest_file: 9 };
    let letter = crate::read(format!("{pass}\n{FROM}\n\nx").as_bytes(), &nobody).expect("a letter");
    assert_eq!(letter.proof, Proof { result: ProofResult::None, method: "none" });
}
