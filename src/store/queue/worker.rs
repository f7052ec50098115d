//! The loop of a queue: claims rows while there is room, has them worked on, and writes how they end.

use std::any::Any;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::{Notify, RwLock, Semaphore};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::handler::{Claimed, Handler, Left, Verdict};
use super::lease::{lease_seconds, settle};
use super::sql::Claim;
use crate::error::StoreError;
use base::{crash, redact, task};
use telemetry::QueueMeter;

/// After a look that failed.
const AGAIN: Duration = Duration::from_secs(1);
/// The shortest sleep, so that a clock at odds with the timer keeps nobody busy.
const SHORTEST: Duration = Duration::from_millis(5);

/// How a queue is worked on.
pub struct QueueOptions {
    /// Whose it is, for the log and metrics.
    pub butler: String,
    /// Rung by whoever has written something that may be due.
    pub wake: Arc<Notify>,
    /// Rows that are worked on at a time.
    pub slots: usize,
    /// How many look for rows side by side: one, but where claims are so many that one commit after the other is slow.
    pub claimers: usize,
    /// Rows are looked for this often even if nobody says that there are any.
    pub longest: Duration,
}

/// A queue and its handler. Cheap to clone.
pub struct Queue<H: Handler> {
    inner: Arc<Inner<H>>,
}

impl<H: Handler> Clone for Queue<H> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

/// A queue that is worked on.
pub struct RunningQueue {
    name: &'static str,
    tasks: Vec<JoinHandle<()>>,
    stop: CancellationToken,
    /// A butler that dies takes its loops along, or the next one's would stand beside them.
    _ends: DropGuard,
}

struct Inner<H> {
    handler: H,
    options: QueueOptions,
    slots: Arc<Semaphore>,
    /// Rows that are worked on here, whatever their leases say.
    /// With the claim that each is worked on under: a row whose claim was taken away may be claimed here again.
    in_hand: Mutex<HashMap<Uuid, Uuid>>,
    /// Rows whose end could not be written. They are left to their leases: a try that ran counts.
    unwritten: Mutex<HashSet<Uuid>>,
    /// Shared by those who claim, from the statement until the row is in hand; alone for giving back the rest.
    claiming: RwLock<()>,
    /// A claim's answer was lost: there may be a claim that nobody works under.
    stray: AtomicBool,
    working: TaskTracker,
    stop: CancellationToken,
    meter: QueueMeter,
}

/// A row that is worked on here, until dropped; a panic drops it as well.
struct InHand<H: Handler> {
    inner: Arc<Inner<H>>,
    row: Uuid,
    claim: Uuid,
}

impl<H: Handler> Drop for InHand<H> {
    fn drop(&mut self) {
        if let Entry::Occupied(entry) = self.inner.in_hand().entry(self.row)
            && *entry.get() == self.claim
        {
            entry.remove();
        }
        self.inner.options.wake.notify_one();
    }
}

/// The answer to a claim. If it does not come, because of an error or because nobody waits for it any more, there may
/// be a claim that nobody works under.
struct Answer<'a> {
    stray: &'a AtomicBool,
    came: bool,
}

impl Drop for Answer<'_> {
    fn drop(&mut self) {
        if !self.came {
            self.stray.store(true, Ordering::Relaxed);
        }
    }
}

impl<H: Handler> Queue<H> {
    pub fn new(handler: H, options: QueueOptions) -> Self {
        let meter = handler.db().queue_metrics().of(&options.butler, H::NAME);
        let inner = Inner {
            slots: Arc::new(Semaphore::new(options.slots.max(1))),
            handler,
            options,
            in_hand: Mutex::default(),
            unwritten: Mutex::default(),
            claiming: RwLock::default(),
            stray: AtomicBool::default(),
            working: TaskTracker::new(),
            stop: CancellationToken::new(),
            meter,
        };
        Self { inner: Arc::new(inner) }
    }

    pub fn handler(&self) -> &H {
        &self.inner.handler
    }

    /// Something was written: the loop looks at once.
    pub fn wake(&self) {
        self.inner.options.wake.notify_one();
    }

    /// Takes up what the last run left, then begins to work.
    pub async fn start(&self) -> Result<RunningQueue, StoreError> {
        let inner = &self.inner;
        let left = inner.handler.recover().await?;
        if left > 0 {
            let butler = &inner.options.butler;
            tracing::warn!(
                butler,
                queue = H::NAME,
                rows = left,
                "the last run ended with these in hand; they are taken up again"
            );
        }
        let spawn = |n| task::spawn(task::Kind::Actor, H::NAME, inner.clone().run(n == 0));
        let tasks = (0..inner.options.claimers.max(1)).map(spawn).collect();
        let stop = inner.stop.clone();
        Ok(RunningQueue { name: H::NAME, tasks, _ends: stop.clone().drop_guard(), stop })
    }

