//! The running daemon, if there is one: what it says of itself.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use super::{DELIVERS, Finding, Level};
use admin::api::{HouseApiClient, SecretsApiClient};
use admin::{Client, ClientError, DaemonFile, PlaceError};
use base::text;
use butler::{ButlerState, ButlerStatus, HouseholdStatus};
use modules::{Health, State};

/// A daemon that hangs is not waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// How much of a reason is repeated.
const REASON: usize = 500;

/// What could be learned of the daemon.
pub(crate) enum Daemon {
    Absent(PlaceError),
    /// It is there, but does not talk to us.
    Silent(DaemonFile, String),
    Running {
        file: DaemonFile,
        status: Box<HouseholdStatus>,
        secrets: Vec<String>,
    },
}

impl Daemon {
    pub async fn find(data_dir: &Path) -> Self {
        let file = match DaemonFile::read(data_dir) {
            Ok(file) => file,
            Err(e) => return Daemon::Absent(e),
        };
        let asked = tokio::time::timeout(PATIENCE, ask(data_dir)).await;
        match asked {
            Ok(Ok((status, secrets))) => Daemon::Running { file, status: Box::new(status), secrets },
            Ok(Err(e)) => Daemon::Silent(file, e.to_string()),
            Err(_) => Daemon::Silent(file, format!("it does not answer within {} s", PATIENCE.as_secs())),
        }
    }

    /// Of the program that runs, as it says; `None`: none runs, or it can't be known.
    pub fn version(&self) -> Option<&str> {
        match self {
            Daemon::Absent(_) => None,
            Daemon::Silent(file, _) => Some(&file.version),
            Daemon::Running { status, .. } => Some(&status.version),
        }
    }

    pub fn status(&self) -> Option<&HouseholdStatus> {
        match self {
            Daemon::Running { status, .. } => Some(status),
            _ => None,
        }
    }

    /// Names of the stored secrets; `None` if nobody could be asked.
    pub fn secrets(&self) -> Option<&[String]> {
        match self {
            Daemon::Running { secrets, .. } => Some(secrets),
            _ => None,
        }
    }

    /// The ports that the daemon holds.
    pub fn ports(&self) -> BTreeSet<u16> {
        match self {
            Daemon::Absent(_) => BTreeSet::new(),
            Daemon::Silent(file, _) | Daemon::Running { file, .. } => {
                file.butlers.values().copied().chain([file.admin.port()]).collect()
            }
        }
    }

    pub fn findings(&self) -> Vec<Finding> {
        const TOPIC: &str = "daemon";
        match self {
            Daemon::Absent(PlaceError::NotRunning { data_dir }) => {
                vec![Finding::ok(TOPIC, format!("none runs with the data directory {}", data_dir.display()))]
            }
            Daemon::Absent(PlaceError::Gone { pid, .. }) => {
                let text = format!("the last one (process {pid}) ended without stopping in good order");
                vec![Finding::warning(TOPIC, text).so("Start it with `butlerd serve`; it clears what was left behind.")]
            }
            Daemon::Absent(e) => {
                vec![Finding::warning(TOPIC, e.to_string()).so("Run this as the user that butlerd runs as.")]
            }
            Daemon::Silent(file, why) => {
                let text = format!("process {} at {}: {why}", file.pid, file.admin);
                vec![Finding::problem(TOPIC, text).so("Look at its log; restart it if it hangs.")]
            }
            Daemon::Running { file, status, .. } => {
                let here: Vec<&ButlerStatus> = status.butlers.iter().filter(|b| !b.removed).collect();
                let up = here.iter().filter(|b| b.state == ButlerState::Up).count();
                let (all, ready) = (here.len(), if status.ready { "ready" } else { "not ready" });
                let text = format!(
                    "process {} at {}, {ready}, {up} of {all} butlers up; database: {}",
                    file.pid, file.admin, status.database.server
                );
                let level = if status.ready { Level::Ok } else { Level::Problem };
                let mut found = vec![Finding { level, ..Finding::ok(TOPIC, text) }];
                let own = env!("CARGO_PKG_VERSION");
                if file.version != own {
                    let text = format!("it is butlerd {}, and this is {own}", file.version);
                    found.push(Finding::warning(TOPIC, text).so("Restart the daemon to run the new version."));
                }
                let complaints = complaints(status).into_iter();
                found.extend(complaints.map(|(level, text)| Finding { level, ..Finding::ok("butlers", text) }));
                found
            }
        }
    }
}

