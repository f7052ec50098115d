//! The faults: how each is made and taken away, and what `/readyz` must say while it lasts.

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio_postgres::Client;

use super::SOON_IN_A_CROWD;
use super::ground::Ground;
use super::model_door::{ModelDoor, Mood};
use crate::inbound_database::{postmaster, server, signal};
use crate::soak::proc;
use crate::support::{Daemon, Household};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    DiskFull,
    Inodes,
    Descriptors,
    Memory,
    DatabaseStopped,
    DatabaseKilled,
    DatabaseReadOnly,
    LogClosed,
    SlowDisk,
    Clock,
    Dns,
    ModelDown,
    ModelSlow,
    ModelSilent,
    ChildrenKilled,
}

pub const KINDS: [Kind; 15] = [
    Kind::DiskFull,
    Kind::Inodes,
    Kind::Descriptors,
    Kind::Memory,
    Kind::DatabaseStopped,
    Kind::DatabaseKilled,
    Kind::DatabaseReadOnly,
    Kind::LogClosed,
    Kind::SlowDisk,
    Kind::Clock,
    Kind::Dns,
    Kind::ModelDown,
    Kind::ModelSlow,
    Kind::ModelSilent,
    Kind::ChildrenKilled,
];

/// What `/readyz` must say while a fault lasts.
enum Says {
    /// It is ready all the time.
    Ready,
    /// It is not, and names this.
    Not(&'static str),
    /// It is not, or it can't say anything.
    NotReady,
    /// It depends on the moment.
    Either,
}

impl Kind {
    fn says(self) -> Says {
        match self {
            Self::DiskFull | Self::Inodes => Says::Not("disk"),
            Self::DatabaseStopped | Self::DatabaseReadOnly => Says::Not("database"),
            // A daemon that has no descriptor takes no connection; one that may take no memory may end.
            Self::Descriptors | Self::Memory => Says::NotReady,
            Self::DatabaseKilled | Self::SlowDisk => Says::Either,
            _ => Says::Ready,
        }
    }

    /// Whether everything is well as soon as the fault is taken away: nothing has to recover first.
    pub fn is_over_at_once(self) -> bool {
        !matches!(self, Self::Memory | Self::DatabaseKilled | Self::SlowDisk)
    }
}

/// What `/readyz` told of a fault.
#[derive(Default)]
pub struct Told {
    /// How long it took to tell that it began, where it must.
    pub began: Option<Duration>,
    /// What it said that it must not have said, for people.
    pub wrong: String,
}

/// One fault to be played.
pub struct Round<'a> {
    pub household: &'a Household,
    pub daemon: &'a Daemon,
    pub door: &'a ModelDoor,
    pub ground: &'a Ground,
    pub lasts: Duration,
}

