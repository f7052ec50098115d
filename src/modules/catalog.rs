//! The modules that this build has.

use serde_json::Value;

use super::contract::Factory;
use super::roster::RosterFactory;

/// All factories. A module named like its butler is the roster's own: its tools in SQL.
pub struct Catalog {
    factories: Vec<Box<dyn Factory>>,
}

impl Default for Catalog {
    fn default() -> Self {
        #[cfg(debug_assertions)]
        let factories = super::probe::factories();
        #[cfg(not(debug_assertions))]
        let factories = Vec::new();
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

    /// Mistakes of one module's configuration; `None` when this build has no such module.
    pub fn check(&self, butler: &str, name: &str, config: &Value) -> Option<Vec<String>> {
        self.find(butler, name).map(|f| f.check(config))
    }
}
