//! Rounds of a random fault while messages come in all the time: nothing that was accepted is lost, dead or misrouted
//! because of it, and nobody lends a hand.
//!
//! `CHAOS_ROUNDS` (else each fault once), `CHAOS_SECONDS` (the longest fault; else 2) and `CHAOS_SEED` make more of it; each
//! round tells its fault with `--nocapture`. A slow disk is played by stopping the database's processes half of the time.

mod model_door;

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio_postgres::Client;

use crate::inbound_database::{postmaster, server, signal};
use crate::machine::{SmallDisk, turns};
use crate::soak::proc;
use crate::support::tally::{counting_model, envelope, hand_in, random, rule};
use crate::support::{Daemon, Household, eventually, http};
use model_door::{ModelDoor, Mood};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    DiskFull,
    Inodes,
    Descriptors,
    DatabaseStopped,
    DatabaseKilled,
    DatabaseReadOnly,
    DatabaseSlow,
    ModelDown,
    ModelSlow,
    ModelSilent,
    ChildrenKilled,
}

const KINDS: [Kind; 11] = [
    Kind::DiskFull,
    Kind::Inodes,
    Kind::Descriptors,
    Kind::DatabaseStopped,
    Kind::DatabaseKilled,
    Kind::DatabaseReadOnly,
    Kind::DatabaseSlow,
    Kind::ModelDown,
    Kind::ModelSlow,
    Kind::ModelSilent,
    Kind::ChildrenKilled,
];

impl Kind {
    /// What `/readyz` says while it lasts, where it must.
    fn reason(self) -> Option<&'static str> {
        match self {
            Self::DiskFull | Self::Inodes => Some("disk"),
            Self::DatabaseStopped | Self::DatabaseReadOnly => Some("database"),
            _ => None,
        }
    }
}

struct Round<'a> {
    household: &'a Household,
    daemon: &'a Daemon,
    door: &'a ModelDoor,
    files: PathBuf,
    lasts: Duration,
}

impl Round<'_> {
    /// Makes the fault, waits, and takes it away. Returns how long `/readyz` took to tell that it began.
    async fn play(&self, kind: Kind) -> Option<Duration> {
        match kind {
            Kind::DiskFull => {
                let to = format!("of={}", self.files.display());
                let _ = Command::new("dd").args(["if=/dev/zero", "bs=1M"]).arg(to).output();
                let told = self.last(kind).await;
                std::fs::remove_file(&self.files).expect("the filler");
                told
            }
            Kind::Inodes => {
                std::fs::create_dir(&self.files).expect("a directory");
                let full = |n: &u32| std::fs::write(self.files.join(n.to_string()), "").is_ok();
                assert!((0..).take_while(full).count() > 0);
                let told = self.last(kind).await;
                std::fs::remove_dir_all(&self.files).expect("the files");
                told
            }
            Kind::Descriptors => {
                let before = self.open_files("3");
                let told = self.last(kind).await;
                self.open_files(&before);
                told
            }
            Kind::DatabaseStopped => {
                let processes = server(postmaster(self.household));
                signal(&processes, libc::SIGSTOP);
                let told = self.last(kind).await;
                signal(&processes, libc::SIGCONT);
                told
            }
            Kind::DatabaseKilled => {
                signal(&server(postmaster(self.household)), libc::SIGKILL);
                self.last(kind).await
            }
            Kind::DatabaseReadOnly => {
                let client = self.household.owner().await;
                self.read_only(&client, "on").await;
                let told = self.last(kind).await;
                self.read_only(&client, "off").await;
                told
            }
            Kind::DatabaseSlow => {
                let begun = Instant::now();
                while begun.elapsed() < self.lasts {
                    let processes = server(postmaster(self.household));
                    signal(&processes, libc::SIGSTOP);
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    signal(&processes, libc::SIGCONT);
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                None
            }
            Kind::ModelDown | Kind::ModelSlow | Kind::ModelSilent => {
                self.door.turn(match kind {
                    Kind::ModelDown => Mood::Down,
                    Kind::ModelSlow => Mood::Slow,
                    _ => Mood::Silent,
                });
                let told = self.last(kind).await;
                self.door.turn(Mood::Well);
                told
            }
            Kind::ChildrenKilled => {
                let begun = Instant::now();
                while begun.elapsed() < self.lasts {
                    signal(&self.children(), libc::SIGKILL);
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
                None
            }
        }
    }

    /// Waits for as long as the fault lasts; first for `/readyz` to tell it.
    async fn last(&self, kind: Kind) -> Option<Duration> {
        let begun = Instant::now();
        let told = match kind.reason() {
            Some(reason) => {
                turns(self.daemon, Some(reason)).await;
                Some(begun.elapsed())
            }
            None => None,
        };
        tokio::time::sleep(self.lasts.saturating_sub(begun.elapsed())).await;
        told
    }

    /// The processes of sessions.
    fn children(&self) -> Vec<i32> {
        let (daemon, postmaster) = (self.daemon.pid(), postmaster(self.household));
        let own = proc::processes().filter(|p| p.parent == daemon && p.pid != postmaster);
        own.map(|p| p.pid).collect()
    }

    /// Sets how many files the daemon may have open, and returns how many it might.
    fn open_files(&self, soft: &str) -> String {
        let pid = self.daemon.pid();
        let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).expect("its limits");
        let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("open files");
        let before = line.split_whitespace().nth(3).expect("a number").to_owned();
        let set = Command::new("prlimit").args(["--pid", &pid.to_string(), &format!("--nofile={soft}:")]).status();
        assert!(set.expect("prlimit").success());
        before
    }

    async fn read_only(&self, client: &Client, on: &str) {
        let sql = format!("ALTER SYSTEM SET default_transaction_read_only = {on}");
        // The one that takes it away must be able to write.
        client.batch_execute("SET default_transaction_read_only = off").await.expect("a setting");
        client.batch_execute(&sql).await.expect("the setting");
        client.batch_execute("SELECT pg_reload_conf()").await.expect("a reload");
    }
}

