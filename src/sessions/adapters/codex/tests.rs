//! Against lines that Codex 0.169.0 wrote, run headless with one retry against a scripted model and a real MCP server.

use std::os::unix::fs::PermissionsExt;

use super::super::tests::{
    CODE, file, invocation, keeps_words_and_secrets, proves_nothing_by_its_exit, recorded, told,
};
use super::*;
use crate::adapters::{ErrorClass, Outcome, RunEvent, Usage};
use base::Secret;

fn replay(recording: &str, exit: i32, stderr: &str) -> (Vec<RunEvent>, Outcome) {
    super::super::tests::replay(Codex::default().parser(&["module.states".into()]), recording, exit, stderr)
}

#[test]
fn a_good_run_yields_its_events_in_order() {
    let (events, outcome) = replay(recorded!("ok"), 0, "");
    let names = told(&events, "failed fails");
    let expected = "connected First. state_set result module.states result fails error";
    let expected: Vec<&str> = expected.split_whitespace().chain(["FINAL done", "usage", "final"]).collect();
    assert_eq!(names, expected);
    let usage = Usage { input: Some(4006), output: Some(100), cache_read: Some(400), cache_write: Some(0) };
    let final_text = Some("FINAL done".into());
    assert_eq!(outcome, Outcome { ok: true, final_text, usage, cost_usd: None, turns: None, error: None });
}

#[test]
fn each_failure_has_its_class() {
    let cases = [
        (recorded!("status-529"), ErrorClass::Overloaded, "529"),
        (recorded!("status-500"), ErrorClass::Overloaded, "high demand"),
        (recorded!("status-429"), ErrorClass::RateLimited, "429"),
        (recorded!("status-401"), ErrorClass::Auth, "401"),
        (recorded!("status-400"), ErrorClass::InvalidRequest, "message of the server"),
        (recorded!("too-long"), ErrorClass::ContextTooLong, "ran out of room"),
        (recorded!("budget"), ErrorClass::Budget, "budget reached"),
        (recorded!("quota"), ErrorClass::Budget, "Quota exceeded"),
        (recorded!("stream-cut"), ErrorClass::ModelUnreachable, "stream disconnected"),
        (recorded!("model-down"), ErrorClass::ModelUnreachable, "Connection failed"),
        (recorded!("sigterm"), ErrorClass::Crashed, "without its final event"),
    ];
    for (recording, class, words) in cases {
        let (_, outcome) = replay(recording, 1, "");
        let error = outcome.error.expect(words);
        assert!(!outcome.ok && error.class == class && error.message.contains(words), "{words}: {error:?}");
        assert_eq!((outcome.usage, outcome.final_text), (Usage::default(), None), "{words}: nothing is known");
    }
    let (_, outcome) =
        replay("", 1, "Error: thread/start failed: required MCP servers failed to initialize: butler: x");
    assert_eq!(outcome.error.unwrap().class, ErrorClass::McpUnreachable);
}

#[test]
fn retries_are_told() {
    let (events, _) = replay(recorded!("status-529"), 1, "");
    let retry = events.iter().find(|e| matches!(e, RunEvent::Retry { .. }));
    let expected =
        RunEvent::Retry { class: ErrorClass::Overloaded, attempt: 1, delay_ms: None, status: Some(529), message: None };
    assert_eq!(retry, Some(&expected));
    let (events, _) = replay(recorded!("model-down"), 1, "");
    assert!(events.iter().any(|e| matches!(e, RunEvent::Retry { class: ErrorClass::ModelUnreachable, .. })));
}

#[test]
fn the_exit_status_proves_nothing() {
    proves_nothing_by_its_exit(|recording, exit| replay(recording, exit, ""), recorded!("ok"));
}

#[test]
fn strange_lines_do_no_harm() {
    let mut parser = Codex::default().parser(&[]);
    for line in [
        "",
        "7",
        "{",
        "{\"type\":7}",
        "{\"type\":\"error\"}",
        "{\"type\":\"item.completed\"}",
        "{\"type\":\"item.completed\",\"item\":{\"type\":\"mcp_tool_call\"}}",
        "{\"type\":\"item.started\",\"item\":{\"type\":\"something_new\",\"id\":\"1\"}}",
        "plain words",
    ] {
        parser.line(line);
    }
    assert!(!parser.finish(CODE(0), "").ok);
}

/// The adapter with a program that exists, and an invocation for it.
fn ready() -> (tempfile::TempDir, Codex, Invocation) {
    let (dir, program, mut inv) = invocation("codex");
    inv.model = Some("gpt-5".into());
    inv.credentials = vec![("OPENAI_API_KEY".into(), Secret::new("sk-secret-key".into()))];
    (dir, Codex(Some(program)), inv)
}

#[test]
fn the_command_line_holds_no_words_and_no_secrets() {
    let (dir, codex, inv) = ready();
    let composed = codex.compose(&inv).unwrap();
    assert_eq!(composed.args, ["exec", "--json", "--skip-git-repo-check", "--ephemeral", "-"]);
    keeps_words_and_secrets(&composed, dir.path().join("codex"), FIXED_ENV);
}

