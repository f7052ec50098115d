//! Looking at a roster without serving it: what `butlerd check` tells beyond what a start needs to know.
//!
//! A rule looks at one butler whose `butler.toml` and skills are right, and at the files of its directory. What only a
//! database can tell is `butler/rehearsal.rs`'s.

mod files;
mod jobs;
mod prompts;
mod scenarios;
mod scripts;
mod servers;
mod statements;
mod words;

use std::collections::BTreeSet;

use serde_json::Value;

use super::catalog::{Catalog, is_rosters_own};
use super::contract::Module;
use config::{self, ButlerConfig, Finding, KeyMistake, Place};
use scenarios::ReadScenarios;
use schedule::CALENDAR_EVENT_TOOLS;
use tools::{ToolFileError, skill_tools};

pub use scenarios::Mentions;

/// The names of the tools that a butler has by itself.
pub type OwnTools = fn(&str) -> Vec<&'static str>;

/// For looking at a roster without serving it: every mistake of a module's settings is told, and of the files that they
/// speak of.
pub struct StrictCatalog {
    catalog: Catalog,
    /// The tools that every butler has, and those that the one of this name has besides.
    own_tools: OwnTools,
    scenarios: ReadScenarios,
}

impl StrictCatalog {
    pub fn new(own_tools: OwnTools, scenarios: ReadScenarios) -> Self {
        Self { catalog: Catalog::default(), own_tools, scenarios }
    }

    /// The butler's modules; `None`: one of them can't be made, so what it brings isn't known.
    fn modules(&self, butler: &ButlerConfig) -> Option<Vec<Box<dyn Module>>> {
        let module = |(name, table): (&String, &Value)| {
            self.catalog.find(butler.name.as_str(), name)?.build(table, &butler.name, &butler.dir).ok()
        };
        butler.modules.iter().map(module).collect()
    }
}

/// The tools of a butler, by where they come from.
struct Tools {
    /// The house's own, those of its skills among them.
    house: BTreeSet<String>,
    /// Of modules other than the roster's own.
    modules: BTreeSet<String>,
    /// The roster's own: the files in `tools/`, whether or not they are loaded.
    own: BTreeSet<String>,
}

impl Tools {
    fn has(&self, tool: &str) -> bool {
        self.house.contains(tool) || self.modules.contains(tool) || self.own.contains(tool)
    }

    fn all(&self) -> impl Iterator<Item = &str> {
        self.house.iter().chain(&self.modules).chain(&self.own).map(String::as_str)
    }
}

/// What is known of a butler besides its settings.
struct ButlerContents<'a> {
    catalog: &'a Catalog,
    butler: &'a ButlerConfig,
    /// `None`: one of its modules can't be made, which was told.
    modules: Option<&'a [Box<dyn Module>]>,
    /// `None`: what a module brings isn't known.
    tools: Option<Tools>,
    own_tools: OwnTools,
    scenarios: ReadScenarios,
}

impl<'a> ButlerContents<'a> {
    fn of(butler: &'a ButlerConfig, modules: Option<&'a [Box<dyn Module>]>, by: &'a StrictCatalog) -> Self {
        let own_tools = by.own_tools;
        let skills = skill_tools(&butler.skills);
        let house = own_tools(butler.name.as_str()).into_iter().map(str::to_owned);
        // What a butler does at times of its calendar are schedules, whatever module keeps the calendar.
        let events = butler.modules.contains_key("calendar").then_some(CALENDAR_EVENT_TOOLS);
        let house = house.chain(events.into_iter().flatten().map(str::to_owned));
        let house = house.chain(skills.iter().map(|tool| tool.def.name.clone())).collect();
        let own: BTreeSet<String> = files::tool_files(&butler.dir).into_iter().map(|(tool, _)| tool).collect();
        let names = butler.modules.keys();
        let others = modules.map(|all| names.zip(all).filter(|(name, _)| !is_rosters_own(butler.name.as_str(), name)));
        let declared: Option<Vec<_>> = others.and_then(|all| all.map(|(_, m)| m.manifest().ok()).collect());
        let tools = declared.map(|all| {
            let modules = all.into_iter().flat_map(|manifest| manifest.tools).collect();
            Tools { house, modules, own }
        });
        Self { catalog: &by.catalog, butler, modules, tools, own_tools, scenarios: by.scenarios }
    }
}

/// A key of `butler.toml`.
fn key(path: &[&str]) -> Place {
    Place::Key(path.iter().map(|segment| (*segment).to_owned()).collect())
}

fn finding(place: Place, problem: impl Into<String>, expected: impl Into<String>) -> Finding {
    Finding { place, problem: problem.into(), expected: expected.into() }
}

fn in_file(e: ToolFileError) -> Finding {
    finding(Place::Line(e.file, e.line), e.problem, "")
}

impl config::Catalog for StrictCatalog {
    fn module(&self, name: &str) -> bool {
        self.catalog.module(name)
    }
    fn check_module(&self, butler: &str, name: &str, table: &Value) -> Vec<KeyMistake> {
        self.catalog.find(butler, name).map(|f| f.check_for(butler, table)).unwrap_or_default()
    }
    fn check_butler(&self, butler: &ButlerConfig) -> Vec<Finding> {
        let modules = self.modules(butler);
        let known = ButlerContents::of(butler, modules.as_deref(), self);
        let rules: [fn(&ButlerContents<'_>) -> Vec<Finding>; 8] = [
            files::check,
            servers::check,
            prompts::check,
            jobs::check,
            statements::check,
            words::check,
            scenarios::check,
            scripts::check,
        ];
        rules.iter().flat_map(|rule| rule(&known)).collect()
    }
}
