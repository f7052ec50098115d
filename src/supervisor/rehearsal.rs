//! What only a database can tell of a roster: its migrations are applied and its statements prepared, each under its
//! butler's role, in a database that is thrown away.

use std::path::Path;
use std::time::Duration;

use super::foundation::{FoundationError, lay};
use access::TokenBook;
use base::{ButlerName, Clock, Scratch, TenantId};
use butler::core_chains;
use config::{ButlerConfig, Config, Mistake};
use modules::{Catalog, Modules};
use store::migrate::Chain;
use store::{Database, MigrationError, Store, StoreError, describe};
use tools::ToolFileError;
use tools::sql::{self, Pages, Use};

/// How long the scratch database may take to stop.
const STOPPING: Duration = Duration::from_secs(20);

/// Why a roster's SQL was not tried: there was nothing to try it on.
#[derive(Debug, thiserror::Error)]
pub enum RehearsalError {
    #[error("the scratch directory: {0}")]
    Scratch(std::io::Error),
    #[error(transparent)]
    Foundation(#[from] FoundationError),
    #[error("{butler}: {source}")]
    Butler { butler: ButlerName, source: StoreError },
}

/// Tries the SQL of these butlers. The household's own database is not touched.
pub async fn rehearse(config: &Config, butlers: &[ButlerConfig]) -> Result<Vec<Mistake>, RehearsalError> {
    let scratch = Scratch::new("check").map_err(RehearsalError::Scratch)?;
    let mut config = config.clone();
    config.daemon.data_dir = scratch.path().join("data");
    config.database.url = None;
    let ground = lay(&config, 0, &Clock::default(), &TokenBook::default(), &|_| {}).await?;
    let found = everything(&ground.db, butlers).await;
    ground.db.close().await;
    if let Some(cluster) = &ground.cluster {
        cluster.stop(STOPPING).await;
    }
    found
}

async fn everything(db: &Database, butlers: &[ButlerConfig]) -> Result<Vec<Mistake>, RehearsalError> {
    let failed = |butler: &ButlerConfig, source| RehearsalError::Butler { butler: butler.name.clone(), source };
    let mut found = Vec::new();
    let mut ready = Vec::new();
    // All tables of all butlers are there before anything is prepared, as on any day but the first.
    for butler in butlers {
        match tables(db, butler).await.map_err(|e| failed(butler, e))? {
            Ok(store) => ready.push((butler, store)),
            Err(wrong) => found.extend(wrong),
        }
    }
    for (butler, store) in ready {
        found.extend(statements(&store, butler).await.map_err(|e| failed(butler, e))?);
    }
    Ok(found)
}

/// Makes the butler's tables. The inner error: what is wrong with its own migrations; then its statements have nothing
/// to stand on.
async fn tables(db: &Database, butler: &ButlerConfig) -> Result<Result<Store, Option<Mistake>>, StoreError> {
    let (name, schema) = (&butler.name, &butler.db.schema);
    let store = db.provision(name, schema).await?;
    let core = core_chains(name)?;
    db.migrate(name, schema, &core.iter().collect::<Vec<_>>()).await?;
    // What its text shows to be wrong was told without a database.
    let Ok(own) = Chain::from_dir(name.as_str(), &butler.dir.join("migrations")) else { return Ok(Err(None)) };
    match db.migrate(name, schema, &[&own]).await {
        Ok(_) => {}
        Err(StoreError::Migration(e)) => return Ok(Err(of_migration(butler, &own, e))),
        Err(e) => return Err(e),
    }
    let mut modules = Modules::load(&Catalog::default(), name, &butler.dir, &butler.modules);
    modules.migrate(db, name, schema).await;
    Ok(Ok(store))
}

/// What is wrong with the butler's tools, jobs and pages.
async fn statements(store: &Store, butler: &ButlerConfig) -> Result<Vec<Mistake>, StoreError> {
    let mut lease = store.tenant(&TenantId::owner()).await?;
    let mut wrong: Vec<ToolFileError> = Vec::new();
    let tools = butler.dir.join("tools");
    if butler.modules.contains_key(butler.name.as_str())
        && let Ok(files) = sql::load_dir(&tools, Use::Tool)
    {
        wrong.extend(sql::refused(&mut lease, &files).await);
        wrong.extend(sql::prepare(&mut lease, files).await.err().into_iter().flatten());
    }
    let jobs = butler.dir.join("jobs");
    if let Ok(files) = sql::load_dir(&jobs, Use::Job) {
        wrong.extend(sql::refused(&mut lease, &files).await);
        wrong.extend(sql::prepare_jobs(&mut lease, &jobs).await.err().into_iter().flatten());
    }
    let pages = butler.dir.join("api");
    if let Ok(files) = sql::load_pages(&pages) {
        wrong.extend(sql::refused(&mut lease, &files).await);
        drop(lease);
        match Pages::prepare(store, &pages).await {
            Ok(pages) => wrong.extend(pages.tried().await?),
            Err(told) => wrong.extend(told),
        }
    }
    Ok(wrong.into_iter().map(|e| mistake(butler, &e.file, Some(e.line), e.problem, "")).collect())
}

/// A failed migration; `None`: one of the house's own text, which is nobody's mistake here.
fn of_migration(butler: &ButlerConfig, chain: &Chain, e: MigrationError) -> Option<Mistake> {
    let line_with = |file: &str, word: &str| {
        let migration = chain.migrations.iter().find(|m| m.file == file)?;
        migration.sql.lines().position(|line| line.contains(word)).map(|n| n + 1)
    };
    match e {
        MigrationError::Failed { file, line, source } => {
            Some(mistake(butler, Path::new(&file), line.or(Some(1)), describe(&source), "SQL that can be applied"))
        }
        MigrationError::NoTenant { file, table } => {
            let expected = format!("`SELECT shared.tenant_table('{table}');` after its definition");
            let line = line_with(&file, &table).or(Some(1));
            Some(mistake(butler, Path::new(&file), line, format!("table {table} has no tenant"), &expected))
        }
        MigrationError::Leak { file, relation, problem } => {
            let line = line_with(&file, relation.trim_end_matches("()")).or(Some(1));
            Some(mistake(butler, Path::new(&file), line, format!("{relation} {problem}"), ""))
        }
        _ => None,
    }
}

/// A mistake in a file of the butler's directory, which is named as people do.
fn mistake(butler: &ButlerConfig, file: &Path, line: Option<usize>, problem: String, expected: &str) -> Mistake {
    let shown = butler.file.parent().unwrap_or(Path::new(""));
    let inside = file.strip_prefix(&butler.dir).map_or_else(|_| file.to_owned(), |inside| shown.join(inside));
    Mistake { file: inside, line, key: String::new(), problem, expected: expected.to_owned() }
}
