//! What becomes of a message before any model is asked: rules, their order, their changes, and trying them out; threads
//! that stay with their butler.

use serde_json::{Value, json};

use conversation::Lane;
use testkit::model::ScriptedModel;

use crate::inbound::{ended, ingest, message};
use crate::support::{Daemon, Household, child_environment, model};

/// A model for whom everything is general's, and that answers `ok` there.
async fn anybody() -> ScriptedModel {
    model(json!([
        {"when": "Route the message in", "steps": [
            {"call": {"tool": "route_to_butler", "arguments": {"butler": "general", "prompt": "as it came"}}}]},
        {"when": "(?s).*", "steps": [{"say": "ok"}]},
    ]))
    .await
}

/// How often a model was asked whose a message is.
fn classified(model: &ScriptedModel) -> usize {
    model.requests().iter().filter(|request| request.body.to_string().contains("Route the message in")).count()
}

fn mail(id: &str, thread: &str, from: &str, text: &str) -> Value {
    let mut mail = message(id, thread, text);
    mail["source"] = json!({"channel": "email", "provider": "imap", "endpoint_identity": "home"});
    mail["sender"] = json!({"identity": from, "authenticated": {"result": "pass", "method": "dmarc"}});
    mail
}

/// Hands a message in and waits for its end.
async fn through(daemon: &Daemon, envelope: &Value) -> (Value, Value) {
    let (status, accepted) = ingest(daemon, envelope).await;
    assert_eq!(status, 202, "{accepted}");
    let entry = ended(daemon, accepted["request_id"].as_str().expect("an id")).await;
    (accepted, entry)
}