/// Hands in messages until told to stop; those that were accepted.
async fn send(household_data: PathBuf, stop: Arc<AtomicBool>) -> Vec<String> {
    let (client, mut accepted) = (http(), Vec::new());
    for n in 0.. {
        if stop.load(Ordering::Acquire) {
            break;
        }
        // The one by the rule, the other by what the model says.
        let (mark, verb) = (format!("m-{n}"), ["count", "think"][n % 2]);
        let thread = format!("chat-{}", n % 5);
        let message = envelope(&mark, &thread, &format!("{verb}: {mark}"), "interactive");
        if let Some((202, _, answer)) = hand_in(&household_data, &client, &message).await {
            assert!(answer["request_id"].is_string(), "{answer}");
            accepted.push(mark);
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    accepted
}

/// Each accepted message by its id: at its end, with its butler, counted once; or not, where its model was told why.
async fn all_ended(household: &Household, accepted: &[String], what: &str) {
    let client = household.owner().await;
    let open = "SELECT count(*) FROM switchboard.message_inbox WHERE state IN ('accepted', 'processing')";
    let begun = Instant::now();
    while client.query_one(open, &[]).await.expect("the messages").get::<_, i64>(0) > 0 {
        assert!(begun.elapsed() < Duration::from_secs(300), "{what}: messages are not at their end");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let sql = "SELECT m.state, m.last_error, (SELECT count(*) FROM tally.counted c WHERE c.mark = m.external_event_id),
                      EXISTS (SELECT 1 FROM tally.sessions s JOIN tally.tool_calls c ON c.session_id = s.id
                              WHERE s.request_id = m.request_id AND c.outcome <> 'ok'),
                      (SELECT string_agg(DISTINCT s.butler, ' ') FROM switchboard.route_segments s
                       WHERE s.request_id = m.request_id AND s.state NOT IN ('draft', 'rerouted')),
                      EXISTS (SELECT 1 FROM tally.sessions s WHERE s.request_id = m.request_id AND s.context #> '{context,cut_off}' IS NOT NULL)
               FROM switchboard.message_inbox m WHERE m.external_event_id = $1";
    let mut closed = 0;
    for mark in accepted {
        let row = client.query_opt(sql, &[mark]).await.expect("a message");
        let row = row.unwrap_or_else(|| panic!("{what}: {mark} was accepted and is lost"));
        let (state, error): (String, Option<String>) = (row.get(0), row.get(1));
        let (counted, failed, butler): (i64, bool, Option<String>) = (row.get(2), row.get(3), row.get(4));
        closed += usize::from(row.get::<_, bool>(5));
        assert_eq!(butler.as_deref(), Some("tally"), "{what}: {mark} is {state}, {error:?}");
        let well = match (state.as_str(), counted) {
            ("done", 1) => true,
            ("done", 0) => failed,
            _ => false,
        };
        assert!(well, "{what}: {mark} is {state}, counted {counted} times, a failed call: {failed}, {error:?}");
    }
    println!("{what}: {} accepted, all at their end; {closed} were told the end of by another session", accepted.len());
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_of_all_kinds_are_waited_out() {
    let rounds = number("CHAOS_ROUNDS", KINDS.len() as u64);
    let (longest, seed) = (number("CHAOS_SECONDS", 2), number("CHAOS_SEED", 17));
    let model = counting_model(0).await;
    let door = ModelDoor::before(&model.base_url()).await;
    let household =
        Household::few_with_model(&model).with_tally(2).env("BUTLERD_SPAWNER__ENDPOINTS__ANTHROPIC", &door.url());
    let data = household.data();
    let Some(disk) = SmallDisk::over(&data, "size=700m,nr_inodes=15000,mode=0755") else { return };
    let mut daemon = household.start().await;
    rule(&household.owner().await, "count: ", "tally").await;
    turns(&daemon, None).await;
    let stop = Arc::new(AtomicBool::new(false));
    let sending = tokio::spawn(send(data.clone(), stop.clone()));
    println!("seed {seed}");
    for n in 0..rounds {
        let chance = random(seed.wrapping_add(n));
        // Each kind once first, in an order of chance.
        let at = usize::try_from(if rounds == KINDS.len() as u64 { n } else { chance % KINDS.len() as u64 }).unwrap();
        let kind = KINDS[at];
        let lasts = Duration::from_millis(1000 + chance / 16 % (longest * 1000));
        let round = Round { household: &household, daemon: &daemon, door: &door, files: data.join("filler"), lasts };
        let told = round.play(kind).await;
        let begun = Instant::now();
        eventually("it is ready again", || async {
            match daemon.get("/readyz").await {
                (200, _) => Ok(()),
                (code, body) => Err(format!("{kind:?}: {code} {body}")),
            }
        })
        .await;
        println!("round {n}: {kind:?} for {lasts:?}, told after {told:?}, over after {:?}", begun.elapsed());
        assert!(!daemon.ended(), "{kind:?}: {}", daemon.log());
    }
    stop.store(true, Ordering::Release);
    let accepted = sending.await.expect("the sender");
    assert!(accepted.len() > KINDS.len(), "{accepted:?}");
    all_ended(&household, &accepted, "at the end").await;
    assert_eq!(daemon.stop_blocking(), 0);
    drop(disk);
}