impl Round<'_> {
    /// Makes the fault, watches `/readyz` while it lasts, and takes it away.
    pub async fn play(&self, kind: Kind) -> Told {
        let filler = self.household.data().join("filler");
        match kind {
            Kind::DiskFull => {
                let to = format!("of={}", filler.display());
                let _ = Command::new("dd").args(["if=/dev/zero", "bs=1M"]).arg(to).output();
                let told = self.watch(kind).await;
                std::fs::remove_file(&filler).expect("the filler");
                told
            }
            Kind::Inodes => {
                std::fs::create_dir(&filler).expect("a directory");
                let full = |n: &u32| std::fs::write(filler.join(n.to_string()), "").is_ok();
                assert!((0..).take_while(full).count() > 0);
                let told = self.watch(kind).await;
                std::fs::remove_dir_all(&filler).expect("the files");
                told
            }
            Kind::Descriptors => {
                let before = limited(self.daemon.pid(), "nofile", "Max open files", "3");
                let told = self.watch(kind).await;
                limited(self.daemon.pid(), "nofile", "Max open files", &before);
                told
            }
            Kind::Memory => self.without_memory().await,
            Kind::DatabaseStopped => {
                let processes = server(postmaster(self.household));
                signal(&processes, libc::SIGSTOP);
                let told = self.watch(kind).await;
                signal(&processes, libc::SIGCONT);
                told
            }
            Kind::DatabaseKilled => {
                signal(&server(postmaster(self.household)), libc::SIGKILL);
                self.watch(kind).await
            }
            Kind::DatabaseReadOnly => {
                let client = self.household.owner().await;
                read_only(&client, "on").await;
                let told = self.watch(kind).await;
                read_only(&client, "off").await;
                told
            }
            Kind::LogClosed => {
                self.ground.close_log(true);
                let told = self.watch(kind).await;
                self.ground.close_log(false);
                told
            }
            Kind::SlowDisk => {
                let slow = self.repeatedly(Duration::from_millis(50), || async {
                    let processes = server(postmaster(self.household));
                    signal(&processes, libc::SIGSTOP);
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    signal(&processes, libc::SIGCONT);
                });
                tokio::join!(self.watch(kind), slow).0
            }
            Kind::Clock => {
                self.ground.move_clock(if self.lasts.as_millis().is_multiple_of(2) { "3600s" } else { "-3600s" });
                let told = self.watch(kind).await;
                self.ground.move_clock("0s");
                told
            }
            Kind::Dns => {
                self.ground.knows_model(false);
                // Who has a connection needs no name.
                self.door.turn(Mood::Well);
                let told = self.watch(kind).await;
                self.ground.knows_model(true);
                told
            }
            Kind::ModelDown | Kind::ModelSlow | Kind::ModelSilent => {
                self.door.turn(match kind {
                    Kind::ModelDown => Mood::Down,
                    Kind::ModelSlow => Mood::Slow,
                    _ => Mood::Silent,
                });
                let told = self.watch(kind).await;
                self.door.turn(Mood::Well);
                told
            }
            Kind::ChildrenKilled => {
                let kill = self.repeatedly(Duration::from_millis(200), || async {
                    signal(&self.children(), libc::SIGKILL);
                });
                tokio::join!(self.watch(kind), kill).0
            }
        }
    }

    /// The daemon may take a little more memory than it has, less than it wants to be left; the database next to none.
    async fn without_memory(&self) -> Told {
        let daemon = self.daemon.pid();
        let all = || server(postmaster(self.household)).into_iter().chain([daemon]);
        for pid in all() {
            let Some(size) = address_space(pid) else { continue };
            let more = if pid == daemon { 16 << 20 } else { 1 << 20 };
            limited(pid, "as", "Max address space", &(size + more).to_string());
        }
        let told = self.watch(Kind::Memory).await;
        // Those that came meanwhile have the limit of the one that made them.
        all().for_each(|pid| drop(limited(pid, "as", "Max address space", "unlimited")));
        told
    }

    /// Does something again and again while the fault lasts.
    async fn repeatedly<R: Future<Output = ()>>(&self, pause: Duration, mut what: impl FnMut() -> R) {
        let begun = Instant::now();
        while begun.elapsed() < self.lasts {
            what().await;
            tokio::time::sleep(pause).await;
        }
    }

    /// Looks at `/readyz` until the fault has lasted; longer, where it has not told it yet.
    async fn watch(&self, kind: Kind) -> Told {
        let (begun, mut told) = (Instant::now(), Told::default());
        let must_tell = matches!(kind.says(), Says::Not(_) | Says::NotReady);
        while begun.elapsed() < self.lasts
            || must_tell && told.began.is_none() && begun.elapsed() < self.lasts + SOON_IN_A_CROWD
        {
            let answer = self.ground.readiness(self.daemon).await;
            let right = match (kind.says(), &answer) {
                (Says::Either, _) | (Says::NotReady, Err(_)) => true,
                (Says::Ready, Ok((code, _))) => *code == 200,
                (Says::Not(reason), Ok((code, body))) => *code == 503 && names(body, reason),
                (Says::NotReady, Ok((code, _))) => *code == 503,
                (_, Err(_)) => false,
            };
            match (right, told.began, must_tell) {
                (true, None, true) => told.began = Some(begun.elapsed()),
                // Once it was told, and where nothing is to be told, each answer must be right.
                (false, Some(_), true) | (false, _, false) if told.wrong.len() < 300 => {
                    told.wrong += &format!("; after {:?} it said {answer:?}", begun.elapsed());
                }
                _ => {}
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        if must_tell && told.began.is_none() {
            told.wrong += "; it never told it";
        }
        told
    }

    /// The processes of sessions.
    fn children(&self) -> Vec<i32> {
        let (daemon, postmaster) = (self.daemon.pid(), postmaster(self.household));
        let own = proc::processes().filter(|p| p.parent == daemon && p.pid != postmaster);
        own.map(|p| p.pid).collect()
    }
}

/// How many bytes of addresses a process has; `None`: it is gone.
fn address_space(pid: i32) -> Option<u64> {
    let pages = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = pages.split_whitespace().next()?.parse().ok()?;
    (pages > 0).then_some(pages * 4096)
}

fn names(body: &str, reason: &str) -> bool {
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    body["reasons"].as_array().is_some_and(|reasons| reasons.iter().any(|r| r == reason))
}

/// Sets a soft limit of a process, and returns what it was.
fn limited(pid: i32, resource: &str, line: &str, soft: &str) -> String {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
    let before = limits.lines().find_map(|l| l.strip_prefix(line)).and_then(|l| l.split_whitespace().next());
    // As its own user: another one may not, even root, where a container keeps that right to itself.
    let Ok(owner) = std::fs::metadata(format!("/proc/{pid}")) else { return "unlimited".to_owned() };
    let set = Command::new("prlimit")
        .args(["--pid", &pid.to_string(), &format!("--{resource}={soft}:")])
        .uid(owner.uid())
        .gid(owner.gid())
        .output()
        .expect("prlimit");
    // A process may go meanwhile.
    let why = String::from_utf8_lossy(&set.stderr);
    assert!(set.status.success() || address_space(pid).is_none(), "{pid}: {why}{limits}");
    before.unwrap_or("unlimited").to_owned()
}

async fn read_only(client: &Client, on: &str) {
    let sql = format!("ALTER SYSTEM SET default_transaction_read_only = {on}");
    // The one that takes it away must be able to write.
    client.batch_execute("SET default_transaction_read_only = off").await.expect("a setting");
    client.batch_execute(&sql).await.expect("the setting");
    client.batch_execute("SELECT pg_reload_conf()").await.expect("a reload");
}