async fn add(daemon: &Daemon, rule: Value) -> String {
    let added = daemon.mcp("switchboard").ok("triage_rule_add", rule).await;
    added["id"].as_str().unwrap_or_else(|| panic!("{added}")).to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_decide_without_a_model_in_their_order() {
    let model = anybody().await;
    let household = Household::with_model(&model);
    let daemon = household.start().await;
    add(&daemon, json!({"kind": "sender_domain", "pattern": "shop.example", "action": "skip"})).await;
    add(&daemon, json!({"kind": "header", "pattern": "List-Id: news", "action": "metadata_only"})).await;
    add(&daemon, json!({"kind": "substring", "pattern": "blood pressure", "action": "route_to", "butler": "health"}))
        .await;
    let (accepted, entry) = through(&daemon, &mail("1", "t1", "Deals <x@a.shop.example>", "Offers!")).await;
    assert_eq!(
        (accepted["triage_decision"].as_str(), entry["state"].as_str()),
        (Some("skip"), Some("done")),
        "{entry}"
    );
    assert_eq!(entry["segments"], json!([]), "{entry}");
    let mut news = mail("2", "t2", "n@list.example", "The news");
    news["payload"]["raw"] = json!({"headers": {"List-Id": "<news.list.example>"}});
    let (accepted, entry) = through(&daemon, &news).await;
    assert_eq!(accepted["triage_decision"], "metadata_only", "{accepted}");
    assert_eq!((entry["state"].as_str(), &entry["replies"]), (Some("done"), &json!([])), "{entry}");
    assert_eq!(model.requests().len(), 0, "nobody was asked anything");
    let (accepted, entry) = through(&daemon, &message("3", "c3", "My blood pressure is 120/80")).await;
    assert_eq!(accepted["triage_target"], "health", "{accepted}");
    assert_eq!(entry["segments"][0]["butler"], "health", "{entry}");
    assert_eq!(entry["segments"][0]["chosen_by"], "rule", "{entry}");
    assert_eq!(classified(&model), 0, "the rule said whose it is");
    // A rule that lets it pass stands before the one that would have taken it.
    add(&daemon, json!({"kind": "chat_id", "pattern": "c4", "action": "pass", "position": 1})).await;
    let (accepted, entry) = through(&daemon, &message("4", "c4", "My blood pressure is 120/80")).await;
    assert_eq!(accepted["triage_decision"], "pass_through", "{accepted}");
    assert_eq!(entry["segments"][0]["butler"], "general", "{entry}");
    assert_eq!(classified(&model), 1);
    add(&daemon, json!({"kind": "channel", "pattern": "email", "action": "low_priority"})).await;
    let (accepted, entry) = through(&daemon, &mail("5", "t5", "a@b.example", "When you have time")).await;
    assert_eq!(accepted["triage_decision"], "low_priority_queue", "{accepted}");
    assert_eq!((entry["tier"].as_str(), entry["state"].as_str()), (Some("default"), Some("done")), "{entry}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_are_changed_by_people_and_tried_before() {
    let model = anybody().await;
    let household = Household::whole_with_model(&model);
    let daemon = household.start().await;
    let skip = |id: &str| mail(id, id, "x@shop.example", "Offers of the week");
    through(&daemon, &skip("1")).await;
    through(&daemon, &message("2", "c", "hello")).await;
    let cli = |args: &[&str]| {
        let (code, out, err) = household.cli(args);
        (code, format!("{out}{err}"))
    };
    let (code, said) = cli(&["rules", "test", "sender_domain", "shop.example", "skip", "--json"]);
    let found: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!((code, &found["looked_at"], &found["fitted"]), (0, &json!(2), &json!(1)), "{said}");
    assert_eq!(found["messages"][0]["would"], "skip", "{said}");
    assert_eq!(found["messages"][0]["was"], Value::Null, "{said}");
    let (code, said) = cli(&["rules", "list"]);
    assert!(code == 0 && said.contains("No rules."), "a dry run changes nothing: {said}");
    let (code, said) =
        cli(&["rules", "add", "sender_domain", "shop.example", "skip", "--position", "5", "--note", "ads", "--json"]);
    let rule: Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!((code, rule["position"].as_i64(), rule["note"].as_str()), (0, Some(5), Some("ads")), "{said}");
    let id = rule["id"].as_str().expect("an id").to_owned();
    let (accepted, _) = through(&daemon, &skip("3")).await;
    assert_eq!(accepted["triage_decision"], "skip", "{accepted}");
    assert_eq!(cli(&["rules", "disable", &id]).0, 0);
    let (accepted, _) = through(&daemon, &skip("4")).await;
    assert_eq!(accepted["triage_decision"], Value::Null, "a rule that is off decides nothing");
    let (_, said) = cli(&["rules", "test", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&said).expect("JSON")["fitted"], 0, "{said}");
    let (_, said) = cli(&["rules", "test", "--id", &id]);
    assert!(said.contains("3 of 4 messages would be decided"), "{said}");
    assert_eq!(cli(&["rules", "enable", &id]).0, 0);
    let (_, said) = cli(&["rules", "list"]);
    assert!(said.contains("shop.example") && said.contains("ads"), "{said}");
    assert_eq!(cli(&["rules", "rm", &id]).0, 0);
    for (args, expected) in [
        (&["rules", "rm", id.as_str()][..], "no rule of that id"),
        (&["rules", "add", "substring", "x", "route_to", "nobody"], "There is no butler `nobody`"),
        (&["rules", "add", "substring", "x", "route_to"], "finance, general, health"),
        (&["rules", "add", "substring", "x", "skip", "health"], "Only route_to takes a butler"),
        (&["rules", "add", "weather", "x", "skip"], "must be one of"),
        (&["rules", "add", "mime_type", "pdf", "skip"], "is not a type"),
    ] {
        let (code, said) = cli(args);
        assert!(code == 1 && said.contains(expected), "{args:?}: {code} {said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_cannot_change_rules() {
    let model = model(json!([{"when": "wait", "steps": [{"hang": true}]}])).await;
    let household = Household::with_model(&model).env("BUTLERD_SPAWNER__TOOL_BUDGET", "0");
    let daemon = household.start().await;
    let (code, out, err) = household.cli(&["tool", "call", "switchboard", "state_list"]);
    assert_eq!(code, 0, "{out}{err}");
    let running = {
        let switchboard = daemon.mcp("switchboard");
        tokio::spawn(async move { switchboard.call("trigger", json!({"prompt": "wait"})).await })
    };
    let (environment, _) = child_environment(&household).await;
    let servers: Value = serde_json::from_str(&environment["MCP_SERVERS"]).expect("JSON");
    let text = servers.to_string();
    let at = text.find("Bearer ").expect("a token") + "Bearer ".len();
    let token: String = text[at..].chars().take_while(|c| !matches!(c, '"' | '\\')).collect();
    let session = daemon.mcp("switchboard").with_token(Some(&token));
    let listed = session.tools().await;
    assert!(listed.iter().any(|tool| tool == "triage_rule_list"), "{listed:?}");
    for tool in ["triage_rule_add", "triage_rule_remove", "contact_identity_add"] {
        assert!(!listed.iter().any(|name| name == tool), "{tool} is shown to a session");
        let answer = session.call(tool, json!({"kind": "channel", "pattern": "email", "action": "skip"})).await;
        assert_eq!(answer.status, 403, "{answer:?}");
    }
    assert_eq!(session.ok("triage_rule_list", json!({})).await, json!([]));
    running.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_of_letters_stays_with_its_butler_until_that_expires() {
    let model = anybody().await;
    let household = Household::with_model(&model);
    let daemon = household.start().await;
    let (_, entry) = through(&daemon, &mail("1", "t", "a@b.example", "A question")).await;
    assert_eq!(entry["segments"][0]["chosen_by"], "model", "{entry}");
    let (_, entry) = through(&daemon, &mail("2", "t", "a@b.example", "And another")).await;
    assert_eq!(entry["segments"][0]["chosen_by"], "affinity", "{entry}");
    assert_eq!(classified(&model), 1, "the second letter needed no model");
    let (_, entry) = through(&daemon, &mail("3", "other", "a@b.example", "Elsewhere")).await;
    assert_eq!(entry["segments"][0]["chosen_by"], "model", "{entry}");
    let role = household.role("switchboard").await;
    role.batch_execute("SET butlerd.tenant = 'owner'").await.expect("a setting");
    let sql = "UPDATE thread_affinity SET expires_at = shared.clock() - interval '1 second' WHERE lane = $1";
    let lane = Lane::of("email", "home", Some("t"), "a@b.example").0;
    assert_eq!(role.execute(sql, &[&lane]).await.expect("an update"), 1);
    let (_, entry) = through(&daemon, &mail("4", "t", "a@b.example", "Much later")).await;
    assert_eq!(entry["segments"][0]["chosen_by"], "model", "{entry}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_answer_to_what_a_butler_wrote_first_goes_back_to_it() {
    let model = anybody().await;
    let household = Household::with_model(&model);
    let daemon = household.start().await;
    let role = household.role("switchboard").await;
    role.batch_execute("SET butlerd.tenant = 'owner'").await.expect("a setting");
    let note = "INSERT INTO thread_affinity (lane, butler, source, expires_at)
                VALUES ($1, $2, 'notification', shared.clock() + $3::text::interval)";
    for (thread, butler, how_long) in
        [("asked", "health", "1 hour"), ("long-ago", "health", "-1 second"), ("gone", "nobody", "1 hour")]
    {
        let lane = Lane::of("telegram", "bot:home", Some(thread), "4711").0;
        role.execute(note, &[&lane, &butler, &how_long]).await.expect("a row");
    }
    let (_, entry) = through(&daemon, &message("1", "asked", "Yes, 71 kg")).await;
    assert_eq!(
        (&entry["segments"][0]["butler"], &entry["segments"][0]["chosen_by"]),
        (&json!("health"), &json!("reply"))
    );
    assert_eq!(classified(&model), 0);
    for (id, thread) in [("2", "long-ago"), ("3", "gone")] {
        let (_, entry) = through(&daemon, &message(id, thread, "Yes, 71 kg")).await;
        assert_eq!(entry["segments"][0]["chosen_by"], "model", "{thread}: {entry}");
    }
    // Another tenant's thread of the same name is another thread.
    let (code, out, err) =
        household.cli(&["token", "new", "--tenant", "other", "--scope", "ingest,read,tools", "--json"]);
    assert_eq!(code, 0, "{out}{err}");
    let rules = daemon.mcp("switchboard").ok("triage_rule_list", json!({})).await;
    assert_eq!(rules, json!([]));
}
