//! Machines that exchange memories: clones of one bare origin, each with a daemon in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{BRANCH, Daemon, SyncError, SyncReport, pull, push, status, sync};
use crate::connection::ConnectionError;
use crate::git::Git;
use crate::place::ProjectPlace;
use crate::record::{Export, FORMAT, Record, VERSION};
use crate::wire::Refusal;

/// Memories, and what was forgotten.
#[derive(Default)]
struct Memories {
    records: BTreeMap<String, Record>,
    deleted: BTreeSet<String>,
    /// What imports are refused whose first memory says this.
    refused: Option<String>,
    /// How exchanges ended, as the daemon was told.
    told: Vec<Value>,
}

impl Memories {
    fn remember(&mut self, id: &str, content: &str) {
        let record = Record { id: id.to_owned(), content: content.to_owned(), importance: 0.5, ..Record::default() };
        self.records.insert(id.to_owned(), record);
    }

    fn forget(&mut self, id: &str) {
        assert!(self.records.remove(id).is_some(), "{id} is not there");
        self.deleted.insert(id.to_owned());
    }

    fn ids(&self) -> Vec<&str> {
        self.records.keys().map(String::as_str).collect()
    }

    fn import(&mut self, export: Export) -> Value {
        let (mut imported, mut skipped, mut gone) = (0, 0, 0);
        for id in export.deleted {
            gone += u64::from(self.records.remove(&id).is_some());
            self.deleted.insert(id);
        }
        for record in export.records {
            if self.records.contains_key(&record.id) || self.deleted.contains(&record.id) {
                skipped += 1;
            } else {
                imported += 1;
                self.records.insert(record.id.clone(), record);
            }
        }
        json!({"imported": imported, "skipped": skipped, "errors": 0, "deleted": gone})
    }
}

impl Daemon for Memories {
    fn ask(&mut self, op: &str, args: Value) -> Result<Value, ConnectionError> {
        match op {
            "export_memories" => {
                let export = Export {
                    version: VERSION,
                    format: FORMAT.to_owned(),
                    project: "api".to_owned(),
                    exported_at: "2026-11-26T00:00:00Z".to_owned(),
                    count: self.records.len(),
                    records: self.records.values().cloned().collect(),
                    deleted: self.deleted.iter().cloned().collect(),
                    merged: Vec::new(),
                };
                Ok(serde_json::to_value(export).unwrap())
            }
            "import_memories" => {
                let export: Export = serde_json::from_value(args["export"].clone()).unwrap();
                let first = export.records.first().map(|record| record.content.clone());
                if first.is_some() && first == self.refused {
                    let refusal = Refusal { code: "invalid_arguments".to_owned(), message: "no".to_owned() };
                    return Err(ConnectionError::Refused(refusal));
                }
                if args["dry_run"] == true {
                    let would = export.deleted.iter().filter(|id| self.records.contains_key(*id)).count();
                    return Ok(json!({"would_delete": would}));
                }
                Ok(self.import(export))
            }
            "exchanged" => {
                self.told.push(args);
                Ok(json!({"noted": true}))
            }
            "status" => Ok(json!({"count": self.records.len()})),
            other => panic!("{other} was asked"),
        }
    }
}

/// A clone and its daemon.
struct Machine {
    path: PathBuf,
    memories: Memories,
}

impl Machine {
    fn place(&self) -> ProjectPlace {
        ProjectPlace::of(&self.path, None).unwrap()
    }

    fn push(&mut self) -> Result<SyncReport, SyncError> {
        push(&self.place(), &mut self.memories, false)
    }

    fn pull(&mut self) -> SyncReport {
        pull(&self.place(), &mut self.memories, None, false).unwrap()
    }

    fn sync(&mut self) -> SyncReport {
        sync(&self.place(), &mut self.memories, false).unwrap()
    }

    fn git(&self, arguments: &[&str]) -> String {
        git(&self.path, arguments)
    }

    fn identity(&self) -> String {
        status(&self.place()).unwrap().identity
    }
}

fn git(at: &Path, arguments: &[&str]) -> String {
    Git::at(at).text(arguments).unwrap()
}

