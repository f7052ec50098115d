//! The buffer: workers that take accepted messages one by one. Which one is next is looked up in memory ([`Lanes`]);
//! then its row is claimed. What is not in memory the scanner finds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use super::accept::{Acceptor, Bounds};
use super::attempt::{Message, Pass, Tried, interactive, somebody_waits};
use super::handle::{Inbox, Up};
use super::lanes::{Item, Lanes};
use super::limits::SenderLimits;
use super::queue::{RETRY, message_inbox};
use super::scan::Scan;
use super::settlement::Answer;
use super::sql::messages;
use super::turns::OwnersHand;
use super::types::LiveKind;
use base::{HumanDuration, RequestContext, Trust, task};
use config::BufferSection;
use sessions::Spawner;
use store::{
    Claim, Claimed, Database, Handler, Left, Outlook, Queue, QueueOptions, QueueTable, RunningQueue, Store, StoreError,
    Verdict,
};

/// The running buffer of a switchboard that is up.
pub struct Buffer {
    inbox: Inbox,
    queue: RunningQueue,
    tasks: Vec<JoinHandle<()>>,
    /// Dropped, it ends them: a switchboard that dies takes its workers along.
    stop: DropGuard,
}

impl Inbox {
    /// Opens the inbox for messages: releases what the last run held, then begins to work.
    pub async fn open(&self, store: Store, spawner: Spawner, settings: &BufferSection) -> Result<Buffer, StoreError> {
        let wake = Arc::new(Notify::new());
        let lanes = Arc::new(Lanes::new(settings.queue_capacity as usize, wake.clone()));
        let scan = Scan {
            db: self.db().clone(),
            table: message_inbox(self.schema()),
            schema: self.schema().to_owned(),
            lanes: lanes.clone(),
            every: settings.scanner_interval.0,
            grace: settings.scanner_grace.0,
            batch: i64::from(settings.scanner_batch_size),
            oldest: Arc::default(),
            waiting: Arc::new(AtomicU64::new(u64::MAX)),
        };
        let worker = Worker {
            inbox: self.clone(),
            lanes: lanes.clone(),
            table: scan.table.clone(),
            complete: self.butlers().complete(),
            rescan: AtomicBool::default(),
            oldest: scan.oldest.clone(),
            waiting: scan.waiting.clone(),
            hands: OwnersHand::new(settings.worker_count as usize),
        };
        let slots = worker.hands.slots();
        let options =
            QueueOptions { butler: super::SWITCHBOARD.to_owned(), wake, slots, claimers: slots, longest: scan.every };
        let queue = Queue::new(worker, options).start().await?;
        self.inner.open.store(self.not_done().await?, Ordering::Relaxed);
        let acceptor = Acceptor::start(
            store.clone(),
            self.db().queue_metrics().work().clone(),
            self.inner.parts.owner.clone(),
            self.inner.rules.clone(),
            self.conversation().clone(),
            lanes.clone(),
            self.inner.open.clone(),
            Bounds {
                backlog: u64::from(settings.max_backlog),
                sender: SenderLimits { per_hour: settings.stranger_per_hour, per_day: settings.stranger_per_day },
                connector_per_minute: settings.connector_per_minute,
                stranger_files: settings.stranger_files_per_day.0,
            },
        );
        self.set_up(Some(Up { store, spawner, acceptor, lanes }));
        let stop = CancellationToken::new();
        let tasks = vec![
            task::spawn(task::Kind::Actor, "buffer-scanner", scan.keep(stop.clone())),
            task::spawn(task::Kind::Actor, "butler-registry", super::registrar::keep(self.clone(), stop.clone())),
            task::spawn(task::Kind::Actor, "conversation-log", self.conversation().clone().keep(stop.clone())),
        ];
        Ok(Buffer { inbox: self.clone(), queue, tasks, stop: stop.drop_guard() })
    }

