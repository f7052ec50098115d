//! The frame of every channel that brings messages in: it holds the account, takes in what the channel has, and moves
//! the checkpoint behind that.
//!
//! One rule carries it: a message is committed before the checkpoint moves past it, and taking it in again is known by
//! the channel's own id. So a kill at any instant costs at most a second look at what was taken in.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use crate::background::{Background, TaskError};
use crate::contract::ModuleContext;
use base::{Backoff, TenantId, Trust, crash, text};
use inbox::{AcceptError, Accepted, Account, AccountHealth, Taken, account_lease};
use outbox::{BUTLERD, CHAT, OwnerNote};

/// After a fault that passes.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Short enough that what came in the meantime is seen within a minute of a server's return.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A fault that only the owner can mend is looked at this often.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// Whether another daemon still serves the account.
const STANDBY: Duration = Duration::from_secs(5);
/// A message that the household can't take just now is tried again at least this often.
const HAND_IN_AGAIN: Duration = Duration::from_secs(10);
/// Strangers' messages for which there is no room are tried again so often, so far apart.
const NO_ROOM_TRIES: u32 = 10;
const NO_ROOM_PAUSE: Duration = Duration::from_secs(2);
/// Faults one after the other, then the owner hears that somebody else takes the messages.
const CONTESTED_TOLD: u32 = 4;

/// One message as the channel has it.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// As the channel numbers it, for whoever looks for it later.
    pub id: String,
    /// In the words of `ingest.v1`.
    pub envelope: Map<String, Value>,
}

/// What one look at the channel brought.
#[derive(Clone, Debug)]
pub struct Batch {
    /// In their order. One that can't even be put into words says why.
    pub messages: Vec<Result<Incoming, Unreadable>>,
    /// Where the next look begins, once all of these are taken in.
    pub cursor: Value,
}

/// Something on the channel that is no message for the household.
#[derive(Clone, Debug)]
pub struct Unreadable {
    pub id: String,
    pub why: String,
}

/// Why a channel gave nothing.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SourceError {
    /// It passes by itself. `after`: the channel said when.
    #[error("{why}")]
    Later { why: String, after: Option<Duration> },
    /// Somebody else takes its messages away.
    #[error("{0}")]
    Contested(String),
    /// Only the owner can mend it: the sentence says how.
    #[error("{0}")]
    Owner(String),
}

/// A channel's side of a connector.
///
/// # Examples
///
/// A channel that never has anything:
///
/// ```
/// use modules::{Batch, Source, SourceError};
/// use serde_json::{Value, json};
///
/// struct Silence;
///
/// #[async_trait::async_trait]
/// impl Source for Silence {
///     fn kind(&self) -> &'static str {
///         "silence"
///     }
///     fn channel(&self) -> &'static str {
///         "silence"
///     }
///     fn endpoint(&self) -> String {
///         "here".to_owned()
///     }
///     async fn open(&self) -> Result<(), SourceError> {
///         Ok(())
///     }
///     async fn fetch(&self, _: Option<&Value>) -> Result<Batch, SourceError> {
///         std::future::pending().await
///     }
/// }
///
/// assert_eq!(Silence.kind(), "silence");
/// ```
#[async_trait]
pub trait Source: Send + Sync {
    /// The connector's type: `telegram_bot`, `imap`, …
    fn kind(&self) -> &'static str;
    /// The channel whose messages it brings.
    fn channel(&self) -> &'static str;
    /// The household's own end, as its messages name it.
    fn endpoint(&self) -> String;
    /// Proves that the account can be served, before the first look and after each fault.
    async fn open(&self) -> Result<(), SourceError>;
    /// Waits, for a bounded time, for what came behind the cursor. Dropped at a stop: it must change nothing that the
    /// next look needs. `None`: nothing was ever taken in.
    async fn fetch(&self, cursor: Option<&Value>) -> Result<Batch, SourceError>;
    /// What the channel can do here, once it was opened: `pairs_at` is the address at which a pairing code is shown,
    /// without the code.
    fn capabilities(&self) -> Option<Value> {
        None
    }
    /// A message is committed. What is done here may be lost by a kill.
    fn taken(&self, _: &Incoming, _: &Accepted) {}
}

