//! The pump: claims what is due, lets it leave, and writes what became of it. Start-up and steady state are the same
//! code: what a killed run left under way is a row like any other.

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use jiff::SignedDuration;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::channel::{Channel, Conversation, Outcome};
use super::delivery::{Delivery, Intent};
use super::handle::{DeliveryEvent, Outbox};
use super::outbox::{CLAIMS, Claimed, Settled};
use super::{BUTLERD, quiet};
use base::{Backoff, Priority, TenantId, crash, task};
use store::{StoreError, settle};

/// Rows are looked for this often even if nobody says that there are any.
const LOOK: Duration = Duration::from_secs(15);
/// After a look that failed.
const AGAIN: Duration = Duration::from_secs(1);
/// Lanes that are served at the same time.
const SLOTS: usize = 8;
/// So many tries that failed, then it is dead.
const TRIES: i32 = 10;
/// What the other side puts off is put off no longer than this after it was due.
const PATIENCE: SignedDuration = SignedDuration::from_hours(24);
/// The longest wait that another side may ask for at a time.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// What follows from a delivery outside of this room.
#[async_trait]
pub trait DeliveryHooks: Send + Sync {
    /// A butler's letter was sent: an answer to it would come from here.
    async fn sent(&self, tenant: &TenantId, origin: &str, from: &Conversation) -> Result<(), StoreError>;
    /// A butler has a row about a bad end.
    fn told(&self, origin: &str);
}

/// The pump of a messenger that is up.
pub struct Pump {
    outbox: Outbox,
    tasks: Vec<JoinHandle<()>>,
    stop: CancellationToken,
    /// A butler that dies takes its pump along, or the next one would stand beside it.
    _ends: DropGuard,
}

struct Inner {
    outbox: Outbox,
    hooks: Arc<dyn DeliveryHooks>,
    slots: Arc<Semaphore>,
    /// Rows that are dealt with here, whatever their leases say.
    in_hand: Mutex<HashSet<Uuid>>,
    working: TaskTracker,
    stop: CancellationToken,
}

/// How long after so many failures; tests make it shorter.
fn pause(failures: i32) -> Duration {
    use std::sync::OnceLock;
    static FIRST: OnceLock<Duration> = OnceLock::new();
    let wanted = || std::env::var("BUTLERD_DELIVERY_PAUSE_MS").ok()?.parse().ok().filter(|_| cfg!(debug_assertions));
    let first = *FIRST.get_or_init(|| wanted().map_or(Duration::from_secs(2), Duration::from_millis));
    let mut backoff = Backoff::new(first, first * 300);
    let delays = (0..failures.max(1)).map(|_| backoff.next_delay());
    delays.last().unwrap_or_default()
}

impl Pump {
    /// Puts the channels up, takes over what the last run left, then begins to work. `configured`: names of channels
    /// that shall be there, also where they are not just now.
    pub async fn start(
        outbox: &Outbox,
        channels: Vec<Arc<dyn Channel>>,
        configured: &[String],
        hooks: Arc<dyn DeliveryHooks>,
    ) -> Result<Self, StoreError> {
        enlist(outbox, &channels, configured).await?;
        outbox.set_channels(channels);
        outbox.release_untried(true).await?;
        let lost = outbox.expire_own().await?;
        if lost > 0 {
            tracing::warn!(deliveries = lost, "the last run ended while these were being sent");
        }
        let stop = CancellationToken::new();
        let inner = Arc::new(Inner {
            outbox: outbox.clone(),
            hooks,
            slots: Arc::new(Semaphore::new(SLOTS)),
            in_hand: Mutex::default(),
            working: TaskTracker::new(),
            stop: stop.clone(),
        });
        let tasks = vec![
            task::spawn(task::Kind::Actor, "outbox-pump", inner.run()),
            task::spawn(task::Kind::Actor, "owner-notices", super::notices::keep(outbox.clone(), stop.clone())),
        ];
        Ok(Self { outbox: outbox.clone(), tasks, _ends: stop.clone().drop_guard(), stop })
    }

    /// Cancelled as it is closed.
    pub fn stopping(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Sends nothing more; what is under way comes to its end.
    pub fn close(&self) {
        self.stop.cancel();
    }

    /// Waits until nothing is under way.
    pub async fn ended(self, within: Duration) {
        let all = futures_util::future::join_all(self.tasks);
        if tokio::time::timeout(within, all).await.is_err() {
            tracing::warn!("deliveries did not come to their end before the stop; the next start looks at them");
        }
        self.outbox.set_channels(Vec::new());
    }
}

/// Notes which channels carry answers, for those who answer. A channel that failed to start keeps its answers waiting.
async fn enlist(outbox: &Outbox, channels: &[Arc<dyn Channel>], configured: &[String]) -> Result<(), StoreError> {
    let failed = || StoreError::query("noting the channels");
    let names: Vec<&str> = channels.iter().map(|c| c.name()).collect();
    let answers: Vec<bool> = channels.iter().map(|c| c.answers()).collect();
    let mut lease = outbox.db().every_tenant().await?;
    lease
        .execute("DELETE FROM shared.channels WHERE name <> ALL($1) AND name <> ALL($2)", &[&names, &configured])
        .await
        .map_err(failed())?;
    lease
        .execute(
            "INSERT INTO shared.channels (name, answers, tenant_id)
             SELECT name, answers, $3 FROM unnest($1::text[], $2::bool[]) c(name, answers)
             ON CONFLICT (name) DO UPDATE SET answers = excluded.answers",
            &[&names, &answers, &TenantId::owner().as_str()],
        )
        .await
        .map_err(failed())?;
    Ok(())
}

impl Inner {
    fn in_hand(&self) -> std::sync::MutexGuard<'_, HashSet<Uuid>> {
        self.in_hand.lock().unwrap_or_else(|e| e.into_inner())
    }

