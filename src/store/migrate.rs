//! Migrations: chains of SQL files, applied in order, each once, each schema with its own history.
//!
//! A chain is locked while it runs. Shipped files are frozen: a changed text of an applied version is refused, and so
//! is a database that knows versions which this binary doesn't.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Instant;

use include_dir::{Dir, include_dir};
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, GenericClient, Transaction};

use super::error::MigrationError;
use super::lexer::{Spanned, Token, forbidden, line_of, name, tokens};
use super::roster::RosterOwner;
use super::{sql, stored};
use base::text::hex;

static SHIPPED: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../sql");

/// So often a file is tried that loses deadlocks.
const DEADLOCK_TRIES: usize = 5;

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

    /// Whether its files are part of butlerd.
    pub(super) fn is_shipped(&self) -> bool {
        self.migrations.first().is_some_and(|m| m.shipped)
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

/// What a file makes: its kind, as SQL calls it, and its name.
type Made = (String, String);

/// What the shipped files of these chains make, by name; of these kinds alone, as SQL calls them.
pub(super) fn shipped_names(chains: &[String], kinds: &[&str]) -> Result<Vec<String>, MigrationError> {
    let made = shipped_makes()?;
    let of_kind = |(kind, name): &Made| kinds.contains(&kind.as_str()).then(|| name.clone());
    let mut found: Vec<String> =
        chains.iter().filter_map(|chain| made.get(chain)).flatten().filter_map(of_kind).collect();
    found.sort();
    found.dedup();
    Ok(found)
}

/// What each shipped chain makes, as kind and name. The files are read through once: each butler's start asks.
fn shipped_makes() -> Result<&'static BTreeMap<String, Vec<Made>>, MigrationError> {
    static MAKES: OnceLock<BTreeMap<String, Vec<Made>>> = OnceLock::new();
    if let Some(known) = MAKES.get() {
        return Ok(known);
    }
    let mut found: BTreeMap<String, Vec<Made>> = BTreeMap::new();
    for dir in SHIPPED.dirs() {
        let chain = dir.path().display().to_string();
        for m in Chain::shipped(&chain)?.migrations {
            let list = tokens(&m.sql);
            found.entry(chain.clone()).or_default().extend((0..list.len()).filter_map(|n| made(&list[n..])));
        }
    }
    Ok(MAKES.get_or_init(|| found))
}

/// The functions that shipped files make in butlers' schemas.
pub(super) fn shipped_functions() -> Result<&'static [String], MigrationError> {
    static FUNCTIONS: OnceLock<Vec<String>> = OnceLock::new();
    if let Some(known) = FUNCTIONS.get() {
        return Ok(known);
    }
    let chains: Vec<String> =
        SHIPPED.dirs().map(|d| d.path().display().to_string()).filter(|d| d != "shared").collect();
    let found = shipped_names(&chains, &["function"])?;
    Ok(FUNCTIONS.get_or_init(|| found))
}

