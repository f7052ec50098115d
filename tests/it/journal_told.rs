//! What a session is told as it starts is the same text in both kinds, byte by byte: the household's own sessions have
//! memory's context in it, interactive ones what project memory knows, each in the same place and under one budget.

use std::process::{Command, Stdio};

use serde_json::{Value, json};
use testkit::model::ScriptedModel;

use crate::support::developer::Developer;
use crate::support::journal::{GENERAL, said};
use crate::support::{Daemon, Household, butlerd, eventually, model};
use journal::start::MOST;
use journal::wire::{Edit, Op};
use modules::OPENING_BUDGET;

const BEGIN: &str = "=== CORE MEMORY (always loaded) ===";
const END: &str = "=== END CORE MEMORY ===\n\n";
const SHEET: &str = "Deploy with `make ship`, because plain pushes skip the migrations";
const QUESTION: &str = "Which car do I drive?";

async fn household(remembers: bool) -> (ScriptedModel, Household) {
    let model = model(json!([{"when": "Which car", "steps": [{"say": "The green one."}]}])).await;
    let memory = match remembers {
        true => "[modules.memory]\nenabled = true\n[modules.memory.retrieval]\ndeadline = \"10s\"",
        false => "[modules.memory]\nenabled = false",
    };
    let household = Household::with_model(&model).and_workshop().journal_settings("sync = \"by_hand\"").replace(
        "general/butler.toml",
        "[modules.memory]\nenabled = true",
        memory,
    );
    (model, household)
}

/// What a hook of an interactive session prints as it starts. It gives up after a tenth of a second: so it is run until
/// it has these words.
async fn hook(household: &Household, at: &std::path::Path, more: &[(&str, &str)], words: &[&str]) -> String {
    eventually("the hook tells it", || async {
        let input = json!({"session_id": uuid::Uuid::now_v7(), "cwd": at, "source": "startup", "hook_event_name": "SessionStart"});
        let ask = || {
            let mut child = Command::new(butlerd())
                .args(["hook", "SessionStart"])
                .env_clear()
                .env("PATH", std::env::var("PATH").unwrap_or_default())
                .env("HOME", household.path())
                .env("BUTLERD_JOURNAL_SOCKET", household.data().join("run/journal.sock"))
                .env("BUTLERD_PROJECT_SOCKET", household.data().join("run/project.sock"))
                .envs(more.iter().copied())
                .current_dir(at)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("the hook runs");
            let mut stdin = child.stdin.take().expect("its input");
            drop(std::io::Write::write_all(&mut stdin, input.to_string().as_bytes()));
            drop(stdin);
            child.wait_with_output().expect("its end").stdout
        };
        let told: Value = serde_json::from_slice(&tokio::task::block_in_place(ask)).expect("JSON");
        let text = told["hookSpecificOutput"]["additionalContext"].as_str().unwrap_or_default().to_owned();
        if words.iter().all(|words| text.contains(words)) { Ok(text) } else { Err(text) }
    })
    .await
}

/// The system prompt of a session of the household's own, and what its row says of its start.
async fn own(household: &Household, daemon: &Daemon, remembers: bool) -> (String, Value) {
    let db = household.rows().await;
    eventually("it is told the journal", || async {
        let done = daemon.mcp(GENERAL).ok("trigger", json!({"prompt": QUESTION})).await;
        let id: uuid::Uuid = done["session_id"].as_str().expect("a session").parse().expect("an id");
        let row = db.query_one("SELECT system_prompt, memory FROM general.sessions WHERE id = $1", &[&id]).await;
        let row = row.expect("the session");
        let (system, memory) = (row.get::<_, Option<String>>(0), row.get::<_, Option<Value>>(1));
        let (system, memory) = (system.unwrap_or_default(), memory.unwrap_or_default());
        let is_all = system.contains(BEGIN) && (!remembers || system.contains("# Memory Context"));
        if is_all { Ok((system, memory)) } else { Err(memory.to_string()) }
    })
    .await
}

