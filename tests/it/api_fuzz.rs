//! `/api/v1` under schemathesis: thousands of requests made from its own document, and every answer held against it.

use std::process::Command;

use serde_json::json;

use crate::approvals;
use crate::inbound::{ended, ingest, message};
use crate::support::model;
use what_was_left_out::left_out;

/// Fewer than these, and something was left out.
const CASES: u64 = 2000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemathesis_finds_no_answer_that_the_document_does_not_have() {
    let name = "schemathesis_finds_no_answer_that_the_document_does_not_have";
    let Some(python) = std::env::var_os("BUTLERD_TEST_SCHEMATHESIS") else {
        return left_out(
            name,
            "BUTLERD_TEST_SCHEMATHESIS is not set; `eval \"$(.ci/run clients)\"` installs schemathesis",
        );
    };
    let model = model(json!([
        {"when": "A call of `[a-z_]+` that you had made", "steps": [{"say": "I know."}]},
        {"when": "leak ([a-z0-9-]+)", "steps": [{"call": {"tool": "leak", "arguments": {"text": "{{match.1}}"}}}, {"say": "Done."}]},
        {"when": "I weigh 82", "steps": [
            {"call": {"tool": "measurement_log", "arguments": {"kind": "weight", "value": {"kg": 82}}}}, {"say": "Noted."}]},
    ]))
    .await;
    let household = approvals::household(&model);
    let daemon = household.start().await;
    for what in ["one", "two"] {
        approvals::from_stranger(&daemon, what, &format!("leak {what}")).await;
    }
    for (id, butler) in [("3", "health"), ("4", "health"), ("5", "general")] {
        let mut envelope = message(id, id, "I weigh 82");
        envelope["control"]["pinned_target"] = json!(butler);
        let (status, accepted) = ingest(&daemon, &envelope).await;
        assert_eq!(status, 202, "{accepted}");
        ended(&daemon, accepted["request_id"].as_str().expect("an id")).await;
    }
    daemon
        .mcp("general")
        .ok("schedule_create", json!({"prompt": "I weigh 82", "name": "weigh", "cron": "0 9 1 1 *"}))
        .await;
    let first = async |path: &str| {
        let (status, body) = daemon.get(&format!("/api/v1{path}")).await;
        let body: serde_json::Value = serde_json::from_str(&body).expect("JSON");
        let (row, name) = (&body["data"][0], if path == "/inbox" { "request_id" } else { "id" });
        row[name].as_str().unwrap_or_else(|| panic!("{path}: {status} {body}")).to_owned()
    };
    let known = [
        ("BUTLERD_TEST_SESSION", first("/sessions").await),
        ("BUTLERD_TEST_MESSAGE", first("/inbox").await),
        ("BUTLERD_TEST_APPROVAL", first("/approvals").await),
        ("BUTLERD_TEST_SCHEDULE", first("/schedules?butler=general").await),
        ("BUTLERD_TEST_DELIVERY", first("/deliveries").await),
    ];
    let from = format!("{}/tests/clients/schemathesis/schemathesis.toml", env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(python);
    command
        .args(["-m", "schemathesis.cli", "--config-file", &from, "run", "--no-color"])
        .arg(format!("http://{}/api/v1/openapi.json", daemon.admin()))
        .envs(known)
        .env("BUTLERD_TEST_TOKEN", daemon.token())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(household.path());
    let out =
        tokio::task::spawn_blocking(move || command.output()).await.expect("the wait").expect("schemathesis runs");
    let shown = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{}\n{shown}", out.status);
    let made = shown.lines().filter_map(|line| line.trim().split_once(" generated,"));
    let made: u64 = made
        .filter_map(|(n, _)| n.replace(',', "").parse().ok())
        .next()
        .unwrap_or_else(|| panic!("no number of cases in {shown}"));
    assert!(made >= CASES, "{made} cases\n{shown}");
    println!("{made} cases");
}
