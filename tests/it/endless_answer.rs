//! A model that speaks without end: its session fails with a reason, and nobody grows.

use serde_json::json;

use crate::soak::proc;
use crate::support::{Household, model};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_without_end_fails_its_session_and_fills_no_memory() {
    let model = model(json!([
        {"when": "forever", "steps": [{"endless": true}]},
        {"when": "hello", "steps": [{"say": "good day"}]},
    ]))
    .await;
    let household = Household::with_model(&model);
    let daemon = household.start().await;
    let before = proc::memory(daemon.pid(), "VmHWM");
    let done = daemon.mcp("general").ok("trigger", json!({"prompt": "forever"})).await;
    assert_eq!((&done["success"], &done["error_class"]), (&json!(false), &json!("output_limit")), "{done}");
    let why = done["error"].as_str().unwrap_or_default();
    assert!(why.contains("the answer had no end") && why.contains("max_output_tokens"), "{done}");
    assert_eq!(model.requests().iter().filter(|r| r.answer == "endless").count(), 1, "it is not asked again");
    let after = proc::memory(daemon.pid(), "VmHWM");
    assert!(after < before + 64 * 1024, "the daemon grew from {before} to {after} KiB");
    let done = daemon.mcp("general").ok("trigger", json!({"prompt": "hello"})).await;
    assert_eq!(done["success"], true, "{done}");
}
