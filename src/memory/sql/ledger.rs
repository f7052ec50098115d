//! What was purged and has come back.

use memory_index::Kind;
use serde_json::Value;
use store::{AsRows, Lease, StoreError};
use uuid::Uuid;

use super::Rows;

/// Which of these stand there unpurged.
pub(crate) async fn come_back(lease: &mut Lease, kind: Kind, ids: &[Uuid]) -> Result<Vec<Uuid>, StoreError> {
    let sql = format!("SELECT id FROM memory_{}s WHERE id = ANY($1) AND purged_at IS NULL", kind.as_str());
    lease.read(&sql, &[&ids]).await.column("id").map_err(StoreError::query("looking for what was purged"))
}

/// Purges one memory. Returns what is told of it; none: there is no such memory.
pub async fn purge_one(tx: &mut dyn Rows, kind: Kind, id: Uuid, by: &Value) -> Result<Option<Value>, StoreError> {
    tx.rows("SELECT memory_purge($1, $2, $3)", &[&kind.as_str(), &id, by]).await.cell(0)
}