/// A connector: the background task that serves one account of a channel.
pub struct Connector<S> {
    source: Arc<S>,
    cx: ModuleContext,
    account: Account,
    counted: Mutex<Counted>,
    /// The module's note is of this connector's fault, and not of another account's.
    noted: AtomicBool,
}

/// What a run did so far.
#[derive(Default)]
struct Counted {
    ingested: u64,
    duplicates: u64,
    failed: u64,
    looks: u64,
    checkpoints: u64,
    /// Between the channel's time of the newest message and its acceptance.
    lag_ms: Option<i64>,
}

/// Why serving ended.
enum Ended {
    Stopped,
    /// Another daemon has the account.
    Lost,
    Fault(SourceError),
}

/// What became of a message that was handed in.
enum Handed {
    /// It is taken, or refused for good.
    Done,
    /// A stranger's, for whose messages there is no room just now.
    NoRoom(String),
    Ended(Ended),
}

impl<S: Source> Connector<S> {
    /// Serves the source's account for the household's owner.
    pub fn new(cx: &ModuleContext, source: Arc<S>) -> Self {
        let account = cx.inbound.account(&TenantId::owner(), source.kind(), &source.endpoint());
        Self { source, cx: cx.clone(), account, counted: Mutex::default(), noted: AtomicBool::new(false) }
    }

