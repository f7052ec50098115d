//! Against lines that the Gemini CLI 0.61.0 wrote, run headless with two tries against a scripted model and a real MCP
//! server.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use super::super::tests::{
    CODE, file, invocation, keeps_words_and_secrets, pieces, proves_nothing_by_its_exit, recorded, told,
};
use super::*;
use crate::adapters::{ErrorClass, Outcome, RunEvent, Usage};
use base::Secret;

fn replay(recording: &str, exit: i32) -> (Vec<RunEvent>, Outcome) {
    super::super::tests::replay(Gemini::default().parser(&["module.states".into()]), recording, exit, "")
}

#[test]
fn a_good_run_yields_its_events_in_order() {
    let (events, outcome) = replay(recorded!("ok"), 0);
    let names = told(&events, "failed fails");
    let expected = "First. state_set result module.states a-b result result fails error";
    let expected: Vec<&str> = expected.split_whitespace().chain(["FINAL done", "usage", "final"]).collect();
    assert_eq!(names, expected);
    assert_eq!(pieces(&events), 3);
    // 80 that were said and 20 that were thought.
    let usage = Usage { input: Some(4006), output: Some(100), cache_read: Some(400), cache_write: None };
    let final_text = Some("FINAL done".into());
    assert_eq!(outcome, Outcome { ok: true, final_text, usage, cost_usd: None, turns: None, error: None });
}

#[test]
fn a_skill_is_told_as_every_runtime_tells_it() {
    let (events, outcome) = replay(recorded!("skill"), 0);
    let call = events.iter().find_map(|e| match e {
        RunEvent::ToolCall { name, arguments, .. } => Some((name.as_str(), arguments.clone())),
        _ => None,
    });
    assert_eq!(call, Some(("skill_read", json!({"name": "greeter"}))));
    assert_eq!(outcome.final_text.as_deref(), Some("FINAL skill"));
}

#[test]
fn each_failure_has_its_class() {
    let cases = [
        (recorded!("status-529"), 17, ErrorClass::Overloaded, "Overloaded"),
        (recorded!("status-503"), 247, ErrorClass::Overloaded, "message of the server"),
        (recorded!("status-500"), 244, ErrorClass::Overloaded, "message of the server"),
        (recorded!("status-429"), 173, ErrorClass::RateLimited, "message of the server"),
        (recorded!("status-401"), 145, ErrorClass::Auth, "invalid x-api-key"),
        (recorded!("status-400"), 144, ErrorClass::InvalidRequest, "message of the server"),
        (recorded!("status-402"), 146, ErrorClass::Budget, "Budget reached"),
        (recorded!("too-long"), 144, ErrorClass::ContextTooLong, "exceeds the maximum number of tokens"),
        (recorded!("stream-cut"), 1, ErrorClass::ModelUnreachable, "without a finish reason"),
        (recorded!("model-down"), 1, ErrorClass::ModelUnreachable, "fetch failed"),
        (recorded!("max-turns"), 53, ErrorClass::Turns, "turn"),
        (recorded!("sigterm"), 0, ErrorClass::Crashed, "without its final event"),
    ];
    for (recording, exit, class, words) in cases {
        let (_, outcome) = replay(recording, exit);
        let error = outcome.error.expect(words);
        assert!(!outcome.ok && error.class == class && error.message.contains(words), "{words}: {error:?}");
    }
    assert_eq!(replay(recorded!("status-529"), 17).1.usage, Usage::default(), "nobody answered");
}

#[test]
fn the_exit_status_proves_nothing() {
    proves_nothing_by_its_exit(replay, recorded!("ok"));
}

#[test]
fn strange_lines_do_no_harm() {
    let mut parser = Gemini::default().parser(&[]);
    for line in
        ["", "7", "{", "{\"type\":\"tool_use\"}", "{\"type\":\"tool_result\"}", "{\"type\":\"message\"}", "words"]
    {
        parser.line(line);
    }
    assert!(!parser.finish(CODE(0), "").ok);
    let odd = "{\"type\":\"result\",\"status\":\"error\",\"error\":{\"message\":\"[API Error: ]\"}}";
    assert_eq!(replay(odd, 7).1.error.unwrap().class, ErrorClass::Crashed);
}

