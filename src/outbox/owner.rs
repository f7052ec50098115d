//! Messages to the owner that the daemon posts for a butler, in the transaction of whatever they tell of.

use serde_json::json;
use uuid::Uuid;

use super::delivery::{ASKS, DecisionRequest};
use super::handle::Outbox;
use super::household::CHAT;
use super::recipient::decide;
use super::sql::post;
use super::tool::deferred_until;
use base::{Priority, RequestContext, TenantId, Trust, crash};
use store::{StoreError, Tx};

/// A message to the owner.
#[derive(Clone, Debug)]
pub struct OwnerNote<'a> {
    pub tenant: &'a TenantId,
    /// In whose name, such as a butler's.
    pub origin: &'a str,
    /// Twice the same, of one origin, is the same message.
    pub key: &'a str,
    pub subject: Option<&'a str>,
    pub text: &'a str,
    pub priority: Priority,
    /// Of what it is made of.
    pub trust: Trust,
    /// Whether it tells of something that went wrong; then no other notice is made of its own end.
    pub notice: bool,
    /// In place of the channel that the owner chose.
    pub channel: Option<&'a str>,
    /// What it asks the owner to decide, and shows whole.
    pub asks: &'a [DecisionRequest],
}

impl Outbox {
    /// Posts a message to the owner, on the channel that the owner chose, in a transaction of the owner role. Whoever
    /// commits it wakes the post then. Which delivery it is.
    pub async fn tell_owner(&self, tx: &mut Tx<'_>, note: &OwnerNote<'_>) -> Result<Uuid, StoreError> {
        let owner = (*note.tenant == TenantId::owner()).then(|| self.owner());
        let ways = self.ways();
        let recipient =
            decide(note.channel, None, owner, &ways, &[]).or_else(|_| decide(Some(CHAT), None, None, &ways, &[]));
        let recipient = recipient.map_err(|e| StoreError::Unexpected(e.sentence()))?;
        let quiet = deferred_until(self, note.priority);
        let context =
            RequestContext::root(self.clock(), note.tenant.clone(), "butlerd", "local", note.origin, Trust::System)
                .with_trust_at_most(note.trust);
        let (request, mut context) = (context.request_id, json!(context));
        if !note.asks.is_empty() {
            context[ASKS] = json!(note.asks);
        }
        let delivery = json!({"id": Uuid::now_v7(), "request_id": request.0, "intent": "send",
                            "kind": if note.notice { "notice" } else { "message" },
                            "channel": recipient.channel, "target": recipient.target, "subject": note.subject,
                            "message": note.text, "priority": note.priority.as_str(),
                            "idempotency_key": format!("owner:{}", note.key), "context": context,
                            "trust": note.trust.as_str(),
                            "state": if quiet.is_some() { "deferred" } else { "pending" },
                            "reason": quiet.map(|_| "quiet_hours"),
                            "due_at": quiet.unwrap_or_else(|| self.clock().now()).to_string()});
        let posted = post::queue_as(tx, note.origin, note.tenant, &delivery).await?;
        posted.ok_or_else(|| StoreError::Unexpected("nothing was posted".to_owned()))
    }

    /// Posts messages of one tenant to its owner: all of them, or none.
    pub async fn tell_owner_all(&self, tenant: &TenantId, notes: &[OwnerNote<'_>]) -> Result<(), StoreError> {
        let failed = || StoreError::query("posting messages to the owner");
        let mut lease = self.db().shared(tenant).await?;
        let mut tx = lease.begin().await.map_err(failed())?;
        for note in notes {
            self.tell_owner(&mut tx, note).await?;
        }
        tx.commit().await.map_err(failed())?;
        crash::point("owner.committed");
        self.wake();
        Ok(())
    }
}
