//! Skills: read on demand by whatever runtime, each butler its own, nothing but skills.

use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::{Value, json};
use testkit::model::ScriptedModel;

use crate::support::{Household, Runtime, installed, model};
use what_was_left_out::left_out;

const WEIGHING: &str = "---\nname: weighing\ndescription: How to weigh.\nversion: 1.0.0\ntrigger_patterns: [weigh]\n---\n\
                        # Weighing\n\nRead scales/kinds.md first.\n";

/// A household whose Health butler has the skill `weighing` with a file beside its text, and whose model reads both.
async fn household() -> (ScriptedModel, Household) {
    let read = |arguments: Value| json!({"call": {"tool": "skill_read", "arguments": arguments}});
    let file = json!({"name": "weighing", "file": "scales/kinds.md"});
    let model = model(json!([
        {"when": "by the book", "steps": [read(json!({"name": "weighing"})), read(file.clone()), {"say": "as it says"}]},
        {"when": "by its own tool", "steps": [
            {"call": {"tool": "Skill", "arguments": {"skill": "butler:weighing"}}}, read(file), {"say": "as it says"}]},
    ]))
    .await;
    let household = Household::with_model(&model)
        .write("health/skills/weighing/SKILL.md", WEIGHING)
        .write("health/skills/weighing/scales/kinds.md", "Spring, beam, digital.\n");
    (model, household)
}

