//! What the receiving server found out about the sender: `Authentication-Results` (RFC 8601).
//!
//! Only the topmost such field proves something: servers put theirs above what came. All others could be the sender's.
//! What is not written as the standard wants proves nothing.

use super::addresses::domain;
use super::fields::Fields;
use super::letter::{Proof, ProofResult};

/// What the sender writes. A server's finding stands above all of it.
const SENDERS_OWN: [&str; 7] = ["from", "to", "subject", "date", "message-id", "mime-version", "content-type"];
/// Domains below which anybody may have one: more than one label, and still nobody's own.
const ANYBODYS: &str = "\
    co.uk org.uk me.uk ltd.uk plc.uk ac.uk gov.uk net.uk com.au net.au org.au edu.au gov.au co.nz net.nz org.nz \
    co.jp ne.jp or.jp ac.jp go.jp com.br net.br org.br com.cn net.cn org.cn com.tw com.hk com.sg com.my co.in \
    net.in org.in co.kr or.kr co.za org.za com.mx com.ar com.tr com.ua com.pl net.pl org.pl co.il org.il co.at \
    or.at com.ru co.id com.ph com.vn co.th com.eg com.sa com.ng co.ke com.pk com.bd com.co com.pe com.ve com.ec \
    github.io gitlab.io blogspot.com herokuapp.com netlify.app vercel.app pages.dev workers.dev web.app \
    firebaseapp.com azurewebsites.net cloudfront.net amazonaws.com appspot.com onmicrosoft.com dyndns.org \
    ddns.net duckdns.org no-ip.org eu.org uk.com us.com de.com eu.com gb.com";

/// One method's result.
#[derive(Debug, PartialEq)]
struct Finding {
    method: String,
    result: String,
    /// `header.d` and such, in lower case; and what it says.
    properties: Vec<(String, String)>,
}

/// Who found out something, and what, as the topmost field says that could be a server's.
fn topmost(fields: &Fields<'_>) -> Option<(String, Vec<Finding>)> {
    let own = |name: &str| SENDERS_OWN.contains(&name);
    let top = fields.iter().take_while(|field| !own(&field.name)).find(|field| field.name == "authentication-results");
    parse(&top?.text())
}

/// Who put `Authentication-Results` on a letter, by the name that it gives itself: asked when a mailbox is connected, so
/// that its owner can say whom they believe. It proves nothing yet.
pub fn results_server(raw: &[u8]) -> Option<String> {
    topmost(&Fields::parse(raw).0).map(|(server, _)| server.to_ascii_lowercase())
}

/// Whether the From address's domain is proved to stand for the letter.
///
/// `address` is the one address of the one From field, if it is that.
pub(crate) fn proof(fields: &Fields<'_>, address: Option<&str>, trusted: &[String]) -> Proof {
    let nothing = Proof { result: ProofResult::None, method: "none" };
    let Some(from) = address.and_then(|address| address.rsplit_once('@')).map(|(_, domain)| domain) else {
        return nothing;
    };
    let Some((server, findings)) = topmost(fields) else { return nothing };
    if !is_trusted(&server, trusted) {
        return nothing;
    }
    let proof = judge(&findings, from);
    if proof.result == ProofResult::Pass {
        if fields.odd || !(is_sent_by(&findings, from) || is_covered(fields, from)) {
            return nothing;
        }
        // Whoever wrote the others: they can take away, and never give.
        let others = fields.all("authentication-results").skip(1).filter_map(|field| parse(&field.text()));
        for (server, findings) in others {
            if is_trusted(&server, trusted) && judge(&findings, from).result == ProofResult::Fail {
                return nothing;
            }
        }
    }
    proof
}

/// Whether a server of the domain itself handed the letter over (SPF): then nobody else passed it on.
fn is_sent_by(findings: &[Finding], from: &str) -> bool {
    let sender = |finding: &Finding| finding.of("smtp.mailfrom").and_then(|value| domain(value.rsplit('@').next()?));
    let mut passed = findings.iter().filter(|finding| finding.method == "spf" && finding.result == "pass");
    passed.any(|finding| sender(finding).is_some_and(|sender| is_below(&sender, from) || is_below(from, &sender)))
}

