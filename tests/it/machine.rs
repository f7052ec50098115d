//! The machine fails and the household does not: while the disk is full or read-only, files may not grow, or the
//! database hangs, no message is taken or tried, `/readyz` says why, and everything goes on by itself afterwards.
//!
//! Disks need the right to mount a file system; where that is missing each of their tests says that it left itself out.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio_postgres::Client;

use crate::inbound_database::{postmaster, server, signal};
use crate::support::tally::{counting_model, envelope, hand_in, insist, rule};
use crate::support::{Daemon, Household, eventually, http};
use crate::two_daemons::Shared;
use what_was_left_out::left_out;

/// How long `/readyz` may take to say what changed, on a machine that others use, too.
const SOON: Duration = Duration::from_secs(6);

/// A small file system of its own over a directory, until dropped.
pub struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    /// In memory.
    pub fn over(dir: &'a Path, options: &str) -> Option<Self> {
        std::fs::create_dir_all(dir).expect("the directory");
        ran(Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(dir)).then(|| Self(dir))
    }

    /// ext4 in a file of so many bytes, as on a disk: with a journal, and space that is given when it is written.
    fn ext4(dir: &'a Path, file: &Path, bytes: u64) -> Option<Self> {
        std::fs::create_dir_all(dir).expect("the directory");
        std::fs::File::create(file).and_then(|new| new.set_len(bytes)).expect("the file");
        // Nothing is kept for root: the database runs as another user.
        let made = ran(Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0"]).arg(file));
        (made && ran(Command::new("mount").args(["-o", "loop"]).args([file, dir]))).then(|| Self(dir))
    }

    /// Mounts it again. It refuses to be read-only while a file of it is open to be written.
    fn again(&self, options: &str) -> Result<(), String> {
        let how = format!("remount,{options}");
        let done = Command::new("mount").args(["-o", &how]).arg(self.0).output().expect("mount runs");
        if done.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&done.stderr).into_owned()) }
    }
}

/// Whether that worked. Where it did not, the test that needs it is left out.
fn ran(command: &mut Command) -> bool {
    let program = command.get_program().to_string_lossy().into_owned();
    match command.output() {
        Ok(done) if done.status.success() => return true,
        Ok(done) => left_out("machine", &format!("{program}: {}", String::from_utf8_lossy(&done.stderr).trim())),
        Err(e) => left_out("machine", &format!("{program} can't be run: {e}")),
    }
    false
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
    done_once(&household.owner().await, messages).await;
}

async fn done_once(client: &Client, messages: i64) {
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
    fill(&household).await;
    drop(disk);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_with_a_journal_is_waited_out() {
    let model = counting_model(0).await;
    let household = Household::few_with_model(&model).with_tally(2);
    let (data, file) = (household.data(), household.path().join("disk"));
    let Some(disk) = SmallDisk::ext4(&data, &file, 600 << 20) else { return };
    fill(&household).await;
    drop(disk);
}

/// Runs the household on its small disk, which gets full and has room again.
async fn fill(household: &Household) {
    let data = household.data();
    let mut daemon = household.start().await;
    rule(&household.owner().await, "count: ", "tally").await;
    insist(&data, &envelope("before", "chat", "count: before", "interactive")).await;
    turns(&daemon, None).await;
    let filler = data.join("filler");
    let _ = Command::new("dd").args(["if=/dev/zero", "bs=1M"]).arg(format!("of={}", filler.display())).output();
    turns(&daemon, Some("disk")).await;
    refused(household, "MiB left").await;
    std::fs::remove_file(&filler).expect("the filler");
    turns(&daemon, None).await;
    insist(&data, &envelope("after", "chat", "count: after", "interactive")).await;
    all_done(household, 2).await;
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
}

/// The database is elsewhere: what it has open to be written would keep the disk from becoming read-only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_disk_is_waited_out() {
    let (shared, model) = (Shared::start().await, counting_model(0).await);
    let household = Household::few_with_model(&model).with_tally(2).env("BUTLERD_DATABASE__URL", &shared.url);
    let data = household.data();
    let Some(disk) = SmallDisk::over(&data, "size=400m,mode=0755") else { return };
    let mut daemon = household.start().await;
    let client = shared.client().await;
    rule(&client, "count: ", "tally").await;
    insist(&data, &envelope("before", "chat", "count: before", "interactive")).await;
    ended(&client, 1).await;
    turns(&daemon, None).await;
    eventually("nobody writes", || async { disk.again("ro") }).await;
    turns(&daemon, Some("disk")).await;
    refused(&household, "is read-only").await;
    disk.again("rw").expect("it can be written again");
    turns(&daemon, None).await;
    insist(&data, &envelope("after", "chat", "count: after", "interactive")).await;
    ended(&client, 2).await;
    done_once(&client, 2).await;
    assert_eq!(daemon.stop_blocking(), 0);
    drop(disk);
}

