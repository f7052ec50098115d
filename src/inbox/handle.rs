//! The inbox: what the whole house knows of the switchboard. It stands as long as the daemon; the switchboard's own
//! workers come and go with that butler.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, RwLock};

use serde_json::Map;
use tokio::sync::broadcast;

use super::accept::Acceptor;
use super::directory::ButlerDirectory;
use super::lanes::Lanes;
use super::people::OwnerIdentities;
use super::settlement::HandedWork;
use super::triage::RuleBook;
use super::types::{AcceptError, Accepted, Envelope, Live, LiveKind};
use access::Grant;
use base::text::plain_identity;
use base::{Clock, RequestContext, RequestId, TenantId, Trust};
use conversation::ConversationLog;
use sessions::{SessionEvent, Spawner};
use store::{Database, Store};
use tools::{EgressRecipient, EgressTarget};

/// The butler that the inbox belongs to.
pub const SWITCHBOARD: &str = "switchboard";
/// Live notices kept for those who watch.
const NOTICES: usize = 1024;

/// What an inbox is made of.
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
    /// What butlers keep of what was handed to them.
    pub handed: Arc<dyn HandedWork>,
    /// What happens in sessions, as it happens.
    pub events: broadcast::Sender<SessionEvent>,
}

/// Who hands in a message from outside.
#[derive(Clone, Copy, Debug)]
pub enum HandedInBy<'a> {
    /// A program with this token: it is believed on who writes where it speaks for the end of the channel.
    Token(&'a Grant),
    /// A module of this build, on a channel of its own.
    Module,
}

impl HandedInBy<'_> {
    fn may(self, envelope: &Envelope) -> Result<(), AcceptError> {
        let HandedInBy::Token(grant) = self else { return Ok(()) };
        let (channel, endpoint) = (&envelope.source.channel, &envelope.source.endpoint_identity);
        let of = || (channel.clone(), endpoint.clone());
        if !grant.hands_in(channel, endpoint) {
            let (channel, endpoint) = of();
            return Err(AcceptError::Foreign { channel, endpoint });
        }
        if envelope.sender.is_authenticated() && !grant.speaks_for(channel, endpoint) {
            let (channel, endpoint) = of();
            return Err(AcceptError::Unproven { channel, endpoint });
        }
        Ok(())
    }
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
    /// The butlers that things can be handed to.
    butlers: ButlerDirectory,
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

impl Inbox {
    pub fn new(parts: InboxParts) -> Self {
        let butlers = ButlerDirectory::new(parts.clock.clone());
        let inner = Inner {
            parts,
            butlers,
            rules: RuleBook::default(),
            open: Arc::default(),
            up: RwLock::default(),
            live: broadcast::channel(NOTICES).0,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Takes in a message of somebody outside, in the words of `ingest.v1`. Who hands it in must speak for the end of
    /// the channel that it came through.
    pub async fn ingest(
        &self,
        tenant: &TenantId,
        envelope: Map<String, serde_json::Value>,
        by: HandedInBy<'_>,
    ) -> Result<Accepted, AcceptError> {
        let envelope = super::envelope::read(envelope)?;
        by.may(&envelope)?;
        let acceptor = self.acceptor()?;
        if matches!(by, HandedInBy::Module) {
            acceptor.may_go_on(tenant, &envelope.source).await?;
        }
        acceptor.accept(tenant, envelope, None).await
    }

    /// Takes in a message of one of the house's own channels, whose door knows how far the sender is believed.
    pub async fn accept(
        &self,
        tenant: &TenantId,
        mut envelope: Envelope,
        trust: Trust,
    ) -> Result<Accepted, AcceptError> {
        super::envelope::tidy(&mut envelope)?;
        self.acceptor()?.accept(tenant, envelope, Some(trust)).await
    }

    /// The way in, while there is one.
    fn acceptor(&self) -> Result<Acceptor, AcceptError> {
        match self.db().machine().why() {
            Some(why) => Err(AcceptError::Machine(why)),
            None => Ok(self.up().ok_or(AcceptError::NotUp)?.acceptor),
        }
    }

    pub(super) fn up(&self) -> Option<Up> {
        self.inner.up.read().unwrap_or_else(|e| e.into_inner()).clone()
    }

    pub(super) fn set_up(&self, up: Option<Up>) {
        *self.inner.up.write().unwrap_or_else(|e| e.into_inner()) = up;
        self.inner.butlers.registry.look();
    }

    /// The butlers that things can be handed to.
    pub fn butlers(&self) -> &ButlerDirectory {
        &self.inner.butlers
    }

    /// Whether the household is complete: every butler was started, and none is being stopped. Messages are taken in at
    /// any time; whose they are is only asked while whoever they may be for can be there.
    pub fn set_complete(&self, complete: bool) {
        self.inner.butlers.set_complete(complete);
        if let Some(up) = self.up() {
            up.lanes.wake();
        }
    }

    /// What butlers keep of what was handed to them.
    pub(super) fn handed(&self) -> &dyn HandedWork {
        &*self.inner.parts.handed
    }

    /// The name under which rows are claimed.
    pub fn node(&self) -> &str {
        &self.inner.parts.node
    }

    pub(super) fn events(&self) -> &broadcast::Sender<SessionEvent> {
        &self.inner.parts.events
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

    /// Whether an answer to this request reaches the owner and nobody else: it came in over the house's own door, or
    /// under one of the owner's identities, and not of somebody who only claims that: his thread may lead anywhere.
    pub fn is_own(&self, request: &RequestContext) -> bool {
        !request.group
            && !request.unauthenticated
            && self.is_owners(&request.tenant_id, &request.source_channel, &request.source_sender_identity)
    }

    /// Whom an answer to this request reaches: whoever wrote.
    pub fn answer_reaches(&self, request: &RequestContext) -> EgressTarget {
        let outward = !self.is_own(request);
        let (channel, address) = (request.source_channel.clone(), request.source_sender_identity.clone());
        let to = format!("{address} on {channel}");
        let recipient = Some(EgressRecipient { name: None, channel, address });
        EgressTarget { outward, to, recipient, those: Some(outward.then(|| request.heard_by()).into_iter().collect()) }
    }

    /// Whether this is the owner's own identity on the channel. On the house's own channels it always is: only those
    /// whom an operator's token let in are there.
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