/// Whether the domain's signatures cover whom the letter is to and what it is about. What they don't name anybody can add
/// to a letter that was sent to somebody else, and send it on: the signature holds.
fn is_covered(fields: &Fields<'_>, from: &str) -> bool {
    let named = ["to", "cc", "subject"].into_iter().filter(|name| fields.has(name));
    let named: Vec<&str> = named.collect();
    fields.all("dkim-signature").all(|signature| {
        let text = signature.text();
        let tag = |name: &str| {
            let tags = text.split(';').filter_map(|tag| tag.split_once('='));
            tags.map(|(key, value)| (key.trim(), value)).find(|(key, _)| *key == name).map(|(_, value)| value)
        };
        let signer = tag("d").and_then(|signer| domain(signer.trim()));
        if !signer.is_some_and(|signer| is_below(&signer, from) || is_below(from, &signer)) {
            return true;
        }
        let covered = tag("h").unwrap_or_default().to_ascii_lowercase();
        let covered: Vec<&str> = covered.split(':').map(str::trim).collect();
        named.iter().all(|name| covered.contains(name))
    })
}

fn is_trusted(server: &str, trusted: &[String]) -> bool {
    !server.is_empty() && trusted.iter().any(|known| known.trim().eq_ignore_ascii_case(server))
}

/// What the findings of one server mean for a domain.
fn judge(findings: &[Finding], from: &str) -> Proof {
    let of = |result, method| Proof { result, method };
    let dmarc: Vec<&Finding> = findings.iter().filter(|finding| finding.method == "dmarc").collect();
    let dmarc: Vec<&Finding> =
        dmarc.into_iter().filter(|finding| ["pass", "fail"].contains(&finding.result.as_str())).collect();
    let signed = |aligned: &dyn Fn(&str) -> bool| {
        let mut signed = findings.iter().filter(|finding| finding.method == "dkim" && finding.result == "pass");
        signed.any(|finding| finding.signer().is_some_and(|signer| aligned(&signer)))
    };
    match dmarc.as_slice() {
        [] => match signed(&|signer| signer == from) {
            true => of(ProofResult::Pass, "dkim"),
            false => of(ProofResult::None, "none"),
        },
        [first, others @ ..] => {
            if others
                .iter()
                .any(|other| other.result != first.result || other.of("header.from") != first.of("header.from"))
            {
                return of(ProofResult::None, "none");
            }
            let named = first.of("header.from").map(|value| value.rsplit('@').next().and_then(domain));
            let fits = match &named {
                Some(named) => named.as_deref() == Some(from),
                None if first.result == "fail" => true,
                None => signed(&|signer| is_below(from, signer)),
            };
            match (fits, first.result.as_str()) {
                (true, "pass") => of(ProofResult::Pass, "dmarc"),
                (true, _) => of(ProofResult::Fail, "dmarc"),
                (false, _) => of(ProofResult::None, "none"),
            }
        }
    }
}

/// Whether a domain is another one, or below it where only its owner can be.
fn is_below(domain: &str, owner: &str) -> bool {
    let own = owner.contains('.') && !ANYBODYS.split_whitespace().any(|suffix| suffix == owner);
    domain == owner || own && domain.strip_suffix(owner).is_some_and(|rest| rest.ends_with('.'))
}

