//! Runs that are kept for looking back, and for how long.

use jiff::Timestamp;

use base::TenantId;
use store::{Database, StoreError};

/// Deletes what ended before a time, at most so many rows, of one tenant; of all, if it is the owner. Returns how many.
pub async fn delete_runs_before(
    db: &Database,
    (schema, tenant): (&str, &TenantId),
    before: Timestamp,
    most: i64,
) -> Result<u64, StoreError> {
    let sql = format!(
        "DELETE FROM \"{schema}\".schedule_runs WHERE ctid = ANY(ARRAY(
             SELECT ctid FROM \"{schema}\".schedule_runs
             WHERE finished_at < $1 AND ($2 = 'owner' OR tenant_id = $2) LIMIT $3))"
    );
    let mut lease = db.every_tenant().await?;
    lease.execute(&sql, &[&before, &tenant.as_str(), &most]).await.map_err(StoreError::query("deleting old runs"))
}
