//! The settings, the roster, and the keys that it needs.

use std::collections::{BTreeMap, BTreeSet};

use super::daemon::Daemon;
use super::{DELIVERS, Finding, Level};
use crate::scenario::mentions;
use butler::own_tools;
use config::{ButlerConfig, Config, Environment, Household, Overrides, Refused, RuntimeKind, load, load_config};
use modules::StrictCatalog;
use sessions::wanted_keys;

/// The settings as far as they can be read.
pub(super) struct Look {
    household: Result<Household, Refused>,
    /// The settings alone, where no household can be made.
    config: Option<Config>,
}

impl Look {
    pub fn at(overrides: &Overrides, environment: &Environment) -> Self {
        let household = load(overrides, environment, &StrictCatalog::new(own_tools, mentions));
        let config = match &household {
            Ok(_) => None,
            Err(_) => load_config(overrides, environment).ok(),
        };
        Self { household, config }
    }

    pub fn config(&self) -> Option<&Config> {
        self.household.as_ref().map(|h| &h.config).ok().or(self.config.as_ref())
    }

    pub fn butlers(&self) -> &[ButlerConfig] {
        self.household.as_ref().map(|h| h.butlers.as_slice()).unwrap_or_default()
    }

    pub fn findings(&self) -> Vec<Finding> {
        const TOPIC: &str = "configuration";
        let advice = "Mend it; `butlerd check` lists all mistakes, `butlerd config` explains every setting.";
        let mistakes: Vec<String> = match &self.household {
            Ok(household) => household.mistakes().map(ToString::to_string).collect(),
            Err(refused) => refused.mistakes().map(ToString::to_string).collect(),
        };
        let mut found: Vec<Finding> = mistakes.into_iter().map(|m| Finding::problem(TOPIC, m).so(advice)).collect();
        if let Ok(house) = &self.household {
            let settings = match &house.config_file {
                Some(file) => format!("settings of {}", file.display()),
                None => "default settings".to_owned(),
            };
            let names: Vec<&str> = house.butlers.iter().map(|b| b.name.as_str()).collect();
            let roster = house.config.daemon.roster.display();
            found.insert(0, Finding::ok(TOPIC, format!("{settings}; in {roster}: {}", names.join(", "))));
        }
        found
    }
}

/// Where a key was found.
fn sources(name: &str, daemon: &Daemon) -> Vec<&'static str> {
    let mut found = Vec::new();
    if daemon.secrets().is_some_and(|names| names.iter().any(|n| n == name)) {
        found.push("stored");
    }
    if std::env::var_os(name).is_some_and(|v| !v.is_empty()) {
        found.push("in this environment");
    }
    found
}

/// The keys of models and the variables that butlers ask for: names only.
pub(super) fn keys(config: &Config, butlers: &[ButlerConfig], daemon: &Daemon) -> Vec<Finding> {
    const TOPIC: &str = "keys";
    let mut wanted: BTreeMap<&'static [&'static str], Vec<&ButlerConfig>> = BTreeMap::new();
    for butler in butlers.iter().filter(|b| b.name.as_str() != DELIVERS) {
        let names = wanted_keys(butler, &config.spawner);
        if !names.is_empty() {
            wanted.entry(names).or_default().push(butler);
        }
    }
    let mut found = Vec::new();
    for (names, butlers) in wanted {
        let who: Vec<&str> = butlers.iter().map(|b| b.name.as_str()).collect();
        let who = who.join(", ");
        let there: Vec<String> = names
            .iter()
            .filter_map(|n| Some(n).filter(|n| !sources(n, daemon).is_empty()))
            .map(|n| format!("{n} ({})", sources(n, daemon).join(" and ")))
            .collect();
        if !there.is_empty() {
            found.push(Finding::ok(TOPIC, format!("{} for {who}", there.join(", "))));
            continue;
        }
        let names = names.join(" or ");
        let unknown =
            if daemon.secrets().is_none() { "; whether one is stored can be seen only while butlerd runs" } else { "" };
        let text = format!("no {names} for {who}{unknown}");
        let vendors = butlers.iter().any(|b| b.runtime.kind != RuntimeKind::Native);
        let (level, effect) = match (vendors, daemon.secrets()) {
            (true, Some(_)) => (Level::Problem, "Those that ask for a vendor's program don't start without it"),
            (true, None) => (Level::Warning, "Those that ask for a vendor's program don't start without it"),
            (false, _) => (Level::Warning, "Their tools work, sessions don't"),
        };
        let first = names.split(' ').next().unwrap_or_default();
        found.push(
            Finding { level, ..Finding::ok(TOPIC, text) }
                .so(format!("{effect}. While butlerd runs: butlerd secret set {first}")),
        );
    }
    found.extend(variables(butlers, daemon));
    found
}

/// What `[butler.env] required` asks for. A running daemon has its own environment, and its status tells what lacks.
fn variables(butlers: &[ButlerConfig], daemon: &Daemon) -> Option<Finding> {
    if daemon.status().is_some() {
        return None;
    }
    let mut missing: BTreeSet<String> = BTreeSet::new();
    for butler in butlers {
        for name in butler.env.required.iter().filter(|n| std::env::var_os(n).is_none()) {
            missing.insert(format!("{name} (for {})", butler.name));
        }
    }
    if missing.is_empty() {
        return None;
    }
    let list: Vec<String> = missing.into_iter().collect();
    let text = format!(
        "butlers ask for variables that this environment lacks: {}; whether they are stored can be seen only while \
         butlerd runs",
        list.join(", ")
    );
    let remedy =
        "Without them these butlers stay down. While butlerd runs: butlerd secret set NAME, then butlerd reload";
    Some(Finding::warning("keys", text).so(remedy))
}
