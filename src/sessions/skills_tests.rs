use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use super::*;
use config::skills::testing::skills_of;

/// A roster with two skills; `weigh` has a file and a script beside its text if asked for.
fn skills(companion: bool) -> Vec<Skill> {
    let dir = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("h/skills/alpha/SKILL.md", "---\nname: alpha\ndescription: First things.\n---\nx");
    write(
        "h/skills/weigh/SKILL.md",
        "---\nname: weigh\ndescription: >\n  Weighs and\n  measures.\ntrigger_patterns: [kg]\n---\nx",
    );
    if companion {
        write("h/skills/weigh/scale.md", "x");
        write("h/skills/weigh/sum.sh", "#!/bin/sh\n");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(dir.path().join("h/skills/weigh/sum.sh"), mode).unwrap();
    }
    skills_of(dir.path(), "h", &[])
}

/// A program that reads skills by itself.
const OWN: SkillAccess = SkillAccess::Own("To read one, call Load.");

fn session(companion: bool, access: SkillAccess, tools: BuiltIn) -> SessionSkills {
    SessionSkills::new(&skills(companion), "81 kg", access, tools)
}

#[test]
fn the_system_prompt_lists_skills_in_the_order_of_the_prompt() {
    let text = session(false, SkillAccess::Served, BuiltIn::None).announced("system".into());
    let expected = "system\n\n# Skills\n\nWorkflows written for you. Before work that one of them covers, read it. To \
                    read one, call the tool skill_read with its name.\n\n- weigh: Weighs and measures.\n- alpha: First \
                    things.";
    assert_eq!(text, expected);
    let text = session(true, OWN, BuiltIn::None).announced("system".into());
    assert!(text.contains("To read one, call Load. A file that a skill refers to: skill_read"), "{text}");
    let scripts = "Scripts of a skill can be run: they are in .agents/skills/<skill>/ of your working directory.";
    for (companion, tools, told) in
        [(true, BuiltIn::Shell, true), (true, BuiltIn::Some, false), (false, BuiltIn::Shell, false)]
    {
        let text = session(companion, SkillAccess::Served, tools).announced("system".into());
        assert_eq!(text.contains(scripts), told, "{companion} {tools:?}: {text}");
    }
    assert_eq!(SessionSkills::new(&[], "x", SkillAccess::Served, BuiltIn::None).announced("system".into()), "system");
}

#[test]
fn what_a_program_does_by_itself_is_not_offered_twice() {
    assert!(session(true, SkillAccess::Served, BuiltIn::None).needless_tools().is_empty());
    assert_eq!(session(true, OWN, BuiltIn::None).needless_tools(), [SKILL_LIST]);
    assert_eq!(session(false, OWN, BuiltIn::None).needless_tools(), [SKILL_LIST, SKILL_READ]);
    let copied = |access, tools| session(true, access, tools).in_workspace().len();
    assert_eq!((copied(OWN, BuiltIn::None), copied(SkillAccess::Served, BuiltIn::None)), (2, 0));
    assert_eq!(copied(SkillAccess::Served, BuiltIn::Some), 2);
}

/// Says events that it was given.
struct Given(Vec<RunEvent>);

impl Parser for Given {
    fn line(&mut self, _: &str) -> Vec<RunEvent> {
        std::mem::take(&mut self.0)
    }
    fn finish(&mut self, _: ExitInfo, _: &str) -> Outcome {
        unreachable!("nobody asks")
    }
}

/// What is told of calls `(arguments of skill_read, result)`, in short.
fn told(calls: &[(Value, &str)]) -> Vec<String> {
    let mut events = Vec::new();
    for (n, (arguments, result)) in calls.iter().enumerate() {
        let (id, name) = (n.to_string(), SKILL_READ.to_owned());
        events.push(RunEvent::ToolCall { id: id.clone(), name: name.clone(), arguments: arguments.clone() });
        events.push(RunEvent::ToolResult { id, name, is_error: *result == "error", content: (*result).to_owned() });
    }
    let short = |event| match event {
        RunEvent::ToolCall { .. } => "call".to_owned(),
        RunEvent::ToolResult { .. } => "result".to_owned(),
        RunEvent::SkillUsed { name } => name,
        other => panic!("{other:?}"),
    };
    watched(Box::new(Given(events))).line("").into_iter().map(short).collect()
}

#[test]
fn the_first_reading_of_a_skill_is_one_event() {
    let weigh = (json!({"name": "weigh"}), "Launching skill");
    assert_eq!(told(std::slice::from_ref(&weigh)), ["call", "result", "weigh"]);
    assert_eq!(told(&[(json!({"name": "weigh", "file": "./SKILL.md"}), "{}")]), ["call", "result", "weigh"]);
    let alpha = (json!({"name": "alpha"}), "{\"text\": \"…\"}");
    let all = ["call", "result", "weigh", "call", "result", "call", "result", "alpha"];
    assert_eq!(told(&[weigh.clone(), weigh, alpha]), all);
}

#[test]
fn what_was_not_read_is_no_use_of_a_skill() {
    for (arguments, result) in [
        (json!({"name": "gone"}), "{\"status\": \"error\", \"code\": \"not_found\"}"),
        (json!({"name": "weigh"}), "error"),
        (json!({"name": "weigh", "file": "scale.md"}), "{}"),
    ] {
        assert_eq!(told(&[(arguments, result)]), ["call", "result"]);
    }
}
