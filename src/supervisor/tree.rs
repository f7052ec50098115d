//! The household's butlers in the order of their start.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::backups::Backups;
use super::entry::{ButlerLookupError, Entry};
use super::foundation::DatabaseKind;
use super::health::Health;
use base::{ButlerName, Clock, Fault, task};
use butler::{Butler, ButlerState, DatabaseStatus, HouseholdServices, HouseholdStatus, Trouble};
use config::{ButlerConfig, CORE_BUTLERS, Household, Origin, Pricing};

/// All butlers under supervision. Cheap to clone.
#[derive(Clone)]
pub struct Supervisor {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub services: Arc<HouseholdServices>,
    /// In the order of their start.
    entries: RwLock<Vec<Arc<Entry>>>,
    database: DatabaseKind,
    pub health: Health,
    /// Where the daemon makes backups by itself.
    pub backups: Option<Backups>,
    admin: String,
    started_at: Timestamp,
    started: Instant,
    tasks: TaskTracker,
    /// From where the household was read.
    pub origin: Origin,
    pub pricing: Pricing,
    /// Held while butlers are started as the roster says, be it the first time or again.
    pub settling: tokio::sync::Mutex<()>,
    /// The household ends: nothing is started any more.
    pub closing: CancellationToken,
}

fn is_core(name: &str) -> bool {
    CORE_BUTLERS.contains(&name)
}