/// Waits until so many messages are at their end, and so is what came of them.
async fn ended(client: &Client, messages: i64) {
    let sql = "SELECT count(*) FILTER (WHERE m.state = 'done'), count(*),
                      (SELECT count(*) FROM tally.counted), (SELECT count(*) FROM tally.sessions WHERE state IN ('queued', 'running'))
               FROM switchboard.message_inbox m";
    eventually("all messages are at their end", || async {
        let row = client.query_one(sql, &[]).await.map_err(|e| e.to_string())?;
        let seen: [i64; 4] = [row.get(0), row.get(1), row.get(2), row.get(3)];
        if seen == [messages, messages, messages, 0] { Ok(()) } else { Err(format!("{seen:?} of {messages}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_of_file_sizes_is_waited_out() {
    let model = counting_model(0).await;
    let household = Household::few_with_model(&model).with_tally(2);
    let mut daemon = household.start().await;
    rule(&household.owner().await, "count: ", "tally").await;
    insist(&household.data(), &envelope("before", "chat", "count: before", "interactive")).await;
    household.at_rest("before the limit").await;
    turns(&daemon, None).await;
    let before = soft_limit(daemon.pid(), "Max file size");
    // Of the daemon alone; its log, a file, can't be written either.
    limit(daemon.pid(), "fsize", "0");
    eventually("the next file that it writes shows it", || async {
        match readiness(&daemon).await {
            (503, reasons) if reasons == ["disk"] => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    refused(&household, "no file can be written").await;
    limit(daemon.pid(), "fsize", &before);
    turns(&daemon, None).await;
    insist(&household.data(), &envelope("after", "chat", "count: after", "interactive")).await;
    all_done(&household, 2).await;
    assert!(!daemon.ended());
    assert_eq!(daemon.stop_blocking(), 0);
}

/// A soft limit of a process, as its line in `/proc` begins with it.
fn soft_limit(pid: i32, line: &str) -> String {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).expect("its limits");
    let words = limits.lines().find_map(|l| l.strip_prefix(line)).expect("the limit's line").split_whitespace().next();
    words.expect("a value").to_owned()
}

/// Sets a soft limit of a process.
fn limit(pid: i32, name: &str, soft: &str) {
    let done = Command::new("prlimit").args(["--pid", &pid.to_string(), &format!("--{name}={soft}:")]).status();
    assert!(done.expect("prlimit").success(), "{name}");
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
async fn a_daemon_that_stood_still_calls_no_silence_a_fault() {
    for _ in 0..5 {
        if stood_still().await {
            return;
        }
    }
    panic!("the machine is so busy that the database was silent for long each time");
}

/// Whether the daemon stood still before it could have called the database's silence a fault.
async fn stood_still() -> bool {
    let model = counting_model(0).await;
    let household = Household::few_with_model(&model).with_tally(2);
    let mut daemon = household.start().await;
    rule(&household.owner().await, "count: ", "tally").await;
    turns(&daemon, None).await;
    let (database, begun) = (server(postmaster(&household)), Instant::now());
    signal(&database, libc::SIGSTOP);
    // A probe of it is out, and nobody is there to hear its answer.
    turns(&daemon, Some("database")).await;
    daemon.signal(libc::SIGSTOP);
    let in_time = begun.elapsed() < Duration::from_secs(3);
    signal(&database, libc::SIGCONT);
    if !in_time {
        daemon.signal(libc::SIGCONT);
        return false;
    }
    // Time itself is what is waited for: more than makes a silence a fault.
    tokio::time::sleep(Duration::from_secs(6)).await;
    daemon.signal(libc::SIGCONT);
    daemon.ready().await;
    insist(&household.data(), &envelope("after", "chat", "count: after", "interactive")).await;
    all_done(&household, 1).await;
    let told = "SELECT count(*) FROM shared.notices WHERE kind = 'machine'";
    let told: i64 = household.owner().await.query_one(told, &[]).await.expect("notices").get(0);
    let log = daemon.log();
    assert!(told == 0 && !log.contains("no work is begun until that is over"), "{told} notices\n{log}");
    assert_eq!(daemon.stop_blocking(), 0);
    true
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_without_descriptors_says_so_and_goes_on() {
    let model = counting_model(0).await;
    let household = Household::few_with_model(&model).with_tally(2);
    let mut daemon = household.start().await;
    rule(&household.owner().await, "count: ", "tally").await;
    turns(&daemon, None).await;
    let before = soft_limit(daemon.pid(), "Max open files");
    // No descriptor above this is given out any more; those that are open stay.
    limit(daemon.pid(), "nofile", "3");
    daemon.logged(&["has no open file left"], 1).await;
    limit(daemon.pid(), "nofile", &before);
    turns(&daemon, None).await;
    insist(&household.data(), &envelope("after", "chat", "count: after", "interactive")).await;
    all_done(&household, 1).await;
    assert_eq!(daemon.stop_blocking(), 0);
}
