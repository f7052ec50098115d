//! A change of the journal that is taken back, and the journal of another butler than general.

use serde_json::{Value, json};

use crate::support::journal::{GENERAL, call, checkpoint, count, files_of_rows, own_pass, said, texts};
use crate::support::{Household, eventually, model};
use journal::wire::{Accepted, Edit, FileText, Migrated, Op, Status, SyncBegun};

fn run(household: &Household, args: &[&str]) -> (i32, String, String) {
    tokio::task::block_in_place(|| household.cli(&[&["journal"], args].concat()))
}

fn printed(household: &Household, args: &[&str]) -> String {
    let (code, out, err) = run(household, args);
    assert_eq!(code, 0, "{args:?}: {out}{err}");
    out
}

/// Puts something behind a file's text, as a person does.
fn edited(household: &Household, file: &str, more: &str) {
    std::fs::write(household.journal_path(file), household.journal_file(file) + more).expect("an edit");
    let edits: Vec<Edit> = household.told(Op::Edits);
    let edits = edits.into_iter().map(|edit| edit.id).collect();
    let accepted: Accepted = household.told(Op::Accept { edits, looked: true, deletions: false });
    assert_eq!(accepted.taken, [file], "{accepted:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_sync_or_a_person_changed_is_taken_back() {
    let write = |file: &str, title: &str, text: &str| json!({"tool": "journal_write", "arguments": {"file": file, "title": title, "text": text}});
    let steps = json!([
        {"calls": [
            write("ideas", "A pond", "With frogs."),
            write("decisions", "Oak", "The fence is of oak."),
            write("core.md", "Active Working State", "The fence."),
            {"tool": "journal_log", "arguments": {"text": "The fence was planned"}}]},
        call("journal_archive", json!({"file": "ideas", "title": "A shed"})),
        checkpoint("The fence."), {"say": "done"}]);
    let model = model(json!([own_pass(steps)])).await;
    let household = Household::with_model(&model).journal_settings("threshold = 1000");
    let _daemon = household.start().await;
    household.journal_begun().await;
    let db = household.rows().await;
    let (code, _, err) = run(&household, &["undo"]);
    assert!(code == 1 && err.contains("There is no sync and no accepted edit to take back."), "{code} {err}");
    let first = files_of_rows(&db).await;
    edited(
        &household,
        "reference/ideas.md",
        "\n### A pond\nWithout frogs.\n\n### A shed\nOf larch.\n\n### A hedge\nHigh.\n",
    );
    let second = files_of_rows(&db).await;
    said(&db, "owner", &texts(3)).await;
    assert_eq!(household.told::<SyncBegun>(Op::Sync).status, "started");
    household.synced(&db, 1).await;
    let third = files_of_rows(&db).await;
    assert!(third["archive/ideas.md"].contains("### A shed") && !third["reference/ideas.md"].contains("Without frogs"));

    // What it would do, as it does it.
    let dry = printed(&household, &["undo", "--dry-run"]);
    for words in [
        "reference/ideas.md\n",
        "+Without frogs.",
        "-- **Notes:** With frogs.",
        "-The fence.",
        "Would be taken back: the sync of ",
    ] {
        assert!(dry.contains(words), "{words}: {dry}");
    }
    assert_eq!(files_of_rows(&db).await, third);
    let done: Value = serde_json::from_str(&printed(&household, &["undo", "--json"])).expect("JSON");
    let files: Vec<&str> =
        done["files"].as_array().expect("files").iter().filter_map(|file| file["file"].as_str()).collect();
    let five = ["archive/ideas.md", "core.md", "reference/decisions.md", "reference/ideas.md", "sessions/today.md"];
    assert_eq!((files, &done["kind"]), (five.to_vec(), &json!("sync")), "{done}");
    assert!(done["notes"][0].as_str().is_some_and(|note| note.starts_with("The checkpoint stays")), "{done}");
    assert_eq!(files_of_rows(&db).await, second, "byte by byte");
    household.rows_and_files_agree(&db, "after the sync was taken back").await;
    assert_eq!((count(&db, "journal_checkpoints").await, household.sync_status().unsummarized_count), (1, 0));

    // Then what was before it, though the sync had changed the same and that began again.
    let out = printed(&household, &["undo"]);
    assert!(out.contains("Taken back: the accepted edit of ") && out.contains("uid:"), "{out}");
    assert_eq!(files_of_rows(&db).await, first);
    household.rows_and_files_agree(&db, "after the edit was taken back").await;
    assert_eq!(run(&household, &["undo"]).0, 1, "nothing is left");
    // The history has all of it.
    let sql = "SELECT array_agg(kind ORDER BY id), count(undoes) FROM general.journal_changes WHERE kind IN ('person', 'sync', 'undo')";
    let row = db.query_one(sql, &[]).await.expect("the history");
    assert_eq!(
        (row.get::<_, Vec<String>>(0), row.get::<_, i64>(1)),
        (["person", "sync", "undo", "undo"].map(str::to_owned).to_vec(), 2)
    );
    assert!(count(&db, "journal_sections WHERE text LIKE '%With frogs.%' AND ended IS NOT NULL").await > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_later_changes_were_built_on_stays() {
    let household = Household::new().journal_settings("sync = \"by_hand\"");
    let daemon = household.start().await;
    household.journal_begun().await;
    let db = household.rows().await;
    edited(&household, "reference/ideas.md", "\n### A pond\nWithout frogs.\n\n### A shed\nOf larch.\n");
    let mcp = daemon.mcp(GENERAL);
    mcp.ok("journal_write", json!({"file": "ideas", "title": "A pond", "text": "With frogs."})).await;
    mcp.ok("journal_archive", json!({"file": "ideas", "title": "A shed"})).await;
    let rows = files_of_rows(&db).await;
    let (code, _, err) = run(&household, &["undo"]);
    let why = "`A pond` in reference/ideas.md was changed since by step ";
    assert!(code == 1 && err.contains(why) && err.contains("(call of journal_write)"), "{code} {err}");
    assert!(err.contains("Nothing was changed."), "{err}");
    assert_eq!(files_of_rows(&db).await, rows);
    // What came later and apart stays beside what begins again.
    edited(&household, "reference/decisions.md", "\n### Larch\nThe bench.\n");
    let before = files_of_rows(&db).await["reference/decisions.md"].clone();
    std::fs::write(household.journal_path("reference/decisions.md"), before.replace("The bench.", "The gate."))
        .expect("an edit");
    edited(&household, "reference/decisions.md", "");
    mcp.ok("journal_write", json!({"file": "decisions", "title": "Oak", "text": "The fence."})).await;
    printed(&household, &["undo"]);
    let decisions = household.journal_file("reference/decisions.md");
    assert!(decisions.starts_with(&before) && decisions.contains("Oak\n- **Decision:** The fence."), "{decisions}");
    // An edit that waits stays in its file, and is told of.
    let path = household.journal_path("users/bea.md");
    std::fs::write(&path, "").expect("a file");
    edited(&household, "users/bea.md", "# Bea\n");
    std::fs::write(&path, "# Bea\nShe likes mint.\n").expect("an edit");
    let out = printed(&household, &["undo"]);
    assert!(out.contains("users/bea.md has an edit that waits"), "{out}");
    assert_eq!(std::fs::read_to_string(&path).expect("the file"), "# Bea\nShe likes mint.\n");
    assert!(!files_of_rows(&db).await.contains_key("users/bea.md"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_that_a_session_divides_is_taken_back_whole_or_not_yet() {
    let model = model(json!([
        {"when": "(?s)Divide an old memory file.*idle", "steps": [{"say": "Nothing to do."}]},
        {"when": "(?s)Divide an old memory file.*slow", "steps": [{"hang": true}]},
    ]))
    .await;
    let household = Household::with_model(&model).journal_settings("sync = \"by_hand\"");
    let _daemon = household.start().await;
    household.journal_begun().await;
    let db = household.rows().await;
    let before = files_of_rows(&db).await;
    let migrate = |kind: &str| {
        let text = format!("# Context\n\nIt is {kind}.\n");
        Op::Migrate { files: vec![FileText { file: "context.md".to_owned(), text }], dry_run: false }
    };
    // A session that ends well without a change has divided nothing.
    household.told::<Migrated>(migrate("idle"));
    eventually("status says that nothing was divided", || async {
        let status: Status = household.told(Op::Status);
        match status.troubles.iter().any(|why| why.contains("No session divided context.md")) {
            true => Ok(()),
            false => Err(format!("{:?}", status.troubles)),
        }
    })
    .await;
    household.told::<Migrated>(Op::MigrateBack);
    assert_eq!(files_of_rows(&db).await, before);
    // While a session is at it, what it writes next would stay.
    household.told::<Migrated>(migrate("slow"));
    model.wait_for(|seen| seen.iter().any(|request| request.body.to_string().contains("It is slow."))).await;
    let with_it = files_of_rows(&db).await;
    for op in [Op::MigrateBack, migrate("slow")] {
        assert_eq!(household.refused(op).0, "dividing");
    }
    assert_eq!(files_of_rows(&db).await, with_it);
    let sql = "SELECT id::text FROM general.sessions WHERE state = 'running'";
    let session: String = db.query_one(sql, &[]).await.expect("the session").get(0);
    let (code, out, err) = tokio::task::block_in_place(|| household.cli(&["sessions", "cancel", &session]));
    assert_eq!(code, 0, "{out}{err}");
    eventually("the migration is taken back", || async {
        household.ask::<Migrated>(Op::MigrateBack).map(drop).map_err(|refusal| refusal.message)
    })
    .await;
    assert_eq!(files_of_rows(&db).await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_butler_keeps_a_journal_of_its_own() {
    let household = Household::new().journal_settings("sync = \"by_hand\"").replace(
        "health/butler.toml",
        "[modules.health]\n",
        "[modules.journal]\nsync = \"by_hand\"\n\n[modules.health]\n",
    );
    let daemon = household.start().await;
    household.journal_begun().await;
    let core = eventually("health's journal begins", || async {
        let (code, out, err) = run(&household, &["--butler", "health", "show"]);
        if code == 0 { Ok(out) } else { Err(err) }
    })
    .await;
    assert!(core.contains("I am health,"), "{core}");
    daemon.mcp("health").ok("journal_write", json!({"file": "ideas", "title": "Walks", "text": "At noon."})).await;
    let ideas = |args: &[&str]| printed(&household, &[args, &["show", "ideas"]].concat());
    assert!(ideas(&["--butler", "health"]).contains("### Walks"));
    for general in [&["--butler", GENERAL][..], &[]] {
        assert!(!ideas(general).contains("### Walks"));
    }
    let status: Value =
        serde_json::from_str(&printed(&household, &["status", "--butler", "health", "--json"])).expect("JSON");
    let dir = household.data().join("journal/owner/health");
    assert_eq!((&status["butler"], &status["dir"]), (&json!("health"), &json!(dir)), "{status}");
    // An edit of the other's files is the other's.
    let file = dir.join("reference/ideas.md");
    let text = std::fs::read_to_string(&file).expect("the file") + "\n### Runs\nAt ten.\n";
    std::fs::write(&file, text).expect("an edit");
    assert!(printed(&household, &["accept", "--yes"]).contains("Nothing to accept"));
    assert!(printed(&household, &["accept", "--yes", "--butler", "health"]).contains("+### Runs"));
    assert!(printed(&household, &["undo", "--butler", "health"]).contains("-### Runs"));
    // Its hooks ask at its socket.
    let settings = household.path().join("settings.json");
    printed(&household, &["install-hooks", "--butler", "health", "--settings", settings.to_str().expect("a path")]);
    let made = std::fs::read_to_string(&settings).expect("the settings");
    let socket = household.data().join("run/journal-health.sock");
    assert!(made.contains(&format!("BUTLERD_JOURNAL_SOCKET={} ", socket.display())), "{made}");
    // Nobody of that name, and no name at all.
    let (code, _, err) = run(&household, &["status", "--butler", "nobody"]);
    assert!(code == 3 && err.contains("journal-nobody.sock"), "{code} {err}");
    assert_eq!(run(&household, &["status", "--butler", "../x"]).0, 2);
}
