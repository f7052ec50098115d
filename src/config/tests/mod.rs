//! The room's tests: scratch households in temporary directories, loaded as the daemon loads its own.

mod butlers;
mod defaults;
mod editor;
mod layers;
mod runtime;
mod settings;

use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use tempfile::TempDir;

use super::*;

/// A household on disk and what surrounds it.
pub(super) struct Scratch {
    dir: TempDir,
    pub environment: Environment,
    pub overrides: Overrides,
}

/// A build with two modules: `memory`, that knows one key, and the channel `webhook`.
pub(super) struct Build;

impl Catalog for Build {
    fn module(&self, name: &str) -> bool {
        ["memory", "webhook"].contains(&name)
    }
    fn check_module(&self, butler: &str, name: &str, table: &Json) -> Vec<KeyMistake> {
        let mut told = Vec::new();
        if name == butler && table.as_object().is_some_and(|t| !t.is_empty()) {
            told.push(KeyMistake::new("", "found settings", "an empty table"));
        }
        let hours = table.pointer("/consolidation/interval_hours");
        if let Some(given) = hours.filter(|h| !h.is_u64()) {
            let expected = "a whole number of hours";
            told.push(KeyMistake::new("consolidation.interval_hours", format!("found {given}"), expected));
        }
        told
    }
}

/// The least `butler.toml`.
pub(super) fn butler_toml(name: &str, port: u16) -> String {
    format!("[butler]\nname = \"{name}\"\nport = {port}\n")
}

impl Scratch {
    /// A household with the two core butlers and nothing else.
    pub fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let mut environment = Environment {
            zone: Zone::named("Europe/Vienna"),
            working_dir: dir.path().to_owned(),
            ..Environment::default()
        };
        environment.variables.insert("HOME".to_owned(), "/home/ada".to_owned());
        let scratch = Self { dir, environment, overrides: Overrides::default() };
        scratch.butler("switchboard", &butler_toml("switchboard", 40100));
        scratch.butler("messenger", &butler_toml("messenger", 40104));
        scratch
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn write(&self, file: &str, text: impl AsRef<[u8]>) {
        let path = self.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// A butler's directory with all required files.
    pub fn butler(&self, name: &str, toml: &str) {
        for file in ["CLAUDE.md", "AGENTS.md", "MANIFESTO.md"] {
            self.write(&format!("roster/{name}/{file}"), "text");
        }
        self.write(&format!("roster/{name}/butler.toml"), toml);
    }

    pub fn settings(&self, toml: &str) {
        self.write("config/butlerd.toml", toml);
    }

    pub fn set(&mut self, variable: &str, value: &str) {
        self.environment.variables.insert(variable.to_owned(), value.to_owned());
    }

    pub fn load(&self) -> Result<Household, Refused> {
        load(&self.overrides, &self.environment, &Build)
    }

    /// The household; prints the mistakes if there is none.
    pub fn household(&self) -> Household {
        self.load().unwrap_or_else(|refused| panic!("refused:\n{refused}"))
    }

    /// The settings of a household without any mistake.
    pub fn config(&self) -> Config {
        let household = self.household();
        let mistakes: Vec<String> = household.mistakes().map(Mistake::to_string).collect();
        assert!(mistakes.is_empty(), "{mistakes:#?}");
        household.config
    }

    /// Every mistake as text, whether it is fatal or a butler's.
    pub fn mistakes(&self) -> Vec<String> {
        match self.load() {
            Ok(household) => household.mistakes().map(Mistake::to_string).collect(),
            Err(refused) => refused.mistakes().map(Mistake::to_string).collect(),
        }
    }

    /// The mistakes of one more butler, `health`, with this file.
    pub fn of_health(toml: &str) -> Vec<String> {
        let scratch = Self::new();
        scratch.butler("health", toml);
        let household = scratch.household();
        assert!(household.butlers.iter().all(|b| CORE_BUTLERS.contains(&b.name.as_str())), "health has a mistake");
        assert_eq!(household.broken.len(), 1);
        household.mistakes().map(Mistake::to_string).collect()
    }

    /// The mistakes of this `butlerd.toml`.
    pub fn of_settings(toml: &str) -> Vec<String> {
        let scratch = Self::new();
        scratch.settings(toml);
        let refused = scratch.load().err().unwrap_or_else(|| panic!("no mistake found in:\n{toml}"));
        assert!(!refused.fatal.is_empty());
        refused.mistakes().map(Mistake::to_string).collect()
    }
}

/// Asserts that there is exactly one mistake, and that it begins like this.
#[track_caller]
pub(super) fn only(mistakes: &[String], begin: &str) {
    assert_eq!(mistakes.len(), 1, "{mistakes:#?}");
    assert!(mistakes[0].starts_with(begin), "\n found {}\nwanted {begin}", mistakes[0]);
}

pub(super) fn path(text: &str) -> PathBuf {
    PathBuf::from(text)
}
