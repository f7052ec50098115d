use serde_json::json;

use super::*;
use crate::config::skills::tests::skills_of;

/// A roster with two skills; `weigh` has a file beside its text where this is wished.
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
    }
    skills_of(dir.path(), "h", &[])
}

/// A program that reads skills with its tool `Load`.
const OWN: SkillAccess = SkillAccess::Own {
    how: Some("To read one, call Load."),
    loaded: |tool, arguments| arguments["skill"].as_str().filter(|_| tool == "Load").map(str::to_owned),
};
const SILENT: SkillAccess = SkillAccess::Own { how: None, loaded: |_, _| None };

fn session(companion: bool, access: SkillAccess, granted: &[String]) -> SessionSkills {
    SessionSkills::new(&skills(companion), "81 kg", access, granted)
}

#[test]
fn the_system_prompt_lists_skills_in_the_order_of_the_prompt() {
    let text = session(false, SkillAccess::Served, &[]).announced("system".into());
    let expected = "system\n\n# Skills\n\nWorkflows written for you. Before work that one of them covers, read it. To \
                    read one, call the tool skill_read with its name.\n\n- weigh: Weighs and measures.\n- alpha: First \
                    things.";
    assert_eq!(text, expected);
    let text = session(true, OWN, &[]).announced("system".into());
    assert!(text.contains("To read one, call Load. A file that a skill refers to: skill_read"), "{text}");
    // A program that announces them by itself is told of the files alone.
    assert_eq!(session(false, SILENT, &[]).announced("system".into()), "system");
    let text = session(true, SILENT, &[]).announced("system".into());
    assert!(text.contains("skill_read") && !text.contains("- weigh"), "{text}");
    assert_eq!(SessionSkills::new(&[], "x", SkillAccess::Served, &[]).announced("system".into()), "system");
}

#[test]
fn what_a_program_does_by_itself_is_not_offered_twice() {
    assert!(session(true, SkillAccess::Served, &[]).needless_tools().is_empty());
    assert_eq!(session(true, OWN, &[]).needless_tools(), [SKILL_LIST]);
    assert_eq!(session(false, OWN, &[]).needless_tools(), [SKILL_LIST, SKILL_READ]);
    let copied = |access, granted: &[&str]| {
        let granted: Vec<String> = granted.iter().map(|g| (*g).to_owned()).collect();
        session(true, access, &granted).in_workspace().len()
    };
    assert_eq!(
        (copied(OWN, &[]), copied(SkillAccess::Served, &[]), copied(SkillAccess::Served, &["shell"])),
        (2, 0, 2)
    );
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

/// What is told of calls `(tool, arguments, result)`, in short.
fn told(access: SkillAccess, calls: &[(&str, Value, &str)]) -> Vec<String> {
    let mut events = Vec::new();
    for (n, (tool, arguments, result)) in calls.iter().enumerate() {
        let (id, name) = (n.to_string(), (*tool).to_owned());
        events.push(RunEvent::ToolCall { id: id.clone(), name: name.clone(), arguments: arguments.clone() });
        let (is_error, content) = (*result == "error", (*result).to_owned());
        if *result != "lost" {
            events.push(RunEvent::ToolResult { id, name, is_error, content });
        }
    }
    events.push(RunEvent::Final);
    let short = |event| match event {
        RunEvent::ToolCall { name, .. } => format!("call {name}"),
        RunEvent::ToolResult { name, .. } => format!("result {name}"),
        RunEvent::SkillUsed { name } => format!("skill {name}"),
        RunEvent::Final => "final".to_owned(),
        other => panic!("{other:?}"),
    };
    watched(Box::new(Given(events)), access).line("").into_iter().map(short).collect()
}

#[test]
fn reading_a_skill_is_one_event_by_whichever_tool() {
    let own = [("Load", json!({"skill": "weigh"}), "Launching")];
    assert_eq!(told(OWN, &own), ["skill weigh", "final"]);
    let served = [("skill_read", json!({"name": "weigh"}), "{\"text\": \"…\"}")];
    assert_eq!(told(SkillAccess::Served, &served), ["skill weigh", "final"]);
    assert_eq!(told(OWN, &served), ["skill weigh", "final"]);
    let file = [("skill_read", json!({"name": "weigh", "file": "./SKILL.md"}), "{}")];
    assert_eq!(told(SkillAccess::Served, &file), ["skill weigh", "final"]);
    // Again it is a call like others.
    let twice = [own[0].clone(), served[0].clone()];
    assert_eq!(told(OWN, &twice), ["skill weigh", "call skill_read", "result skill_read", "final"]);
}

#[test]
fn what_was_not_read_is_no_use_of_a_skill() {
    for (call, result) in [
        (json!({"name": "gone"}), "{\"status\": \"error\", \"code\": \"not_found\"}"),
        (json!({"name": "weigh"}), "error"),
        (json!({"name": "weigh", "file": "scale.md"}), "{}"),
    ] {
        let told = told(SkillAccess::Served, &[("skill_read", call, result)]);
        assert_eq!(told, ["call skill_read", "result skill_read", "final"]);
    }
    assert_eq!(told(OWN, &[("Load", json!({"skill": "weigh"}), "lost")]), ["call Load", "final"]);
    assert_eq!(told(OWN, &[("state_get", json!({"skill": "weigh"}), "{}")])[0], "call state_get");
}
