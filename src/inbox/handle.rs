//! The desk: what the whole house knows of the switchboard. It stands as long as the daemon; the switchboard's own
//! workers come and go with that butler.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, RwLock};

use serde_json::Map;
use tokio::sync::{Notify, broadcast, watch};

use super::accept::Acceptor;
use super::lanes::Lanes;
use super::people::OwnerIdentities;
use super::registry::{Listed, Registry};
use super::triage::RuleBook;
use super::types::{AcceptError, Accepted, Envelope, Live, LiveKind};
use base::text::plain_identity;
use base::{Clock, RequestContext, RequestId, TenantId, Trust};
use conversation::ConversationLog;
use sessions::Spawner;
use store::{Database, Store};
use tools::ToolSet;

/// The butler that the desk belongs to.
pub const SWITCHBOARD: &str = "switchboard";
/// Live notices kept for those who watch.
const NOTICES: usize = 1024;

/// What a desk is made of.
pub struct InboxParts {
    pub db: Arc<Database>,
    pub clock: Clock,
    /// What is accepted and answered stands there, too.
    pub conversation: ConversationLog,
    /// Who the owner is on each channel.
    pub owner: OwnerIdentities,
    /// The switchboard's schema.
    pub schema: String,
    /// Who claims rows here: the same after a restart, another one on another machine.
    pub node: String,
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Inbox {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub parts: InboxParts,
    pub rules: RuleBook,
    /// Messages that are not done.
    pub open: Arc<AtomicU64>,
    up: RwLock<Option<Up>>,
    targets: RwLock<BTreeMap<String, Target>>,
    /// Butlers that are being started anew, with how they were known: things for them wait.
    away: RwLock<BTreeMap<String, Option<ButlerRegistration>>>,
    /// Whether every butler that can be there is.
    complete: watch::Sender<bool>,
    /// What the registry says of who is there.
    pub registry: Registry,
    live: broadcast::Sender<Live>,
}

/// What is there while the switchboard is up.
#[derive(Clone)]
pub(super) struct Up {
    pub store: Store,
    pub spawner: Spawner,
    pub acceptor: Acceptor,
    pub lanes: Arc<Lanes>,
}

/// A butler that things can be handed to.
#[derive(Clone)]
pub struct Target {
    pub schema: String,
    pub tools: ToolSet,
    /// How it wants to be known; `None`: messages are not for it.
    pub registration: Option<ButlerRegistration>,
    /// Something new is in its route inbox.
    pub wake: Arc<Notify>,
}

/// A butler's registration.
#[derive(Clone, Debug)]
pub struct ButlerRegistration {
    pub description: String,
    pub endpoint_url: String,
    pub modules: Vec<String>,
    pub liveness_ttl_s: i32,
    pub route_contract_min: i32,
    pub route_contract_max: i32,
}

impl Inbox {
    pub fn new(parts: InboxParts) -> Self {
        let inner = Inner {
            parts,
            rules: RuleBook::default(),
            open: Arc::default(),
            up: RwLock::default(),
            targets: RwLock::default(),
            away: RwLock::default(),
            complete: watch::Sender::new(false),
            registry: Registry::default(),
            live: broadcast::channel(NOTICES).0,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Takes in a message of somebody outside, in the words of `ingest.v1`.
    pub async fn ingest(
        &self,
        tenant: &TenantId,
        envelope: Map<String, serde_json::Value>,
    ) -> Result<Accepted, AcceptError> {
        let envelope = super::envelope::read(envelope)?;
        let up = self.up().ok_or(AcceptError::NotUp)?;
        up.acceptor.accept(tenant, envelope, None).await
    }

    /// Takes in a message of one of the house's own channels, whose door knows how far the sender is believed.
    pub async fn accept(
        &self,
        tenant: &TenantId,
        mut envelope: Envelope,
        trust: Trust,
    ) -> Result<Accepted, AcceptError> {
        super::envelope::tidy(&mut envelope)?;
        let up = self.up().ok_or(AcceptError::NotUp)?;
        up.acceptor.accept(tenant, envelope, Some(trust)).await
    }

    pub(super) fn up(&self) -> Option<Up> {
        self.inner.up.read().unwrap_or_else(|e| e.into_inner()).clone()
    }

    pub(super) fn set_up(&self, up: Option<Up>) {
        *self.inner.up.write().unwrap_or_else(|e| e.into_inner()) = up;
        self.inner.registry.look();
    }

    /// From now on things can be handed to this butler. Its registration is written as soon as that can be done.
    pub fn enrol(&self, butler: &str, target: Target) {
        self.inner.registry.expect(butler);
        self.inner.targets.write().unwrap_or_else(|e| e.into_inner()).insert(butler.to_owned(), target);
        self.no_more_expected(butler);
        self.inner.registry.look();
    }

    /// The butler is about to be started anew: until it is back, or nobody expects it any more, things for it wait.
    pub fn expect_back(&self, butler: &str) {
        let Some(target) = self.target(butler) else { return };
        self.inner.away.write().unwrap_or_else(|e| e.into_inner()).insert(butler.to_owned(), target.registration);
    }

    /// Nothing waits for the butler any more.
    pub fn no_more_expected(&self, butler: &str) {
        self.inner.away.write().unwrap_or_else(|e| e.into_inner()).remove(butler);
    }

    /// Whether the butler is not here and will be in a moment.
    pub(super) fn is_expected(&self, butler: &str) -> bool {
        self.target(butler).is_none() && self.inner.away.read().unwrap_or_else(|e| e.into_inner()).contains_key(butler)
    }

    /// Whether messages that were meant for this butler can go to it, now or in a moment. One that is `named` need not
    /// want to be known.
    pub(super) fn reaches(&self, butler: &str, named: bool) -> bool {
        if let Some(target) = self.target(butler) {
            return named || target.registration.is_some();
        }
        let away = self.inner.away.read().unwrap_or_else(|e| e.into_inner());
        away.get(butler).is_some_and(|registration| named || registration.is_some())
    }

    /// From now on nothing can.
    pub fn withdraw(&self, butler: &str) {
        self.inner.targets.write().unwrap_or_else(|e| e.into_inner()).remove(butler);
    }

    /// Whether the household is complete: every butler was started, and none is being stopped. Messages are taken in at
    /// any time; whose they are is only asked while whoever they may be for can be there.
    pub fn set_complete(&self, complete: bool) {
        self.inner.complete.send_replace(complete);
        if let Some(up) = self.up() {
            up.lanes.wake();
        }
    }

    pub(super) fn complete(&self) -> watch::Receiver<bool> {
        self.inner.complete.subscribe()
    }

    /// The registrations of the butlers that are up here, or will be in a moment.
    pub(super) fn adverts(&self) -> Vec<(String, ButlerRegistration)> {
        let mut all = self.inner.away.read().unwrap_or_else(|e| e.into_inner()).clone();
        let targets = self.inner.targets.read().unwrap_or_else(|e| e.into_inner());
        all.extend(targets.iter().map(|(name, target)| (name.clone(), target.registration.clone())));
        all.into_iter().filter_map(|(name, registration)| Some((name, registration?))).collect()
    }

    /// A butler that is up.
    pub fn target(&self, butler: &str) -> Option<Target> {
        self.inner.targets.read().unwrap_or_else(|e| e.into_inner()).get(butler).cloned()
    }

    /// The butlers that messages can go to now, with what they are for.
    pub fn routable(&self) -> Vec<(String, String)> {
        let eligible = |(name, registration): (String, ButlerRegistration)| {
            let listed = self.inner.registry.of(&name, &registration, self.clock().now());
            listed.routable().then_some((name, registration.description))
        };
        self.adverts().into_iter().filter_map(eligible).collect()
    }

    /// All butlers that are registered, those that are not here included.
    pub fn registered(&self) -> Vec<Listed> {
        self.inner.registry.listed(&self.adverts(), self.clock().now())
    }

    /// The name under which rows are claimed.
    pub fn node(&self) -> &str {
        &self.inner.parts.node
    }

    pub fn db(&self) -> &Arc<Database> {
        &self.inner.parts.db
    }

    /// The log of what was said.
    pub fn conversation(&self) -> &ConversationLog {
        &self.inner.parts.conversation
    }

    pub fn clock(&self) -> &Clock {
        &self.inner.parts.clock
    }

    /// Whether an answer to this request reaches the owner and nobody else: it came in over the house's own door, or under
    /// one of the owner's identities.
    pub fn is_own(&self, request: &RequestContext) -> bool {
        self.is_owners(&request.tenant_id, &request.source_channel, &request.source_sender_identity)
    }

    /// Whether this is the owner's own identity on the channel. On the house's own channels it always is: only those whom
    /// an operator's token let in are there.
    pub fn is_owners(&self, tenant: &TenantId, channel: &str, identity: &str) -> bool {
        let named = self.inner.parts.owner.get(channel);
        super::people::HOUSE_CHANNELS.contains(&channel)
            || *tenant == TenantId::owner() && named.is_some_and(|own| plain_identity(own) == plain_identity(identity))
    }

    /// The switchboard's schema.
    pub fn schema(&self) -> &str {
        &self.inner.parts.schema
    }

    /// The triage rules, as they are read.
    pub fn rules(&self) -> &RuleBook {
        &self.inner.rules
    }

    /// What happens to messages from now on.
    pub fn live(&self) -> broadcast::Receiver<Live> {
        self.inner.live.subscribe()
    }

    /// Tells those who watch.
    pub fn tell(&self, request: RequestId, kind: LiveKind) {
        if matches!(kind, LiveKind::Replied | LiveKind::Routed { .. }) {
            self.conversation().wake();
        }
        // Nobody may watch.
        let _ = self.inner.live.send(Live { request_id: request.0, kind });
    }
}
