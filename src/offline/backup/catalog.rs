//! What the server's own catalog says: which tables, columns, sequences, constraints and triggers there are.
//!
//! Nothing is listed by hand, so a table that a later migration brings is in the next backup.

use serde::{Deserialize, Serialize};
use tokio_postgres::GenericClient;

use super::error::BackupError;

/// A table whose rows are kept, with the columns that rows are written in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Table {
    pub schema: String,
    pub name: String,
    pub columns: Vec<Column>,
}

/// A column whose values are not computed by the server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Column {
    pub name: String,
    pub kind: String,
}

/// A sequence that has given numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sequence {
    pub schema: String,
    pub name: String,
    pub last: i64,
}

/// A name as SQL takes it, whatever it holds.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl Table {
    /// `"schema"."table"`
    pub fn sql_name(&self) -> String {
        format!("{}.{}", quoted(&self.schema), quoted(&self.name))
    }

    /// `"schema"."table" ("column", …)`
    pub fn sql_columns(&self) -> String {
        let columns: Vec<String> = self.columns.iter().map(|c| quoted(&c.name)).collect();
        format!("{} ({})", self.sql_name(), columns.join(", "))
    }
}

/// How values are written, so that each reads back as exactly itself on any server from 14 on.
pub(super) const PLAIN: &str = "
    SET LOCAL datestyle = 'ISO, YMD';
    SET LOCAL intervalstyle = 'postgres';
    SET LOCAL timezone = 'UTC';
    SET LOCAL extra_float_digits = 3;
    SET LOCAL bytea_output = 'hex';
    SET LOCAL statement_timeout = 0;
    SET LOCAL lock_timeout = 0;
    SET LOCAL idle_in_transaction_session_timeout = 0;
    -- Rather an error than rows left out by a policy.
    SET LOCAL row_security = off;
    SET LOCAL search_path = ''";

/// The tables of these schemas, but for the one that says which daemons are there just now. Types are named in full, whatever the search path is.
pub(super) async fn tables(client: &impl GenericClient, schemas: &[String]) -> Result<Vec<Table>, BackupError> {
    let sql = "SELECT n.nspname::text, c.relname::text,
                      coalesce(array_agg(a.attname::text ORDER BY a.attnum) FILTER (WHERE a.attname IS NOT NULL), '{}'),
                      coalesce(array_agg(pg_catalog.format_type(a.atttypid, a.atttypmod) ORDER BY a.attnum)
                               FILTER (WHERE a.attname IS NOT NULL), '{}')
               FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
               LEFT JOIN pg_catalog.pg_attribute a
                 ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
               WHERE n.nspname = ANY ($1) AND c.relkind = 'r' AND c.relpersistence <> 't'
                 AND (n.nspname, c.relname) <> ('shared', 'nodes')
               GROUP BY 1, 2 ORDER BY 1, 2";
    let rows = client.query(sql, &[&schemas]).await.map_err(BackupError::database("looking for tables"))?;
    let table = |row: &tokio_postgres::Row| {
        let (names, kinds): (Vec<String>, Vec<String>) = (row.get(2), row.get(3));
        let columns = names.into_iter().zip(kinds).map(|(name, kind)| Column { name, kind }).collect();
        Table { schema: row.get(0), name: row.get(1), columns }
    };
    Ok(rows.iter().map(table).collect())
}

/// The sequences that have given a number.
pub(super) async fn sequences(client: &impl GenericClient, schemas: &[String]) -> Result<Vec<Sequence>, BackupError> {
    let sql = "SELECT schemaname::text, sequencename::text, last_value FROM pg_catalog.pg_sequences
               WHERE schemaname = ANY ($1) AND last_value IS NOT NULL ORDER BY 1, 2";
    let rows = client.query(sql, &[&schemas]).await.map_err(BackupError::database("looking for sequences"))?;
    Ok(rows.iter().map(|r| Sequence { schema: r.get(0), name: r.get(1), last: r.get(2) }).collect())
}

/// What must not act while rows come back, as statements: first those that switch it off, then those that switch it on
/// again. Foreign keys, because tables come one by one and may point in circles; triggers, because rows come as they
/// were and not as new ones.
pub(super) async fn guards(
    client: &impl GenericClient,
    schemas: &[String],
) -> Result<(Vec<String>, Vec<String>), BackupError> {
    let sql = "SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', k.conrelid::pg_catalog.regclass, k.conname),
                      format('ALTER TABLE %s ADD CONSTRAINT %I %s', k.conrelid::pg_catalog.regclass, k.conname,
                             pg_catalog.pg_get_constraintdef(k.oid))
               FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
               JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
               WHERE n.nspname = ANY ($1) AND k.contype = 'f' AND k.conparentid = 0
               UNION ALL
               SELECT format('ALTER TABLE %s DISABLE TRIGGER %I', t.tgrelid::pg_catalog.regclass, t.tgname),
                      format('ALTER TABLE %s ENABLE %s TRIGGER %I', t.tgrelid::pg_catalog.regclass,
                             CASE t.tgenabled WHEN 'A' THEN 'ALWAYS' WHEN 'R' THEN 'REPLICA' ELSE '' END, t.tgname)
               FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid
               JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
               WHERE n.nspname = ANY ($1) AND NOT t.tgisinternal AND t.tgenabled <> 'D'";
    let rows = client.query(sql, &[&schemas]).await.map_err(BackupError::database("looking for constraints"))?;
    Ok(rows.iter().map(|r| (r.get::<_, String>(0), r.get::<_, String>(1))).unzip())
}