impl Supervisor {
    /// The tree of a household's butlers; nothing runs yet.
    pub fn new(services: Arc<HouseholdServices>, household: Household, database: DatabaseKind, admin: String) -> Self {
        let Household { butlers, broken, origin, pricing, .. } = household;
        let mut entries: Vec<Arc<Entry>> = butlers.into_iter().map(|b| Entry::new(&services, b)).collect();
        entries.extend(broken.iter().map(|b| Entry::broken(&services, b)));
        sort(&mut entries);
        let daemon = &services.config.daemon;
        let health = Health::new(services.db.clone(), &services.data_dir, daemon.disk_floor);
        let backups = Backups::of(&services);
        let inner = Inner {
            started_at: services.clock.now(),
            services,
            entries: RwLock::new(entries),
            database,
            health,
            backups,
            admin,
            started: Instant::now(),
            tasks: TaskTracker::new(),
            origin,
            pricing,
            settling: tokio::sync::Mutex::default(),
            closing: CancellationToken::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The butlers as they are now, in the order of their start.
    pub(super) fn entries(&self) -> Vec<Arc<Entry>> {
        self.inner.entries.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts a butler in its place, in that of one of the same name. `false`: the household ends, and it has no place.
    pub(super) fn place(&self, entry: &Arc<Entry>) -> bool {
        let mut entries = self.inner.entries.write().unwrap_or_else(PoisonError::into_inner);
        if self.inner.closing.is_cancelled() {
            return false;
        }
        entries.retain(|e| e.name != entry.name);
        entries.push(entry.clone());
        sort(&mut entries);
        true
    }

    /// There is nothing to tell of the butler any more.
    pub(super) fn forget(&self, entry: &Arc<Entry>) {
        let mut entries = self.inner.entries.write().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|e| !Arc::ptr_eq(e, entry));
    }

    /// Starts to supervise a butler; what it returns fires after the first attempt.
    pub(super) fn launch(&self, entry: &Arc<Entry>) -> CancellationToken {
        let booted = CancellationToken::new();
        let supervised = self.inner.tasks.track_future(entry.clone().supervise(booted.clone()));
        task::spawn(task::Kind::Actor, "butler-supervisor", supervised);
        booted
    }

    /// Starts the core butlers, then all others, and returns once each was tried.
    pub async fn start(&self) {
        let _settling = self.inner.settling.lock().await;
        for core in [true, false] {
            let entries = self.entries();
            let group = entries.iter().filter(|e| is_core(&e.name) == core);
            let waiting: Vec<CancellationToken> = group.map(|e| self.launch(e)).collect();
            for booted in waiting {
                booted.cancelled().await;
            }
        }
        self.recall().await;
        self.inner.services.inbox.set_complete(true);
    }

    /// Butlers that the database knows and the roster doesn't have: they are shown, too.
    async fn recall(&self) {
        let services = &self.inner.services;
        let places = match services.db.places().await {
            Ok(places) => places,
            Err(e) => return tracing::warn!(error = %e, "earlier butlers can't be read"),
        };
        let here = self.entries();
        for place in places.iter().filter(|p| here.iter().all(|e| e.name != p.butler)) {
            self.place(&Entry::gone(services, place.butler.clone(), &place.schema));
            self.strike_out(&place.butler).await;
        }
    }

    /// The switchboard forgets the butler.
    pub(super) async fn strike_out(&self, butler: &str) {
        if let Err(e) = self.inner.services.inbox.strike_out(butler).await {
            // It ages by itself, and then nothing is routed to it either.
            tracing::warn!(butler, error = %e, "a removed butler is still registered");
        }
    }

    /// Stops the butlers in the reverse order of their start. Each drains its sessions within its own time, and all of
    /// them within `timeout`; what is left then is abandoned to the next start.
    pub async fn stop(&self, timeout: Duration) {
        self.inner.closing.cancel();
        self.inner.services.inbox.set_complete(false);
        let stopping = async {
            for core in [false, true] {
                let mut group = self.entries();
                group.retain(|e| is_core(&e.name) == core);
                for entry in group.iter().rev() {
                    entry.stop.cancel();
                }
                for entry in group {
                    entry.ended().await;
                }
            }
            self.inner.tasks.close();
            self.inner.tasks.wait().await;
            // A reload that was under way has nothing left to do.
            drop(self.inner.settling.lock().await);
        };
        if tokio::time::timeout(timeout, stopping).await.is_err() {
            tracing::error!(?timeout, "not every butler stopped in time");
        }
    }

    pub fn services(&self) -> &Arc<HouseholdServices> {
        &self.inner.services
    }

    /// A butler's handle while it is up.
    pub fn butler(&self, name: &str) -> Result<Butler, ButlerLookupError> {
        let entries = self.entries();
        match entries.iter().find(|e| e.name == name) {
            Some(entry) => entry.butler(),
            None => {
                let known: Vec<&str> = entries.iter().map(|e| e.name.as_str()).collect();
                Err(ButlerLookupError::Unknown { name: name.to_owned(), known: known.join(", ") })
            }
        }
    }

    /// The butlers that are up, in the order of their start.
    pub fn butlers(&self) -> Vec<Butler> {
        self.entries().iter().filter_map(|e| e.butler().ok()).collect()
    }

    /// What the files of the household's butlers say, of those whose files are right.
    pub fn configs(&self) -> Vec<Arc<ButlerConfig>> {
        self.entries().iter().filter(|e| !e.is_removed()).filter_map(|e| e.config().cloned()).collect()
    }

    /// Every setting as it was read when the daemon started.
    pub fn settings(&self) -> &[config::EffectiveSetting] {
        self.inner.origin.settings()
    }

    /// The household as `status` shows it.
    pub async fn status(&self) -> HouseholdStatus {
        let inner = &self.inner;
        let entries = self.entries();
        let butlers = futures_util::future::join_all(entries.iter().map(|entry| entry.status())).await;
        let mut troubles = inner.health.troubles();
        let named = |of: fn(&Entry) -> bool| {
            let names: Vec<&str> = entries.iter().filter(|e| of(e)).map(|e| e.name.as_str()).collect();
            (!names.is_empty()).then(|| names.join(", "))
        };
        if let Some(down) = named(|e| is_core(&e.name) && e.state() != ButlerState::Up) {
            troubles.push(Trouble::new("butlers", format!("not up, and every household needs it: {down}")));
        }
        if let Some(booting) = named(|e| e.state() == ButlerState::Booting) {
            troubles.push(Trouble::new("butlers", format!("still booting: {booting}")));
        }
        let error = troubles.iter().find(|t| t.what == Fault::Database.as_str()).map(|t| t.why.clone());
        let database = DatabaseStatus {
            kind: inner.database.name().to_owned(),
            server: inner.database.server().to_owned(),
            up: error.is_none(),
            error,
            connections: inner.services.db.connections().await,
        };
        HouseholdStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            started_at: inner.started_at,
            uptime_seconds: inner.started.elapsed().as_secs_f64(),
            ready: troubles.is_empty(),
            troubles,
            admin: inner.admin.clone(),
            log_lines_lost: telemetry::lost_lines(),
            backup: inner.backups.as_ref().map(Backups::status),
            without_channel: inner.services.outbox.without_channel(),
            database,
            butlers,
        }
    }

    /// One line for systemd: who is up, who is not.
    pub fn summary(&self) -> String {
        let mut entries = self.entries();
        entries.retain(|e| !e.is_removed());
        let up = entries.iter().filter(|e| e.state() == ButlerState::Up).count();
        let parked: Vec<&str> =
            entries.iter().filter(|e| e.state() == ButlerState::Parked).map(|e| e.name.as_str()).collect();
        let all = entries.len();
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

    /// Where the admin port is.
    pub(super) fn admin(&self) -> &str {
        &self.inner.admin
    }

    /// The household's clock.
    pub fn clock(&self) -> &Clock {
        &self.inner.services.clock
    }
}

/// The core butlers start first and stop last; the others by name.
fn sort(entries: &mut [Arc<Entry>]) {
    entries.sort_by_key(|e| (CORE_BUTLERS.iter().position(|c| *c == e.name).unwrap_or(usize::MAX), e.name.clone()));
}
