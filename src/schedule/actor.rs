//! A butler's schedules at work: what is due is written, claimed, let run, and ended once.
//!
//! Start-up and steady state are the same: whatever wakes the queue, it looks at rows. Nothing is known from before.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::dispatch::{Begun, Dispatch, Earlier, Ended, Firing, How, Reply};
use super::idle::QUIET;
use super::sql::{Run, RunRows, SessionPieces, TRIES};
use access::Caller;
use base::{ButlerName, SessionId, TenantId, crash};
use config::SchedulesConfig;
use store::{
    Claimed, Database, Handler, Outlook, Queue, QueueOptions, QueueTable, RunningQueue, Store, StoreError, Verdict,
};

/// The longest sleep: a clock that is set forward is noticed this soon.
const LONGEST: Duration = Duration::from_secs(60);
/// After a try that could not be begun.
const AGAIN: Duration = Duration::from_secs(1);

/// A run that begins so long after its time is late.
const LATE: SignedDuration = SignedDuration::from_secs(60);

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
    /// How often schedules may come.
    pub limits: SchedulesConfig,
    pub target: Arc<dyn Dispatch>,
    /// How its statements look at sessions.
    pub pieces: SessionPieces,
    /// Whoever rings it has written something that may be due.
    pub wake: Arc<Notify>,
}

/// A butler's schedules, for whoever changes or runs them. Cheap to clone.
#[derive(Clone)]
pub struct Scheduler {
    queue: Queue<Worker>,
}

pub(super) struct Worker {
    pub butler: ButlerName,
    pub store: Store,
    pub time_zone: String,
    pub limits: SchedulesConfig,
    pub pieces: SessionPieces,
    rows: RunRows,
    target: Arc<dyn Dispatch>,
}

impl Scheduler {
    pub fn new(parts: SchedulerParts) -> Self {
        let SchedulerParts { butler, db, store, node, slots, time_zone, limits, target, pieces, wake } = parts;
        let options = QueueOptions { butler: butler.to_string(), wake, slots, claimers: 1, longest: LONGEST };
        let rows = RunRows::new(db, store.schema(), node, limits.min_interval.0);
        Self { queue: Queue::new(Worker { butler, store, time_zone, limits, pieces, rows, target }, options) }
    }

    pub(super) fn worker(&self) -> &Worker {
        self.queue.handler()
    }

    /// Takes up what the last run of the daemon left, then begins to work.
    pub async fn start(&self) -> Result<RunningQueue, StoreError> {
        self.queue.start().await
    }

    /// Something was changed: the loop looks at once.
    pub fn wake(&self) {
        self.queue.wake();
    }

    /// Decides on everything that is due now and lets the loop run it. Returns how many runs that makes.
    pub async fn tick(&self) -> Result<usize, StoreError> {
        let n = self.worker().rows.plan(self.worker().now()).await?;
        self.wake();
        Ok(n)
    }

    /// Runs a schedule once, now, and waits for the end; its next time stays. The run goes on when the caller hangs up.
    /// `None`: there is none with this id.
    pub async fn run_now(
        &self,
        tenant: &TenantId,
        id: Uuid,
        caller: Caller,
    ) -> Result<Option<(String, Ended)>, StoreError> {
        let mut name = None;
        let claim = async {
            let claimed = self.worker().rows.claim_now(self.worker().now(), (tenant, id), caller).await?;
            name = claimed.as_ref().map(|claimed| claimed.row.task.name.clone());
            Ok(claimed)
        };
        let verdict = self.queue.work_on(claim).await?;
        Ok(name.map(|name| match verdict {
            Some(Verdict::Settle(ended)) => (name, ended),
            _ => (name, broken()),
        }))
    }
}

#[async_trait]
impl Handler for Worker {
    const NAME: &'static str = "schedule";
    type Row = Run;
    type End = Ended;

    fn table(&self) -> &QueueTable {
        &self.rows.table
    }

    fn db(&self) -> &Arc<Database> {
        &self.rows.db
    }

    fn node(&self) -> &str {
        &self.rows.node
    }

    async fn recover(&self) -> Result<u64, StoreError> {
        let ended = self.rows.end_manual(self.now(), true, &[]).await?;
        Ok(ended + self.table().give_back(self.db(), self.node(), &[], true).await?)
    }

    async fn prepare(&self, in_hand: &[Uuid]) -> Result<(), StoreError> {
        self.rows.plan(self.now()).await?;
        self.rows.end_manual(self.now(), false, in_hand).await.map(drop)
    }

    async fn claim(&self, in_hand: &[Uuid]) -> Result<Option<Claimed<Run>>, StoreError> {
        self.rows.claim(self.now(), self.idle(), in_hand).await
    }