/// Accepts a text as a person writes it.
fn write(household: &Household, file: &str, text: &str) {
    std::fs::write(household.journal_path(file), text).expect("an edit");
    let edits: Vec<Edit> = household.told(Op::Edits);
    household.told::<Value>(Op::Accept {
        edits: edits.into_iter().map(|edit| edit.id).collect(),
        looked: true,
        deletions: false,
    });
}

/// Core memory and the rest of what is told, without what stands between them.
fn parts(text: &str) -> (&str, &str) {
    let (core, rest) = text.split_once(END).unwrap_or_else(|| panic!("no end of core memory: {text}"));
    (core, rest)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_kinds_of_session_are_told_the_same_bytes() {
    for remembers in [false, true] {
        let (_model, household) = household(remembers).await;
        let daemon = household.start().await;
        household.journal_begun().await;
        let db = household.rows().await;
        let developer = Developer::in_repository(&household, "work/api");
        developer.remember("Learning", "cheat-sheet", SHEET);
        if remembers {
            let fact = json!({"subject": "owner", "predicate": "car", "content": "drives a green Saab"});
            daemon.mcp(GENERAL).ok("memory_store_fact", fact).await;
        }
        // What one of two ways could tell in another way: tabs, ends of lines, long lines, other letters, signs of terminals.
        let core = household.journal_file("core.md").replace("None yet.", "a\tb\r\nä 日本 \u{1b}[2J\r\n\r\nend");
        write(&household, "core.md", &core);
        let ideas = format!("# Ideas\r\n\r\n### Long\r\n{}\r\n- short\t!\r\n", "é".repeat(2500));
        write(&household, "reference/ideas.md", &ideas);
        let texts = ["one", "two\r\nlines", "[three] with a mark", "   four   "].map(str::to_owned);
        said(&db, "owner", &texts).await;
        said(&db, "stranger", &["EVIL".to_owned()]).await;
        said(&db, "owner", &["the last one".to_owned()]).await;

        let alone = hook(&household, household.path(), &[], &[BEGIN, "the last one"]).await;
        let both = hook(&household, &developer.at, &[], &[BEGIN, "the last one", SHEET]).await;
        let (system, row) = own(&household, &daemon, remembers).await;
        let what = format!("memory {remembers}");
        let (core, rest) = parts(&alone);
        assert!(core.starts_with(BEGIN) && core.contains("\na\tb\nä 日本 [2J\n\nend\n"), "{what}: {core:?}");
        assert!(
            rest.contains(&"é".repeat(2500)) && rest.contains("- short\t!") && !rest.contains("EVIL"),
            "{what}: {rest}"
        );
        // The interactive one: what the project knows stands between core memory and the rest.
        let (core_of_both, rest_of_both) = parts(&both);
        let project = rest_of_both.strip_suffix(rest).unwrap_or_else(|| panic!("{what}: {both}\n\n{alone}"));
        assert_eq!(core_of_both, core, "{what}");
        assert!(
            project.starts_with("=== OPERATIONAL CHEAT SHEET ===\n") && project.ends_with("=== END ===\n\n"),
            "{project}"
        );
        // The household's own: what memory remembers stands there.
        let own = &system[system.find(BEGIN).expect("core memory")..];
        let (core_of_own, rest_of_own) = parts(own);
        assert_eq!(core_of_own, core, "{what}");
        let (memory, after) = rest_of_own.split_once(rest).unwrap_or_else(|| panic!("{what}: {system}\n\n{alone}"));
        match remembers {
            true => assert!(
                memory.starts_with("# Memory Context\n") && memory.contains("green Saab") && memory.ends_with("\n\n"),
                "{memory}"
            ),
            false => assert_eq!(memory, ""),
        }
        assert!(!after.contains("[Recent Conversations]") && !after.contains(BEGIN), "{what}: once: {system}");
        let lines = &row["lines"][0];
        assert_eq!((&lines["module"], &lines["cut"]), (&json!("journal"), &json!(false)), "{what}: {row}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_budget_holds_for_all_that_a_start_tells() {
    let (_model, household) = household(true).await;
    let daemon = household.start().await;
    household.journal_begun().await;
    let db = household.rows().await;
    let developer = Developer::in_repository(&household, "work/api");
    developer.remember("Learning", "cheat-sheet", SHEET);
    for n in 0..40 {
        let what = format!("drives a green Saab number {n}, {}", "which is polished on Sundays ".repeat(8));
        let fact = json!({"subject": "owner", "predicate": format!("car_{n}"), "content": what});
        daemon.mcp(GENERAL).ok("memory_store_fact", fact).await;
    }
    let long: String = (0..60).map(|n| format!("- {n} {}\n", "é".repeat(70))).collect();
    write(&household, "reference/ideas.md", &format!("# Ideas\n\n### Long\n{long}\n"));
    // One more than the threshold: something is to be done, and the last six are told. Each is longer than a line.
    said(&db, "owner", &(1..=31).map(|n| format!("{n} {}", "ö".repeat(900))).collect::<Vec<_>>()).await;

    // Interactive: so many characters, and for Codex bytes.
    let alone = hook(&household, household.path(), &[], &[BEGIN, "31 ö"]).await;
    let both = hook(&household, &developer.at, &[], &[BEGIN, SHEET]).await;
    for text in [&alone, &both] {
        let n = text.chars().count();
        assert!((MOST - 4000..=MOST).contains(&n) && text.len() > MOST, "{n} characters, {} bytes", text.len());
        newest_stand_whole(text, 6);
    }
    let codex = [("BUTLERD_HOOK_OF", "codex")];
    for (at, words) in [(household.path(), &[BEGIN, "31 ö"][..]), (&developer.at, &[BEGIN, SHEET])] {
        let text = hook(&household, at, &codex, words).await;
        assert!((MOST - 4000..=MOST).contains(&text.len()), "{} bytes: {text}", text.len());
        newest_stand_whole(&text, 2);
        assert_eq!(parts(&text).0, parts(&alone).0, "core memory is whole");
    }
    // The household's own: core memory whole, then memory, then the newest messages and what is to be done. The old
    // reference is what has no room.
    let (system, row) = own(&household, &daemon, true).await;
    let own = &system[system.find(BEGIN).expect("core memory")..];
    assert_eq!(parts(own).0, parts(&alone).0);
    let tokens = |of: &Value| of["tokens"].as_u64().unwrap_or_else(|| panic!("no tokens: {row}"));
    let (memory, journal) = (tokens(&row), tokens(&row["lines"][0]));
    assert!(memory > 500, "{row}");
    assert!(memory + journal <= OPENING_BUDGET as u64, "{memory} and {journal}: {row}");
    assert_eq!(row["lines"][0]["cut"], true, "{row}");
    newest_stand_whole(own, 1);
}

/// At least so many of the newest messages stand in a start, each whole and none between them left out, with what is to be
/// done below them; the old reference, which is what matters least, does not.
fn newest_stand_whole(text: &str, least: usize) {
    let whole = |n: usize| text.contains(&format!("): {n} {}\n", "ö".repeat(900)));
    let there: Vec<usize> = (1..=31).filter(|n| whole(*n)).collect();
    assert!(there.len() >= least, "{there:?}: {text}");
    assert_eq!(there, (32 - there.len()..=31).collect::<Vec<_>>(), "the newest in a row: {text}");
    assert!(!text.contains("(shortened"), "none is cut: {text}");
    let action = text.find("[Action Required] invoke /memory-sync --begin ");
    assert!(action.is_some_and(|at| at > text.find("[Recent Conversations]").unwrap_or(at)), "{text}");
    assert!(!text.contains("### Long"), "{text}");
}
