//! Clients and tests of others against a butler's MCP server: the official SDKs, and the public conformance suite.
//!
//! `.ci/run clients` installs them and prints the variables that name them.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::support::{Daemon, Household};
use what_was_left_out::left_out;

/// What the suite asks of a server that has tools.
const APPLY: [&str; 6] = [
    "dns-rebinding-protection",
    "ping",
    "server-initialize",
    "tools-call-error",
    "tools-call-simple-text",
    "tools-list",
];

const ONE_TEXT: &str = "a tool's result is one text with JSON in it";
const NO_ASKING_BACK: &str = "a tool never asks the client back: what needs a person goes through approvals";
const NO_NOTES: &str = "a tool is short and sends nothing before its result; the daemon's log is its own";
const NO_SESSIONS: &str = "there are no protocol sessions to resume: each request's token says who calls";
const NO_RESOURCES: &str = "a butler offers tools only, no resources";
const NO_PROMPTS: &str = "a butler offers tools only, no prompts";

/// What it asks of other servers, and why butlers are not such.
const DO_NOT_APPLY: [(&str, &str); 26] = [
    ("completion-complete", "only arguments of prompts and resources are completed"),
    ("elicitation-sep1034-defaults", NO_ASKING_BACK),
    ("elicitation-sep1330-enums", NO_ASKING_BACK),
    ("json-schema-2020-12", "asks for a tool whose schema has $defs; arguments declared in SQL are flat"),
    ("logging-set-level", NO_NOTES),
    ("prompts-get-embedded-resource", NO_PROMPTS),
    ("prompts-get-simple", NO_PROMPTS),
    ("prompts-get-with-args", NO_PROMPTS),
    ("prompts-get-with-image", NO_PROMPTS),
    ("prompts-list", NO_PROMPTS),
    ("resources-list", NO_RESOURCES),
    ("resources-read-binary", NO_RESOURCES),
    ("resources-read-text", NO_RESOURCES),
    ("resources-subscribe", NO_RESOURCES),
    ("resources-templates-read", NO_RESOURCES),
    ("resources-unsubscribe", NO_RESOURCES),
    ("server-sse-multiple-streams", NO_SESSIONS),
    ("server-sse-polling", NO_SESSIONS),
    ("tools-call-audio", ONE_TEXT),
    ("tools-call-elicitation", NO_ASKING_BACK),
    ("tools-call-embedded-resource", ONE_TEXT),
    ("tools-call-image", ONE_TEXT),
    ("tools-call-mixed-content", ONE_TEXT),
    ("tools-call-sampling", NO_ASKING_BACK),
    ("tools-call-with-logging", NO_NOTES),
    ("tools-call-with-progress", NO_NOTES),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_conformance_suite_passes_where_it_applies() {
    let name = "the_conformance_suite_passes_where_it_applies";
    let Some([node, suite]) = installed(name, ["BUTLERD_TEST_NODE22", "BUTLERD_TEST_CONFORMANCE"]) else { return };
    let mut run = Suite::start(&node, &suite, &APPLY);
    let mut household = Household::new()
        .butler("conformance", BUTLER)
        .env("BUTLERD_ADMIN__ALLOWED_ORIGINS", &json!([run.line()["origin"]]).to_string());
    for tool in ["test_simple_text", "test_error_handling"] {
        let text = std::fs::read_to_string(scripts().join(format!("conformance/{tool}.sql"))).expect("the tool's file");
        household = household.write(&format!("conformance/tools/{tool}.sql"), &text);
    }
    let daemon = household.start().await;
    let mcp = daemon.mcp("conformance");
    run.tell(&json!({"url": mcp.url, "token": daemon.token()}));
    let report = run.line();
    run.end();
    for scenario in APPLY {
        let checks = report[scenario]["checks"].as_array().cloned().unwrap_or_default();
        // What is only told has the status INFO.
        let judged: Vec<_> = checks.iter().filter(|check| check["status"] != "INFO").collect();
        let passed = judged.iter().all(|check| check["status"] == "SUCCESS");
        assert!(passed && !judged.is_empty() && report[scenario]["exit"] == 0, "{scenario}: {:#}", report[scenario]);
    }
}

#[test]
fn each_scenario_of_the_suite_applies_or_has_a_reason_not_to() {
    let name = "each_scenario_of_the_suite_applies_or_has_a_reason_not_to";
    let Some([node, suite]) = installed(name, ["BUTLERD_TEST_NODE22", "BUTLERD_TEST_CONFORMANCE"]) else { return };
    let mut run = Suite::start(&node, &suite, &["--list"]);
    let list = run.line();
    run.end();
    let theirs: BTreeSet<_> = list.as_array().expect("a list of names").iter().filter_map(Value::as_str).collect();
    let ours: BTreeSet<_> = APPLY.into_iter().chain(DO_NOT_APPLY.iter().map(|(scenario, _)| *scenario)).collect();
    assert_eq!(theirs, ours);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_official_typescript_clients_list_and_call() {
    let name = "the_official_typescript_clients_list_and_call";
    let Some([node, modules]) = installed(name, ["BUTLERD_TEST_NODE22", "BUTLERD_TEST_MCP_TS"]) else { return };
    let household = Household::new();
    let daemon = household.start().await;
    for (protocol, spoken) in
        [("v1", "2025-11-25"), ("legacy", "2025-11-25"), ("auto", "2026-07-28"), ("2026-07-28", "2026-07-28")]
    {
        let mut command = Command::new(&node);
        command.arg(scripts().join("list_and_call.mjs")).env("BUTLERD_TEST_MCP_TS", &modules);
        list_and_call(command, &daemon, protocol, spoken, "TypeScript").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_official_python_client_lists_and_calls() {
    let name = "the_official_python_client_lists_and_calls";
    let Some([python]) = installed(name, ["BUTLERD_TEST_MCP_PY"]) else { return };
    let household = Household::new();
    let daemon = household.start().await;
    for (protocol, spoken) in [("legacy", "2025-11-25"), ("auto", "2026-07-28"), ("2026-07-28", "2026-07-28")] {
        let mut command = Command::new(&python);
        command.arg(scripts().join("list_and_call.py")).env("PYTHONDONTWRITEBYTECODE", "1");
        list_and_call(command, &daemon, protocol, spoken, "Python").await;
    }
}

/// Runs one of the two scripts, which print alike, and looks at what it saw with another client.
async fn list_and_call(mut command: Command, daemon: &Daemon, protocol: &str, spoken: &str, language: &str) {
    let mcp = daemon.mcp("general");
    command
        .env("BUTLERD_TEST_MCP_URL", &mcp.url)
        .env("BUTLERD_TEST_MCP_TOKEN", daemon.token())
        .env("BUTLERD_TEST_MCP_PROTOCOL", protocol);
    let out = tokio::task::spawn_blocking(move || command.output()).await.expect("the wait").expect("the client runs");
    let shown = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{language}, {protocol}: {}\n{shown}", out.status);
    let report: Value = serde_json::from_slice(&out.stdout).expect("the client prints JSON");
    assert_eq!(report["protocol"], spoken, "{language}, {protocol}");
    let listed = mcp.request("tools/list", json!({})).await;
    let tools = listed.body["result"]["tools"].as_array().expect("a list of tools");
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(report["tools"], Value::Array(names), "{language}, {protocol}");
    assert_eq!(report["get"]["value"], json!({"from": language, "grüße": [1, 2.5, null]}), "{report}");
}

const BUTLER: &str = r#"
[butler]
name = "conformance"
port = 40999
description = "Has the tools that the conformance suite calls."

[runtime]
type = "native"

[butler.db]
name = "butlers"
schema = "conformance"

[modules.conformance]
"#;

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients")
}

/// The files that these variables name, or a word that the test is left out.
fn installed<const N: usize>(test: &str, variables: [&str; N]) -> Option<[PathBuf; N]> {
    let missing = variables.iter().find(|variable| std::env::var_os(variable).is_none());
    if let Some(variable) = missing {
        left_out(test, &format!("{variable} is not set; `eval \"$(.ci/run clients)\"` installs what it names"));
        return None;
    }
    Some(variables.map(|variable| PathBuf::from(std::env::var_os(variable).expect("looked at above"))))
}

/// The conformance suite, in its process. Dropped, it is killed.
struct Suite {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Suite {
    fn start(node: &Path, suite: &Path, arguments: &[&str]) -> Self {
        let mut child = Command::new(node)
            .arg(scripts().join("conformance.mjs"))
            .args(arguments)
            .env("BUTLERD_TEST_CONFORMANCE", suite)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node runs");
        let input = child.stdin.take().expect("its input");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        Self { child, input, output }
    }

    fn tell(&mut self, value: &Value) {
        writeln!(self.input, "{value}").expect("its input is taken");
    }

    /// The next line it prints.
    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("its output");
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("the suite printed {line:?}: {e}"))
    }

    fn end(mut self) {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).expect("its output");
        let status = self.child.wait().expect("its end");
        assert!(status.success() && rest.is_empty(), "the suite ended with {status} and {rest:?}");
    }
}

impl Drop for Suite {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