async fn ask(data_dir: &Path) -> Result<(HouseholdStatus, Vec<String>), ClientError> {
    let client = Client::find(data_dir)?;
    let calls = client.quick()?;
    let status = calls.status().await.map_err(|e| client.error(e))?;
    // With its database away the daemon still tells how it is.
    let secrets = calls.secret_list().await.map(|list| list.into_iter().map(|s| s.name).collect());
    Ok((status, secrets.unwrap_or_default()))
}

/// Whatever in the household needs a hand, in sentences.
pub fn complaints(house: &HouseholdStatus) -> Vec<(Level, String)> {
    let mut told = Vec::new();
    told.extend(house.troubles.iter().map(|trouble| (Level::Problem, short(&trouble.why))));
    if house.log_lines_lost > 0 {
        let lines = house.log_lines_lost;
        let text =
            format!("{lines} lines of the log were lost: its disk was full, or its reader stood still or went away");
        told.push((Level::Warning, text));
    }
    if let Some(backup) = &house.backup {
        let last = backup.newest.map(|at| format!("the last good one is of {}", at.strftime("%Y-%m-%d %H:%M UTC")));
        let last = last.unwrap_or_else(|| "there is no good one".to_owned());
        let why = backup.error.as_ref().map(|why| format!(": {}", short(why))).unwrap_or_default();
        if backup.overdue {
            told.push((Level::Problem, format!("a backup is missing, {last}{why}")));
        } else if backup.error.is_some() {
            told.push((Level::Warning, format!("the last try to make a backup failed, {last}{why}")));
        }
    }
    for (channel, deliveries) in &house.without_channel {
        let (what, see) = (
            if *deliveries == 1 { "delivery waits" } else { "deliveries wait" },
            "butlerd deliveries list --state waiting",
        );
        let text = format!(
            "{deliveries} {what} for the channel {channel}: no module of the messenger sends over it; see: {see}"
        );
        told.push((Level::Warning, text));
    }
    for b in &house.butlers {
        if let Some(error) = &b.error {
            let phase = b.failed_phase.as_deref().map(|p| format!(" (phase: {p})")).unwrap_or_default();
            told.push((Level::Problem, format!("{} is {}{phase}: {}", b.name, b.state.as_str(), short(error))));
        }
        if let Some(note) = &b.note {
            let level = if b.removed { Level::Ok } else { Level::Warning };
            told.push((level, format!("{} is {}: {}", b.name, b.state.as_str(), short(note))));
        }
        told.extend(b.modules.iter().filter_map(|(name, module)| module_complaint(b, name, module)));
        if b.interrupted_sessions > 0 {
            let sessions = match b.interrupted_sessions {
                1 => "1 session".to_owned(),
                n => format!("{n} sessions"),
            };
            told.push((Level::Warning, format!("{}: the last stop interrupted {sessions}", b.name)));
        }
    }
    told.extend(without_model(&house.butlers));
    told
}

