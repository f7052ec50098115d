//! `butlerd check`: every mistake of the settings and the roster, and what a start would make of them.

use std::path::{Path, PathBuf};

use butler::own_tools;
use config::{ButlerConfig, Environment, Household, Mistake, Overrides, Refused, load};
use modules::{Catalog, StrictCatalog};
use serde::Serialize;
use supervisor::rehearse;

use crate::scenario::mentions;

/// All that was found.
#[derive(Debug, Serialize)]
pub struct Report {
    pub ok: bool,
    pub mistakes: Vec<Mistake>,
    /// Why the SQL was not tried, where it should have been.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub untried: Option<String>,
    /// What would start; `None`: nothing.
    #[serde(flatten)]
    pub start: Option<Start>,
}

/// The household that would start.
#[derive(Debug, Serialize)]
pub struct Start {
    pub roster: PathBuf,
    pub config_file: Option<PathBuf>,
    pub data_dir: PathBuf,
    pub butlers: Vec<String>,
    /// Butlers with mistakes, which would not start.
    pub parked: Vec<String>,
}

impl Start {
    fn of(household: &Household) -> Self {
        Self {
            roster: household.config.daemon.roster.clone(),
            config_file: household.config_file.clone(),
            data_dir: household.config.daemon.data_dir.clone(),
            butlers: household.butlers.iter().map(|b| b.name.to_string()).collect(),
            parked: household.broken.iter().map(|b| b.name.to_string()).collect(),
        }
    }
}

/// Checks settings and roster; with `sql`, the roster's SQL on a scratch database, too.
pub async fn check(overrides: &Overrides, environment: &Environment, sql: bool) -> Report {
    // Every mistake is told, those in modules' settings, too; a butler that has only such ones would start without the
    // module, so what would happen is asked in the way of a start.
    let strict = load(overrides, environment, &StrictCatalog::new(own_tools, mentions));
    let start = load(overrides, environment, &Catalog::default());
    let mut mistakes = told(&strict);
    let mut untried = None;
    if let (true, Ok(household)) = (sql, &start) {
        match rehearse(&household.config, &sound(household, &mistakes)).await {
            Ok(more) => mistakes.extend(more),
            Err(e) => untried = Some(e.to_string()),
        }
    }
    Report { ok: mistakes.is_empty(), mistakes, untried, start: start.as_ref().ok().map(Start::of) }
}

/// What the strict look tells, each once: what butlers share is looked at with each of them.
fn told(strict: &Result<Household, Refused>) -> Vec<Mistake> {
    let all: Vec<&Mistake> = match strict {
        Ok(household) => household.mistakes().collect(),
        Err(refused) => refused.mistakes().collect(),
    };
    let mut mistakes: Vec<Mistake> = Vec::new();
    for mistake in all {
        if !mistakes.contains(mistake) {
            mistakes.push(mistake.clone());
        }
    }
    mistakes
}

/// The butlers that would start, but for those whose SQL has mistakes already.
fn sound(household: &Household, mistakes: &[Mistake]) -> Vec<ButlerConfig> {
    let is_sql = |m: &&Mistake| m.file.extension().is_some_and(|e| e == "sql");
    let broken = |butler: &ButlerConfig| {
        let dir = butler.file.parent().unwrap_or(Path::new(""));
        mistakes.iter().filter(is_sql).any(|m| m.file.starts_with(dir))
    };
    household.butlers.iter().filter(|b| !broken(b)).cloned().collect()
}
