//! Rows that are kept for looking back, and go when they are old.

use jiff::Timestamp;

use base::TenantId;

use crate::{Database, Params, StoreError};

/// So many rows go in one statement, so that nothing waits for it.
const AT_ONCE: i64 = 5000;

/// Rows of one table that may go once they are old.
#[derive(Clone, Copy, Debug)]
pub struct Aged {
    pub table: &'static str,
    /// In SQL, on the table's columns: whether a row is from before `$1` and nothing needs it any more.
    pub old: &'static str,
}

impl Aged {
    /// Deletes what is from before this moment in a schema, of one tenant; of all, if it is the owner. A part at a
    /// time, each its own transaction: cut off, the rest goes the next time. Returns how many rows that were.
    pub async fn delete(
        &self,
        db: &Database,
        (schema, tenant): (&str, &TenantId),
        before: Timestamp,
    ) -> Result<u64, StoreError> {
        let Self { table, old } = self;
        let sql = format!(
            "DELETE FROM \"{schema}\".\"{table}\" WHERE ctid = ANY(ARRAY(
                 SELECT ctid FROM \"{schema}\".\"{table}\" WHERE ({old}) AND ($2 = 'owner' OR tenant_id = $2) LIMIT $3))"
        );
        in_parts(db, &sql, &[&before, &tenant.as_str(), &AT_ONCE], "deleting old rows").await
    }
}

/// Runs a statement that deletes at most so many rows again and again, each time as its own transaction, until there
/// are none left. Returns how many it touched.
///
/// # Errors
/// That of a part; what is gone before it stays so.
pub async fn in_parts(db: &Database, sql: &str, params: Params<'_>, doing: &'static str) -> Result<u64, StoreError> {
    let mut all = 0;
    loop {
        let mut lease = db.every_tenant().await?;
        match lease.execute(sql, params).await.map_err(StoreError::query(doing))? {
            0 => return Ok(all),
            n => all += n,
        }
    }
}
