//! The handle that others hold.

use std::sync::Arc;
use std::time::Instant;

use super::services::HouseholdServices;
use access::Caller;
use approvals::ApprovalGate;
use base::ButlerName;
use config::{ButlerConfig, Skill};
use modules::ModuleStates;
use schedule::Scheduler;
use serde_json::{Map, Value};
use sessions::{SessionResult, Spawner, Trigger, TriggerError};
use tools::sql::{ButlerPage, PageError, PageRows, Pages};
use tools::{ToolFileError, ToolSet};

/// What a running butler's tools and handles work with.
pub(super) struct Core {
    pub services: Arc<HouseholdServices>,
    pub config: Arc<ButlerConfig>,
    pub spawner: Spawner,
    pub modules: ModuleStates,
    pub gate: ApprovalGate,
    /// Its own pages; the error: what is wrong with their files.
    pub pages: Result<Pages, Vec<ToolFileError>>,
    /// The port really bound.
    pub port: u16,
    pub up_since: Instant,
}

/// A running butler. Cheap to clone; holding it keeps nothing alive.
#[derive(Clone)]
pub struct Butler {
    pub(super) core: Arc<Core>,
    pub(super) tools: ToolSet,
    pub(super) interrupted: usize,
    pub(super) schedules: Scheduler,
}

impl Butler {
    pub fn name(&self) -> &ButlerName {
        &self.core.config.name
    }

    /// Where its tables are.
    pub fn schema(&self) -> &str {
        &self.core.config.db.schema
    }

    /// The butler's tools, for calls from within the house.
    pub fn tools(&self) -> &ToolSet {
        &self.tools
    }

    /// Its own pages, those of `roster/<butler>/api/`, in the order of their files; their cards stand on the butler's page.
    ///
    /// # Errors
    /// [`PageError::Broken`]: a file has a mistake, and none can be used.
    pub fn pages(&self) -> Result<Vec<ButlerPage>, PageError> {
        self.own_pages().map(|pages| pages.all().cloned().collect())
    }

    /// What one of its pages shows this person now, of the tenant that the caller's context names. It changes nothing, and
    /// leaves no audit row.
    ///
    /// # Errors
    /// There is no such page, a parameter is wrong, the statement refuses or takes too long, a session asks, or the
    /// database is away.
    pub async fn read_page(
        &self,
        caller: &Caller,
        path: &str,
        params: Map<String, Value>,
    ) -> Result<PageRows, PageError> {
        self.own_pages()?.read(caller, path, params).await
    }

    fn own_pages(&self) -> Result<&Pages, PageError> {
        let told = |wrong: &Vec<ToolFileError>| wrong.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        self.core.pages.as_ref().map_err(|wrong| PageError::Broken(told(wrong)))
    }

    /// Its skills, each with whether it is the household's.
    pub fn skills(&self) -> impl Iterator<Item = (&Skill, bool)> {
        let config = &self.core.config;
        config.skills.iter().map(|skill| (skill, config.shared_skills.contains(&skill.name)))
    }

    /// What its files say of a module, defaults left out.
    pub fn module_settings(&self, module: &str) -> Option<&serde_json::Value> {
        self.core.config.modules.get(module)
    }

    /// The port that its MCP server listens on.
    pub fn port(&self) -> u16 {
        self.core.port
    }

    /// Starts a session and waits for its end.
    pub async fn trigger(&self, trigger: Trigger) -> Result<SessionResult, TriggerError> {
        self.core.spawner.trigger_from(trigger, None).await
    }

    /// Who decides which of its calls wait.
    pub fn gate(&self) -> &ApprovalGate {
        &self.core.gate
    }

    pub fn spawner(&self) -> &Spawner {
        &self.core.spawner
    }

    /// What it does by itself.
    pub fn schedules(&self) -> &Scheduler {
        &self.schedules
    }

    pub fn modules(&self) -> &ModuleStates {
        &self.core.modules
    }

    /// Sessions that the last start found unfinished.
    pub fn interrupted(&self) -> usize {
        self.interrupted
    }
}
