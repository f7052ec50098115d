//! One butler under supervision: booted, watched, booted again a few times, else parked.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use base::Backoff;
use base::task::Group;
use butler::{BootError, BootedButler, Butler, ButlerState, ButlerStatus, HouseholdServices, PhaseTime, boot};
use config::{BrokenButler, ButlerConfig};

/// The phase of a butler that had booted.
const RUNNING: &str = "running";
/// How long a butler's model is asked after for its status.
const MODEL: Duration = Duration::from_millis(300);
/// More restarts than this within the period, and the butler is parked.
const INTENSITY: usize = 5;
const PERIOD: Duration = Duration::from_secs(60);

/// Why a butler can't be asked.
#[derive(Debug, thiserror::Error)]
pub enum ButlerLookupError {
    #[error("there is no butler `{name}`; there are: {known}")]
    Unknown { name: String, known: String },
    #[error("{name} is {state}{}", .why.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
    Away { name: String, state: &'static str, why: Option<String> },
}

/// What is known of a butler at this moment.
struct Now {
    state: ButlerState,
    since: Timestamp,
    butler: Option<Butler>,
    phases: Vec<PhaseTime>,
    failed_phase: Option<String>,
    error: Option<String>,
    restarts: u32,
    note: Option<String>,
    removed: bool,
}

/// A butler's place in the tree.
pub(super) struct Entry {
    pub name: String,
    description: String,
    services: Arc<HouseholdServices>,
    config: Option<Arc<ButlerConfig>>,
    now: RwLock<Now>,
    pub stop: CancellationToken,
    begun: AtomicBool,
    ended: CancellationToken,
}

impl Entry {
    /// A butler that shall run.
    pub fn new(services: &Arc<HouseholdServices>, config: ButlerConfig) -> Arc<Self> {
        let (name, description) = (config.name.to_string(), config.description.clone());
        Self::make(services, name, description, Some(Arc::new(config)), ButlerState::Booting, None)
    }

    /// A butler whose directory has mistakes: parked from the start.
    pub fn broken(services: &Arc<HouseholdServices>, broken: &BrokenButler) -> Arc<Self> {
        let mistakes: Vec<String> = broken.mistakes.iter().map(ToString::to_string).collect();
        let error = mistakes.join("; ");
        tracing::error!(butler = broken.name, error, "butler parked: its directory has mistakes");
        Self::make(services, broken.name.clone(), String::new(), None, ButlerState::Parked, Some(error))
    }

    /// A butler that the roster does not have any more, of which the database knows.
    pub fn gone(services: &Arc<HouseholdServices>, name: String, schema: &str) -> Arc<Self> {
        let entry = Self::make(services, name, String::new(), None, ButlerState::Stopped, None);
        entry.set_removed(schema);
        entry
    }

    fn make(
        services: &Arc<HouseholdServices>,
        name: String,
        description: String,
        config: Option<Arc<ButlerConfig>>,
        state: ButlerState,
        error: Option<String>,
    ) -> Arc<Self> {
        services.metrics.butler_up(&name, false);
        let failed_phase = error.is_some().then(|| "configuration".to_owned());
        let now = Now {
            state,
            since: services.clock.now(),
            butler: None,
            phases: Vec::new(),
            failed_phase,
            error,
            restarts: 0,
            note: None,
            removed: false,
        };
        Arc::new(Self {
            name,
            description,
            services: services.clone(),
            config,
            now: RwLock::new(now),
            stop: CancellationToken::new(),
            begun: AtomicBool::new(false),
            ended: CancellationToken::new(),
        })
    }

    fn change(&self, f: impl FnOnce(&mut Now)) {
        let mut now = self.now.write().unwrap_or_else(|e| e.into_inner());
        let before = now.state;
        f(&mut now);
        if now.state != before {
            now.since = self.services.clock.now();
            self.services.metrics.butler_up(&self.name, now.state == ButlerState::Up);
        }
    }

    fn read<T>(&self, f: impl FnOnce(&Now) -> T) -> T {
        f(&self.now.read().unwrap_or_else(|e| e.into_inner()))
    }

