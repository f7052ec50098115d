//! The spawner of one butler: takes triggers, admits them, runs their sessions, drains.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::sync::{broadcast, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::admission::{Admission, Place, SessionPermits, Slot, Urgency};
use super::attempts::{Candidate, Next, candidates, next};
use super::budget::Budgets;
use super::child::{ChildUser, Leftover, ProcessSupervisor};
use super::gateway::Gateway;
use super::log::{Ending, SessionLog};
use super::memory::Memory;
use super::model::{ModelAccess, NoModel, resolve};
use super::trace;
use super::transcript::Transcript;
use super::types::{
    EventKind, MAX_PROMPT, ModelState, SessionEvent, SessionResult, SessionState, Trigger, TriggerError,
};
use super::workspace::Workspaces;
use access::TokenBook;
use access::credentials::Credentials;
use base::redact::household;
use base::{Backoff, Clock, MAX_LINEAGE_DEPTH, SessionId, Trust, crash, task, text};
use config::{ButlerConfig, RuntimeKind, SpawnerConfig};
use store::{Database, Store, StoreError};
use telemetry::ButlerMetrics;
use tools::{Auditor, notes_told};

/// All that a spawner works with.
pub struct SpawnerParts {
    pub config: Arc<ButlerConfig>,
    pub settings: SpawnerConfig,
    pub roster_dir: PathBuf,
    pub workspaces: Workspaces,
    pub db: Arc<Database>,
    pub store: Store,
    /// The daemon's name among those on its database: the same after a restart, another one elsewhere.
    pub node: String,
    pub auditor: Auditor,
    pub credentials: Credentials,
    pub book: TokenBook,
    pub clock: Clock,
    pub processes: ProcessSupervisor,
    /// The household's permits.
    pub permits: SessionPermits,
    pub events: broadcast::Sender<SessionEvent>,
    pub metrics: ButlerMetrics,
    pub child_user: Option<ChildUser>,
    pub budgets: Budgets,
    /// The port of the butler's MCP server.
    pub port: u16,
    /// Where children reach their models; `None` puts the keys in their environment.
    pub gateway: Option<Gateway>,
}

/// One butler's spawner. Cheap to clone.
#[derive(Clone)]
pub struct Spawner {
    inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub parts: SpawnerParts,
    /// The butler's runtime and its fallbacks. Empty only if this build has none of them, which the configuration
    /// refuses before.
    candidates: Vec<Candidate>,
    pub log: SessionLog,
    pub transcript: Transcript,
    admission: Admission,
    /// Sessions that wait or run, and how to cancel each.
    live: Mutex<HashMap<SessionId, CancellationToken>>,
    /// No new work.
    closing: CancellationToken,
    /// What still runs ends now.
    pub killing: CancellationToken,
    tasks: TaskTracker,
    /// Names of the butler's tools, once they are all there.
    tools: OnceLock<Vec<String>>,
    /// Who remembers for the butler, if somebody does.
    memory: OnceLock<Arc<dyn Memory>>,
}

impl Spawner {
    pub fn new(parts: SpawnerParts) -> Self {
        let closing = CancellationToken::new();
        let admission = Admission::new(
            parts.config.name.as_str(),
            parts.config.sessions.max_concurrent_sessions as usize,
            parts.config.sessions.max_queued as usize,
            parts.permits.clone(),
            closing.clone(),
        );
        let inner = Inner {
            candidates: candidates(&parts.config, &parts.settings.clis),
            log: SessionLog::new(parts.store.clone(), &parts.node),
            transcript: Transcript::new(
                parts.config.name.as_str(),
                parts.clock.clone(),
                parts.auditor.clone(),
                parts.events.clone(),
            ),
            admission,
            live: Mutex::default(),
            closing,
            killing: CancellationToken::new(),
            tasks: TaskTracker::new(),
            tools: OnceLock::new(),
            memory: OnceLock::new(),
            parts,
        };
        Self { inner: Arc::new(inner) }
    }

    pub(super) fn inner(&self) -> &Inner {
        &self.inner
    }

    pub fn running(&self) -> usize {
        self.inner.admission.running()
    }

    /// Where what happens in this butler's sessions is told.
    pub fn transcript(&self) -> &Transcript {
        &self.inner.transcript
    }

    pub(super) fn name(&self) -> &str {
        self.inner.parts.config.name.as_str()
    }

    pub(super) fn store(&self) -> &Store {
        &self.inner.parts.store
    }

