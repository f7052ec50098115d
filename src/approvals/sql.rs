//! Calls that wait and that their owner has not been told of.

use jiff::Timestamp;
use uuid::Uuid;

use base::TenantId;
use store::{Database, StoreError, Tx};

store::row! {
    /// A call that waits, as its owner is told of it.
    #[derive(Clone, Debug)]
    pub struct UnannouncedCall {
        pub id: Uuid,
        pub agent_summary: String,
        /// The model's reason.
        pub why: Option<String>,
        pub cause: String,
        pub risk_tier: String,
        pub expires_at: Timestamp,
        pub args_sha256: String,
    }
}

/// What an owner is to be told.
#[derive(Clone, Debug)]
pub struct Unannounced {
    /// When they were told of something last.
    pub last: Option<Timestamp>,
    /// The oldest first.
    pub calls: Vec<UnannouncedCall>,
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

/// What the tenant's owner is to be told, at most so many calls. Until the transaction ends, nobody else tells them.
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
    let sql = "SELECT id, agent_summary, why, cause, risk_tier, expires_at, args_sha256 FROM shared.pending_actions
               WHERE tenant_id = $1 AND status = 'pending' AND announced_at IS NULL ORDER BY seq LIMIT $2";
    let rows = tx.query(sql, &[&name, &most]).await.map_err(failed())?;
    Ok(Unannounced { last, calls: rows.iter().map(UnannouncedCall::from).collect() })
}

/// Notes that the owner is told of these calls.
pub async fn announced(tx: &mut Tx<'_>, calls: &[UnannouncedCall], now: Timestamp) -> Result<(), StoreError> {
    let ids: Vec<Uuid> = calls.iter().map(|call| call.id).collect();
    let sql = "UPDATE shared.pending_actions SET announced_at = $2 WHERE id = ANY($1)";
    tx.execute(sql, &[&ids, &now]).await.map_err(failed())?;
    Ok(())
}
