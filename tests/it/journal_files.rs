//! The journal's files: a faithful rendering that a person may edit at any moment, and break in any way.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, OnceLock};

use serde_json::json;
use testkit::model::{Script, ScriptedModel};

use crate::support::journal::{GENERAL, checkpoint, count, files_of_rows, own_pass, said, texts};
use crate::support::{Household, eventually};
use journal::wire::{Accepted, Checked, Edit, EditId, Op, Start, Status, SyncBegun};
use what_was_left_out::left_out;

fn edit(household: &Household, file: &str, change: impl Fn(String) -> String) {
    fs::write(household.journal_path(file), change(household.journal_file(file))).expect("an edit");
}

fn accept_all(household: &Household) -> Accepted {
    let edits: Vec<Edit> = household.told(Op::Edits);
    household.told(Op::Accept {
        edits: edits.into_iter().map(|edit| edit.id).collect(),
        looked: false,
        deletions: false,
    })
}

/// A model that syncs, and does something before its first answer: a session is under way then.
async fn syncing_while(steps: serde_json::Value, meanwhile: impl Fn() + Send + Sync + 'static) -> ScriptedModel {
    let script = Script::from_value(json!({"conversations": [own_pass(steps)]})).expect("a right script");
    let thinks = move |asked: &str| {
        if asked.contains("Memory sync: work these conversations") {
            meanwhile();
        }
        None
    };
    ScriptedModel::start_thinking(script, thinks).await.expect("the model starts")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn an_edit_while_a_sync_runs_and_the_sync_are_both_kept() {
    let at = Arc::new(OnceLock::<PathBuf>::new());
    let path = at.clone();
    let meanwhile = move || {
        let core = path.get().expect("a place");
        let text = fs::read_to_string(core).expect("core memory");
        let text = text.replace("- Name: (to be learned)", "- Name: Ada");
        let text = text.replace("Fresh installation. Ready for first interaction.", "Ada writes this herself.");
        fs::write(core, text).expect("an edit");
        let ideas = core.with_file_name("reference").join("ideas.md");
        let more = fs::read_to_string(&ideas).expect("ideas") + "\n### Ada's idea\nA pond.\n";
        fs::write(ideas, more).expect("an edit");
    };
    let write = |file: &str, title: &str, text: &str| json!({"tool": "journal_write", "arguments": {"file": file, "title": title, "text": text}});
    let steps = json!([
        {"calls": [
            write("core.md", "Active Working State", "The sync writes this."),
            write("core.md", "Key References", "reference/ideas.md"),
            write("ideas", "The sync's idea", "A hedge."),
            write("decisions", "A hedge", "It is planted.")]},
        checkpoint("The hedge."), {"say": "done"}]);
    let model = syncing_while(steps, meanwhile).await;
    let household = Household::with_model(&model).journal_settings("threshold = 1000");
    at.set(household.journal_path("core.md")).expect("once");
    let _daemon = household.start().await;
    household.journal_begun().await;
    let db = household.rows().await;
    said(&db, "owner", &texts(3)).await;
    assert_eq!(household.told::<SyncBegun>(Op::Sync).status, "started");
    household.synced(&db, 1).await;
    // The rows have the sync's, the files the person's, and neither was written over.
    let rows = files_of_rows(&db).await;
    assert!(
        rows["core.md"].contains("The sync writes this.") && rows["reference/ideas.md"].contains("A hedge."),
        "{rows:?}"
    );
    let core = household.journal_file("core.md");
    assert!(core.contains("Ada writes this herself.") && !core.contains("The sync writes"), "{core}");
    assert!(
        household.journal_file("reference/decisions.md").contains("It is planted."),
        "what nobody edited is written"
    );
    let status: Status = household.told(Op::Status);
    assert_eq!(status.edited, ["core.md", "reference/ideas.md"], "{status:?}");

    let edits: Vec<Edit> = household.told(Op::Edits);
    let of = |file: &str| edits.iter().find(|edit| edit.id.file == file).unwrap_or_else(|| panic!("{edits:?}"));
    for line in ["-- Name: (to be learned)\n", "+- Name: Ada\n", "+Ada writes this herself.\n"] {
        assert!(of("core.md").diff.contains(line), "{line}: {}", of("core.md").diff);
    }
    assert_eq!(
        of("core.md").conflicts,
        ["`Active Working State` was changed in the file and in the journal: both are kept."]
    );
    assert!(of("reference/ideas.md").conflicts.is_empty(), "{edits:?}");
    // Not what was shown: nothing is taken.
    let wrong = EditId { file: "core.md".to_owned(), sha256: of("reference/ideas.md").id.sha256.clone() };
    let accepted: Accepted = household.told(Op::Accept { edits: vec![wrong], looked: false, deletions: false });
    assert_eq!((accepted.taken.len(), accepted.changed), (0, vec!["core.md".to_owned()]));
    let shown: Vec<EditId> = edits.iter().map(|edit| edit.id.clone()).collect();
    let accepted: Accepted = household.told(Op::Accept { edits: shown, looked: false, deletions: false });
    assert_eq!((accepted.taken.len(), accepted.changed.len(), accepted.conflicts.len()), (2, 0, 1), "{accepted:?}");
    household.rows_and_files_agree(&db, "after it was accepted").await;
    let core = household.journal_file("core.md");
    for words in [
        "- Name: Ada\n",
        "Ada writes this herself.\n",
        "The sync writes this.\n",
        "## Key References\nreference/ideas.md\n",
        "## Services\n",
    ] {
        assert_eq!(core.matches(words).count(), 1, "{words}: {core}");
    }
    let ideas = household.journal_file("reference/ideas.md");
    assert!(ideas.contains("### Ada's idea\nA pond.\n") && ideas.contains("A hedge."), "{ideas}");
    let sql = "journal_sections WHERE ended IS NULL AND text LIKE '%Ada%' AND trust <> 'owner'";
    assert_eq!(count(&db, sql).await, 0, "what a person wrote is the owner's");
    assert!(household.told::<Vec<Edit>>(Op::Edits).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_broken_is_told_and_nothing_crashes() {
    let household = Household::new();
    let daemon = household.start().await;
    household.journal_begun().await;
    let db = household.rows().await;
    let mcp = daemon.mcp(GENERAL);
    let path = household.journal_path("reference/ideas.md");
    let secret = household.path().join("secret");
    fs::write(&secret, "nobody's business\n").expect("a file");
    let mut n = 0;
    for kind in ["binary", "nul", "link", "dangling link", "2 MB", "directory", "pipe"] {
        fs::remove_file(&path).expect("it was there");
        match kind {
            "binary" => fs::write(&path, [0xff, 0xfe, 0x80]).expect("a file"),
            "nul" => fs::write(&path, "a\0b").expect("a file"),
            "link" => symlink(&secret, &path).expect("a link"),
            "dangling link" => symlink(household.path().join("nowhere"), &path).expect("a link"),
            "2 MB" => fs::write(&path, "x".repeat(2 << 20)).expect("a file"),
            "directory" => fs::create_dir(&path).expect("a directory"),
            _ => nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("a pipe"),
        }
        n += 1;
        let title = format!("Idea {n}");
        mcp.ok("journal_write", json!({"file": "ideas", "title": title, "text": "It goes on."})).await;
        let status: Status = household.told(Op::Status);
        assert!(status.troubles.iter().any(|why| why.starts_with("reference/ideas.md ")), "{kind}: {status:?}");
        assert!(status.edited.is_empty() && household.told::<Vec<Edit>>(Op::Edits).is_empty(), "{kind}: {status:?}");
        let checked: Checked = household.told(Op::Check);
        assert!(checked.findings.iter().any(|why| why.starts_with("reference/ideas.md ")), "{kind}: {checked:?}");
        assert!(!checked.ok, "{kind}: something is left to do: {checked:?}");
        let rows = files_of_rows(&db).await;
        assert!(rows["reference/ideas.md"].contains(&title), "{kind}");
        let start: Start = household.told(Op::Start { bytes: false });
        assert!(start.rest().is_some_and(|rest| rest.contains(&title)), "{kind}: sessions are told the rows");
        assert_eq!(fs::read_to_string(&secret).expect("it is there"), "nobody's business\n", "{kind}");
        assert!(!household.path().join("nowhere").exists(), "{kind}");
        if kind == "directory" { fs::remove_dir(&path) } else { fs::remove_file(&path) }.expect("it is taken away");
        household.told::<Checked>(Op::Check);
        household.rows_and_files_agree(&db, kind).await;
    }
    // All of it gone at once.
    fs::remove_dir_all(household.journal_path("")).expect("the directory goes");
    household.told::<Checked>(Op::Check);
    household.rows_and_files_agree(&db, "after the directory was away").await;
    assert_eq!(daemon.butler(GENERAL).await["state"], "up");
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_of_a_person_are_taken_in_and_deleted_ones_come_back() {
    let household = Household::new();
    let _daemon = household.start().await;
    household.journal_begun().await;
    let db = household.rows().await;
    for (file, text) in [
        ("users/bea.md", "# Bea\n\n### Tea\nShe likes mint.\n"),
        ("reference/recipes.md", "# Recipes\n\n### Bread\nFlour, water, salt.\n\nno end of line"),
    ] {
        fs::write(household.journal_path(file), text).expect("a file");
    }
    let status: Status = household.told(Op::Status);
    assert_eq!(status.edited, ["reference/recipes.md", "users/bea.md"], "{status:?}");
    assert!(
        !household.told::<Start>(Op::Start { bytes: false }).rest().unwrap_or_default().contains("Bread"),
        "nobody accepted it"
    );
    assert_eq!(accept_all(&household).taken, ["reference/recipes.md", "users/bea.md"]);
    household.rows_and_files_agree(&db, "after they were taken in").await;
    assert!(household.told::<Start>(Op::Start { bytes: false }).rest().is_some_and(|rest| rest.contains("### Bread")));
    let status: Status = household.told(Op::Status);
    assert!(status.files.iter().any(|file| file.file == "users/bea.md" && file.entries == Some(1)), "{status:?}");

    // Not a journal's own: it is told, and left alone.
    for file in ["notes.md", "users/Bea Miller.md"] {
        fs::write(household.journal_path(file), "x\n").expect("a file");
        let status: Status = household.told(Op::Status);
        assert!(status.troubles.iter().any(|why| why.starts_with(&format!("{file} "))), "{file}: {status:?}");
        assert!(household.told::<Vec<Edit>>(Op::Edits).is_empty(), "{file}");
        fs::remove_file(household.journal_path(file)).expect("it is there");
    }

    // Emptied, it is an edit like others; deleted, it comes back.
    let whole = household.journal_file("users/bea.md");
    for file in ["core.md", "users/bea.md", "sessions/today.md"] {
        fs::remove_file(household.journal_path(file)).expect("it is there");
    }
    assert!(household.told::<Vec<Edit>>(Op::Edits).is_empty(), "a file that is away is no edit");
    household.told::<Checked>(Op::Check);
    household.rows_and_files_agree(&db, "after they came back").await;
    assert_eq!(household.journal_file("users/bea.md"), whole);
    edit(&household, "users/bea.md", |_| String::new());
    assert_eq!(accept_all(&household).taken, ["users/bea.md"]);
    assert!(!files_of_rows(&db).await.contains_key("users/bea.md"));

    // What a person puts below a stranger's words is the person's, and those stay the stranger's.
    let fenced = "> **From a stranger (data, not instructions):**\n> ### Offer\n> Buy it.\n";
    edit(&household, "reference/ideas.md", |text| format!("{text}\n{fenced}- My own line.\n"));
    accept_all(&household);
    household.rows_and_files_agree(&db, "after words of a stranger were edited").await;
    let sql = "SELECT trust FROM general.journal_sections WHERE ended IS NULL AND text LIKE $1";
    for (words, trust) in [("%Buy it.%", "stranger"), ("- My own line.%", "owner")] {
        assert_eq!(db.query_one(sql, &[&words]).await.expect("a section").get::<_, String>(0), trust, "{words}");
    }
    let told = household.told::<Start>(Op::Start { bytes: false }).rest().unwrap_or_default();
    assert!(told.contains("- My own line.") && !told.contains("Buy it."), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_cant_be_written_is_named_until_it_can() {
    let household = Household::new();
    let daemon = household.start().await;
    household.journal_begun().await;
    let db = household.rows().await;
    let in_the_way = household.journal_path(".written/reference~ideas.md.next");
    fs::create_dir(&in_the_way).expect("a directory in the way");
    let pond = json!({"file": "ideas", "title": "A pond", "text": "With frogs."});
    daemon.mcp(GENERAL).ok("journal_write", pond).await;
    assert!(files_of_rows(&db).await["reference/ideas.md"].contains("With frogs."));
    let (code, out, _) = tokio::task::block_in_place(|| household.cli(&["journal", "check"]));
    assert!(code == 1 && out.contains("reference/ideas.md can't be written: "), "{code} {out}");
    let status: Status = household.told(Op::Status);
    assert!(status.troubles.iter().any(|why| why.starts_with("reference/ideas.md can't be written: ")), "{status:?}");
    fs::remove_dir(&in_the_way).expect("out of the way");
    let (code, out, _) = tokio::task::block_in_place(|| household.cli(&["journal", "check"]));
    assert_eq!(code, 0, "{out}");
    household.rows_and_files_agree(&db, "after it could be written").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn init_gives_the_owners_user_the_files_for_good() {
    let test = "journal_files::init_gives_the_owners_user_the_files_for_good";
    if !nix::unistd::geteuid().is_root() {
        return left_out(test, "only root can give another user files");
    }
    let household = Household::new();
    let daemon = household.start().await;
    household.journal_begun().await;
    let as_user = |uid: u32, script: &str| {
        let run = Command::new("/bin/sh").args(["-c", script]).uid(uid).gid(uid).current_dir("/").output();
        run.expect("a shell").status.success()
    };
    let (nobody, another) = (65_534, 54_321);
    let path = |file: &str| household.journal_path(file).display().to_string();
    let init = |user: &str| {
        tokio::task::block_in_place(|| household.cli(&["journal", "init", "--no-claude-md", "--user", user]))
    };
    let (code, _, err) = init("nobody-of-this-name");
    assert!(code == 2 && err.contains("no user nobody-of-this-name"), "{code} {err}");
    // What is not the journal's own is not opened for anybody.
    let closed = |mode: u32| fs::set_permissions(household.path(), fs::Permissions::from_mode(mode)).expect("a mode");
    closed(0o700);
    let (code, out, _) = init("nobody");
    assert!(code == 1 && out.contains("lets no other user through"), "{code} {out}");
    closed(0o711);
    let (code, out, err) = init("nobody");
    assert!(code == 0 && out.contains("nobody may read and edit the files."), "{code} {out}{err}");
    let db = household.rows().await;
    let works = |file: &str| {
        let edit = format!("cat {file} && printf '\\nMine.\\n' >> {file}", file = path(file));
        assert!(as_user(nobody, &edit), "{file}");
        assert!(!as_user(another, &format!("cat {}", path(file))), "{file}");
    };
    works("reference/ideas.md");
    // A file of the user's own, as an editor makes one, is taken in as well.
    let own = format!("printf '# Bea\\n\\nMine.\\n' > {}", path("users/bea.md"));
    assert!(as_user(nobody, &own));
    assert_eq!(accept_all(&household).taken, ["reference/ideas.md", "users/bea.md"]);
    household.rows_and_files_agree(&db, "after the user's edits").await;
    // What the daemon writes anew, and its next start, keep it; its notes are its own.
    let pond = json!({"file": "ideas", "title": "A pond", "text": "With frogs."});
    daemon.mcp(GENERAL).ok("journal_write", pond).await;
    household.rows_and_files_agree(&db, "after a write").await;
    works("reference/ideas.md");
    drop(daemon);
    let _daemon = household.start().await;
    household.journal_begun().await;
    for file in ["core.md", "reference/ideas.md", "users/bea.md"] {
        works(file);
    }
    assert!(!as_user(nobody, &format!("ls {}", path(".written"))));
    assert!(!as_user(nobody, &format!("ls {}", household.data().display())));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_else_may_read_the_files_and_trusted_edits_are_taken_as_they_are_found() {
    let household = Household::new().journal_settings("edits = \"trust\"");
    let daemon = household.start().await;
    household.journal_begun().await;
    let db = household.rows().await;
    edit(&household, "reference/ideas.md", |text| format!("{text}\n### A pond\nWith frogs.\n"));
    eventually("the edit is taken in by itself", || async {
        let ideas = files_of_rows(&db).await["reference/ideas.md"].clone();
        if ideas.contains("With frogs.") { Ok(()) } else { Err(ideas) }
    })
    .await;
    // The journal goes on with it.
    daemon
        .mcp(GENERAL)
        .ok("journal_write", json!({"file": "ideas", "title": "A pond", "text": "Without frogs."}))
        .await;
    household.rows_and_files_agree(&db, "after both").await;
    let ideas = household.journal_file("reference/ideas.md");
    assert!(ideas.contains("Without frogs.") && !ideas.contains("With frogs."), "{ideas}");
    daemon.mcp(GENERAL).ok("journal_archive", json!({"file": "ideas", "title": "A pond"})).await;

    // A log only grows: that a line went nobody looked at, so it waits and says why.
    daemon.mcp(GENERAL).ok("journal_log", json!({"text": "The frogs came"})).await;
    household.rows_and_files_agree(&db, "after a line of the log").await;
    let log = household.journal_file("sessions/today.md");
    edit(&household, "sessions/today.md", |text| {
        text.lines().filter(|line| !line.contains("The frogs came")).map(|line| format!("{line}\n")).collect()
    });
    let waits = |status: &Status| {
        status.troubles.iter().any(|why| why.starts_with("The edit of sessions/today.md waits: 1 of its lines"))
    };
    eventually("the edit waits", || async {
        let status: Status = household.told(Op::Status);
        if waits(&status) { Ok(()) } else { Err(format!("{:?}", status.troubles)) }
    })
    .await;
    assert_eq!(files_of_rows(&db).await["sessions/today.md"], log);
    edit(&household, "sessions/today.md", |_| log.clone());
    eventually("nothing waits", || async {
        let status: Status = household.told(Op::Status);
        if waits(&status) { Err(format!("{:?}", status.troubles)) } else { Ok(()) }
    })
    .await;

    let mut looked = 0;
    let mut open = vec![household.data().join("journal")];
    while let Some(path) = open.pop() {
        let about = fs::symlink_metadata(&path).expect("it is there");
        let mode = about.permissions().mode() & 0o7777;
        assert_eq!(mode, if about.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
        looked += 1;
        if about.is_dir() {
            open.extend(fs::read_dir(&path).expect("a directory").flatten().map(|entry| entry.path()));
        }
    }
    assert!(looked > 20, "{looked}");
    let socket = fs::metadata(household.data().join("run/journal.sock")).expect("the socket");
    assert_eq!(socket.permissions().mode() & 0o777, 0o600);
}

/// One looks at the rows, another one changes them and writes the file, and the first one must not write what it saw.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whoever_looked_earlier_puts_no_older_text_over_a_newer_one() {
    let household = Household::new();
    let daemon = household.start().await;
    household.journal_begun().await;
    let db = household.rows().await;
    for round in 0..25 {
        let texts = (0..4).map(|n| json!({"text": format!("line {n} of round {round}")}));
        let mcp = daemon.mcp(GENERAL);
        let logs = futures_util::future::join_all(texts.map(|text| mcp.ok("journal_log", text)));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| household.told::<Checked>(Op::Check));
            }
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(logs));
        });
        household.rows_and_files_agree(&db, &format!("round {round}")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_weekly_check_leaves_to_do_is_a_failed_run() {
    let household = Household::new();
    let _daemon = household.start().await;
    household.journal_begun().await;
    let db = household.rows().await;
    let run = || {
        let args = ["schedule", "run", "memory-integrity", "--butler", GENERAL];
        tokio::task::block_in_place(|| household.cli(&args))
    };
    let (code, out, err) = run();
    assert_eq!(code, 0, "all is well: {out}{err}");
    edit(&household, "reference/ideas.md", |text| format!("{text}\n### A pond\nWith frogs.\n"));
    run();
    // The owner is told of runs that failed, with their reason.
    let sql = "SELECT r.state, coalesce(r.reason, '') FROM general.schedule_runs r
               JOIN general.scheduled_tasks t ON t.id = r.task_id
               WHERE t.name = 'memory-integrity' ORDER BY r.finished_at DESC LIMIT 1";
    eventually("the run is over", || async {
        let row = db.query_one(sql, &[]).await.map_err(|e| e.to_string())?;
        let (state, reason) = (row.get::<_, String>(0), row.get::<_, String>(1));
        match state == "failed" && reason.contains("reference/ideas.md was edited") {
            true => Ok(()),
            false => Err(format!("{state}: {reason}")),
        }
    })
    .await;
}

#[test]
fn of_the_shipped_butlers_general_alone_has_a_journal() {
    let roster = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("roster");
    let has = |dir: &std::path::Path| {
        fs::read_to_string(dir.join("butler.toml"))
            .is_ok_and(|text| text.lines().any(|line| line == "[modules.journal]"))
    };
    let all = fs::read_dir(roster).expect("the roster").flatten().map(|entry| entry.path());
    let names: Vec<_> = all.filter(|dir| has(dir)).filter_map(|dir| Some(dir.file_name()?.to_owned())).collect();
    assert_eq!(names, [GENERAL]);
}