/// Git at the bare origin, which it takes only from somebody who names it.
fn of_origin(path: &Path, arguments: &[&str]) -> String {
    Git::at(path).on(&path.join("origin.git")).text(arguments).unwrap()
}

/// A bare origin with one commit.
fn origin() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap();
    git(&path, &["init", "-q", "--bare", "-b", "main", "origin.git"]);
    let first = machine(&path, "first");
    first.git(&["commit", "-q", "--allow-empty", "-m", "one"]);
    first.git(&["push", "-q", "origin", "HEAD:refs/heads/main"]);
    (dir, path)
}

/// A clone of a developer's who is called as the directory.
fn machine(path: &Path, user: &str) -> Machine {
    git(path, &["clone", "-q", "origin.git", user]);
    let machine = Machine { path: path.join(user), memories: Memories::default() };
    for (setting, value) in [("user.name", user), ("user.email", "x@example.org"), ("commit.gpgsign", "false")] {
        machine.git(&["config", setting, value]);
    }
    machine
}

fn file_of(path: &Path, machine: &Machine) -> Export {
    let name = format!("{BRANCH}:{}/memories.json", machine.identity());
    Export::read(&of_origin(path, &["show", &name])).unwrap()
}

#[test]
fn in_turn() {
    let (_dir, path) = origin();
    let (mut ada, mut bob) = (machine(&path, "Ada B"), machine(&path, "bob"));
    assert!(ada.identity().starts_with("ada-b/"), "{}", ada.identity());
    let shown = status(&ada.place()).unwrap();
    assert!(shown.lines.contains(&"Never synced.".to_owned()) && !shown.branch, "{shown:?}");
    assert!(ada.pull().lines[0].starts_with("No sync branch found."));
    assert_eq!(ada.push().unwrap().lines, ["Nothing to push."], "an empty store makes no branch");
    ada.memories.remember("a1", "postgres listens on 5433");
    let report = ada.push().unwrap();
    assert_eq!((report.lines, report.pushed), (vec![format!("Pushed to {}", ada.identity())], true));
    assert_eq!(ada.push().unwrap().lines, ["Nothing to push."]);
    assert_eq!(ada.pull().lines, ["No other sources found."]);
    let report = bob.pull();
    assert_eq!(report.lines[0], format!("{}: 1 new, 0 skipped", ada.identity()));
    assert_eq!((bob.memories.ids(), report.imported), (vec!["a1"], 1));
    assert_eq!(bob.pull().lines, ["Up to date."]);
    let told = bob.memories.told.last().unwrap();
    assert_eq!((told["identity"].as_str(), &told["error"]), (Some(&*bob.identity()), &Value::Null), "{told}");
    assert!(told["pulled_at"].is_string() && told["pushed_at"].is_null(), "{told}");
    bob.memories.remember("b1", "deploys need a tag");
    bob.sync();
    assert_eq!(ada.sync().imported, 1);
    assert_eq!(ada.memories.ids(), bob.memories.ids());
    assert_eq!(ada.memories.records["b1"].importance.to_string(), "0.5");
    let shown = status(&ada.place()).unwrap();
    let text = shown.lines.join("\n");
    assert!(text.contains(&format!("  {} (you)\n  {}", ada.identity(), bob.identity())), "{text}");
    assert!(text.contains("  Push: 2") && text.contains("  Pull: 2"), "{text}");
    let log = of_origin(&path, &["log", "--format=%s %an", BRANCH]);
    assert_eq!(log.lines().count(), 2, "{log}");
    assert!(log.lines().all(|line| line.starts_with("sync: ")), "{log}");
}

