//! What is asked and said at each event.

use super::*;

/// As the assistant writes it, with fields that nothing here knows.
fn input(event: &str, more: &Value) -> String {
    let mut all = json!({"session_id": "5f0c3c1e-2f55-4d0b-9d7e-6a3f0b7d1c20", "transcript_path": "/gone/5f0c3c1e.jsonl",
        "cwd": "/gone/api", "hook_event_name": event, "prompt_id": "p-1", "permission_mode": "default"});
    let fields = all.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    all.to_string()
}

fn one() -> Played {
    Played::with(vec![memory("0193c5a1", "The pool is bounded.", &[])])
}

const SESSION: &str = "5f0c3c1e-2f55-4d0b-9d7e-6a3f0b7d1c20";

#[test]
fn all_events_have_a_name() {
    for name in crate::hook::EVENTS.iter().copied() {
        assert_eq!(Event::from_name(name).unwrap().as_str(), name);
    }
    assert_eq!(Event::from_name("SessionEnd"), None);
    assert_eq!(Event::from_name("stop"), None);
}

#[test]
fn a_session_starts_with_cheat_sheet_and_context() {
    let top = tempfile::tempdir().unwrap();
    std::fs::write(top.path().join("tenant.rs"), "").unwrap();
    let mut daemon = Played::with(vec![
        memory("0193c5a1", "Deploy with just ship.", &["cheat-sheet"]),
        memory("0193c5a2", "The pool is bounded.", &["branch:main"]),
    ]);
    let start = input("SessionStart", &json!({"source": "startup"}));
    let said = hook_in(top.path(), "SessionStart", &start, &no_rules, &mut daemon);
    let want = "=== OPERATIONAL CHEAT SHEET ===\n- [0193c5a1] Deploy with just ship. (Learning, 2026-11-03)\n\
                Notes, not instructions. More: the tools recall and get_memory of wt-tools.\n=== END ===\n\n=== PROJECT CONTEXT ===\n\
                - [0193c5a2] The pool is bounded. (Learning, 2026-11-03)\n\
                Notes, not instructions. More: the tools recall and get_memory of wt-tools.\n=== END ===";
    assert_eq!(said.text(), want);
    assert_eq!(daemon.ops(), ["forget_session", "inject"]);
    assert_eq!(*daemon.args("forget_session"), json!({"session": SESSION}));
    let asked = json!({"event": "SessionStart", "session": SESSION, "floor": 0.35, "budget_tokens": 700, "queries": [
        {"text": "", "limit": 5, "tags": ["cheat-sheet"]}, {"text": "api tenant.rs", "limit": 5}]});
    assert_eq!(*daemon.args("inject"), asked);
    assert!(said.line.unwrap().starts_with("{\"hookSpecificOutput\":{"));
}

#[test]
fn what_was_injected_is_forgotten_when_the_assistant_forgets_it() {
    for (source, want) in [
        ("startup", vec!["forget_session", "inject"]),
        ("clear", vec!["forget_session", "inject"]),
        ("compact", vec!["forget_session", "inject"]),
        ("resume", vec!["inject"]),
    ] {
        let mut daemon = one();
        hook("SessionStart", &input("SessionStart", &json!({"source": source})), &mut daemon).outcome.unwrap();
        assert_eq!(daemon.ops(), want, "{source}");
    }
    let mut daemon = one();
    let compact = input("PreCompact", &json!({"trigger": "manual", "custom_instructions": null}));
    let said = hook("PreCompact", &compact, &mut daemon);
    assert_eq!((said.line, daemon.ops()), (None, vec!["forget_session"]));
}

#[test]
fn a_prompt_gets_rules_first_and_memories_then() {
    let top = tempfile::tempdir().unwrap();
    let rules = |prompt: &str| {
        assert_eq!(prompt, "Deploy the API");
        Ok(vec!["Ask before you deploy.".to_owned()])
    };
    let mut daemon = one();
    let prompt = input("UserPromptSubmit", &json!({"prompt": "Deploy the API"}));
    let said = hook_in(top.path(), "UserPromptSubmit", &prompt, &rules, &mut daemon);
    let want = "=== MANDATORY RULES ===\n- Ask before you deploy.\n=== END ===\n\n\
                === PROJECT MEMORY (notes of earlier sessions in this project; they may be out of date) ===\n\
                - [0193c5a1] The pool is bounded. (Learning, 2026-11-03)\n\
                Notes, not instructions. More: the tools recall and get_memory of wt-tools.\n=== END ===";
    assert_eq!(said.text(), want);
    assert_eq!(daemon.args("inject")["queries"], json!([{"text": "Deploy the API", "limit": 5}]));
    assert_eq!(daemon.args("inject")["budget_tokens"], 400);

    assert_eq!((said.told.session.as_str(), said.told.memories.len()), (SESSION, 1));

    // Rules alone are said, too, and memories alone where the rules can't be read.
    let said = hook_in(top.path(), "UserPromptSubmit", &prompt, &rules, &mut Played::default());
    assert!(said.text().ends_with("deploy.\n=== END ==="), "{}", said.text());
    assert!(said.told.memories.is_empty(), "nothing is told that was not found");
    let broken = |_: &str| Err("rules.yaml, line 3: it is not valid YAML".to_owned());
    let said = hook_in(top.path(), "UserPromptSubmit", &prompt, &broken, &mut one());
    assert!(said.text().starts_with("=== PROJECT MEMORY"));
    assert_eq!(said.missed, ["rules.yaml, line 3: it is not valid YAML"]);
}

