//! What a module is to butlerd.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::Notify;

use super::background::{BackgroundTask, TaskHealth};
use super::grant::Grants;
use super::inbound::Inbound;
use super::job::NamedJob;
use super::live::Live;
use super::mcp_servers::{Children, McpServers};
use super::opening::Opening;
use super::own_sessions::ModuleSessions;
use super::routes::{Route, RouteSpec};
use approvals::ApprovalGate;
use base::{ButlerName, Clock, Secret};
use config::{KeyMistake, Section, SyncedContacts};
use conversation::ConversationReader;
use memory::MemoryHandle;
use outbox::{Channel, Outbox};
use schedule::BuiltInSchedule;
use sessions::Conductor;
use store::migrate::Chain;
use store::{Database, Store};
use tools::Tool;

/// The step of boot in which a module failed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "ModulePhase")]
pub enum Phase {
    Config,
    Credentials,
    Migration,
    Startup,
    Tools,
    Routes,
    /// After its butler was up: a task without which it is nothing ended.
    Running,
}

/// How a module is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ModuleHealth")]
pub enum Health {
    Active,
    /// It works, but one of its background tasks failed and is started again, or its note says what else is wrong.
    Degraded,
    Failed,
    /// A module that it needs failed.
    CascadeFailed,
}

/// A module's state as people and tools see it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "ModuleState")]
pub struct State {
    pub health: Health,
    pub enabled: bool,
    pub failure_phase: Option<Phase>,
    pub failure_error: Option<String>,
    /// What is not as it should be, although it works: a sentence without its subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Its background tasks by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tasks: BTreeMap<String, TaskHealth>,
}

/// A credential that a module wants: looked up in the database, then in the environment.
#[derive(Clone, Debug)]
pub struct Credential {
    /// The secret's name.
    pub name: String,
    /// The environment variable that is asked where no such secret is stored; if not set, the one of the secret's name.
    pub token_env: Option<String>,
    pub required: bool,
}

/// Why a module can't do its part: a sentence for the owner.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ModuleError(String);

impl ModuleError {
    /// Takes the words of another error, as in `map_err(ModuleError::new)`.
    pub fn new(why: impl std::fmt::Display) -> Self {
        Self(why.to_string())
    }
}

impl From<String> for ModuleError {
    fn from(why: String) -> Self {
        Self(why)
    }
}

impl From<tools::SchemaError> for ModuleError {
    fn from(why: tools::SchemaError) -> Self {
        Self::new(why)
    }
}

impl From<&str> for ModuleError {
    fn from(why: &str) -> Self {
        Self::new(why)
    }
}