    /// Works on the row that `claim` claims, beside the loop, and waits for its end; it goes on if the caller does not
    /// wait. `None`: there was none.
    pub async fn work_on<F>(&self, claim: F) -> Result<Option<Verdict<H::End>>, StoreError>
    where
        F: Future<Output = Result<Option<Claimed<H::Row>>, StoreError>>,
    {
        let Some((claimed, here)) = self.inner.take_in_hand(claim).await? else { return Ok(None) };
        let work = self.inner.working.track_future(async move { here.inner.deal_with(&claimed).await });
        Ok(task::spawn(task::Kind::Job, H::NAME, work).await.ok())
    }
}

impl RunningQueue {
    /// Cancelled as it is closed.
    pub fn stopping(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Claims nothing more; what is in hand goes on.
    pub fn close(&self) {
        self.stop.cancel();
    }

    /// Waits until nothing is in hand.
    pub async fn ended(self, within: Duration) {
        let all = futures_util::future::join_all(self.tasks);
        if tokio::time::timeout(within, all).await.is_err() {
            tracing::warn!(
                queue = self.name,
                "the work in hand was not over before the stop; the next start takes it up"
            );
        }
    }
}

impl<H: Handler> Inner<H> {
    fn in_hand(&self) -> std::sync::MutexGuard<'_, HashMap<Uuid, Uuid>> {
        self.in_hand.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn unwritten(&self) -> std::sync::MutexGuard<'_, HashSet<Uuid>> {
        self.unwritten.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn held(&self) -> Vec<Uuid> {
        self.in_hand().keys().copied().collect()
    }

    async fn run(self: Arc<Self>, first: bool) {
        while !self.stop.is_cancelled() {
            if crash::TEST_POINTS {
                crash::panic_point(&format!("queue.{}.{}", H::NAME, self.options.butler));
            }
            let sleep = self.round(first).await.unwrap_or_else(|e| {
                tracing::warn!(butler = self.options.butler, queue = H::NAME, error = %e, "the queue can't be looked at");
                AGAIN
            });
            tokio::select! {
                () = self.stop.cancelled() => break,
                () = self.options.wake.notified() => {}
                () = tokio::time::sleep(sleep) => {}
            }
        }
        self.working.close();
        self.working.wait().await;
    }

    /// Does what is to be done now. Returns when to look again.
    async fn round(self: &Arc<Self>, first: bool) -> Result<Duration, StoreError> {
        if first {
            self.handler.prepare(&self.held()).await?;
        }
        // While the machine fails nothing is begun; what is under way comes to its end.
        while !self.stop.is_cancelled() && self.handler.db().machine().is_up() {
            // Where none is free, whoever ends rings.
            let Ok(slot) = self.slots.clone().try_acquire_owned() else { break };
            self.give_back_strays().await?;
            let held = self.held();
            let Some((claimed, here)) = self.take_in_hand(self.handler.claim(&held)).await? else { break };
            // Another one may look for more meanwhile.
            if self.options.claimers > 1 {
                self.options.wake.notify_one();
            }
            let work = self.working.track_future(async move {
                here.inner.deal_with(&claimed).await;
                drop(slot);
            });
            task::spawn(task::Kind::Job, H::NAME, work);
        }
        if first {
            self.handler.follow().await?;
        }
        let outlook = self.handler.outlook().await?;
        self.meter.outlook(outlook.oldest.unwrap_or_default(), outlook.waiting);
        if !self.handler.db().machine().is_up() {
            return Ok(AGAIN);
        }
        let mut longest = self.options.longest;
        if !H::WATCHED {
            // Of what another node claims after this look nobody tells here. It is seen before that lease can be over.
            longest = longest.min(Duration::from_secs_f64(lease_seconds()));
        }
        Ok(outlook.next.unwrap_or(longest).min(longest).max(SHORTEST))
    }

    async fn take_in_hand<F>(self: &Arc<Self>, claim: F) -> Result<Option<(Claimed<H::Row>, InHand<H>)>, StoreError>
    where
        F: Future<Output = Result<Option<Claimed<H::Row>>, StoreError>>,
    {
        let _claiming = self.claiming.read().await;
        let mut answer = Answer { stray: &self.stray, came: false };
        let claimed = claim.await?;
        answer.came = true;
        Ok(claimed.map(|claimed| {
            let Claim { row, id: claim } = claimed.claim;
            self.in_hand().insert(row, claim);
            self.unwritten().remove(&row);
            (claimed, InHand { inner: self.clone(), row, claim })
        }))
    }

