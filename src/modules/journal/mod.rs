//! The module `journal`: what a butler always knows, what it looks up, and what happened each day, as files that a
//! person can read and edit.
//!
//! The truth is rows ([`sql`]); files are rendered from them ([`files`]). Sessions are told core memory as they start
//! ([`opening`]), write it by tools ([`tools`]), and sync sessions work the conversation log into it ([`sync`]). A
//! person's programs ask at a Unix socket ([`operations`]).

mod edits;
mod files;
mod jobs;
mod journals;
mod migrate;
mod opening;
mod operations;
mod sql;
mod sync;
mod told;
mod tools;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Notify;

use crate::background::{BackgroundTask, TaskKind};
use crate::contract::{Factory, Manifest, Module, ModuleContext, ModuleError, with_settings};
use crate::job::NamedJob;
use crate::local_socket::{LocalSocket, group_of, usual_path};
use crate::opening::Opening;
use ::journal::client::socket_of;
use ::tools::Tool;
use base::{ButlerName, HumanDuration};
use journals::Journals;
use schedule::BuiltInSchedule;

const NAME: &str = "journal";
/// It is heard before other modules.
const ORDER: u16 = 10;

pub(super) struct JournalFactory;

/// Who accepts a person's edits of the files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Edits {
    /// A person, who is shown the difference: `butlerd journal accept`.
    Accept,
    /// Nobody: they are taken in as they are found.
    Trust,
}

/// Who works conversations into the journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Sync {
    /// Sessions of the butler: every four hours, and where too much is unsummarized.
    Auto,
    /// A person, with an interactive session.
    ByHand,
}

/// `[modules.journal]`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(transform = config::keys::<Self>)]
struct Settings {
    /// Whether there is a journal.
    #[schemars(extend("default" = true))]
    enabled: bool,
    /// Where its files are, below that by tenant and butler; if not set, `journal` in the data directory, where nobody but
    /// the daemon's user comes to them.
    dir: Option<PathBuf>,
    /// Who accepts edits of the files: `accept` waits for `butlerd journal accept`, `trust` takes them in as they are found.
    #[schemars(extend("default" = "accept"))]
    edits: Edits,
    /// Who works conversations into it: `auto` lets the butler's sessions do it, `by_hand` leaves it to people.
    #[schemars(extend("default" = "auto"))]
    sync: Sync,
    /// More unsummarized conversations than this start a sync.
    #[schemars(range(min = 1, max = 1000), extend("default" = 30))]
    threshold: u32,
    /// After a sync, so long none is started because of the number of conversations.
    #[schemars(extend("default" = "10m"))]
    cooldown: HumanDuration,
    /// The Unix socket that a person's programs ask at; if not set, `journal.sock` (of another butler than general
    /// `journal-<butler>.sock`) in the service's runtime directory (`$RUNTIME_DIRECTORY`), else in `run` of the data
    /// directory.
    socket: Option<PathBuf>,
    /// The group whose members may open the socket and, if `dir` lies outside of the data directory, read and edit the
    /// files, besides the user that the daemon runs as.
    group: Option<String>,
}

impl Factory for JournalFactory {
    with_settings!(NAME, Settings);
    fn build(&self, config: &Value, _: &ButlerName, _: &Path) -> Result<Box<dyn Module>, ModuleError> {
        let settings = self.settings().read::<Settings>(config)?;
        Ok(Box::new(Journal { settings, started: OnceLock::new(), nudge: Arc::default() }))
    }
}

struct Journal {
    settings: Settings,
    /// There once the module has started.
    started: OnceLock<Arc<Journals>>,
    /// Rung as a session starts.
    nudge: Arc<Notify>,
}

#[async_trait]
impl Module for Journal {
    fn manifest(&self) -> Result<Manifest, ModuleError> {
        let tools = if self.settings.enabled { tools::names() } else { Vec::new() };
        Ok(Manifest { tools, ..Manifest::default() })
    }
    fn chains(&self) -> Vec<&'static str> {
        if self.settings.enabled { vec![NAME] } else { Vec::new() }
    }
    async fn start(&self, cx: &ModuleContext) -> Result<(), ModuleError> {
        if !self.settings.enabled {
            return Ok(());
        }
        let group = self.settings.group.as_deref().map(group_of).transpose().map_err(ModuleError::new)?;
        let root = self.settings.dir.clone().unwrap_or_else(|| cx.data_dir.join(NAME));
        let _ = self.started.set(Arc::new(Journals::new(cx, &self.settings, root, group)));
        Ok(())
    }
    async fn tools(&self, _: &ModuleContext) -> Result<Vec<Tool>, ModuleError> {
        self.started.get().map_or_else(|| Ok(Vec::new()), tools::tools)
    }
    fn schedules(&self) -> Vec<BuiltInSchedule> {
        if !self.settings.enabled {
            return Vec::new();
        }
        jobs::schedules(self.settings.sync == Sync::Auto)
    }
    fn jobs(&self, _: &ModuleContext) -> Vec<NamedJob> {
        self.started.get().map_or_else(Vec::new, jobs::named)
    }
    fn tasks(&self, cx: &ModuleContext) -> Vec<BackgroundTask> {
        let Some(journals) = self.started.get() else { return Vec::new() };
        let answers = Arc::new(operations::JournalAnswers { journals: journals.clone(), due: cx.due.clone() });
        let name = socket_of(cx.butler.as_str());
        let path = self.settings.socket.clone().unwrap_or_else(|| usual_path(&cx.data_dir, &name));
        let socket = LocalSocket { path, group: self.settings.group.clone(), what: "the journal", answers };
        let watch = jobs::Watch { journals: journals.clone(), nudge: self.nudge.clone(), due: cx.due.clone() };
        vec![
            BackgroundTask { name: "watch", kind: TaskKind::Loop, work: Arc::new(watch) },
            BackgroundTask { name: "socket", kind: TaskKind::Loop, work: Arc::new(socket) },
        ]
    }
    fn opening(&self, _: &ModuleContext) -> Option<Opening> {
        let journals = self.started.get()?.clone();
        let source = Arc::new(opening::JournalLines { journals, nudge: self.nudge.clone() });
        Some(Opening { order: ORDER, source })
    }
}
