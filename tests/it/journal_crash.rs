//! `kill -9` in every write of the journal: rows and files agree after the next start, no file is half, and what was
//! said is summarized once.

use std::fs;

use serde_json::{Value, json};
use tokio_postgres::Client;

use crate::support::journal::{
    call, checkpoint, count, files_of_rows, others_pass, own_pass, said, sync_prompts, texts,
};
use crate::support::tally::died;
use crate::support::{Daemon, Household, eventually, model};
use journal::wire::{Accepted, Checkpoint, Edit, FileText, Level, Migrated, Op, Range, Rotated, Status, SyncBegun};

/// Past the lease of a sync that was killed.
const LATER: &str = "2400s";

/// Starts again, some time later.
async fn started_later(household: &Household) -> Daemon {
    let daemon = Household::again(household, "BUTLERD_CLOCK_OFFSET", LATER).start().await;
    household.journal_begun().await;
    daemon
}

/// Nothing that a write needs on its way is left, and nothing is half: every file is what the rows say.
pub async fn is_whole(household: &Household, db: &Client, when: &str) {
    // Files are looked at as the journal begins, a moment after the daemon is there.
    eventually(&format!("{when}: rows and files agree"), || async {
        let rows = files_of_rows(db).await;
        let differs = |(file, text): &(&String, &String)| {
            fs::read_to_string(household.journal_path(file)).ok().as_ref() != Some(*text)
        };
        match rows.iter().find(differs) {
            Some((file, _)) => Err(file.clone()),
            None => Ok(()),
        }
    })
    .await;
    household.rows_and_files_agree(db, when).await;
    let status: Status = household.told(Op::Status);
    assert!(status.edited.is_empty(), "{when}: {status:?}");
    assert!(status.files.iter().all(|file| file.level == Level::Ok), "{when}: {status:?}");
}

/// Checkpoints are one line over all that was said: no gap, no overlap.
fn one_line(made: &[Checkpoint], (first, last, all): (i64, i64, i64), when: &str) {
    let mut made: Vec<&Checkpoint> = made.iter().collect();
    made.sort_by_key(|checkpoint| checkpoint.id);
    let counted: i64 = made.iter().map(|checkpoint| checkpoint.count).sum();
    assert_eq!((made[0].start_id, made[made.len() - 1].end_id, counted), (first, last, all), "{when}: {made:?}");
    for pair in made.windows(2) {
        assert!(pair[0].end_id < pair[1].start_id && pair[0].id + 1 == pair[1].id, "{when}: {made:?}");
    }
}