    /// Gives back claims whose answer was lost. Whoever comes here meanwhile waits until that is done.
    async fn give_back_strays(&self) -> Result<(), StoreError> {
        if !self.stray.load(Ordering::Relaxed) {
            return Ok(());
        }
        let _alone = self.claiming.write().await;
        if self.stray.load(Ordering::Relaxed) {
            let mut held = self.held();
            held.extend(self.unwritten().iter());
            self.handler.table().give_back(self.handler.db(), self.handler.node(), &held, false).await?;
            self.stray.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    fn pass(&self, point: &str) {
        if crash::TEST_POINTS {
            crash::point(&format!("{}.{point}", H::NAME));
        }
    }

    async fn deal_with(&self, claimed: &Claimed<H::Row>) -> Verdict<H::End> {
        self.meter.count("claimed");
        self.pass("claimed");
        let (table, Claimed { claim, .. }) = (self.handler.table(), claimed);
        let (lost, rows) = (CancellationToken::new(), [claim.row]);
        let done = {
            let work = AssertUnwindSafe(self.handler.run(claimed, &lost)).catch_unwind();
            tokio::pin!(work);
            tokio::select! {
                done = &mut work => done,
                // Its end is awaited: nothing goes on unwatched.
                () = table.hold(self.handler.db(), claim.id, &rows) => {
                    lost.cancel();
                    work.await
                }
            }
        };
        let (verdict, panicked) = match done {
            Ok(verdict) => (verdict, None),
            Err(panic) => {
                let why = format!("the work on it panicked: {}", message(&*panic));
                tracing::error!(queue = H::NAME, row = %claim.row, error = why, "the work on a row panicked");
                (self.handler.broke(claimed, &why), Some(why))
            }
        };
        self.pass("tried");
        if let (Verdict::Later { after, .. } | Verdict::Wait { after, .. }, None) = (&verdict, table.retry) {
            // Its table has no time to come again: it waits in these hands.
            self.stop.run_until_cancelled(tokio::time::sleep(*after)).await;
        }
        let left = settle(H::NAME, claim.row, || self.conclude(claimed, &verdict, panicked.as_deref())).await;
        let left = left.unwrap_or(Left::Unwritten);
        self.pass("settled");
        if left == Left::Unwritten {
            self.unwritten().insert(claim.row);
        }
        if left == Left::Lost {
            tracing::warn!(queue = H::NAME, row = %claim.row, "another claim holds this row; nothing was settled");
        }
        self.meter.count(left.as_str());
        self.handler.left(claimed, left);
        verdict
    }

    /// Writes what becomes of a row, with the panic that ended the try, if one did.
    async fn conclude(
        &self,
        claimed: &Claimed<H::Row>,
        verdict: &Verdict<H::End>,
        panicked: Option<&str>,
    ) -> Result<Left, StoreError> {
        let table = self.handler.table();
        let written = |held: bool, left: Left| if held { left } else { Left::Lost };
        match verdict {
            Verdict::Gone => Ok(Left::Gone),
            Verdict::Settle(end) => Ok(written(self.handler.settle(claimed, end).await?, Left::Settled)),
            Verdict::Later { after, counts } => {
                let counts = *counts || panicked.is_some();
                let put_back = table.put_back(self.handler.db(), claimed.claim, (*after, counts), panicked);
                Ok(written(put_back.await?, Left::PutBack))
            }
            Verdict::Wait { after, why } => {
                tracing::info!(queue = H::NAME, row = %claimed.claim.row, error = why, "a row waits for what it needs");
                let put_back = table.put_back(self.handler.db(), claimed.claim, (*after, false), Some(why));
                Ok(written(put_back.await?, Left::PutBack))
            }
            Verdict::Retry { why, dead } => match table.retry {
                Some(retry) if claimed.attempts < retry.tries => {
                    tracing::warn!(queue = H::NAME, row = %claimed.claim.row, attempt = claimed.attempts, error = why, "a row is tried again");
                    let after = (retry.pause)(claimed.attempts);
                    let put_back = table.put_back(self.handler.db(), claimed.claim, (after, true), Some(why));
                    Ok(written(put_back.await?, Left::Retried))
                }
                _ => {
                    let held = self.handler.settle(claimed, dead).await?;
                    if held {
                        tracing::error!(queue = H::NAME, row = %claimed.claim.row, error = why, "a row is dead: it failed too often");
                    }
                    Ok(written(held, Left::Dead))
                }
            },
        }
    }
}

/// What a panic says.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    redact::household().clean(text.unwrap_or("it says nothing").to_owned())
}