    async fn run(self: Arc<Self>) {
        while !self.stop.is_cancelled() {
            let next = match self.round().await {
                Ok(next) => next,
                Err(e) => {
                    tracing::warn!(error = %e, "the outbox can't be read");
                    AGAIN
                }
            };
            tokio::select! {
                () = self.stop.cancelled() => break,
                () = self.outbox.inner.wake.notified() => {}
                () = tokio::time::sleep(next) => {}
            }
        }
        self.working.close();
        self.working.wait().await;
    }

    /// Looks at the rows once. Returns when to look again.
    async fn round(self: &Arc<Self>) -> Result<Duration, StoreError> {
        self.outbox.release_untried(false).await?;
        while !self.stop.is_cancelled() {
            let Ok(slot) = self.slots.clone().try_acquire_owned() else { return Ok(LOOK) };
            let in_hand: Vec<Uuid> = self.in_hand().iter().copied().collect();
            let next = match self.outbox.claim_lost(&in_hand).await? {
                Some(lost) => Some(lost),
                None => self.outbox.claim().await?,
            };
            let Some(claimed) = next else { break };
            self.in_hand().insert(claimed.delivery.id);
            let this = self.clone();
            let work = self.working.track_future(async move {
                this.deal_with(&claimed).await;
                this.in_hand().remove(&claimed.delivery.id);
                drop(slot);
                this.outbox.wake();
            });
            task::spawn(task::Kind::Job, "delivery", work);
        }
        self.follow().await?;
        Ok(self.outbox.next_due().await?.unwrap_or(LOOK).min(LOOK))
    }

    async fn deal_with(&self, claimed: &Claimed) {
        crash::point("outbox.claimed");
        let work = self.tried(claimed);
        let holding = CLAIMS.hold(self.outbox.db(), claimed.claim);
        tokio::pin!(work);
        let tried = tokio::select! {
            tried = &mut work => tried,
            // What has left has left: its end is awaited, though it can't be settled any more.
            () = holding => work.await,
        };
        let Some((settled, outcome)) = tried else { return };
        match settle("a delivery", claimed.delivery.id, || self.outbox.settle(claimed, &settled, outcome)).await {
            Some(true) => {
                crash::point("outbox.settled");
                self.over(claimed, &settled);
            }
            Some(false) => {
                tracing::warn!(delivery = %claimed.delivery.id, "somebody else holds this row; nothing was settled");
            }
            None => {}
        }
    }

    /// One try, and what follows for the row. `None`: it is not in these hands any more.
    async fn tried(&self, claimed: &Claimed) -> Option<(Settled, Option<&'static str>)> {
        let delivery = &claimed.delivery;
        let channel = self.outbox.channel(&delivery.channel);
        if let Some(repeatable) = claimed.lost {
            return Some(self.lost(claimed, channel.as_deref(), repeatable).await);
        }
        let Some(channel) = channel else {
            let why = format!("the messenger has no channel {} just now", delivery.channel);
            return Some((self.put_off(claimed, why, Duration::from_secs(10)), None));
        };
        if let Some(later) = self.not_yet(claimed, &*channel).await {
            return Some((later, None));
        }
        let repeatable = channel.repeatable(delivery);
        let lane = channel.conversation(delivery).map(|from| from.lane());
        let n = match self.outbox.begin_try(claimed, repeatable, lane.as_ref()).await {
            Ok(n) => n?,
            Err(e) => {
                tracing::warn!(delivery = %delivery.id, error = %e, "a try could not be begun");
                return Some((Settled::Later { due: None, after: AGAIN }, None));
            }
        };
        crash::point("outbox.sending");
        let delivery = Delivery { attempt: n, ..delivery.clone() };
        let outcome = AssertUnwindSafe(channel.send(&delivery)).catch_unwind().await;
        let outcome = outcome.unwrap_or_else(|_| Outcome::Unknown { why: "the channel broke down".to_owned() });
        crash::point("outbox.sent");
        let name: &str = (&outcome).into();
        Some((self.of_outcome(claimed, &*channel, outcome, repeatable), Some(name)))
    }

