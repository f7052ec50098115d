//! Who a sender is: the owner, somebody known, or a stranger. Decided once, as a message is accepted.

use std::collections::{BTreeMap, HashMap};

use uuid::Uuid;

use super::sql::contacts;
use super::types::Envelope;
use base::text::plain_identity;
use base::{TenantId, Trust};
use store::{Lease, StoreError};

/// Who the owner is on each channel, as the settings say it.
pub(super) type OwnerIdentities = BTreeMap<String, String>;

/// Channels on which only the owner and programs of theirs are: the house opens them to operators' tokens alone.
pub const HOUSE_CHANNELS: [&str; 3] = ["chat", "cli", "mcp"];

/// A sender as the household knows them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sender {
    pub trust: Trust,
    pub contact: Option<Uuid>,
    pub entity: Option<Uuid>,
}

const STRANGER: Sender = Sender { trust: Trust::Stranger, contact: None, entity: None };

/// The senders of some messages.
pub(super) struct KnownSenders {
    by_identity: HashMap<(String, String), Sender>,
}

impl KnownSenders {
    /// Who sent this. Whoever the channel has not proven to be the sender is a stranger, whatever identity he claims.
    pub fn of(&self, envelope: &Envelope) -> Sender {
        if !envelope.sender.is_authenticated() {
            return STRANGER;
        }
        let key = (envelope.source.channel.clone(), plain_identity(&envelope.sender.identity));
        self.by_identity.get(&key).copied().unwrap_or(STRANGER)
    }
}

/// Looks the senders up, all at once. The owner's settings speak for the household's own tenant only.
pub(super) async fn resolve(
    lease: &mut Lease,
    tenant: &TenantId,
    owner: &OwnerIdentities,
    senders: impl Iterator<Item = (&str, &str)>,
) -> Result<KnownSenders, StoreError> {
    let mut by_identity = HashMap::new();
    let (mut channels, mut identities) = (Vec::new(), Vec::new());
    for (channel, sender) in senders {
        let identity = plain_identity(sender);
        let is_owner =
            *tenant == TenantId::owner() && owner.get(channel).is_some_and(|own| plain_identity(own) == identity);
        let key = (channel.to_owned(), identity.clone());
        let trust = if is_owner { Trust::Owner } else { Trust::Stranger };
        if by_identity.insert(key, Sender { trust, ..STRANGER }).is_none() {
            channels.push(channel);
            identities.push(identity);
        }
    }
    for row in contacts::known(lease, &channels, &identities).await?.into_iter().filter(|row| !row.stranger) {
        let sender = by_identity.entry((row.channel, row.identity)).or_insert(STRANGER);
        sender.trust = sender.trust.max(Trust::Known);
        (sender.contact, sender.entity) = (Some(row.contact), row.entity);
    }
    Ok(KnownSenders { by_identity })
}