#[test]
fn the_developers_repository_stays_as_it_is() {
    let (_dir, path) = origin();
    let (mut ada, mut bob) = (machine(&path, "ada"), machine(&path, "bob"));
    fs::write(ada.path.join("staged"), "x").unwrap();
    ada.git(&["add", "staged"]);
    fs::write(ada.path.join("loose"), "x").unwrap();
    fs::write(ada.path.join(".git/FETCH_HEAD"), "mine").unwrap();
    let hook = ada.path.join(".git/hooks/pre-push");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, "#!/bin/sh\nexit 1\n").unwrap();
    fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let look = |ada: &Machine| {
        let refs =
            ada.git(&["for-each-ref", "--format=%(refname) %(objectname)", "refs/heads", "refs/remotes", "refs/tags"]);
        [refs, ada.git(&["status", "--porcelain=v2", "--branch"]), ada.git(&["config", "--local", "--list"])]
    };
    let before = look(&ada);
    // Looking may write it.
    let index = fs::read(ada.path.join(".git/index")).unwrap();
    bob.memories.remember("b1", "x");
    bob.sync();
    ada.memories.remember("a1", "x");
    ada.sync();
    ada.memories.remember("a2", "y");
    ada.sync();
    assert_eq!(ada.memories.ids(), ["a1", "a2", "b1"]);
    assert_eq!(fs::read(ada.path.join(".git/index")).unwrap(), index);
    assert_eq!(look(&ada), before);
    assert_eq!(fs::read_to_string(ada.path.join(".git/FETCH_HEAD")).unwrap(), "mine");
    assert!(!ada.path.join(".git/shallow").exists());
    assert!(!ada.path.join(".git/butlerd/sync.git").exists());
    let below = fs::read_dir(ada.path.join(".git/butlerd")).unwrap().map(|e| e.unwrap().file_name());
    let below: BTreeSet<_> = below.map(|name| name.into_string().unwrap()).collect();
    assert_eq!(below, ["project.json", "sync.json", "sync.lock"].map(str::to_owned).into());
    // In a worktree, and by a way that only the repository's settings know.
    ada.git(&["worktree", "add", "-q", "-b", "side", "../side"]);
    ada.git(&["config", "url.../origin.git.insteadOf", "short:api"]);
    ada.git(&["remote", "set-url", "origin", "short:api"]);
    ada.memories.remember("a3", "z");
    let side = ProjectPlace::of(&path.join("side"), None).unwrap();
    assert!(push(&side, &mut ada.memories, false).unwrap().pushed);
    assert_eq!(file_of(&path, &ada).count, 4);
}

#[test]
fn at_once_nothing_is_lost() {
    const ROUNDS: usize = 20;
    let (_dir, path) = origin();
    let machines = ["ada", "bob"].map(|user| machine(&path, user));
    let run = |mut machine: Machine, user: &'static str| {
        std::thread::spawn(move || {
            for n in 0..ROUNDS {
                machine.memories.remember(&format!("{user}-{n}"), "kept");
                machine.memories.remember(&format!("{user}-{n}-gone"), "forgotten");
                machine.sync();
                machine.memories.forget(&format!("{user}-{n}-gone"));
            }
            machine.sync();
            machine
        })
    };
    let [ada, bob] = machines;
    let (ada, bob) = (run(ada, "ada"), run(bob, "bob"));
    let (mut ada, mut bob) = (ada.join().unwrap(), bob.join().unwrap());
    ada.sync();
    bob.sync();
    ada.sync();
    let wanted: BTreeSet<String> =
        ["ada", "bob"].iter().flat_map(|user| (0..ROUNDS).map(move |n| format!("{user}-{n}"))).collect();
    for (machine, name) in [(&ada, "ada"), (&bob, "bob")] {
        let ids: BTreeSet<String> = machine.memories.ids().into_iter().map(str::to_owned).collect();
        assert_eq!(ids, wanted, "{name}");
        assert_eq!(machine.memories.deleted.len(), 2 * ROUNDS, "{name}");
    }
}

#[test]
fn what_is_forgotten_stays_forgotten_whoever_comes_first() {
    let (_dir, path) = origin();
    let (mut ada, mut bob) = (machine(&path, "ada"), machine(&path, "bob"));
    ada.memories.remember("a1", "x");
    ada.memories.remember("a2", "y");
    ada.sync();
    bob.sync();
    bob.memories.forget("a1");
    bob.sync();
    // Carol's first file to read is ada's, which has it still.
    let mut carol = machine(&path, "carol");
    let report = carol.sync();
    assert_eq!((carol.memories.ids(), report.imported), (vec!["a2"], 1));
    assert_eq!(ada.sync().deleted, 1);
    for machine in [&mut ada, &mut bob, &mut carol] {
        machine.sync();
        assert_eq!(machine.memories.ids(), ["a2"]);
    }
    assert_eq!(file_of(&path, &ada).deleted, ["a1"]);
}