    fn count(&self, change: impl FnOnce(&mut Counted)) {
        change(&mut self.counted.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Shows a fault with the module, or takes back the one that it showed.
    fn note(&self, why: Option<&str>) {
        let noted = self.noted.swap(why.is_some(), Ordering::Relaxed);
        if noted || why.is_some() {
            self.cx.live.note(why.map(|why| format!("{}: {why}", self.account.endpoint())));
        }
    }

    /// Says how it is, where people and tools look.
    async fn show(&self, state: &str, why: Option<&str>, began: Instant) {
        self.note(why);
        let counters = self.counted.lock().unwrap_or_else(PoisonError::into_inner).shown();
        let capabilities = self.source.capabilities();
        let health = AccountHealth {
            state,
            error: why,
            uptime: began.elapsed(),
            counters: &counters,
            capabilities: &capabilities,
        };
        if let Err(e) = self.account.report(&health).await {
            tracing::debug!(connector = self.source.kind(), error = %e, "a connector's state can't be written");
        }
    }

    /// Serves the account from the checkpoint until something ends that.
    async fn serve(&self, mut cursor: Option<Value>, began: Instant, stop: &CancellationToken) -> Ended {
        if let Err(e) = self.source.open().await {
            return Ended::Fault(e);
        }
        self.show("healthy", None, began).await;
        let mut renew = interval(account_lease() / 4);
        renew.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let batch = {
                let fetch = self.source.fetch(cursor.as_ref());
                tokio::pin!(fetch);
                loop {
                    tokio::select! {
                        biased;
                        () = stop.cancelled() => return Ended::Stopped,
                        got = &mut fetch => break got,
                        _ = renew.tick() => match self.renew().await {
                            None => self.show("healthy", None, began).await,
                            Some(ended) => return ended,
                        }
                    }
                }
            };
            crash::point("connector.fetched");
            self.count(|counted| counted.looks += 1);
            let batch = match batch {
                Ok(batch) => batch,
                Err(e) => return Ended::Fault(e),
            };
            if let Some(ended) = self.hand_in_all(batch.messages, began, stop).await {
                return ended;
            }
            if cursor.as_ref() == Some(&batch.cursor) {
                continue;
            }
            crash::point("connector.checkpointing");
            match self.account.checkpoint(&batch.cursor).await {
                Ok(true) => self.count(|counted| counted.checkpoints += 1),
                Ok(false) => return Ended::Lost,
                Err(e) => return Ended::Fault(SourceError::Later { why: e.to_string(), after: None }),
            }
            crash::point("connector.checkpointed");
            cursor = Some(batch.cursor);
        }
    }

    /// Hands these in, in their order; those of strangers for whom there is no room behind all others, and not for ever.
    /// `Some`: the connector can't go on.
    async fn hand_in_all(
        &self,
        messages: Vec<Result<Incoming, Unreadable>>,
        began: Instant,
        stop: &CancellationToken,
    ) -> Option<Ended> {
        let (mut aside, mut renewed) = (Vec::new(), Instant::now());
        for message in messages {
            let message = match message {
                Ok(message) => message,
                Err(Unreadable { id, why }) => match self.refuse(&id, &why).await {
                    None => continue,
                    ended => return ended,
                },
            };
            if renewed.elapsed() > account_lease() / 4 {
                if let Some(ended) = self.renew().await {
                    return Some(ended);
                }
                renewed = Instant::now();
            }
            match self.hand_in(&message, began, stop).await {
                Handed::Done => {}
                Handed::NoRoom(why) => aside.push((message, why)),
                Handed::Ended(ended) => return Some(ended),
            }
        }
        for again in 0..NO_ROOM_TRIES {
            if aside.is_empty() {
                return None;
            }
            self.show("degraded", Some("strangers have sent more than is worked off"), began).await;
            if stop.run_until_cancelled(sleep(NO_ROOM_PAUSE)).await.is_none() {
                return Some(Ended::Stopped);
            }
            for (message, _) in std::mem::take(&mut aside) {
                match self.hand_in(&message, began, stop).await {
                    Handed::Done => {}
                    Handed::NoRoom(why) if again + 1 < NO_ROOM_TRIES => aside.push((message, why)),
                    Handed::NoRoom(why) => {
                        if let Some(ended) = self.refuse(&message.id, &why).await {
                            return Some(ended);
                        }
                    }
                    Handed::Ended(ended) => return Some(ended),
                }
            }
        }
        None
    }

    /// Renews that the account is held. `Some`: it is not any more.
    async fn renew(&self) -> Option<Ended> {
        match self.account.take().await {
            Ok(Taken::Held { .. }) => None,
            Ok(Taken::Elsewhere { .. }) => Some(Ended::Lost),
            Err(e) => Some(Ended::Fault(SourceError::Later { why: e.to_string(), after: None })),
        }
    }

    /// Hands a message in until it is taken, or refused for good.
    async fn hand_in(&self, message: &Incoming, began: Instant, stop: &CancellationToken) -> Handed {
        let mut backoff = Backoff::new(FIRST_PAUSE, HAND_IN_AGAIN);
        loop {
            match self.cx.inbound.accept(self.account.tenant(), message.envelope.clone()).await {
                Ok(accepted) => {
                    crash::point("connector.accepted");
                    let now = self.cx.clock.now();
                    self.count(|counted| counted.took(&accepted, message, now));
                    self.source.taken(message, &accepted);
                    return Handed::Done;
                }
                Err(AcceptError::Invalid(why)) => {
                    return self.refuse(&message.id, &why).await.map_or(Handed::Done, Handed::Ended);
                }
                // That is on record with its sender.
                Err(why @ AcceptError::TooMany { .. }) => {
                    self.left_out(&message.id, &why.to_string());
                    return Handed::Done;
                }
                Err(why @ AcceptError::ShareFull { .. }) => return Handed::NoRoom(why.to_string()),
                // Nothing behind it is taken in before it: the channel keeps all of them.
                Err(why) => {
                    let pause = backoff.next_delay();
                    tracing::debug!(connector = self.source.kind(), why = %why, "a message waits at its channel");
                    self.show("degraded", Some(&why.to_string()), began).await;
                    if stop.run_until_cancelled(sleep(pause)).await.is_none() {
                        return Handed::Ended(Ended::Stopped);
                    }
                    if let Some(ended) = self.renew().await {
                        return Handed::Ended(ended);
                    }
                }
            }
        }
    }

    /// Puts on record that a message is not taken in, before the checkpoint moves past it. `Some`: it can't be noted now.
    async fn refuse(&self, id: &str, why: &str) -> Option<Ended> {
        if let Err(e) = self.account.refuse(id, why).await {
            return Some(Ended::Fault(SourceError::Later { why: e.to_string(), after: None }));
        }
        self.left_out(id, why);
        None
    }

    fn left_out(&self, id: &str, why: &str) {
        let why = text::truncate(why, 300);
        tracing::warn!(connector = self.source.kind(), message = id, why, "a message of a channel was not taken in");
        self.count(|counted| counted.failed += 1);
    }

    /// Waits for whatever a fault needs; the `faults`th in a row.
    async fn recover(
        &self,
        (fault, faults): (&SourceError, u32),
        backoff: &mut Backoff,
        began: Instant,
        stop: &CancellationToken,
    ) {
        let why = fault.to_string();
        let pause = match fault {
            SourceError::Later { after, .. } => {
                let pause = backoff.next_delay();
                after.map_or(pause, |after| after.max(pause))
            }
            SourceError::Contested(_) => backoff.next_delay(),
            SourceError::Owner(_) => LOOK_AGAIN,
        };
        let state = if matches!(fault, SourceError::Later { .. }) { "degraded" } else { "error" };
        tracing::warn!(connector = self.source.kind(), why, again_in = ?pause, "a connector has nothing to serve");
        self.show(state, Some(&why), began).await;
        let stays = matches!(fault, SourceError::Contested(_)) && faults >= CONTESTED_TOLD;
        if stays || matches!(fault, SourceError::Owner(_)) {
            self.tell_owner(&why).await;
        }
        stop.run_until_cancelled(sleep(pause)).await;
    }

    /// Once a day for each reason.
    async fn tell_owner(&self, why: &str) {
        let (kind, endpoint) = (self.source.kind(), self.account.endpoint());
        let day = self.cx.clock.now().to_zoned(self.cx.store.time_zone().clone()).date();
        let note = OwnerNote {
            tenant: self.account.tenant(),
            origin: BUTLERD,
            key: &format!("connector:{kind}:{endpoint}:{day}:{why}"),
            subject: Some("butlerd needs a hand"),
            text: &format!("Messages of {kind} ({endpoint}) are not taken in: {why}"),
            priority: base::Priority::High,
            trust: Trust::System,
            notice: true,
            // Not by the very channel that does not work.
            channel: (self.cx.outbox.owner().notice_channel.as_deref() == Some(self.source.channel())).then_some(CHAT),
            asks: &[],
        };
        if let Err(e) = self.cx.outbox.tell_owner_all(self.account.tenant(), &[note]).await {
            tracing::warn!(connector = kind, error = %e, "the owner can't be told of it yet");
        }
    }
}

impl Counted {
    fn took(&mut self, accepted: &Accepted, message: &Incoming, now: Timestamp) {
        self.ingested += 1;
        self.duplicates += u64::from(accepted.duplicate);
        let sent = message.envelope.get("event").and_then(|event| event["observed_at"].as_str());
        let sent = sent.and_then(|at| at.parse::<Timestamp>().ok());
        self.lag_ms = sent.map(|sent| now.duration_since(sent).max(SignedDuration::ZERO).as_millis() as i64);
    }

