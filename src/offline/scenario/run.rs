//! All scenarios of a roster, in a household of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use serde_json::json;

use super::error::ScenarioError;
use super::evidence::{Coverage, unproven};
use super::file::{Scenario, ScenarioFile, read_dir};
use super::play::Stage;
use crate::ANY_PORT;
use access::credentials::{CredentialError, Credentials};
use admin;
use base::{HumanDuration, Scratch, Secret, TenantId};
use butler::Butler;
use config::{ButlerConfig, Environment, Household, Overrides, Ports, SERVER_MODULES, Zone, load};
use modules::{Catalog, Modules};
use supervisor::{Embedded, Prepare, Supervisor};
use telemetry::start_log;
use tools::http::{Source, answer_from};
use tools::sql::prepare_jobs;

/// What went wrong where.
#[derive(Debug, Clone, Serialize)]
pub struct Failure {
    pub file: PathBuf,
    pub line: usize,
    /// The scenario; empty where it is not about one.
    pub scenario: String,
    pub problem: String,
}

/// What one butler's scenarios came to.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub butler: String,
    pub scenarios: usize,
    pub steps: usize,
    /// Of its own trade.
    pub tools: usize,
    /// Those with evidence of all three kinds.
    pub proven: usize,
    /// The tools that lack some, with what they lack. Unknown (`None`) where only some scenarios were played.
    pub lacking: Option<Vec<(String, Vec<&'static str>)>>,
    pub failures: Vec<Failure>,
}

impl Report {
    pub fn is_good(&self) -> bool {
        self.failures.is_empty() && self.lacking.as_ref().is_none_or(Vec::is_empty)
    }
}

/// Where the owner of scenarios lives.
const ZONE: &str = "Europe/Berlin";

/// Plays the scenarios of these butlers (none named: all), only those whose name contains `only`. `record`: HTTP tools
/// ask the network for what no recording answers, and record it; else nothing is asked outside. `on`: the household of
/// this data directory is played on, and goes on itself; else one in a scratch directory.
pub async fn run(
    overrides: &Overrides,
    environment: &Environment,
    butlers: &[String],
    only: Option<&str>,
    record: bool,
    on: Option<&Path>,
) -> Result<Vec<Report>, ScenarioError> {
    answer_from(if record { Source::Record } else { Source::Recordings });
    let scratch = Scratch::new("test").map_err(ScenarioError::Scratch)?;
    // The machine's settings say where the roster is and where PostgreSQL's programs are; nothing of theirs is touched.
    let overrides = Overrides {
        data_dir: Some(on.map_or_else(|| scratch.path().join("data"), Path::to_owned)),
        ports: Some(Ports::Auto),
        listen: Some(ANY_PORT.to_owned()),
        log: Some("off".to_owned()),
        ..overrides.clone()
    };
    let mut household = load(&overrides, environment, &Catalog::default())?;
    prepare(&mut household);
    all_there(&household, butlers)?;
    start_log(&household.config.telemetry)?;
    let places: Vec<(String, PathBuf, String)> = household
        .butlers
        .iter()
        .filter(|b| butlers.is_empty() || butlers.contains(&b.name.to_string()))
        .map(|b| (b.name.to_string(), b.dir.clone(), b.db.schema.clone()))
        .collect();
    let wanted: BTreeSet<String> = household.butlers.iter().flat_map(wanted_credentials).collect();
    let prepare: Prepare = Box::new(move |house| {
        Box::pin(async move {
            for name in wanted {
                if let Err(e) = stand_in(&house.credentials, &name).await {
                    tracing::error!(name, error = %e, "no stand-in for a secret could be stored");
                }
            }
        })
    });
    let house = Embedded::start(household, admin::spawn, Some(prepare)).await?;
    let mut reports = Vec::new();
    for (name, dir, schema) in places {
        // What butlers share, such as calendars, all of them see of the same tenant: no two scenarios have the same.
        let before = reports.iter().map(|report: &Report| report.scenarios).sum();
        reports.push(of_butler(&house.supervisor, &name, dir, &schema, (only, before)).await);
    }
    house.end().await?;
    Ok(reports)
}

/// Makes it a household that is the same wherever and whenever it is played.
fn prepare(household: &mut Household) {
    household.config.database.url = None;
    // Nothing answers in the place of others' servers.
    household.butlers.iter_mut().for_each(|butler| butler.modules.retain(|name, _| !name.starts_with(SERVER_MODULES)));
    household.config.telemetry.otlp = None;
    if let Some(zone) = Zone::named(ZONE) {
        household.config.owner.time_zone = zone;
    }
    for butler in &mut household.butlers {
        // Nor is a server's calendar read or written: they are those of the scratch household.
        if let Some(calendar) = butler.modules.get_mut("calendar") {
            *calendar = json!({"provider": "local"});
        }
        // A clock that jumps would set them all off.
        butler.schedules.clear();
        // No session is started here, so that no variable of one is needed.
        butler.env.required.clear();
        // However it jumps, a butler that is up is there.
        if let Some(registration) = &mut butler.switchboard {
            registration.liveness_ttl = HumanDuration::from_secs(100 * 365 * 24 * 3600);
        }
    }
}

