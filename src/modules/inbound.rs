//! A module's way to hand messages of its channels to the inbox.

use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::sync::broadcast;
use uuid::Uuid;

use base::{RequestContext, TenantId};
use inbox::{AcceptError, Accepted, Account, Fate, Following, HOUSE_CHANNELS, HandedInBy, Inbox, Live, Origin, Paired};
use store::StoreError;
use tools::EgressTarget;

/// Takes messages of the channels that the module's manifest declares. Cheap to clone.
#[derive(Clone)]
pub struct Inbound {
    inbox: Inbox,
    channels: Arc<[String]>,
}

impl Inbound {
    /// The handle for a module that declares no channel; it takes nothing.
    pub fn new(inbox: &Inbox) -> Self {
        Self { inbox: inbox.clone(), channels: Arc::default() }
    }

    /// The same for these channels. The household's own channels, whose senders count as the owner, are nobody else's.
    pub(super) fn of(&self, channels: &[String]) -> Self {
        let own = channels.iter().filter(|channel| !HOUSE_CHANNELS.contains(&channel.as_str()));
        Self { inbox: self.inbox.clone(), channels: own.cloned().collect() }
    }

    /// Takes in a message in the words of `ingest.v1`. It is committed when this returns; the same message again gets
    /// the same `request_id`. How far its sender is believed is looked up among the household's contacts, if the module
    /// says that the channel has proven who writes (`sender.authenticated`).
    pub async fn accept(&self, tenant: &TenantId, message: Map<String, Value>) -> Result<Accepted, AcceptError> {
        let channel = message.get("source").and_then(|source| source.get("channel")).and_then(Value::as_str);
        match channel {
            Some(channel) if self.channels.iter().any(|own| own == channel) => {
                self.inbox.ingest(tenant, message, HandedInBy::Module).await
            }
            _ => Err(AcceptError::Invalid(format!(
                "source.channel: the module's manifest declares {}, and not `{}`",
                if self.channels.is_empty() { "no channel".to_owned() } else { self.channels.join(", ") },
                channel.unwrap_or_default()
            ))),
        }
    }

    /// The account that a connector serves, on record.
    pub fn account(&self, tenant: &TenantId, kind: &str, endpoint: &str) -> Account {
        self.inbox.account(tenant, kind, endpoint)
    }

    /// The channel's messages that are not done: their requests.
    pub async fn open_of(&self, tenant: &TenantId, channel: &str) -> Result<Vec<Uuid>, StoreError> {
        self.inbox.open_of(tenant, channel).await
    }

    /// How far these messages have come.
    pub async fn fates(&self, tenant: &TenantId, requests: &[Uuid]) -> Result<Vec<Fate>, StoreError> {
        self.inbox.fates(tenant, requests).await
    }

    /// Which message of its channel a request is.
    pub async fn origin(&self, tenant: &TenantId, request: Uuid) -> Result<Option<Origin>, StoreError> {
        self.inbox.origin(tenant, request).await
    }

    /// The request that a stored message is, on whatever channel it came.
    pub async fn context(&self, tenant: &TenantId, request: Uuid) -> Result<Option<RequestContext>, StoreError> {
        self.inbox.context(tenant, request).await
    }

    /// Whom an answer to this request reaches.
    pub fn answer_reaches(&self, request: &RequestContext) -> EgressTarget {
        self.inbox.answer_reaches(request)
    }

    /// Whether this is the owner's own identity on the channel.
    pub fn is_owners(&self, tenant: &TenantId, channel: &str, identity: &str) -> bool {
        self.inbox.is_owners(tenant, channel, identity)
    }

    /// An account on one of the module's channels, which that has proven, shows a pairing code.
    pub async fn pair(
        &self,
        tenant: &TenantId,
        channel: &str,
        identity: &str,
        code: &str,
    ) -> Result<Paired, StoreError> {
        match self.channels.iter().any(|own| own == channel) {
            true => self.inbox.pair(tenant, channel, identity, code).await,
            false => Ok(Paired::Unknown),
        }
    }

    /// Follows a message to its end.
    pub fn follow(&self, tenant: &TenantId, request: Uuid) -> Following {
        self.inbox.listen().follow(tenant, request)
    }

    /// What happens to messages from now on; the rows are the truth.
    pub fn live(&self) -> broadcast::Receiver<Live> {
        self.inbox.live()
    }

    /// A call of this butler's that waited was decided on: it is looked at now.
    pub fn decided(&self, butler: &str) {
        if let Some(target) = self.inbox.butlers().target(butler) {
            target.decided.notify_one();
        }
    }
}
