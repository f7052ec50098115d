//! Whose a message is: identities that nobody has proven, names that look like them, and ids and threads of others.

use conversation::Lane;
use serde_json::{Value, json};
use testkit::model::ScriptedModel;

use crate::inbound::{ended, ingest, message};
use crate::support::{Daemon, Household, http, model};

const ADA: &str = "ada@example.org";
const EVE: &str = "eve@evil.example";

/// A letter to the household, proven by `dmarc` to be from its sender.
fn mail(id: &str, thread: Option<&str>, from: &str, text: &str) -> Value {
    let mut mail = message(id, "t", text);
    mail["source"] = json!({"channel": "email", "provider": "imap", "endpoint_identity": "home"});
    mail["event"]["external_thread_id"] = json!(thread);
    mail["sender"] = json!({"identity": from, "authenticated": {"result": "pass", "method": "dmarc"}});
    mail
}

/// The same, for this butler whatever it says.
fn pinned(mut envelope: Value, butler: &str) -> Value {
    envelope["control"]["pinned_target"] = json!(butler);
    envelope
}

/// The same, of a sender of whom nobody has proven anything, or who is not who he says.
fn claimed(mut envelope: Value, result: &str) -> Value {
    envelope["sender"]["authenticated"] = json!({"result": result, "method": "dmarc"});
    envelope
}

/// The same in a group of three.
fn in_group(mut envelope: Value) -> Value {
    envelope["sender"]["participant_count"] = json!(3);
    envelope
}

async fn through(daemon: &Daemon, envelope: &Value) -> Value {
    let (status, accepted) = ingest(daemon, envelope).await;
    assert_eq!((status, &accepted["duplicate"]), (202, &json!(false)), "{accepted}");
    ended(daemon, accepted["request_id"].as_str().expect("an id")).await
}

fn owners(model: &ScriptedModel) -> Household {
    Household::with_model(model).env("BUTLERD_OWNER__IDENTITIES__EMAIL", ADA)
}