#[test]
fn pictures_are_files_that_the_command_line_names() {
    let (_dir, codex, mut inv) = ready();
    inv.images = vec![("image/png".into(), b"one".to_vec()), ("image/jpeg".into(), b"two".to_vec())];
    let composed = codex.compose(&inv).unwrap();
    assert_eq!(composed.args[4..], ["--image=/s/picture-1.png", "--image=/s/picture-2.jpeg", "-"]);
    assert_eq!((file(&composed, "picture-1.png").as_str(), file(&composed, "picture-2.jpeg").as_str()), ("one", "two"));
    assert!(composed.files.iter().all(|file| file.mode == 0o600));
}

#[test]
fn the_configuration_locks_the_session_in() {
    let (_dir, codex, mut inv) = ready();
    inv.base_url = Some("http://127.0.0.1:8/v1".into());
    inv.model = Some("a \"quoted\"\u{7f} model".into());
    let config = |inv: &Invocation| -> toml_edit::DocumentMut {
        file(&codex.compose(inv).unwrap(), CONFIG_FILE).parse().unwrap()
    };
    let doc = config(&inv);
    assert_eq!(doc["model"].as_str(), inv.model.as_deref());
    assert_eq!(doc["sandbox_mode"].as_str(), Some("read-only"));
    assert_eq!(doc["model_instructions_file"].as_str(), Some("/s/system.md"));
    assert_eq!(doc["model_providers"]["butlerd"]["base_url"].as_str(), Some("http://127.0.0.1:8/v1"));
    let server = &doc["mcp_servers"]["butler"];
    let url = "http://127.0.0.1:7/mcp?runtime_session_id=01939f00-0000-7000-8000-000000000001";
    assert_eq!((server["url"].as_str(), server["required"].as_bool()), (Some(url), Some(true)));
    assert_eq!(doc["mcp_servers"].as_table().unwrap().len(), 1, "only its own butler");
    assert_eq!(doc["features"]["shell_tool"].as_bool(), Some(false));
    inv.granted_tools = vec!["shell".into(), "web_search".into()];
    inv.base_url = None;
    let doc = config(&inv);
    assert_eq!(doc["features"]["shell_tool"].as_bool(), Some(true));
    assert_eq!((doc["web_search"].as_str(), doc["sandbox_mode"].as_str()), (Some("live"), Some("workspace-write")));
    inv.confined = true;
    assert_eq!(config(&inv)["sandbox_mode"].as_str(), Some("danger-full-access"), "one sandbox is enough");
    assert_eq!(doc["model_providers"]["butlerd"]["base_url"].as_str(), Some(VENDOR_URL));
    inv.granted_tools = vec!["Bash".into()];
    assert!(matches!(codex.compose(&inv), Err(AdapterError::Tool(..))));
}

#[test]
fn only_harmless_settings_pass_as_arguments() {
    let (_dir, codex, mut inv) = ready();
    inv.extra_args = vec!["-c".into(), "model_reasoning_effort=high".into()];
    assert_eq!(codex.compose(&inv).unwrap().args[4..], ["-c", "model_reasoning_effort=high", "-"]);
    for wrong in [
        &["-c"][..],
        &["-c", "sandbox_mode=danger-full-access"],
        &["-csandbox_mode=danger-full-access"],
        &["--yolo"],
        &["--add-dir", "/"],
        &["resume"],
    ] {
        inv.extra_args = wrong.iter().map(|a| (*a).to_owned()).collect();
        assert!(matches!(codex.compose(&inv), Err(AdapterError::Argument(_))), "{wrong:?}");
    }
    inv.extra_args.clear();
    inv.credentials.clear();
    assert!(matches!(codex.compose(&inv), Err(AdapterError::NoKey { .. })));
    inv.prompt = " ".into();
    assert!(matches!(codex.compose(&inv), Err(AdapterError::EmptyPrompt)));
}

#[test]
fn behind_the_script_of_the_package_is_the_native_program() {
    let dir = tempfile::tempdir().unwrap();
    let arch = if cfg!(target_arch = "aarch64") { ("arm64", "aarch64") } else { ("x64", "x86_64") };
    let binary = format!("codex-linux-{}/vendor/{}-unknown-linux-musl/bin/codex", arch.0, arch.1);
    let script = dir.path().join("node_modules/@openai/codex/bin/codex.js");
    let make = |path: &Path| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    make(&script);
    let link = dir.path().join("codex");
    std::os::unix::fs::symlink(&script, &link).unwrap();
    let found = || Codex(Some(link.clone())).find().unwrap();
    assert_eq!(found(), script.canonicalize().unwrap(), "the script alone, as it is");
    let beside = dir.path().join("node_modules/@openai").join(&binary);
    make(&beside);
    assert_eq!(found(), beside.canonicalize().unwrap());
    let below = dir.path().join("node_modules/@openai/codex/node_modules/@openai").join(&binary);
    make(&below);
    assert_eq!(found(), below.canonicalize().unwrap());
}
