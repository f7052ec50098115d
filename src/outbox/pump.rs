//! The pump: claims what is due, lets it leave, and writes what became of it. Start-up and steady state are the same
//! code: what a killed run left under way is a row like any other.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use jiff::SignedDuration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::channel::{Channel, Conversation, Outcome};
use super::delivery::{Delivery, Intent};
use super::handle::{DeliveryEvent, Outbox};
use super::sql::{DeliveryRows, End, Queued, Settled};
use super::{BUTLERD, MESSENGER, quiet, watch};
use base::{Backoff, Priority, TenantId, crash, task};
use store::{Claimed, Database, Handler, Outlook, Queue, QueueOptions, QueueTable, RunningQueue, StoreError, Verdict};

/// Rows are looked for this often even if nobody says that there are any.
const LOOK: Duration = Duration::from_secs(15);
/// After a try that could not be begun.
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
    queue: RunningQueue,
    /// Tells the owner what they should know.
    notices: JoinHandle<()>,
}

/// What the pump works with.
struct Deliveries {
    rows: DeliveryRows,
    outbox: Outbox,
    /// Channels that shall be there, also where they are not just now.
    configured: Vec<String>,
    hooks: Arc<dyn DeliveryHooks>,
}

/// How long after so many failures; tests make it shorter.
fn pause(failures: i32) -> Duration {
    use std::sync::OnceLock;
    static FIRST: OnceLock<Duration> = OnceLock::new();
    let wanted = || crash::variable("BUTLERD_DELIVERY_PAUSE_MS")?.parse().ok();
    let first = *FIRST.get_or_init(|| wanted().map_or(Duration::from_secs(2), Duration::from_millis));
    let mut backoff = Backoff::new(first, first * 300);
    let delays = (0..failures.max(1)).map(|_| backoff.next_delay());
    delays.last().unwrap_or_default()
}

/// How many tries a minute a lane bears; tests that send thousands bear more.
fn per_minute(channel: &dyn Channel, delivery: &Delivery) -> Option<u32> {
    let own = channel.per_minute(delivery)?;
    let wanted = crash::variable("BUTLERD_LANE_PER_MINUTE").and_then(|text| text.parse().ok());
    wanted.or(Some(own))
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
        outbox.enlist(&channels, configured).await?;
        outbox.set_channels(channels);
        let configured = configured.to_vec();
        let work = Deliveries { rows: DeliveryRows::new(outbox), outbox: outbox.clone(), configured, hooks };
        let (butler, wake) = (MESSENGER.to_owned(), outbox.inner.wake.clone());
        let queue = Queue::new(work, QueueOptions { butler, wake, slots: SLOTS, claimers: 1, longest: LOOK });
        let queue = queue.start().await?;
        let watching = watch::keep(outbox.clone(), queue.stopping());
        let notices = task::spawn(task::Kind::Actor, "owner-notices", watching);
        Ok(Self { outbox: outbox.clone(), queue, notices })
    }

    /// Cancelled as it is closed.
    pub fn stopping(&self) -> CancellationToken {
        self.queue.stopping()
    }

    /// Sends nothing more; what is under way comes to its end.
    pub fn close(&self) {
        self.queue.close();
    }

    /// Waits until nothing is under way.
    pub async fn ended(self, within: Duration) {
        let (told, ()) = tokio::join!(tokio::time::timeout(within, self.notices), self.queue.ended(within));
        if told.is_err() {
            tracing::warn!("the owner was still being told of something at the stop; the next start goes on with it");
        }
        self.outbox.set_channels(Vec::new());
    }
}

#[async_trait]
impl Handler for Deliveries {
    const NAME: &'static str = "outbox";
    type Row = Queued;
    type End = End;

    fn table(&self) -> &QueueTable {
        &self.rows.waiting
    }

    fn db(&self) -> &Arc<Database> {
        self.outbox.db()
    }

    fn node(&self) -> &str {
        self.outbox.node()
    }

    async fn recover(&self) -> Result<u64, StoreError> {
        self.rows.recover().await
    }

    /// A row of a lane is claimed only where no claim is on any other, so what nobody holds any more is given back
    /// first.
    async fn prepare(&self, in_hand: &[Uuid]) -> Result<(), StoreError> {
        self.table().give_back_lapsed(self.db(), Duration::ZERO, in_hand).await.map(drop)
    }

