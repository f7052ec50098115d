//! `butlerd upgrade --check`: what a start of this program would do to the household's database, and what stands in
//! its way. Nothing is written.

use std::path::PathBuf;

use jiff::Timestamp;
use serde::Serialize;
use tokio_postgres::Client;

use crate::backup::{BackupError, Where};
use crate::check;
use crate::doctor::Daemon;
use crate::sql;
use base::Clock;
use butler::core_chains;
use config::{ButlerConfig, Environment, Household, Overrides, load};
use modules::{Catalog, Modules};
use store::migrate::{Chain, plan};
use store::{StoreError, cluster};
use supervisor::newest_backup;

/// All that was found.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Nothing stands in the way.
    pub ok: bool,
    /// Of this program.
    pub version: &'static str,
    /// Of the daemon that runs; `None`: unknown, as where none does.
    pub running: Option<String>,
    /// `None`: unknown, as where the daemon has made none.
    pub backup: Option<NewestBackup>,
    pub database: DatabaseState,
    /// What a start would apply, in this order.
    pub pending: Vec<PendingFiles>,
    pub refused: Vec<Refusal>,
    pub check: check::Report,
}

/// The newest backup that the daemon has made.
#[derive(Debug, Serialize)]
pub struct NewestBackup {
    pub file: PathBuf,
    pub at: Timestamp,
    pub age_seconds: i64,
}

/// What is known of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DatabaseState {
    Read,
    /// The first start makes it.
    Absent,
    /// The settings have mistakes, or it could not be read.
    Unknown,
}

/// Files of a chain that a schema lacks.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct PendingFiles {
    pub schema: String,
    pub chain: String,
    pub files: Vec<String>,
}

/// What a start would refuse, or why that is not known.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// Of which butler, while the others start; `None`: of the household, and none would.
    pub butler: Option<String>,
    pub error: String,
}

/// Looks at everything. `key`: a master key that is elsewhere. `sql`: the roster's SQL is tried, as by [`check::check`].
pub async fn examine(overrides: &Overrides, environment: &Environment, key: Option<PathBuf>, sql: bool) -> Report {
    let mut report = Report {
        ok: false,
        version: env!("CARGO_PKG_VERSION"),
        running: None,
        backup: None,
        database: DatabaseState::Unknown,
        pending: Vec::new(),
        refused: Vec::new(),
        check: check::check(overrides, environment, sql).await,
    };
    let Ok(Household { config, butlers, .. }) = load(overrides, environment, &Catalog::default()) else {
        return report;
    };
    report.running = Daemon::find(&config.daemon.data_dir).await.version().map(str::to_owned);
    let now = Clock::of_environment().now();
    report.backup = newest_backup(&config, now).map(|(at, file)| {
        let age_seconds = now.duration_since(at).as_secs();
        NewestBackup { file, at, age_seconds }
    });
    match report.look(&Where { key, ..Where::of(&config) }, &butlers).await {
        Ok(state) => report.database = state,
        Err(e) => report.refuse(None, &e),
    }
    report.ok = report.check.ok && report.refused.is_empty();
    report
}

impl Report {
    async fn look(&mut self, from: &Where<'_>, butlers: &[ButlerConfig]) -> Result<DatabaseState, BackupError> {
        let absent = from.config.database.url.is_none() && !cluster::exists(&from.config.daemon.data_dir);
        let key = match from.key() {
            // With a key, a server is likely that only the daemon's environment names.
            Err(BackupError::NoKey(_)) if absent => return Ok(DatabaseState::Absent),
            key => key?,
        };
        let open = from.open(&key).await?;
        let compared = self.compare(&open.client, butlers).await;
        open.close().await;
        Ok(compared.map(|()| DatabaseState::Read)?)
    }

    /// Compares each chain with its history, in the order of a start.
    async fn compare(&mut self, client: &Client, butlers: &[ButlerConfig]) -> Result<(), StoreError> {
        client.batch_execute(sql::READ_ONLY).await.map_err(StoreError::query("beginning to read the database"))?;
        self.chain(client, "shared", None, &Chain::shipped("shared")?).await;
        for butler in butlers {
            for chain in chains_of(butler) {
                self.chain(client, &butler.db.schema, Some(butler), &chain).await;
            }
        }
        Ok(())
    }

    async fn chain(&mut self, client: &Client, schema: &str, butler: Option<&ButlerConfig>, chain: &Chain) {
        let todo = match plan(client, schema, chain).await {
            Ok(plan) => plan.todo,
            Err(e) => return self.refuse(butler, &e),
        };
        let files = todo.into_iter().map(|m| m.file).collect();
        let pending = PendingFiles { schema: schema.to_owned(), chain: chain.name.clone(), files };
        // Two modules may have the same tables.
        if !pending.files.is_empty() && !self.pending.contains(&pending) {
            self.pending.push(pending);
        }
    }

    fn refuse(&mut self, butler: Option<&ButlerConfig>, error: &dyn std::error::Error) {
        let refusal = Refusal { butler: butler.map(|b| b.name.to_string()), error: error.to_string() };
        if !self.refused.contains(&refusal) {
            self.refused.push(refusal);
        }
    }
}

/// The chains of a butler's schema in the order of its boot. Of one that can't be read `check` says why.
fn chains_of(butler: &ButlerConfig) -> Vec<Chain> {
    let name = &butler.name;
    let own = Chain::from_dir(name.as_str(), &butler.dir.join("migrations"));
    let modules = Modules::load(&Catalog::default(), name, &butler.dir, &butler.modules).chains();
    let modules = modules.into_iter().flat_map(|(_, chains)| chains.into_iter().flatten());
    core_chains(name).into_iter().flatten().chain(own).chain(modules).collect()
}
