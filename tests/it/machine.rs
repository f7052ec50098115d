//! The machine fails and the household does not: while the disk is full or the database hangs no message is taken or
//! tried, `/readyz` says why at once, and everything goes on by itself afterwards.
//!
//! Needs the right to mount a file system; where that is missing the disk's part says that it left itself out.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::inbound_database::{postmaster, server, signal};
use crate::support::tally::{counting_model, envelope, hand_in, insist, rule};
use crate::support::{Daemon, Household, eventually, http};
use what_was_left_out::left_out;

/// How long `/readyz` may take to say what changed, on a machine that others use, too.
const SOON: Duration = Duration::from_secs(6);

/// A small file system of its own over a directory, until dropped.
pub struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    pub fn over(dir: &'a Path, options: &str) -> Option<Self> {
        std::fs::create_dir_all(dir).expect("the directory");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(dir).output();
        match mounted {
            Ok(done) if done.status.success() => Some(Self(dir)),
            Ok(done) => {
                left_out("machine", &format!("no mount: {}", String::from_utf8_lossy(&done.stderr).trim()));
                None
            }
            Err(e) => {
                left_out("machine", &format!("there is no `mount`: {e}"));
                None
            }
        }
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        // Lazily: something of the daemon may still be on its way out.
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

async fn readiness(daemon: &Daemon) -> (u16, Vec<String>) {
    let begun = Instant::now();
    let (code, body) = daemon.get("/readyz").await;
    assert!(begun.elapsed() < Duration::from_secs(2), "it answered after {:?}", begun.elapsed());
    let body: Value = serde_json::from_str(&body).expect("JSON");
    let reasons = body["reasons"].as_array().expect("reasons").iter();
    (code, reasons.filter_map(|reason| reason.as_str().map(str::to_owned)).collect())
}

/// Waits until `/readyz` gives this reason alone, or none.
pub async fn turns(daemon: &Daemon, reason: Option<&str>) {
    let (wanted, begun) = (if reason.is_some() { 503 } else { 200 }, Instant::now());
    eventually("readyz tells it", || async {
        let (code, reasons) = readiness(daemon).await;
        let tells = code == wanted && reasons.iter().map(String::as_str).eq(reason);
        if tells { Ok(()) } else { Err(format!("{code} {reasons:?}")) }
    })
    .await;
    assert!(begun.elapsed() < SOON, "it took {:?}", begun.elapsed());
}

async fn refused(household: &Household, why: &str) {
    let message = envelope("meanwhile", "meanwhile", "count: meanwhile", "interactive");
    let (status, after, answer) = hand_in(&household.data(), &http(), &message).await.expect("an answer");
    assert_eq!((status, after.as_deref()), (503, Some("2")), "{answer}");
    assert!(answer["error"].as_str().is_some_and(|error| error.contains(why)), "{answer}");
}

/// Each of these messages is done, was with the butler of the rule, and counted no try that the fault took.
async fn all_done(household: &Household, messages: i64) {
    household.at_rest("after the fault").await;
    let client = household.owner().await;
    let sql = "SELECT count(*) FILTER (WHERE m.state = 'done'), count(*),
                      (SELECT count(*) FROM switchboard.route_segments s WHERE s.butler <> 'tally'),
                      string_agg(DISTINCT m.last_error, '; '), max(m.attempts), (SELECT max(attempts) FROM tally.route_inbox)
               FROM switchboard.message_inbox m";
    let row = client.query_one(sql, &[]).await.expect("the messages");
    let (done, all, elsewhere): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
    let errors: Option<String> = row.get(3);
    assert_eq!((done, all, elsewhere), (messages, messages, 0), "{errors:?}");
    let tries: (i32, i32) = (row.get(4), row.get(5));
    assert_eq!(tries, (1, 1), "{errors:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_waited_out() {
    let model = counting_model(0).await;
    let household = Household::few_with_model(&model).with_tally(2);
    let data = household.data();
    let Some(disk) = SmallDisk::over(&data, "size=400m,mode=0755") else { return };
    let mut daemon = household.start().await;
    rule(&household.owner().await, "count: ", "tally").await;
    insist(&data, &envelope("before", "chat", "count: before", "interactive")).await;
    turns(&daemon, None).await;
    let filler = data.join("filler");
    let _ = Command::new("dd").args(["if=/dev/zero", "bs=1M"]).arg(format!("of={}", filler.display())).output();
    turns(&daemon, Some("disk")).await;
    refused(&household, "MiB left").await;
    std::fs::remove_file(&filler).expect("the filler");
    turns(&daemon, None).await;
    insist(&data, &envelope("after", "chat", "count: after", "interactive")).await;
    all_done(&household, 2).await;
    eventually("the owner is told that it began and that it is over", || async {
        let told = household
            .owner()
            .await
            .query("SELECT told FROM shared.notices WHERE kind = 'machine' ORDER BY happened_at", &[])
            .await;
        let told: Vec<String> = told.expect("notices").iter().map(|row| row.get(0)).collect();
        match told.as_slice() {
            [began, over] if began.contains("MiB left") && over.starts_with("This is over after") => Ok(()),
            _ => Err(format!("{told:?}")),
        }
    })
    .await;
    assert!(!daemon.ended());
    assert_eq!(daemon.stop_blocking(), 0);
    drop(disk);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_without_inodes_is_waited_out() {
    let model = counting_model(0).await;
    let household = Household::few_with_model(&model).with_tally(2);
    let data = household.data();
    let Some(disk) = SmallDisk::over(&data, "size=600m,nr_inodes=12000,mode=0755") else { return };
    let mut daemon = household.start().await;
    rule(&household.owner().await, "count: ", "tally").await;
    let many = data.join("many");
    std::fs::create_dir(&many).expect("a directory");
    let taken = (0..).take_while(|n: &u32| std::fs::write(many.join(n.to_string()), "").is_ok()).count();
    assert!(taken > 0);
    turns(&daemon, Some("disk")).await;
    refused(&household, "inodes").await;
    std::fs::remove_dir_all(&many).expect("the files");
    turns(&daemon, None).await;
    insist(&data, &envelope("after", "chat", "count: after", "interactive")).await;
    all_done(&household, 1).await;
    assert_eq!(daemon.stop_blocking(), 0);
    drop(disk);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_hangs_is_said_to() {
    let model = counting_model(0).await;
    let household = Household::few_with_model(&model).with_tally(2);
    let mut daemon = household.start().await;
    rule(&household.owner().await, "count: ", "tally").await;
    turns(&daemon, None).await;
    let processes = server(postmaster(&household));
    signal(&processes, libc::SIGSTOP);
    turns(&daemon, Some("database")).await;
    daemon.logged(&["no work is begun until that is over"], 1).await;
    refused(&household, "the database has not answered").await;
    signal(&processes, libc::SIGCONT);
    turns(&daemon, None).await;
    insist(&household.data(), &envelope("after", "chat", "count: after", "interactive")).await;
    all_done(&household, 1).await;
    assert_eq!(daemon.stop_blocking(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_without_descriptors_says_so_and_goes_on() {
    let model = counting_model(0).await;
    let household = Household::few_with_model(&model).with_tally(2);
    let mut daemon = household.start().await;
    rule(&household.owner().await, "count: ", "tally").await;
    turns(&daemon, None).await;
    let pid = daemon.pid();
    let limit = |soft: Option<u64>| {
        let soft = soft.map_or(String::new(), |n| n.to_string());
        let done = Command::new("prlimit").args(["--pid", &pid.to_string(), &format!("--nofile={soft}:")]).status();
        assert!(done.expect("prlimit").success());
    };
    let before = std::fs::read_to_string(format!("/proc/{pid}/limits")).expect("its limits");
    let before = before.lines().find(|l| l.starts_with("Max open files")).expect("open files");
    let before: u64 = before.split_whitespace().nth(3).and_then(|n| n.parse().ok()).expect("a number");
    // No descriptor above this is given out any more; those that are open stay.
    limit(Some(3));
    daemon.logged(&["has no open file left"], 1).await;
    limit(Some(before));
    turns(&daemon, None).await;
    insist(&household.data(), &envelope("after", "chat", "count: after", "interactive")).await;
    all_done(&household, 1).await;
    assert_eq!(daemon.stop_blocking(), 0);
}
