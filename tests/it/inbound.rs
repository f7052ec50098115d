//! A message from outside: accepted once, classified, handed to its butler, answered.

use serde_json::{Value, json};

use crate::support::{Daemon, Household, eventually, http, model};

/// `ingest.v1` of a chat message whose sender the platform has proven.
pub fn message(id: &str, thread: &str, text: &str) -> Value {
    json!({"schema_version": "ingest.v1",
           "source": {"channel": "telegram", "provider": "telegram", "endpoint_identity": "bot:home"},
           "event": {"external_event_id": id, "external_thread_id": thread, "observed_at": "2026-11-01T08:00:00+01:00"},
           "sender": {"identity": "4711", "authenticated": {"result": "pass", "method": "platform"}},
           "payload": {"raw": {}, "normalized_text": text},
           "control": {"policy_tier": "interactive"}})
}

/// Hands a message in; status and answer.
pub async fn ingest(daemon: &Daemon, envelope: &Value) -> (u16, Value) {
    let request = http().post(format!("http://{}/api/ingest", daemon.admin())).bearer_auth(daemon.token());
    let answer = request.json(envelope).send().await.expect("an answer");
    (answer.status().as_u16(), answer.json().await.expect("JSON"))
}

/// The message once it is at its end.
pub async fn ended(daemon: &Daemon, id: &str) -> Value {
    eventually("the message's end", || async {
        let (status, body) = daemon.get(&format!("/api/inbox/{id}")).await;
        let entry: Value = serde_json::from_str(&body).unwrap_or_default();
        match entry["state"].as_str() {
            Some("done" | "dead") => Ok(entry),
            _ => Err(format!("{status} {body}\n{}", daemon.log())),
        }
    })
    .await
}

/// The token of a program that hands in what comes over a channel, and reads the answers to take them there.
pub fn connector(household: &Household, channel: &str) -> String {
    let args = ["token", "new", "--json", "--scope", "ingest,read", "--channel", channel];
    let (code, made, err) = tokio::task::block_in_place(|| household.cli(&args));
    assert_eq!(code, 0, "{made}{err}");
    let made: Value = serde_json::from_str(&made).expect("JSON");
    made["token"].as_str().expect("a token").to_owned()
}

/// Reads the answers to a message as its connector does.
pub async fn read_answers(daemon: &Daemon, connector: &str, id: &str) {
    let request = http().get(format!("http://{}/api/inbox/{id}", daemon.admin())).bearer_auth(connector);
    assert_eq!(request.send().await.expect("an answer").status(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_reaches_its_butler_and_is_answered() {
    let model = model(json!([
        {"when": "(?s)weigh 82.*Route the message in", "steps": [
            {"call": {"tool": "route_to_butler", "arguments": {"butler": "health", "prompt": "I weigh 82 kg today"}}}]},
        {"when": "I weigh 82 kg", "steps": [
            {"call": {"tool": "measurement_log", "arguments": {"kind": "weight", "value": {"kg": 82}}}},
            {"say": "Noted: 82 kg."}]},
    ]))
    .await;
    let household = Household::with_model(&model).env("BUTLERD_OWNER__IDENTITIES__TELEGRAM", "4711");
    let daemon = household.start().await;
    let envelope = message("1", "chat-1", "I weigh 82 kg today");
    let (status, accepted) = ingest(&daemon, &envelope).await;
    assert_eq!((status, accepted["duplicate"].as_bool()), (202, Some(false)), "{accepted}");
    let id = accepted["request_id"].as_str().expect("an id").to_owned();
    let (_, again) = ingest(&daemon, &envelope).await;
    assert_eq!((again["duplicate"].as_bool(), again["request_id"].as_str()), (Some(true), Some(id.as_str())));
    let entry = ended(&daemon, &id).await;
    assert_eq!((entry["state"].as_str(), entry["trust"].as_str()), (Some("done"), Some("owner")), "{entry}");
    assert_eq!(entry["segments"][0]["butler"], "health", "{entry}");
    assert_eq!(entry["segments"][0]["chosen_by"], "model", "{entry}");
    let reply = &entry["replies"][0];
    assert_eq!((reply["message"].as_str(), reply["auto"].as_bool()), (Some("Noted: 82 kg."), Some(true)), "{entry}");
    let found = daemon.mcp("health").ok("measurement_latest", json!({"kind": "weight"})).await;
    assert_eq!(found["value"]["kg"], 82, "{found}");
}
