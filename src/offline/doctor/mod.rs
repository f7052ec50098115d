//! `butlerd doctor`: looks at settings, machine and daemon, and says what to do. It changes nothing.
//!
//! This room stands above the admin room, because it asks a running daemon, and below the command line, which prints.

mod accounts;
mod backups;
mod council;
mod daemon;
mod machine;
mod models;
mod pages;
mod place;
mod ports;
mod postgres;
mod programs;
mod projects;
mod server_log;
mod settings;

use serde::Serialize;

use base::Clock;
use config::{Environment, Overrides};

pub(crate) use daemon::Daemon;
pub use daemon::complaints;
pub use programs::{NoVersion, version_of};

/// The butler that delivers messages and starts no sessions: it needs no model.
const DELIVERS: &str = "messenger";

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Ok,
    /// Works, but not as it could.
    Warning,
    /// Something does not work, or won't.
    Problem,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at, in a word or two; stable.
    pub topic: &'static str,
    pub level: Level,
    /// What was found, in a sentence.
    pub text: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Finding {
    pub fn ok(topic: &'static str, text: impl Into<String>) -> Self {
        Self { topic, level: Level::Ok, text: text.into(), advice: None }
    }
    pub fn warning(topic: &'static str, text: impl Into<String>) -> Self {
        Self { level: Level::Warning, ..Self::ok(topic, text) }
    }
    pub fn problem(topic: &'static str, text: impl Into<String>) -> Self {
        Self { level: Level::Problem, ..Self::ok(topic, text) }
    }
    /// Adds what to do.
    pub fn so(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }
}

/// Everything that was found, in the order in which it is worth reading.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub version: &'static str,
    pub problems: usize,
    pub warnings: usize,
    pub findings: Vec<Finding>,
}

impl Report {
    /// Puts in the place of what was found on a topic about something what is known better.
    pub fn settle(&mut self, topic: &'static str, about: &str, known: String) {
        let mut findings = std::mem::take(&mut self.findings);
        for finding in findings.iter_mut().filter(|f| f.topic == topic && f.text.contains(about)) {
            *finding = Finding::ok(topic, known.clone());
        }
        *self = Self::new(findings);
    }

    fn new(findings: Vec<Finding>) -> Self {
        let of = |level| findings.iter().filter(|f| f.level == level).count();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            problems: of(Level::Problem),
            warnings: of(Level::Warning),
            findings,
        }
    }
}

/// Looks at everything. Takes a few seconds, and where the database stands still a second more for each gigabyte of it:
/// programs are asked for their versions, the daemon for its state.
/// `models`: whether each place of a model is asked, for a word or for its list.
pub async fn examine(overrides: &Overrides, environment: &Environment, models: bool) -> Report {
    let look = settings::Look::at(overrides, environment);
    let mut findings = look.findings();
    let Some(config) = look.config() else {
        // Without settings only the machine is left to look at.
        findings.extend(programs::findings(None, &[]).await);
        findings.extend(machine::findings(None));
        return Report::new(findings);
    };
    let (butlers, now) = (look.butlers(), Clock::of_environment().now());
    let daemon = daemon::Daemon::find(&config.daemon.data_dir).await;
    findings.extend(daemon.findings());
    findings.extend(place::findings(config));
    findings.extend(postgres::findings(config).await);
    if config.database.url.is_none() {
        findings.extend(server_log::findings(config, now));
        findings.extend(pages::finding(config, now));
    }
    findings.extend(backups::findings(config, now));
    findings.extend(programs::findings(Some(config), butlers).await);
    findings.extend(settings::keys(config, butlers, &daemon));
    if models {
        findings.extend(models::findings(config, butlers, &daemon).await);
        findings.extend(accounts::findings(config, &daemon).await);
    }
    findings.extend(ports::findings(config, butlers, &daemon));
    findings.extend(projects::findings(config, butlers, &daemon));
    findings.extend(council::findings(butlers));
    findings.extend(machine::findings(Some(config.spawner.sandbox)));
    Report::new(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_counts_what_matters() {
        let mut report = Report::new(vec![
            Finding::ok("a", "fine"),
            Finding::warning("b", "so so").so("Look."),
            Finding::problem("c", "bad"),
            Finding::problem("d", "worse"),
        ]);
        assert_eq!((report.problems, report.warnings), (2, 1));
        let shown = serde_json::to_value(&report).unwrap();
        assert_eq!(
            shown["findings"][1],
            serde_json::json!({"topic": "b", "level": "warning", "text": "so so", "advice": "Look."})
        );
        assert!(shown["findings"][0].get("advice").is_none());
        report.settle("c", "ba", "good".to_owned());
        assert_eq!((report.problems, report.warnings, report.findings[2].text.as_str()), (1, 1, "good"));
    }
}
