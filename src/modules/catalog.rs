//! The modules that this build has.

use std::path::Path;

use serde_json::{Value, json};

use super::contract::Factory;
use super::mcp_servers::McpServerFactory;
use super::roster::RosterFactory;
use base::{ButlerName, crash};
use config::{KeyMistake, SERVER_MODULES, Section};

/// Modules whose butler is shipped under the module's own name.
const HAS_A_BUTLER: [&str; 1] = ["council"];

/// Whether this module of the butler is what its directory brings: its tools in SQL.
pub(super) fn is_rosters_own(butler: &str, name: &str) -> bool {
    name == butler && !HAS_A_BUTLER.contains(&name)
}

/// All factories.
pub struct Catalog {
    factories: Vec<Box<dyn Factory>>,
}

impl Default for Catalog {
    fn default() -> Self {
        let mut factories: Vec<Box<dyn Factory>> = vec![
            Box::new(super::approvals::ApprovalsFactory),
            Box::new(super::calendar::CalendarFactory),
            Box::new(super::contacts::ContactsFactory),
            Box::new(super::council::CouncilFactory),
            Box::new(super::email::EmailFactory),
            Box::new(super::log::LogFactory),
            Box::new(super::memory::MemoryFactory),
            Box::new(super::file::FileFactory),
            Box::new(super::graphiti::GraphitiFactory),
            Box::new(super::journal::JournalFactory),
            Box::new(super::project_memory::ProjectMemoryFactory),
            Box::new(super::telegram::TelegramFactory),
            Box::new(super::vcard::VcardFactory),
            Box::new(super::webhook::WebhookFactory),
        ];
        if crash::TEST_POINTS {
            factories.extend(super::probe::factories());
        }
        Self { factories }
    }
}

impl Catalog {
    /// The factory behind `[modules.<name>]` of a butler, or behind `[mcp.servers.<name>]` as `mcp.<name>`.
    pub fn find(&self, butler: &str, name: &str) -> Option<&dyn Factory> {
        if is_rosters_own(butler, name) {
            return Some(&RosterFactory);
        }
        if name.starts_with(SERVER_MODULES) {
            return Some(&McpServerFactory);
        }
        self.own(name)
    }

    fn own(&self, name: &str) -> Option<&dyn Factory> {
        self.factories.iter().find(|f| f.name() == name).map(AsRef::as_ref)
    }

    /// Whether a `butler.toml` may have `[modules.<name>]`.
    pub fn has(&self, name: &str) -> bool {
        self.own(name).is_some()
    }

    /// The settings of each module, by its name.
    pub fn sections(&self) -> impl Iterator<Item = (&str, Section)> {
        self.factories.iter().map(|factory| (factory.name(), factory.settings()))
    }

    /// The tools of all modules that need no settings, whoever has them.
    pub fn declared(&self) -> Vec<String> {
        let Ok(nobody) = ButlerName::new("nobody") else { return Vec::new() };
        let module = |factory: &dyn Factory| factory.build(&json!({}), &nobody, Path::new("")).ok()?.manifest().ok();
        self.factories.iter().filter_map(|f| module(f.as_ref())).flat_map(|manifest| manifest.tools).collect()
    }
}

/// For serving: a module with wrong settings fails alone, in its phase, and its butler stays up.
impl config::Catalog for Catalog {
    fn module(&self, name: &str) -> bool {
        self.has(name)
    }
    fn check_module(&self, _: &str, _: &str, _: &Value) -> Vec<KeyMistake> {
        Vec::new()
    }
}
