//! `/api/v1` under schemathesis: thousands of requests made from its own document, and every answer held against it.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::{Value, json};

use crate::approvals;
use crate::inbound::{ended, ingest, message};
use crate::support::model;
use what_was_left_out::left_out;

/// Fewer than these, and something was left out.
const CASES: u64 = 2000;
/// So many operations at least answer as they should, and not with refusals alone.
const DONE: usize = 40;

/// The operations of the document that answered 2xx at least once, by the record of all requests.
fn done(document: &Value, record: &Value) -> BTreeSet<String> {
    let paths: Vec<&String> = document["paths"].as_object().expect("paths").keys().collect();
    let fits = |template: &str, path: &str| {
        let (wanted, given): (Vec<&str>, Vec<&str>) = (template.split('/').collect(), path.split('/').collect());
        wanted.len() == given.len()
            && wanted.iter().zip(&given).all(|(part, word)| part.starts_with('{') || part == word)
    };
    let mut done = BTreeSet::new();
    for entry in record["log"]["entries"].as_array().expect("entries") {
        let (method, url) = (entry["request"]["method"].as_str(), entry["request"]["url"].as_str());
        let path = url.and_then(|url| url.split_once("/api/v1")).map_or("", |(_, rest)| rest);
        let path = path.split('?').next().unwrap_or_default();
        // A path that stands in the document as it is goes before one with braces.
        let fitting = paths.iter().filter(|template| fits(template, path)).min_by_key(|t| t.matches('{').count());
        if let (Some(method), Some(template), Some(200..300)) = (method, fitting, entry["response"]["status"].as_u64())
            && document["paths"][template.as_str()][method.to_lowercase()].is_object()
        {
            done.insert(format!("{method} {template}"));
        }
    }
    done
}

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
        .args(["--report", "har", "--report-har-path", "requests.har"])
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
    let record = std::fs::read_to_string(household.path().join("requests.har")).expect("the record of all requests");
    let (_, document) = daemon.get("/api/v1/openapi.json").await;
    let [document, record] = [document, record].map(|text| serde_json::from_str::<Value>(&text).expect("JSON"));
    let done = done(&document, &record);
    assert!(done.len() >= DONE, "{} operations: {done:?}", done.len());
    println!("{made} cases, {} operations done", done.len());
}
