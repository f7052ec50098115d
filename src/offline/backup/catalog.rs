//! What the server's own catalog says: which tables, columns, sequences, constraints and triggers there are.
//!
//! Nothing is listed by hand, so a table that a later migration brings is in the next backup.

use serde::{Deserialize, Serialize};
use tokio_postgres::GenericClient;

use super::error::BackupError;
use crate::sql;

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

/// The tables of these schemas, but for the one that says which daemons are there just now. Types are named in full,
/// whatever the search path is.
pub(super) async fn tables(client: &impl GenericClient, schemas: &[String]) -> Result<Vec<Table>, BackupError> {
    let rows = client.query(sql::TABLES, &[&schemas]).await.map_err(BackupError::database("looking for tables"))?;
    let table = |row: &tokio_postgres::Row| {
        let (names, kinds): (Vec<String>, Vec<String>) = (row.get("columns"), row.get("kinds"));
        let columns = names.into_iter().zip(kinds).map(|(name, kind)| Column { name, kind }).collect();
        Table { schema: row.get("schema"), name: row.get("name"), columns }
    };
    Ok(rows.iter().map(table).collect())
}

/// The sequences that have given a number.
pub(super) async fn sequences(client: &impl GenericClient, schemas: &[String]) -> Result<Vec<Sequence>, BackupError> {
    let rows =
        client.query(sql::SEQUENCES, &[&schemas]).await.map_err(BackupError::database("looking for sequences"))?;
    Ok(rows
        .iter()
        .map(|r| Sequence { schema: r.get("schema"), name: r.get("name"), last: r.get("last_value") })
        .collect())
}

/// What must not act while rows come back, as statements: first those that switch it off, then those that switch it on
/// again. Foreign keys, because tables come one by one and may point in circles; triggers, because rows come as they
/// were and not as new ones.
pub(super) async fn guards(
    client: &impl GenericClient,
    schemas: &[String],
) -> Result<(Vec<String>, Vec<String>), BackupError> {
    let rows =
        client.query(sql::GUARDS, &[&schemas]).await.map_err(BackupError::database("looking for constraints"))?;
    Ok(rows.iter().map(|r| (r.get::<_, String>("off"), r.get::<_, String>("back"))).unzip())
}
