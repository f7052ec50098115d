//! A module's way to hand messages of its channels to the inbox.

use std::sync::Arc;

use serde_json::{Map, Value};

use base::TenantId;
use inbox::{AcceptError, Accepted, HOUSE_CHANNELS, HandedInBy, Inbox};

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
}
