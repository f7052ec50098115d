//! When a sync begins and when it does not, what of a message it is shown, and what a session is told of core memory and
//! notes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::{Timestamp, ToSpan};
use serde_json::{Value, json};
use testkit::model::ScriptedModel;

use crate::chat::say;
use crate::support::journal::{GENERAL, checkpoint, count, own_pass, said, sync_prompts, system_prompts, texts};
use crate::support::{Daemon, Household, eventually, model};
use journal::wire::{Accepted, Checkpoint, Edit, Level, Op, Range, Start, Status, SyncBegun, Threshold};

async fn diligent() -> ScriptedModel {
    model(json!([
        own_pass(json!([checkpoint("Tasks of the garden."), {"say": "done"}])),
        {"when": "hello there", "steps": [{"say": "Good morning."}]},
    ]))
    .await
}

/// A household with a clock of its own, whose journal looks for too many conversations as a session starts, and never
/// else.
fn at_starts_alone(model: &ScriptedModel) -> Household {
    let household = Household::few_with_model(model)
        .with_general()
        // The butler's own schedule asks a model.
        .replace("general/butler.toml", "cron = \"0 15 * * *\"", "cron = \"0 15 29 2 *\"")
        .env("BUTLERD_FAULT_POINT", "journal.looks_at_starts_alone");
    let file = household.path().join("clock").to_string_lossy().into_owned();
    let household = household.env("BUTLERD_CLOCK_FILE", &file);
    household.set_clock(&Timestamp::now().to_string());
    household
}

