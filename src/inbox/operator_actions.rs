//! Ending messages by a person's hand: calling one off, and saying that it is done.

use serde_json::json;
use uuid::Uuid;

use super::operator::{Operator, OperatorActionError, Requests, Stop, failed};
use super::sql::{messages, segments};
use base::TenantId;

impl Requests {
    /// Ends a message that comes to nothing because a person wants that. It can be taken up again like any dead one.
    /// Returns its state before.
    pub async fn call_off(
        &self,
        tenant: &TenantId,
        request: Uuid,
        how: Stop,
        operator: &Operator,
    ) -> Result<String, OperatorActionError> {
        let mut lease = self.inbox.db().shared(tenant).await?;
        let mut tx = lease.begin().await.map_err(failed())?;
        let held = self.hold(&mut tx, tenant, request).await?;
        let begun = held.state == "processing" || held.claimed;
        let why = match (how, held.state.as_str()) {
            (_, state @ ("done" | "dead")) => Some(format!("the message {request} is at its end already: {state}")),
            (Stop::Cancel, _) if begun => {
                Some(format!("the message {request} is under way already; abort_request ends what has begun"))
            }
            (Stop::Abort, _) if !begun => {
                Some(format!("nothing of the message {request} has begun; cancel_request calls it off"))
            }
            _ => None,
        };
        if let Some(why) = why {
            return Err(OperatorActionError::NotNow(why));
        }
        self.withdraw_all(&mut tx, tenant, request).await?;
        let because = operator.reason.as_deref().unwrap_or("no reason was given");
        let error = format!("called off by {}: {because}", operator.by);
        let (now, schema) = (self.inbox.clock().now(), self.inbox.schema());
        segments::end_as_dead(&mut tx, schema, request, (&["draft", "open", "accepted"], &error), now).await?;
        messages::end(&mut tx, schema, request, ("dead", Some(&error)), now).await?;
        let before = json!({"before": held.state});
        self.note(&mut tx, (tenant, request), (how.as_str(), before), operator).await?;
        tx.commit().await.map_err(failed())?;
        drop(lease);
        self.inbox.over(held.item(tenant, request), "dead").await;
        Ok(held.state)
    }

    /// Says that a message is done, whatever became of it here. Returns its state before.
    pub async fn mark_done(
        &self,
        tenant: &TenantId,
        request: Uuid,
        summary: &str,
        operator: &Operator,
    ) -> Result<String, OperatorActionError> {
        let mut lease = self.inbox.db().shared(tenant).await?;
        let mut tx = lease.begin().await.map_err(failed())?;
        let held = self.hold(&mut tx, tenant, request).await?;
        if held.state == "done" {
            return Err(OperatorActionError::NotNow(format!("the message {request} is done already")));
        }
        self.withdraw_all(&mut tx, tenant, request).await?;
        let (now, schema) = (self.inbox.clock().now(), self.inbox.schema());
        segments::forget(&mut tx, schema, request, "draft").await?;
        segments::finish(&mut tx, schema, request, now).await?;
        messages::end(&mut tx, schema, request, ("done", None), now).await?;
        let detail = json!({"before": held.state, "summary": summary});
        self.note(&mut tx, (tenant, request), ("complete", detail), operator).await?;
        tx.commit().await.map_err(failed())?;
        drop(lease);
        if held.state != "dead" {
            self.inbox.over(held.item(tenant, request), "done").await;
        }
        Ok(held.state)
    }
}
