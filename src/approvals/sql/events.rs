//! The log of what happened to calls and rules.

use serde_json::Value;
use uuid::Uuid;

use super::failed;
use crate::types::Event;
use base::TenantId;
use store::{AsRows, Lease, StoreError, Tx};

/// Something that happened.
pub(crate) struct NewEvent<'a> {
    pub action: Option<Uuid>,
    pub rule: Option<Uuid>,
    pub what: &'a str,
    pub actor: &'a str,
    pub reason: Option<&'a str>,
    pub meta: Value,
}

/// Writes down what happened.
pub(crate) async fn note(tx: &mut Tx<'_>, tenant: &TenantId, event: &NewEvent<'_>) -> Result<(), StoreError> {
    let sql =
        "INSERT INTO shared.approval_events (tenant_id, action_id, rule_id, event_type, actor, reason, event_metadata)
               VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let NewEvent { action, rule, what, actor, reason, meta } = event;
    tx.execute(sql, &[&tenant.as_str(), action, rule, what, actor, reason, meta]).await.map(drop).map_err(failed())
}

/// What happened to a call, in order.
pub(crate) async fn events_of(lease: &mut Lease, tenant: &TenantId, action: Uuid) -> Result<Vec<Event>, StoreError> {
    let sql = "SELECT event_type, actor, reason, event_metadata, occurred_at FROM shared.approval_events
               WHERE action_id = $1 AND tenant_id = $2 ORDER BY event_id";
    lease.read(sql, &[&action, &tenant.as_str()]).await.typed().map_err(failed())
}