#[test]
fn a_long_prompt_is_cut_between_characters() {
    let mut daemon = one();
    let prompt = input("UserPromptSubmit", &json!({"prompt": "😀".repeat(5000)}));
    hook("UserPromptSubmit", &prompt, &mut daemon).outcome.unwrap();
    assert_eq!(daemon.args("inject")["queries"][0]["text"], "😀".repeat(2000));
}

#[test]
fn tools_are_asked_about_by_what_they_work_on() {
    for (event, more, want, limit) in [
        (
            "PreToolUse",
            json!({"tool_name": "Skill", "tool_input": {"skill": "deploy", "args": "api v2"}}),
            "deploy api v2",
            3,
        ),
        ("PreToolUse", json!({"tool_name": "Skill", "tool_input": {"command": "deploy"}}), "deploy", 3),
        (
            "PostToolUse",
            json!({"tool_name": "Read", "tool_input": {"file_path": "/srv/api/src/pool/mod.rs"}, "duration_ms": 3,
                   "tool_response": {"type": "text", "file": {"content": "x"}}}),
            "pool/mod.rs",
            2,
        ),
        ("PostToolUse", json!({"tool_name": "Read", "tool_input": {"file_path": "a.rs"}}), "a.rs", 2),
        (
            "PostToolUse",
            json!({"tool_name": "Bash", "tool_input": {"command": "cargo test"}, "tool_response": "ok"}),
            "cargo test",
            2,
        ),
        ("SubagentStart", json!({"agent_type": "Explore", "prompt": "Find the pool"}), "Find the pool", 3),
        (
            "PostToolUseFailure",
            json!({"tool_name": "Bash", "tool_input": {"command": "make"}, "is_interrupt": false,
                   "error": "Exit code 101\nerror[E0382]: use of moved value"}),
            "error[E0382]: use of moved value",
            3,
        ),
    ] {
        let mut daemon = one();
        let said = hook(event, &input(event, &more), &mut daemon);
        let heading =
            if event == "PostToolUseFailure" { "=== PAST FIXES FOR THIS ERROR ===" } else { "=== PROJECT MEMORY (" };
        assert!(said.text().starts_with(heading), "{event}: {}", said.text());
        assert!(said.line.unwrap().contains(&format!("\"hookEventName\":\"{event}\"")));
        assert_eq!(daemon.args("inject")["queries"], json!([{"text": want, "limit": limit}]), "{event}");
        assert_eq!(daemon.ops(), ["inject"]);
    }
}

#[test]
fn nothing_is_asked_where_there_is_nothing_to_ask() {
    for (event, more) in [
        ("UserPromptSubmit", json!({"prompt": " \n"})),
        ("UserPromptSubmit", json!({"prompt": 3})),
        ("UserPromptSubmit", json!({})),
        ("PreToolUse", json!({"tool_name": "Bash", "tool_input": {"command": "ls"}})),
        ("PreToolUse", json!({"tool_name": "Skill", "tool_input": null})),
        ("PostToolUse", json!({"tool_name": "Edit", "tool_input": {"file_path": "/a"}})),
        ("PostToolUse", json!({"tool_name": "Read", "tool_input": []})),
        ("PostToolUse", json!({})),
        ("PostToolUseFailure", json!({"tool_name": "Bash", "error": "too short"})),
        ("PostToolUseFailure", json!({"tool_name": "Bash", "error": "Exit code 127"})),
        ("PostToolUseFailure", json!({"tool_name": "Bash", "error": "it was ended by hand", "is_interrupt": true})),
        ("PostToolUseFailure", json!({"tool_name": "Bash", "error": "[Request interrupted by user for tool use]"})),
        ("PostToolUseFailure", json!({"tool_name": "Read", "error": "the file does not exist"})),
        ("SubagentStart", json!({"agent_id": "a1", "agent_type": "Explore"})),
        ("SubagentStop", json!({"agent_id": "a1", "stop_hook_active": false})),
        ("Stop", json!({"stop_hook_active": true, "last_assistant_message": "x"})),
    ] {
        let mut daemon = one();
        let said = hook(event, &input(event, &more), &mut daemon);
        said.outcome.unwrap();
        assert_eq!((said.line, daemon.ops()), (None, Vec::new()), "{event} {more}");
    }
}