    pub fn queued(&self) -> usize {
        self.inner.admission.queued()
    }

    /// Tells the names of the butler's tools; called once, before the first trigger.
    pub fn set_tools(&self, names: Vec<String>) {
        let _ = self.inner.tools.set(names);
    }

    /// Tells who remembers for the butler; called once, before the first trigger.
    pub fn set_memory(&self, memory: Arc<dyn Memory>) {
        let _ = self.inner.memory.set(memory);
    }

    /// A butler that asks for a vendor's CLI does not start without its key; a native one is up without a model.
    pub async fn check_credentials(&self) -> Result<(), String> {
        let config = &self.inner.parts.config;
        match self.inner.first_ready(0).await {
            Ok(_) => Ok(()),
            // It delivers and starts no sessions.
            Err(_) if config.name.as_str() == "messenger" => Ok(()),
            Err(e) if config.runtime.kind == RuntimeKind::Native => {
                tracing::warn!(butler = %config.name, "{e}");
                Ok(())
            }
            Err(e) => Err(e.to_string()),
        }
    }

    /// Whether sessions can be started now.
    pub async fn model_state(&self) -> ModelState {
        let config = &self.inner.parts.config;
        match self.inner.first_ready(0).await {
            Ok((at, access)) => ModelState {
                runtime: self.inner.candidates[at].kind.into_str().to_owned(),
                model: access.model,
                ready: true,
                reason: None,
            },
            Err(e) => ModelState {
                runtime: config.runtime.kind.into_str().to_owned(),
                model: config.sessions.model.clone(),
                ready: false,
                reason: Some(e.to_string()),
            },
        }
    }

    /// Starts a session and waits for its end. `own_session`: the session of this butler out of which the trigger
    /// comes, if it does. The session goes on when the waiting caller goes away.
    pub async fn trigger_from(
        &self,
        trigger: Trigger,
        own_session: Option<SessionId>,
    ) -> Result<SessionResult, TriggerError> {
        let (_, end) = self.begin(trigger, own_session).await?;
        match end.await {
            Ok(result) => result,
            Err(_) => Err(TriggerError::Stopping(self.inner.parts.config.name.to_string())),
        }
    }

    /// Starts a session and returns once its row is there; the session goes on by itself.
    pub async fn start(&self, trigger: Trigger) -> Result<SessionId, TriggerError> {
        self.begin(trigger, None).await.map(|(id, _)| id)
    }

    /// Starts a session and returns once its row is there; the receiver gets its end.
    #[allow(clippy::type_complexity)]
    pub async fn begin(
        &self,
        trigger: Trigger,
        own_session: Option<SessionId>,
    ) -> Result<(SessionId, oneshot::Receiver<Result<SessionResult, TriggerError>>), TriggerError> {
        self.admit(trigger, own_session).await.inspect_err(|e| {
            self.inner.parts.metrics.trigger_refused(e.code());
            tracing::warn!(butler = %self.inner.parts.config.name, code = e.code(), "trigger refused: {e}");
        })
    }

    #[allow(clippy::type_complexity)]
    async fn admit(
        &self,
        trigger: Trigger,
        own_session: Option<SessionId>,
    ) -> Result<(SessionId, oneshot::Receiver<Result<SessionResult, TriggerError>>), TriggerError> {
        let inner = &self.inner;
        check_request(&trigger)?;
        let trigger = redacted(trigger);
        let mut span = trace::trigger(&inner.parts, &trigger);
        let trigger = trigger.under(span.context());
        let (at, access) = inner.first_ready(0).await.map_err(|e| match e {
            NoModel::Credentials(access::credentials::CredentialError::Store(e)) => TriggerError::Store(e),
            other => TriggerError::NoModel(other.to_string()),
        })?;
        let first = Attempt { id: SessionId::new(), at, access };
        let first = super::budget_guard::may_start(inner, &trigger, first).await?;
        let place = inner.admission.enter(Urgency::of(&trigger), own_session.is_some())?;
        let id = first.id;
        if let Err(e) = inner.open(&first, &trigger, None).await {
            // The row may be there all the same; then it must not stay open.
            let inner = inner.clone();
            let end = Ending::failed(SessionState::Failed, "unavailable", "the database went away as this began");
            task::spawn(task::Kind::Job, "close-lost-row", async move { inner.close(id, &trigger, end).await });
            return Err(e.into());
        }
        let (done, end) = oneshot::channel();
        let inner = inner.clone();
        let tracked = self.inner.tasks.track_future(async move {
            // Nobody waits any more: the rows tell the end all the same.
            let ended = inner.attempts(first, trigger, place).await;
            trace::outcome(&mut span, &ended);
            drop(span);
            let _ = done.send(ended);
        });
        task::spawn(task::Kind::Job, "session", tracked);
        Ok((id, end))
    }