    fn shown(&self) -> Value {
        json!({"messages_ingested": self.ingested, "dedupe_accepted": self.duplicates, "messages_failed": self.failed,
               "source_api_calls": self.looks, "checkpoint_saves": self.checkpoints, "lag_ms": self.lag_ms})
    }
}

#[async_trait]
impl<S: Source + 'static> Background for Connector<S> {
    async fn run(&self, stop: CancellationToken) -> Result<(), TaskError> {
        let (began, mut backoff) = (Instant::now(), Backoff::new(FIRST_PAUSE, LONGEST_PAUSE));
        let mut faults = 0;
        while !stop.is_cancelled() {
            let ended = match self.account.take().await {
                Ok(Taken::Held { checkpoint }) => {
                    let served = Instant::now();
                    let ended = self.serve(checkpoint, began, &stop).await;
                    if served.elapsed() > LONGEST_PAUSE {
                        backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
                        faults = 0;
                    }
                    ended
                }
                Ok(Taken::Elsewhere { instance }) => {
                    tracing::debug!(connector = self.source.kind(), instance, "another daemon serves this account");
                    Ended::Lost
                }
                Err(e) => Ended::Fault(SourceError::Later { why: e.to_string(), after: None }),
            };
            match ended {
                Ended::Stopped => {}
                Ended::Lost => {
                    self.note(None);
                    stop.run_until_cancelled(sleep(STANDBY)).await;
                }
                Ended::Fault(fault) => {
                    faults += 1;
                    self.recover((&fault, faults), &mut backoff, began, &stop).await;
                }
            }
        }
        // Another daemon then waits for the lease's end.
        if let Err(e) = self.account.give_back().await {
            tracing::debug!(connector = self.source.kind(), error = %e, "an account was not given back");
        }
        Ok(())
    }
}
