//! Statements on the tables of sessions.

use jiff::Timestamp;

use base::TenantId;
use store::{Database, StoreError};

/// How far the words of a session are believed.
pub(super) const TRUST: &str = "SELECT trust FROM sessions WHERE id = $1";

/// Deletes lines of transcripts from before a time, at most so many, of one tenant; of all, if it is the owner. Returns
/// how many.
pub async fn delete_events_before(
    db: &Database,
    (schema, tenant): (&str, &TenantId),
    before: Timestamp,
    most: i64,
) -> Result<u64, StoreError> {
    let sql = format!(
        "DELETE FROM \"{schema}\".session_events WHERE ctid = ANY(ARRAY(
             SELECT ctid FROM \"{schema}\".session_events WHERE at < $1 AND ($2 = 'owner' OR tenant_id = $2) LIMIT $3))"
    );
    let mut lease = db.every_tenant().await?;
    let deleted = lease.execute(&sql, &[&before, &tenant.as_str(), &most]).await;
    deleted.map_err(StoreError::query("deleting old transcripts"))
}