    /// Cancels a session that waits or runs here.
    pub fn cancel(&self, id: SessionId) -> bool {
        let live = self.inner.live();
        live.get(&id).map(CancellationToken::cancel).is_some()
    }

    /// Takes no new work, lets what runs finish within `timeout`, then ends the rest.
    pub async fn drain(&self, timeout: Duration) {
        self.inner.closing.cancel();
        self.inner.tasks.close();
        if tokio::time::timeout(timeout, self.inner.tasks.wait()).await.is_err() {
            let left = self.inner.live().len();
            tracing::warn!(butler = %self.inner.parts.config.name, left, "sessions are ended: the time to drain is over");
            self.inner.killing.cancel();
            self.inner.tasks.wait().await;
        }
    }

    /// Closes what the last run of this daemon left open, or one that is not there any more, and ends the children of
    /// its own. Returns how many sessions were interrupted.
    pub async fn recover(&self) -> Result<usize, StoreError> {
        self.interrupt(true).await
    }

    /// Closes what daemons left open that are not there any more. Returns how many sessions were interrupted.
    pub async fn recover_gone(&self) -> Result<usize, StoreError> {
        self.interrupt(false).await
    }

    async fn interrupt(&self, own: bool) -> Result<usize, StoreError> {
        let parts = &self.inner.parts;
        let open = self.inner.log.interrupt_open(&parts.db, own).await?;
        let left: Vec<Leftover> =
            open.iter().filter(|i| i.own).map(|i| Leftover { session: i.session, leader: i.child.clone() }).collect();
        if !left.is_empty() {
            match parts.processes.kill_leftovers(&left).await {
                Ok(cleared) => tracing::warn!(
                    butler = %parts.config.name, sessions = left.len(), killed = cleared.killed,
                    survivors = ?cleared.survivors, "the last run left sessions open; they are interrupted"
                ),
                Err(e) => tracing::error!(butler = %parts.config.name, error = %e, "left-over children were not ended"),
            }
        }
        Ok(open.len())
    }
}

/// The wish without secrets of the household's: neither its row nor a model's vendor has a use for them.
fn redacted(mut trigger: Trigger) -> Trigger {
    trigger.prompt = household().clean(trigger.prompt);
    if let Some(context) = &mut trigger.context {
        household().clean_json(context);
    }
    trigger
}

/// One session of a trigger: in which runtime, and with what.
pub(super) struct Attempt {
    pub id: SessionId,
    /// Index of the runtime among the candidates.
    pub at: usize,
    pub access: ModelAccess,
}

/// Whether the wish can be granted by itself, whatever else there is.
pub(super) fn check_request(trigger: &Trigger) -> Result<(), TriggerError> {
    let depth = trigger.request.lineage.depth;
    if depth > MAX_LINEAGE_DEPTH {
        return Err(TriggerError::TooDeep(depth));
    }
    match trigger.prompt.len() {
        n if n > MAX_PROMPT => Err(TriggerError::PromptSize(n)),
        _ if trigger.prompt.trim().is_empty() => Err(TriggerError::PromptEmpty),
        _ => Ok(()),
    }
}

