//! The module `project_memory`: what coding assistants learned about projects, for their next sessions.
//!
//! What is remembered are facts of the memory engine whose scope is a project: the same writer, gate, ranking, history
//! and undo as all memory has. Developers' programs ask over a Unix socket; [`operations`] does what they and the tools
//! of this butler's own port ask, by one way. What a coding session says may come out of a dependency, so it is
//! believed as little as a stranger, and it stays within its project.

mod alike;
mod arguments;
mod exchange;
mod find;
mod injection;
mod look;
mod operations;
mod projects;
mod records;
mod remember;
mod request;
mod search;
mod socket;
mod sql;
mod tools;
mod upkeep;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::background::{BackgroundTask, TaskKind};
use crate::contract::{Factory, Manifest, Module, ModuleContext, ModuleError, with_settings};
use crate::local_socket::{LocalSocket, usual_path};
use ::tools::Tool;
use base::{ButlerName, ByteSize, TenantId};
use memory::{Memory, Options};
use memory_index::embed::Fixed;
use memory_index::rank::Weights;
use request::ProjectMemory;
use socket::{ProjectAnswers, SOCKET};

const NAME: &str = "project_memory";

/// How memories of projects are ranked: by what they say, and hardly by their age.
const WEIGHTS: Weights = Weights { relevance: 0.8, importance: 0.1, recency: 0.1, confidence: 0.0 };
/// A hook waits less than this for all that it asks.
const QUESTION_WITHIN: Duration = Duration::from_millis(50);

pub(super) struct ProjectMemoryFactory;

/// `[modules.project_memory]`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(transform = config::keys::<Self>)]
struct Settings {
    /// Whether projects are remembered.
    #[schemars(extend("default" = true))]
    enabled: bool,
    /// The Unix socket that developers' programs ask at; if not set, `project.sock` in the service's runtime directory
    /// (`$RUNTIME_DIRECTORY`), else in `run` of the data directory.
    socket: Option<PathBuf>,
    /// The group whose members may open the socket, besides the user that the daemon runs as.
    group: Option<String>,
    /// Most memory that the index of all projects may take.
    #[schemars(range(min = 1 << 20), extend("default" = "256 MiB"))]
    index_size: ByteSize,
}

impl Factory for ProjectMemoryFactory {
    with_settings!(NAME, Settings);
    fn build(&self, config: &Value, _: &ButlerName, _: &Path) -> Result<Box<dyn Module>, ModuleError> {
        let settings = self.settings().read::<Settings>(config)?;
        Ok(Box::new(ProjectMemoryModule { settings, started: OnceLock::new() }))
    }
}

struct ProjectMemoryModule {
    settings: Settings,
    /// There once the module has started.
    started: OnceLock<Arc<ProjectMemory>>,
}

#[async_trait]
impl Module for ProjectMemoryModule {
    fn manifest(&self) -> Result<Manifest, ModuleError> {
        let tools = if self.settings.enabled { tools::names() } else { Vec::new() };
        Ok(Manifest { tools, ..Manifest::default() })
    }
    fn chains(&self) -> Vec<&'static str> {
        // What is remembered of projects stands in the memory engine's tables.
        if self.settings.enabled { vec!["memory", NAME] } else { Vec::new() }
    }
    async fn start(&self, cx: &ModuleContext) -> Result<(), ModuleError> {
        if !self.settings.enabled {
            return Ok(());
        }
        let options =
            Options { weights: WEIGHTS, question_within: QUESTION_WITHIN, index_bytes: self.settings.index_size.0 };
        let memory = Arc::new(Memory::new(&cx.butler, options, &cx.store, Arc::new(Fixed)));
        memory.warm(&TenantId::owner());
        let _ = self.started.set(Arc::new(ProjectMemory::new(memory, &cx.store, &cx.clock)));
        Ok(())
    }
    async fn tools(&self, _: &ModuleContext) -> Result<Vec<Tool>, ModuleError> {
        self.started.get().map_or_else(|| Ok(Vec::new()), tools::tools)
    }
    fn tasks(&self, cx: &ModuleContext) -> Vec<BackgroundTask> {
        let Some(memory) = self.started.get() else { return Vec::new() };
        let answers = Arc::new(ProjectAnswers { memory: memory.clone(), clock: cx.clock.clone() });
        let path = self.settings.socket.clone().unwrap_or_else(|| usual_path(&cx.data_dir, SOCKET));
        let socket = LocalSocket { path, group: self.settings.group.clone(), what: "the memory of projects", answers };
        vec![BackgroundTask { name: "socket", kind: TaskKind::Loop, work: Arc::new(socket) }]
    }
}