    async fn claim(&self, in_hand: &[Uuid]) -> Result<Option<Claimed<Queued>>, StoreError> {
        match self.rows.claim_lost(in_hand).await? {
            None => self.rows.claim(in_hand).await,
            lost => Ok(lost),
        }
    }

    async fn follow(&self) -> Result<(), StoreError> {
        for (delivery, sent) in self.rows.to_follow().await? {
            if sent {
                let channel = self.outbox.channel(&delivery.channel);
                if let Some(from) = channel.and_then(|channel| channel.conversation(&delivery)) {
                    self.hooks.sent(&delivery.tenant, &delivery.origin, &from).await?;
                }
            }
            if self.rows.followed(&delivery).await? {
                self.hooks.told(&delivery.origin);
            }
        }
        Ok(())
    }

    async fn outlook(&self) -> Result<Outlook, StoreError> {
        self.rows.outlook().await
    }

    /// What has left has left: its end is awaited, though it can't be settled once the claim is lost.
    async fn run(&self, claimed: &Claimed<Queued>, _lost: &CancellationToken) -> Verdict<End> {
        self.attempt(claimed).await.map_or(Verdict::Gone, Verdict::Settle)
    }

    /// Whether it was under way by then, its row says once its lease is over.
    fn broke(&self, _claimed: &Claimed<Queued>, _why: &str) -> Verdict<End> {
        Verdict::Gone
    }

    async fn settle(&self, claimed: &Claimed<Queued>, end: &End) -> Result<bool, StoreError> {
        let held = self.rows.settle(claimed.claim, end, claimed.row.delivery.has_files).await?;
        if held {
            self.over(&claimed.row.delivery, &end.settled);
        }
        Ok(held)
    }
}

impl Deliveries {
    /// One try, and what follows for the row. `None`: it is not in these hands any more.
    async fn attempt(&self, claimed: &Claimed<Queued>) -> Option<End> {
        let queued = &claimed.row;
        let delivery = &queued.delivery;
        let channel = self.outbox.channel(&delivery.channel);
        if let Some(repeatable) = queued.lost {
            let settled = self.lost(queued, channel.as_deref(), repeatable).await;
            return Some(End { settled, outcome: Some("lost") });
        }
        let untried = |settled| Some(End { settled, outcome: None });
        let Some(channel) = channel else {
            if !self.configured.contains(&delivery.channel) {
                self.outbox.alarm();
                return untried(Settled::Waiting);
            }
            let why = format!("the messenger has no channel {} just now", delivery.channel);
            return untried(self.put_off(queued, why, Duration::from_secs(10)));
        };
        if let Some(later) = self.not_yet(queued, &*channel).await {
            return untried(later);
        }
        let files = match delivery.has_files {
            true => self.rows.files_of(delivery.id).await,
            false => Ok(Vec::new()),
        };
        let files = match files {
            Ok(files) => files,
            Err(e) => {
                tracing::warn!(delivery = %delivery.id, error = %e, "a delivery's files can't be read");
                return untried(Settled::Later { due: None, after: AGAIN });
            }
        };
        let repeatable = channel.repeatable(delivery);
        let lane = channel.conversation(delivery).map(|from| from.lane());
        let n = match self.rows.begin_try(claimed.claim, repeatable, lane.as_ref()).await {
            Ok(n) => n?,
            Err(e) => {
                tracing::warn!(delivery = %delivery.id, error = %e, "a try could not be started");
                return untried(Settled::Later { due: None, after: AGAIN });
            }
        };
        crash::point("outbox.sending");
        let delivery = Delivery { attempt: n, files, ..delivery.clone() };
        let delivery = self.outbox.composed(delivery, queued.trust, channel.at_home());
        let outcome = AssertUnwindSafe(channel.send(&delivery)).catch_unwind().await;
        let outcome = outcome.unwrap_or_else(|_| Outcome::Unknown { why: "the channel broke down".to_owned() });
        crash::point("outbox.sent");
        let name: &str = (&outcome).into();
        Some(End { settled: self.of_outcome(queued, &*channel, outcome, repeatable), outcome: Some(name) })
    }