    async fn outlook(&self) -> Result<Outlook, StoreError> {
        self.rows.outlook(self.now(), self.idle()).await
    }

    async fn run(&self, claimed: &Claimed<Run>, lost: &CancellationToken) -> Verdict<Ended> {
        let ended = self.attempt(claimed, lost).await;
        match &ended.how {
            How::Later(after) if !claimed.row.manual => {
                Verdict::Later { after: *after, counts: ended.session.is_some() }
            }
            How::Wait { after, why } if !claimed.row.manual => Verdict::Wait { after: *after, why: why.clone() },
            _ => Verdict::Settle(ended),
        }
    }

    fn broke(&self, claimed: &Claimed<Run>, _why: &str) -> Verdict<Ended> {
        match claimed.row.manual {
            true => Verdict::Settle(broken()),
            false => Verdict::Later { after: AGAIN, counts: true },
        }
    }

    async fn settle(&self, claimed: &Claimed<Run>, ended: &Ended) -> Result<bool, StoreError> {
        let held = self.rows.settle(claimed.claim, ended, self.now()).await?;
        if held {
            let outcome = if matches!(ended.how, How::Done(_)) { "done" } else { "failed" };
            self.rows.db.queue_metrics().work().run_ended(self.butler.as_str(), outcome);
        }
        if let (true, How::Failed(why)) = (held, &ended.how) {
            let Run { task, fire_at, .. } = &claimed.row;
            tracing::warn!(butler = %self.butler, schedule = %task.name, %fire_at, "a run failed: {why}");
        }
        Ok(held)
    }
}

impl Worker {
    fn now(&self) -> Timestamp {
        self.store.clock().now()
    }

    fn idle(&self) -> bool {
        self.target.idle_for().is_some_and(|idle| idle >= QUIET)
    }

    async fn attempt(&self, claimed: &Claimed<Run>, lost: &CancellationToken) -> Ended {
        let failed =
            |session: Option<Uuid>, why: String| Ended { session: session.map(SessionId), how: How::Failed(why) };
        let Claimed { claim, attempts, row: run } = claimed;
        let (task, tenant) = (&run.task, run.task.tenant());
        if run.marked {
            return Ended::without_session(How::Done(None));
        }
        if *attempts > 1 {
            match self.target.earlier(&tenant, claim.row).await {
                Ok(Earlier::Nothing) => {}
                Ok(Earlier::Finished(session)) => {
                    return Ended { session: Some(SessionId(session)), how: How::Done(None) };
                }
                Ok(Earlier::Broken { session, why }) => return failed(Some(session), why),
                Err(e) => {
                    // What was done is not known just now, so nothing may be begun.
                    tracing::warn!(schedule = %task.name, error = %e, "earlier tries can't be read yet");
                    return Ended::without_session(How::Later(AGAIN));
                }
            }
        }
        if *attempts == 1 && !run.manual && self.now().duration_since(run.fire_at) > LATE {
            self.rows.db.queue_metrics().work().run_late(self.butler.as_str());
        }
        if *attempts > TRIES {
            return failed(None, format!("interrupted {TRIES} times before it came to an end"));
        }
        let Begun { session, mut end } = self.target.begin(firing(claimed)).await;
        crash::point("schedule.dispatched");
        let Some(session) = session else { return end.await };
        // The session's own row names the run, which is what a start after a kill goes by.
        if let Err(e) = self.rows.began(*claim, session.0).await {
            tracing::debug!(error = %e, "the session of a schedule run could not be recorded in its row");
        }
        tokio::select! {
            ended = &mut end => ended,
            // The session is cancelled, and its end awaited: it must not go on unwatched.
            () = lost.cancelled() => {
                self.target.cancel(session);
                end.await
            }
        }
    }
}

/// The work on it panicked.
fn broken() -> Ended {
    let why = "butlerd itself failed while it ran this; the daemon's log says where";
    Ended::without_session(How::Failed(why.to_owned()))
}

/// What is asked of whoever runs it.
fn firing(claimed: &Claimed<Run>) -> Firing {
    let Run { fire_at, trust, task, caller, .. } = &claimed.row;
    Firing {
        task_id: task.id,
        run: claimed.claim.row,
        name: task.name.clone(),
        fire_at: *fire_at,
        prompt: task.prompt.clone(),
        job_name: task.job_name.clone(),
        job_args: task.job_args.clone(),
        tenant: task.tenant(),
        trust: *trust,
        reply: task.reply_channel.clone().map(|channel| Reply { channel, to: task.reply_to.clone() }),
        priority: u8::try_from(task.priority).unwrap_or(3),
        caller: caller.clone(),
    }
}