/// Everything that the model was told in its requests.
fn heard(model: &ScriptedModel) -> String {
    model.requests().iter().map(|r| r.body.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_native_runtime_reads_a_skill_and_a_file_of_it() {
    let (model, household) = household().await;
    let daemon = household.start().await;
    let (code, out, err) = household.cli(&["trigger", "health", "weigh me by the book", "--follow"]);
    assert_eq!(code, 0, "{out}{err}\n{}", daemon.log());
    assert_eq!(out.matches("the skill weighing").count(), 1, "one event tells that it was read: {out}");
    let health = daemon.mcp("health");
    let session =
        health.ok("sessions_get", json!({"session_id": health.ok("sessions_list", json!({})).await[0]["id"]}));
    let session = session.await;
    let calls: Vec<&Value> = session["tool_calls"].as_array().expect("calls").iter().map(|c| &c["tool"]).collect();
    assert_eq!(calls, ["skill_read", "skill_read"], "{session}");
    let heard = heard(&model);
    for words in ["Read scales/kinds.md first", "Spring, beam, digital", "call the tool skill_read with its name"] {
        assert!(heard.contains(words), "{words}: {heard}");
    }
    assert!(!heard.contains("trigger_patterns"), "the head is not text for a model");
    // What the prompt calls for stands first.
    let place = |name: &str| heard.find(&format!("\\n- {name}: ")).unwrap_or_else(|| panic!("no {name} in {heard}"));
    assert!(place("weighing") < place("looking-back") && place("looking-back") < place("measurements"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claude_code_reads_a_skill_by_its_own_tool_and_files_of_it_through_butlerd() {
    let Some(program) = std::env::var_os("BUTLERD_TEST_CLAUDE") else {
        return left_out(
            "skills::claude_code_reads_a_skill_by_its_own_tool_and_files_of_it_through_butlerd",
            "BUTLERD_TEST_CLAUDE is not set; `eval \"$(.ci/run clients)\"` installs Claude Code",
        );
    };
    let (model, household) = household().await;
    let household = household
        .runtime("health", "type = \"claude-code\"")
        .model("health", "claude-sonnet-4-5")
        .env("BUTLERD_SPAWNER__CLIS__CLAUDE", program.to_str().expect("a path"));
    let daemon = household.start().await;
    let (code, out, err) = household.cli(&["trigger", "health", "weigh me by its own tool", "--follow"]);
    assert_eq!(code, 0, "{out}{err}\n{}", daemon.log());
    assert_eq!(out.matches("the skill weighing").count(), 1, "one event tells that it was read: {out}");
    let heard = heard(&model);
    for words in ["Read scales/kinds.md first", "Spring, beam, digital", "- weighing: How to weigh."] {
        assert!(heard.contains(words), "{words}: {heard}");
    }
    assert!(!heard.contains("skill_list"), "what the program does by itself is not offered twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_but_a_butler_s_own_skills_can_be_read() {
    let household = Household::whole()
        .write("health/skills/weighing/SKILL.md", WEIGHING)
        .write("travel/skills/packing/SKILL.md", "---\nname: packing\ndescription: d\n---\nbags\n")
        .write("shared/skills/hidden/SKILL.md", "---\nname: hidden\ndescription: d\n---\nnobody asked for it\n");
    std::fs::write(household.path().join("key"), "a secret").expect("the file");
    let daemon = household.start().await;
    let health = daemon.mcp("health");
    let listed = health.ok("skill_list", json!({})).await;
    let names: Vec<&Value> = listed.as_array().expect("skills").iter().map(|s| &s["name"]).collect();
    assert_eq!(
        names,
        [
            "appointments",
            "butler-memory",
            "butler-notifications",
            "calendar",
            "health-check-in",
            "looking-back",
            "measurements",
            "medications",
            "memory-taxonomy",
            "recurring-work",
            "trend-interpreter",
            "weekly-health-summary",
            "weighing"
        ]
    );
    assert_eq!(listed[9]["files"], json!(["cron.md"]));
    let read = health.ok("skill_read", json!({"name": "recurring-work", "file": "./cron.md"})).await;
    assert!(read["text"].as_str().is_some_and(|t| t.contains("30 7 * * *")), "{read}");
    let refused = async |arguments: Value| {
        let answer = health.ok("skill_read", arguments.clone()).await;
        assert_eq!(
            (&answer["status"], &answer["code"]),
            (&json!("error"), &json!("not_found")),
            "{arguments}: {answer}"
        );
        answer["error"].as_str().expect("a sentence").to_owned()
    };
    for name in ["packing", "hidden", "../travel/skills/packing", "shared/skills/hidden"] {
        let sentence = refused(json!({"name": name})).await;
        assert!(sentence.ends_with("there are: appointments, butler-memory, butler-notifications, calendar, health-check-in, looking-back, measurements, medications, memory-taxonomy, recurring-work, trend-interpreter, weekly-health-summary, weighing."), "{sentence}");
    }
    for file in [
        "../measurements/SKILL.md",
        "scales/../../measurements/SKILL.md",
        "../../butler.toml",
        "/etc/passwd",
        "..",
        ".",
        "SKILL.md/",
        "SKILL.md/../SKILL.md",
        "%2e%2e/measurements/SKILL.md",
    ] {
        refused(json!({"name": "weighing", "file": file})).await;
    }
    // A link that came after the start is not followed either.
    let dir = household.roster().join("health/skills/weighing");
    symlink(household.path().join("key"), dir.join("key")).expect("a link");
    let answer = health.call("skill_read", json!({"name": "weighing", "file": "key"})).await;
    assert!(!answer.body.to_string().contains("a secret"), "{answer:?}");
    std::fs::remove_file(dir.join("key")).expect("no link");
    std::fs::write(dir.join("big"), vec![b'x'; 300 << 10]).expect("a file");
    std::fs::write(dir.join("picture"), [0xff, 0xd8, 0xff]).expect("a file");
    for (file, code) in [("big", "too_large"), ("picture", "not_text")] {
        let answer = health.ok("skill_read", json!({"name": "weighing", "file": file})).await;
        assert_eq!((&answer["status"], &answer["code"]), (&json!("error"), &json!(code)), "{answer}");
    }
    // Who has no skills has no tools for them.
    let tools = daemon.mcp("messenger").tools().await;
    assert!(!tools.iter().any(|t| t.starts_with("skill_")), "{tools:?}");
}

#[test]
fn check_names_scripts_that_a_granted_shell_could_not_run() {
    let script =
        |name: &str, text: &str, household: Household| household.write(&format!("health/skills/weighing/{name}"), text);
    let household = Household::bare().write("health/skills/weighing/SKILL.md", WEIGHING);
    let household = script("closed.sh", "#!/bin/sh\n", household);
    let household = script("nameless.sh", "echo\n", household);
    let household = script("right.sh", "#!/bin/sh\n", household);
    let dir = household.roster().join("health/skills/weighing");
    for name in ["nameless.sh", "right.sh"] {
        std::fs::set_permissions(dir.join(name), std::fs::Permissions::from_mode(0o755)).expect("its mode");
    }
    let (code, out, err) = household.cli(&["check", "--offline"]);
    assert_eq!(code, 0, "nothing runs scripts: {out}{err}");
    let household = household.runtime("health", "type = \"claude-code\"\ntools = [\"Bash\"]");
    let (code, out, err) = household.cli(&["check", "--offline"]);
    assert_eq!(code, 2, "{out}{err}");
    for told in [
        "health/skills/weighing/closed.sh:1: begins with `#!` and is not executable",
        "health/skills/weighing/nameless.sh:1: is executable and names no interpreter",
    ] {
        assert!(out.contains(told), "{out}{err}");
    }
    assert!(!out.contains("right.sh"), "{out}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_skill_parks_its_butler_alone_and_check_says_where() {
    let household = Household::whole()
        .write("travel/skills/packing/SKILL.md", "---\nname: packing\ndescription: d\nversion: one\n---\nbags\n")
        .replace("finance/butler.toml", "\"looking-back\"", "\"looking-bakc\"");
    let (code, out, _) = household.cli(&["check"]);
    assert_eq!(code, 2, "{out}");
    let told = "travel/skills/packing/SKILL.md:4: version: found \"one\", expected a version such as \"1.0.0\"";
    assert!(out.contains(told), "{out}");
    let told =
        "finance/butler.toml:5: butler.shared_skills: found \"looking-bakc\", which is not there, expected a skill";
    assert!(
        out.contains(told)
            && out.contains("shared/skills: butler-memory, butler-notifications, calendar, looking-back"),
        "{out}"
    );
    let daemon = household.start().await;
    for butler in ["travel", "finance"] {
        assert_eq!(daemon.butler(butler).await["state"], "parked");
    }
    assert_eq!(daemon.butler("health").await["state"], "up");
}

/// What each program's own shell is called, as its butler's settings grant it and as its model calls it.
const SHELLS: [(&str, &str, &str); 3] = [
    ("claude-code", "Bash", "Bash"),
    ("codex", "shell", "exec_command"),
    ("gemini", "run_shell_command", "run_shell_command"),
];

async fn script_runs(runtime: Runtime) {
    let Some((_, granted, called)) = SHELLS.iter().find(|(kind, ..)| *kind == runtime.kind) else { return };
    let (argument, line) =
        (if *called == "exec_command" { "cmd" } else { "command" }, ".agents/skills/sums/times.sh 6 7");
    let run = json!({argument: line});
    let model = model(json!([{"when": "by the script", "steps": [
        {"call": {"tool": called, "arguments": run}}, {"say": "FINAL: {{last_result}}"}]}]))
    .await;
    let kind = runtime.kind;
    let household = Household::with_model(&model)
        .with_runtimes(&[runtime], "")
        .replace(
            &format!("{kind}/butler.toml"),
            &format!("type = \"{kind}\"\n"),
            &format!("type = \"{kind}\"\ntools = [\"{granted}\"]\n"),
        )
        .write(&format!("{kind}/skills/sums/SKILL.md"), "---\nname: sums\ndescription: Sums.\n---\nRun times.sh.\n")
        .write(&format!("{kind}/skills/sums/times.sh"), "#!/bin/sh\necho \"the product is $(($1 * $2))\"\n");
    let script = household.roster().join(format!("{kind}/skills/sums/times.sh"));
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("its mode");
    let daemon = household.start().await;
    let done = daemon.mcp(kind).ok("trigger", json!({"prompt": "multiply by the script"})).await;
    assert_eq!(done["success"], true, "{kind}: {done}\n{}", daemon.log());
    assert!(heard(&model).contains("Scripts of a skill can be run"), "{kind}");
    assert!(done["output"].as_str().is_some_and(|said| said.contains("the product is 42")), "{kind}: {done}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_of_a_skill_runs_in_the_shell_that_a_program_was_granted() {
    let runtimes = installed("skills::a_script_of_a_skill_runs_in_the_shell_that_a_program_was_granted");
    let running: Vec<_> =
        runtimes.into_iter().map(|runtime| (runtime.kind, tokio::spawn(script_runs(runtime)))).collect();
    for (kind, run) in running {
        run.await.unwrap_or_else(|e| panic!("{kind}: {e}"));
    }
}
