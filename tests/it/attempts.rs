//! What follows a session that failed before it did anything: another runtime, another try, or nothing.

use serde_json::{Value, json};

use crate::support::{Daemon, Household, model};

/// The sessions of the butler, oldest first.
async fn sessions(daemon: &Daemon, butler: &str) -> Vec<Value> {
    let mut rows = daemon.mcp(butler).ok("sessions_list", json!({})).await.as_array().cloned().expect("a list");
    rows.reverse();
    rows
}

fn field<'a>(rows: &'a [Value], name: &str) -> Vec<&'a Value> {
    rows.iter().map(|row| &row[name]).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_program_is_stood_in_for_by_the_fallback() {
    let model = model(json!([{"when": "hello", "steps": [{"say": "good day"}]}])).await;
    let household = Household::with_model(&model)
        .env("BUTLERD_SPAWNER__CLIS__CLAUDE", "/nowhere/claude")
        .model("general", "claude-sonnet-4-5")
        .runtime("general", "type = \"claude-code\"\nfallback = [\"native\"]");
    let daemon = household.start().await;
    let (code, out, err) = household.cli(&["trigger", "general", "hello", "--json"]);
    assert_eq!(code, 0, "{out}{err}\n{}", daemon.log());
    let result: Value = serde_json::from_str(&out).expect("JSON");
    let rows = sessions(&daemon, "general").await;
    assert_eq!(field(&rows, "state"), ["failed", "succeeded"], "{rows:?}");
    assert_eq!(field(&rows, "runtime"), ["claude-code", "native"]);
    assert_eq!(rows[0]["error_class"], "program_missing");
    assert!(rows[0]["error"].as_str().expect("a sentence").contains("/nowhere/claude"), "{}", rows[0]);
    // The one that took the place is tied to the one before, and is what the caller gets.
    assert_eq!(rows[1]["retry_of"], rows[0]["id"]);
    assert_eq!(result["session_id"], rows[1]["id"]);
    assert_eq!(rows[0]["request_id"], rows[1]["request_id"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runtime_without_a_key_is_passed_over() {
    let model = model(json!([{"when": "hello", "steps": [{"say": "good day"}]}])).await;
    let household = Household::with_model(&model)
        .runtime("general", "type = \"codex\"\nfallback = [\"native\"]\nmodels = { native = \"claude-sonnet-4-5\" }");
    let daemon = household.start().await;
    let general = daemon.mcp("general");
    // Not parked, though its own runtime has no key.
    assert_eq!(general.ok("status", json!({})).await["model"]["runtime"], "native");
    assert_eq!(general.ok("trigger", json!({"prompt": "hello"})).await["success"], true, "{}", daemon.log());
    assert_eq!(field(&sessions(&daemon, "general").await, "runtime"), ["native"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_overloaded_model_is_tried_again_by_another_session() {
    // The agent itself tries four times.
    let model =
        model(json!([{"when": "hello", "steps": [{"fail": {"status": 529, "times": 4}}, {"say": "good day"}]}]));
    let model = model.await;
    let household = Household::with_model(&model);
    let daemon = household.start().await;
    let done = daemon.mcp("general").ok("trigger", json!({"prompt": "hello"})).await;
    assert_eq!((&done["success"], &done["output"]), (&json!(true), &json!("good day")), "{done}\n{}", daemon.log());
    let rows = sessions(&daemon, "general").await;
    assert_eq!(field(&rows, "state"), ["failed", "succeeded"], "{rows:?}");
    assert_eq!(rows[0]["error_class"], "overloaded");
    assert_eq!(rows[1]["retry_of"], rows[0]["id"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_follows_a_session_that_called_a_tool() {
    let call = json!({"call": {"tool": "state_get", "arguments": {"key": "a"}}});
    let model = model(json!([{"when": "hello", "steps": [call, {"fail": {"status": 529}}]}])).await;
    let household = Household::with_model(&model).runtime("general", "fallback = [\"claude-code\"]");
    let daemon = household.start().await;
    let done = daemon.mcp("general").ok("trigger", json!({"prompt": "hello"})).await;
    assert_eq!(done["success"], false, "{done}");
    let rows = sessions(&daemon, "general").await;
    assert_eq!(field(&rows, "error_class"), ["overloaded"], "{rows:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_be_no_better_is_not_tried_again() {
    let model = model(json!([{"when": "hello", "steps": [{"fail": {"status": 400, "body": "no such thing"}}]}])).await;
    let household = Household::with_model(&model);
    let daemon = household.start().await;
    let done = daemon.mcp("general").ok("trigger", json!({"prompt": "hello"})).await;
    assert_eq!(done["success"], false, "{done}");
    assert_eq!(field(&sessions(&daemon, "general").await, "error_class"), ["invalid_request"]);
}