/// What a statement that begins here makes: its kind and its name.
fn made(list: &[Spanned<'_>]) -> Option<(String, String)> {
    let word = |n: usize| match list.get(n) {
        Some((_, Token::Word(word))) => word.to_ascii_lowercase(),
        _ => String::new(),
    };
    let mut n = 1;
    n += if word(0) != "create" {
        return None;
    } else if word(1) == "or" {
        2
    } else {
        0
    };
    let kind = word(n);
    n += if word(n + 1) == "if" { 4 } else { 1 };
    Some((kind, name(&list.get(n)?.1)?))
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

/// Applies what `schema` lacks of `chains`, in order.
///
/// `client` is a connection of the daemon's role that nothing else uses meanwhile; its search_path is only set inside
/// transactions. Every file runs in one transaction with its history row and the grants of what the file brought; a
/// file of a roster with the rights of `roster` alone.
pub(super) async fn run(
    client: &mut Client,
    schema: &str,
    chains: &[&Chain],
    roster: Option<&RosterOwner>,
) -> Result<(), MigrationError> {
    let history = |source| MigrationError::History { schema: schema.to_owned(), source };
    if !has_history(client, schema).await? {
        ensure_history(client, schema).await.map_err(history)?;
    }
    for chain in chains {
        let Plan { todo, torn } = plan(client, schema, chain).await?;
        keep_texts(client, schema, chain, &torn).await?;
        if !todo.is_empty() {
            // One runner at a time for a schema's chain; a second one finds the work done.
            let lock = format!("{schema}.{}", chain.name);
            client.execute(sql::LOCK, &[&lock]).await.map_err(history)?;
            let result = apply_through(client, schema, chain, roster).await;
            client.execute(sql::UNLOCK, &[&lock]).await.map_err(history)?;
            result?;
        }
        if let Some(roster) = roster.filter(|_| !chain.is_shipped()) {
            // Nothing that a file set or made is in the way of this look.
            refuse_stored(client, chain, roster).await?;
        }
    }
    Ok(())
}

/// Refuses what the files of a roster have left in a schema and may not stay.
async fn refuse_stored(client: &Client, chain: &Chain, roster: &RosterOwner) -> Result<(), MigrationError> {
    let schema = roster.schema.as_str();
    let found = stored::problem_since(client, schema, &roster.role(), shipped_functions()?).await;
    let found = found.map_err(|source| MigrationError::History { schema: schema.to_owned(), source })?;
    let Some((relation, problem)) = found else { return Ok(()) };
    let called = relation.trim_end_matches("()");
    let maker = chain.migrations.iter().find(|m| m.sql.contains(called)).or(chain.migrations.last());
    let file = maker.map_or_else(|| format!("schema {schema}"), |m| m.file.clone());
    Err(MigrationError::Leak { file, relation, problem })
}

/// What a start does with a chain in a schema.
pub struct Plan {
    /// Files that it applies.
    pub todo: Vec<Migration>,
    /// Applied files whose kept text was changed since.
    torn: Vec<Migration>,
}

/// Whether the schema has a history, as it does once anything was applied to it.
async fn has_history(client: &Client, schema: &str) -> Result<bool, MigrationError> {
    let found = client.query_one(sql::TABLE_EXISTS, &[&format!("\"{schema}\".schema_migrations")]).await;
    Ok(found.map_err(|source| MigrationError::History { schema: schema.to_owned(), source })?.get("found"))
}

/// Compares a chain with what was applied of it; refuses a changed file and a newer database. Writes nothing.
pub async fn plan(client: &Client, schema: &str, chain: &Chain) -> Result<Plan, MigrationError> {
    let mut torn = Vec::new();
    if !has_history(client, schema).await? {
        return Ok(Plan { todo: chain.migrations.clone(), torn });
    }
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
        if !row.get::<_, bool>("whole") {
            torn.push(m.clone());
        }
    }
    let done: Vec<i32> = rows.iter().map(|r| r.get("version")).collect();
    let todo = chain.migrations.iter().filter(|m| !done.contains(&m.version)).cloned().collect();
    Ok(Plan { todo, torn })
}

/// Rights the kept texts of these files: a backup makes its tables by them.
async fn keep_texts(client: &Client, schema: &str, chain: &Chain, files: &[Migration]) -> Result<(), MigrationError> {
    for m in files {
        let kept = client.execute(&sql::keep_text(schema), &[&chain.name, &m.version, &m.sql]).await;
        kept.map_err(|source| MigrationError::History { schema: schema.to_owned(), source })?;
        let file = &m.file;
        tracing::warn!(schema, file, "the text kept of an applied migration had been changed; it is right again");
    }
    Ok(())
}

/// As [`apply`], and again where a file lost a deadlock: whoever reads several tables of the schema meanwhile locks them
/// in an order of his own. Nothing of the file was kept, so that it runs as if for the first time.
async fn apply_through(
    client: &mut Client,
    schema: &str,
    chain: &Chain,
    roster: Option<&RosterOwner>,
) -> Result<(), MigrationError> {
    for _ in 1..DEADLOCK_TRIES {
        match apply(client, schema, chain, roster).await {
            Err(e) if e.is_deadlock() => {
                tracing::info!(schema, error = %e, "a migration lost a deadlock and runs again")
            }
            ended => return ended,
        }
    }
    apply(client, schema, chain, roster).await
}

async fn apply(
    client: &mut Client,
    schema: &str,
    chain: &Chain,
    roster: Option<&RosterOwner>,
) -> Result<(), MigrationError> {
    let todo = plan(client, schema, chain).await?.todo;
    if let Some(roster) = roster.filter(|_| !chain.is_shipped()) {
        return roster.apply(client, chain, &todo).await;
    }
    let afterwards = roster.map(RosterOwner::grants).unwrap_or_default();
    for m in &todo {
        let started = Instant::now();
        let failed = |source: tokio_postgres::Error| MigrationError::Failed {
            file: m.file.clone(),
            line: error_line(&m.sql, &source),
            source,
        };
        let tx = client.transaction().await.map_err(failed)?;
        tx.batch_execute(&format!("SET LOCAL search_path = {}", search_path(schema))).await.map_err(failed)?;
        if let Err(source) = tx.batch_execute(&m.sql).await {
            tx.rollback().await.map_err(failed)?;
            return Err(broken(client, schema, m, source).await);
        }
        refuse_without_tenant(&tx, schema, m).await?;
        tx.batch_execute(&afterwards).await.map_err(failed)?;
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
        tracing::debug!(schema, chain = chain.name, version = m.version, name = m.name, "migration applied");
    }
    Ok(())
}

impl RosterOwner {
    /// Applies these files of a chain, in order. `daemon` is a connection of the daemon's role that holds the chain's
    /// lock.
    async fn apply(&self, daemon: &Client, chain: &Chain, files: &[Migration]) -> Result<(), MigrationError> {
        let mut client = self.log_in().await?;
        let taken = shipped_functions()?;
        for m in files {
            self.apply_one(daemon, &mut client, chain, m, taken).await?;
            base::crash::point("migration.after_commit");
            let (schema, version, name) = (&self.schema, m.version, &m.name);
            tracing::debug!(schema, chain = chain.name, version, name, "migration applied");
        }
        Ok(())
    }

    async fn apply_one(
        &self,
        daemon: &Client,
        client: &mut Client,
        chain: &Chain,
        m: &Migration,
        taken: &[String],
    ) -> Result<(), MigrationError> {
        let failed = |source: tokio_postgres::Error| MigrationError::Failed {
            file: m.file.clone(),
            line: error_line(&m.sql, &source),
            source,
        };
        let record = json!({
            "chain": chain.name, "version": m.version, "name": m.name, "sql": m.sql, "sha256": hex(&digest(&m.sql)),
        });
        daemon.execute(sql::BEGIN_FILE, &[&self.schema, &record]).await.map_err(failed)?;
        let tx = client.transaction().await.map_err(failed)?;
        tx.batch_execute(&format!("SET LOCAL search_path = {}", search_path(&self.schema))).await.map_err(failed)?;
        if let Err(source) = tx.batch_execute(&m.sql).await {
            tx.rollback().await.map_err(failed)?;
            return Err(broken(client, &self.schema, m, source).await);
        }
        self.finish(&tx, m, taken).await?;
        tx.commit().await.map_err(failed)
    }

    /// Looks at what the file made, and records it.
    async fn finish(&self, tx: &Transaction<'_>, m: &Migration, taken: &[String]) -> Result<(), MigrationError> {
        let failed =
            |source: tokio_postgres::Error| MigrationError::Failed { file: m.file.clone(), line: None, source };
        // What is asked below means the server's own tables, whatever the file made or set.
        tx.batch_execute(sql::SERVERS_OWN).await.map_err(failed)?;
        refuse_without_tenant(tx, &self.schema, m).await?;
        stored::refuse(tx, (&self.schema, &self.role()), taken, &m.file).await?;
        base::crash::point("migration.before_history");
        tx.execute(sql::END_FILE, &[]).await.map_err(failed)?;
        Ok(())
    }
}

/// What broke a file, with its line.
async fn broken(client: &mut Client, schema: &str, m: &Migration, source: tokio_postgres::Error) -> MigrationError {
    let mut e = MigrationError::Failed { file: m.file.clone(), line: error_line(&m.sql, &source), source };
    if let MigrationError::Failed { line: None, .. } = e
        && !e.is_deadlock()
    {
        let found = failing_line(client, schema, &m.sql).await;
        if let MigrationError::Failed { line, .. } = &mut e {
            *line = found;
        }
    }
    e
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

/// Tables that hold no household's rows: the history itself and the map of roles.
const WITHOUT_TENANT: [&str; 2] = ["schema_migrations", "butler_roles"];

/// Refuses tables without a tenant, and what would show one tenant the rows of another.
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
                let hex = hex(&Sha256::digest(f.contents()));
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
