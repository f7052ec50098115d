//! The modules that this build has.

use super::contract::Factory;
use super::roster::RosterFactory;
use crate::config;

/// All factories. A module named like its butler is the roster's own: its tools in SQL.
pub struct Catalog {
    factories: Vec<Box<dyn Factory>>,
}

impl Default for Catalog {
    fn default() -> Self {
        let mut factories: Vec<Box<dyn Factory>> = vec![
            Box::new(super::approvals::ApprovalsFactory),
            Box::new(super::log::LogFactory),
            Box::new(super::memory::MemoryFactory),
            Box::new(super::file::FileFactory),
            Box::new(super::webhook::WebhookFactory),
        ];
        #[cfg(debug_assertions)]
        factories.extend(super::probe::factories());
        Self { factories }
    }
}

impl Catalog {
    /// The factory behind `[modules.<name>]` of a butler.
    pub fn find(&self, butler: &str, name: &str) -> Option<&dyn Factory> {
        if name == butler {
            return Some(&RosterFactory);
        }
        self.factories.iter().find(|f| f.name() == name).map(AsRef::as_ref)
    }
}

/// For serving: a module with wrong settings fails alone, in its phase, and its butler stays up.
impl config::Catalog for Catalog {
    fn module(&self, name: &str) -> bool {
        self.find("", name).is_some()
    }
    fn check_module(&self, _: &str, _: &str, _: &serde_json::Value) -> Vec<String> {
        Vec::new()
    }
}

/// For looking at a roster without serving it: every mistake of a module's settings is told.
#[derive(Default)]
pub struct StrictCatalog(pub Catalog);

impl config::Catalog for StrictCatalog {
    fn module(&self, name: &str) -> bool {
        self.0.module(name)
    }
    fn check_module(&self, butler: &str, name: &str, table: &serde_json::Value) -> Vec<String> {
        self.0.find(butler, name).map(|f| f.check(table)).unwrap_or_default()
    }
}