    /// How many messages are not done.
    async fn not_done(&self) -> Result<u64, StoreError> {
        messages::not_done(&mut self.db().every_tenant().await?, self.schema()).await
    }
}

/// What is done with messages.
struct Worker {
    inbox: Inbox,
    lanes: Arc<Lanes>,
    table: QueueTable,
    complete: watch::Receiver<bool>,
    /// A claim failed: what became of it, the scanner finds out.
    rescan: AtomicBool,
    /// What the scanner has found.
    oldest: Arc<AtomicU64>,
    waiting: Arc<AtomicU64>,
    /// What others than the owner sent leaves one worker to the owner.
    hands: OwnersHand,
}

/// A row as it was claimed. One of a later version can't be read, and must not keep its lane waiting for ever.
struct Taken {
    item: Item,
    message: Result<Message, Unread>,
}

/// What can be read in any case.
struct Unread {
    /// What its columns say: whom an answer goes to.
    context: Box<RequestContext>,
    envelope: Value,
}

/// Why a message comes to nothing.
struct DeadLetter(String);

#[async_trait]
impl Handler for Worker {
    const NAME: &'static str = "message";
    type Row = Taken;
    type End = DeadLetter;

    fn table(&self) -> &QueueTable {
        &self.table
    }

    fn db(&self) -> &Arc<Database> {
        self.inbox.db()
    }

    fn node(&self) -> &str {
        self.inbox.node()
    }

    async fn claim(&self, _in_hand: &[Uuid]) -> Result<Option<Claimed<Taken>>, StoreError> {
        if self.rescan.swap(false, Ordering::Relaxed) {
            self.lanes.starved.notify_one();
        }
        // Whose a message is can only be told once all butlers are there.
        while *self.complete.borrow()
            && let Some(item) = self.hands.take(|own| self.lanes.take(own), |item| (item.request.0, item.trust))
        {
            match self.claim_item(&item).await {
                Ok(Some(claimed)) => return Ok(Some(claimed)),
                // What stood before it in its lane may have ended in between.
                Ok(None) => self.leave(&item),
                Err(e) => {
                    self.rescan.store(true, Ordering::Relaxed);
                    self.hands.leave(item.request.0);
                    self.lanes.leave(&item, false);
                    return Err(e);
                }
            }
        }
        Ok(None)
    }

    /// When to look for rows is the scanner's business.
    async fn outlook(&self) -> Result<Outlook, StoreError> {
        let (oldest, waiting) = (self.oldest.load(Ordering::Relaxed), self.waiting.load(Ordering::Relaxed));
        Ok(Outlook {
            next: None,
            oldest: Some(Duration::from_secs(oldest)),
            waiting: (waiting != u64::MAX).then_some(waiting),
        })
    }

    async fn run(&self, claimed: &Claimed<Taken>, lost: &CancellationToken) -> Verdict<DeadLetter> {
        let Ok(message) = &claimed.row.message else {
            return Verdict::Settle(DeadLetter("this version of butlerd can't read its request context".to_owned()));
        };
        let tried = if claimed.attempts > RETRY.tries {
            // Tries that ended without a word count as well: each of them may have been the daemon's own end.
            let none = || format!("none of {} tries came to an end", RETRY.tries);
            Tried::Failed(message.last_error.clone().unwrap_or_else(none))
        } else {
            Pass { inbox: &self.inbox, claimed: message, lost }.run().await
        };
        let again = match &tried {
            Tried::Wait { after, why } => Some((*after, why)),
            Tried::Failed(why) if claimed.attempts < RETRY.tries => Some(((RETRY.pause)(claimed.attempts), why)),
            _ => None,
        };
        if let Some((after, why)) = again {
            let kind = LiveKind::Waiting { butler: None, why: why.clone(), after };
            self.inbox.tell(message.item.request, kind);
        }
        match tried {
            // Its lane stays taken until its parts are at their end.
            Tried::HandedOn => Verdict::Gone,
            Tried::Wait { after, why } => Verdict::Wait { after, why },
            Tried::Later(after) => Verdict::Later { after, counts: false },
            Tried::Lost => Verdict::Later { after: Duration::ZERO, counts: false },
            Tried::Failed(why) => Verdict::Retry { dead: DeadLetter(why.clone()), why },
        }
    }

