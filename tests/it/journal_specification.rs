//! Specification 004, section 9, row by row, by the commands and hooks that take the place of its scripts. Row "Valid
//! range" of a sync by a session and the chain to the next session are in `journal`.

use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tokio_postgres::Client;

use crate::chat::say;
use crate::support::journal::{GENERAL, call, checkpoint, count, files_of_rows, own_pass, said, texts};
use crate::support::{Daemon, Household, butlerd, eventually, model};
use journal::wire::{Accepted, Edit, Op};

const BEGIN: &str = "=== CORE MEMORY (always loaded) ===";
const END: &str = "=== END CORE MEMORY ===";

/// A household that nobody syncs by itself.
async fn begun() -> (Household, Daemon, Client) {
    let household = Household::new().journal_settings("sync = \"by_hand\"");
    let daemon = household.start().await;
    household.journal_begun().await;
    let db = household.rows().await;
    (household, daemon, db)
}

/// `butlerd journal …`: exit code, standard output and error.
fn run(household: &Household, args: &[&str]) -> (i32, String, String) {
    tokio::task::block_in_place(|| household.cli(&[&["journal"], args].concat()))
}

/// What it prints; it has to go well.
fn printed(household: &Household, args: &[&str]) -> String {
    let (code, out, err) = run(household, args);
    assert_eq!(code, 0, "{args:?}: {out}{err}");
    out
}

