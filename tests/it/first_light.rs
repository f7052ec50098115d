//! The main job: a trigger ends in a real child that calls a real tool, and the session is on record.

use serde_json::json;

use crate::support::{Daemon, Household, model};

const PROMPT: &str = "I weighed 81.4 kg this morning, log it and tell me the trend";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trigger_spawns_a_child_that_logs_a_measurement() {
    let model =
        testkit::model::ScriptedModel::start(testkit::model::demo_script().expect("a script")).await.expect("a model");
    let household = Household::with_model(&model);
    let daemon = household.start().await;
    let (code, out, err) = household.cli(&["trigger", "health", PROMPT, "--json"]);
    assert_eq!(code, 0, "{out}{err}\n{}", daemon.log());
    let result: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(result["state"], "succeeded", "{result}");
    let health = daemon.mcp("health");
    let latest = health.ok("measurement_latest", json!({"kind": "weight"})).await;
    assert_eq!(latest["value"]["kg"], 81.4, "{latest}");
    let session = health.ok("sessions_get", json!({"session_id": result["session_id"]})).await;
    assert_eq!(session["state"], "succeeded");
    assert_eq!(session["success"], true);
    let calls: Vec<&str> =
        session["tool_calls"].as_array().expect("calls").iter().filter_map(|c| c["tool"].as_str()).collect();
    assert_eq!(calls, ["measurement_log", "measurement_trend"]);
    assert_eq!(session["tool_calls"][0]["arguments"]["value"]["kg"], 81.4);
    assert_eq!(session["input_tokens"], 3300, "{session}");
    assert_eq!(session["output_tokens"], 60);
    assert_eq!(session["cost_usd"], "0.0108", "3300 tokens at $3 and 60 at $15 a million");
    assert_eq!(session["trace_id"].as_str().map(str::len), Some(32));
    assert!(session["result"].as_str().expect("a text").contains("81.4"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_key_the_butler_is_up_and_says_what_to_set() {
    let household = Household::new();
    let daemon = household.start().await;
    let (code, _, err) = household.cli(&["trigger", "health", "hello"]);
    assert_eq!(code, 1);
    assert!(err.contains("butlerd secret set ANTHROPIC_API_KEY"), "{err}");
    let health = daemon.mcp("health");
    assert_eq!(health.ok("status", json!({})).await["model"]["ready"], false);
    daemon.ready().await;
    assert_eq!(health.ok("sessions_list", json!({})).await, json!([]));
}

/// The gate also runs this by the release that people get, and then says `BUTLERD_TEST_POINTS=none`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_build_for_tests_dies_and_moves_its_clock_as_its_environment_says() {
    let obeys = std::env::var("BUTLERD_TEST_POINTS").ok().as_deref() != Some("none");
    let moved = Household::few().env("BUTLERD_CLOCK_OFFSET", "26h");
    let doomed = Household::few().env("BUTLERD_CRASH_POINT", "cluster.started");
    let daemon = moved.start().await;
    let shown = daemon.info["started_at"].as_str().expect("a time").parse::<jiff::Timestamp>().expect("a time");
    let ahead = shown.duration_since(jiff::Timestamp::now()).as_hours();
    assert_eq!(ahead > 24, obeys, "its clock is {ahead} hours ahead");
    let daemon = Daemon::spawn(&doomed);
    let (daemon, ready) = tokio::task::spawn_blocking(move || daemon.wait_ready_or_end()).await.expect("the wait");
    assert_eq!(ready, !obeys, "it lives: {ready}\n{}", daemon.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_may_call_only_its_own_butler_and_its_token_dies_with_it() {
    let model = model(json!([
        {"when": "remember", "steps": [{"call": {"tool": "state_set", "arguments": {"key": "a", "value": 1}}}, {"say": "done"}]},
    ]))
    .await;
    let household = Household::with_model(&model);
    let daemon = household.start().await;
    let done = daemon.mcp("general").ok("trigger", json!({"prompt": "remember this"})).await;
    assert_eq!(done["success"], true, "{done}");
    assert_eq!(done["output"], "done");
    assert_eq!(daemon.mcp("general").ok("state_get", json!({"key": "a"})).await["value"], 1);
    // The workspace, where the token stood, is gone.
    let left: Vec<_> = std::fs::read_dir(household.data().join("work")).expect("the directory").collect();
    assert!(left.is_empty(), "{left:?}");
}