    /// Why it does not go just now: quiet hours have begun, or its lane has had its share.
    async fn not_yet(&self, queued: &Queued, channel: &dyn Channel) -> Option<Settled> {
        let delivery = &queued.delivery;
        if delivery.intent == Intent::Send && delivery.priority != Priority::High {
            let owner = self.outbox.owner();
            if let Some(end) = quiet::until(self.outbox.clock().now(), owner.quiet_hours, &owner.zone) {
                return Some(Settled::Later { due: Some((end, "quiet_hours")), after: Duration::ZERO });
            }
        }
        match self.rows.lane_wait(queued, per_minute(channel, delivery)?).await {
            Ok(wait) => wait.map(|after| Settled::Later { due: None, after }),
            Err(e) => {
                tracing::warn!(delivery = %delivery.id, error = %e, "a lane's share can't be read");
                Some(Settled::Later { due: None, after: AGAIN })
            }
        }
    }

    /// It was under way, and nobody is there who saw its end.
    async fn lost(&self, queued: &Queued, channel: Option<&dyn Channel>, repeatable: bool) -> Settled {
        let why = "butlerd was ended while this was being sent".to_owned();
        if repeatable {
            return Settled::Again { why, after: Duration::ZERO, failed: true };
        }
        let seen = match channel {
            Some(channel) => channel.reconcile(&queued.delivery).await,
            None => None,
        };
        match (seen, channel) {
            (Some(outcome), Some(channel)) => self.of_outcome(queued, channel, outcome, false),
            _ => Settled::Unknown { why: format!("{why}; it may have arrived"), reason: "lost" },
        }
    }

    fn of_outcome(&self, queued: &Queued, channel: &dyn Channel, outcome: Outcome, repeatable: bool) -> Settled {
        let delivery = &queued.delivery;
        match outcome {
            Outcome::Sent { receipt } => {
                let spoken = delivery.intent == Intent::Send && delivery.origin != BUTLERD;
                Settled::Sent { receipt, follow: spoken && channel.conversation(delivery).is_some() }
            }
            Outcome::Refused { why } => Settled::Failed { why, reason: "refused" },
            Outcome::Unknown { why } if repeatable => self.again(queued, why),
            Outcome::Unknown { why } => Settled::Unknown { why, reason: "no_answer" },
            Outcome::NotSent { why, retry_after: Some(after) } => self.put_off(queued, why, after),
            Outcome::NotSent { why, retry_after: None } => self.again(queued, why),
        }
    }

    /// Another try, unless there were enough.
    fn again(&self, queued: &Queued, why: String) -> Settled {
        let failures = queued.failures + 1;
        if failures >= TRIES {
            return Settled::Dead { why: format!("{why} (tried {failures} times)"), reason: "exhausted" };
        }
        Settled::Again { why, after: pause(failures), failed: true }
    }

    /// Not now, and by no fault of its own; but not for ever.
    fn put_off(&self, queued: &Queued, why: String, after: Duration) -> Settled {
        if self.outbox.clock().now().duration_since(queued.due_at) > PATIENCE {
            return Settled::Dead { why: format!("{why} (for more than a day)"), reason: "expired" };
        }
        Settled::Again { why, after: after.min(LONGEST_WAIT), failed: false }
    }

    fn over(&self, delivery: &Delivery, settled: &Settled) {
        let Some(state) = settled.end() else { return };
        self.outbox.db().queue_metrics().work().delivery_ended(&delivery.channel, state);
        match settled {
            Settled::Sent { .. } => tracing::debug!(delivery = %delivery.id, channel = delivery.channel, "sent"),
            Settled::Unknown { why, .. } | Settled::Failed { why, .. } | Settled::Dead { why, .. } => {
                tracing::warn!(
                    delivery = %delivery.id, origin = delivery.origin, channel = delivery.channel, state, error = why,
                    "a delivery has come to a bad end"
                );
                self.outbox.alarm();
            }
            Settled::Again { .. } | Settled::Later { .. } | Settled::Waiting => {}
        }
        let (delivery, tenant, channel) = (delivery.id, delivery.tenant.clone(), delivery.channel.clone());
        self.outbox.tell(DeliveryEvent { delivery, tenant, channel, state });
    }
}
