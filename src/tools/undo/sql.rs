//! How long the rows before a change are kept.

use base::TenantId;
use store::{Database, StoreError};

/// Deletes what calls changed longer than so many days ago, at most so many calls, of one tenant; of all, if it is the
/// owner. The database stamps the rows, so its clock counts the days. A call's rows go together. Returns how many rows.
pub async fn delete_changes_older_than(
    db: &Database,
    (schema, tenant): (&str, &TenantId),
    days: i64,
    most: i64,
) -> Result<u64, StoreError> {
    let sql = "DELETE FROM shared.row_changes c USING (
                   SELECT tx_at, txid FROM shared.row_changes
                   WHERE tx_at < transaction_timestamp() - make_interval(days => $1::bigint::int)
                     AND schema = $4 AND ($2 = 'owner' OR tenant_id = $2)
                   GROUP BY tx_at, txid LIMIT $3) old
               WHERE c.tx_at = old.tx_at AND c.txid = old.txid AND c.schema = $4";
    let mut lease = db.every_tenant().await?;
    let deleted = lease.execute(sql, &[&days, &tenant.as_str(), &most, &schema]).await;
    deleted.map_err(StoreError::query("deleting old rows kept for undo"))
}
