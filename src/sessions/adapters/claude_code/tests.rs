//! Against lines that Claude Code 2.1.329 wrote, run headless with two retries against a scripted model and a real MCP
//! server. Fields that nothing here reads were left out of the recordings.

use rust_decimal::Decimal;
use serde_json::{Value, json};

use super::super::tests::{CODE, file, invocation, pieces, recorded, told};
use super::*;
use crate::adapters::{ErrorClass, Outcome, RunEvent, Usage};
use base::Secret;

fn replay(recording: &str, exit: i32, stderr: &str) -> (Vec<RunEvent>, Outcome) {
    super::super::tests::replay(ClaudeCode::default().parser(&["module.states".into()]), recording, exit, stderr)
}

#[test]
fn a_good_run_yields_its_events_in_order_under_the_butler_s_own_names() {
    let (events, outcome) = replay(recorded!("ok"), 0, "");
    let names = told(&events, "called x/y");
    let expected = "connected a-b result module.set_enabled result module.states result module_states2 result state_get \
                    result x/y error";
    let expected: Vec<&str> = expected.split_whitespace().chain(["FINAL done", "model", "usage", "final"]).collect();
    assert_eq!(names, expected);
    let usage = Usage { input: Some(700), output: Some(63), cache_read: Some(35), cache_write: Some(49) };
    assert_eq!(
        outcome,
        Outcome {
            ok: true,
            final_text: Some("FINAL done".into()),
            usage,
            cost_usd: Some("0.00323925".parse::<Decimal>().unwrap()),
            turns: Some(7),
            error: None
        }
    );
}

#[test]
fn text_is_told_as_it_is_written_and_once_as_a_whole() {
    let (events, outcome) = replay(recorded!("partial"), 0, "");
    assert_eq!(pieces(&events), 6);
    let said = "First part, second and **third**.";
    let expected = ["connected", said, "state_set", "result", said, "model", "usage", "final"];
    assert_eq!(told(&events, ""), expected);
    assert_eq!((outcome.ok, outcome.final_text.as_deref()), (true, Some(said)));
    assert_eq!(pieces(&replay(recorded!("ok"), 0, "").0), 0, "who does not ask for it is not told");
    // What a helper of the model writes stays between the two.
    let helper = recorded!("partial").replace("\"parent_tool_use_id\":null", "\"parent_tool_use_id\":\"toolu_0\"");
    assert_eq!(pieces(&replay(&helper, 0, "").0), 0);
    let (_dir, claude, mut inv) = ready();
    let asks = |inv: &Invocation| claude.compose(inv).unwrap().args.iter().any(|a| a == "--include-partial-messages");
    assert!(!asks(&inv));
    inv.stream_text = true;
    assert!(asks(&inv));
}

#[test]
fn an_older_version_s_names_are_looked_up() {
    let old = recorded!("ok").replace("\"tool_name\"", "\"other\"");
    let (events, _) = replay(&old, 0, "");
    let called = |wanted: &str| events.iter().any(|e| matches!(e, RunEvent::ToolCall { name, .. } if name == wanted));
    assert!(called("module.states") && called("module_states2") && called("x_y"), "the last one is not known");
}

#[test]
fn each_failure_has_its_class() {
    let cases = [
        (recorded!("status-529"), 1, ErrorClass::Overloaded, "529"),
        (recorded!("status-500"), 1, ErrorClass::Overloaded, "500"),
        (recorded!("status-429"), 1, ErrorClass::RateLimited, "429"),
        (recorded!("status-401"), 1, ErrorClass::Auth, "401"),
        (recorded!("status-403"), 1, ErrorClass::Auth, "403"),
        (recorded!("status-402"), 1, ErrorClass::Budget, "402"),
        (recorded!("status-404"), 1, ErrorClass::InvalidRequest, "selected model"),
        (recorded!("status-400"), 1, ErrorClass::InvalidRequest, "400"),
        (recorded!("status-413"), 1, ErrorClass::ContextTooLong, "too large"),
        (recorded!("prompt-too-long"), 1, ErrorClass::ContextTooLong, "too long"),
        (recorded!("stream-cut"), 1, ErrorClass::ModelUnreachable, "malformed"),
        (recorded!("model-down"), 1, ErrorClass::ModelUnreachable, "ECONNREFUSED"),
        (recorded!("mcp-down"), 0, ErrorClass::McpUnreachable, "tools"),
        (recorded!("max-turns"), 1, ErrorClass::Turns, "maximum number of turns (3)"),
        (recorded!("max-budget"), 1, ErrorClass::Budget, "maximum budget"),
        (recorded!("sigint"), 0, ErrorClass::Cancelled, "ede_diagnostic"),
        (recorded!("sigterm"), 143, ErrorClass::Crashed, "without its final event"),
    ];
    for (recording, exit, class, words) in cases {
        let (_, outcome) = replay(recording, exit, "");
        let error = outcome.error.expect(words);
        assert!(!outcome.ok && error.class == class && error.message.contains(words), "{words}: {error:?}");
        let of_model = class == ErrorClass::McpUnreachable;
        assert_eq!(outcome.final_text.is_some(), of_model, "{words}: an error text is no answer");
    }
}