#[test]
fn a_broken_file_stops_nobody_else() {
    let (_dir, path) = origin();
    let (mut ada, mut bob, mut eve) = (machine(&path, "ada"), machine(&path, "bob"), machine(&path, "eve"));
    for (machine, id) in [(&mut ada, "a1"), (&mut bob, "b1"), (&mut eve, "e1")] {
        machine.memories.remember(id, id);
        machine.push().unwrap();
    }
    // Somebody's hand breaks bob's file.
    let hand = path.join("hand");
    git(&path, &["clone", "-q", "-b", BRANCH, "origin.git", "hand"]);
    let file = format!("{}/memories.json", bob.identity());
    let good = fs::read_to_string(hand.join(&file)).unwrap();
    let put = |text: &str| {
        fs::write(hand.join(&file), text).unwrap();
        git(&hand, &["-c", "user.name=x", "-c", "user.email=x", "commit", "-q", "-a", "-m", "by hand"]);
        git(&hand, &["push", "-q", "origin", BRANCH]);
    };
    put(&good[..good.len() / 2]);
    let mut carol = machine(&path, "carol");
    carol.memories.refused = Some("e1".to_owned());
    let report = carol.pull();
    assert_eq!(carol.memories.ids(), ["a1"]);
    let lines = report.lines.join("\n");
    assert!(lines.contains(&format!("{}: its file can't be read", bob.identity())), "{lines}");
    assert!(lines.contains(&format!("{}: its memories were refused: no", eve.identity())), "{lines}");
    // It is not taken for read, though the branch stays as it is.
    carol.memories.refused = None;
    carol.pull();
    assert_eq!(carol.memories.ids(), ["a1", "e1"]);
    // Whose file it is puts it right.
    bob.memories.remember("b2", "b2");
    bob.push().unwrap();
    carol.pull();
    assert_eq!(carol.memories.ids(), ["a1", "b1", "b2", "e1"]);
    assert_eq!(carol.pull().lines, ["Up to date."]);
}

#[test]
fn one_source_alone_is_taken_in_and_the_others_later() {
    let (_dir, path) = origin();
    let (mut ada, mut bob, mut carol) = (machine(&path, "ada"), machine(&path, "bob"), machine(&path, "carol"));
    for (machine, id) in [(&mut ada, "a1"), (&mut bob, "b1")] {
        machine.memories.remember(id, id);
        machine.push().unwrap();
    }
    let place = carol.place();
    pull(&place, &mut carol.memories, Some(&bob.identity()), false).unwrap();
    assert_eq!(carol.memories.ids(), ["b1"]);
    let report = pull(&place, &mut carol.memories, Some("nobody/nowhere"), false).unwrap();
    assert_eq!(report.lines[0], "No other sources found.");
    assert!(report.lines[1].contains(&ada.identity()), "{:?}", report.lines);
    carol.pull();
    assert_eq!(carol.memories.ids(), ["a1", "b1"]);
}

#[test]
fn secrets_stay() {
    let (_dir, path) = origin();
    let mut ada = machine(&path, "ada");
    ada.memories.remember("a1", "the staging password = swordfish");
    assert_eq!(ada.push().unwrap().lines[0], "Nothing to push.");
    ada.memories.remember("a2", "deploys need a tag");
    let report = ada.push().unwrap();
    assert!(report.lines[1].starts_with("1 memory ") && report.lines[1].ends_with(": a1"), "{:?}", report.lines);
    let ids: Vec<String> = file_of(&path, &ada).records.into_iter().map(|record| record.id).collect();
    assert_eq!(ids, ["a2"]);
    let objects = of_origin(&path, &["log", "-p", "--all"]);
    assert!(objects.contains("deploys need a tag") && !objects.contains("swordfish"));
    assert_eq!(ada.memories.ids(), ["a1", "a2"]);
}

