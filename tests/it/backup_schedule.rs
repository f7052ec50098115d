//! Backups that the daemon makes by itself: due by those that are there, whole, so many and no more, and missed when
//! missing.

use std::path::Path;

use serde_json::Value;

use crate::support::tally::died;
use crate::support::{Daemon, Household, eventually};

/// The names in a directory, sorted.
fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn backups(dir: &Path) -> Vec<String> {
    names(dir).into_iter().filter(|name| name.ends_with(".backup") && name.starts_with("butlerd-")).collect()
}

/// One that makes a backup so often; half as long again after the last one was begun, the next is missed.
fn few(every: &str) -> Household {
    Household::few().env("BUTLERD_BACKUP__EVERY", every).env("BUTLERD_BACKUP__KEEP", "2")
}

async fn status(household: &Household) -> Value {
    let (code, out, err) = tokio::task::block_in_place(|| household.cli(&["status", "--json"]));
    assert_eq!(code, 0, "{out}{err}");
    serde_json::from_str(&out).expect("JSON")
}

async fn made(daemon: &Daemon, dir: &Path, what: &str, enough: impl Fn(&[String]) -> bool) -> Vec<String> {
    eventually(what, || async {
        let backups = backups(dir);
        if enough(&backups) { Ok(backups) } else { Err(format!("{:?}\n{}", names(dir), daemon.log())) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_are_made_read_back_and_rotated() {
    let household = few("4s");
    let dir = household.data().join("backups");
    std::fs::create_dir_all(&dir).expect("the directory");
    std::fs::write(dir.join("mine.backup"), "not butlerd's").expect("a file");
    let mut daemon = household.start().await;
    let first = made(&daemon, &dir, "a first backup", |all| !all.is_empty()).await;
    made(&daemon, &dir, "the first one gone, and two others", |all| all.len() == 2 && !all.contains(&first[0])).await;
    // Where much else runs, one takes longer than the time after which the next is missed.
    eventually("the newest is told, and none is missed", || async {
        let told = status(&household).await;
        let fine = told["backup"]["newest"].is_string() && told["backup"]["overdue"] == false;
        if fine { Ok(()) } else { Err(format!("{told:#}")) }
    })
    .await;
    assert_eq!(daemon.stop_blocking(), 0);
    let left = backups(&dir);
    assert!((2..=3).contains(&left.len()) && names(&dir).contains(&"mine.backup".to_owned()), "{:?}", names(&dir));
    for name in &left {
        let file = dir.join(name);
        let (code, out, err) = household.cli(&["restore", file.to_str().unwrap(), "--dry-run", "--json"]);
        assert_eq!(code, 0, "{out}{err}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_was_not_read_back_is_none() {
    for point in ["backup.before_rename", "backup.unread"] {
        let household = few("2s").env("BUTLERD_CRASH_POINT", point);
        let dir = household.data().join("backups");
        let mut daemon = household.start().await;
        died(&mut daemon, point).await;
        assert_eq!(backups(&dir), Vec::<String>::new(), "{point}");
        let half = names(&dir);
        assert_eq!(half.len(), 1, "{half:?}");
        let household = household.env("BUTLERD_CRASH_POINT", "");
        let mut daemon = household.start().await;
        made(&daemon, &dir, "a backup", |all| !all.is_empty()).await;
        assert!(!names(&dir).contains(&half[0]), "{:?}", names(&dir));
        assert_eq!(daemon.stop_blocking(), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_owner_is_told_that_they_are_missing_and_that_this_is_over() {
    // Where much else runs, making one takes seconds, and what took longer than this would still be missing.
    let household = few("8s");
    let dir = household.data().join("backups");
    std::fs::create_dir_all(household.data()).expect("the data directory");
    std::fs::write(&dir, "in the way").expect("a file in the way");
    let mut daemon = household.start().await;
    let told = async || {
        let sql = "SELECT told FROM shared.notices WHERE kind = 'backup_missing' ORDER BY seq";
        let rows = household.owner().await.query(sql, &[]).await.expect("notices");
        rows.iter().map(|row| row.get(0)).collect::<Vec<String>>()
    };
    eventually("the owner is told", || async {
        match told().await.as_slice() {
            [one] if one.starts_with("A backup is missing") => Ok(()),
            other => Err(format!("{other:?}\n{}", daemon.log())),
        }
    })
    .await;
    let shown = status(&household).await;
    let why = shown["backup"]["error"].as_str().unwrap_or_default();
    assert!(shown["backup"]["overdue"] == true && why.contains("can't be used"), "{shown:#}");
    let (_, out, _) = tokio::task::block_in_place(|| household.cli(&["status"]));
    assert!(out.contains("a backup is missing, there is no good one"), "{out}");
    std::fs::remove_file(&dir).expect("the file in the way");
    eventually("it is over", || async {
        match told().await.as_slice() {
            // The next one may be late again.
            [_, two, ..] if two == "Backups are made again" => Ok(()),
            other => Err(format!("{other:?}\n{}", daemon.log())),
        }
    })
    .await;
    assert_eq!(daemon.stop_blocking(), 0);
}
