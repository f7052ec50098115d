//! Writing a household into an empty database: all of it in one transaction, or nothing.

use std::io::Read;
use std::path::Path;

use bytes::Bytes;
use futures_util::SinkExt;
use tokio_postgres::{Client, Transaction};

use super::Counts;
use super::catalog::{self, PLAIN, Sequence, Table, quoted};
use super::error::BackupError;
use super::records::{Manifest, Reader, Record};
use super::sealed::seal_error;
use crate::sql;
use base::Secret;
use store::replay;

/// What a record or its absence means to whoever restores.
fn read_error(file: &Path, e: &std::io::Error) -> BackupError {
    let file = file.to_owned();
    match seal_error(e) {
        Some(problem) => BackupError::Broken { file, problem },
        None => BackupError::Content { file, problem: e.to_string() },
    }
}

fn unexpected(file: &Path, what: &str) -> BackupError {
    BackupError::Content { file: file.to_owned(), problem: what.to_owned() }
}

fn first<R: Read>(from: &mut Reader<R>, file: &Path) -> Result<Manifest, BackupError> {
    match from.next().map_err(|e| read_error(file, &e))? {
        Record::Manifest(manifest) => Ok(manifest),
        _ => Err(unexpected(file, "it does not begin with what it holds")),
    }
}

/// Reads all of it, to its very end, and says what there is. Nothing of a file counts before this.
pub(super) fn examine<R: Read>(from: &mut Reader<R>, file: &Path) -> Result<(Manifest, Counts), BackupError> {
    let manifest = first(from, file)?;
    let mut counts = Counts::default();
    let (mut open, mut lines, mut numbered) = (false, 0, false);
    loop {
        match from.next().map_err(|e| read_error(file, &e))? {
            Record::Table(n) if !open && n == counts.tables && n < manifest.tables.len() => {
                (open, lines) = (true, 0);
                counts.tables += 1;
            }
            Record::Rows(rows) if open => lines += rows.iter().filter(|byte| **byte == b'\n').count() as u64,
            Record::Rest(n) if open && n == lines => {
                open = false;
                counts.rows += n;
            }
            Record::Sequences(_) if !open && !numbered && counts.tables == manifest.tables.len() => numbered = true,
            Record::End if numbered => return Ok((manifest, counts)),
            _ => return Err(unexpected(file, "its parts do not follow each other")),
        }
    }
}

/// Restores into the database behind `client`, where no household may be. `place` says in words which database it is.
pub(super) async fn fill<R: Read>(
    client: &mut Client,
    from: &mut Reader<R>,
    file: &Path,
    place: &str,
    master_key: &Secret<Vec<u8>>,
) -> Result<Counts, BackupError> {
    let manifest = first(from, file)?;
    let schemas = &manifest.schemas;
    let tx = client.transaction().await.map_err(BackupError::database("beginning to restore"))?;
    refuse_unless_empty(&tx, schemas, place).await?;
    replay::rebuild(&tx, master_key, schemas, &manifest.places, &manifest.applied).await?;
    tx.batch_execute(PLAIN).await.map_err(BackupError::database("beginning to restore"))?;
    refuse_other_tables(&manifest.tables, &catalog::tables(&tx, schemas).await?, file)?;
    base::crash::point("restore.schemas");

    let (off, on) = catalog::guards(&tx, schemas).await?;
    run(&tx, &off, "taking the constraints off").await?;
    // Migrations may have written rows; those that count come from the file.
    let names: Vec<String> = manifest.tables.iter().map(Table::sql_name).collect();
    if !names.is_empty() {
        run(&tx, &[format!("TRUNCATE {}", names.join(", "))], "emptying the tables").await?;
    }
    let rosters = replay::roster_tables(&tx, schemas).await?;
    let owner = |t: &Table| rosters.iter().find(|(s, n, _)| (s, n) == (&t.schema, &t.name)).map(|(.., owner)| owner);
    let mut counts = Counts::default();
    let sequences = loop {
        match from.next().map_err(|e| read_error(file, &e))? {
            Record::Table(n) => {
                let table = manifest.tables.get(n).ok_or_else(|| unexpected(file, "a table that it does not name"))?;
                counts.rows += match owner(table) {
                    Some(owner) => stage(&tx, (table, owner), from, file).await?,
                    None => copy_in(&tx, table, &table.sql_columns(), from, file).await?,
                };
                counts.tables += 1;
                base::crash::point("restore.table");
            }
            Record::Sequences(sequences) => break sequences,
            _ => return Err(unexpected(file, "its parts do not follow each other")),
        }
    };
    run(&tx, &["SET LOCAL search_path = ''".to_owned()], "putting the constraints back").await?;
    run(&tx, &on, "putting the constraints back").await?;
    for sequence in &sequences {
        set(&tx, sequence).await?;
    }
    base::crash::point("restore.before_commit");
    tx.commit().await.map_err(BackupError::database("committing what was restored"))?;
    base::crash::point("restore.committed");
    Ok(counts)
}

