//! Reading a household out of its database: one moment of it, however much is written meanwhile.

use std::io::Write;
use std::path::Path;

use futures_util::TryStreamExt;
use tokio_postgres::{Client, IsolationLevel, Transaction};

use super::Counts;
use super::catalog::{self, PLAIN, Table};
use super::error::BackupError;
use super::records::{Manifest, Record, Writer};
use crate::sql;
use store::replay;

/// Pieces of a table are gathered to about this size.
const PIECE: usize = 64 * 1024;

/// Writes everything to `to`. `place` says in words which database it is. With `snapshot`, as of that moment, which
/// another transaction has exported.
pub(super) async fn dump<W: Write>(
    client: &mut Client,
    to: &mut Writer<W>,
    file: &Path,
    place: &str,
    snapshot: Option<&str>,
) -> Result<(Manifest, Counts), BackupError> {
    let step = "beginning to read the database";
    let one_moment = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true);
    let tx = one_moment.start().await.map_err(BackupError::database(step))?;
    if let Some(id) = snapshot {
        let sql = format!("SET TRANSACTION SNAPSHOT '{}'", id.replace('\'', "''"));
        tx.batch_execute(&sql).await.map_err(BackupError::database(step))?;
    }
    tx.batch_execute(PLAIN).await.map_err(BackupError::database(step))?;
    if !there(&tx).await? {
        return Err(BackupError::Nothing(place.to_owned()));
    }
    let manifest = manifest(&tx).await?;
    lock(&tx, &manifest.tables).await?;
    let write = |source| BackupError::File { path: file.to_owned(), step: "written", source };
    to.put(&Record::Manifest(manifest.clone())).map_err(write)?;
    let mut counts = Counts { tables: manifest.tables.len(), ..Counts::default() };
    for (n, table) in manifest.tables.iter().enumerate() {
        to.put(&Record::Table(n)).map_err(write)?;
        let rows = copy_out(&tx, table, |piece| to.rows(piece).map_err(write)).await?;
        to.put(&Record::Rest(rows)).map_err(write)?;
        counts.rows += rows;
        base::crash::point("backup.table");
    }
    // Behind the rows: whatever was given out since, no row that is in the file has a higher number.
    let sequences = catalog::sequences(&tx, &manifest.schemas).await?;
    to.put(&Record::Sequences(sequences)).map_err(write)?;
    to.put(&Record::End).map_err(write)?;
    tx.commit().await.map_err(BackupError::database("reading the database to its end"))?;
    Ok((manifest, counts))
}

/// Whether a household is in this database at all.
async fn there(tx: &Transaction<'_>) -> Result<bool, BackupError> {
    let row = tx.query_one(sql::HOUSEHOLD_IS_THERE, &[]).await;
    Ok(row.map_err(BackupError::database("looking for a household"))?.get("found"))
}

/// Keeps the tables as they are: rows stay as of the moment by themselves, a table that is rewritten or emptied whole
/// does not.
async fn lock(tx: &Transaction<'_>, tables: &[Table]) -> Result<(), BackupError> {
    let names: Vec<String> = tables.iter().map(Table::sql_name).collect();
    if names.is_empty() {
        return Ok(());
    }
    let sql = format!("LOCK TABLE {} IN ACCESS SHARE MODE", names.join(", "));
    tx.batch_execute(&sql).await.map_err(BackupError::database("locking the tables"))
}

async fn manifest(tx: &Transaction<'_>) -> Result<Manifest, BackupError> {
    let row = tx.query_one(sql::SERVER_VERSION, &[]).await;
    let postgres = row.map_err(BackupError::database("asking for the server's version"))?.get("version");
    let (schemas, places) = (replay::schemas(tx).await?, replay::places(tx).await?);
    let applied = replay::history(tx, &schemas).await?;
    let tables = catalog::tables(tx, &schemas).await?;
    Ok(Manifest { postgres, schemas, places, applied, tables })
}

/// Hands the table's rows to `take`, in pieces that end with a row. Returns how many rows they are.
async fn copy_out(
    tx: &Transaction<'_>,
    table: &Table,
    mut take: impl FnMut(&[u8]) -> Result<(), BackupError>,
) -> Result<u64, BackupError> {
    let step = || format!("reading {}", table.sql_name());
    let sql = format!("COPY {} TO STDOUT", table.sql_columns());
    let stream = tx.copy_out(&sql).await.map_err(BackupError::database(step()))?;
    let mut stream = std::pin::pin!(stream);
    let mut rows = 0;
    let mut piece = Vec::with_capacity(PIECE);
    while let Some(row) = stream.try_next().await.map_err(BackupError::database(step()))? {
        // A message is a row; line ends within values are escaped.
        rows += row.iter().filter(|byte| **byte == b'\n').count() as u64;
        if piece.len() + row.len() > PIECE && !piece.is_empty() {
            take(&piece)?;
            piece.clear();
        }
        piece.extend_from_slice(&row);
    }
    if !piece.is_empty() {
        take(&piece)?;
    }
    Ok(rows)
}