/// Runs `butlerd hook …` as Claude Code does.
fn hook(household: &Household, event: &str, more: &Value) -> Output {
    let mut input = json!({"session_id": "s", "cwd": household.path(), "hook_event_name": event});
    input.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    let mut child = Command::new(butlerd())
        .args(["hook", event])
        .env_clear()
        .env("PATH", std::env::var("PATH").unwrap_or_default())
        .env("HOME", household.path())
        .env("BUTLERD_JOURNAL_SOCKET", household.data().join("run/journal.sock"))
        .env("BUTLERD_PROJECT_SOCKET", household.data().join("run/project.sock"))
        .current_dir(household.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the hook runs");
    drop(child.stdin.take().expect("its input").write_all(input.to_string().as_bytes()));
    child.wait_with_output().expect("its end")
}

/// What a hook tells; it never fails, and what it prints is JSON or nothing.
fn told(household: &Household, event: &str, more: &Value) -> String {
    let out = tokio::task::block_in_place(|| hook(household, event, more));
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{event}: {} {text}", String::from_utf8_lossy(&out.stderr));
    if text.trim().is_empty() {
        return String::new();
    }
    let told: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{event}: {e}: {text}"));
    assert_eq!(told["hookSpecificOutput"]["hookEventName"], event, "{told}");
    told["hookSpecificOutput"]["additionalContext"].as_str().unwrap_or_else(|| panic!("no context: {told}")).to_owned()
}

/// As [`told`], once it has these words: a hook that has no answer in time says nothing.
async fn tells(household: &Household, event: &str, more: Value, words: &str) -> String {
    eventually(&format!("{event} tells {words}"), || async {
        let text = told(household, event, &more);
        if text.contains(words) { Ok(text) } else { Err(text) }
    })
    .await
}

/// Puts a text into a file as a person does.
fn edited(household: &Household, file: &str, text: &str) {
    fs::write(household.journal_path(file), text).expect("an edit");
    let edits: Vec<Edit> = household.told(Op::Edits);
    let accepted: Accepted = household.told(Op::Accept {
        edits: edits.into_iter().map(|edit| edit.id).collect(),
        looked: false,
        deletions: true,
    });
    assert_eq!(accepted.taken, [file], "{accepted:?}");
}

fn today(household: &Household) -> String {
    let text = household.journal_file("sessions/today.md");
    text.lines().next().unwrap_or_default().trim_start_matches("# Session Log: ").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_9_1_session_inject() {
    let (household, mut daemon, db) = begun().await;
    // With core.md: its text, whole, between the marks.
    let mine = "# Core Memory\n\n**Identity:** I am general, for a test: ä, 日本, \"quotes\" \\ and\ttabs.\n";
    edited(&household, "core.md", mine);
    let text = tells(&household, "SessionStart", json!({"source": "startup"}), END).await;
    assert!(text.starts_with(&format!("{BEGIN}\n\n{}\n\n{END}", mine.trim_end())), "{text}");
    // Malformed core.md: what is not text is told from the rows, and nothing crashes.
    fs::write(household.journal_path("core.md"), [0xff, 0, 0xfe, b'"', b'\\']).expect("a file");
    assert_eq!(tells(&household, "SessionStart", json!({"source": "startup"}), END).await, text);
    // Deleted by hand: the same, and it comes back.
    fs::remove_file(household.journal_path("core.md")).expect("a file");
    assert_eq!(tells(&household, "SessionStart", json!({"source": "startup"}), END).await, text);
    printed(&household, &["rotate"]);
    assert_eq!(household.journal_file("core.md"), mine);
    // No core.md: an empty context, or nothing.
    edited(&household, "core.md", "");
    assert!(!files_of_rows(&db).await.contains_key("core.md"));
    assert_eq!(told(&household, "SessionStart", &json!({"source": "startup"})), "");
    // No daemon either.
    assert_eq!(tokio::task::block_in_place(|| daemon.stop_blocking()), 0);
    assert_eq!(told(&household, "SessionStart", &json!({"source": "startup"})), "");
    assert_eq!(told(&household, "UserPromptSubmit", &json!({"prompt": "hello"})), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_9_1_session_rotate() {
    let (household, _daemon, db) = begun().await;
    let day = today(&household);
    let header = format!("# Session Log: {day}\n\n");
    // Same day: twice.
    for _ in 0..2 {
        assert_eq!(printed(&household, &["rotate"]).trim(), "No rotation needed (same day).");
    }
    // No today.md: it is there again, with the day's header.
    fs::remove_file(household.journal_path("sessions/today.md")).expect("a file");
    printed(&household, &["rotate"]);
    assert_eq!(household.journal_file("sessions/today.md"), header);
    edited(&household, "sessions/today.md", "");
    assert_eq!(printed(&household, &["rotate"]).trim(), format!("Created fresh today.md for {day}"));
    assert_eq!(household.journal_file("sessions/today.md"), header);
    // No sessions directory: it is made, and today.md in it.
    fs::remove_dir_all(household.journal_path("sessions")).expect("the directory");
    printed(&household, &["rotate"]);
    assert_eq!(household.journal_file("sessions/today.md"), header);
    // Day change.
    let yesterday = day.parse::<jiff::civil::Date>().expect("a day").yesterday().expect("a day before");
    let log = format!("# Session Log: {yesterday}\n\n**09:30** - Kept.\n");
    edited(&household, "sessions/today.md", &log);
    let out = printed(&household, &["rotate"]);
    assert_eq!(out.trim(), format!("Rotated: today.md -> {yesterday}.md\nCreated fresh today.md for {day}"));
    assert_eq!(household.journal_file(&format!("sessions/{yesterday}.md")), log);
    assert_eq!(printed(&household, &["rotate"]).trim(), "No rotation needed (same day).");
    household.rows_and_files_agree(&db, "after the rotation").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_9_1_memory_sync() {
    let (household, _daemon, db) = begun().await;
    said(&db, "owner", &texts(5)).await;
    // --status
    let status: Value = serde_json::from_str(&printed(&household, &["sync", "--status"])).expect("JSON");
    let keys: std::collections::BTreeSet<&str> =
        status.as_object().expect("an object").keys().map(String::as_str).collect();
    let five = ["begin_id", "end_id", "last_checkpoint_id", "last_checkpoint_summary", "unsummarized_count"];
    assert_eq!((keys, &status["unsummarized_count"]), (five.into(), &json!(5)), "{status}");
    // Valid range
    let (begin, end) = (status["begin_id"].to_string(), status["end_id"].to_string());
    let out = printed(&household, &["sync", "--begin", &begin, "--end", &end]);
    assert!(out.starts_with("=== CONVERSATIONS TO PROCESS ===\n["), "{out}");
    assert_eq!(out.matches("The garden needs task number ").count(), 5, "{out}");
    let state =
        out.split("\n\n=== CURRENT MEMORY STATE ===\n--- core.md ---\n# Core Memory\n").nth(1).expect("the state");
    assert!(
        state.contains("--- sessions/today.md ---\n")
            && out.ends_with(&format!("=== END ===\nRange: {begin} to {end}\n")),
        "{out}"
    );
    // Missing args
    for args in [
        &["sync", "--begin", &begin][..],
        &["sync", "--end", &end],
        &["sync", "--all"],
        &["checkpoint"],
        &["checkpoint", &end],
    ] {
        let (code, out, err) = run(&household, args);
        assert!(code == 2 && out.is_empty() && err.to_lowercase().contains("usage"), "{args:?}: {code} {out}{err}");
    }
    // A wrong range says what the next one is.
    let (code, _, err) = run(&household, &["sync", "--begin", "1000", "--end", "2000"]);
    assert!(code == 1 && err.contains(&format!("begins with {begin}")), "{code} {err}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_9_1_memory_init_and_9_2_idempotency() {
    let household = Household::few().with_general();
    let _daemon = household.start().await;
    household.journal_begun().await;
    let files = [
        "core.md",
        "reference/decisions.md",
        "reference/projects.md",
        "reference/preferences.md",
        "reference/ideas.md",
        "sessions/today.md",
    ];
    // Fresh install: the daemon fills it as it starts. Emptied files are filled by hand.
    for file in ["core.md", "reference/ideas.md"] {
        fs::write(household.journal_path(file), "").expect("an emptied file");
    }
    let out = printed(&household, &["init"]);
    for directory in ["reference", "sessions", "archive"] {
        assert!(out.contains(&format!("Directory: {}\n", household.journal_path(directory).display())), "{out}");
    }
    for file in files {
        let made = ["core.md", "reference/ideas.md"].contains(&file);
        let line = format!("{}: {file}\n", if made { "Created" } else { "Skipped (exists)" });
        assert!(out.contains(&line) && household.journal_path(file).is_file(), "{line}: {out}");
    }
    let claude = household.path().join("CLAUDE.md");
    let section = fs::read_to_string(&claude).expect("the section of CLAUDE.md");
    assert!(section.contains("Memory System"), "{section}");
    // Existing files: all are left alone, also those that a person has edited.
    edited(&household, "reference/ideas.md", "# Ideas\n\n### Mine\nA pond.\n");
    fs::write(household.journal_path("core.md"), "# Core Memory\n\nnot accepted yet\n").expect("an edit");
    let out = printed(&household, &["init"]);
    for file in files {
        assert!(out.contains(&format!("Skipped (exists): {file}\n")), "{file}: {out}");
    }
    assert!(!out.contains("Created") && out.contains("Memory system initialized."), "{out}");
    assert_eq!(household.journal_file("reference/ideas.md"), "# Ideas\n\n### Mine\nA pond.\n");
    assert_eq!(household.journal_file("core.md"), "# Core Memory\n\nnot accepted yet\n");
    assert_eq!(fs::read_to_string(&claude).expect("CLAUDE.md"), section);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_9_1_memory_status() {
    let (household, mut daemon, db) = begun().await;
    said(&db, "owner", &texts(31)).await;
    let out = printed(&household, &["status"]);
    assert!(out.starts_with("Memory System Status\n====================\nCore memory:      "), "{out}");
    for label in ["Decisions:", "Projects:", "Preferences:", "Session log:", "Session archive:", "Archive:"] {
        assert!(out.lines().any(|line| line.starts_with(label)), "{label} {out}");
    }
    assert!(out.contains("Unsummarized:") && out.contains("31 conversations (id ") && out.contains("30"), "{out}");
    assert!(out.contains(&today(&household)), "{out}");
    let status: Value = serde_json::from_str(&printed(&household, &["status", "--json"])).expect("JSON");
    assert_eq!((&status["sync"]["unsummarized_count"], &status["threshold"]), (&json!(31), &json!(30)), "{status}");
    // No C4 DB: without the daemon the files are shown, and that there is no more.
    assert_eq!(tokio::task::block_in_place(|| daemon.stop_blocking()), 0);
    let (code, out, err) = run(&household, &["status"]);
    assert!(code == 3 && out.contains("Core memory:      ") && out.contains("Sync Status:"), "{code} {out}{err}");
}

/// 9.3 and 9.6: the whole cycle by hand, as an interactive session goes through it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_9_3_full_sync_cycle_and_9_6_by_hand() {
    let (household, _daemon, db) = begun().await;
    said(&db, "owner", &texts(35)).await;
    let action = tells(&household, "UserPromptSubmit", json!({"prompt": "hello"}), "[Action Required]").await;
    let status = household.sync_status();
    let (begin, end) = (status.begin_id.expect("a first").to_string(), status.end_id.expect("a last").to_string());
    assert_eq!(action.trim(), format!("[Action Required] invoke /memory-sync --begin {begin} --end {end}"));
    let text = tells(&household, "SessionStart", json!({"source": "startup"}), "[Action Required]").await;
    let recent: Vec<&str> = text.lines().filter(|line| line.contains("The garden needs task number ")).collect();
    assert!(
        recent.len() == 6 && recent[5].ends_with("number 35.") && recent[0].ends_with("number 30."),
        "the last six: {text}"
    );

    assert_eq!(
        printed(&household, &["sync", "--begin", &begin, "--end", &end]).matches("The garden needs").count(),
        35
    );
    assert_eq!(told(&household, "UserPromptSubmit", &json!({"prompt": "hello"})), "", "somebody is at it");
    let core = household.journal_file("core.md");
    let core = core.replace("Fresh installation. Ready for first interaction.", "35 tasks in the garden.");
    fs::write(household.journal_path("core.md"), &core).expect("an edit");
    let log = household.journal_file("sessions/today.md") + "**10:00** - Planned the garden.\n";
    fs::write(household.journal_path("sessions/today.md"), &log).expect("an edit");
    let (code, out, err) = run(&household, &["accept"]);
    assert!(code != 0 && (out.clone() + &err).contains("--yes"), "nobody is there to be asked: {code} {out}{err}");
    let out = printed(&household, &["accept", "--yes"]);
    assert!(out.contains("+35 tasks in the garden.") && out.contains("sessions/today.md"), "{out}");
    let summary = "Focus: 35 tasks in the garden.";
    printed(&household, &["checkpoint", &end, "--summary", summary]);
    // 4 to 6: the files, the checkpoint, and a new session that is told them and nothing to do.
    household.rows_and_files_agree(&db, "after the cycle").await;
    assert_eq!((household.journal_file("core.md"), household.journal_file("sessions/today.md")), (core.clone(), log));
    let all: Value = serde_json::from_str(&printed(&household, &["checkpoints", "--json"])).expect("JSON");
    assert_eq!((&all["items"][0]["end_id"].to_string(), &all["items"][0]["summary"]), (&end, &json!(summary)), "{all}");
    let text = tells(&household, "SessionStart", json!({"source": "startup"}), summary).await;
    assert!(text.starts_with(&format!("{BEGIN}\n\n{}\n\n{END}", core.trim_end())), "{text}");
    assert!(
        text.contains(&format!("[Last Checkpoint Summary] {summary}")) && text.contains("No new conversations"),
        "{text}"
    );
    assert!(!text.contains("[Action Required]"), "{text}");
    assert_eq!(told(&household, "UserPromptSubmit", &json!({"prompt": "hello"})), "");
    // 9.7: after a compaction it is told again, word by word.
    assert_eq!(tells(&household, "SessionStart", json!({"source": "compact"}), summary).await, text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_9_4_scheduler_dispatch() {
    let steps = json!([call("journal_log", json!({"text": "By the schedule"})), checkpoint("Tasks."), {"say": "done"}]);
    let model = model(json!([own_pass(steps)])).await;
    let household = Household::with_model(&model).env("BUTLERD_SCHEDULES__MIN_INTERVAL", "1s");
    let _daemon = household.start().await;
    household.journal_begun().await;
    let db = household.rows().await;
    said(&db, "owner", &texts(5)).await;
    let cli = |args: &[&str]| {
        let (code, out, err) = tokio::task::block_in_place(|| household.cli(args));
        assert_eq!(code, 0, "{args:?}: {out}{err}");
        out
    };
    let list: Value = serde_json::from_str(&cli(&["schedule", "list", "--butler", GENERAL, "--json"])).expect("JSON");
    let items = list["items"].as_array().expect("a list");
    let sync = items.iter().find(|s| s["name"] == "memory-sync").unwrap_or_else(|| panic!("{list}"));
    assert_eq!((&sync["priority"], &sync["enabled"]), (&json!(1), &json!(true)), "{sync}");
    // Its next time is moved to now.
    cli(&["schedule", "update", sync["id"].as_str().expect("an id"), "--in", "1 second"]);
    household.synced(&db, 1).await;
    assert!(household.journal_file("sessions/today.md").contains("** - By the schedule\n"));
    let sql = "sessions WHERE trigger_source = 'schedule:memory-sync' AND state = 'succeeded'";
    eventually("its session", || async {
        let n = count(&db, sql).await;
        if n == 1 { Ok(()) } else { Err(n.to_string()) }
    })
    .await;
}

/// 9.5: both hooks, before and behind the threshold, and what chat says in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_9_5_hook_chain() {
    let model = model(json!([{"when": "hello there", "steps": [{"say": "Good morning, Ada."}]}])).await;
    let household = Household::with_model(&model).journal_settings("sync = \"by_hand\"\nthreshold = 4");
    let daemon = household.start().await;
    household.journal_begun().await;
    let text = tells(&household, "SessionStart", json!({"source": "startup"}), BEGIN).await;
    assert!(text.trim_end().ends_with(END), "there is no more to tell: {text}");
    for n in 1..=3 {
        let answer = say(&daemon, json!({"text": format!("hello there {n}"), "butler": GENERAL})).await;
        assert_eq!(answer.last().map(|e| &e["state"]), Some(&json!("done")), "{answer:?}");
        eventually("both words are in the log", || async {
            let status = household.sync_status();
            if status.unsummarized_count == 2 * n { Ok(()) } else { Err(format!("{status:?}")) }
        })
        .await;
        let status = household.sync_status();
        let (begin, end) = (status.begin_id.expect("a first"), status.end_id.expect("a last"));
        let text = tells(&household, "SessionStart", json!({"source": "resume"}), &format!("hello there {n}")).await;
        let told_all = text.contains(&format!("[Recent Conversations] (id {begin} ~ {end})"));
        assert!(told_all && text.contains("] OUT (chat:") && text.contains("Good morning, Ada."), "{text}");
        assert_eq!(text.contains("[Action Required]"), n == 3, "{n}: {text}");
        if n == 3 {
            let action = tells(&household, "UserPromptSubmit", json!({"prompt": "hello"}), "[Action Required]").await;
            assert_eq!(action.trim(), format!("[Action Required] invoke /memory-sync --begin {begin} --end {end}"));
        } else {
            let said = told(&household, "UserPromptSubmit", &json!({"prompt": "hello"}));
            assert_eq!(said, "", "at the threshold or below it says nothing");
        }
    }
}

/// 9.7: no shell scripts, both hooks with their times, files that outlive the daemon.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_9_7_checklist() {
    let (household, daemon, db) = begun().await;
    edited(&household, "reference/ideas.md", "# Ideas\n\n### Kept\nFor ever.\n");
    let settings = household.path().join("settings.json");
    fs::write(&settings, "{\"model\": \"opus\"}").expect("settings");
    let out = printed(&household, &["install-hooks", "--settings", settings.to_str().expect("a path")]);
    let made: Value = serde_json::from_str(&fs::read_to_string(&settings).expect("settings")).expect("JSON");
    assert_eq!(made["model"], "opus", "what was there is kept: {made}");
    for (event, seconds) in [("SessionStart", 10), ("UserPromptSubmit", 5)] {
        let hook = &made["hooks"][event][0]["hooks"][0];
        let command = hook["command"].as_str().unwrap_or_else(|| panic!("no hook {event}: {made}"));
        assert!(command.contains(&format!("hook {event}")) && !command.contains(".sh"), "{hook}");
        assert_eq!(hook["timeout"], seconds, "{hook}");
    }
    the_skill_reaches_the_journal_of_the_hooks(&household, &out);
    let (mut open, mut looked) = (vec![household.path().join(".claude"), household.data().join("journal")], 0);
    while let Some(path) = open.pop() {
        looked += 1;
        assert!(path.extension().is_none_or(|extension| extension != "sh"), "a shell script: {}", path.display());
        open.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
    }
    assert!(looked > 15, "{looked}");
    let before = files_of_rows(&db).await;
    drop(daemon);
    let _daemon = household.start().await;
    household.journal_begun().await;
    let db = household.rows().await;
    assert_eq!(files_of_rows(&db).await, before);
    household.rows_and_files_agree(&db, "after a start").await;
}

/// The skill and the section of CLAUDE.md have commands that answer wherever they are run, and the skill says of whom it
/// is when another butler's hooks take it over. `report`: of the registration.
fn the_skill_reaches_the_journal_of_the_hooks(household: &Household, report: &str) {
    let path = household.path().join(".claude/skills/memory-sync/SKILL.md");
    let skill = || fs::read_to_string(&path).expect("the skill");
    let first_command = |skill: &str| {
        let command = skill.split('`').find(|part| part.ends_with(" sync --status"));
        command.unwrap_or_else(|| panic!("no command: {skill}")).to_owned()
    };
    let (text, elsewhere) = (skill(), household.path().join("elsewhere"));
    assert!(text.starts_with("---\nname: memory-sync\n") && report.contains("SKILL.md"), "{report}{text}");
    let command = first_command(&text);
    fs::create_dir_all(&elsewhere).expect("a directory");
    let mut shell = Command::new("/bin/sh");
    let path_of_programs = std::env::var("PATH").unwrap_or_default();
    shell.args(["-c", &command]).env_clear().env("PATH", path_of_programs).env("HOME", &elsewhere);
    let run = tokio::task::block_in_place(|| shell.current_dir(&elsewhere).output()).expect("a shell runs it");
    let said = [run.stdout, run.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(run.status.success() && said[0].contains("\"unsummarized_count\""), "{command}: {said:?}");
    let journal = command.strip_suffix(" sync --status").expect("what reaches the journal");
    assert!(text.contains(&format!("Bash({journal}:*)")) && journal.contains(" --data-dir "), "{text}");
    printed(household, &["init"]);
    let section = fs::read_to_string(household.path().join("CLAUDE.md")).expect("the section of CLAUDE.md");
    assert!(section.contains(&format!("`{journal} accept --yes`")) && !section.contains(">30"), "{section}");
    // One skill for all butlers: the last has it, and the report says from whom it got it.
    let settings = elsewhere.join("settings.json").display().to_string();
    let health = ["install-hooks", "--butler", "health", "--settings", &settings];
    let out = printed(household, &health);
    assert!(out.contains(&format!("goes from `{journal}` to `{journal} --butler health`")), "{out}");
    assert_eq!(first_command(&skill()), format!("{journal} --butler health sync --status"));
    assert!(!printed(household, &health).contains("goes from"), "nothing goes twice");
    let out = printed(household, &["install-hooks"]);
    assert!(out.contains(&format!("goes from `{journal} --butler health`")) && skill() == text, "{out}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_person_no_line_of_the_log_goes_and_core_memory_stays_small() {
    let (household, _daemon, db) = begun().await;
    let write = |file: &str, text: &str| fs::write(household.journal_path(file), text).expect("an edit");
    let log = household.journal_file("sessions/today.md") + "**10:00** - Planned the garden.\n";
    write("sessions/today.md", &log);
    printed(&household, &["accept", "--yes"]);
    // A line is changed: shown, named, and nothing is taken in before somebody says that it is meant.
    write("sessions/today.md", &log.replace("Planned", "Forgot"));
    let (code, out, err) = run(&household, &["accept", "--yes"]);
    assert!(code == 1 && out.contains("1 line of this log went or changed"), "{code} {out}{err}");
    assert!(out.contains("Not taken in: sessions/today.md") && out.contains("--also-deletions"), "{out}{err}");
    assert!(files_of_rows(&db).await["sessions/today.md"].contains("Planned the garden."));
    printed(&household, &["accept", "--yes", "--also-deletions"]);
    assert!(files_of_rows(&db).await["sessions/today.md"].contains("Forgot the garden."));
    // Core memory over its budget is refused with its size, and shorter it is taken in.
    let core = household.journal_file("core.md");
    let grown = |more: usize| format!("{core}{}\n", "x".repeat(more));
    write("core.md", &grown(3072 - core.len()));
    let (code, out, err) = run(&household, &["accept", "--yes"]);
    assert!(code == 1 && out.contains("3073 bytes") && out.contains("3072"), "{code} {out}{err}");
    assert_eq!(files_of_rows(&db).await["core.md"], core, "the journal's own is as it was");
    write("core.md", &grown(3071 - core.len()));
    printed(&household, &["accept", "--yes"]);
    assert_eq!(files_of_rows(&db).await["core.md"].len(), 3072);
}
