//! `kill -9` in the writes of the journal that `journal_crash` has not: what a session does at once, the templates, the
//! weekly check, a context.md that a session divides, and the files of a person that the command line writes.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tokio_postgres::Client;

use crate::journal_crash::{is_whole, killed_at};
use crate::support::journal::{GENERAL, call, count, files_of_rows};
use crate::support::tally::died;
use crate::support::{Daemon, Household, butlerd, eventually, model};
use journal::wire::{Accepted, Checked, Edit, FileText, Initialized, Level, Migrated, Op, Status};

/// Puts a text into a file as a person does.
fn edited(household: &Household, file: &str, text: &str) {
    fs::write(household.journal_path(file), text).expect("an edit");
    let edits: Vec<Edit> = household.told(Op::Edits);
    let edits = edits.into_iter().map(|edit| edit.id).collect();
    let accepted: Accepted = household.told(Op::Accept { edits, looked: true, deletions: false });
    assert_eq!(accepted.taken, [file], "{accepted:?}");
}

/// Starts again after it died.
async fn again(household: &Household, mut daemon: Daemon, point: &str) -> (Daemon, Client) {
    died(&mut daemon, point).await;
    drop(daemon);
    let daemon = household.start().await;
    household.journal_begun().await;
    let db = household.rows().await;
    is_whole(household, &db, point).await;
    (daemon, db)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_in_a_call_outside_of_a_sync_it_is_done_or_not_done() {
    let household = Household::new();
    let daemon = household.start().await;
    household.journal_begun().await;
    let old = json!({"file": "ideas", "title": "Old", "text": "It was so."});
    daemon.mcp(GENERAL).ok("journal_write", old).await;
    drop(daemon);
    let points = [
        ("journal.call_applied", false),
        ("journal.call_committed", true),
        ("journal.noted", true),
        ("journal.swapped", true),
    ];
    for (n, (point, done)) in points.into_iter().enumerate() {
        let words = format!("Number {n} of calls");
        let calls = [
            (
                "journal_write",
                json!({"file": "decisions", "title": words, "text": "It is so."}),
                "reference/decisions.md",
            ),
            ("journal_log", json!({"text": words}), "sessions/today.md"),
            ("journal_archive", json!({"file": "ideas", "title": "Old"}), "archive/ideas.md"),
        ];
        for (tool, args, file) in calls {
            let what = format!("{tool} at {point}");
            let daemon = household.journal_dying_at(point).await;
            let answer = daemon.mcp(GENERAL).try_call(tool, args).await;
            assert!(answer.is_none(), "{what}: it was answered: {answer:?}");
            let (daemon, db) = again(&household, daemon, &what).await;
            let rows = files_of_rows(&db).await;
            let there = rows.get(file).map(String::as_str).unwrap_or_default();
            if tool == "journal_archive" {
                // It stands in one of the two, once.
                assert_eq!(there.matches("### Old\n").count(), usize::from(done), "{what}: {there}");
                assert_eq!(rows["reference/ideas.md"].matches("### Old\n").count(), usize::from(!done), "{what}");
                if done {
                    let write = json!({"file": "ideas", "title": "Old", "text": "It was so."});
                    daemon.mcp(GENERAL).ok("journal_write", write).await;
                    edited(&household, file, "# Archive of reference/ideas.md\n\n");
                }
            } else {
                assert_eq!(there.matches(&words).count(), usize::from(done), "{what}: {there}");
            }
            drop(daemon);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_as_templates_are_filled_in_no_file_is_half() {
    let household = Household::new();
    drop(household.start().await);
    // The first change and the first commit are the edit that empties core memory.
    for (point, done) in [
        ("journal.applied:2", false),
        ("journal.committed:2", true),
        ("journal.noted", true),
        ("journal.swapped", true),
    ] {
        let daemon = household.journal_dying_at(point).await;
        edited(&household, "core.md", "");
        assert!(household.asked::<Initialized>(Op::Init).is_err(), "{point}: it was answered");
        let (daemon, db) = again(&household, daemon, point).await;
        // At the latest the start fills it.
        let core = &files_of_rows(&db).await["core.md"];
        assert!(core.starts_with("# Core Memory\n\n**Identity:** I am general,"), "{point}: {core}");
        let by_hand = count(&db, "journal_changes WHERE kind = 'init' AND actor LIKE 'uid:%'").await;
        assert_eq!(by_hand > 0, done, "{point}");
        let again: Initialized = household.told(Op::Init);
        assert!(again.created.is_empty() && again.skipped.len() == 6, "{point}: {again:?}");
        drop(daemon);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_as_the_weekly_check_archives_each_entry_is_in_one_place() {
    let household = Household::new();
    drop(household.start().await);
    let entries = |n: usize| format!("### Entry {n}.\n- **Status:** completed\n{}\n\n", "x".repeat(900));
    let text = format!("# Projects\n\n## Completed\n\n{}", (0..25).map(entries).collect::<String>());
    for (point, done) in
        [("journal.applied", false), ("journal.committed", true), ("journal.noted", true), ("journal.swapped:2", true)]
    {
        let daemon = household.start().await;
        household.journal_begun().await;
        edited(&household, "reference/projects.md", &text.replace("Entry", point));
        drop(daemon);
        let daemon = killed_at(&household, point, Op::Check).await;
        let db = household.rows().await;
        let rows = files_of_rows(&db).await;
        let archived = rows.get("archive/projects.md").map(String::as_str).unwrap_or_default();
        assert_eq!(archived.contains(&format!("### {point} 0.\n")), done, "{point}");
        for n in 0..25 {
            let mark = format!("### {point} {n}.\n");
            let there = rows["reference/projects.md"].matches(&mark).count() + archived.matches(&mark).count();
            assert_eq!(there, 1, "{point}: entry {n}");
        }
        let checked: Checked = household.told(Op::Check);
        assert!(checked.ok, "{point}: {checked:?}");
        household.rows_and_files_agree(&db, point).await;
        drop(daemon);
    }
}

/// What a session does that divides an old memory.
fn divides() -> Value {
    let write = |file: &str, title: &str, text: &str| {
        call("journal_write", json!({"file": file, "title": title, "text": text}))
    };
    json!([
        write("core.md", "User Profile", "- Name: Ada"),
        write("reference/projects.md", "The fence", "It is being built."),
        call("journal_log", json!({"text": "The old memory was divided"})),
        call("journal_archive", json!({"file": "reference/context.md", "title": "Old focus"})),
        {"say": "It is divided."}])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_as_an_old_memory_is_divided_all_of_it_can_be_taken_back() {
    let model = model(json!([{"when": "Divide an old memory file", "steps": divides()}])).await;
    let context = "# Context\n\n## User\nName: Ada.\n\n### Old focus\nThe fence of oak.\n";
    let household = Household::with_model(&model).journal_settings("sync = \"by_hand\"");
    let daemon = household.start().await;
    household.journal_begun().await;
    let before = files_of_rows(&household.rows().await).await;
    drop(daemon);
    // The migration itself writes one file; then come those of the session.
    for (point, wrote) in [
        ("journal.call_applied", 0),
        ("journal.call_committed", 1),
        ("journal.call_committed:2", 2),
        ("journal.noted:2", 1),
        ("journal.swapped:3", 2),
        ("journal.call_applied:4", 3),
        ("journal.call_committed:4", 4),
    ] {
        let daemon = household.journal_dying_at(point).await;
        let files = vec![FileText { file: "context.md".to_owned(), text: context.to_owned() }];
        // It may die before it answers.
        drop(household.asked::<Migrated>(Op::Migrate { files, dry_run: false }));
        let (daemon, db) = again(&household, daemon, point).await;
        let rows = files_of_rows(&db).await;
        let told = [
            ("core.md", "- Name: Ada\n"),
            ("reference/projects.md", "### The fence\n"),
            ("sessions/today.md", "** - The old memory was divided\n"),
            ("archive/context.md", "### Old focus\n"),
        ];
        for (n, (file, words)) in told.into_iter().enumerate() {
            let there = rows.get(file).is_some_and(|text| text.contains(words));
            assert_eq!(there, n < wrote, "{point}: {file}");
        }
        let whole = |rows: &std::collections::BTreeMap<String, String>| {
            let both = [rows.get("reference/context.md"), rows.get("archive/context.md")]
                .map(|text| text.cloned().unwrap_or_default());
            context.lines().all(|line| both.iter().any(|text| text.contains(line)))
        };
        assert!(whole(&rows), "{point}: no line of it is lost: {rows:?}");
        // Status says what is to be done.
        let status: Status = household.told(Op::Status);
        let told = |words: [&str; 2]| status.troubles.iter().any(|why| words.iter().all(|words| why.contains(words)));
        let said = match wrote {
            0 => told(["No session divided context.md", "again"]),
            _ => told(["was interrupted", "--rollback"]),
        };
        assert!(said, "{point}: {status:?}");
        household.told::<Migrated>(Op::MigrateBack);
        assert_eq!(files_of_rows(&db).await, before, "{point}");
        is_whole(&household, &db, point).await;
        let status: Status = household.told(Op::Status);
        assert_eq!(status.troubles, Vec::<String>::new(), "{point}");
        drop(daemon);
    }
}

/// The person's program, which dies there.
fn killed(household: &Household, args: &[&str], point: &str) -> Output {
    let mut command = Command::new(butlerd());
    command
        .args(args)
        .env_clear()
        .env("PATH", std::env::var("PATH").unwrap_or_default())
        .env("HOME", household.path())
        .env("CLAUDE_CONFIG_DIR", household.path().join("claude"))
        .env("BUTLERD_JOURNAL_SOCKET", household.data().join("run/journal.sock"))
        .current_dir(household.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if !point.is_empty() {
        command.env("BUTLERD_CRASH_POINT", point);
    }
    let out = tokio::task::block_in_place(|| command.output()).expect("it runs");
    let died = out.status.signal() == Some(9);
    assert_eq!(
        died,
        !point.is_empty(),
        "{args:?} at {point:?}: {:?} {}",
        out.status,
        String::from_utf8_lossy(&out.stderr)
    );
    out
}

/// Files below a directory, with their texts.
fn tree(dir: &Path) -> Vec<(String, String)> {
    let (mut open, mut files) = (vec![dir.to_owned()], Vec::new());
    while let Some(path) = open.pop() {
        for entry in fs::read_dir(&path).into_iter().flatten().flatten() {
            match entry.path() {
                path if path.is_dir() => open.push(path),
                path => files.push((path.display().to_string(), fs::read_to_string(&path).expect("a text"))),
            }
        }
    }
    files.sort();
    files
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_as_hooks_are_installed_a_persons_settings_are_whole() {
    let household = Household::new();
    let _daemon = household.start().await;
    household.journal_begun().await;
    let claude = household.path().join("claude");
    let (settings, skill) = (claude.join("settings.local.json"), claude.join("skills/memory-sync/SKILL.md"));
    let own = "{\n  \"hooks\": {\"SessionStart\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"date\"}]}]},\n  \"model\": \"opus\"\n}\n";
    let (install, remove) = (["journal", "install-hooks"], ["journal", "install-hooks", "--remove"]);
    fs::create_dir_all(&claude).expect("the directory");
    fs::write(&settings, own).expect("settings");
    let before = tree(&claude);
    // What the skill is when nothing comes between: it names the program and the socket of the hooks.
    killed(&household, &install, "");
    let whole = fs::read_to_string(&skill).expect("the skill");
    let command = format!("BUTLERD_JOURNAL_SOCKET={} ", household.data().join("run/journal.sock").display());
    assert!(whole.starts_with("---\nname: memory-sync\n") && whole.contains(&command), "{whole}");
    killed(&household, &remove, "");
    assert_eq!(tree(&claude), before);
    for (point, installed) in [
        ("init.backed_up", false),
        ("init.drafted", false),
        ("init.written", true),
        ("init.drafted:2", true),
        ("init.written:2", true),
    ] {
        killed(&household, &install, point);
        let text = fs::read_to_string(&settings).expect("settings");
        let read: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{point}: {e}: {text}"));
        assert_eq!(text == own, !installed, "{point}: the old or the new, whole: {text}");
        assert_eq!(read["model"], "opus", "{point}");
        let starts = read["hooks"]["SessionStart"].as_array().map(Vec::len);
        assert_eq!(starts, Some(1 + usize::from(installed)), "{point}: {text}");
        if let Ok(text) = fs::read_to_string(&skill) {
            assert_eq!(text, whole, "{point}: the skill is whole");
        }
        // Once more, and it is done; taken away, all is as it was, and nothing lies beside it.
        killed(&household, &install, "");
        assert!(fs::read_to_string(&settings).expect("settings").contains("hook UserPromptSubmit"), "{point}");
        assert_eq!(fs::read_to_string(&skill).expect("the skill"), whole, "{point}");
        killed(&household, &remove, "");
        assert_eq!(tree(&claude), before, "{point}");
    }
    // The section of CLAUDE.md is written in the same way.
    let instructions = household.path().join("CLAUDE.md");
    let own = "# Mine\n\nBe short.\n";
    fs::write(&instructions, own).expect("instructions");
    for (point, written) in [("init.backed_up", false), ("init.drafted", false), ("init.written", true)] {
        killed(&household, &["journal", "init"], point);
        let text = fs::read_to_string(&instructions).expect("instructions");
        assert!(text.starts_with(own) && text.contains("## Memory System") == written, "{point}: {text}");
        killed(&household, &["journal", "init"], "");
        killed(&household, &["journal", "init", "--remove-claude-md"], "");
        assert_eq!(fs::read_to_string(&instructions).expect("instructions").trim(), own.trim(), "{point}");
    }
    eventually("the journal goes on", || async {
        let status: Status = household.told(Op::Status);
        match status.files.iter().all(|file| file.level == Level::Ok) {
            true => Ok(()),
            false => Err(format!("{status:?}")),
        }
    })
    .await;
}