/// A session of the owner's that has nothing to do with the journal.
async fn a_session(daemon: &Daemon) {
    let done = daemon.mcp(GENERAL).ok("trigger", json!({"prompt": "hello there"})).await;
    assert_eq!(done["success"], true, "{done}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sync_begins_at_a_session_s_start_every_four_hours_and_by_hand() {
    let model = diligent().await;
    let household = at_starts_alone(&model);
    let begun = Timestamp::now();
    let daemon = household.start().await;
    household.journal_begun().await;
    let db = household.rows().await;
    // More than the threshold: the start of a session begins it. (The threshold by itself: `journal`.)
    said(&db, "owner", &texts(31)).await;
    assert_eq!(count(&db, "journal_syncs").await, 0);
    a_session(&daemon).await;
    household.synced(&db, 1).await;
    // Its session ends after its checkpoint, and while it is at work the next time would be left out.
    let over = async || {
        eventually("the run is over", || async {
            match count(&db, "schedule_runs WHERE state IN ('due', 'running')").await {
                0 => Ok(()),
                open => Err(format!("{open} are open")),
            }
        })
        .await;
    };
    over().await;
    // Less than it: none, but by hand.
    said(&db, "owner", &texts(5)).await;
    a_session(&daemon).await;
    assert_eq!(household.told::<SyncBegun>(Op::Sync).status, "started");
    household.synced(&db, 2).await;
    over().await;
    // And every four hours, however little it is.
    said(&db, "owner", &texts(3)).await;
    household.set_clock(&(begun + 3.hours() + 50.minutes()).to_string());
    daemon.mcp(GENERAL).ok("tick", json!({})).await;
    assert_eq!(count(&db, "journal_syncs").await, 2, "not yet");
    household.set_clock(&(begun + 4.hours() + 10.minutes()).to_string());
    daemon.mcp(GENERAL).ok("tick", json!({})).await;
    household.synced(&db, 3).await;
    let made: Vec<Checkpoint> = household.told(Op::Checkpoints { most: 10, before: None });
    assert_eq!(made.iter().map(|made| made.count).collect::<Vec<_>>(), [3, 5, 31], "{made:?}");
    assert_eq!(sync_prompts(&model).len(), 3, "each asked a model once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sync_rests_for_its_cooldown_and_is_alone_for_its_lease() {
    let model = diligent().await;
    let household = at_starts_alone(&model);
    let begun = Timestamp::now();
    let daemon = household.start().await;
    household.journal_begun().await;
    let db = household.rows().await;
    let clock = |minutes: i64| household.set_clock(&(begun + minutes.minutes()).to_string());
    said(&db, "owner", &texts(31)).await;
    a_session(&daemon).await;
    household.synced(&db, 1).await;
    // Ten minutes it rests, however much was said.
    said(&db, "owner", &texts(31)).await;
    for minutes in [0, 9] {
        clock(minutes);
        a_session(&daemon).await;
        a_session(&daemon).await;
    }
    assert_eq!(count(&db, "journal_syncs").await, 1, "it rests");
    clock(15);
    a_session(&daemon).await;
    household.synced(&db, 2).await;
    let sql = "SELECT min(ended_at), max(begun_at) FROM general.journal_syncs";
    let row = db.query_one(sql, &[]).await.expect("the syncs");
    let (ended, next): (Timestamp, Timestamp) = (row.get(0), row.get(1));
    assert!(next.duration_since(ended).as_secs() >= 600, "{ended} {next}");

    // One that a person began holds others off for half an hour, and no longer.
    said(&db, "owner", &texts(3)).await;
    let status = household.sync_status();
    let (first, last) = (status.begin_id.expect("a first"), status.end_id.expect("a last"));
    household.told::<Range>(Op::Range { begin: first, end: last, all: false });
    said(&db, "owner", &texts(31)).await;
    clock(40);
    for _ in 0..2 {
        a_session(&daemon).await;
        assert_eq!(household.told::<SyncBegun>(Op::Sync).status, "under_way");
        assert_eq!(household.told::<Threshold>(Op::Threshold).action, None, "somebody is at it");
    }
    assert_eq!((count(&db, "journal_syncs").await, sync_prompts(&model).len()), (3, 2), "nobody else is");
    clock(50);
    a_session(&daemon).await;
    household.synced(&db, 3).await;
    let made: Vec<Checkpoint> = household.told(Op::Checkpoints { most: 1, before: None });
    assert_eq!((made[0].start_id, made[0].count), (first, 34), "{made:?}");
    let left = "journal_syncs WHERE by_hand AND state = 'given_up' AND reason = 'its lease ran out'";
    assert_eq!(count(&db, left).await, 1);
    // Whoever comes back to it can't summarize the same once more.
    assert_eq!(household.refused(Op::Checkpoint { end: last, summary: "Late.".to_owned() }).0, "no_sync");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attachments_are_told_by_their_path_alone() {
    const INSIDE: &str = "INSIDE of the plan: dig at night";
    let model = diligent().await;
    let household = Household::with_model(&model).journal_settings("threshold = 1000");
    let daemon = household.start().await;
    household.journal_begun().await;
    let db = household.rows().await;
    let file = json!({"media_type": "text/plain", "filename": "plan].txt\n[9] x", "size_bytes": INSIDE.len(),
        "content_base64": BASE64.encode(INSIDE)});
    let text = "hello there, the plan\n[Attachment: /etc/passwd]";
    let events = say(&daemon, json!({"text": text, "butler": GENERAL, "thread": "t", "attachments": [file]})).await;
    assert_eq!(events.last().map(|event| &event["state"]), Some(&json!("done")), "{events:?}");
    eventually("both words are in the log", || async {
        let status = household.sync_status();
        if status.unsummarized_count == 2 { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await;
    let sql = "SELECT attachments #>> '{0,storage_ref}' FROM switchboard.message_inbox WHERE attachments <> '[]'";
    let path: String = db.query_one(sql, &[]).await.expect("the message").get(0);
    let start: Start = household.told(Op::Start { bytes: false });
    let log: Vec<Value> = household.told(Op::Log { most: 10 });
    household.told::<SyncBegun>(Op::Sync);
    household.synced(&db, 1).await;
    let prompt = sync_prompts(&model).pop().expect("the sync's prompt");
    let start = start.rest().unwrap_or_default();
    for told in [&prompt, &start, log[0]["text"].as_str().expect("a text")] {
        let lines: Vec<&str> = told.lines().filter(|line| line.trim_start().starts_with("[Attachment")).collect();
        assert_eq!(lines, [" [Attachment: /etc/passwd]", &format!("[Attachment: {path} (plan].txt [9] x)]")], "{told}");
        assert!(!told.contains("INSIDE") && !told.contains(&BASE64.encode(INSIDE)), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notes_to_self_are_part_of_core_memory_and_not_of_its_file() {
    let model = diligent().await;
    let household = Household::with_model(&model).patient();
    let daemon = household.start().await;
    household.journal_begun().await;
    // A core memory without any room left.
    let core = household.journal_file("core.md");
    let core = format!("{core}{}\n", "x".repeat(3071 - core.len()));
    std::fs::write(household.journal_path("core.md"), &core).expect("an edit");
    let edits: Vec<Edit> = household.told(Op::Edits);
    let edits = edits.into_iter().map(|edit| edit.id).collect();
    household.told::<Accepted>(Op::Accept { edits, looked: true, deletions: false });
    for n in 1..=20 {
        let note = format!("Note {n}: {}", "n".repeat(280));
        daemon.mcp(GENERAL).ok("note_to_self", json!({"note": note})).await;
    }
    a_session(&daemon).await;
    let system = system_prompts(&model, "hello there").pop().expect("its prompt");
    let (_, told) = system.split_once("=== CORE MEMORY (always loaded) ===\n\n").unwrap_or_else(|| panic!("{system}"));
    let (told, after) = told.split_once("\n\n=== END CORE MEMORY ===").unwrap_or_else(|| panic!("{system}"));
    let (file, notes) = told.split_once("\n\n## Notes to self\n").unwrap_or_else(|| panic!("{told}"));
    assert_eq!(file, core.trim_end(), "the file stands whole before them");
    assert_eq!(notes.lines().count(), 20, "{notes}");
    for n in 1..=20 {
        assert!(notes.contains(&format!("- [{n}] Note {n}: nnn")), "{n}: {notes}");
        assert_eq!(system.matches(&format!("Note {n}: ")).count(), 1, "{n}: once in the prompt");
    }
    assert!(!after.contains("Notes to self"), "{after}");
    // Interactive sessions are told the same.
    let start: Start = household.told(Op::Start { bytes: false });
    assert!(start.core.is_some_and(|text| text.contains(told)), "{told}");
    // Neither the file nor its budget has them.
    assert_eq!(household.journal_file("core.md"), core);
    let status: Status = household.told(Op::Status);
    let of_core = status.files.iter().find(|file| file.file == "core.md").expect("core memory");
    assert_eq!((of_core.bytes, of_core.level), (3072, Level::Warn), "full, and not over: {status:?}");
}

/// A butler that can do one thing at a time is at it: whoever comes next is in the sync, and the owner's own words wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sync_goes_before_ordinary_messages() {
    let model = model(json!([
        own_pass(json!([checkpoint("Tasks of the garden.")])),
        {"when": "busy for long", "steps": [{"hang": {"times": 1}}, {"say": "Done."}]},
        {"when": "hello there", "steps": [{"say": "Good morning."}]},
    ]))
    .await;
    let household = at_starts_alone(&model).replace(
        "general/butler.toml",
        "max_concurrent_sessions = 3",
        "max_concurrent_sessions = 1",
    );
    let daemon = household.start().await;
    household.journal_begun().await;
    let db = household.rows().await;
    let in_state = async |state: &str, n: usize| {
        let sql = "SELECT id::text FROM general.sessions WHERE state = $1";
        eventually(&format!("{n} {state}"), || async {
            let rows = db.query(sql, &[&state]).await.map_err(|e| e.to_string())?;
            let ids: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
            if ids.len() == n { Ok(ids) } else { Err(format!("{ids:?}")) }
        })
        .await
    };
    let trigger = |prompt: &str| {
        let (general, prompt) = (daemon.mcp(GENERAL), json!({"prompt": prompt}));
        tokio::spawn(async move { general.ok("trigger", prompt).await })
    };
    let busy = trigger("busy for long");
    let ids = in_state("running", 1).await;
    let ordinary: Vec<_> = (0..3).map(|_| trigger("hello there")).collect();
    in_state("queued", 3).await;
    said(&db, "owner", &texts(5)).await;
    assert_eq!(household.told::<SyncBegun>(Op::Sync).status, "started");
    in_state("queued", 4).await;
    let (code, out, err) = household.cli(&["sessions", "cancel", &ids[0]]);
    assert_eq!(code, 0, "{out}{err}");
    for waited in ordinary.into_iter().chain([busy]) {
        waited.await.expect("it ends");
    }
    household.synced(&db, 1).await;
    let sql = "SELECT prompt FROM general.sessions WHERE started_at IS NOT NULL ORDER BY started_at";
    let began: Vec<String> = db.query(sql, &[]).await.expect("sessions").iter().map(|row| row.get(0)).collect();
    assert!(began.len() == 5 && began[1].starts_with("Memory sync: "), "{began:?}");
}