    pub fn state(&self) -> ButlerState {
        self.read(|n| n.state)
    }

    /// What it runs with; `None`: it never did.
    pub fn config(&self) -> Option<&Arc<ButlerConfig>> {
        self.config.as_ref()
    }

    /// Why it does not run.
    pub fn error(&self) -> Option<String> {
        self.read(|n| n.error.clone())
    }

    /// What people should know of it, though it is no fault of its own.
    pub fn set_note(&self, note: Option<String>) {
        self.change(|n| n.note = note);
    }

    /// The roster does not have it any more.
    pub fn set_removed(&self, schema: &str) {
        self.change(|n| {
            n.state = ButlerState::Stopped;
            n.removed = true;
            n.failed_phase = None;
            n.error = None;
            n.phases = Vec::new();
            n.note = Some(format!("removed from the roster; its data is kept in schema {schema}"));
        });
    }

    pub fn is_removed(&self) -> bool {
        self.read(|n| n.removed)
    }

    /// Waits until it runs no more; at once, if it was never started.
    pub async fn ended(&self) {
        if self.begun.load(Ordering::Acquire) {
            self.ended.cancelled().await;
        }
    }

    /// The butler's handle while it is up.
    pub fn butler(&self) -> Result<Butler, ButlerLookupError> {
        self.read(|n| match (&n.butler, n.state) {
            (Some(butler), ButlerState::Up) => Ok(butler.clone()),
            (_, state) => {
                let why = n.error.clone().or_else(|| n.note.clone());
                Err(ButlerLookupError::Away { name: self.name.clone(), state: state.as_str(), why })
            }
        })
    }

    /// Runs the butler until `stop`; `booted` fires after the first attempt, however it went.
    pub async fn supervise(self: Arc<Self>, booted: CancellationToken) {
        self.begun.store(true, Ordering::Release);
        let _ended = self.ended.clone().drop_guard();
        let Some(config) = self.config.clone() else {
            booted.cancel();
            self.tell_owner().await;
            return;
        };
        let mut failures: VecDeque<Instant> = VecDeque::new();
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
        loop {
            let begun = Instant::now();
            let ended = self.once(&config, &booted).await;
            booted.cancel();
            let failure = match ended {
                Ok(()) => break,
                Err(e) => e,
            };
            self.services.db.release(&config.name).await;
            if failure.transient && failure.phase != RUNNING && self.waits_for_machine(&failure, begun).await {
                continue;
            }
            failures.push_back(Instant::now());
            while failures.front().is_some_and(|t| t.elapsed() > PERIOD) {
                failures.pop_front();
            }
            let again = failure.transient && failures.len() <= INTENSITY;
            tracing::error!(
                butler = self.name,
                phase = failure.phase,
                error = failure.error,
                "{}",
                if again { "butler failed and is started again" } else { "butler failed and is parked" }
            );
            self.change(|n| {
                n.state = if again { ButlerState::Booting } else { ButlerState::Parked };
                n.butler = None;
                n.phases = failure.phases;
                n.failed_phase = Some(failure.phase.to_owned());
                n.error = Some(match (again, failure.transient) {
                    (false, true) => {
                        format!("{} (given up after {} failures within {PERIOD:?})", failure.error, failures.len())
                    }
                    _ => failure.error,
                });
            });
            if !again {
                self.tell_owner().await;
                self.stop.cancelled().await;
                break;
            }
            if self.stop.run_until_cancelled(tokio::time::sleep(backoff.next_delay())).await.is_none() {
                break;
            }
            self.services.metrics.butler_restarted(&self.name);
            self.change(|n| n.restarts += 1);
        }
        self.change(|n| {
            n.state = ButlerState::Stopped;
            n.butler = None;
        });
    }