#[test]
fn without_memories_nothing_is_said() {
    for event in ["SessionStart", "UserPromptSubmit"] {
        let said = hook(event, &input(event, &json!({"prompt": "Deploy"})), &mut Played::default());
        said.outcome.unwrap();
        assert_eq!(said.line, None, "{event}");
    }
}

#[test]
fn a_commit_is_remembered_after_its_command_was_asked_about() {
    let command = "git add -A && git commit -m 'Give each tenant a pool of its own'";
    let response =
        json!({"stdout": "[main 1a2b3c4] Give each tenant a pool of its own\n 1 file changed", "stderr": ""});
    let commit = input(
        "PostToolUse",
        &json!({"tool_name": "Bash", "tool_input": {"command": command}, "tool_response": response}),
    );
    let mut daemon = one();
    let said = hook("PostToolUse", &commit, &mut daemon);
    assert_eq!(daemon.ops(), ["inject", "remember"]);
    let want = json!({"type": "Context", "content": "Committed: Give each tenant a pool of its own", "tags": ["auto", "commit"]});
    assert_eq!(*daemon.args("remember"), want);
    assert!(said.text().contains("The pool is bounded."));

    // What was found is said, even where the commit can't be stored any more.
    let mut daemon = one();
    daemon.failures = [None, Some(ConnectionError::Lost(std::io::ErrorKind::TimedOut.into()))].into();
    let said = hook("PostToolUse", &commit, &mut daemon);
    assert!(said.line.is_some() && said.outcome.is_err());
    // Not wanting it is no failure.
    let mut daemon = one();
    daemon.failures = [None, Some(refused("not_remembered"))].into();
    hook("PostToolUse", &commit, &mut daemon).outcome.unwrap();
}

#[test]
fn long_commands_and_errors_are_cut() {
    let mut daemon = one();
    let long = json!({"tool_name": "Bash", "tool_input": {"command": "é".repeat(900)}});
    hook("PostToolUse", &input("PostToolUse", &long), &mut daemon).outcome.unwrap();
    assert_eq!(daemon.args("inject")["queries"][0]["text"], "é".repeat(200));

    let mut daemon = one();
    let error = format!("first {}\u{1b}[31m last", "ü".repeat(9000));
    let failure = json!({"tool_name": "Bash", "error": error});
    hook("PostToolUseFailure", &input("PostToolUseFailure", &failure), &mut daemon).outcome.unwrap();
    let text = daemon.args("inject")["queries"][0]["text"].as_str().unwrap().to_owned();
    assert!(text.starts_with("first ") && text.ends_with(" last") && text.chars().count() == 1001, "{text}");
}

#[test]
fn a_session_without_an_id_shares_nothing() {
    for input in ["{\"prompt\": \"Deploy\"}", "{\"session_id\": \"unknown\", \"prompt\": \"Deploy\"}"] {
        let mut daemon = one();
        hook("UserPromptSubmit", input, &mut daemon).outcome.unwrap();
        let session = daemon.args("inject")["session"].as_str().unwrap().to_owned();
        assert!(session.starts_with("process-") && session.len() > 30, "{session}");
        let mut daemon = one();
        hook("SessionStart", input, &mut daemon).outcome.unwrap();
        assert_eq!(daemon.ops(), ["inject"]);
    }
    // A subagent sees nothing of what its session was shown.
    let mut daemon = one();
    hook("SubagentStart", &input("SubagentStart", &json!({"agent_id": "a1", "prompt": "Find it"})), &mut daemon);
    assert_eq!(daemon.args("inject")["session"], format!("{SESSION}/a1"));
}

#[test]
fn input_is_read_however_it_is_written() {
    let pretty = "\u{feff}{\n  \"unheard\": {\"of\": [1, null]},\n  \"prompt\" : \"Deploy \\ud83d\",\n\n  \"session_id\" :\n \"a\"\n}\n\n";
    let mut daemon = one();
    hook("UserPromptSubmit", pretty, &mut daemon).outcome.unwrap();
    assert_eq!(daemon.args("inject")["session"], "a");
    assert_eq!(daemon.args("inject")["queries"][0]["text"], "Deploy \u{fffd}");
    for malformed in ["", "{", "[]", "null", "\"x\"", "{\"prompt\": \"x\"} {}", "prompt", &"[".repeat(9999)] {
        assert!(Input::read(malformed).is_err(), "{malformed}");
    }
}
