//! What a delivery would be, before anybody sends it: to whom it goes, when, and how it looks there.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::channel::{Shown, WouldRefuse};
use super::delivery::Delivery;
use super::handle::Outbox;
use super::recipient::RecipientError;
use super::tool::{SendRequest, deferred_until};
use base::{Priority, TenantId};
use store::StoreError;

/// What sending would come to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeliveryPreview {
    pub channel: String,
    /// The identity there.
    pub target: String,
    /// What people call whoever gets it.
    pub name: String,
    /// It reaches the owner alone.
    pub own: bool,
    /// It waits until then, because the owner wants quiet.
    pub deferred_until: Option<Timestamp>,
    /// As its reader would see it, message by message.
    pub messages: Vec<String>,
    pub notes: Vec<String>,
    /// Why the channel would refuse it.
    pub refused: Option<String>,
}

impl Outbox {
    /// What sending this would come to. Nothing is written and nothing leaves.
    pub async fn preview(
        &self,
        tenant: &TenantId,
        wanted: &SendRequest<'_>,
    ) -> Result<Result<DeliveryPreview, RecipientError>, StoreError> {
        let mut lease = self.db().shared(tenant).await?;
        let recipient = match self.resolve_recipient(&mut lease, tenant, wanted.channel, wanted.recipient).await? {
            Ok(recipient) => recipient,
            Err(nobody) => return Ok(Err(nobody)),
        };
        drop(lease);
        let priority = wanted.priority.map(Priority::from_name).unwrap_or_default();
        let delivery = Delivery {
            thread: recipient.thread.clone(),
            subject: wanted.subject.map(str::to_owned),
            message: Some(wanted.message.to_owned()),
            priority,
            ..Delivery::sketch(tenant, &recipient.channel, &recipient.target, self.clock().now())
        };
        let shown = match self.channel(&recipient.channel) {
            Some(channel) => channel.shown(&delivery),
            None => Err(WouldRefuse(format!("the messenger has no channel {} just now", recipient.channel))),
        };
        let (Shown { messages, notes }, refused) = match shown {
            Ok(shown) => (shown, None),
            Err(why) => (Shown::default(), Some(why.to_string())),
        };
        Ok(Ok(DeliveryPreview {
            channel: recipient.channel,
            target: recipient.target,
            name: recipient.name,
            own: recipient.own,
            deferred_until: deferred_until(self, priority),
            messages,
            notes,
            refused,
        }))
    }
}