/// The credentials without which a module of this butler does not start.
fn wanted_credentials(butler: &ButlerConfig) -> Vec<String> {
    Modules::load(&Catalog::default(), &butler.name, &butler.dir, &butler.modules).required_credentials()
}

/// Stores something in the place of a credential that this environment does not have: nothing real is reached with it.
async fn stand_in(credentials: &Credentials, name: &str) -> Result<(), CredentialError> {
    let owner = TenantId::owner();
    match credentials.get(&owner, name).await? {
        Some(_) => Ok(()),
        None => credentials.set(&owner, name, &Secret::new(format!("stand-in-of-a-scenario-for-{name}"))).await,
    }
}

/// Refuses the name of a butler that is not there, or whose files have mistakes.
fn all_there(household: &Household, butlers: &[String]) -> Result<(), ScenarioError> {
    let names: Vec<String> = household.butlers.iter().map(|b| b.name.to_string()).collect();
    let Some(unknown) = butlers.iter().find(|b| !names.contains(b)) else { return Ok(()) };
    let butler = unknown.clone();
    Err(match household.broken.iter().find(|b| b.name == *unknown) {
        Some(broken) => {
            let mistakes = broken.mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            ScenarioError::Parked { butler, mistakes }
        }
        None => ScenarioError::Unknown { butler, there: names.join(", ") },
    })
}

/// Plays a butler's scenarios, only those whose name contains `only`; `before`: so many have been played of other butlers.
async fn of_butler(
    supervisor: &Supervisor,
    name: &str,
    dir: PathBuf,
    schema: &str,
    (only, before): (Option<&str>, usize),
) -> Report {
    let mut report = Report { butler: name.to_owned(), ..Report::default() };
    let fail =
        |file: &PathBuf, problem: String| Failure { file: file.clone(), line: 1, scenario: String::new(), problem };
    let files = match read_dir(&dir) {
        Ok(files) => files,
        Err(wrong) => {
            report.failures.extend(wrong.into_iter().map(|w| fail(&dir, w)));
            return report;
        }
    };
    let (stage, wrong) = match stage(supervisor, name, &dir, schema).await {
        Ok(ready) => ready,
        Err(why) => {
            report.failures.push(fail(&dir, why));
            return report;
        }
    };
    report.failures.extend(wrong.into_iter().map(|w| fail(&dir, w)));
    let mut coverage = Coverage::of(&stage.butler, &supervisor.butlers());
    let wanted = |s: &&Scenario| only.is_none_or(|part| s.name.contains(part));
    for file in &files {
        for scenario in file.scenarios.iter().filter(wanted) {
            report.scenarios += 1;
            report.steps += scenario.steps.len();
            match play(&stage, file, scenario, before + report.scenarios).await {
                Ok(()) => coverage.add(scenario),
                Err(failure) => report.failures.push(failure),
            }
        }
    }
    report.tools = coverage.tools();
    report.proven = coverage.complete();
    report.lacking = only.is_none().then(|| coverage.lacking());
    report
}

async fn play(stage: &Stage, file: &ScenarioFile, scenario: &Scenario, number: usize) -> Result<(), Failure> {
    let failed = |line: usize, problem: String| Failure {
        file: file.path.clone(),
        line,
        scenario: scenario.name.clone(),
        problem,
    };
    if let Some(why) = unproven(scenario, &stage.butler) {
        return Err(failed(scenario.line, why));
    }
    stage.play(scenario, &format!("scenario{number}")).await.map_err(|(line, why)| failed(line, why.to_string()))
}

/// What a butler's scenarios are played on, and what of the butler does not work. The error: it is not up.
async fn stage(supervisor: &Supervisor, name: &str, dir: &Path, schema: &str) -> Result<(Stage, Vec<String>), String> {
    let butler: Butler = supervisor.butler(name).map_err(|e| e.to_string())?;
    let mut wrong = Vec::new();
    for (module, state) in butler.modules().all() {
        if let Some(error) = &state.failure_error {
            wrong.push(format!("the module `{module}` does not work: {error}"));
        }
    }
    let house = supervisor.services();
    let store = house.db.provision(butler.name(), schema).await.map_err(|e| e.to_string())?;
    let mut jobs = BTreeMap::new();
    let mut lease = store.tenant(&TenantId::owner()).await.map_err(|e| e.to_string())?;
    match prepare_jobs(&mut lease, &dir.join("jobs")).await {
        Ok(ready) => jobs.extend(ready.into_iter().map(|(name, job)| (name, Arc::new(job)))),
        Err(list) => wrong.extend(list.iter().map(ToString::to_string)),
    }
    drop(lease);
    Ok((Stage { butler, store, db: house.db.clone(), jobs, clock: supervisor.clock().clone() }, wrong))
}