impl Inner {
    fn live(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, CancellationToken>> {
        self.live.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// What the butler noted for a session such as this. A stranger's is told nothing, as it answers to somebody whom
    /// nobody knows.
    pub(super) async fn notes(&self, trigger: &Trigger) -> Vec<String> {
        if trigger.request.trust == Trust::Stranger {
            return Vec::new();
        }
        let read = async { notes_told(&mut self.parts.store.tenant(&trigger.request.tenant_id).await?).await };
        read.await.unwrap_or_else(|e| {
            tracing::warn!(butler = %self.parts.config.name, error = %e, "a session goes without the butler's notes");
            Vec::new()
        })
    }

    pub(super) fn candidate(&self, attempt: &Attempt) -> &Candidate {
        &self.candidates[attempt.at]
    }

    pub(super) fn tool_names(&self) -> &[String] {
        self.tools.get().map(Vec::as_slice).unwrap_or_default()
    }

    /// Who remembers what comes of this wish, if somebody does.
    pub(super) fn memory(&self, trigger: &Trigger) -> Option<&Arc<dyn Memory>> {
        self.memory.get().filter(|_| !trigger.options.apart_from_memory)
    }

    /// Puts what happens in a session on record, and tells whoever watches.
    pub(super) fn tell(&self, session: SessionId, kind: EventKind) {
        self.transcript.tell(session, kind);
    }

    /// The first of the runtimes, from the one at `from` on, that has its key and its model; else why that one has not.
    pub(super) async fn first_ready(&self, from: usize) -> Result<(usize, ModelAccess), NoModel> {
        let parts = &self.parts;
        let mut why = None;
        for (at, candidate) in self.candidates.iter().enumerate().skip(from) {
            match resolve(&parts.config, candidate.kind, &parts.settings, &parts.credentials).await {
                Ok(access) => return Ok((at, access)),
                Err(e @ NoModel::Credentials(_)) => return Err(e),
                Err(e) => why = why.or(Some(e)),
            }
        }
        Err(why.unwrap_or_else(|| NoModel::Missing(format!("{} has no runtime in this build", parts.config.name))))
    }

    /// Writes the row of an attempt, and makes it one that can be watched and cancelled.
    async fn open(&self, attempt: &Attempt, trigger: &Trigger, retry_of: Option<SessionId>) -> Result<(), StoreError> {
        let (runtime, model) = (self.candidates[attempt.at].kind.into_str(), attempt.access.model.as_deref());
        let remember = self.memory(trigger).is_some();
        self.log.open(attempt.id, trigger, runtime, model, retry_of, remember).await?;
        crash::point("session.opened");
        let prompt = text::truncate(&trigger.prompt, 4096);
        self.transcript.open(attempt.id, trigger.request.tenant_id.clone());
        self.tell(attempt.id, EventKind::Queued { source: trigger.source.clone(), prompt });
        self.live().insert(attempt.id, CancellationToken::new());
        Ok(())
    }

    /// Puts on record an attempt that must not begin.
    pub(super) async fn refuse(&self, attempt: Attempt, trigger: &Trigger, end: Ending) -> Result<(), TriggerError> {
        self.open(&attempt, trigger, None).await?;
        if let (Some(class), Some(message)) = (end.error_class.clone(), end.error.clone()) {
            self.tell(attempt.id, EventKind::Stopped { class, message });
        }
        let closed = self.close(attempt.id, trigger, end).await;
        self.live().remove(&attempt.id);
        closed.map(drop)
    }

    /// One trigger from the queue to its last session's closed row. The slot is held all the way.
    async fn attempts(
        self: Arc<Self>,
        mut attempt: Attempt,
        trigger: Trigger,
        place: Place,
    ) -> Result<SessionResult, TriggerError> {
        let mut retries = self.parts.settings.retries;
        let mut pause = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
        let (mut place, mut slot) = (Some(place), None);
        loop {
            let (id, at) = (attempt.id, attempt.at);
            let cancel = self.live().get(&id).cloned().unwrap_or_default();
            let work = self.clone().one_session(attempt, trigger.clone(), place.take(), slot.take(), cancel);
            let (end, held) = match task::spawn(task::Kind::Job, "session-work", work).await {
                Ok(ended) => ended,
                // A panic, which the log has. The row gets its end all the same; the child died with its handle.
                Err(_) => {
                    let why = "butlerd itself failed while it ran this session; the daemon's log says where";
                    (Ending::failed(SessionState::Failed, "crashed", why), None)
                }
            };
            let left = self.candidates.len() - at - 1;
            // A count that can't be read is one that may not be 0: nothing follows then.
            let calls = self.log.tool_calls(&trigger.request, id).await.unwrap_or_else(|e| {
                tracing::warn!(session = %id, error = %e, "its tool calls can't be counted, so nothing follows it");
                1
            });
            let then = if held.is_some() { next(&end, calls, left, retries) } else { Next::Nothing };
            let follower = self.follower(then, at, id, &end, &trigger).await;
            let class = end.error_class.clone().unwrap_or_default();
            if let Some(follower) = &follower {
                let runtime = self.candidates[follower.at].kind.into_str().to_owned();
                tracing::warn!(
                    butler = %self.parts.config.name, session = %id, follower = %follower.id, runtime, class,
                    "session failed before it called a tool; another takes its place"
                );
                self.tell(id, EventKind::Followed { by: follower.id, runtime, class });
            }
            let closed = self.close(id, &trigger, end).await;
            self.live().remove(&id);
            let Some(follower) = follower else { return closed };
            if follower.at == at {
                retries -= 1;
                let cancel = self.live().get(&follower.id).cloned().unwrap_or_default();
                tokio::select! {
                    () = tokio::time::sleep(pause.next_delay()) => {}
                    // It ends at once, with the right row, when it begins.
                    () = cancel.cancelled() => {}
                    () = self.closing.cancelled() => cancel.cancel(),
                }
            }
            (attempt, slot) = (follower, held);
        }
    }

    /// The session that takes the failed one's place, its row written.
    async fn follower(&self, then: Next, at: usize, of: SessionId, end: &Ending, trigger: &Trigger) -> Option<Attempt> {
        let from = match then {
            Next::Nothing => return None,
            Next::Again => at,
            Next::Elsewhere => at + 1,
        };
        if self.closing.is_cancelled() {
            return None;
        }
        let ready = self.first_ready(from).await;
        let (at, access) = ready
            .inspect_err(|e| tracing::warn!(session = %of, class = end.error_class, "no runtime to fall back to: {e}"))
            .ok()?;
        let follower = Attempt { id: SessionId::new(), at, access };
        match self.open(&follower, trigger, Some(of)).await {
            Ok(()) => Some(follower),
            Err(e) => {
                tracing::warn!(session = %of, error = %e, "the session that would take its place has no row");
                None
            }
        }
    }

    /// One session until its end, which is not in its row yet. The slot comes back where there was one.
    async fn one_session(
        self: Arc<Self>,
        attempt: Attempt,
        trigger: Trigger,
        place: Option<Place>,
        slot: Option<Slot>,
        cancel: CancellationToken,
    ) -> (Ending, Option<Slot>) {
        let cancelled = || Ending::failed(SessionState::Cancelled, "cancelled", "cancelled before it was started");
        let slot = match (slot, place) {
            (Some(slot), _) => slot,
            (None, None) => return (cancelled(), None),
            (None, Some(place)) => {
                let _waiting = trace::phase(&self.parts, &trigger.request, "queue");
                tokio::select! {
                    slot = place.wait() => match slot {
                        Ok(slot) => slot,
                        Err(e) => return (Ending::failed(SessionState::Interrupted, "stopping", e.to_string()), None),
                    },
                    () = cancel.cancelled() => return (cancelled(), None),
                }
            }
        };
        if cancel.is_cancelled() {
            return (cancelled(), Some(slot));
        }
        let end = super::budget_guard::run(&self, &trigger, attempt, &cancel).await;
        self.transcript.flush().await;
        crash::point("session.before_close");
        (end, Some(slot))
    }

    /// Closes the row, however long the database is away, and tells the end.
    async fn close(&self, id: SessionId, trigger: &Trigger, end: Ending) -> Result<SessionResult, TriggerError> {
        let _settling = trace::phase(&self.parts, &trigger.request, "settle");
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));
        let mut tries = 0;
        let end = end.redacted();
        let closed = loop {
            tries += 1;
            // What happened is written before the end is.
            self.transcript.flush().await;
            match self.log.close(&trigger.request, id, &end).await {
                Ok(closed) => break closed,
                Err(e) if (e.is_connection() || tries < 10) && !self.killing.is_cancelled() => {
                    tracing::warn!(session = %id, error = %e, "the session's row can't be closed yet");
                    tokio::time::sleep(backoff.next_delay()).await;
                }
                // The next start closes it as interrupted.
                Err(e) => {
                    self.transcript.forget(id);
                    return Err(e.into());
                }
            }
        };
        let (duration_ms, tool_calls) = closed.map_or((0, 0), |c| (c.duration_ms, c.tool_calls));
        let result = SessionResult {
            session_id: id,
            state: end.state,
            output: end.result,
            error_class: end.error_class,
            error: end.error,
            duration_ms,
            input_tokens: end.input_tokens,
            output_tokens: end.output_tokens,
            cost_usd: end.cost_usd.map(|d| d.normalize().to_string()),
            tool_calls,
        };
        self.parts.metrics.session(result.state.as_str(), duration_ms);
        tracing::info!(
            butler = %self.parts.config.name, session = %id, state = result.state.as_str(), ms = duration_ms,
            tool_calls, "session over"
        );
        self.transcript.close(id, EventKind::Ended(result.clone()));
        if let Some(memory) = self.memory(trigger) {
            memory.ended();
        }
        Ok(result)
    }
}
