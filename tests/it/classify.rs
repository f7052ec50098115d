//! Whose a message is, and what butlers ask one another.

use serde_json::{Value, json};

use crate::inbound::{ended, ingest, message};
use crate::support::{Daemon, Household, eventually, model};

async fn sent(daemon: &Daemon, id: &str, text: &str) -> Value {
    let (status, accepted) = ingest(daemon, &message(id, &format!("thread-{id}"), text)).await;
    assert_eq!(status, 202, "{accepted}");
    ended(daemon, accepted["request_id"].as_str().expect("an id")).await
}

/// Butler, who chose it, and words of each part.
fn parts(entry: &Value) -> Vec<(&str, &str, &str)> {
    let segments = entry["segments"].as_array().expect("parts");
    segments
        .iter()
        .filter_map(|s| Some((s["butler"].as_str()?, s["chosen_by"].as_str()?, s["prompt"].as_str()?)))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_split_refused_names_are_corrected_and_nothing_is_lost() {
    let route = |butler: &str, prompt: &str| json!({"tool": "route_to_butler", "arguments": {"butler": butler, "prompt": prompt}});
    let model = model(json!([
        {"when": "(?s)both at once.*Route the message in", "steps": [
            {"calls": [route("health", "I weigh 80 kg"), route("finance", "The bill is paid")]}]},
        {"when": "(?s)to nobody.*Route the message in", "steps": [
            {"call": route("astrologer", "the stars")}, {"call": route("travel", "a trip")}]},
        {"when": "(?s)no idea.*Route the message in", "steps": [{"say": "Hm."}]},
        {"when": "(?s)set my state.*Route the message in", "steps": [
            {"call": {"tool": "route_to_butler", "arguments": {"butler": "messenger", "prompt": "x"}}},
            {"say": "I may not."}]},
        {"when": "I weigh 80 kg|The bill is paid|a trip|no idea|set my state", "steps": [{"say": "Done with it."}]},
    ]))
    .await;
    let household = Household::whole_with_model(&model);
    let daemon = household.start().await;
    let entry = sent(&daemon, "1", "both at once: I weigh 80 kg and the bill is paid").await;
    assert_eq!(entry["state"], "done", "{entry}");
    let expected = [("health", "model", "I weigh 80 kg"), ("finance", "model", "The bill is paid")];
    assert_eq!(parts(&entry), expected, "{entry}");
    assert_eq!(entry["replies"].as_array().map(Vec::len), Some(2), "{entry}");
    let entry = sent(&daemon, "2", "this goes to nobody").await;
    assert_eq!(parts(&entry), [("travel", "model", "a trip")], "{entry}");
    // No call, or none that can be: the whole of it to the fallback.
    for (id, text) in [("3", "no idea whose this is"), ("4", "set my state to mad")] {
        let entry = sent(&daemon, id, text).await;
        assert_eq!(
            (entry["state"].as_str(), parts(&entry)),
            (Some("done"), vec![("general", "fallback", text)]),
            "{entry}"
        );
    }
    // A classifying session has one tool, and its message is data between lines that nobody can guess.
    let asked = model.requests();
    let classifying: Vec<&Value> =
        asked.iter().map(|r| &r.body).filter(|b| b.to_string().contains("Route the message in")).collect();
    assert!(classifying.len() >= 4);
    for body in classifying {
        let tools = body["tools"].as_array().expect("tools");
        let names: Vec<&str> = tools.iter().filter_map(|t| t["name"].as_str()).collect();
        assert_eq!(names, ["route_to_butler"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_is_handed_over_by_the_house_alone() {
    let household = Household::new();
    let daemon = household.start().await;
    for butler in ["general", "health", "switchboard"] {
        let mcp = daemon.mcp(butler);
        assert!(!mcp.tools().await.contains(&"route.execute".to_owned()));
        let answer = mcp.call("route.execute", json!({"schema_version": "route.v1"})).await;
        assert_eq!((answer.status, answer.body["code"].as_str()), (403, Some("tool_not_allowed")), "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_butler_asks_another_and_a_late_answer_comes_as_a_session() {
    let ask = |question: &str, seconds: u32| json!({"call": {"tool": "ask_butler", "arguments": {"butler": "health", "question": question, "deadline_s": seconds}}});
    let model = model(json!([
        {"when": "(?s)may I run.*Route the message in", "steps": [
            {"call": {"tool": "route_to_butler", "arguments": {"butler": "general", "prompt": "may I run today?"}}}]},
        {"when": "(?s)may I swim.*Route the message in", "steps": [
            {"call": {"tool": "route_to_butler", "arguments": {"butler": "general", "prompt": "may I swim today?"}}}]},
        {"when": "general asks you:\\s+How is the knee", "steps": [{"say": "The knee is well."}]},
        {"when": "general asks you:\\s+How is the ear", "steps": [
            {"fail": {"status": 529, "times": 1, "headers": {"retry-after": "3"}}}, {"say": "The ear is sore."}]},
        {"when": "could not wait for the answer", "steps": [
            {"call": {"tool": "notify", "arguments": {"message": "Better not: the ear is sore."}}}, {"say": "told"}]},
        {"when": "may I run today", "steps": [ask("How is the knee?", 60), {"say": "Yes, run."}]},
        {"when": "may I swim today", "steps": [ask("How is the ear?", 1), {"say": "I'll tell you in a moment."}]},
    ]))
    .await;
    let household = Household::with_model(&model);
    let daemon = household.start().await;
    let entry = sent(&daemon, "1", "may I run today?").await;
    assert_eq!(entry["replies"][0]["message"], "Yes, run.", "{entry}");
    let sessions = daemon.mcp("health").ok("sessions_list", json!({})).await;
    assert_eq!((sessions[0]["trigger_source"].as_str(), sessions[0]["success"].as_bool()), (Some("ask"), Some(true)));
    let asked = model.requests();
    assert!(asked.iter().any(|r| r.body.to_string().contains("The knee is well.")), "the answer came back");
    let entry = sent(&daemon, "2", "may I swim today?").await;
    assert_eq!(entry["replies"][0]["message"], "I'll tell you in a moment.", "{entry}");
    let id = entry["request_id"].as_str().expect("an id").to_owned();
    eventually("the late answer", || async {
        let (_, body) = daemon.get(&format!("/api/inbox/{id}")).await;
        let entry: Value = serde_json::from_str(&body).unwrap_or_default();
        let replies = entry["replies"].as_array().cloned().unwrap_or_default();
        match replies.as_slice() {
            [_, late] if late["message"] == "Better not: the ear is sore." && late["auto"] == false => Ok(()),
            _ => Err(body),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_that_fails_for_a_while_decides_nothing_and_costs_no_try() {
    // Two sessions of four tries each fail, for the classification and for the part; then it answers.
    let overloaded = json!({"fail": {"status": 529, "times": 9, "headers": {"retry-after": "0"}}});
    let model = model(json!([
        {"when": "(?s)I weigh 80 kg.*Route the message in", "steps": [overloaded.clone(),
            {"call": {"tool": "route_to_butler", "arguments": {"butler": "health", "prompt": "I weigh 80 kg"}}}]},
        {"when": "I weigh 80 kg", "steps": [overloaded, {"say": "Noted."}]},
    ]))
    .await;
    let household = Household::with_model(&model);
    let daemon = household.start().await;
    let entry = sent(&daemon, "1", "I weigh 80 kg").await;
    assert_eq!(entry["state"], "done", "{entry}");
    assert_eq!(parts(&entry), [("health", "model", "I weigh 80 kg")], "{entry}");
    assert_eq!(entry["replies"][0]["message"], "Noted.", "{entry}");
    let client = household.owner().await;
    let failed = "count(*) FILTER (WHERE error_class = 'overloaded')";
    let sql = format!(
        "SELECT (SELECT attempts FROM switchboard.message_inbox), (SELECT {failed} FROM switchboard.sessions),
                (SELECT attempts FROM health.route_inbox), (SELECT {failed} FROM health.sessions)"
    );
    let row = client.query_one(&sql, &[]).await.expect("the rows");
    let seen: (i32, i64, i32, i64) = (row.get(0), row.get(1), row.get(2), row.get(3));
    assert_eq!(seen, (1, 2, 1, 2), "one try each, and two sessions that failed");
}