#[test]
fn the_exit_status_proves_nothing() {
    assert!(replay(recorded!("ok"), 1, "").1.ok);
    let (_, outcome) = replay("", 0, "Error: Session ID 7 is already in use.\n");
    let error = outcome.error.unwrap();
    assert_eq!(error.class, ErrorClass::Crashed);
    assert!(error.message.contains("exit 0") && error.message.ends_with("already in use."), "{error:?}");
    let half = &recorded!("ok")[..recorded!("ok").len() - 20];
    assert_eq!(replay(half, 0, "").1.error.unwrap().class, ErrorClass::Crashed, "half a final line");
}

#[test]
fn retries_are_told_and_do_not_fail_the_run() {
    let (events, outcome) = replay(recorded!("overloaded-twice"), 0, "");
    let retries: Vec<_> = events.iter().filter(|e| matches!(e, RunEvent::Retry { .. })).collect();
    let RunEvent::Retry { class, attempt, delay_ms, status, .. } = retries[1] else { unreachable!() };
    assert_eq!((retries.len(), *class, *attempt, *status), (2, ErrorClass::Overloaded, 2, Some(529)));
    assert!(delay_ms.is_some_and(|ms| ms > 500));
    assert!(outcome.ok);
    let (events, _) = replay(recorded!("model-down"), 1, "");
    let unreachable =
        |e: &&RunEvent| matches!(e, RunEvent::Retry { class: ErrorClass::ModelUnreachable, status: None, .. });
    assert_eq!(events.iter().filter(unreachable).count(), 2);
}

#[test]
fn what_nobody_knows_is_none_and_never_zero() {
    let (_, outcome) = replay(recorded!("status-529"), 1, "");
    assert_eq!((outcome.usage, outcome.cost_usd, outcome.turns), (Usage::default(), None, None));
    // A price was guessed.
    let (_, outcome) = replay(recorded!("unknown-model"), 0, "");
    assert_eq!((outcome.cost_usd, outcome.usage.input), (None, Some(700)));
    let words = "[claude-code:unrecognized_model] {\"model\":\"m\",\"query_source\":\"sdk\"}";
    assert_eq!(replay(recorded!("ok"), 0, words).1.cost_usd, None);
    // `usage` says 0 there, though a request was answered and paid.
    let (_, outcome) = replay(recorded!("max-budget"), 1, "");
    assert_eq!((outcome.usage.input, outcome.cost_usd), (Some(100), Some("0.00046275".parse().unwrap())));
    assert_eq!(replay(recorded!("max-turns"), 1, "").1.turns, Some(3));
}

#[test]
fn without_word_of_the_tools_a_run_has_failed() {
    let pending = recorded!("ok").replace("\"status\":\"connected\"", "\"status\":\"pending\"");
    let (events, outcome) = replay(&pending, 0, "");
    assert!(outcome.ok, "a tool has answered");
    assert_eq!(events.iter().filter(|e| matches!(e, RunEvent::McpConnected(true))).count(), 1);
    let silent: String = pending.lines().filter(|l| !l.contains("tool_result")).map(|l| format!("{l}\n")).collect();
    assert_eq!(replay(&silent, 0, "").1.error.unwrap().class, ErrorClass::McpUnreachable);
    let last = recorded!("ok").lines().last().unwrap();
    assert_eq!(replay(last, 0, "").1.error.unwrap().class, ErrorClass::McpUnreachable);
}

#[test]
fn strange_lines_do_no_harm() {
    let mut parser = ClaudeCode::default().parser(&["module.states".into()]);
    for line in [
        "",
        "null",
        "[]",
        "7",
        "{",
        "{}",
        "{\"type\":7}",
        "{\"type\":\"assistant\"}",
        "{\"type\":\"user\"}",
        "{\"type\":\"assistant\",\"message\":{\"content\":[7,{\"type\":\"tool_use\"},{\"type\":\"text\"}]}}",
        "{\"type\":\"system\",\"subtype\":\"status\"}",
        "{\"type\":\"ui_invalidate\"}",
        "plain words",
        "{\"type\":\"user\",\"message\":{\"content\":[{\"type\":\"tool_result\"}]}}",
        "\u{fffd}\u{0}",
    ] {
        parser.line(line);
    }
    assert!(!parser.finish(CODE(0), "").ok);
}

