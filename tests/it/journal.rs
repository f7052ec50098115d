//! The life of a journal: it begins from templates, sessions sync what was said into it, later sessions know it, and
//! people do the same by hand.

use serde_json::{Value, json};

use crate::chat::say;
use crate::support::journal::{
    GENERAL, call, checkpoint, count, files_of_rows, own_pass, said, sync_prompts, system_prompts, texts,
};
use crate::support::{Household, eventually, model};
use journal::wire::{Checkpoint, FileText, Op, Range, Status, SyncBegun, Threshold};

const SUMMARY: &str = "Decisions: the fence is of oak. Focus: the garden.";

/// A sync session that uses each of its tools.
fn diligent() -> Value {
    own_pass(json!([
        call("journal_read", json!({"file": "core.md"})),
        {"calls": [
            {"tool": "journal_write", "arguments": {"file": "reference/decisions.md", "title": "Oak for the fence",
                "text": "The fence is of oak.", "context": "Larch rots.", "status": "active"}},
            {"tool": "journal_write", "arguments": {"file": "projects", "title": "The old shed", "text": "It is gone.",
                "status": "completed"}},
            {"tool": "journal_write", "arguments": {"file": "core.md", "title": "Active Working State",
                "text": "The garden: a fence of oak is being built."}},
            {"tool": "journal_log", "arguments": {"text": "Planned the garden with the owner"}}]},
        call("journal_archive", json!({"file": "reference/projects.md", "title": "The old shed"})),
        checkpoint(SUMMARY),
        {"say": "It is worked in."}]))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_said_is_worked_in_and_the_next_session_knows_it() {
    let model =
        model(json!([diligent(), {"when": "garden task \\d+", "steps": [{"say": "Noted, dear owner."}]}])).await;
    let household = Household::few_with_model(&model).with_general().patient();
    let daemon = household.start().await;
    let begun = household.journal_begun().await;
    let core = household.journal_file("core.md");
    assert!(core.starts_with("# Core Memory\n\n**Identity:** I am general,"), "{core}");
    assert_eq!(household.journal_file("reference/decisions.md").matches("### [YYYY-MM-DD]").count(), 1);
    assert!(household.journal_file("sessions/today.md").starts_with("# Session Log: 20"));
    assert_eq!((begun.butler.as_str(), begun.edited.len(), begun.troubles.len()), (GENERAL, 0, 0), "{begun:?}");
    let db = household.rows().await;
    household.rows_and_files_agree(&db, "at the beginning").await;

    // Thirty messages are not more than thirty.
    let chat = async |n: usize| {
        let told = say(&daemon, json!({"text": format!("garden task {n}"), "butler": GENERAL, "thread": "t"})).await;
        assert_eq!(told.last().map(|e| &e["state"]), Some(&json!("done")), "{told:?}");
    };
    for n in 1..=15 {
        chat(n).await;
    }
    eventually("thirty are unsummarized", || async {
        let status = household.sync_status();
        if status.unsummarized_count == 30 { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await;
    assert_eq!(household.told::<Threshold>(Op::Threshold).action, None);
    assert_eq!(count(&db, "journal_syncs").await, 0);
    let first = household.sync_status().begin_id.expect("a beginning");
    for n in 16..=18 {
        chat(n).await;
    }
    household.synced(&db, 1).await;

    // What the session was asked: the conversations, the state, whole.
    let prompts = sync_prompts(&model);
    assert_eq!(prompts.len(), 1, "{prompts:#?}");
    let prompt = &prompts[0];
    assert!(prompt.contains(journal::GUIDELINES), "{prompt}");
    assert_eq!(journal::GUIDELINES.matches(". **").count(), 7, "the seven guidelines");
    let made = household.told::<Vec<Checkpoint>>(Op::Checkpoints { most: 10, before: None });
    assert_eq!((made.len(), made[0].start_id, made[0].summary.as_str()), (1, first, SUMMARY), "{made:?}");
    assert!((31..=36).contains(&made[0].count), "{made:?}");
    let (_, shown) = prompt.split_once("=== CONVERSATIONS TO PROCESS ===\n").expect("the conversations");
    let (conversations, state) = shown.split_once("\n\n=== CURRENT MEMORY STATE ===\n").expect("the state");
    let lines: Vec<&str> = conversations.lines().collect();
    assert_eq!(lines.len() as i64, made[0].count, "{conversations}");
    assert!(
        lines[0].starts_with(&format!("[{first}] [20")) && lines[0].ends_with("IN (chat:cli): garden task 1"),
        "{}",
        lines[0]
    );
    assert!(lines[1].contains("] OUT (chat:") && lines[1].ends_with("Noted, dear owner."), "{}", lines[1]);
    for n in 1..=15 {
        assert_eq!(
            lines.iter().filter(|line| line.ends_with(&format!(": garden task {n}"))).count(),
            1,
            "{n}: {conversations}"
        );
    }
    for file in
        ["core.md", "reference/decisions.md", "reference/projects.md", "reference/preferences.md", "sessions/today.md"]
    {
        assert!(state.contains(&format!("--- {file} ---\n")), "{file}: {state}");
    }
    assert!(state.contains(core.trim_end()), "core memory is told whole: {state}");
    let end = made[0].end_id;
    assert!(state.ends_with(&format!("=== END ===\nRange: {first} to {end}")), "{state}");

    // Rows, files and status agree.
    household.rows_and_files_agree(&db, "after the sync").await;
    let decisions = household.journal_file("reference/decisions.md");
    let entry =
        "Oak for the fence\n- **Decision:** The fence is of oak.\n- **Context:** Larch rots.\n- **Status:** active\n";
    assert!(decisions.contains(entry), "{decisions}");
    let before = decisions.split_once("\n### [20").map(|(before, _)| before);
    assert!(before.is_some_and(|text| text.ends_with("- **Status:** active | superseded | archived\n")), "{decisions}");
    assert!(
        household
            .journal_file("core.md")
            .contains("## Active Working State\nThe garden: a fence of oak is being built.\n")
    );
    assert!(household.journal_file("sessions/today.md").contains("** - Planned the garden with the owner\n"));
    assert!(!household.journal_file("reference/projects.md").contains("old shed"));
    assert!(household.journal_file("archive/projects.md").contains("### The old shed\n- **Status:** completed\n"));
    let status: Status = household.told(Op::Status);
    assert_eq!((status.archive, status.last_checkpoint.as_ref()), (1, made.first()), "{status:?}");
    for state in &status.files {
        assert_eq!(state.bytes, household.journal_file(&state.file).len() as u64, "{state:?}");
    }
    let decided = status.files.iter().find(|file| file.file == "reference/decisions.md").expect("decisions");
    assert_eq!(decided.entries, Some(1), "{decided:?}: one decision was made");
    for (of, rows) in [("journal_drafts", 0), ("journal_syncs WHERE state = 'done'", 1), ("journal_syncs", 1)] {
        assert_eq!(count(&db, of).await, rows, "{of}");
    }
    let sql = "SELECT trust, count(*) FROM general.journal_sections WHERE begun =
               (SELECT max(id) FROM general.journal_changes WHERE kind = 'sync') GROUP BY trust";
    let written = db.query(sql, &[]).await.expect("what the sync wrote");
    assert_eq!(written.iter().map(|r| r.get::<_, String>(0)).collect::<Vec<_>>(), ["system"], "the house wrote it");

    // The next session begins with it, and no second sync is started.
    chat(99).await;
    let prompt = system_prompts(&model, "garden task 99").pop().expect("its prompt");
    let at = |words: &str| prompt.find(words).unwrap_or_else(|| panic!("no {words:?} in {prompt}"));
    let begin = at("=== CORE MEMORY (always loaded) ===\n\n# Core Memory\n");
    assert!(
        begin < at("a fence of oak is being built")
            && at("a fence of oak is being built") < at("=== END CORE MEMORY ===")
    );
    assert!(at("=== END CORE MEMORY ===") < at("=== REFERENCE: reference/decisions.md ==="));
    assert!(at("=== REFERENCE: reference/decisions.md ===") < at(&format!("[Last Checkpoint Summary] {SUMMARY}")));
    assert!(at("[Last Checkpoint Summary]") < at("[Recent Conversations] (id "), "{prompt}");
    assert!(!prompt.contains("[Action Required]"), "{prompt}");
    assert_eq!((count(&db, "journal_syncs").await, sync_prompts(&model).len()), (1, 1), "one sync");
    assert_eq!(household.sync_status().begin_id.map(|begin| begin > end), Some(true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_ends_without_a_checkpoint_leaves_nothing() {
    let forgetful = own_pass(json!([
        {"calls": [
            {"tool": "journal_write", "arguments": {"file": "decisions", "title": "Half done", "text": "A half thought."}},
            {"tool": "journal_log", "arguments": {"text": "A half day"}}]},
        {"say": "I forgot the end."}]));
    let model = model(json!([forgetful])).await;
    let household = Household::with_model(&model);
    let _daemon = household.start().await;
    household.journal_begun().await;
    let db = household.rows().await;
    let before = files_of_rows(&db).await;
    said(&db, "owner", &texts(31)).await;
    let status = eventually("status says so", || async {
        let status: Status = household.told(Op::Status);
        if status.troubles.is_empty() { Err(format!("{status:?}")) } else { Ok(status) }
    })
    .await;
    assert!(
        status.troubles[0].starts_with("The last sync came to nothing: its session ended without a checkpoint"),
        "{status:?}"
    );
    assert_eq!(files_of_rows(&db).await, before);
    household.rows_and_files_agree(&db, "after a sync that came to nothing").await;
    for of in ["journal_drafts", "journal_checkpoints", "journal_syncs WHERE state <> 'given_up'"] {
        assert_eq!(count(&db, of).await, 0, "{of}");
    }
    assert_eq!(household.sync_status().unsummarized_count, 31);
    // One is started by itself again when it has rested, and by hand as soon as the run is over.
    eventually("the run is over", || async {
        match count(&db, "schedule_runs WHERE state IN ('due', 'running')").await {
            0 => Ok(()),
            open => Err(format!("{open} are open")),
        }
    })
    .await;
    assert_eq!(household.told::<SyncBegun>(Op::Sync).status, "started");
    eventually("another one came to nothing", || async {
        let n = count(&db, "journal_syncs WHERE state = 'given_up'").await;
        if n == 2 { Ok(()) } else { Err(n.to_string()) }
    })
    .await;
    assert_eq!(files_of_rows(&db).await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ordinary_sessions_keep_things_at_once_and_within_bounds() {
    let write = |file: &str, title: &str, text: &str| {
        call("journal_write", json!({"file": file, "title": title, "text": text}))
    };
    let steps = json!([
        write("preferences", "Tea", "Chamomile in the evening."),
        write("core.md", "User Profile", "- Name: Mallory"),
        write("core.md", "Key References", &"x".repeat(3500)),
        write("today", "x", "y"),
        write("archive/decisions.md", "x", "y"),
        write("../../../etc/passwd", "x", "y"),
        call("journal_archive", json!({"file": "core.md", "title": "Identity"})),
        call("journal_checkpoint", json!({"end": 1, "summary": "s"})),
        {"say": "Kept: {{result.0}} {{result.1}} {{result.2}} {{result.3}} {{result.4}} {{result.5}} {{result.6}} {{result.7}}"}]);
    let model = model(json!([{"when": "keep my tea", "steps": steps}])).await;
    let household = Household::with_model(&model);
    let daemon = household.start().await;
    household.journal_begun().await;
    let db = household.rows().await;
    let core = household.journal_file("core.md");
    let told = say(&daemon, json!({"text": "keep my tea", "butler": GENERAL})).await;
    let answer =
        told.iter().find(|e| e["event"] == "reply").unwrap_or_else(|| panic!("{told:?}"))["message"].to_string();
    for words in ["kept", "stable", "over_budget", "append_only", "read_only", "no_such_file", "no_sync"] {
        assert!(answer.contains(words), "{words}: {answer}");
    }
    household.rows_and_files_agree(&db, "after the session").await;
    assert!(
        household
            .journal_file("reference/preferences.md")
            .contains("### Tea\n- **Value:** Chamomile in the evening.\n")
    );
    assert_eq!(household.journal_file("core.md"), core, "core memory is as it was");
    let sql = "SELECT c.kind, c.actor, s.trust, c.session_id IS NOT NULL FROM general.journal_sections s
               JOIN general.journal_changes c ON c.id = s.begun WHERE s.text LIKE '### Tea%'";
    let row = db.query_one(sql, &[]).await.expect("the section");
    let row: (String, String, String, bool) = (row.get(0), row.get(1), row.get(2), row.get(3));
    // What the journal tells at the start lowers nobody.
    assert_eq!(row, ("call".to_owned(), "journal_write".to_owned(), "owner".to_owned(), true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_schedules_are_listed_and_of_two_syncs_at_once_there_is_one() {
    let model = model(json!([own_pass(json!([checkpoint("Tasks of the garden."), {"say": "done"}]))])).await;
    let household = Household::with_model(&model).journal_settings("threshold = 1000");
    let _daemon = household.start().await;
    household.journal_begun().await;
    let run = |args: &[&str]| tokio::task::block_in_place(|| household.cli(args));
    let (code, out, err) = run(&["schedule", "list", "--butler", GENERAL, "--json"]);
    assert_eq!(code, 0, "{err}");
    let list: Value = serde_json::from_str(&out).expect("JSON");
    let find = |name: &str| {
        list["items"]
            .as_array()
            .expect("a list")
            .iter()
            .find(|s| s["name"] == name)
            .cloned()
            .unwrap_or_else(|| panic!("no {name}: {out}"))
    };
    for (name, when, priority, idle) in [
        ("memory-sync", "4h", 1, false),
        ("session-rotate", "5 0 * * *", 1, true),
        ("memory-integrity", "0 3 * * 0", 2, true),
    ] {
        let schedule = find(name);
        assert_eq!((&schedule["priority"], &schedule["require_idle"]), (&json!(priority), &json!(idle)), "{schedule}");
        assert!(schedule.to_string().contains(&format!("\"{when}\"")), "{schedule}");
    }
    let (_, table, _) = run(&["schedule", "list", "--butler", GENERAL]);
    assert!(["memory-sync", "session-rotate", "memory-integrity"].iter().all(|name| table.contains(name)), "{table}");

    let sync = || run(&["schedule", "run", "memory-sync", "--butler", GENERAL, "--json"]).1;
    assert!(sync().contains("No conversations to process"), "nothing costs nothing");
    assert_eq!(household.told::<SyncBegun>(Op::Sync).note, "No conversations to process");
    assert!(model.requests().is_empty(), "no model was asked");
    let db = household.rows().await;
    said(&db, "owner", &texts(12)).await;
    let status = household.sync_status();
    let (begin, end) = (status.begin_id.expect("a first"), status.end_id.expect("a last"));
    // A person is at it: the house waits.
    let range: Range = household.told(Op::Range { begin, end, all: false });
    assert_eq!((range.begin, range.end, range.notes.len()), (begin, end, 0));
    assert_eq!(household.told::<SyncBegun>(Op::Sync).status, "under_way");
    let waits = sync();
    assert!(waits.contains(&format!("A person is summarizing {begin} to {end} just now")), "{waits}");
    assert!(model.requests().is_empty(), "no model was asked");
    let made: Checkpoint = household.told(Op::Checkpoint { end, summary: "By hand.".to_owned() });
    assert_eq!((made.id, made.start_id, made.end_id, made.count), (1, begin, end, 12));

    // Several at once, of the house's own.
    said(&db, "owner", &texts(12)).await;
    let ran: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| household.cli(&["schedule", "run", "memory-sync", "--butler", GENERAL, "--json"]).1)
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("its end")).collect()
    });
    household.synced(&db, 2).await;
    assert_eq!(
        ran.iter().filter(|out| out.contains("12 conversations are worked into the journal")).count(),
        1,
        "{ran:?}"
    );
    assert_eq!((sync_prompts(&model).len(), count(&db, "journal_syncs").await), (1, 2), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_hand_no_range_is_left_out_or_summarized_twice() {
    let household = Household::new().journal_settings("sync = \"by_hand\"");
    let _daemon = household.start().await;
    household.journal_begun().await;
    let db = household.rows().await;
    let (code, why) = household.refused(Op::Range { begin: 1, end: 2, all: false });
    assert_eq!((code.as_str(), why.as_str()), ("nothing", "No conversations to process"));
    assert_eq!(household.refused(Op::Checkpoint { end: 1, summary: "s".to_owned() }).0, "no_sync");
    said(&db, "owner", &texts(40)).await;
    let log: Vec<Value> = household.told(Op::Log { most: 100 });
    let ids: Vec<i64> = log.iter().map(|said| said["id"].as_i64().expect("an id")).collect();
    assert_eq!((ids.len(), &log[39]["text"]), (40, &json!("The garden needs task number 40.")));
    let (first, last) = (ids[0], ids[39]);

    // Exactly the five keys; and nobody syncs by itself.
    let status: Value = household.told(Op::SyncStatus);
    assert_eq!(
        status,
        json!({"unsummarized_count": 40, "last_checkpoint_summary": null, "last_checkpoint_id": null,
                              "begin_id": first, "end_id": last})
    );
    let (code, why) = household.refused(Op::Sync);
    assert!(code == "by_hand" && why.contains("butlerd journal sync --status"), "{code} {why}");
    let action = household.told::<Threshold>(Op::Threshold).action;
    assert_eq!(action, Some(format!("[Action Required] invoke /memory-sync --begin {first} --end {last}")));

    let beyond = last + 1000;
    for (what, begin, end) in [
        ("a gap", ids[1], last),
        ("backwards", last, first),
        ("before the first", first - 1, last),
        ("beyond the end", first, beyond),
        ("an end before the beginning", first, first - 1),
        ("no range", i64::MIN, i64::MAX),
        ("far away", i64::MAX, i64::MAX),
    ] {
        let (code, why) = household.refused(Op::Range { begin, end, all: false });
        assert!(code == "bad_range" && why.ends_with('.') && why.contains(&first.to_string()), "{what}: {code} {why}");
    }
    assert_eq!(count(&db, "journal_syncs").await, 0, "none of it began anything");
    let half: Range = household.told(Op::Range { begin: first, end: ids[19], all: false });
    assert_eq!((half.conversations.lines().count(), half.state[0].file.as_str()), (20, "core.md"));
    // A range that is refused leaves it open.
    assert_eq!(household.refused(Op::Range { begin: ids[5], end: last, all: false }).0, "bad_range");
    assert_eq!(count(&db, "journal_syncs WHERE state = 'open'").await, 1);
    // While it is open, nobody is told to summarize.
    assert_eq!(household.told::<Threshold>(Op::Threshold).action, None);
    let make = |end: i64, summary: &str| Op::Checkpoint { end, summary: summary.to_owned() };
    for (end, summary, code) in [
        (last, "Beyond what was shown.", "bad_range"),
        (ids[18], "Short of it.", "bad_range"),
        (ids[19], " \n ", "no_summary"),
        (ids[19], &*"x".repeat(601), "too_long"),
    ] {
        let refused = household.refused(make(end, summary));
        assert!(refused.0 == code && refused.1.ends_with('.'), "{refused:?}");
    }
    let made: Checkpoint = household.told(make(ids[19], "The first\nhalf."));
    assert_eq!(
        (made.id, made.start_id, made.end_id, made.count, made.summary.as_str()),
        (1, first, ids[19], 20, "The first half.")
    );
    assert_eq!(household.refused(make(ids[19], "Again.")).0, "no_sync");
    for (what, begin) in [("an overlap", ids[19]), ("again", first), ("a gap", ids[21])] {
        let (code, why) = household.refused(Op::Range { begin, end: last, all: false });
        assert!(code == "bad_range" && why.contains(&ids[20].to_string()), "{what}: {code} {why}");
    }
    household.told::<Range>(Op::Range { begin: ids[20], end: last, all: false });
    household.told::<Checkpoint>(make(last, "The second half."));
    let all: Vec<Checkpoint> = household.told(Op::Checkpoints { most: 10, before: None });
    let all: Vec<_> = all.iter().map(|c| (c.id, c.start_id, c.end_id, c.count, c.summary.as_str())).collect();
    assert_eq!(all, [(2, ids[20], last, 20, "The second half."), (1, first, ids[19], 20, "The first half.")]);
    assert_eq!(household.sync_status().unsummarized_count, 0);
    let shown: FileText = household.told(Op::Show { file: "core".to_owned() });
    assert_eq!(shown.text, household.journal_file("core.md"));
    let (code, why) = household.refused(Op::Show { file: "../core.md".to_owned() });
    assert!(code == "not_found" && why.contains("core.md, reference/decisions.md"), "{code} {why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_range_that_a_session_is_told_is_one_that_is_taken_and_whole() {
    let household = Household::new().journal_settings("sync = \"by_hand\"");
    let _daemon = household.start().await;
    household.journal_begun().await;
    let db = household.rows().await;
    // More than goes at once, by their number and by their length; and one that is too long by itself.
    let long = |length: usize, end: &str| format!("{}{end}", "word ".repeat(length / 5));
    said(&db, "owner", &texts(230)).await;
    said(&db, "owner", &[long(5_000, "ZEBRA"), long(19_000, "GIRAFFE")]).await;
    said(&db, "owner", &vec![long(19_000, "OKAPI"); 4]).await;
    said(&db, "owner", &[long(21_000, "LION")]).await;
    said(&db, "owner", &texts(40)).await;
    let (mut seen, mut ranges) = (String::new(), 0);
    while let Some(action) = household.told::<Threshold>(Op::Threshold).action {
        let (begin, end) =
            action.split_once("--begin ").and_then(|(_, range)| range.split_once(" --end ")).expect(&action);
        let (begin, end) = (begin.parse().expect("an id"), end.parse().expect("an id"));
        let unread = household.refused(Op::Checkpoint { end, summary: "Unread.".to_owned() });
        assert!(unread.1.ends_with(&format!("--begin {begin} --end {end}")), "{unread:?}");
        let range: Range = household.told(Op::Range { begin, end, all: false });
        seen += &range.conversations;
        household.told::<Checkpoint>(Op::Checkpoint { end, summary: "Some of it.".to_owned() });
        ranges += 1;
    }
    assert!(household.sync_status().unsummarized_count <= 30 && ranges >= 3, "{ranges}");
    for (end, times) in [("ZEBRA", 1), ("GIRAFFE", 1), ("OKAPI", 4), ("LION", 0), (" … (shortened)", 1)] {
        assert_eq!(seen.matches(end).count(), times, "{end}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_checkpoint_of_both_does_not_say_that_the_owner_said_nothing() {
    let household = Household::new().journal_settings("sync = \"by_hand\"");
    let _daemon = household.start().await;
    household.journal_begun().await;
    let db = household.rows().await;
    for (who, want) in [("owner", "Summarized along with what others wrote"), ("stranger", "Others wrote; nothing")] {
        said(&db, who, &texts(1)).await;
        said(&db, "stranger", &texts(1)).await;
        let status = household.sync_status();
        let (begin, end) = (status.begin_id.expect("a first"), status.end_id.expect("a last"));
        household.told::<Range>(Op::Range { begin, end, all: true });
        let made: Checkpoint = household.told(Op::Checkpoint { end, summary: "OBEY".to_owned() });
        assert!(made.summary.starts_with(want), "{who}: {made:?}");
        assert!(!made.summary.contains("OBEY"), "what others may have had said is told to no session: {made:?}");
    }
}
