//! Migrations: chains of SQL files, applied in order, each once, each schema with its own history.
//!
//! A chain is locked while it runs. Shipped files are frozen: a changed text of an applied version is refused, and so
//! is a database that knows versions which this binary doesn't.

use std::path::{Path, PathBuf};
use std::time::Instant;

use include_dir::{Dir, include_dir};
use sha2::{Digest, Sha256};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, GenericClient, Transaction};

use super::error::MigrationError;
use super::lexer::{Token, forbidden, line_of, tokens};
use super::sql;

static SHIPPED: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../sql");

/// One file of a chain: `NNN_name.sql`.
#[derive(Debug, Clone)]
pub struct Migration {
    pub version: i32,
    pub name: String,
    pub sql: String,
    /// The file, as people know it.
    pub file: String,
    /// It is part of butlerd, and may define functions that work with the owner's rights.
    pub shipped: bool,
}

/// A named sequence of migrations.
#[derive(Debug, Clone)]
pub struct Chain {
    pub name: String,
    pub migrations: Vec<Migration>,
}

impl Chain {
    /// A chain compiled into the binary: the directory `sql/<name>/`.
    pub fn shipped(name: &str) -> Result<Self, MigrationError> {
        let files = SHIPPED.get_dir(name).map(|d| d.files().collect::<Vec<_>>()).unwrap_or_default();
        let mut migrations = Vec::new();
        for file in files.into_iter().filter(|f| f.path().extension().is_some_and(|e| e == "sql")) {
            let shown = Path::new("sql").join(file.path());
            let parsed = parse_name(&shown, file.contents_utf8().unwrap_or_default().to_owned())?;
            migrations.push(Migration { shipped: true, ..parsed });
        }
        Self::ordered(name, migrations)
    }

    /// A chain read from a directory of the roster; a missing directory is an empty chain.
    pub fn from_dir(name: &str, dir: &Path) -> Result<Self, MigrationError> {
        let read = |source| MigrationError::Read { file: dir.display().to_string(), source };
        let mut migrations = Vec::new();
        if dir.is_dir() {
            let mut files: Vec<PathBuf> = Vec::new();
            for entry in std::fs::read_dir(dir).map_err(read)? {
                files.push(entry.map_err(read)?.path());
            }
            for path in files.into_iter().filter(|p| p.extension().is_some_and(|e| e == "sql")) {
                let sql = std::fs::read_to_string(&path)
                    .map_err(|source| MigrationError::Read { file: path.display().to_string(), source })?;
                if let Some(f) = forbidden(&sql, true).into_iter().next() {
                    let file = path.display().to_string();
                    return Err(MigrationError::Forbidden { file, line: f.line, word: f.word, instead: f.instead });
                }
                migrations.push(parse_name(&path, sql)?);
            }
        }
        Self::ordered(name, migrations)
    }

    fn ordered(name: &str, mut migrations: Vec<Migration>) -> Result<Self, MigrationError> {
        migrations.sort_by_key(|m| m.version);
        for (i, m) in migrations.iter().enumerate() {
            if usize::try_from(m.version) != Ok(i + 1) {
                return Err(MigrationError::BadName { file: m.file.clone() });
            }
        }
        Ok(Self { name: name.to_owned(), migrations })
    }
}

fn parse_name(path: &Path, sql: String) -> Result<Migration, MigrationError> {
    let file = path.display().to_string();
    let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
    let parsed = stem.split_once('_').and_then(|(n, name)| Some((n.parse().ok()?, name.to_owned())));
    match parsed {
        Some((version, name)) if stem.find('_') == Some(3) => {
            Ok(Migration { version, name, sql, file, shipped: false })
        }
        _ => Err(MigrationError::BadName { file }),
    }
}

/// What a migration's unqualified names mean.
pub(super) fn search_path(schema: &str) -> String {
    if schema == "shared" { "shared".to_owned() } else { format!("\"{schema}\", shared, public") }
}

pub(super) fn digest(sql: &str) -> Vec<u8> {
    Sha256::digest(sql.as_bytes()).to_vec()
}

/// The line of `sql` that the server's error points at.
pub(super) fn error_line(sql: &str, e: &tokio_postgres::Error) -> Option<usize> {
    match e.as_db_error()?.position()? {
        tokio_postgres::error::ErrorPosition::Original(at) => {
            let at = usize::try_from(*at).ok()?;
            Some(sql.chars().take(at.saturating_sub(1)).filter(|c| *c == '\n').count() + 1)
        }
        tokio_postgres::error::ErrorPosition::Internal { .. } => None,
    }
}

