//! The spawner of one butler: takes triggers, admits them, runs their sessions, drains.

use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::admission::{Admission, Place, Slot, Urgency};
use super::attempts::{Candidates, Next, next};
use super::conduct;
use super::conductor::Conductor;
use super::log::{Ending, SessionLog};
use super::memory::Memory;
use super::model::NoModel;
use super::remedy::UNAVAILABLE;
use super::shown::ShownBefore;
use super::state::{Attempt, Inner, SpawnerParts, check_trigger};
use super::transcript::Transcript;
use super::types::{EventKind, ModelState, SessionOptions, SessionResult, SessionState, Trigger, TriggerError};
use super::{budget_guard, trace};
use base::redact::household;
use base::{Backoff, Label, SessionId, TenantId, crash, task};
use config::RuntimeKind;
use process::Leftover;
use store::{Store, StoreError};

/// One butler's spawner. Cheap to clone.
#[derive(Clone)]
pub struct Spawner {
    inner: Arc<Inner>,
}

/// A session that was started, and where its end comes.
pub type Begun = (SessionId, oneshot::Receiver<Result<SessionResult, TriggerError>>);

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
            candidates: Candidates::of(&parts.config, &parts.settings.clis),
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
            shown: ShownBefore::default(),
            memory: OnceLock::new(),
            conductor: OnceLock::new(),
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

    /// The model of its sessions, where the butler's settings name one.
    pub fn model(&self) -> Option<&str> {
        self.inner.parts.config.sessions.model.as_deref()
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

    /// How long it has had no session, at work or waiting, at most since it came up; `None`: it has one.
    pub fn idle_for(&self) -> Option<Duration> {
        self.inner.admission.idle_for()
    }

    /// Tells who remembers for the butler; called once, before the first trigger. The caller keeps it as long as sessions
    /// are to have it.
    pub fn set_memory(&self, memory: Weak<dyn Memory>) {
        let _ = self.inner.memory.set(memory);
    }

    /// Tells who works on its sessions in the place of its model; as [`Spawner::set_memory`].
    pub fn set_conductor(&self, conductor: Weak<dyn Conductor>) {
        let _ = self.inner.conductor.set(conductor);
    }

    /// A butler that asks for a vendor's CLI does not start without its key; a native one is up without a model.
    pub async fn check_credentials(&self) -> Result<(), NoModel> {
        let config = &self.inner.parts.config;
        match self.inner.first_ready(self.inner.candidates.wanted(None), &SessionOptions::default()).await {
            Ok(_) => Ok(()),
            // It delivers and starts no sessions.
            Err(_) if config.name.as_str() == "messenger" => Ok(()),
            Err(e) if config.runtime.kind == RuntimeKind::Native => {
                tracing::warn!(butler = %config.name, "{e}");
                Ok(())
            }
            Err(e) => Err(e),
        }
    }

    /// Whether sessions can be started now.
    pub async fn model_state(&self) -> ModelState {
        let config = &self.inner.parts.config;
        match self.inner.first_ready(self.inner.candidates.wanted(None), &SessionOptions::default()).await {
            Ok((at, access)) => ModelState {
                runtime: self.inner.candidates.at(at).kind.into_str().to_owned(),
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
    ///
    /// Boxed here: the compiler makes the code of an async function anew in each crate that awaits it, and a session's is
    /// large.
    pub fn begin(
        &self,
        trigger: Trigger,
        own_session: Option<SessionId>,
    ) -> BoxFuture<'_, Result<Begun, TriggerError>> {
        Box::pin(async move {
            self.admit(trigger, own_session).await.inspect_err(|e| {
                self.inner.parts.metrics.trigger_refused(e.code());
                tracing::warn!(butler = %self.inner.parts.config.name, code = e.code(), "trigger refused: {e}");
            })
        })
    }

    async fn admit(&self, trigger: Trigger, own_session: Option<SessionId>) -> Result<Begun, TriggerError> {
        let inner = &self.inner;
        check_trigger(&trigger)?;
        if let Some(why) = inner.parts.db.machine().why() {
            return Err(TriggerError::Unavailable(why));
        }
        let mut trigger = redacted(trigger);
        trigger.options.awaited |= own_session.is_some();
        let mut span = trace::trigger(inner, &trigger);
        let trigger = trigger.under(span.context());
        let ready = inner.first_ready(inner.runtimes(&trigger), &trigger.options).await;
        let (at, access) = ready.map_err(|e| match e {
            NoModel::Credentials(access::credentials::CredentialError::Store(e)) => TriggerError::Store(e),
            other => TriggerError::NoModel(other.to_string()),
        })?;
        let first = Attempt { id: SessionId::new(), at, access };
        let first = budget_guard::may_start(inner, &trigger, first).await?;
        let place = match inner.conductor(&trigger) {
            Some(_) => None,
            None => Some(inner.admission.enter(Urgency::of(&trigger), trigger.options.awaited)?),
        };
        let id = first.id;
        if let Err(e) = inner.open(&first, &trigger, None).await {
            // The row may be there all the same; then it must not stay open.
            let inner = inner.clone();
            let end = Ending::unstarted(SessionState::Failed, UNAVAILABLE, "the database went away as this began");
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

    /// The label of all that a session of this butler was shown so far.
    pub async fn label_of(&self, tenant: &TenantId, id: SessionId) -> Result<Label, StoreError> {
        let mut lease = self.inner.parts.db.shared(tenant).await?;
        super::sql::label_of(&mut lease, self.inner.parts.store.schema(), tenant, id.0).await
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
            tracing::warn!(butler = %self.inner.parts.config.name, left, "ending the remaining sessions: the drain time is over");
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

    /// Closes what other daemons have open on a route or run whose claim this one has just got, before it is looked what
    /// was done. They have lost the claim: one that died says nothing more, and one that was only stopped finds out as it
    /// wakes, ends its session's child and writes nothing over this end. What it was calling at that moment may still
    /// have its effect.
    pub async fn take_over(&self, claimed: Uuid) -> Result<(), StoreError> {
        self.inner.log.interrupt_open(&self.inner.parts.db, false, Some(claimed)).await.map(drop)
    }

    async fn interrupt(&self, own: bool) -> Result<usize, StoreError> {
        let parts = &self.inner.parts;
        let open = self.inner.log.interrupt_open(&parts.db, own, None).await?;
        let left: Vec<Leftover> =
            open.iter().filter(|i| i.own).map(|i| Leftover { session: i.session, leader: i.child.clone() }).collect();
        if !left.is_empty() {
            match parts.processes.kill_leftovers(&left).await {
                Ok(cleared) => tracing::warn!(
                    butler = %parts.config.name, sessions = left.len(), killed = cleared.killed,
                    survivors = ?cleared.survivors, "the last run left sessions open; they are interrupted"
                ),
                Err(e) => {
                    tracing::error!(butler = %parts.config.name, error = %e, "left-over child processes could not be ended")
                }
            }
        }
        Ok(open.len())
    }
}

/// The trigger without the household's secrets: neither its row nor a model's vendor has a use for them.
fn redacted(mut trigger: Trigger) -> Trigger {
    trigger.prompt = household().clean(trigger.prompt);
    if let Some(context) = &mut trigger.context {
        household().clean_json(context);
    }
    trigger
}

impl Inner {
    /// One trigger from the queue to its last session's closed row. The slot is held all the way.
    async fn attempts(
        self: Arc<Self>,
        mut attempt: Attempt,
        mut trigger: Trigger,
        mut place: Option<Place>,
    ) -> Result<SessionResult, TriggerError> {
        let mut retries = self.parts.settings.retries;
        let mut pause = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
        let mut slot = None;
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
            let left = self.runtimes(&trigger).end - at - 1;
            let calls = self.calls_of_failed(id, &trigger, &end).await;
            let then = if held.is_some() { next(&end, calls, left, retries) } else { Next::Nothing };
            let follower = self.follower(then, at, id, &end, &trigger).await;
            let class = end.error_class.clone().unwrap_or_default();
            if let Some(follower) = &follower {
                let runtime = self.candidates.at(follower.at).kind.into_str().to_owned();
                tracing::warn!(
                    butler = %self.parts.config.name, session = %id, follower = %follower.id, runtime, class,
                    "session failed before it called a tool; another takes its place"
                );
                self.tell(id, EventKind::Followed { by: follower.id, runtime, class });
            }
            let closed = self.close(id, &trigger, end).await;
            self.live().remove(&id);
            let Some(follower) = follower else { return closed };
            if then == Next::WithoutPictures {
                trigger.options.pictures_refused = true;
            } else if follower.at == at {
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

    /// How many tools a session called that failed. Of another nobody asks: nothing follows it.
    async fn calls_of_failed(&self, id: SessionId, trigger: &Trigger, end: &Ending) -> i64 {
        if end.state != SessionState::Failed {
            return 0;
        }
        // A count that can't be read is one that may not be 0: nothing follows then.
        self.log.tool_calls(&trigger.request, id).await.unwrap_or_else(|e| {
            tracing::warn!(session = %id, error = %e, "its tool calls can't be counted, so it is not retried");
            1
        })
    }

    /// The session that takes the failed one's place, its row written.
    async fn follower(&self, then: Next, at: usize, of: SessionId, end: &Ending, trigger: &Trigger) -> Option<Attempt> {
        let from = match then {
            Next::Nothing => return None,
            Next::Again | Next::WithoutPictures => at,
            Next::Elsewhere => at + 1,
        };
        if self.closing.is_cancelled() {
            return None;
        }
        let ready = self.first_ready(from..self.runtimes(trigger).end, &trigger.options).await;
        let (at, access) = ready
            .inspect_err(
                |e| tracing::warn!(session = %of, class = end.error_class, "no fallback runtime is usable: {e}"),
            )
            .ok()?;
        let follower = Attempt { id: SessionId::new(), at, access };
        match self.open(&follower, trigger, Some(of)).await {
            Ok(()) => Some(follower),
            Err(e) => {
                tracing::warn!(session = %of, error = %e, "the replacement session has no row");
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
        let cancelled = || Ending::unstarted(SessionState::Cancelled, "cancelled", "cancelled before it was started");
        if let Some(conductor) = self.conductor(&trigger) {
            let end = conduct::run(&self, conductor, &trigger, &attempt, &cancel).await;
            self.transcript.flush().await;
            return (end, None);
        }
        let slot = match (slot, place) {
            (Some(slot), _) => slot,
            (None, None) => return (cancelled(), None),
            (None, Some(place)) => {
                let _waiting = self.phase(&trigger.request, "queue");
                tokio::select! {
                    slot = place.wait() => match slot {
                        Ok(slot) => slot,
                        Err(e) => return (Ending::unstarted(SessionState::Interrupted, "stopping", e.to_string()), None),
                    },
                    () = cancel.cancelled() => return (cancelled(), None),
                }
            }
        };
        if cancel.is_cancelled() {
            return (cancelled(), Some(slot));
        }
        if let Some(has_slot) = &trigger.options.has_slot {
            has_slot.notify_one();
        }
        let end = budget_guard::run(&self, &trigger, attempt, &cancel).await;
        self.transcript.flush().await;
        crash::point("session.before_close");
        (end, Some(slot))
    }
}
