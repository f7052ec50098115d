//! The household's butlers in the order of their start.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::entry::Entry;
use super::foundation::DatabaseKind;
use crate::base::{ButlerName, Clock, task};
use crate::butler::{Butler, ButlerState, DatabaseStatus, House, HouseStatus};
use crate::config::{BrokenButler, ButlerConfig, CORE_BUTLERS};
use crate::store::Database;

/// All butlers under supervision. Cheap to clone.
#[derive(Clone)]
pub struct Supervisor {
    inner: Arc<Inner>,
}

struct Inner {
    house: Arc<House>,
    entries: Vec<Arc<Entry>>,
    database: DatabaseKind,
    admin: String,
    started_at: Timestamp,
    started: Instant,
    tasks: TaskTracker,
}

fn is_core(name: &str) -> bool {
    CORE_BUTLERS.contains(&name)
}

impl Supervisor {
    /// The tree of these butlers; nothing runs yet.
    pub fn new(
        house: Arc<House>,
        butlers: Vec<ButlerConfig>,
        broken: &[BrokenButler],
        database: DatabaseKind,
        admin: String,
    ) -> Self {
        let mut entries: Vec<Arc<Entry>> = butlers.into_iter().map(|b| Entry::new(&house, b)).collect();
        entries.extend(broken.iter().map(|b| Entry::broken(&house, b)));
        // The core butlers start first and stop last; the others by name.
        entries.sort_by_key(|e| (CORE_BUTLERS.iter().position(|c| *c == e.name).unwrap_or(usize::MAX), e.name.clone()));
        let started_at = house.clock.now();
        let inner =
            Inner { house, entries, database, admin, started_at, started: Instant::now(), tasks: TaskTracker::new() };
        Self { inner: Arc::new(inner) }
    }

    /// Starts the core butlers, then all others, and returns once each was tried.
    pub async fn start(&self) {
        for core in [true, false] {
            let mut waiting = Vec::new();
            for entry in self.inner.entries.iter().filter(|e| is_core(&e.name) == core) {
                let booted = CancellationToken::new();
                waiting.push(booted.clone());
                let supervised = self.inner.tasks.track_future(entry.clone().supervise(booted));
                task::spawn(task::Kind::Actor, "butler-supervisor", supervised);
            }
            for booted in waiting {
                booted.cancelled().await;
            }
        }
        self.inner.house.desk.set_complete(true);
    }

    /// Stops the butlers in the reverse order of their start. Each drains its sessions within its own time, and all of
    /// them within `timeout`; what is left then is abandoned to the next start.
    pub async fn stop(&self, timeout: Duration) {
        self.inner.house.desk.set_complete(false);
        let stopping = async {
            for core in [false, true] {
                let group: Vec<_> =
                    self.inner.entries.iter().rev().filter(|e| is_core(&e.name) == core).cloned().collect();
                for entry in &group {
                    entry.stop.cancel();
                }
                for entry in group {
                    while !matches!(entry.state(), ButlerState::Stopped | ButlerState::Parked) {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                }
            }
            self.inner.tasks.close();
            self.inner.tasks.wait().await;
        };
        if tokio::time::timeout(timeout, stopping).await.is_err() {
            tracing::error!(?timeout, "not every butler stopped in time");
        }
    }

    pub fn house(&self) -> &Arc<House> {
        &self.inner.house
    }

    /// A butler's handle while it is up; else a sentence that says why not.
    pub fn butler(&self, name: &str) -> Result<Butler, String> {
        match self.inner.entries.iter().find(|e| e.name == name) {
            Some(entry) => entry.butler(),
            None => {
                let known: Vec<&str> = self.inner.entries.iter().map(|e| e.name.as_str()).collect();
                Err(format!("there is no butler `{name}`; there are: {}", known.join(", ")))
            }
        }
    }

    /// The butlers that are up, in the order of their start.
    pub fn butlers(&self) -> Vec<Butler> {
        self.inner.entries.iter().filter_map(|e| e.butler().ok()).collect()
    }

    /// Whether the core butlers are up.
    pub fn core_up(&self) -> bool {
        self.inner.entries.iter().filter(|e| is_core(&e.name)).all(|e| e.state() == ButlerState::Up)
    }

    /// The household as `status` shows it.
    pub async fn status(&self) -> HouseStatus {
        let inner = &self.inner;
        let database = database_status(&inner.house.db, &inner.database).await;
        let mut butlers = Vec::with_capacity(inner.entries.len());
        for entry in &inner.entries {
            butlers.push(entry.status().await);
        }
        HouseStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            started_at: inner.started_at,
            uptime_seconds: inner.started.elapsed().as_secs_f64(),
            ready: self.core_up() && database.up,
            admin: inner.admin.clone(),
            database,
            butlers,
        }
    }

    /// One line for systemd: who is up, who is not.
    pub fn summary(&self) -> String {
        let up = self.inner.entries.iter().filter(|e| e.state() == ButlerState::Up).count();
        let parked: Vec<&str> =
            self.inner.entries.iter().filter(|e| e.state() == ButlerState::Parked).map(|e| e.name.as_str()).collect();
        let all = self.inner.entries.len();
        if parked.is_empty() {
            format!("{up} of {all} butlers up")
        } else {
            format!("{up} of {all} butlers up, parked: {}", parked.join(", "))
        }
    }

    /// Ports of the butlers that are up, for the file where the command line looks.
    pub fn ports(&self) -> std::collections::BTreeMap<ButlerName, u16> {
        self.butlers().iter().map(|b| (b.name().clone(), b.port())).collect()
    }

    /// The household's clock.
    pub fn clock(&self) -> &Clock {
        &self.inner.house.clock
    }
}

async fn database_status(db: &Database, kind: &DatabaseKind) -> DatabaseStatus {
    let error = match tokio::time::timeout(Duration::from_secs(2), db.ping()).await {
        Ok(Ok(())) => None,
        Ok(Err(e)) => Some(e.to_string()),
        Err(_) => Some("it did not answer within 2 s".to_owned()),
    };
    DatabaseStatus {
        kind: kind.name().to_owned(),
        server: kind.server().to_owned(),
        up: error.is_none(),
        error,
        connections: db.connections().await,
    }
}
