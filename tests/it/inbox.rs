//! Messages handed in on the command line, looked at, taken up again, and given to another butler.

use std::fmt::Write;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::inbound::{ended, ingest, message};
use crate::support::{Household, eventually, model};

/// A message for one butler.
fn pinned(id: &str, text: &str, butler: &str) -> Value {
    let mut message = message(id, &format!("thread-{id}"), text);
    message["control"]["pinned_target"] = json!(butler);
    message
}

fn read(out: &str) -> Value {
    serde_json::from_str(out).unwrap_or_else(|e| panic!("{e}: {out}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_messages_are_handed_in_and_the_refused_ones_named() {
    let model = model(json!([{"when": "hello", "steps": [{"say": "Hello."}]}])).await;
    let household = Household::with_model(&model);
    let daemon = household.start().await;
    let (one, two) = (pinned("1", "hello", "general"), pinned("2", "hello again", "general"));
    let mut bad = pinned("3", "hello", "general");
    bad.as_object_mut().expect("an object").remove("sender");
    let input = format!("{one}\n\n{one}\n{bad}\nnot at all\n{two}\n");
    let (code, out, err) = household.cli_with_input(&["ingest"], &input);
    assert_eq!(code, 1, "{out}{err}");
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].starts_with("line 1: accepted as ") && !lines[0].contains("known"), "{out}");
    assert!(lines[1].starts_with("line 3: accepted as ") && lines[1].ends_with("known already"), "{out}");
    assert!(lines[2].starts_with("line 4: refused: ") && lines[2].contains("sender"), "{out}");
    assert!(lines[3].starts_with("line 5: refused: It is not valid JSON"), "{out}");
    assert!(lines[4].starts_with("line 6: accepted as "), "{out}");
    assert!(err.contains("2 refused: line 4, 5"), "{err}");
    // A file with one envelope over several lines.
    let file = household.path().join("one.json");
    std::fs::write(&file, serde_json::to_string_pretty(&pinned("4", "hello", "general")).expect("JSON"))
        .expect("a file");
    let (code, out, err) = household.cli(&["ingest", &file.to_string_lossy(), "--json"]);
    let answer = read(&out);
    assert_eq!((code, &answer["line"], &answer["duplicate"]), (0, &json!(1), &json!(false)), "{out}{err}");
    assert_eq!(ended(&daemon, answer["request_id"].as_str().expect("an id")).await["state"], "done");
    let (code, _, err) = household.cli(&["ingest", "/nowhere/at/all"]);
    assert!(code == 2 && err.contains("/nowhere/at/all"), "{code} {err}");
    household.at_rest("after all of them").await;
    drop(daemon);
    assert_eq!(household.cli_with_input(&["ingest", "-"], &one.to_string()).0, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_message_is_taken_up_again_by_hand_and_really_runs() {
    let log = json!({"call": {"tool": "measurement_log", "arguments": {"kind": "weight", "value": {"kg": 82}}}});
    let model = model(json!([
        {"when": "I weigh 82", "steps": [log, {"fail": {"status": 400, "times": 1}}, {"say": "Logged."}]}]))
    .await;
    let household = Household::with_model(&model).env("BUTLERD_OWNER__IDENTITIES__TELEGRAM", "4711");
    let daemon = household.start().await;
    let (_, accepted) = ingest(&daemon, &pinned("1", "I weigh 82", "health")).await;
    let id = accepted["request_id"].as_str().expect("an id").to_owned();
    let entry = ended(&daemon, &id).await;
    assert_eq!((&entry["state"], &entry["replies"][0]["kind"]), (&json!("dead"), &json!("failure")), "{entry}");
    let (_, out, _) = household.cli(&["inbox", "list", "--state", "dead"]);
    assert!(out.contains(&id[..13]) && out.contains("I weigh 82"), "{out}");
    let (code, out, err) = household.cli(&["inbox", "retry", &id]);
    assert!(code == 0 && out.contains("may be taken again: health: measurement_log"), "{code} {out}{err}");
    let entry = ended(&daemon, &id).await;
    assert_eq!((&entry["state"], &entry["last_error"]), (&json!("done"), &Value::Null), "{entry}");
    let states: Vec<&Value> = entry["segments"].as_array().expect("parts").iter().map(|s| &s["state"]).collect();
    assert_eq!(states, ["rerouted", "done"], "{entry}");
    assert_eq!(entry["replies"][1]["message"], "Logged.", "{entry}");
    let history = daemon.mcp("health").ok("measurement_history", json!({"kind": "weight"})).await;
    assert_eq!(history.as_array().map(Vec::len), Some(2), "it ran a second time: {history}");
    let (code, _, err) = household.cli(&["inbox", "retry", &id]);
    assert!(code == 1 && err.contains("is not dead"), "{code} {err}");
    let (code, _, err) = household.cli(&["inbox", "retry", "0190a0a0-0000-7000-8000-000000000000"]);
    assert!(code == 1 && err.contains("There is no message"), "{code} {err}");
    household.at_rest("after the retry").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_given_to_another_butler_and_a_rule_proposed() {
    let model = model(json!([{"when": "rent is due", "steps": [{"say": "The rent is noted."}]}])).await;
    let household = Household::whole_with_model(&model);
    let daemon = household.start().await;
    let (_, accepted) = ingest(&daemon, &pinned("1", "the rent is due", "general")).await;
    let id = accepted["request_id"].as_str().expect("an id").to_owned();
    assert_eq!(ended(&daemon, &id).await["segments"][0]["butler"], "general");
    let (code, _, err) = household.cli(&["inbox", "reroute", &id, "gardener"]);
    assert!(code == 1 && err.contains("gardener") && err.contains("finance"), "{code} {err}");
    let (code, out, err) = household.cli(&["inbox", "reroute", &id, "finance"]);
    assert_eq!(code, 0, "{out}{err}");
    let rule = out.lines().map(str::trim).find(|line| line.starts_with("butlerd rules add")).expect("a rule");
    assert_eq!(rule, "butlerd rules add chat_id thread-1 route_to finance");
    let typed: Vec<&str> = rule.split(' ').skip(1).collect();
    let (code, out, err) = household.cli(&typed);
    assert_eq!(code, 0, "the proposed rule can be typed as it is: {out}{err}");
    let entry = ended(&daemon, &id).await;
    let parts: Vec<(&str, &str, &str)> = entry["segments"]
        .as_array()
        .expect("parts")
        .iter()
        .map(|s| ["butler", "state", "chosen_by"].map(|key| s[key].as_str().unwrap_or_default()).into())
        .collect();
    assert_eq!(parts, [("general", "rerouted", "pinned"), ("finance", "done", "operator")], "{entry}");
    let who: Vec<&Value> = entry["replies"].as_array().expect("replies").iter().map(|r| &r["butler"]).collect();
    assert_eq!(who, ["general", "finance"], "{entry}");
    let (code, out, _) = household.cli(&["inbox", "show", &id]);
    assert!(code == 0 && out.contains("finance: (sent for it) The rent is noted."), "{out}");
    let (_, out, _) = household.cli(&["inbox", "show", &id, "--json"]);
    assert_eq!(read(&out)["request_id"], json!(id));
    let (code, _, err) = household.cli(&["inbox", "reroute", &id, "health", "--part", "7"]);
    assert!(code == 1 && err.contains("has no part 7; it has: 2 (finance)"), "{code} {err}");
    household.at_rest("after the reroute").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_that_are_handed_in_outlast_a_restart_of_the_daemon() {
    const LINES: i64 = 1500;
    let household = Arc::new(Household::new());
    let mut daemon = household.start().await;
    let mut input = String::new();
    for n in 0..LINES {
        let mut message = pinned(&n.to_string(), "for the record", "general");
        message["payload"]["raw"] = Value::Null;
        message["control"]["ingestion_tier"] = json!("metadata");
        writeln!(input, "{message}").expect("a line");
    }
    let file = household.path().join("many.jsonl");
    std::fs::write(&file, input).expect("a file");
    let handing_in = {
        let household = household.clone();
        tokio::task::spawn_blocking(move || household.cli(&["ingest", &file.to_string_lossy()]))
    };
    let client = household.owner().await;
    let count = "SELECT count(*) FROM switchboard.message_inbox";
    eventually("some are stored", || async {
        match client.query_one(count, &[]).await.map_err(|e| e.to_string())?.get::<_, i64>(0) {
            n if n > 50 => Ok(()),
            n => Err(format!("{n}")),
        }
    })
    .await;
    daemon.kill();
    let _daemon = household.start().await;
    let (code, out, err) = handing_in.await.expect("the command's end");
    assert_eq!(code, 0, "{err}");
    assert_eq!(out.lines().filter(|line| line.contains(": accepted as ")).count(), 1500);
    let stored = household.owner().await.query_one(count, &[]).await.expect("a count");
    assert_eq!(stored.get::<_, i64>(0), LINES, "each once: {err}");
}