fn module_complaint(b: &ButlerStatus, name: &str, module: &State) -> Option<(Level, String)> {
    let how = match module.health {
        Health::Active if module.enabled => return None,
        Health::Active => return Some((Level::Warning, format!("{}: the module `{name}` is switched off", b.name))),
        Health::Degraded => {
            return Some((Level::Warning, format!("{}: the module `{name}` {}", b.name, degraded(module))));
        }
        Health::Failed => "failed",
        Health::CascadeFailed => "is down, because a module that it needs failed",
    };
    let phase = module.failure_phase.and_then(|p| serde_json::to_value(p).ok());
    let phase = phase.as_ref().and_then(|p| p.as_str()).map(|p| format!(" (phase: {p})")).unwrap_or_default();
    let why = module.failure_error.as_deref().map(|e| format!(": {}", short(e))).unwrap_or_default();
    Some((Level::Problem, format!("{}: the module `{name}` {how}{phase}{why}", b.name)))
}

/// What is not well of a module, its background tasks among it.
fn degraded(module: &State) -> String {
    let failing = module.tasks.iter().filter(|(_, task)| !task.well()).map(|(name, task)| {
        let why = task.error.as_deref().map(|e| format!(": {}", short(e))).unwrap_or_default();
        format!("starts its task `{name}` again ({} so far{why})", task.restarts)
    });
    failing.chain(module.note.as_deref().map(short)).collect::<Vec<_>>().join("; and ")
}

/// Butlers without a model mostly lack the same thing, so each reason is told once.
fn without_model(butlers: &[ButlerStatus]) -> Vec<(Level, String)> {
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    for b in butlers.iter().filter(|b| b.name != DELIVERS) {
        let Some(reason) = b.model.as_ref().filter(|m| !m.ready).and_then(|m| m.reason.as_deref()) else { continue };
        // "health has no model: …" says the same of each butler.
        let rest = reason.strip_prefix(&b.name).map_or(reason, str::trim_start).to_owned();
        match reasons.iter_mut().find(|(known, _)| *known == rest) {
            Some((_, names)) => names.push(&b.name),
            None => reasons.push((rest, vec![&b.name])),
        }
    }
    let tell = |(rest, names): (String, Vec<&str>)| {
        let rest = match names.len() {
            1 => short(&rest),
            _ => short(&rest).replacen("has no model", "have no model", 1),
        };
        (Level::Warning, format!("{} {rest}", names.join(", ")))
    };
    reasons.into_iter().map(tell).collect()
}

/// A reason on one line, without what a terminal would obey.
fn short(reason: &str) -> String {
    let words: Vec<&str> = reason.split_whitespace().collect();
    text::truncate(&text::clean(&words.join(" ")), REASON)
}

#[cfg(test)]
mod tests {
    use super::*;
    use admin::sample;

    #[test]
    fn everything_that_needs_a_hand_is_named() {
        let told = complaints(&sample::household());
        let text: Vec<&str> = told.iter().map(|(_, t)| t.as_str()).collect();
        assert_eq!(
            text,
            [
                &format!("health: the module `health` failed (phase: tools): {}", sample::REASON),
                "travel is parked (phase: port): can't listen on 127.0.0.1:40106: address in use",
                "health has no model: run `butlerd secret set ANTHROPIC_API_KEY`",
            ]
        );
        assert_eq!(told.iter().map(|(l, _)| *l).collect::<Vec<_>>(), [Level::Problem, Level::Problem, Level::Warning]);
    }

    #[test]
    fn one_reason_of_many_butlers_is_told_once() {
        let mut house = sample::household();
        let mut second = house.butlers[1].clone();
        second.name = "finance".to_owned();
        if let Some(model) = &mut second.model {
            model.reason = model.reason.as_ref().map(|r| r.replace("health", "finance"));
        }
        house.butlers.push(second);
        let told = without_model(&house.butlers);
        assert_eq!(told.len(), 1);
        assert!(told[0].1.starts_with("health, finance have no model: run"), "{}", told[0].1);
    }

    #[test]
    fn a_dead_daemon_is_no_problem_of_the_machine() {
        let gone = Daemon::Absent(PlaceError::Gone { file: "/d/run/daemon.json".into(), pid: 5 });
        assert_eq!(gone.findings()[0].level, Level::Warning);
        assert!(gone.ports().is_empty());
    }
}
