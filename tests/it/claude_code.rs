//! The real Claude Code, pinned, driven end to end against the scripted model.

use serde_json::{Value, json};

use crate::support::{Household, model};
use what_was_left_out::left_out;

/// A household whose Health butler runs the real program; `None` where it is not installed.
fn household(model: &testkit::model::ScriptedModel, test: &str) -> Option<Household> {
    household_of("BUTLERD_TEST_CLAUDE", model, test)
}

/// The same with the program that a variable names.
fn household_of(variable: &str, model: &testkit::model::ScriptedModel, test: &str) -> Option<Household> {
    let Some(program) = std::env::var_os(variable) else {
        left_out(test, &format!("{variable} is not set; `eval \"$(.ci/run clients)\"` installs Claude Code"));
        return None;
    };
    let household = Household::with_model(model)
        .runtime("health", "type = \"claude-code\"")
        .model("health", "claude-sonnet-4-5")
        .env("BUTLERD_SPAWNER__CLIS__CLAUDE", program.to_str().expect("a path"));
    Some(household)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_real_program_logs_a_measurement() {
    let script = testkit::model::demo_script().expect("a script");
    let model = testkit::model::ScriptedModel::start(script).await.expect("a model");
    let Some(household) = household(&model, "claude_code::the_real_program_logs_a_measurement") else { return };
    let daemon = household.start().await;
    let health = daemon.mcp("health");
    let done = health.ok("trigger", json!({"prompt": testkit::model::DEMO_PROMPT})).await;
    assert_eq!(done["success"], true, "{done}\n{}", daemon.log());
    assert_eq!(health.ok("measurement_latest", json!({"kind": "weight"})).await["value"]["kg"], 81.4);
    let session = health.ok("sessions_get", json!({"session_id": done["session_id"]})).await;
    assert_eq!((&session["state"], &session["runtime"]), (&json!("succeeded"), &json!("claude-code")));
    let calls: Vec<&str> =
        session["tool_calls"].as_array().expect("calls").iter().filter_map(|c| c["tool"].as_str()).collect();
    assert_eq!(calls, ["measurement_log", "measurement_trend"]);
    // Three answers of the script: 1100 tokens in and 20 out each.
    assert_eq!((&session["input_tokens"], &session["output_tokens"]), (&json!(3300), &json!(60)), "{session}");
    assert!(session["cost_usd"].as_str().is_some_and(|c| c.parse::<f64>().is_ok_and(|c| c > 0.0)), "{session}");
    assert!(done["output"].as_str().is_some_and(|o| o.contains("81.4")), "{done}");
    // Only its butler's tools were offered to the model, and neither key nor token is in its command line or rows.
    let offered = model.requests();
    let tools: Vec<String> = offered
        .iter()
        .filter_map(|r| r.body["tools"].as_array())
        .flatten()
        .filter_map(|t| t["name"].as_str().map(str::to_owned))
        .collect();
    assert!(!tools.is_empty());
    let foreign: Vec<&String> = tools.iter().filter(|t| !t.starts_with("mcp__butler__") && *t != "Skill").collect();
    assert!(foreign.is_empty(), "built-in tools were offered: {foreign:?}");
}

/// The oldest version that the doctor doesn't warn of. It reads its own memory map, and dies where the sandbox hides
/// that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_oldest_supported_version_calls_a_tool_in_the_sandbox() {
    let test = "claude_code::the_oldest_supported_version_calls_a_tool_in_the_sandbox";
    let model = testkit::model::ScriptedModel::start(testkit::model::demo_script().expect("a script"));
    let model = model.await.expect("a model");
    let Some(household) = household_of("BUTLERD_TEST_CLAUDE_OLDEST", &model, test) else { return };
    let (_, report, _) = tokio::task::block_in_place(|| household.cli(&["doctor"]));
    assert!(report.contains("2.1.197") && !report.contains("is older than"), "{report}");
    let daemon = household.start().await;
    let health = daemon.mcp("health");
    let done = health.ok("trigger", json!({"prompt": testkit::model::DEMO_PROMPT})).await;
    assert_eq!(done["success"], true, "{done}\n{}", daemon.log());
    assert_eq!(health.ok("measurement_latest", json!({"kind": "weight"})).await["value"]["kg"], 81.4);
    let session = health.ok("sessions_get", json!({"session_id": done["session_id"]})).await;
    assert_eq!((&session["state"], &session["runtime"]), (&json!("succeeded"), &json!("claude-code")), "{session}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_real_program_fails_as_what_it_failed_of() {
    let fail = |status: u16| json!([{"fail": {"status": status, "times": 99}}]);
    let model = model(json!([
        {"when": "overloaded", "steps": fail(529)},
        {"when": "limited", "steps": fail(429)},
        {"when": "locked out", "steps": fail(401)},
        {"when": "endless", "steps": (0..40).map(|n| json!({"call": {"tool": "state_set", "arguments": {"key": "n", "value": n}}})).collect::<Vec<Value>>()},
    ]))
    .await;
    let Some(household) = household(&model, "claude_code::the_real_program_fails_as_what_it_failed_of") else { return };
    let household = household.replace("health/butler.toml", "max_queued = 20", "max_queued = 20\nmax_turns = 4");
    let daemon = household.start().await;
    let health = daemon.mcp("health");
    for (prompt, class) in
        [("overloaded", "overloaded"), ("limited", "rate_limited"), ("locked out", "auth"), ("endless", "turns")]
    {
        let done = health.ok("trigger", json!({"prompt": prompt})).await;
        assert_eq!(done["success"], false, "{prompt}: {done}");
        assert_eq!(done["error_class"], class, "{prompt}: {done}");
        let session = health.ok("sessions_get", json!({"session_id": done["session_id"]})).await;
        assert_eq!(session["state"], "failed", "{prompt}: {session}");
        assert!(!session["error"].as_str().unwrap_or_default().contains("sk-test-key"), "{session}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_butler_that_asks_for_it_without_a_key_does_not_start() {
    let household = Household::whole().runtime("travel", "type = \"claude-code\"").model("travel", "claude-sonnet-4-5");
    let daemon = household.start().await;
    let travel = daemon.butler("travel").await;
    assert_eq!((&travel["state"], &travel["failed_phase"]), (&json!("parked"), &json!("core credentials")), "{travel}");
    assert!(travel["error"].as_str().is_some_and(|e| e.contains("butlerd secret set ANTHROPIC_API_KEY")), "{travel}");
    assert_eq!(daemon.butler("health").await["state"], "up");
}
