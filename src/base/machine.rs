//! What the machine below the household can't do just now: one state for all that takes work, refuses it, or tells of
//! it.
//!
//! Whoever meets a failure that the machine may have caused calls [`Machine::ask`]; one task probes the machine and
//! says with [`Machine::tell`] what it found. Nobody guesses from the place where something failed.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;
use tokio::sync::{Notify, watch};

use super::task::lock;

/// What fails. The name of each is shown in `status` and `/readyz`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Fault {
    /// Files can't be written: no space, no inodes, a quota, a limit of size, read-only, or the device fails.
    Disk,
    /// No memory, or no more processes.
    Memory,
    /// No more open files.
    Descriptors,
    /// The database does not answer, or takes no writes.
    Database,
}

crate::named!(Fault);

impl Fault {
    /// The fault that an error of the operating system tells of; `None`: it is about the request, not the machine.
    pub fn of_io(error: &io::Error) -> Option<Self> {
        Some(match error.raw_os_error()? {
            libc::ENOSPC | libc::EDQUOT | libc::EFBIG | libc::EROFS | libc::EIO => Fault::Disk,
            libc::ENOMEM | libc::EAGAIN => Fault::Memory,
            libc::EMFILE | libc::ENFILE => Fault::Descriptors,
            _ => return None,
        })
    }
}

/// A fault that is there now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveFault {
    pub fault: Fault,
    pub since: Instant,
    /// A sentence without its full stop, for people.
    pub why: String,
}

/// How long the answer of a probe is waited for.
const ANSWER: Duration = Duration::from_secs(3);

/// The machine's state. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    lasting: Mutex<BTreeMap<Fault, (Instant, String)>>,
    /// When the last fault was seen.
    last: Mutex<Option<Instant>>,
    /// Somebody probes, so that asking has a point.
    probed: AtomicBool,
    asked: Notify,
    rounds: watch::Sender<u64>,
}

impl Machine {
    /// Whether work can be done.
    pub fn is_up(&self) -> bool {
        lock(&self.inner.lasting).is_empty()
    }

    /// What fails now.
    pub fn faults(&self) -> Vec<ActiveFault> {
        let lasting = lock(&self.inner.lasting);
        lasting
            .iter()
            .map(|(fault, (since, why))| ActiveFault { fault: *fault, since: *since, why: why.clone() })
            .collect()
    }

    /// What fails now, in one sentence without its full stop; `None`: nothing does.
    pub fn why(&self) -> Option<String> {
        let faults = self.faults();
        (!faults.is_empty()).then(|| faults.into_iter().map(|lasting| lasting.why).collect::<Vec<_>>().join("; "))
    }

    /// Has the machine probed now and says whether it failed at any time since `then`.
    pub async fn failed_since(&self, then: Instant) -> bool {
        if self.is_up() && self.inner.probed.load(Ordering::Relaxed) {
            let mut rounds = self.inner.rounds.subscribe();
            // The first to end may have begun before the question.
            for _ in 0..2 {
                self.ask();
                if tokio::time::timeout(ANSWER, rounds.changed()).await.is_err() {
                    break;
                }
            }
        }
        !self.is_up() || lock(&self.inner.last).is_some_and(|last| last >= then)
    }

    /// Has the machine probed soon: something failed that it may have caused.
    pub fn ask(&self) {
        self.inner.asked.notify_one();
    }

    /// Waits until somebody asks. For the one who probes.
    pub async fn asked(&self) {
        self.inner.probed.store(true, Ordering::Relaxed);
        self.inner.asked.notified().await;
    }

    /// What one probe found: `why` it fails, or that it does not. For the one who probes.
    pub fn tell(&self, fault: Fault, why: Option<String>) {
        let (now, mut lasting) = (Instant::now(), lock(&self.inner.lasting));
        match why {
            None => drop(lasting.remove(&fault)),
            Some(why) => {
                *lock(&self.inner.last) = Some(now);
                lasting.entry(fault).or_insert_with(|| (now, String::new())).1 = why;
            }
        }
    }

    /// All probes have been made once more. For the one who probes.
    pub fn probed(&self) {
        self.inner.rounds.send_modify(|rounds| *rounds += 1);
    }

    /// Returns once work can be done. Looks often enough by itself.
    pub async fn up(&self) {
        let mut rounds = self.inner.rounds.subscribe();
        while !self.is_up() {
            // A sender that is there as long as this is never closed.
            let _ = tokio::time::timeout(ANSWER, rounds.changed()).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_fault_lasts_from_the_first_probe_that_saw_it_to_the_first_that_did_not() {
        let (machine, begun) = (Machine::default(), Instant::now());
        assert!(!machine.failed_since(begun).await);
        machine.tell(Fault::Disk, Some("the disk is full".to_owned()));
        let since = machine.faults()[0].since;
        machine.tell(Fault::Disk, Some("the disk is full".to_owned()));
        assert_eq!(machine.faults()[0].since, since);
        assert_eq!(machine.why().as_deref(), Some("the disk is full"));
        machine.tell(Fault::Disk, None);
        assert!(machine.is_up());
        assert!(machine.failed_since(begun).await);
        assert!(!machine.failed_since(Instant::now()).await);
    }
}