    /// Why it does not go just now: quiet hours have begun, or its lane has had its share.
    async fn not_yet(&self, claimed: &Claimed, channel: &dyn Channel) -> Option<Settled> {
        let delivery = &claimed.delivery;
        if delivery.intent == Intent::Send && delivery.priority != Priority::High {
            let owner = self.outbox.owner();
            if let Some(end) = quiet::until(self.outbox.clock().now(), owner.quiet_hours, &owner.zone) {
                return Some(Settled::Later { due: Some((end, "quiet_hours")), after: Duration::ZERO });
            }
        }
        match self.outbox.lane_wait(claimed, channel.per_minute(delivery)?).await {
            Ok(wait) => wait.map(|after| Settled::Later { due: None, after }),
            Err(e) => {
                tracing::warn!(delivery = %delivery.id, error = %e, "how much a lane has had can't be read");
                Some(Settled::Later { due: None, after: AGAIN })
            }
        }
    }

    /// It was under way, and nobody is there who saw its end.
    async fn lost(
        &self,
        claimed: &Claimed,
        channel: Option<&dyn Channel>,
        repeatable: bool,
    ) -> (Settled, Option<&'static str>) {
        let why = "butlerd was ended while this was being sent".to_owned();
        if repeatable {
            return (Settled::Again { why, after: Duration::ZERO, failed: true }, Some("lost"));
        }
        let seen = match channel {
            Some(channel) => channel.reconcile(&claimed.delivery).await,
            None => None,
        };
        match (seen, channel) {
            (Some(outcome), Some(channel)) => (self.of_outcome(claimed, channel, outcome, false), Some("lost")),
            _ => (Settled::Unknown { why: format!("{why}; it may have arrived"), reason: "lost" }, Some("lost")),
        }
    }

    fn of_outcome(&self, claimed: &Claimed, channel: &dyn Channel, outcome: Outcome, repeatable: bool) -> Settled {
        let delivery = &claimed.delivery;
        match outcome {
            Outcome::Sent { receipt } => {
                let spoken = delivery.intent == Intent::Send && delivery.origin != BUTLERD;
                Settled::Sent { receipt, follow: spoken && channel.conversation(delivery).is_some() }
            }
            Outcome::Refused { why } => Settled::Failed { why, reason: "refused" },
            Outcome::Unknown { why } if repeatable => self.again(claimed, why),
            Outcome::Unknown { why } => Settled::Unknown { why, reason: "no_answer" },
            Outcome::NotSent { why, retry_after: Some(after) } => self.put_off(claimed, why, after),
            Outcome::NotSent { why, retry_after: None } => self.again(claimed, why),
        }
    }

    /// Another try, unless there were enough.
    fn again(&self, claimed: &Claimed, why: String) -> Settled {
        let failures = claimed.failures + 1;
        if failures >= TRIES {
            return Settled::Dead { why: format!("{why} (tried {failures} times)"), reason: "exhausted" };
        }
        Settled::Again { why, after: pause(failures), failed: true }
    }

    /// Not now, and by no fault of its own; but not for ever.
    fn put_off(&self, claimed: &Claimed, why: String, after: Duration) -> Settled {
        if self.outbox.clock().now().duration_since(claimed.due_at) > PATIENCE {
            return Settled::Dead { why: format!("{why} (for more than a day)"), reason: "expired" };
        }
        Settled::Again { why, after: after.min(LONGEST_WAIT), failed: false }
    }

    fn over(&self, claimed: &Claimed, settled: &Settled) {
        let delivery = &claimed.delivery;
        let Some(state) = settled.end() else { return };
        match settled {
            Settled::Sent { .. } => tracing::debug!(delivery = %delivery.id, channel = delivery.channel, "sent"),
            Settled::Unknown { why, .. } | Settled::Failed { why, .. } | Settled::Dead { why, .. } => {
                tracing::warn!(
                    delivery = %delivery.id, origin = delivery.origin, channel = delivery.channel, state, error = why,
                    "a delivery has come to a bad end"
                );
                self.outbox.alarm();
            }
            Settled::Again { .. } | Settled::Later { .. } => {}
        }
        let (delivery, tenant, channel) = (delivery.id, delivery.tenant.clone(), delivery.channel.clone());
        self.outbox.tell(DeliveryEvent { delivery, tenant, channel, state });
    }

    /// Does what follows from deliveries that are at their end, as often as it takes.
    async fn follow(&self) -> Result<(), StoreError> {
        for ended in self.outbox.to_follow().await? {
            if ended.sent {
                let channel = self.outbox.channel(&ended.delivery.channel);
                if let Some(from) = channel.and_then(|channel| channel.conversation(&ended.delivery)) {
                    self.hooks.sent(&ended.delivery.tenant, &ended.delivery.origin, &from).await?;
                }
            }
            if self.outbox.followed(&ended).await? {
                self.hooks.told(&ended.delivery.origin);
            }
        }
        Ok(())
    }
}