    /// Boots the butler when it is its turn, and serves it to its end.
    async fn once(&self, config: &Arc<ButlerConfig>, booted: &CancellationToken) -> Result<(), BootError> {
        self.change(|n| n.state = ButlerState::Booting);
        let Some(turn) = self.stop.run_until_cancelled(self.services.boots.acquire()).await else { return Ok(()) };
        let (group, stop) = (Group::default(), self.stop.child_token());
        let running = group.around(boot(&self.services, config, stop.clone())).await?;
        drop(turn);
        self.live(running, booted, (&group, stop)).await
    }

    /// A machine that fails takes every boot along, and that says nothing of the butler. Returns whether it was that,
    /// once it is over or the butler is to stop.
    async fn waits_for_machine(&self, failure: &BootError, begun: Instant) -> bool {
        let machine = self.services.db.machine();
        if !machine.failed_since(begun).await {
            return false;
        }
        tracing::warn!(
            butler = self.name,
            phase = failure.phase,
            error = failure.error,
            "butler failed and is started again when the machine works"
        );
        self.change(|n| {
            n.state = ButlerState::Booting;
            n.butler = None;
            n.failed_phase = Some(failure.phase.to_owned());
            n.error = Some(failure.error.clone());
        });
        self.stop.run_until_cancelled(machine.up()).await;
        true
    }

    /// The owner is told that the butler is parked.
    async fn tell_owner(&self) {
        let why = self.read(|n| n.error.clone()).unwrap_or_default();
        if let Err(e) = self.services.outbox.note_parked(&self.name, &why).await {
            tracing::warn!(butler = self.name, error = %e, "the owner could not be told that a butler is parked");
        }
    }

    /// Publishes a butler that is up and waits for its end.
    ///
    /// A butler whose loop has panicked is ended in order, by `stop`, so that another takes its place.
    async fn live(
        &self,
        mut running: BootedButler,
        booted: &CancellationToken,
        (group, stop): (&Group, CancellationToken),
    ) -> Result<(), BootError> {
        let phases = running.phases.clone();
        self.change(|n| {
            n.state = ButlerState::Up;
            n.butler = Some(running.butler.clone());
            n.phases = phases.clone();
            n.failed_phase = None;
            n.error = None;
        });
        let total: f64 = running.phases.iter().map(|p| p.ms).sum();
        tracing::info!(butler = self.name, port = running.butler.port(), ms = format_args!("{total:.1}"), "butler up");
        booted.cancel();
        let lost = |error: String| BootError { phase: RUNNING, error, transient: true, phases: phases.clone() };
        let ended = tokio::select! {
            ended = running.ended() => ended,
            name = group.failed() => {
                self.change(|n| n.state = ButlerState::Draining);
                stop.cancel();
                let _ = running.ended().await;
                return Err(lost(format!("its task {name} panicked; the daemon's log says where")));
            }
            () = self.stop.cancelled() => {
                self.change(|n| n.state = ButlerState::Draining);
                running.ended().await
            }
        };
        ended.map_err(|e| lost(format!("the butler's task ended: {e}")))
    }

    /// The butler as `status` shows it.
    pub async fn status(&self) -> ButlerStatus {
        let butler = self.read(|n| n.butler.clone());
        let model = match &butler {
            // What the database does not say in time is not known.
            Some(b) => tokio::time::timeout(MODEL, b.spawner().model_state()).await.ok(),
            None => None,
        };
        self.read(|n| ButlerStatus {
            name: self.name.clone(),
            description: self.description.clone(),
            state: n.state,
            since: n.since,
            port: butler.as_ref().map(Butler::port),
            failed_phase: n.failed_phase.clone(),
            error: n.error.clone(),
            note: n.note.clone(),
            removed: n.removed,
            restarts: n.restarts,
            model,
            modules: butler.as_ref().map(|b| b.modules().all()).unwrap_or_default(),
            sessions_running: butler.as_ref().map_or(0, |b| b.spawner().running()),
            sessions_queued: butler.as_ref().map_or(0, |b| b.spawner().queued()),
            interrupted_sessions: butler.as_ref().map_or(0, Butler::interrupted),
            boot_phases: n.phases.clone(),
        })
    }
}