    /// On record as dead, and whoever waits for an answer is told.
    async fn settle(&self, claimed: &Claimed<Taken>, DeadLetter(why): &DeadLetter) -> Result<bool, StoreError> {
        let item = &claimed.row.item;
        let answer = match &claimed.row.message {
            Ok(message) => interactive(message).then(|| {
                let context = Some(Box::new((*message.context).clone()));
                failure(item, why, message.context.trust, context)
            }),
            Err(unread) => somebody_waits(&unread.context.source_channel, &unread.envelope)
                .then(|| failure(item, why, Trust::Stranger, Some(unread.context.clone()))),
        };
        self.inbox.give_up(item, claimed.claim.id, why, answer).await
    }

    fn left(&self, claimed: &Claimed<Taken>, how: Left) {
        self.hands.leave(claimed.claim.row);
        if how != Left::Gone {
            self.leave(&claimed.row.item);
        }
    }
}

impl Worker {
    fn leave(&self, item: &Item) {
        self.hands.leave(item.request.0);
        self.lanes.leave(item, false);
        self.lanes.starved.notify_one();
    }

    /// Claims a message, if it is the next of its lane and nobody holds it.
    async fn claim_item(&self, item: &Item) -> Result<Option<Claimed<Taken>>, StoreError> {
        let Some(up) = self.inbox.up() else { return Ok(None) };
        let mut lease = up.store.tenant(&item.tenant).await?;
        let id = Uuid::now_v7();
        let row = messages::claim(&mut lease, &self.table, item.request.0, (id, self.node())).await?;
        let Some(row) = row else { return Ok(None) };
        let message = match serde_json::from_value(row.context) {
            Ok(context) => Ok(Message {
                item: item.clone(),
                claim: id,
                body: row.body,
                attachments: row.attachments,
                envelope: row.envelope,
                context: Arc::new(context),
                triage: row.triage.and_then(|t| serde_json::from_value(t).ok()),
                classified: row.classified,
                attempts: row.attempts,
                last_error: row.last_error,
            }),
            Err(_) => {
                let (tenant, clock) = (item.tenant.clone(), self.inbox.clock());
                let (channel, endpoint, sender) = (&row.channel, &row.endpoint, &row.sender);
                let root = RequestContext::root(clock, tenant, channel, endpoint, sender, Trust::Stranger);
                let context = RequestContext { request_id: item.request, source_thread_identity: row.thread, ..root };
                Err(Unread { context: Box::new(context), envelope: row.envelope })
            }
        };
        let taken = Taken { item: item.clone(), message };
        Ok(Some(Claimed { claim: Claim { row: item.request.0, id }, attempts: row.attempts, row: taken }))
    }
}

/// What the person is told of a message that came to nothing.
fn failure(item: &Item, why: &str, trust: Trust, context: Option<Box<RequestContext>>) -> Answer {
    let text = format!("Your message could not be dealt with: {why}. It is kept; you can have it tried again.");
    Answer { lane: item.lane.clone(), text, trust, session: None, context, failure: true }
}

impl Buffer {
    /// No message is taken up or taken in any more; what is under way with the butlers goes on.
    pub async fn stop(self, within: Duration) {
        self.queue.close();
        drop(self.stop);
        let tasks = async {
            let all = futures_util::future::join_all(self.tasks);
            if tokio::time::timeout(within, all).await.is_err() {
                let limit = HumanDuration(within);
                tracing::warn!("the buffer's tasks did not end within {limit}; the next start takes their work up");
            }
        };
        tokio::join!(self.queue.ended(within), tasks);
        self.inbox.set_up(None);
    }
}