#[test]
fn a_store_that_lost_its_memories_does_not_push_that() {
    let (_dir, path) = origin();
    let mut ada = machine(&path, "ada");
    for n in 0..30 {
        ada.memories.remember(&format!("a{n:02}"), "x");
    }
    ada.push().unwrap();
    let all = std::mem::take(&mut ada.memories.records);
    let error = ada.push().unwrap_err();
    assert!(matches!(error, SyncError::Shrinks { there: 30, here: 0, .. }), "{error}");
    let mut bob = machine(&path, "bob");
    bob.memories.remember("b1", "x");
    bob.push().unwrap();
    // What others have comes in nevertheless.
    let error = sync(&ada.place(), &mut ada.memories, false).unwrap_err();
    let SyncError::Push { source, pulled } = &error else { panic!("{error}") };
    assert!(matches!(**source, SyncError::Shrinks { .. }) && error.to_string().contains("--force"), "{error}");
    assert_eq!((pulled.imported, ada.memories.ids()), (1, vec!["b1"]));
    assert_eq!(file_of(&path, &ada).count, 30);
    // Its own file brings them back.
    let (place, own) = (ada.place(), ada.identity());
    pull(&place, &mut ada.memories, Some(&own), false).unwrap();
    assert_eq!(ada.memories.records.len(), 31);
    // One by one forgotten they may go, and by force as well.
    for id in all.keys() {
        ada.memories.forget(id);
    }
    ada.push().unwrap();
    assert_eq!((file_of(&path, &ada).count, file_of(&path, &ada).deleted.len()), (1, 30));
    for n in 0..30 {
        ada.memories.remember(&format!("n{n:02}"), "x");
    }
    ada.push().unwrap();
    ada.memories.records.clear();
    assert!(push(&ada.place(), &mut ada.memories, true).unwrap().pushed);
    assert_eq!(file_of(&path, &ada).count, 0);
}

#[test]
fn what_others_forgot_takes_more_than_half_only_by_force() {
    let (_dir, path) = origin();
    let (mut ada, mut bob) = (machine(&path, "ada"), machine(&path, "bob"));
    for n in 0..20 {
        ada.memories.remember(&format!("a{n:02}"), "x");
    }
    ada.sync();
    bob.sync();
    // Half of them may go.
    for n in 0..10 {
        bob.memories.forget(&format!("a{n:02}"));
    }
    bob.memories.remember("b1", "y");
    bob.sync();
    let report = ada.pull();
    assert_eq!((report.deleted, report.kept, ada.memories.records.len()), (10, 0, 11), "{:?}", report.lines);
    // Seven of eleven may not; what is new comes in.
    for n in 10..17 {
        bob.memories.forget(&format!("a{n}"));
    }
    bob.memories.remember("b2", "z");
    bob.sync();
    for _ in 0..2 {
        let report = ada.pull();
        let told = format!("{}: forgets 7 of the ", bob.identity());
        assert!(report.lines[0].starts_with(&told) && report.lines[0].contains("--force"), "{:?}", report.lines);
        assert_eq!((report.deleted, report.kept, ada.memories.records.len()), (0, 7, 12), "{:?}", report.lines);
    }
    // Who is asked does it.
    let (place, from) = (ada.place(), bob.identity());
    let report = pull(&place, &mut ada.memories, Some(&from), true).unwrap();
    assert_eq!((report.deleted, report.kept, ada.memories.ids()), (7, 0, vec!["a17", "a18", "a19", "b1", "b2"]));
    ada.sync();
    assert_eq!(ada.pull().lines, ["Up to date."]);
}