/// Creates the schema's history table. The schema must exist.
///
/// The history holds the files' texts and their order, over schemas too (`after_shared`: how far `shared` was), so that
/// a backup can make the same tables again whatever has become of the roster.
pub(super) async fn ensure_history(client: &impl GenericClient, schema: &str) -> Result<(), tokio_postgres::Error> {
    client
        .batch_execute(&format!(
            "CREATE TABLE IF NOT EXISTS \"{schema}\".schema_migrations (
                 chain text NOT NULL, version integer NOT NULL, name text NOT NULL, sha256 bytea NOT NULL,
                 applied_at timestamptz NOT NULL DEFAULT clock_timestamp(), duration_ms bigint NOT NULL,
                 sql text NOT NULL, ordinal integer NOT NULL, after_shared integer NOT NULL,
                 PRIMARY KEY (chain, version))"
        ))
        .await
}

/// Applies what `schema` lacks of `chains`, in order. Returns how many files were applied.
///
/// `client` is a connection of the owner role that nothing else uses meanwhile; its search_path is only set inside
/// transactions. Every file runs in one transaction with its history row and with `afterwards`, which grants what the
/// file brought.
pub async fn run(
    client: &mut Client,
    schema: &str,
    chains: &[&Chain],
    afterwards: &str,
) -> Result<usize, MigrationError> {
    let history = |source| MigrationError::History { schema: schema.to_owned(), source };
    let known =
        client.query_one(sql::TABLE_EXISTS, &[&format!("\"{schema}\".schema_migrations")]).await.map_err(history)?;
    if !known.get::<_, bool>("found") {
        ensure_history(client, schema).await.map_err(history)?;
    }
    let mut applied_now = 0;
    for chain in chains {
        let pending = pending(client, schema, chain).await?;
        if pending.is_empty() {
            continue;
        }
        // One runner at a time for a schema's chain; a second one finds the work done.
        let lock = format!("{schema}.{}", chain.name);
        client.execute(sql::LOCK, &[&lock]).await.map_err(history)?;
        let result = apply(client, schema, chain, afterwards).await;
        client.execute(sql::UNLOCK, &[&lock]).await.map_err(history)?;
        applied_now += result?;
    }
    Ok(applied_now)
}

/// What of the chain is still to do; refuses a changed text and a newer database.
async fn pending(client: &Client, schema: &str, chain: &Chain) -> Result<Vec<Migration>, MigrationError> {
    let rows = client
        .query(&sql::applied(schema), &[&chain.name])
        .await
        .map_err(|source| MigrationError::History { schema: schema.to_owned(), source })?;
    let known = chain.migrations.last().map_or(0, |m| m.version);
    for row in &rows {
        let version: i32 = row.get("version");
        let Some(m) = chain.migrations.iter().find(|m| m.version == version) else {
            let (schema, chain) = (schema.to_owned(), chain.name.clone());
            return Err(MigrationError::Newer { schema, chain, found: version, known });
        };
        if row.get::<_, Vec<u8>>("sha256") != digest(&m.sql) {
            return Err(MigrationError::Changed { file: m.file.clone(), schema: schema.to_owned() });
        }
    }
    let done: Vec<i32> = rows.iter().map(|r| r.get("version")).collect();
    Ok(chain.migrations.iter().filter(|m| !done.contains(&m.version)).cloned().collect())
}

async fn apply(client: &mut Client, schema: &str, chain: &Chain, afterwards: &str) -> Result<usize, MigrationError> {
    let todo = pending(client, schema, chain).await?;
    for m in &todo {
        let started = Instant::now();
        let failed = |source: tokio_postgres::Error| MigrationError::Failed {
            file: m.file.clone(),
            line: error_line(&m.sql, &source),
            source,
        };
        let tx = client.transaction().await.map_err(failed)?;
        tx.batch_execute(&format!("SET LOCAL search_path = {}", search_path(schema))).await.map_err(failed)?;
        let before = owners_functions(&tx, schema).await.map_err(failed)?;
        if let Err(source) = run_file(&tx, schema, &m.sql, !m.shipped).await {
            tx.rollback().await.map_err(failed)?;
            let line = match error_line(&m.sql, &source) {
                Some(line) => Some(line),
                None => failing_line(client, schema, &m.sql).await,
            };
            return Err(MigrationError::Failed { file: m.file.clone(), line, source });
        }
        refuse_without_tenant(&tx, schema, m).await?;
        let after = owners_functions(&tx, schema).await.map_err(failed)?;
        if let Some((name, _)) = after.into_iter().find(|f| !m.shipped && !before.contains(f)) {
            let (file, problem) = (m.file.clone(), "is SECURITY DEFINER, which would run with the owner's rights");
            return Err(MigrationError::Leak { file, relation: format!("{name}()"), problem: problem.to_owned() });
        }
        tx.batch_execute(afterwards).await.map_err(failed)?;
        base::crash::point("migration.before_history");
        tx.execute(
            &sql::record(schema),
            &[
                &chain.name,
                &m.version,
                &m.name,
                &digest(&m.sql),
                &i64::try_from(started.elapsed().as_millis()).unwrap_or(i64::MAX),
                &m.sql,
            ],
        )
        .await
        .map_err(failed)?;
        tx.commit().await.map_err(failed)?;
        base::crash::point("migration.after_commit");
        tracing::info!(schema, chain = chain.name, version = m.version, name = m.name, "migration applied");
    }
    Ok(todo.len())
}