async fn run(tx: &Transaction<'_>, statements: &[String], step: &str) -> Result<(), BackupError> {
    if statements.is_empty() {
        return Ok(());
    }
    tx.batch_execute(&statements.join(";\n")).await.map_err(BackupError::database(step))
}

async fn refuse_unless_empty(tx: &Transaction<'_>, schemas: &[String], place: &str) -> Result<(), BackupError> {
    // One at a time: the second finds what the first has made.
    tx.execute(sql::LOCK_RESTORE, &[]).await.map_err(BackupError::database("waiting for another restore"))?;
    let found =
        tx.query(sql::SCHEMAS_THERE, &[&schemas]).await.map_err(BackupError::database("looking at the database"))?;
    if found.is_empty() { Ok(()) } else { Err(BackupError::NotEmpty(place.to_owned())) }
}

/// The tables that the history made must be those whose rows are in the file.
fn refuse_other_tables(wanted: &[Table], made: &[Table], file: &Path) -> Result<(), BackupError> {
    let missing = wanted.iter().find(|table| !made.contains(table));
    let more = made.iter().find(|table| !wanted.contains(table));
    match missing.or(more) {
        None => Ok(()),
        Some(table) => {
            let name = format!("{}.{}", table.schema, table.name);
            Err(unexpected(file, &format!("the migrations in it do not make the table {name} as it was")))
        }
    }
}

/// Writes the rows of a table of a roster. What its checks and types compute, they compute as its owner: so the rows
/// come into a table of texts first.
async fn stage<R: Read>(
    tx: &Transaction<'_>,
    (table, owner): (&Table, &str),
    from: &mut Reader<R>,
    file: &Path,
) -> Result<u64, BackupError> {
    let step = || BackupError::database(format!("writing {}", table.sql_name()));
    tx.batch_execute(&sql::stage(table.columns.len(), &quoted(owner))).await.map_err(step())?;
    let written = copy_in(tx, table, sql::STAGED, from, file).await?;
    let (columns, kinds): (Vec<String>, Vec<&str>) =
        table.columns.iter().map(|c| (quoted(&c.name), c.kind.as_str())).unzip();
    let fill = sql::from_stage(&table.sql_name(), &columns, &kinds);
    let kept = replay::as_owner(tx, &table.schema, owner, &fill).await.map_err(step())?;
    tx.batch_execute(sql::UNSTAGE).await.map_err(step())?;
    if u64::try_from(kept) != Ok(written) {
        return Err(unexpected(file, &format!("{} took {kept} of {written} rows", table.sql_name())));
    }
    Ok(written)
}

/// Writes the rows of one table, up to the record that ends it, `into` it or what stands for it.
async fn copy_in<R: Read>(
    tx: &Transaction<'_>,
    table: &Table,
    into: &str,
    from: &mut Reader<R>,
    file: &Path,
) -> Result<u64, BackupError> {
    let step = || format!("writing {}", table.sql_name());
    // What a check or an index computes may name things of its schema shortly, as a migration does.
    let path = format!("SET LOCAL search_path = {}, shared, public", quoted(&table.schema));
    tx.batch_execute(&path).await.map_err(BackupError::database(step()))?;
    let sink = tx.copy_in::<_, Bytes>(&format!("COPY {into} FROM STDIN")).await;
    let mut sink = std::pin::pin!(sink.map_err(BackupError::database(step()))?);
    let wanted = loop {
        match from.next().map_err(|e| read_error(file, &e))? {
            Record::Rows(rows) => sink.send(Bytes::from(rows)).await.map_err(BackupError::database(step()))?,
            Record::Rest(rows) => break rows,
            _ => return Err(unexpected(file, "its parts do not follow each other")),
        }
    };
    let written = sink.finish().await.map_err(BackupError::database(step()))?;
    if written != wanted {
        let name = table.sql_name();
        return Err(unexpected(file, &format!("{name} has {written} rows in place of {wanted}")));
    }
    Ok(written)
}

async fn set(tx: &Transaction<'_>, sequence: &Sequence) -> Result<(), BackupError> {
    let name = format!("{}.{}", quoted(&sequence.schema), quoted(&sequence.name));
    let done = tx.execute(sql::SET_SEQUENCE, &[&name, &sequence.last]).await;
    done.map(drop).map_err(BackupError::database(format!("setting {name}")))
}