/// The adapter with a program that exists, and an invocation for it.
fn ready() -> (tempfile::TempDir, Gemini, Invocation) {
    let (dir, program, mut inv) = invocation("gemini");
    inv.model = Some("gemini-2.5-pro".into());
    inv.credentials = vec![("GEMINI_API_KEY".into(), Secret::new("sk-secret-key".into()))];
    (dir, Gemini(Some(program)), inv)
}

#[test]
fn the_command_line_holds_no_words_and_no_secrets() {
    let (dir, gemini, mut inv) = ready();
    inv.base_url = Some("http://127.0.0.1:8".into());
    let composed = gemini.compose(&inv).unwrap();
    assert_eq!(composed.args, ["-m", "gemini-2.5-pro", "-o", "stream-json", "--policy", "/s/policy.toml"]);
    keeps_words_and_secrets(&composed, dir.path().join("gemini"), FIXED_ENV);
    inv.prompt = "/memory show".into();
    assert_eq!(file(&gemini.compose(&inv).unwrap(), "prompt.md"), "\n/memory show");
}

#[test]
fn it_is_told_of_pictures_that_it_can_not_be_shown() {
    let (_dir, gemini, mut inv) = ready();
    inv.images = vec![("image/png".into(), b"one".to_vec())];
    let composed = gemini.compose(&inv).unwrap();
    let prompt = file(&composed, "prompt.md");
    assert!(prompt.starts_with("private words\n\n(The pictures that came with this could not be shown"), "{prompt}");
    assert!(!composed.files.iter().any(|file| file.contents == b"one"));
}

#[test]
fn a_bundle_is_run_by_node() {
    let (dir, _, inv) = ready();
    let bundle = dir.path().join("gemini.js");
    std::fs::write(&bundle, "").unwrap();
    std::fs::set_permissions(&bundle, std::fs::Permissions::from_mode(0o755)).unwrap();
    let composed = Gemini(Some(bundle.clone())).compose(&inv).unwrap();
    assert!(composed.program.ends_with("node") || composed.program.ends_with("nodejs"), "{:?}", composed.program);
    assert_eq!(composed.args[0], bundle.canonicalize().unwrap().to_str().unwrap());
}

#[test]
fn settings_and_policy_lock_the_session_in() {
    let (_dir, gemini, mut inv) = ready();
    let composed = gemini.compose(&inv).unwrap();
    let settings: Value = serde_json::from_str(&file(&composed, SETTINGS_FILE)).unwrap();
    let url = "http://127.0.0.1:7/mcp?runtime_session_id=01939f00-0000-7000-8000-000000000001";
    assert_eq!(settings["mcpServers"]["butler"]["httpUrl"], url);
    assert_eq!(settings["mcpServers"]["butler"]["headers"]["Authorization"], "Bearer $BUTLER_TOKEN");
    assert_eq!(settings["mcpServers"].as_object().unwrap().len(), 1, "only its own butler");
    assert_eq!(settings["model"]["maxSessionTurns"], 20);
    let rules = |composed: &Composed| -> Vec<(String, String)> {
        let doc: toml_edit::DocumentMut = file(composed, POLICY_FILE).parse().unwrap();
        let text = |t: &toml_edit::Table, key: &str| t[key].as_str().unwrap().to_owned();
        let rules = doc["rule"].as_array_of_tables().unwrap().iter();
        rules.map(|t| (text(t, "toolName"), text(t, "decision"))).collect()
    };
    let pair = |tool: &str, decision: &str| (tool.to_owned(), decision.to_owned());
    assert_eq!(rules(&composed), [pair("*", "deny"), pair("*", "allow")]);
    inv.skills = vec!["greeter".into()];
    inv.granted_tools = vec!["google_web_search".into()];
    let composed = gemini.compose(&inv).unwrap();
    assert_eq!(rules(&composed)[2..], [pair("activate_skill", "allow"), pair("google_web_search", "allow")]);
    inv.granted_tools = vec!["a\"\n".into()];
    assert!(matches!(gemini.compose(&inv), Err(AdapterError::Tool(..))));
    inv.granted_tools.clear();
    inv.extra_args = vec!["--yolo".into()];
    assert!(matches!(gemini.compose(&inv), Err(AdapterError::Argument(_))));
    inv.extra_args.clear();
    inv.credentials.clear();
    assert!(matches!(gemini.compose(&inv), Err(AdapterError::NoKey { .. })));
}