/// The mistakes of a module's settings.
impl From<Vec<KeyMistake>> for ModuleError {
    fn from(wrong: Vec<KeyMistake>) -> Self {
        Self(wrong.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    }
}

/// An account that a module serves.
#[async_trait]
pub trait AccountTrial: Send + Sync {
    /// Which one, as its owner knows it.
    fn name(&self) -> String;
    /// Logs in as the module does. Nothing is changed and nothing sent.
    async fn attempt(&self) -> Result<(), ModuleError>;
}

/// What a module may register: nothing else is accepted.
#[derive(Clone, Debug, Default)]
pub struct Manifest {
    pub tools: Vec<String>,
    pub routes: Vec<RouteSpec>,
    /// The channels whose messages it hands to the inbox.
    pub channels: Vec<String>,
}

/// All that a module gets of the house. MCP servers of others it reaches by [`mcp::RemoteConnection`].
#[derive(Clone)]
pub struct ModuleContext {
    pub butler: ButlerName,
    /// The butler's directory in the roster.
    pub dir: PathBuf,
    /// Where the daemon keeps its files.
    pub data_dir: PathBuf,
    /// Where the world reaches `/hooks`; `None`: nowhere.
    pub public_url: Option<String>,
    pub store: Store,
    /// The daemon's name among those on its database, by which it claims rows.
    pub node: String,
    /// The same rows as the daemon itself reads them: whatever their labels are, without being lowered by them. Whoever
    /// hands them on answers for each label.
    pub house: Arc<Database>,
    pub clock: Clock,
    /// How far people are believed whom address books name.
    pub synced_contacts: SyncedContacts,
    /// Whatever leaves the household goes through it.
    pub outbox: Outbox,
    /// Decides which of the butler's calls wait for a person.
    pub gate: ApprovalGate,
    /// The butler's schedules are looked at when it rings: for whoever has written a run that is due.
    pub due: Arc<Notify>,
    /// Hands messages of the channels that the module declares to the inbox.
    pub inbound: Inbound,
    /// Starts sessions of the butler.
    pub sessions: ModuleSessions,
    /// Reads what people and the household said to each other, as far as it concerns the butler.
    pub conversation: ConversationReader,
    /// Those of the module's credentials that were found.
    pub credentials: Arc<BTreeMap<String, Secret<String>>>,
    /// Access that somebody gave by OAuth, in the module's credentials.
    pub grants: Grants,
    /// What the module changes of itself while its butler is up.
    pub live: Live,
    /// How programs are started, as sessions start theirs.
    pub children: Children,
    /// The butler's MCP servers of others.
    pub servers: McpServers,
    /// The butler's memory, for modules that depend on `memory`.
    pub memory: MemoryHandle,
}

/// Makes modules of one name. [`Catalog`](crate::Catalog) lists all factories.
///
/// # Examples
///
/// ```
/// # use async_trait::async_trait;
/// # use modules::{Manifest, ModuleContext, ModuleError};
/// # use tools::Tool;
/// # struct Greeter { word: String }
/// # #[async_trait]
/// # impl Module for Greeter {
/// #     fn manifest(&self) -> Result<Manifest, ModuleError> {
/// #         Ok(Manifest::default())
/// #     }
/// #     async fn tools(&self, _: &ModuleContext) -> Result<Vec<Tool>, ModuleError> {
/// #         Ok(Vec::new())
/// #     }
/// # }
/// use std::path::Path;
///
/// use base::ButlerName;
/// use modules::{Factory, Module};
/// use serde_json::{Value, json};
///
/// struct GreeterFactory;
///
/// impl Factory for GreeterFactory {
///     fn name(&self) -> &str {
///         "greeter"
///     }
///     fn build(&self, config: &Value, _: &ButlerName, _: &Path) -> Result<Box<dyn Module>, ModuleError> {
///         let word = config["word"].as_str().unwrap_or("Good morning");
///         Ok(Box::new(Greeter { word: word.to_owned() }))
///     }
/// }
///
/// let garden = ButlerName::new("garden").unwrap();
/// assert!(GreeterFactory.build(&json!({"word": "Hello"}), &garden, Path::new("")).is_ok());
/// ```
pub trait Factory: Send + Sync {
    /// The name in `[modules.<name>]`.
    fn name(&self) -> &str;
    /// Modules that must be active before this one.
    fn dependencies(&self) -> &[&str] {
        &[]
    }
    /// The keys of its settings.
    fn settings(&self) -> Section {
        Section::nothing()
    }
    /// Mistakes of the configuration.
    fn check(&self, config: &Value) -> Vec<KeyMistake> {
        self.settings().check(config)
    }
    /// The same, also where it matters whose configuration it is.
    fn check_for(&self, _butler: &str, config: &Value) -> Vec<KeyMistake> {
        self.check(config)
    }
    /// The module for this configuration, which was checked.
    fn build(&self, config: &Value, butler: &ButlerName, dir: &std::path::Path)
    -> Result<Box<dyn Module>, ModuleError>;
}

/// What most factories say alike: the module's name, the struct of its settings, and the function that reads them where
/// that checks more than each key by itself.
macro_rules! with_settings {
    ($name:expr, $settings:ty $(, $read:expr)?) => {
        fn name(&self) -> &str {
            $name
        }
        fn settings(&self) -> ::config::Section {
            ::config::Section::of::<$settings>()
        }
        $(fn check(&self, config: &::serde_json::Value) -> Vec<::config::KeyMistake> {
            $read(config).err().unwrap_or_default()
        })?
    };
}
pub(crate) use with_settings;

/// One butler's module.
///
/// A butler's boot calls `manifest`, `migrations`, `credentials`, `start`, `channels`, `schedules`, `jobs` and `tools`,
/// in this order. An error ends the module and those that depend on it, not its butler.
///
/// # Examples
///
/// A module with one tool, which reads and writes nothing:
///
/// ```
/// use std::sync::Arc;
///
/// use async_trait::async_trait;
/// use modules::{Manifest, Module, ModuleContext, ModuleError};
/// use serde_json::json;
/// use tools::{Definition, Meta, Tool, handler};
///
/// struct Greeter {
///     word: String,
/// }
///
/// #[async_trait]
/// impl Module for Greeter {
///     fn manifest(&self) -> Result<Manifest, ModuleError> {
///         Ok(Manifest { tools: vec!["greet".to_owned()], ..Manifest::default() })
///     }
///     async fn tools(&self, _: &ModuleContext) -> Result<Vec<Tool>, ModuleError> {
///         let meta = Meta { reads_private: false, ..Meta::read() };
///         let greet = Definition::new("greet", "Say the household's greeting.", json!({"type": "object"}), meta);
///         let greet = greet.map_err(ModuleError::new)?;
///         let word = self.word.clone();
///         let say = handler(move |_| {
///             let word = word.clone();
///             async move { Ok(json!({"said": word})) }
///         });
///         Ok(vec![Tool::new(&Arc::new(greet), say)])
///     }
/// }
///
/// let greeter = Greeter { word: "Good morning".to_owned() };
/// assert_eq!(greeter.manifest()?.tools, ["greet"]);
/// # Ok::<(), ModuleError>(())
/// ```
#[async_trait]
pub trait Module: Send + Sync {
    /// What it will register.
    fn manifest(&self) -> Result<Manifest, ModuleError>;
    /// Credentials it wants.
    fn credentials(&self) -> Vec<Credential> {
        Vec::new()
    }
    /// Its tables, if it has any, in the order in which they are made.
    fn migrations(&self) -> Result<Vec<Chain>, ModuleError> {
        self.chains().into_iter().map(|name| Chain::shipped(name).map_err(ModuleError::new)).collect()
    }
    /// The names of those that butlerd ships.
    fn chains(&self) -> Vec<&'static str> {
        Vec::new()
    }
    /// Comes to life.
    async fn start(&self, _: &ModuleContext) -> Result<(), ModuleError> {
        Ok(())
    }
    /// Ways out of the household, after it started. Only the messenger's are used.
    fn channels(&self, _: &ModuleContext) -> Result<Vec<Arc<dyn Channel>>, ModuleError> {
        Ok(Vec::new())
    }
    /// What its schedules, and those of `butler.toml`, may name, after it started. `check` goes by the names in
    /// [`Module::schedules`].
    fn jobs(&self, _: &ModuleContext) -> Vec<NamedJob> {
        Vec::new()
    }
    /// What its butler does by itself because of it.
    fn schedules(&self) -> Vec<BuiltInSchedule> {
        Vec::new()
    }
    /// Its tools, after it started. Those that send something out by their name are the messenger's alone.
    async fn tools(&self, cx: &ModuleContext) -> Result<Vec<Tool>, ModuleError>;
    /// Its HTTP routes, after it started: those that its manifest declares, served while its butler is up.
    fn routes(&self, _: &ModuleContext) -> Vec<Route> {
        Vec::new()
    }
    /// What it does in the background while its butler is up. Started last, in this order.
    fn tasks(&self, _: &ModuleContext) -> Vec<BackgroundTask> {
        Vec::new()
    }
    /// The accounts that it serves, for whoever asks whether they work.
    fn accounts(&self, _: &ModuleContext) -> Vec<Arc<dyn AccountTrial>> {
        Vec::new()
    }
    /// What it says at the start of its butler's sessions.
    fn opening(&self, _: &ModuleContext) -> Option<Opening> {
        None
    }
    /// Who works on its butler's sessions in the place of a model, if it does.
    fn conductor(&self, _: &ModuleContext) -> Option<Arc<dyn Conductor>> {
        None
    }
    /// Leaves; called in reverse order of starting, after its background tasks ended.
    async fn stop(&self) {}
}
