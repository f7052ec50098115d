//! The loop of one butler's schedules: writes what is due, claims it, lets it run, and ends it once.
//!
//! Start-up and steady state are the same: whatever wakes the loop, it looks at rows. Nothing is known from before.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::dispatch::{Begun, Dispatch, Earlier, Ended, Firing, How};
use super::rows::{Claimed, Rows, Settlement};
use access::Caller;
use base::{ButlerName, Clock, SessionId, TenantId, crash, task};
use store::{Database, Store, StoreError, settle};

/// The longest sleep: a clock that is set forward is noticed this soon.
const LONGEST: Duration = Duration::from_secs(60);
/// The shortest one, so that a clock at odds with the timer keeps nobody busy.
const SHORTEST: Duration = Duration::from_millis(5);
/// How often it is looked whether a run that waits may begin.
const WAITING: Duration = Duration::from_millis(500);
/// After a look that failed.
const AGAIN: Duration = Duration::from_secs(1);
/// So many tries of a run, where those before did nothing; then it has failed.
const TRIES: i32 = 3;

/// What a scheduler works with.
pub struct SchedulerParts {
    pub butler: ButlerName,
    pub db: Arc<Database>,
    pub store: Store,
    /// Under which name runs are claimed: the same after a restart, another one elsewhere.
    pub node: String,
    /// How many runs are at work at a time.
    pub slots: usize,
    /// The owner's zone.
    pub time_zone: String,
    pub target: Arc<dyn Dispatch>,
    /// Whoever rings it has written something that may be due.
    pub wake: Arc<Notify>,
}

/// A butler's schedules, for whoever changes or runs them. Cheap to clone.
#[derive(Clone)]
pub struct Scheduler {
    pub(super) inner: Arc<Inner>,
}

/// The loop of a butler that is up.
pub struct ScheduleLoop {
    task: JoinHandle<()>,
    stop: CancellationToken,
    /// A butler that dies takes its loop along, or the next one would stand beside it.
    _ends: DropGuard,
}

pub(super) struct Inner {
    pub butler: ButlerName,
    pub rows: Rows,
    pub store: Store,
    pub time_zone: String,
    target: Arc<dyn Dispatch>,
    wake: Arc<Notify>,
    slots: Arc<Semaphore>,
    /// Runs that are worked on here.
    under_way: Mutex<HashSet<Uuid>>,
    working: TaskTracker,
    stop: CancellationToken,
}

/// A run that is worked on here, until dropped; a panic drops it as well.
struct Here {
    inner: Arc<Inner>,
    run: Uuid,
}

impl Here {
    fn of(inner: &Arc<Inner>, run: Uuid) -> Self {
        inner.under_way().insert(run);
        Self { inner: inner.clone(), run }
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.inner.under_way().remove(&self.run);
        self.inner.wake.notify_one();
    }
}