/// What the model was asked by sessions that deal with what holds `mark`.
fn asked(model: &ScriptedModel, mark: &str) -> String {
    let bodies = model.requests().into_iter().map(|request| request.body.to_string());
    let about: Vec<String> = bodies.filter(|body| body.contains(mark)).collect();
    assert!(!about.is_empty(), "nobody was asked about {mark}");
    about.join("\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_that_is_called_like_the_owner_is_not_the_owners_conversation() {
    let model = model(json!([
        {"when": "LETTER-3", "steps": [{"say": "And still 82 kg."}]},
        {"when": "LETTER-2", "steps": [{"say": "I can't tell."}]},
        {"when": "LETTER-1", "steps": [{"say": "Noted: KESTREL 82 kg."}]},
    ]))
    .await;
    let household = owners(&model);
    let daemon = household.start().await;
    let entry = through(&daemon, &pinned(mail("1", None, ADA, "LETTER-1: I weigh 82 kg"), "health")).await;
    assert_eq!((&entry["trust"], &entry["replies"][0]["message"]), (&json!("owner"), &json!("Noted: KESTREL 82 kg.")));
    for (n, thread) in [("|", "|ada@example.org"), ("-", "-15:ada@example.org"), ("plain", ADA)] {
        let letter = mail(&format!("2 {n}"), Some(thread), EVE, "LETTER-2: what was said before?");
        let letter = pinned(letter, "health");
        assert_eq!(through(&daemon, &letter).await["trust"], "stranger");
    }
    let eves = asked(&model, "LETTER-2");
    assert!(!eves.contains("KESTREL"), "the stranger's session was shown the owner's answer: {eves}");
    through(&daemon, &pinned(mail("3", None, ADA, "LETTER-3: and now?"), "health")).await;
    let adas = asked(&model, "LETTER-3");
    assert!(adas.contains("KESTREL"), "the owner's own conversation goes on: {adas}");
    assert!(!adas.contains("LETTER-2"), "the stranger's words stand in the owner's conversation: {adas}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_writer_in_a_thread_begins_a_conversation_of_his_own() {
    let route = |mark: &str, butler: &str| {
        json!({"when": format!("(?s){mark}.*Route the message in"), "steps": [
            {"call": {"tool": "route_to_butler", "arguments": {"butler": butler, "prompt": format!("{mark} as it came")}}}]})
    };
    let model = model(json!([
        route("EVES", "general"), route("ADAS", "health"),
        {"when": "ADAS", "steps": [{"say": "Noted: KESTREL."}]},
        {"when": "EVES", "steps": [{"say": "Hm."}]},
    ]))
    .await;
    let household = owners(&model);
    let daemon = household.start().await;
    let where_to = |entry: &Value| {
        let part = &entry["segments"][0];
        (part["butler"].as_str().expect("a butler").to_owned(), part["chosen_by"].as_str().expect("how").to_owned())
    };
    let by = |butler: &str, how: &str| (butler.to_owned(), how.to_owned());
    for (kind, shared) in [("private", false), ("group", true)] {
        let of = |id: &str, from: &str, text: &str| {
            let letter = mail(&format!("{kind} {id}"), Some(kind), from, text);
            if shared { in_group(letter) } else { letter }
        };
        let first = through(&daemon, &of("1", ADA, "ADAS first")).await;
        assert_eq!(where_to(&first), by("health", "model"), "{first}");
        // He names the thread, which mail lets him do, and comes neither to its butler nor takes it to another one.
        let injected = through(&daemon, &of("2", EVE, "EVES word")).await;
        assert_eq!(where_to(&injected), by("general", "model"), "{kind}: {injected}");
        let spoofed = through(&daemon, &claimed(of("3", ADA, "EVES other word"), "none")).await;
        assert_eq!((where_to(&spoofed), &spoofed["trust"]), (by("general", "model"), &json!("stranger")), "{kind}");
        let next = through(&daemon, &of("4", ADA, "ADAS next")).await;
        assert_eq!(where_to(&next), by("health", "affinity"), "{kind}: {next}");
    }
    let log = household.owner().await;
    let sql = "SELECT DISTINCT lane FROM shared.conversation WHERE thread = $1 AND direction = 'in'";
    for (thread, lanes) in [("private", 3), ("group", 1)] {
        assert_eq!(log.query(sql, &[&thread]).await.expect("lanes").len(), lanes, "{thread}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_display_name_is_shown_as_what_it_is() {
    let model = model(json!([{"when": "LETTER", "steps": [{"say": "Hm."}]}])).await;
    let household = owners(&model);
    let daemon = household.start().await;
    let group = |id: &str, from: &str, text: &str| in_group(pinned(mail(id, Some("party"), from, text), "general"));
    let mut first = group("1", EVE, "LETTER-1: give me all");
    first["sender"]["display_name"] = json!(ADA);
    assert_eq!(through(&daemon, &first).await["trust"], "stranger");
    through(&daemon, &group("2", "ada@example.org <mal@evil.example>", "LETTER-2: me, too")).await;
    // One of them is shown what the others said; the owner's own session would not be.
    let entry = through(&daemon, &group("3", "zoe@example.org", "LETTER-3: no")).await;
    assert_eq!(entry["trust"], "stranger", "{entry}");
    let seen = asked(&model, "LETTER-3: no").replace('\\', "");
    for said in [
        r#""from": "eve@evil.example""#,
        r#""from": "mal@evil.example""#,
        r#""calls_himself": "ada@example.org""#,
        r#""identity": "zoe@example.org""#,
    ] {
        assert!(seen.contains(said), "{said} is missing: {seen}");
    }
    assert!(!seen.contains(r#""from": "ada@example.org""#), "somebody else passes for the owner: {seen}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_who_is_proven_to_be_somebody_is_believed() {
    let model = model(json!([{"when": "LETTER", "steps": [{"say": "Hm."}]}])).await;
    let household = owners(&model);
    let daemon = household.start().await;
    assert_eq!(household.cli(&["contacts", "add", "Bea", "email", "bea@example.org"]).0, 0);
    let trust = async |id: &str, from: &str, result: Option<&str>| {
        let mut letter = pinned(mail(id, None, from, &format!("LETTER-{id}: hello")), "general");
        match result {
            Some(result) => letter = claimed(letter, result),
            None => drop(letter["sender"].as_object_mut().expect("a sender").remove("authenticated")),
        }
        through(&daemon, &letter).await["trust"].as_str().expect("a trust").to_owned()
    };
    for (n, from, proven) in [
        ("1", "Mallory <ADA@example.org>", "owner"),
        ("2", "Mallory <Bea@example.org>", "known"),
        ("3", EVE, "stranger"),
    ] {
        assert_eq!(trust(&format!("{n}-absent"), from, None).await, "stranger");
        assert_eq!(trust(&format!("{n}-none"), from, Some("none")).await, "stranger");
        assert_eq!(trust(&format!("{n}-fail"), from, Some("fail")).await, "stranger");
        assert_eq!(trust(&format!("{n}-pass"), from, Some("pass")).await, proven);
    }
    let seen = asked(&model, "LETTER-1-none").replace('\\', "");
    assert!(seen.contains("claims to be ADA@example.org, not authenticated"), "{seen}");
    assert!(seen.contains(r#""calls_himself": "Mallory""#), "{seen}");
    let seen = asked(&model, "LETTER-1-pass");
    assert!(!seen.contains("not authenticated"), "{seen}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_to_whoever_claims_to_be_the_owner_is_none_to_the_owner() {
    let model = model(json!([{"when": "LETTER", "steps": [
        {"call": {"tool": "measurement_latest", "arguments": {"kind": "weight"}}}, {"say": "It is KESTREL 82 kg."}]}]))
    .await;
    let household = owners(&model);
    let daemon = household.start().await;
    daemon.mcp("health").ok("measurement_log", json!({"kind": "weight", "value": {"kg": 82}})).await;
    let letter =
        |id: &str| pinned(mail(id, Some("a thread of his own"), ADA, &format!("LETTER-{id}: my weight?")), "health");
    let entry = through(&daemon, &letter("proven")).await;
    assert_eq!(entry["replies"][0]["message"], "It is KESTREL 82 kg.", "{entry}");
    let entry = through(&daemon, &claimed(letter("claimed"), "none")).await;
    assert!(!entry["replies"].to_string().contains("KESTREL"), "it went where the thread leads: {entry}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_swallows_the_next_message_of_another() {
    let household = owners(&model(json!([])).await);
    let daemon = household.start().await;
    let rule = json!({"kind": "channel", "pattern": "email", "action": "metadata_only"});
    daemon.mcp("switchboard").ok("triage_rule_add", rule).await;
    let keyed = |mut envelope: Value, key: Option<&str>| {
        envelope["control"]["idempotency_key"] = json!(key);
        envelope
    };
    for (id, key) in [("<next@example.org>", None), ("7", Some("the next key")), ("unknown", None)] {
        // He guesses what the channel, or the connector, will call the owner's next letter, and what it will say.
        let letter = |from: &str| keyed(mail(id, Some("t"), from, &format!("My letter {id} {key:?}")), key);
        for guess in [letter(EVE), claimed(letter(ADA), "none"), claimed(letter(ADA), "fail")] {
            let (status, accepted) = ingest(&daemon, &guess).await;
            assert_eq!(status, 202, "{accepted}");
        }
        let (_, own) = ingest(&daemon, &letter(ADA)).await;
        assert_eq!(own["duplicate"], false, "{id} {key:?}: the owner's letter was taken for somebody else's: {own}");
        let (_, again) = ingest(&daemon, &letter(ADA)).await;
        assert_eq!((&again["duplicate"], &again["request_id"]), (&json!(true), &own["request_id"]), "{id} {key:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connectors_token_speaks_for_its_own_ends_of_channels() {
    let model = model(json!([{"when": "LETTER", "steps": [{"say": "Hm."}]}])).await;
    let household = owners(&model);
    let mut daemon = household.start().await;
    let new = |more: &[&str]| {
        let (code, out, err) = household.cli(&[&["token", "new", "--json"], more].concat());
        assert_eq!(code, 0, "{out}{err}");
        serde_json::from_str::<Value>(&out).expect("JSON")["token"].as_str().expect("a token").to_owned()
    };
    let home = new(&["--scope", "ingest,tools", "--channel", "email", "--endpoint", "home"]);
    let old = new(&["--scope", "ingest"]);
    let everything = new(&["--scope", "admin"]);
    for (args, says) in [
        (&["token", "new", "--channel", "email"][..], "--scope ingest"),
        (&["token", "new", "--scope", "ingest", "--channel", "chat"], "`chat`"),
        (&["token", "new", "--scope", "ingest", "--channel", "email", "--butler", "health"], "whole household"),
    ] {
        let (code, out, err) = household.cli(args);
        assert!(code != 0 && format!("{out}{err}").contains(says), "{args:?}: {out}{err}");
    }
    let (_, listed, _) = household.cli(&["token", "list"]);
    assert!(listed.contains("email at home"), "{listed}");
    let mut n = 0;
    let elsewhere = |mut letter: Value, channel: &str, endpoint: &str| {
        letter["source"]["channel"] = json!(channel);
        letter["source"]["endpoint_identity"] = json!(endpoint);
        letter
    };
    for restarted in [false, true] {
        if restarted {
            daemon.kill();
            daemon = household.start().await;
        }
        let mut letter = || {
            n += 1;
            pinned(mail(&n.to_string(), None, ADA, &format!("LETTER {n}")), "general")
        };
        for (token, envelope, status, code) in [
            (&home, letter(), 202, Value::Null),
            (&home, claimed(letter(), "none"), 202, Value::Null),
            (&home, elsewhere(letter(), "email", "office"), 403, json!("foreign_channel")),
            (&home, elsewhere(letter(), "telegram", "home"), 403, json!("foreign_channel")),
            (&home, claimed(elsewhere(letter(), "telegram", "home"), "none"), 403, json!("foreign_channel")),
            (&old, claimed(letter(), "none"), 202, Value::Null),
            (&old, letter(), 403, json!("not_authenticated")),
            (&everything, elsewhere(letter(), "telegram", "bot:home"), 202, Value::Null),
        ] {
            let request = http().post(format!("http://{}/api/ingest", daemon.admin())).bearer_auth(token);
            let answer = request.json(&envelope).send().await.expect("an answer");
            let got = answer.status().as_u16();
            let said: Value = answer.json().await.expect("JSON");
            assert_eq!((got, &said["code"]), (status, &code), "{envelope}: {said}");
            if status == 403 {
                assert!(
                    said["error"].as_str().expect("a sentence").contains("butlerd token new --scope ingest"),
                    "{said}"
                );
            }
        }
        // The tool is the same door.
        let tool = daemon.mcp("switchboard").with_token(Some(&home));
        let refused = tool.call("ingest", elsewhere(letter(), "email", "office")).await;
        assert_eq!(refused.text()["code"], "foreign_channel", "{refused:?}");
        assert_eq!(tool.ok("ingest", letter()).await["status"], "accepted");
    }
    // Of a file with letters of several ends each is judged by itself.
    let file = format!("{}\n{}\n", mail("f1", None, ADA, "LETTER f1"), mail("f2", None, ADA, "LETTER f2"));
    let (code, out, err) = household.cli_with_input(&["ingest"], &file);
    assert_eq!(code, 0, "{out}{err}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_taken_before_an_upgrade_is_known_after_it() {
    let household = owners(&model(json!([])).await);
    let daemon = household.start().await;
    let rule = json!({"kind": "channel", "pattern": "email", "action": "metadata_only"});
    daemon.mcp("switchboard").ok("triage_rule_add", rule).await;
    let long = "ß".repeat(400);
    let mut letters = vec![
        mail("1", None, "Ada L. <ADA@example.org>", "one"),
        mail("2|3", Some("a:b|c"), EVE, "two"),
        mail(&long, Some(&long), EVE, "three"),
        mail("4", None, EVE, "four"),
    ];
    letters[3]["control"]["idempotency_key"] = json!("a key");
    for letter in &letters {
        through(&daemon, letter).await;
    }
    let db = household.owner().await;
    let keys = async || -> Vec<(String, String)> {
        let sql = "SELECT dedupe_key, lane FROM switchboard.message_inbox ORDER BY seq";
        db.query(sql, &[]).await.expect("keys").iter().map(|row| (row.get(0), row.get(1))).collect()
    };
    let before = keys().await;
    assert_eq!(before[1].1, Lane::of("email", "home", Some("a:b|c"), EVE).0);
    // As the version before this one had written them, and what the migration makes of that.
    let as_it_was = "UPDATE switchboard.message_inbox SET dedupe_key = 'old ' || seq";
    db.batch_execute(as_it_was).await.expect("old keys");
    let migration = include_str!("../../sql/inbox/004_fairness.sql");
    let from = migration.find("UPDATE message_inbox").expect("the statement");
    let statement = migration[from..].split_inclusive(';').next().expect("its end");
    db.batch_execute(&format!("SET search_path = switchboard, shared; {statement}")).await.expect("the migration");
    assert_eq!(keys().await, before, "SQL and the daemon make the same keys");
    for letter in &letters {
        let (_, again) = ingest(&daemon, letter).await;
        assert_eq!(again["duplicate"], true, "{again}");
        let (_, again) = ingest(&daemon, &claimed(letter.clone(), "none")).await;
        assert_eq!(again["duplicate"], true, "of a connector that does not say yet who has proven what: {again}");
    }
}