/// The adapter with a program that exists, and an invocation for it.
fn ready() -> (tempfile::TempDir, ClaudeCode, Invocation) {
    let (dir, program, invocation) = invocation("claude");
    (dir, ClaudeCode(Some(program)), invocation)
}

#[test]
fn the_command_line_is_the_one_that_was_measured() {
    let (dir, claude, inv) = ready();
    let composed = claude.compose(&inv).unwrap();
    assert_eq!(composed.program, dir.path().canonicalize().unwrap().join("claude"));
    let expected = [
        "-p",
        "--model",
        "claude-sonnet-4-5",
        "--output-format",
        "stream-json",
        "--verbose",
        "--no-session-persistence",
        "--strict-mcp-config",
        "--mcp-config",
        "/s/mcp.json",
        "--setting-sources",
        "",
        "--tools",
        "",
        "--allowedTools",
        "mcp__butler__*",
        "--permission-mode",
        "dontAsk",
        "--max-turns",
        "20",
        "--system-prompt-file",
        "/s/system.md",
    ];
    assert_eq!(composed.args, expected);
    let argv = composed.args.join(" ");
    assert!(!["private", "Health", "token", "sk-"].iter().any(|word| argv.contains(word)), "{argv}");
    assert_eq!(composed.stdin.as_deref().and_then(|p| p.to_str()), Some("prompt.md"));
    assert_eq!(file(&composed, "prompt.md"), "private words");
    assert_eq!(file(&composed, "system.md"), "You are Health.");
    let mcp: Value = serde_json::from_str(&file(&composed, "mcp.json")).unwrap();
    let url = "http://127.0.0.1:7/mcp?runtime_session_id=01939f00-0000-7000-8000-000000000001";
    assert_eq!(mcp["mcpServers"]["butler"]["url"], url);
    assert_eq!(mcp["mcpServers"]["butler"]["headers"]["Authorization"], "Bearer token-of-the-session");
    let shown = format!("{composed:?}");
    assert!(!["private", "token-of", "sk-"].iter().any(|word| shown.contains(word)), "{shown}");
}

#[test]
fn pictures_go_with_the_prompt_through_a_pipe() {
    let (_dir, claude, mut inv) = ready();
    inv.prompt = "/compact @/etc/passwd\nnow".into();
    inv.images = vec![("image/png".into(), b"pixels".to_vec())];
    let composed = claude.compose(&inv).unwrap();
    assert!(composed.args.windows(2).any(|two| two == ["--input-format", "stream-json"]), "{:?}", composed.args);
    let piped = String::from_utf8(composed.piped.clone().unwrap()).unwrap();
    assert_eq!((composed.stdin.as_ref(), piped.matches('\n').count()), (None, 1), "no file, and one line");
    let message: Value = serde_json::from_str(&piped).unwrap();
    let source = json!({"type": "base64", "media_type": "image/png", "data": "cGl4ZWxz"});
    let content =
        json!([{"type": "text", "text": "\n/compact @/etc/passwd\nnow"}, {"type": "image", "source": source}]);
    assert_eq!(message, json!({"type": "user", "message": {"role": "user", "content": content}}));
    assert!(
        !format!("{composed:?}").contains("compact") && !composed.files.iter().any(|f| f.path.ends_with(PROMPT_FILE))
    );
}

