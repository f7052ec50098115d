//! Facts that wait to be compared with those like them.

use base::TenantId;
use jiff::Timestamp;
use store::{AsRows, Database, StoreError};
use uuid::Uuid;

use super::Rows;

store::row! {
    /// A fact as it is compared.
    pub struct ComparedFact {
        pub id: Uuid,
        pub seq: i64,
        pub trust: String,
        pub kind: String,
        pub subject: String,
        pub predicate: String,
        pub content: String,
        pub scope: String,
        pub entity_id: Option<Uuid>,
        pub object_entity_id: Option<Uuid>,
        pub valid_from: Option<Timestamp>,
        pub embedding: Option<Vec<u8>>,
        pub embedding_model: Option<String>,
        pub supersedes_id: Option<Uuid>,
        pub validity: String,
        pub content_hash: String,
        pub topic_hash: String,
        pub sensitivity: String,
        pub retention_class: String,
        /// How often it could not be asked.
        pub compare_attempts: i32,
    }
}

const COLUMNS: &str =
    "id, seq, trust, kind, subject, predicate, content, scope, entity_id, object_entity_id, valid_from,
    embedding, embedding_model, supersedes_id, validity, content_hash, topic_hash, sensitivity, retention_class,
    compare_attempts";

/// The next facts of a tenant that wait, by their number.
pub async fn waiting(
    db: &Database,
    schema: &str,
    tenant: &TenantId,
    after: i64,
    most: i64,
) -> Result<Vec<ComparedFact>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM \"{schema}\".memory_facts
         WHERE tenant_id = $1 AND compared = 'pending' AND forgotten_at IS NULL AND seq > $2 ORDER BY seq LIMIT $3"
    );
    let mut lease = db.shared(tenant).await?;
    let rows = lease.read(&sql, &[&tenant.as_str(), &after, &most]).await;
    rows.typed().map_err(StoreError::query("looking for facts to compare"))
}

/// Those of these that are there.
pub async fn by_id(
    db: &Database,
    schema: &str,
    tenant: &TenantId,
    ids: &[Uuid],
) -> Result<Vec<ComparedFact>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM \"{schema}\".memory_facts WHERE tenant_id = $1 AND id = ANY($2) AND forgotten_at IS NULL"
    );
    let mut lease = db.shared(tenant).await?;
    let rows = lease.read(&sql, &[&tenant.as_str(), &ids]).await;
    rows.typed().map_err(StoreError::query("reading the facts to compare with"))
}

/// Notes that these were compared, or why they could not be. Returns how many are given up after `tries`.
pub async fn note(tx: &mut dyn Rows, ids: &[Uuid], error: Option<&str>, tries: i32) -> Result<i64, StoreError> {
    Ok(tx.rows("SELECT memory_compared($1, $2, $3)", &[&ids, &error, &tries]).await.cell(0)?.unwrap_or(0))
}