impl Scheduler {
    pub fn new(parts: SchedulerParts) -> Self {
        let SchedulerParts { butler, db, store, node, slots, time_zone, target, wake } = parts;
        let rows = Rows { db, schema: store.schema().to_owned(), node };
        let inner = Inner {
            butler,
            rows,
            store,
            time_zone,
            target,
            wake,
            slots: Arc::new(Semaphore::new(slots.max(1))),
            under_way: Mutex::default(),
            working: TaskTracker::new(),
            stop: CancellationToken::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Takes up what the last run of the daemon left, then begins to work.
    pub async fn start(&self) -> Result<ScheduleLoop, StoreError> {
        let left = self.inner.rows.recover(self.inner.clock().now()).await?;
        if left > 0 {
            tracing::warn!(butler = %self.inner.butler, runs = left, "runs of schedules were interrupted");
        }
        let task = task::spawn(task::Kind::Actor, "schedules", self.inner.clone().run());
        let stop = self.inner.stop.clone();
        Ok(ScheduleLoop { task, _ends: stop.clone().drop_guard(), stop })
    }

    /// Something was changed: the loop looks at once.
    pub fn wake(&self) {
        self.inner.wake.notify_one();
    }

    /// Decides on everything that is due now and lets the loop run it. Returns how many runs that makes.
    pub async fn tick(&self) -> Result<usize, StoreError> {
        let n = self.inner.rows.plan(self.inner.clock().now()).await?;
        self.wake();
        Ok(n)
    }

    /// Runs a schedule once, now, and waits for the end; its next time stays. `None`: there is none with this id.
    pub async fn run_now(
        &self,
        tenant: &TenantId,
        id: Uuid,
        caller: Caller,
    ) -> Result<Option<(String, Ended)>, StoreError> {
        let inner = &self.inner;
        let Some(claimed) = inner.rows.claim_now(inner.clock().now(), tenant, id).await? else { return Ok(None) };
        let name = claimed.task.name.clone();
        let here = Here::of(inner, claimed.run);
        let work = inner.working.track_future(async move { here.inner.deal_with(&claimed, Some(caller)).await });
        // A task of its own: the run goes on when the caller hangs up.
        let ended = task::spawn(task::Kind::Job, "schedule-run", work).await;
        let why = || How::Failed("butlerd itself failed while it ran this; the daemon's log says where".to_owned());
        Ok(Some((name, ended.unwrap_or_else(|_| Ended::without_session(why())))))
    }
}

impl ScheduleLoop {
    /// Claims nothing more; what is under way ends with its sessions.
    pub fn close(&self) {
        self.stop.cancel();
    }

    /// Waits until nothing is under way.
    pub async fn ended(self, within: Duration) {
        if tokio::time::timeout(within, self.task).await.is_err() {
            tracing::warn!("runs of schedules were not settled before the stop; the next start takes them up");
        }
    }
}

impl Inner {
    pub fn clock(&self) -> &Clock {
        self.store.clock()
    }

    fn under_way(&self) -> std::sync::MutexGuard<'_, HashSet<Uuid>> {
        self.under_way.lock().unwrap_or_else(|e| e.into_inner())
    }

    async fn run(self: Arc<Self>) {
        loop {
            let sleep = self.look().await.unwrap_or_else(|e| {
                tracing::warn!(butler = %self.butler, error = %e, "schedules can't be looked at");
                AGAIN
            });
            tokio::select! {
                () = self.stop.cancelled() => break,
                () = self.wake.notified() => {}
                () = tokio::time::sleep(sleep) => {}
            }
        }
        self.working.close();
        self.working.wait().await;
    }

    /// Does what is to be done now. Returns when to look again.
    async fn look(self: &Arc<Self>) -> Result<Duration, StoreError> {
        let now = self.clock().now();
        self.rows.plan(now).await?;
        while !self.stop.is_cancelled() {
            let Ok(slot) = self.slots.clone().try_acquire_owned() else { break };
            let under_way: Vec<Uuid> = self.under_way().iter().copied().collect();
            let Some(claimed) = self.rows.claim(now, self.target.idle(), &under_way).await? else { break };
            let here = Here::of(self, claimed.run);
            let work = self.working.track_future(async move {
                here.inner.deal_with(&claimed, None).await;
                drop(slot);
            });
            task::spawn(task::Kind::Job, "schedule-run", work);
        }
        let (next, waiting) = self.rows.outlook(now).await?;
        let next = next.map_or(LONGEST, |next| until(next, self.clock().now()));
        Ok(waiting.map_or(next, |waiting| next.min(waiting.max(WAITING))).clamp(SHORTEST, LONGEST))
    }

    async fn deal_with(&self, claimed: &Claimed, caller: Option<Caller>) -> Ended {
        crash::point("schedule.claimed");
        let lost = CancellationToken::new();
        let ended = {
            let work = self.attempt(claimed, caller, &lost);
            tokio::pin!(work);
            tokio::select! {
                ended = &mut work => ended,
                // The session is cancelled, and its end awaited: it must not go on unwatched.
                () = self.rows.hold(claimed) => {
                    lost.cancel();
                    work.await
                }
            }
        };
        crash::point("schedule.ended");
        settle("a run", &claimed.task.name, || self.conclude(claimed, &ended)).await;
        crash::point("schedule.settled");
        ended
    }

    async fn attempt(&self, claimed: &Claimed, caller: Option<Caller>, lost: &CancellationToken) -> Ended {
        let failed =
            |session: Option<Uuid>, why: String| Ended { session: session.map(SessionId), how: How::Failed(why) };
        if claimed.attempts > 1 {
            match self.target.earlier(&claimed.tenant, claimed.run).await {
                Ok(Earlier::Nothing) => {}
                Ok(Earlier::Finished(session)) => {
                    return Ended { session: Some(SessionId(session)), how: How::Done(None) };
                }
                Ok(Earlier::Broken { session, why }) => return failed(Some(session), why),
                Err(e) => {
                    // What was done is not known just now, so nothing may be begun.
                    tracing::warn!(schedule = %claimed.task.name, error = %e, "earlier tries can't be looked at yet");
                    return Ended::without_session(How::Later(AGAIN));
                }
            }
        }
        if claimed.attempts > TRIES {
            return failed(None, format!("interrupted {TRIES} times before it came to an end"));
        }
        let task = &claimed.task;
        let firing = Firing {
            task_id: task.id,
            run: claimed.run,
            name: task.name.clone(),
            fire_at: claimed.fire_at,
            prompt: task.prompt.clone(),
            job_name: task.job_name.clone(),
            job_args: task.job_args.clone(),
            tenant: claimed.tenant.clone(),
            trust: claimed.trust,
            priority: task.priority,
            caller,
        };
        let Begun { session, mut end } = self.target.begin(firing).await;
        crash::point("schedule.dispatched");
        let Some(session) = session else { return end.await };
        // The session's own row names the run, which is what a start after a kill goes by.
        if let Err(e) = self.rows.began(claimed, session.0).await {
            tracing::debug!(error = %e, "a run's session is not noted in its row");
        }
        tokio::select! {
            ended = &mut end => ended,
            () = lost.cancelled() => {
                self.target.cancel(session);
                end.await
            }
        }
    }

    async fn conclude(&self, claimed: &Claimed, ended: &Ended) -> Result<(), StoreError> {
        let session = ended.session.map(|s| s.0);
        let now = self.clock().now();
        let manual = claimed.cause == "manual";
        let (state, reason) = match &ended.how {
            How::Done(note) => ("done", note.as_deref()),
            How::Failed(why) => ("failed", Some(why.as_str())),
            // Whoever asked for it is told that it was not begun.
            How::Later(_) if manual => ("failed", Some(NOT_NOW)),
            How::Later(after) => {
                let tried = session.is_some();
                return self.rows.release(claimed, *after, tried, None).await;
            }
        };
        if state == "failed" {
            let why = reason.unwrap_or_default();
            tracing::warn!(butler = %self.butler, schedule = %claimed.task.name, fire_at = %claimed.fire_at, "a run failed: {why}");
        }
        if !self.rows.settle(claimed, &Settlement { state, reason, session }, now).await? {
            tracing::warn!(schedule = %claimed.task.name, "somebody else holds this run; nothing was settled");
        }
        Ok(())
    }
}

/// What is told of a run by hand that could not begin.
pub(super) const NOT_NOW: &str = "it could not begin now: its butler is busy or is stopping; try again later";

/// How long it is until then, by the household's clock.
fn until(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default()
}