/// Where the statement begins that fails, when the server does not say where: they are tried one by one, and nothing is
/// kept. `None`, if none does alone.
async fn failing_line(client: &mut Client, schema: &str, sql: &str) -> Option<usize> {
    let tx = client.transaction().await.ok()?;
    tx.batch_execute(&format!("SET LOCAL search_path = {}", search_path(schema))).await.ok()?;
    let list = tokens(sql);
    for statement in list.split_inclusive(|(_, token)| *token == Token::Semicolon) {
        let (Some((begin, _)), Some((last, token))) = (statement.first(), statement.last()) else { continue };
        let end = if *token == Token::Semicolon { *last } else { sql.len() };
        let text = &sql[*begin..end];
        if let Err(e) = tx.batch_execute(text).await {
            // A text that can't be cut at its semicolons breaks in places that are none.
            let is_cut = e.code() == Some(&SqlState::SYNTAX_ERROR);
            return (!is_cut).then(|| line_of(sql, *begin) + error_line(text, &e).map_or(0, |line| line - 1));
        }
    }
    None
}

/// Runs a file. `kept`: the rows before each change in the tables that it makes are kept, so that calls can be taken back.
pub(super) async fn run_file(
    tx: &Transaction<'_>,
    schema: &str,
    sql: &str,
    kept: bool,
) -> Result<(), tokio_postgres::Error> {
    if !kept {
        return tx.batch_execute(sql).await;
    }
    let known: Vec<u32> = tx.query_one(sql::TABLES_OF, &[&schema]).await?.get("tables");
    tx.batch_execute(sql).await?;
    tx.execute(sql::KEEP_ROWS, &[&schema, &known]).await?;
    Ok(())
}

/// Tables that hold no household's rows: the history itself and the map of roles.
const WITHOUT_TENANT: [&str; 2] = ["schema_migrations", "butler_roles"];

/// The functions of a schema that work with the owner's rights: name, and a mark of what it does.
async fn owners_functions(tx: &Transaction<'_>, schema: &str) -> Result<Vec<(String, String)>, tokio_postgres::Error> {
    Ok(tx
        .query(sql::OWNERS_FUNCTIONS, &[&schema])
        .await?
        .iter()
        .map(|row| (row.get("name"), row.get("mark")))
        .collect())
}

async fn refuse_without_tenant(tx: &Transaction<'_>, schema: &str, m: &Migration) -> Result<(), MigrationError> {
    let rows = tx
        .query(sql::LEAKS, &[&schema])
        .await
        .map_err(|source| MigrationError::History { schema: schema.to_owned(), source })?;
    for row in rows {
        let (relation, problem): (String, String) = (row.get("relation"), row.get("problem"));
        let file = m.file.clone();
        match problem.as_str() {
            "has no tenant" if WITHOUT_TENANT.contains(&relation.as_str()) => {}
            "has no tenant" => return Err(MigrationError::NoTenant { file, table: relation }),
            _ => return Err(MigrationError::Leak { file, relation, problem }),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_chains_are_ordered_and_frozen() {
        for name in ["shared", "core", "inbox", "memory"] {
            assert!(!Chain::shipped(name).unwrap().migrations.is_empty(), "{name}");
        }
        let listed = SHIPPED.get_file("CHECKSUMS").unwrap().contents_utf8().unwrap();
        let mut want = String::new();
        for dir in SHIPPED.dirs() {
            let mut files: Vec<_> = dir.files().collect();
            files.sort_by_key(|f| f.path());
            for f in files {
                let hex: String = Sha256::digest(f.contents()).iter().map(|b| format!("{b:02x}")).collect();
                want.push_str(&format!("{hex}  {}\n", f.path().display()));
            }
        }
        assert_eq!(listed, want, "sql/CHECKSUMS: add new files (`just checksums`), never change a shipped one");
    }

    #[test]
    fn names_of_migrations() {
        let ok = parse_name(Path::new("x/012_more.sql"), String::new()).unwrap();
        assert_eq!((ok.version, ok.name.as_str()), (12, "more"));
        for bad in ["1_x.sql", "x.sql", "0001_x.sql", "00a_x.sql"] {
            assert!(parse_name(Path::new(bad), String::new()).is_err(), "{bad}");
        }
        let gap = vec![parse_name(Path::new("002_x.sql"), String::new()).unwrap()];
        assert!(Chain::ordered("c", gap).is_err());
    }
}