fn log_and_write(words: &str) -> Value {
    json!({"calls": [
        {"tool": "journal_log", "arguments": {"text": format!("{words} was logged")}},
        {"tool": "journal_write", "arguments": {"file": "ideas", "title": words, "text": "A thought."}}]})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_in_a_sync_what_was_said_is_summarized_once() {
    let points = [
        "journal.sync_begun",
        "journal.before_checkpoint",
        "journal.checkpoint_made",
        "journal.noted",
        "journal.noted:2",
        "journal.swapped",
        "journal.swapped:2",
    ];
    for point in points {
        let model =
            model(json!([own_pass(json!([log_and_write("Own"), checkpoint("Tasks."), {"say": "done"}]))])).await;
        let household = Household::with_model(&model);
        let daemon = household.start().await;
        household.journal_begun().await;
        drop(daemon);
        let mut daemon = Household::again(&household, "BUTLERD_CRASH_POINT", point).start().await;
        household.journal_begun().await;
        let db = household.rows().await;
        said(&db, "owner", &texts(31)).await;
        drop(household.asked::<SyncBegun>(Op::Sync));
        died(&mut daemon, point).await;
        drop(daemon);
        let _daemon = started_later(&household).await;
        let db = household.rows().await;
        household.synced(&db, 1).await;
        is_whole(&household, &db, point).await;
        let log = household.told::<Vec<Value>>(Op::Log { most: 100 });
        let ends = (log[0]["id"].as_i64().unwrap(), log[30]["id"].as_i64().unwrap(), 31);
        one_line(&household.told::<Vec<Checkpoint>>(Op::Checkpoints { most: 10, before: None }), ends, point);
        assert_eq!(household.journal_file("sessions/today.md").matches("Own was logged").count(), 1, "{point}");
        assert_eq!(household.journal_file("reference/ideas.md").matches("### Own\n").count(), 1, "{point}");
        assert_eq!(count(&db, "journal_drafts").await, 0, "{point}");
        assert_eq!(household.sync_status().unsummarized_count, 0, "{point}");
        household.at_rest(point).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_between_the_owners_words_and_those_of_others_neither_is_worked_in_twice() {
    let model = model(json!([
        own_pass(json!([log_and_write("Own"), checkpoint("Tasks."), {"say": "done"}])),
        others_pass(json!([log_and_write("Others"), checkpoint("A stranger."), {"say": "done"}])),
    ]))
    .await;
    // Behind the first pass, and before and behind the second one's end.
    for point in ["journal.checkpoint_made", "journal.before_checkpoint:2", "journal.checkpoint_made:2"] {
        let household = Household::with_model(&model);
        let daemon = household.start().await;
        household.journal_begun().await;
        drop(daemon);
        let mut daemon = Household::again(&household, "BUTLERD_CRASH_POINT", point).start().await;
        household.journal_begun().await;
        let db = household.rows().await;
        said(&db, "owner", &texts(20)).await;
        said(&db, "stranger", &texts(15)).await;
        drop(household.asked::<SyncBegun>(Op::Sync));
        died(&mut daemon, point).await;
        drop(daemon);
        let _daemon = started_later(&household).await;
        let db = household.rows().await;
        household.synced(&db, 1).await;
        is_whole(&household, &db, point).await;
        let log = household.told::<Vec<Value>>(Op::Log { most: 100 });
        let ends = (log[0]["id"].as_i64().unwrap(), log[34]["id"].as_i64().unwrap(), 35);
        let made = household.told::<Vec<Checkpoint>>(Op::Checkpoints { most: 10, before: None });
        one_line(&made, ends, point);
        assert_eq!(made[0].summary, "Tasks.", "{point}: what later sessions are told is of the owner's words");
        let today = household.journal_file("sessions/today.md");
        assert_eq!(
            (today.matches("Own was logged").count(), today.matches("Others was logged").count()),
            (1, 1),
            "{point}: {today}"
        );
        let ideas = household.journal_file("reference/ideas.md");
        assert_eq!(
            (ideas.matches("### Own\n").count(), ideas.matches("> ### Others\n").count()),
            (1, 1),
            "{point}: {ideas}"
        );
        household.at_rest(point).await;
    }
    println!("{} different prompts of syncs", sync_prompts(&model).len());
}

/// Has something done that dies there, and starts again.
pub async fn killed_at(household: &Household, point: &str, op: Op) -> Daemon {
    let mut daemon = household.journal_dying_at(point).await;
    assert!(household.asked::<Value>(op).is_err(), "{point}: it was answered");
    died(&mut daemon, point).await;
    drop(daemon);
    let daemon = household.start().await;
    household.journal_begun().await;
    daemon
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_in_a_change_by_hand_it_is_done_or_not_done() {
    let household = Household::new();
    drop(household.start().await);
    let brought = |text: &str| Op::Migrate {
        files: vec![
            FileText { file: "decisions.md".to_owned(), text: format!("# Decisions\n\n### {text}\nIt is so.\n") },
            FileText { file: "users/bea.md".to_owned(), text: format!("# Bea\n\n### {text}\nIt is hers.\n") },
        ],
        dry_run: false,
    };
    for (point, done) in [
        ("journal.applied", false),
        ("journal.committed", true),
        ("journal.noted", true),
        ("journal.noted:2", true),
        ("journal.swapped", true),
        ("journal.swapped:2", true),
    ] {
        let daemon = killed_at(&household, point, brought(point)).await;
        let db = household.rows().await;
        is_whole(&household, &db, point).await;
        for file in ["reference/decisions.md", "users/bea.md"] {
            let there = fs::read_to_string(household.journal_path(file)).unwrap_or_default();
            assert_eq!(there.matches(&format!("### {point}\n")).count(), usize::from(done), "{point}: {there}");
        }
        // Taken back and done again, it is as it was.
        let before = files_of_rows(&db).await;
        household.told::<Migrated>(brought("again"));
        household.told::<Migrated>(Op::MigrateBack);
        assert_eq!(files_of_rows(&db).await, before, "{point}");
        drop(daemon);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_a_checkpoint_by_hand_it_is_made_once() {
    let household = Household::new();
    for (n, (point, made)) in [("journal.settled", false), ("journal.settle_committed", true)].into_iter().enumerate() {
        let daemon = household.start().await;
        household.journal_begun().await;
        said(&household.rows().await, "owner", &texts(3)).await;
        let status = household.sync_status();
        let (begin, end) = (status.begin_id.expect("a first"), status.end_id.expect("a last"));
        let checkpoint = || Op::Checkpoint { end, summary: format!("What {point} left.") };
        household.told::<Range>(Op::Range { begin, end, all: false });
        drop(daemon);
        let daemon = killed_at(&household, point, checkpoint()).await;
        is_whole(&household, &household.rows().await, point).await;
        match made {
            true => assert_eq!(household.refused(checkpoint()).0, "no_sync", "{point}"),
            // Whoever was shown the range need not read it again.
            false => drop(household.told::<Checkpoint>(checkpoint())),
        }
        let all: Vec<Checkpoint> = household.told(Op::Checkpoints { most: 10, before: None });
        assert_eq!(all.len(), n + 1, "{point}: {all:?}");
        assert_eq!((all[0].start_id, all[0].end_id, all[0].count), (begin, end, 3), "{point}: {all:?}");
        drop(daemon);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_as_an_edit_is_accepted_the_edit_is_never_lost() {
    let household = Household::new();
    drop(household.start().await);
    for (n, point) in
        ["journal.applied", "journal.committed", "journal.noted", "journal.swapped"].into_iter().enumerate()
    {
        let path = household.journal_path("reference/ideas.md");
        let daemon = household.start().await;
        household.journal_begun().await;
        // The journal goes on below the person's edit, so that the file is merged and written anew.
        let log = json!({"file": "ideas", "title": format!("Mine {n}"), "text": "Of a session."});
        fs::write(&path, fs::read_to_string(&path).unwrap().replacen("# ", &format!("# Edit {n} of "), 1)).unwrap();
        daemon.mcp("general").ok("journal_write", log).await;
        let edits: Vec<Edit> = household.told(Op::Edits);
        assert_eq!(edits.len(), 1, "{edits:?}");
        drop(daemon);
        let daemon = killed_at(
            &household,
            point,
            Op::Accept { edits: vec![edits[0].id.clone()], looked: false, deletions: false },
        )
        .await;
        let edits: Vec<Edit> = household.told(Op::Edits);
        let accepted: Accepted = household.told(Op::Accept {
            edits: edits.iter().map(|edit| edit.id.clone()).collect(),
            looked: false,
            deletions: false,
        });
        assert!(accepted.changed.is_empty(), "{point}: {accepted:?}");
        let db = household.rows().await;
        is_whole(&household, &db, point).await;
        let ideas = household.journal_file("reference/ideas.md");
        for words in [format!("# Edit {n} of "), format!("### Mine {n}\n")] {
            assert_eq!(ideas.matches(&words).count(), 1, "{point} {words}: {ideas}");
        }
        drop(daemon);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_the_turn_of_the_day_no_day_is_there_twice() {
    for point in ["journal.applied", "journal.committed", "journal.noted", "journal.swapped", "journal.swapped:2"] {
        let household = Household::new();
        let daemon = household.start().await;
        household.journal_begun().await;
        daemon.mcp("general").ok("journal_log", json!({"text": "The last line of yesterday"})).await;
        let today = household.journal_file("sessions/today.md");
        let day = today.lines().next().unwrap().trim_start_matches("# Session Log: ").to_owned();
        drop(daemon);
        let tomorrow = Household::again(&household, "BUTLERD_CLOCK_OFFSET", "86400s");
        let daemon = killed_at(&tomorrow, point, Op::Rotate).await;
        let rotated: Rotated = household.told(Op::Rotate);
        let db = household.rows().await;
        is_whole(&household, &db, point).await;
        assert_eq!(household.journal_file(&format!("sessions/{day}.md")), today, "{point}: {rotated:?}");
        let rows = files_of_rows(&db).await;
        let logs: Vec<&String> = rows.keys().filter(|file| file.starts_with("sessions/")).collect();
        assert_eq!(logs.len(), 2, "{point}: {logs:?}");
        let lines: usize = rows.values().map(|text| text.matches("The last line of yesterday").count()).sum();
        assert_eq!(lines, 1, "{point}");
        drop(daemon);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pass_over_others_words_that_fails_does_not_hold_up_the_owners() {
    let model = model(json!([
        own_pass(json!([log_and_write("Own"), checkpoint("Tasks."), {"say": "done"}])),
        others_pass(json!([call("journal_log", json!({"text": "Others was logged"})), {"say": "I will not."}])),
    ]))
    .await;
    let household = Household::with_model(&model).journal_settings("cooldown = \"1s\"");
    let _daemon = household.start().await;
    household.journal_begun().await;
    let db = household.rows().await;
    said(&db, "owner", &texts(20)).await;
    said(&db, "stranger", &texts(15)).await;
    household.told::<SyncBegun>(Op::Sync);
    household.synced(&db, 1).await;
    let today = household.journal_file("sessions/today.md");
    assert_eq!(
        (today.matches("Own was logged").count(), today.matches("Others was logged").count()),
        (1, 0),
        "{today}"
    );
    let own =
        sync_prompts(&model).iter().filter(|prompt| prompt.contains("What the owner and the household said")).count();
    assert_eq!(own, 1, "the owner's words are worked in once");
    let status: Status = household.told(Op::Status);
    assert_eq!(status.last_checkpoint.map(|made| made.summary).as_deref(), Some("Tasks."));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_as_a_change_is_taken_back_it_is_taken_back_or_not() {
    let household = Household::new();
    let daemon = household.start().await;
    household.journal_begun().await;
    let db = household.rows().await;
    let before = files_of_rows(&db).await;
    let path = household.journal_path("reference/ideas.md");
    fs::write(&path, fs::read_to_string(&path).unwrap() + "\n### A pond\nWith frogs.\n").unwrap();
    let edits: Vec<Edit> = household.told(Op::Edits);
    household.told::<Accepted>(Op::Accept {
        edits: edits.into_iter().map(|edit| edit.id).collect(),
        looked: true,
        deletions: false,
    });
    let after = files_of_rows(&db).await;
    drop(daemon);
    for (point, done) in [("journal.applied", false), ("journal.committed", true)] {
        let _daemon = killed_at(&household, point, Op::Undo { dry_run: false }).await;
        let db = household.rows().await;
        is_whole(&household, &db, point).await;
        assert_eq!(files_of_rows(&db).await, if done { before.clone() } else { after.clone() }, "{point}");
        let undone = count(&db, "journal_changes WHERE kind = 'undo' AND undoes IS NOT NULL").await;
        assert_eq!(undone, i64::from(done), "{point}");
    }
}

/// One who writes so that a session makes calls without end costs the words that stand beside his, and no others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn words_of_others_are_worked_in_by_portions() {
    let endless: Vec<Value> =
        (0..210).map(|n| json!({"tool": "journal_log", "arguments": {"text": format!("Call {n}")}})).collect();
    let mut astray = others_pass(json!([{"calls": endless}, checkpoint("Never."), {"say": "done"}]));
    astray["when"] =
        json!("(?s)^Memory sync: .*These are words of others\\..*call journal_checkpoint with end = (\\d+).*RUNAWAY");
    let model = model(json!([
        own_pass(json!([log_and_write("Own"), checkpoint("Tasks."), {"say": "done"}])),
        astray,
        others_pass(json!([log_and_write("Others"), checkpoint("Strangers."), {"say": "done"}])),
    ]))
    .await;
    let household = Household::with_model(&model).journal_settings("threshold = 1000\ncooldown = \"1s\"");
    let _daemon = household.start().await;
    household.journal_begun().await;
    let db = household.rows().await;
    said(&db, "owner", &texts(3)).await;
    let written = |n: usize| if n == 50 { "RUNAWAY".to_owned() } else { format!("Stranger {n}.") };
    said(&db, "stranger", &(1..=100).map(written).collect::<Vec<_>>()).await;
    // As long as it goes on: two hundred calls take a busy machine half a minute, and each portion is tried three times.
    let mut failed = 0;
    while count(&db, "journal_checkpoints").await == 0 {
        failed = eventually("it goes on", || async {
            let run = || household.cli(&["schedule", "run", "memory-sync", "--butler", "general"]);
            let (_, out, err) = tokio::task::block_in_place(run);
            let now = count(&db, "schedule_runs WHERE state = 'failed'").await;
            let is_made = count(&db, "journal_checkpoints").await == 1;
            if now > failed || is_made { Ok(now) } else { Err(format!("{out}{err}")) }
        })
        .await;
    }
    let made = household.told::<Vec<Checkpoint>>(Op::Checkpoints { most: 10, before: None });
    assert_eq!((made[0].count, made[0].summary.as_str()), (103, "Tasks."), "{made:?}");
    let today = household.journal_file("sessions/today.md");
    let counts = ["Own was logged", "Others was logged", "Call "].map(|words| today.matches(words).count());
    assert_eq!(counts, [1, 2, 0], "{today}");
    let others: Vec<String> =
        sync_prompts(&model).into_iter().filter(|prompt| prompt.contains("These are words of others.")).collect();
    assert_eq!(others.len(), 3, "three portions, each with one prompt");
    for (prompt, (first, last)) in others.iter().zip([(1, 40), (41, 80), (81, 100)]) {
        for n in 1..=100 {
            assert_eq!(prompt.contains(&format!(": {}\n", written(n))), (first..=last).contains(&n), "{n}: {prompt}");
        }
    }
    is_whole(&household, &db, "behind it").await;
}
