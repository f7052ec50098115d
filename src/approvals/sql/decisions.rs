//! Calls that wait, in the hands of whoever decides on them, and which pages of them were shown to whom.

use jiff::Timestamp;
use uuid::Uuid;

use super::actions::COLUMNS;
use crate::types::{Action, Status};
use base::TenantId;
use store::{AsRows, StoreError, Tx};

fn failed() -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query("deciding on what waits")
}

/// The calls that wait under this id: the one, or all of a proposal, in the order in which they were asked for. Nobody
/// else decides on them until the transaction ends.
pub(crate) async fn waiting(
    tx: &mut Tx<'_>,
    tenant: &TenantId,
    (id, proposal): (Option<Uuid>, Option<Uuid>),
    now: Timestamp,
) -> Result<Vec<Action>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM shared.pending_actions
         WHERE tenant_id = $1 AND (id = $2 OR proposal = $3) AND status = 'pending' AND expires_at > $4
         ORDER BY seq FOR UPDATE"
    );
    tx.query(&sql, &[&tenant.as_str(), &id, &proposal, &now]).await.typed().map_err(failed())
}

/// A decision on one that waits, as its row has it.
pub(crate) struct Decision<'a> {
    pub to: Status,
    pub actor: &'a str,
    pub reason: Option<&'a str>,
    pub at: Timestamp,
}

/// Writes a decision on one that this transaction holds.
pub(crate) async fn decide(tx: &mut Tx<'_>, id: Uuid, decision: &Decision<'_>) -> Result<Option<Action>, StoreError> {
    let sql = format!(
        "UPDATE shared.pending_actions SET status = $2, decided_by = $3, decided_at = $4, decision_reason = $5
         WHERE id = $1 RETURNING {COLUMNS}"
    );
    let Decision { to, actor, reason, at } = decision;
    tx.query_opt(&sql, &[&id, &to.as_str(), actor, at, reason]).await.first_typed().map_err(failed())
}

/// Notes that pages of a call, as it looks now, were shown to somebody who may decide on it.
pub(crate) async fn note_shown(
    tx: &mut Tx<'_>,
    tenant: &TenantId,
    (action, sha256): (Uuid, &str),
    decider: &str,
    pages: &[i32],
) -> Result<(), StoreError> {
    let sql = "INSERT INTO shared.approval_pages (tenant_id, action_id, decider, shown_sha256, page)
               SELECT $1, $2, $3, $4, page FROM unnest($5::int[]) page ON CONFLICT DO NOTHING";
    tx.execute(sql, &[&tenant.as_str(), &action, &decider, &sha256, &pages]).await.map(drop).map_err(failed())
}

/// The pages of a call, as it looks now, that were shown to this person.
pub(crate) async fn pages_shown(
    tx: &mut Tx<'_>,
    tenant: &TenantId,
    (action, sha256): (Uuid, &str),
    decider: &str,
) -> Result<Vec<i32>, StoreError> {
    let sql = "SELECT page FROM shared.approval_pages
               WHERE tenant_id = $1 AND action_id = $2 AND decider = $3 AND shown_sha256 = $4";
    tx.query(sql, &[&tenant.as_str(), &action, &decider, &sha256]).await.column("page").map_err(failed())
}
