//! The post: what the whole house knows of the messenger. It stands as long as the daemon; channels and the worker come
//! and go with that butler.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, RwLock};

use tokio::sync::{Notify, broadcast};
use uuid::Uuid;

use super::channel::Channel;
use super::chat::ChatChannel;
use super::household::{CHAT, Owner};
use super::recipient::ChannelInfo;
use super::sql::notices::NoticeSources;
use base::{Clock, TenantId};
use conversation::ConversationLog;
use store::Database;

/// Live notices kept for those who watch.
const NOTICES: usize = 256;

/// What the post is made of.
pub struct OutboxParts {
    pub db: Arc<Database>,
    pub clock: Clock,
    pub owner: Owner,
    /// What is delivered stands there, too.
    pub conversation: ConversationLog,
    /// The switchboard's schema.
    pub switchboard: String,
    /// Whom the household knows by a name or id, by an identity, of a tenant, each of which is SQL: a query of rows of
    /// `id`, `name`, `channel` and `identity`, one for each way to reach somebody.
    pub people_called: fn(&str, &str, &str) -> String,
    /// Where notices to owners come from.
    pub notices: NoticeSources,
    /// Who claims rows here: the same after a restart, another one on another machine.
    pub node: String,
}

/// A delivery has come to another state. The rows are the truth; who is too slow reads them.
#[derive(Clone, Debug)]
pub struct DeliveryEvent {
    pub delivery: Uuid,
    pub tenant: TenantId,
    pub channel: String,
    pub state: &'static str,
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Outbox {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub parts: OutboxParts,
    channels: RwLock<BTreeMap<String, Arc<dyn Channel>>>,
    /// How many deliveries wait for each channel that is not there, at the last look.
    without_channel: RwLock<BTreeMap<String, u64>>,
    /// Something may be there to send.
    pub wake: Arc<Notify>,
    /// Something may be there to tell the owner.
    pub alarm: Notify,
    told: broadcast::Sender<DeliveryEvent>,
    /// Deliveries whose callers wait for their end, and hear of it themselves.
    waiting: Mutex<HashSet<Uuid>>,
}

impl Outbox {
    pub fn new(parts: OutboxParts) -> Self {
        let inner = Inner {
            parts,
            channels: RwLock::default(),
            without_channel: RwLock::default(),
            wake: Arc::default(),
            alarm: Notify::new(),
            told: broadcast::channel(NOTICES).0,
            waiting: Mutex::default(),
        };
        let outbox = Self { inner: Arc::new(inner) };
        outbox.set_channels(Vec::new());
        outbox
    }

    /// The channels from now on, besides the chat.
    pub(super) fn set_channels(&self, channels: Vec<Arc<dyn Channel>>) {
        let chat: Arc<dyn Channel> = Arc::new(ChatChannel);
        let all = std::iter::once(chat).chain(channels).map(|c| (c.name().to_owned(), c));
        *self.inner.channels.write().unwrap_or_else(|e| e.into_inner()) = all.collect();
    }

    pub(super) fn channel(&self, name: &str) -> Option<Arc<dyn Channel>> {
        self.inner.channels.read().unwrap_or_else(|e| e.into_inner()).get(name).cloned()
    }

    pub(super) fn ways(&self) -> BTreeMap<String, ChannelInfo> {
        let channels = self.inner.channels.read().unwrap_or_else(|e| e.into_inner());
        let way = |c: &Arc<dyn Channel>| ChannelInfo { at_home: c.at_home(), targets: c.targets() };
        channels.iter().map(|(name, channel)| (name.clone(), way(channel))).collect()
    }

    /// Whether answers go out through any channel.
    pub fn carries_answers(&self) -> bool {
        let channels = self.inner.channels.read().unwrap_or_else(|e| e.into_inner());
        channels.values().any(|channel| channel.answers())
    }

    /// Whether an answer to what came in over this channel goes out, or is read where it is.
    pub fn takes_answers(&self, channel: &str) -> bool {
        channel == CHAT || self.channel(channel).is_some_and(|channel| channel.answers())
    }

    /// How many deliveries wait for each channel that this household does not have, as of a few seconds ago.
    pub fn without_channel(&self) -> BTreeMap<String, u64> {
        self.inner.without_channel.read().unwrap_or_else(|e| e.into_inner()).clone()
    }

    pub(super) fn set_waiting(&self, now: BTreeMap<String, u64>) {
        let before =
            std::mem::replace(&mut *self.inner.without_channel.write().unwrap_or_else(|e| e.into_inner()), now.clone());
        let gone = before.into_keys().filter(|channel| !now.contains_key(channel)).map(|channel| (channel, 0));
        let metrics = self.db().queue_metrics();
        gone.chain(now.clone()).for_each(|(channel, waiting)| metrics.waiting_for(&channel, waiting));
    }

    pub(super) fn conversation(&self) -> &ConversationLog {
        &self.inner.parts.conversation
    }

    pub fn owner(&self) -> &Owner {
        &self.inner.parts.owner
    }

    pub fn clock(&self) -> &Clock {
        &self.inner.parts.clock
    }

    pub(super) fn db(&self) -> &Arc<Database> {
        &self.inner.parts.db
    }

    pub(super) fn node(&self) -> &str {
        &self.inner.parts.node
    }

    /// Something was posted.
    pub fn wake(&self) {
        self.inner.wake.notify_one();
    }

    /// Something went wrong that the owner should hear of soon.
    pub fn alarm(&self) {
        self.inner.alarm.notify_one();
    }

    /// What happens to deliveries from now on.
    pub fn live(&self) -> broadcast::Receiver<DeliveryEvent> {
        self.inner.told.subscribe()
    }

    pub(super) fn tell(&self, told: DeliveryEvent) {
        if told.state == "sent" {
            self.conversation().wake();
        }
        // Nobody may listen.
        let _ = self.inner.told.send(told);
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, HashSet<Uuid>> {
        self.inner.waiting.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Somebody waits for the end of this delivery, until the guard is dropped.
    pub(super) fn wait_for(&self, delivery: Uuid) -> Waiting<'_> {
        self.waiting().insert(delivery);
        Waiting { outbox: self, delivery }
    }

    pub(super) fn awaited(&self) -> Vec<Uuid> {
        self.waiting().iter().copied().collect()
    }
}

/// Somebody waits.
pub(super) struct Waiting<'a> {
    outbox: &'a Outbox,
    delivery: Uuid,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.outbox.waiting().remove(&self.delivery);
        self.outbox.wake();
    }
}
