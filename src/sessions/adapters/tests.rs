//! What the tests of all adapters need.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::{BASE_ENV, Composed, EnvList, ErrorClass, Invocation, Outcome, Parser, RunEvent};
use crate::workspace::WorkspacePaths;
use base::Secret;
use config::Api;
use process::ExitInfo;

pub(super) const CODE: fn(i32) -> ExitInfo = |code| ExitInfo { code: Some(code), signal: None };

/// A program of this name that exists, and an invocation in a workspace that need not.
pub(super) fn invocation(program: &str) -> (tempfile::TempDir, PathBuf, Invocation) {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join(program);
    std::fs::write(&program, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    (dir, program, told_to())
}

/// What every adapter is told to do, in a workspace that need not exist.
pub(super) fn told_to() -> Invocation {
    Invocation {
        session_id: "01939f00-0000-7000-8000-000000000001".parse().unwrap(),
        butler: "health".parse().unwrap(),
        prompt: "private words".into(),
        images: Vec::new(),
        system_prompt: "You are Health.".into(),
        model: Some("claude-sonnet-4-5".into()),
        mcp_url: "http://127.0.0.1:7/mcp".into(),
        token: Secret::new("token-of-the-session".into()),
        traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into(),
        max_turns: 20,
        one_round: false,
        max_output_tokens: None,
        request_timeout: None,
        max_retries: None,
        stream_text: false,
        confined: false,
        granted_tools: vec![],
        extra_args: vec![],
        credentials: vec![("ANTHROPIC_API_KEY".into(), Secret::new("sk-secret-key".into()))],
        base_url: None,
        api: Api::Anthropic,
        workspace: WorkspacePaths::under("/s".into()),
        skills: vec![],
        declared_env: vec![],
    }
}

/// What all programs' command lines have alike: the butler's words in private files, no variable but the listed, and no
/// secret in a file.
pub(super) fn keeps_words_and_secrets(composed: &Composed, program: PathBuf, list: EnvList) {
    assert_eq!(composed.program, program.canonicalize().unwrap());
    assert_eq!(composed.stdin.as_deref().and_then(|p| p.to_str()), Some("prompt.md"));
    assert_eq!(file(composed, "prompt.md"), "private words");
    assert_eq!(file(composed, "system.md"), "You are Health.");
    let names: Vec<&str> = composed.env.iter().map(|(name, _)| name.as_str()).collect();
    let mut expected = [BASE_ENV, list.always, list.sometimes].concat();
    expected.sort_unstable();
    assert_eq!(names, expected);
    for f in &composed.files {
        let text = String::from_utf8_lossy(&f.contents);
        assert!(!text.contains("token-of") && !text.contains("sk-secret"), "{}", f.path.display());
    }
}

/// The exit status of a run proves nothing, and a part of its final line proves no more.
pub(super) fn proves_nothing_by_its_exit(replay: impl Fn(&str, i32) -> (Vec<RunEvent>, Outcome), ok: &str) {
    assert!(replay(ok, 1).1.ok);
    assert_eq!(replay("", 0).1.error.unwrap().class, ErrorClass::Crashed);
    let half = &ok[..ok.len() - 20];
    assert_eq!(replay(half, 0).1.error.unwrap().class, ErrorClass::Crashed, "half a final line");
}

/// A file of the composition, which must be private.
pub(super) fn file(composed: &Composed, path: &str) -> String {
    let file = composed.files.iter().find(|f| f.path.to_str() == Some(path)).unwrap_or_else(|| panic!("no {path}"));
    assert_eq!(file.mode, 0o600);
    String::from_utf8(file.contents.clone()).unwrap()
}

/// A recording of a program's output, beside the tests of its adapter.
macro_rules! recorded {
    ($name:literal) => {
        include_str!(concat!("recorded/", $name, ".jsonl"))
    };
}
pub(super) use recorded;

/// What a parser makes of a whole recording.
pub(super) fn replay(
    mut parser: Box<dyn Parser>,
    recording: &str,
    exit: i32,
    stderr: &str,
) -> (Vec<RunEvent>, Outcome) {
    let events = recording.lines().flat_map(|line| parser.line(line)).collect();
    (events, parser.finish(CODE(exit), stderr))
}

/// The events of a run in one word each. Each tool answered `called` and its name, and the failing one `failed`.
pub(super) fn told<'a>(events: &'a [RunEvent], failed: &str) -> Vec<&'a str> {
    let word = |event: &'a RunEvent| match event {
        RunEvent::McpConnected(true) => "connected",
        RunEvent::ToolCall { name, .. } => name,
        RunEvent::ToolResult { is_error: true, content, .. } => {
            assert_eq!(content, failed);
            "error"
        }
        RunEvent::ToolResult { name, content, .. } => {
            assert_eq!(content, &format!("called {name}"));
            "result"
        }
        RunEvent::Text(text) => text,
        RunEvent::Model(_) => "model",
        RunEvent::Usage(_) => "usage",
        RunEvent::Final => "final",
        other => panic!("{other:?}"),
    };
    events.iter().filter(|event| !matches!(event, RunEvent::TextDelta { .. })).map(word).collect()
}

/// How many pieces of texts were told before the texts; put together each is the text that follows it.
pub(super) fn pieces(events: &[RunEvent]) -> usize {
    let (mut written, mut count) = (String::new(), 0);
    for event in events {
        match event {
            RunEvent::TextDelta { start, text } => {
                assert_eq!(*start, written.len(), "{text:?} after {written:?}");
                written.push_str(text);
                count += 1;
            }
            RunEvent::Text(text) if !written.is_empty() => assert_eq!(std::mem::take(&mut written), *text),
            RunEvent::Text(_) => {}
            _ => assert_eq!(written, "", "before {event:?}"),
        }
    }
    count
}
