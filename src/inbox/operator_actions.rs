//! What people do with a message by hand: calling it off, and saying that it is done. Each leaves its record in the
//! transaction in which it happens.

use serde_json::{Value, json};
use strum::IntoStaticStr;
use uuid::Uuid;

use super::handle::Inbox;
use super::retry::{Held, OperatorActionError, failed};
use base::TenantId;
use store::Tx;

/// Whose hand it is, and why.
#[derive(Clone, Debug, Default)]
pub struct Operator {
    /// As their token calls them.
    pub by: String,
    /// Who they say they are: a note.
    pub said_by: Option<String>,
    pub reason: Option<String>,
}

/// How a message is ended before its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Stop {
    /// Nothing of it has begun.
    Cancel,
    /// It is under way.
    Abort,
}

impl Stop {
    fn as_str(self) -> &'static str {
        self.into()
    }
}

impl Inbox {
    /// Ends a message that comes to nothing because a person wants that. It can be taken up again like any dead one.
    /// Returns its state before.
    pub async fn call_off(
        &self,
        tenant: &TenantId,
        request: Uuid,
        how: Stop,
        operator: &Operator,
    ) -> Result<String, OperatorActionError> {
        let mut lease = self.db().shared(tenant).await?;
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
        let (now, schema) = (self.clock().now(), self.schema());
        let sql = format!(
            "UPDATE \"{schema}\".route_segments SET state = 'dead', settled_at = $2, last_error = $3
             WHERE request_id = $1 AND state IN ('draft', 'open', 'accepted')"
        );
        tx.execute(&sql, &[&request, &now, &error]).await.map_err(failed())?;
        // Whoever deals with it just now finds that they hold it no more.
        let sql = format!(
            "UPDATE \"{schema}\".message_inbox SET state = 'dead', settled_at = $2, last_error = $3, claim_id = NULL,
                    claimed_by = NULL, lease_until = NULL
             WHERE request_id = $1"
        );
        tx.execute(&sql, &[&request, &now, &error]).await.map_err(failed())?;
        self.note(&mut tx, tenant, request, how.as_str(), operator, json!({"before": held.state})).await?;
        tx.commit().await.map_err(failed())?;
        drop(lease);
        self.over(held.item, tenant).await;
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
        let mut lease = self.db().shared(tenant).await?;
        let mut tx = lease.begin().await.map_err(failed())?;
        let held: Held = self.hold(&mut tx, tenant, request).await?;
        if held.state == "done" {
            return Err(OperatorActionError::NotNow(format!("the message {request} is done already")));
        }
        self.withdraw_all(&mut tx, tenant, request).await?;
        let (now, schema) = (self.clock().now(), self.schema());
        let sql = format!("DELETE FROM \"{schema}\".route_segments WHERE request_id = $1 AND state = 'draft'");
        tx.execute(&sql, &[&request]).await.map_err(failed())?;
        let sql = format!(
            "UPDATE \"{schema}\".route_segments SET state = 'done', settled_at = coalesce(settled_at, $2)
             WHERE request_id = $1 AND state IN ('open', 'accepted', 'dead')"
        );
        tx.execute(&sql, &[&request, &now]).await.map_err(failed())?;
        let sql = format!(
            "UPDATE \"{schema}\".message_inbox SET state = 'done', settled_at = $2, last_error = NULL, claim_id = NULL,
                    claimed_by = NULL, lease_until = NULL
             WHERE request_id = $1"
        );
        tx.execute(&sql, &[&request, &now]).await.map_err(failed())?;
        let detail = json!({"before": held.state, "summary": summary});
        self.note(&mut tx, tenant, request, "complete", operator, detail).await?;
        tx.commit().await.map_err(failed())?;
        drop(lease);
        if held.state != "dead" {
            self.over(held.item, tenant).await;
        }
        Ok(held.state)
    }

    /// Takes back what butlers have of it and have not begun.
    async fn withdraw_all(&self, tx: &mut Tx<'_>, tenant: &TenantId, request: Uuid) -> Result<(), OperatorActionError> {
        for part in self.parts_of(tx, request).await?.iter().filter(|p| p.state == "accepted") {
            self.withdraw_route(tx, tenant, part).await?;
        }
        Ok(())
    }

    /// Writes down what was done.
    pub(super) async fn note(
        &self,
        tx: &mut Tx<'_>,
        tenant: &TenantId,
        request: Uuid,
        action: &str,
        operator: &Operator,
        detail: Value,
    ) -> Result<(), OperatorActionError> {
        let sql = format!(
            "INSERT INTO \"{}\".request_actions (tenant_id, request_id, action, by_label, said_by, reason, detail, at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
            self.schema()
        );
        let Operator { by, said_by, reason } = operator;
        let now = self.clock().now();
        tx.execute(&sql, &[&tenant.as_str(), &request, &action, by, said_by, reason, &detail, &now])
            .await
            .map_err(failed())?;
        Ok(())
    }
}
