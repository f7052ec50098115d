//! What waits and was not yet told to its owner.

use jiff::Timestamp;
use uuid::Uuid;

use super::actions::COLUMNS;
use crate::types::Action;
use base::TenantId;
use store::{AsRows, Database, StoreError, Tx};

/// What an owner is to be told.
#[derive(Clone, Debug)]
pub struct Unannounced {
    /// When they were told of something last.
    pub last: Option<Timestamp>,
    /// Those that are new first, each the oldest first.
    pub calls: Vec<Action>,
}

fn failed() -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query("showing the owner what waits")
}

/// Whose calls wait unannounced.
pub async fn unannounced_tenants(db: &Database) -> Result<Vec<TenantId>, StoreError> {
    let sql = "SELECT DISTINCT tenant_id FROM shared.pending_actions WHERE status = 'pending' AND announced_at IS NULL";
    let mut lease = db.every_tenant().await?;
    let rows = lease.query(sql, &[]).await.map_err(failed())?;
    Ok(rows.iter().filter_map(|row| TenantId::new(row.get("tenant_id")).ok()).collect())
}

/// How many calls wait for a person, of all tenants.
pub async fn all_waiting(db: &Database) -> Result<i64, StoreError> {
    let sql = "SELECT count(*) AS waiting FROM shared.pending_actions WHERE status = 'pending'";
    let mut lease = db.every_tenant().await?;
    Ok(lease.query_opt(sql, &[]).await.cell("waiting").map_err(failed())?.unwrap_or(0))
}

/// What the tenant's owner is to be told, at most so many calls: those that they were not told of, and with one of a
/// proposal all of it. Until the transaction ends, nobody else tells them.
pub async fn unannounced(
    tx: &mut Tx<'_>,
    tenant: &TenantId,
    now: Timestamp,
    most: i64,
) -> Result<Unannounced, StoreError> {
    let name = tenant.as_str();
    let sql = "SELECT pg_advisory_xact_lock(hashtextextended('shared.pending_actions ' || $1, 0))";
    tx.execute(sql, &[&name]).await.map_err(failed())?;
    let sql =
        "SELECT max(announced_at) AS last FROM shared.pending_actions WHERE tenant_id = $1 AND announced_at <= $2";
    let last = tx.query_opt(sql, &[&name, &now]).await.map_err(failed())?.and_then(|row| row.get("last"));
    let sql = format!(
        "SELECT {COLUMNS} FROM shared.pending_actions
         WHERE tenant_id = $1 AND status = 'pending'
           AND (announced_at IS NULL OR proposal IN (SELECT proposal FROM shared.pending_actions
                WHERE tenant_id = $1 AND status = 'pending' AND announced_at IS NULL AND proposal IS NOT NULL))
         ORDER BY announced_at IS NOT NULL, seq LIMIT $2"
    );
    let rows = tx.query(&sql, &[&name, &most]).await.map_err(failed())?;
    Ok(Unannounced { last, calls: rows.iter().map(Action::from).collect() })
}

/// Notes that the owner is told of these calls.
pub async fn announced(tx: &mut Tx<'_>, calls: &[Action], now: Timestamp) -> Result<(), StoreError> {
    let ids: Vec<Uuid> = calls.iter().map(|call| call.id).collect();
    let sql = "UPDATE shared.pending_actions SET announced_at = $2 WHERE id = ANY($1) AND announced_at IS NULL";
    tx.execute(sql, &[&ids, &now]).await.map(drop).map_err(failed())
}

/// What owners are to be told of calls that they had approved and that came to nothing, as rows of `tenant_id`, `kind`,
/// `subject`, `happened_at` and `told`. `since` is SQL.
pub fn notices(since: &str) -> String {
    format!(
        "SELECT tenant_id, 'approval_abandoned' AS kind, id::text AS subject, decided_at AS happened_at,
                'The call of ' || tool_name || ' that you approved for ' || butler || ' came to nothing: '
                || coalesce(execution_result ->> 'error', 'no reason is on record') AS told
         FROM shared.pending_actions WHERE status = 'abandoned' AND decided_at > {since}"
    )
}