impl Finding {
    fn of(&self, name: &str) -> Option<&str> {
        self.properties.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The domain that signed.
    fn signer(&self) -> Option<String> {
        match (self.of("header.d"), self.of("header.i")) {
            (Some(signer), _) => domain(signer),
            (None, Some(identity)) => domain(identity.rsplit_once('@')?.1),
            (None, None) => None,
        }
    }
}

/// The server's name and what it found; `None`: it isn't written as it must be.
fn parse(value: &str) -> Option<(String, Vec<Finding>)> {
    let mut groups = words(value)?.into_iter();
    let mut head = groups.next()?.into_iter();
    let server = match head.next()? {
        Word::Plain(name) | Word::Quoted(name) => name,
        Word::Equals => return None,
    };
    match (head.next(), head.next()) {
        (None, _) => {}
        // The version of how it is written.
        (Some(Word::Plain(version)), None) if version == "1" => {}
        _ => return None,
    }
    let groups: Vec<Vec<Word>> = groups.collect();
    let mut findings = Vec::new();
    for (at, group) in groups.iter().enumerate() {
        let last = at + 1 == groups.len();
        match group.as_slice() {
            [] if last => {}
            [Word::Plain(none)] if last && findings.is_empty() && none.eq_ignore_ascii_case("none") => {}
            group => findings.push(finding(group)?),
        }
    }
    Some((server, findings))
}

/// `method=result name=value …`
fn finding(group: &[Word]) -> Option<Finding> {
    let mut pairs = Vec::new();
    let mut rest = group;
    while let [Word::Plain(name), Word::Equals, after @ ..] = rest {
        let [Word::Plain(value) | Word::Quoted(value), after @ ..] = after else { return None };
        let name = name.to_ascii_lowercase();
        // Said twice, it says nothing.
        if pairs.iter().any(|(known, _)| *known == name) {
            return None;
        }
        pairs.push((name, value.clone()));
        rest = after;
    }
    if !rest.is_empty() || pairs.is_empty() {
        return None;
    }
    let (method, result) = pairs.remove(0);
    let method = method.split('/').next().unwrap_or_default().to_owned();
    (!method.contains('.')).then(|| Finding { method, result: result.to_ascii_lowercase(), properties: pairs })
}

#[derive(Debug, PartialEq)]
enum Word {
    Plain(String),
    Quoted(String),
    Equals,
}

/// The words between the semicolons, without comments. `None`: something is opened and not closed, or the reverse.
fn words(value: &str) -> Option<Vec<Vec<Word>>> {
    let mut groups = vec![Vec::new()];
    let mut chars = value.chars().peekable();
    // The value behind a `=` may hold another one.
    let mut after_equals = false;
    while let Some(c) = chars.next() {
        let group = groups.last_mut()?;
        match c {
            ' ' | '\t' => {}
            '(' => skip_comment(&mut chars)?,
            ')' | '\\' => return None,
            ';' => {
                groups.push(Vec::new());
                after_equals = false;
            }
            '"' => {
                let mut text = String::new();
                loop {
                    match chars.next()? {
                        '"' => break,
                        '\\' => text.push(chars.next()?),
                        c => text.push(c),
                    }
                }
                group.push(Word::Quoted(text));
                after_equals = false;
                // Text that goes on behind its quotes is read differently by everybody, but for an address's domain.
                let mut behind = String::new();
                while let Some(c) = chars.next_if(|c| !" \t;(".contains(*c)) {
                    behind.push(c);
                }
                match (group.last_mut(), behind.starts_with('@')) {
                    (_, _) if behind.is_empty() => {}
                    (Some(Word::Quoted(text)), true) if !behind.contains(['"', '=', ')', '\\']) => {
                        text.push_str(&behind)
                    }
                    _ => return None,
                }
            }
            '=' if !after_equals => {
                group.push(Word::Equals);
                after_equals = true;
            }
            c if c.is_control() => return None,
            c => {
                let mut text = String::from(c);
                let ends = |c: &char| " \t;()\"\\".contains(*c) || *c == '=' && !after_equals || c.is_control();
                while let Some(c) = chars.next_if(|c| !ends(c)) {
                    text.push(c);
                }
                if chars.peek().is_some_and(|c| matches!(c, '"' | ')' | '\\')) {
                    return None;
                }
                group.push(Word::Plain(text));
                after_equals = false;
            }
        }
    }
    Some(groups)
}

fn skip_comment(chars: &mut impl Iterator<Item = char>) -> Option<()> {
    let mut depth = 1;
    while depth > 0 {
        match chars.next()? {
            '(' => depth += 1,
            ')' => depth -= 1,
            '\\' => {
                chars.next()?;
            }
            _ => {}
        }
    }
    Some(())
}

#[cfg(test)]
#[path = "authentication_tests.rs"]
mod tests;