#[test]
fn what_two_forgot_is_no_less_than_what_one_forgot() {
    let (_dir, path) = origin();
    let [mut ada, mut bob, mut carol] = ["ada", "bob", "carol"].map(|user| machine(&path, user));
    for machine in [&mut ada, &mut bob, &mut carol] {
        (0..20).for_each(|n| machine.memories.remember(&format!("a{n:02}"), "x"));
    }
    (0..8).for_each(|n| ada.memories.forget(&format!("a{n:02}")));
    (8..16).for_each(|n| bob.memories.forget(&format!("a{n:02}")));
    ada.push().unwrap();
    bob.push().unwrap();
    let report = carol.pull();
    assert_eq!((report.deleted, report.kept, carol.memories.records.len()), (8, 8, 12), "{:?}", report.lines);
    let place = carol.place();
    let report = sync(&place, &mut carol.memories, true).unwrap();
    assert_eq!((report.deleted, report.kept, carol.memories.records.len()), (8, 0, 4), "{:?}", report.lines);
}

#[test]
fn a_clone_of_the_same_name_does_not_take_more_than_half_away_by_a_push() {
    let (_dir, path) = origin();
    let (mut one, mut other) = (machine(&path, "ada"), machine(&path, "other"));
    other.git(&["config", "user.name", "ada"]);
    for n in 0..8 {
        one.memories.remember(&format!("a{n}"), "x");
    }
    one.push().unwrap();
    other.push().unwrap();
    assert_eq!(other.memories.records.len(), 8);
    for n in 0..7 {
        other.memories.forget(&format!("a{n}"));
    }
    other.push().unwrap();
    one.memories.remember("a8", "y");
    let error = one.push().unwrap_err();
    assert!(matches!(error, SyncError::Forgets { would: 7, here: 9, .. }), "{error}");
    assert_eq!((one.memories.records.len(), file_of(&path, &one).count), (9, 1));
    let (place, own) = (one.place(), one.identity());
    pull(&place, &mut one.memories, Some(&own), true).unwrap();
    assert!(one.push().unwrap().pushed);
    assert_eq!((one.memories.ids(), file_of(&path, &one).deleted.len()), (vec!["a7", "a8"], 7));
}

#[test]
fn a_machine_that_was_installed_anew_takes_its_own_back() {
    let (_dir, path) = origin();
    let mut old = machine(&path, "ada");
    old.memories.remember("a1", "x");
    old.memories.remember("a2", "y");
    old.memories.forget("a2");
    old.push().unwrap();
    let mut new = machine(&path, "new");
    new.git(&["config", "user.name", "ada"]);
    new.memories.remember("a3", "z");
    let report = new.push().unwrap();
    assert_eq!(report.lines[0], format!("{}: 1 new, 0 skipped", new.identity()));
    assert_eq!(new.memories.ids(), ["a1", "a3"]);
    let file = file_of(&path, &new);
    assert_eq!((file.count, file.deleted), (2, vec!["a2".to_owned()]));
    // And so do two clones of one name.
    old.memories.remember("a4", "w");
    old.push().unwrap();
    assert_eq!(old.memories.ids(), ["a1", "a3", "a4"]);
    assert_eq!(new.push().unwrap().lines, ["Nothing to push."], "its notes are its own");
}

#[test]
fn without_repository_or_origin_it_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let place = || ProjectPlace::of(dir.path(), None).unwrap();
    let error = push(&place(), &mut Memories::default(), false).unwrap_err();
    assert!(matches!(error, SyncError::NoRepository { .. }), "{error}");
    assert!(error.to_string().contains("not a git repository"), "{error}");
    git(dir.path(), &["init", "-q"]);
    for error in [
        push(&place(), &mut Memories::default(), false).unwrap_err(),
        pull(&place(), &mut Memories::default(), None, false).unwrap_err(),
        sync(&place(), &mut Memories::default(), false).unwrap_err(),
        status(&place()).unwrap_err(),
    ] {
        assert!(matches!(error, SyncError::NoOrigin { .. }), "{error}");
        assert!(error.to_string().contains("no git remote"), "{error}");
    }
    let nowhere = dir.path().join("nowhere.git");
    git(dir.path(), &["remote", "add", "origin", nowhere.to_str().unwrap()]);
    let error = pull(&place(), &mut Memories::default(), None, false).unwrap_err();
    assert!(matches!(error, SyncError::Git(_)), "{error}");
    let shown = status(&place()).unwrap();
    assert!(shown.unreachable.is_some() && !shown.branch, "{shown:?}");
}
