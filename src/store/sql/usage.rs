//! How large tables are, and how fast they grow.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{Database, StoreError};

/// Sizes are noted no more often than this, and kept for so long.
const APART: SignedDuration = SignedDuration::from_hours(20);
const KEPT: SignedDuration = SignedDuration::from_hours(30 * 24);
/// Over less than this, nothing is said of growth: one vacuum would look like a trend.
const LEAST_DAYS: f64 = 0.75;

/// A table as it is now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableUsage {
    pub schema: String,
    pub name: String,
    /// With its indexes and its large values.
    pub bytes: i64,
    /// As the server estimates them; `None`: it has not counted yet.
    pub rows: Option<i64>,
    /// Bytes a day, over what was noted of the last month; `None`: not known yet.
    pub grows: Option<f64>,
}

const TABLES: &str = "FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'm') AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'";

/// Notes how large each table is, unless that was done a short while ago: one that came since is noted at once.
pub async fn note_sizes(db: &Database, now: Timestamp) -> Result<(), StoreError> {
    let failed = StoreError::query("noting how large the tables are");
    let mut lease = db.every_tenant().await?;
    let (recent, old) = (now.saturating_sub(APART), now.saturating_sub(KEPT));
    let (Ok(recent), Ok(old)) = (recent, old) else { return Ok(()) };
    let sql = format!(
        "WITH old AS (DELETE FROM shared.table_sizes WHERE taken_at < $3)
         INSERT INTO shared.table_sizes (tenant_id, schema, name, taken_at, bytes)
         SELECT 'owner', n.nspname, c.relname, $1, pg_catalog.pg_total_relation_size(c.oid) {TABLES}
             AND NOT EXISTS (SELECT FROM shared.table_sizes t
                             WHERE t.tenant_id = 'owner' AND t.schema = n.nspname AND t.name = c.relname AND t.taken_at > $2)
         ON CONFLICT DO NOTHING"
    );
    lease.execute(&sql, &[&now, &recent, &old]).await.map(drop).map_err(failed)
}

/// All tables of the household, the largest first.
pub async fn table_usage(db: &Database, now: Timestamp) -> Result<Vec<TableUsage>, StoreError> {
    let sql = format!(
        "SELECT t.*, s.bytes AS before, extract(epoch FROM $1 - s.taken_at)::float8 / 86400 AS days
         FROM (SELECT n.nspname::text AS schema, c.relname::text AS name,
                      pg_catalog.pg_total_relation_size(c.oid) AS bytes,
                      CASE WHEN c.reltuples >= 0 THEN c.reltuples::bigint END AS rows {TABLES}) t
         LEFT JOIN LATERAL (SELECT bytes, taken_at FROM shared.table_sizes s
                            WHERE s.tenant_id = 'owner' AND s.schema = t.schema AND s.name = t.name
                            ORDER BY taken_at LIMIT 1) s ON true
         ORDER BY t.bytes DESC, t.schema, t.name"
    );
    let mut lease = db.every_tenant().await?;
    let rows = lease.read(&sql, &[&now]).await;
    let rows = rows.map_err(StoreError::query("asking how large the tables are"))?;
    let grown = |bytes: i64, before: Option<i64>, days: Option<f64>| {
        let days = days.filter(|days| *days >= LEAST_DAYS)?;
        Some((bytes - before?) as f64 / days)
    };
    let of = |row: &tokio_postgres::Row| {
        let bytes = row.get("bytes");
        TableUsage {
            schema: row.get("schema"),
            name: row.get("name"),
            bytes,
            rows: row.get("rows"),
            grows: grown(bytes, row.get("before"), row.get("days")),
        }
    };
    Ok(rows.iter().map(of).collect())
}