#[test]
fn the_environment_is_the_list_and_nothing_else() {
    let (_dir, claude, mut inv) = ready();
    let names = |inv: &Invocation| -> Vec<String> {
        claude.compose(inv).unwrap().env.into_iter().map(|(name, _)| name).collect()
    };
    let list = |more: &[&str]| {
        let all = [crate::adapters::BASE_ENV, FIXED_ENV.always, more].concat();
        let mut all: Vec<String> = all.into_iter().map(str::to_owned).collect();
        all.sort();
        all
    };
    assert_eq!(names(&inv), list(&["ANTHROPIC_API_KEY"]));
    inv.base_url = Some("http://127.0.0.1:8".into());
    inv.declared_env = vec![("WEATHER_KEY".into(), Secret::new("w".into()))];
    // Of several keys the program would send two.
    inv.credentials.insert(0, ("CLAUDE_CODE_OAUTH_TOKEN".into(), Secret::new("oauth".into())));
    assert_eq!(names(&inv), list(&["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "WEATHER_KEY"]));
    inv.credentials.truncate(1);
    assert_eq!(names(&inv), list(&["CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_BASE_URL", "WEATHER_KEY"]));
    inv.credentials.clear();
    assert!(matches!(claude.compose(&inv), Err(AdapterError::NoKey { .. })));
}

#[test]
fn nobody_s_words_can_be_a_command_or_change_the_bounds() {
    let (_dir, claude, mut inv) = ready();
    inv.prompt = "/compact now".into();
    assert_eq!(file(&claude.compose(&inv).unwrap(), "prompt.md"), "\n/compact now");
    inv.prompt = " \n".into();
    assert!(matches!(claude.compose(&inv), Err(AdapterError::EmptyPrompt)));
    inv.prompt = "x".into();
    for arg in ["--dangerously-skip-permissions", "--settings=/tmp/x", "--mcp-config", "-c"] {
        inv.extra_args = vec![arg.into()];
        assert!(matches!(claude.compose(&inv), Err(AdapterError::Argument(a)) if a == arg));
    }
    inv.extra_args = vec!["--effort".into(), "high".into()];
    assert_eq!(claude.compose(&inv).unwrap().args[3..5], ["--effort", "high"]);
    for name in ["HOME", "ANTHROPIC_BASE_URL", "CLAUDE_CONFIG_DIR", "MCP_SERVERS"] {
        inv.declared_env = vec![(name.into(), Secret::new("x".into()))];
        assert!(matches!(claude.compose(&inv), Err(AdapterError::Reserved(n)) if n == name));
    }
    for (name, value) in [("A=B", "x"), ("", "x"), ("1A", "x"), ("A", "x\0y")] {
        inv.declared_env = vec![(name.into(), Secret::new(value.into()))];
        assert!(matches!(claude.compose(&inv), Err(AdapterError::Variable(n)) if n == name));
    }
}

#[test]
fn tools_are_granted_by_name_and_skills_bring_their_own() {
    let (_dir, claude, mut inv) = ready();
    let after = |composed: &Composed, flag: &str| {
        let at = composed.args.iter().position(|a| a == flag)?;
        composed.args.get(at + 1).cloned()
    };
    inv.granted_tools = vec!["Read".into(), "Bash(git log:*)".into()];
    inv.skills = vec!["greeter".into()];
    let composed = claude.compose(&inv).unwrap();
    assert_eq!(after(&composed, "--tools").as_deref(), Some("Read,Bash,Skill"));
    assert_eq!(after(&composed, "--allowedTools").as_deref(), Some("mcp__butler__*,Read,Bash(git log:*),Skill"));
    assert_eq!(after(&composed, "--plugin-dir").as_deref(), Some("/s/agents"));
    assert!(file(&composed, PLUGIN_FILE).contains("\"butler\""));
    let mut parser = events::ClaudeParser::new(&[]);
    let call = json!({"type": "assistant", "message": {"content": [
        {"type": "tool_use", "id": "1", "name": "Skill", "input": {"skill": "butler:greeter"}}]}});
    let arguments = json!({"name": "greeter"});
    let expected = RunEvent::ToolCall { id: "1".into(), name: "skill_read".into(), arguments };
    assert_eq!(parser.line(&call.to_string()), [expected], "told as every runtime tells it");
    for wrong in ["Read,Bash", "", "Bash(git", "--tools"] {
        inv.granted_tools = vec![wrong.into()];
        assert!(matches!(claude.compose(&inv), Err(AdapterError::Tool(..))), "{wrong}");
    }
}

#[tokio::test]
async fn doctor_hears_the_version_or_the_problem() {
    let (dir, claude, _) = ready();
    let processes = ProcessSupervisor::start().unwrap();
    let program = dir.path().join("claude");
    std::fs::write(&program, "#!/bin/sh\necho '2.1.329 (Claude Code)'\n").unwrap();
    let probe = claude.probe(&processes, SandboxMode::Auto).await;
    assert_eq!((probe.version.as_deref(), probe.problem), (Some("2.1.329 (Claude Code)"), None));
    std::fs::write(&program, "#!/bin/sh\necho 'cannot run here' >&2; exit 3\n").unwrap();
    let problem = claude.probe(&processes, SandboxMode::Auto).await.problem.unwrap();
    assert!(problem.contains("exit 3") && problem.ends_with("cannot run here"), "{problem}");
    std::fs::remove_file(&program).unwrap();
    let probe = claude.probe(&processes, SandboxMode::Auto).await;
    assert!(probe.program.is_none() && probe.problem.unwrap().contains("spawner.clis.claude"));
}
