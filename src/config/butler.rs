//! The keys of `roster/<butler>/butler.toml`.
//!
//! A field's doc comment is the user's documentation.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use base::{ButlerName, ByteSize, HumanDuration, Money};

use super::runtime::ModelTiers;
use super::schema::{MAX_TOKENS, Table, keys};
use super::servers::{McpSection, SERVER_MODULES};
use super::skills::Skill;
use super::values::{Api, DispatchMode, Missed, ModelTier, Moment, Overlap, RuntimeKind, VendorTool, Zone};

/// The database that holds all butlers; the framework fixes its name.
const DATABASE_NAME: &str = "butlers";

/// The keys of `butler.toml`.
pub(super) static BUTLER: LazyLock<Table> = LazyLock::new(Table::of::<ButlerFile>);

/// One butler: identity, runtime, database, schedule, modules.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct ButlerFile {
    /// Who the butler is.
    pub butler: IdentitySection,
    /// The program that runs its sessions.
    pub runtime: RuntimeSection,
    /// The switchboard's buffer of accepted messages; no other butler has one.
    #[schemars(extend("examples" = [{ "worker_count": 3 }]))]
    pub buffer: Option<BufferSection>,
    /// The modules that the butler has, each with its own settings.
    #[serde(default)]
    #[schemars(extend("examples" = [{ "memory": {} }]))]
    pub modules: BTreeMap<String, Json>,
    /// MCP servers of others.
    pub mcp: McpSection,
}

/// Who the butler is.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct IdentitySection {
    /// Its unique name; the name of its directory.
    pub name: ButlerName,
    /// The port of its MCP server on loopback.
    #[schemars(title = "a port number", range(min = 1, max = 65_535))]
    pub port: u16,
    /// What it is for, in a sentence for people and for the switchboard, which routes by it.
    #[schemars(extend("default" = ""))]
    pub description: String,
    /// Skills of `shared/skills/` in the roster that it has besides its own, by name.
    #[schemars(extend("items" = {"type": "string", "format": "skill"}, "default" = []))]
    pub shared_skills: Vec<String>,
    /// Its sessions.
    pub runtime: SessionsSection,
    /// What its sessions may use.
    pub budgets: ButlerBudgets,
    /// Its place in the database.
    pub db: DbSection,
    /// The environment of its sessions.
    pub env: EnvSection,
    /// How it stops.
    pub shutdown: ShutdownSection,
    /// What its sessions may do by themselves once a stranger's words have influenced them, besides answering that person.
    pub strangers: OthersSection,
    /// The same of people whom the owner knows.
    pub known: OthersSection,
    /// What it does by itself, and when.
    #[serde(default)]
    #[schemars(extend("examples" = [[]]))]
    pub schedule: Vec<ScheduleEntry>,
    /// Its registration with the switchboard; without the section it is not registered.
    #[schemars(extend("examples" = [{ "advertise": true }]))]
    pub switchboard: Option<SwitchboardSection>,
}

/// A butler's sessions.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct SessionsSection {
    /// The model that runs them; if not set, the household's, or the runtime's own default.
    #[schemars(length(min = 1), extend("examples" = ["claude-sonnet-4-5"]))]
    pub model: Option<String>,
    /// The size of the model, where `model` is not set: the one that `[runtime.tiers]` names, in this file or the
    /// household's. If that names none, the household's `model`.
    #[schemars(with = "Option<ModelTier>", extend("examples" = ["small"]))]
    pub tier: Option<ModelTier>,
    /// How many run at a time.
    #[schemars(range(min = 1, max = 1000), extend("default" = 3))]
    pub max_concurrent_sessions: u32,
    /// How many triggers wait; a further one is refused.
    #[schemars(range(min = 0, max = 100_000), extend("default" = 20))]
    pub max_queued: u32,
    /// After how long a session is ended as timed out.
    #[schemars(range(min = 1, max = 7 * 86_400), extend("default" = "10m"))]
    pub session_timeout: HumanDuration,
    /// How many times a session may go to the model.
    #[schemars(range(min = 1, max = 1000), extend("default" = 20))]
    pub max_turns: u32,
    /// How many tool calls a session may make; the next one ends it, as does the fifth of the same in a row.
    #[schemars(range(min = 1, max = 100_000), extend("default" = 200))]
    pub max_tool_calls: u32,
}

/// What a butler's sessions may use, in the place of the household's `[spawner.budgets]`, key by key.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct ButlerBudgets {
    /// What one session may cost.
    #[schemars(extend("examples" = ["0.50"]))]
    pub session_usd: Option<Money>,
    /// How many tokens of all kinds together one session may use.
    #[schemars(title = "a number of tokens", range(min = 1, max = MAX_TOKENS), extend("examples" = [500000]))]
    pub session_tokens: Option<u64>,
    /// What all its sessions of a day may cost.
    #[schemars(extend("examples" = [2]))]
    pub day_usd: Option<Money>,
    /// How many tokens all its sessions of a day may use.
    #[schemars(title = "a number of tokens", range(min = 1, max = MAX_TOKENS), extend("examples" = [5000000]))]
    pub day_tokens: Option<u64>,
}

/// The program that runs a butler's sessions; what is not set is as the household's `[runtime]` says.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct RuntimeSection {
    /// `native` is butlerd's own small agent; the others are vendors' command-line programs.
    #[serde(rename = "type")]
    #[schemars(with = "Option<RuntimeKind>", extend("examples" = ["native"]))]
    pub kind: RuntimeKind,
    /// Further arguments for the program.
    #[schemars(inner(length(min = 1)), extend("default" = []))]
    pub args: Vec<String>,
    /// Runtimes to try, in this order, where the first can't start a session.
    #[schemars(with = "Option<Vec<RuntimeKind>>", extend("examples" = [["claude-code"]]))]
    pub fallback: Vec<RuntimeKind>,
    /// The models of the runtimes that are not to use `[butler.runtime] model`: fallbacks of other vendors, mostly.
    #[serde(default)]
    #[schemars(
        with = "BTreeMap<String, String>",
        extend("additionalProperties" = {"type": "string", "minLength": 1}, "propertyNames" = {"format": "runtime"}, "examples" = [{ "codex": "gpt-5" }])
    )]
    pub models: BTreeMap<RuntimeKind, String>,
    /// Models of other sizes than `[butler.runtime] model`; what is not set is as the household's `[runtime.tiers]` says.
    pub tiers: ModelTiers,
    /// The protocol that `native` speaks to the model.
    #[schemars(with = "Option<Api>", extend("examples" = ["openai"]))]
    pub api: Api,
    /// Where `native` finds the model; if not set by the household either, `[spawner.endpoints]` for the protocol.
    #[schemars(extend("format" = "url", "examples" = ["http://127.0.0.1:11434/v1"]))]
    pub endpoint: Option<String>,
    /// How much the tools that a session is told of may cost, in tokens; if not set, what `[spawner] tool_budget` says, and
    /// half of it with `[butler.runtime] tier = "small"`, or with `native` and a model on your own network.
    #[schemars(range(max = 1_000_000), extend("examples" = [2500]))]
    pub tool_budget: Option<u32>,
    /// Built-in tools of the program (shell, files, web) that sessions may use. Each one widens what a session
    /// that was led astray can do.
    #[schemars(inner(length(min = 1)), extend("default" = []))]
    pub tools: Vec<String>,
    /// What the model's vendor may do for sessions besides answering: `web_search`, `web_fetch`, `code_execution`. Each
    /// takes a session's words past the house's gate, and no approval is asked. A web search among `tools` is one of them.
    /// Without the gateway nobody holds sessions to this.
    #[schemars(extend("default" = []))]
    pub vendor_tools: Vec<VendorTool>,
}

/// A butler's place in the database.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct DbSection {
    /// The one database of all butlers.
    #[schemars(extend("enum" = [DATABASE_NAME], "default" = "butlers"))]
    pub name: String,
    /// The butler's own schema; if not set, its name with `_` for `-`.
    #[schemars(with = "Option<String>", extend("format" = "schema", "examples" = ["health"]))]
    pub schema: String,
}

/// The environment of a butler's sessions, besides what every session has. No variable that steers programs (`PATH`,
/// `LD_…`, `NODE_OPTIONS`, proxies, certificates, models' addresses and keys, butlerd's own) is handed on.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct EnvSection {
    /// Variables without which the butler does not start. A stored secret of that name goes before the daemon's own
    /// environment.
    #[schemars(extend("items" = {"type": "string", "format": "variable"}, "default" = []))]
    pub required: Vec<String>,
    /// Variables that are handed on where they exist.
    #[schemars(extend("items" = {"type": "string", "format": "variable"}, "default" = []))]
    pub optional: Vec<String>,
}

/// What other people's words may cause by themselves.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct OthersSection {
    /// Tools with effects that such a session may call; calls of all others wait for the owner as what the message proposes.
    #[schemars(extend("items" = {"type": "string", "minLength": 1}, "default" = []))]
    pub may: Vec<String>,
}

/// How a butler stops.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct ShutdownSection {
    /// How long its running sessions may take to end.
    #[schemars(range(min = 0, max = 3600), extend("default" = "30s", "x-also" = ["shutdown_timeout_s"]))]
    pub timeout: HumanDuration,
}

/// One thing that a butler does by itself.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct ScheduleEntry {
    /// Unique within the butler.
    #[schemars(length(min = 1))]
    pub name: String,
    /// When: minute, hour, day, month, weekday; seconds may stand in front. Either this, or `every`, or `at`.
    #[schemars(extend("format" = "cron", "examples" = ["0 8 * * 1-5"]))]
    pub cron: Option<String>,
    /// How often, counted from `start_at`, or else from when the entry was first seen; however long a run takes.
    #[schemars(range(min = 1, max = 366 * 86_400), extend("examples" = ["90m"]))]
    pub every: Option<HumanDuration>,
    /// Once, at this moment; without an offset it is meant in `timezone`.
    #[schemars(extend("examples" = ["2026-12-24T18:00"]))]
    pub at: Option<Moment>,
    /// `prompt` starts a session, `job` runs a job without a model.
    #[schemars(extend("default" = "prompt"))]
    pub dispatch_mode: DispatchMode,
    /// What the session is told.
    #[schemars(length(min = 1), extend("examples" = ["Run the weekly-review workflow."]))]
    pub prompt: Option<String>,
    /// A built-in job, or the name of a file in the butler's `jobs/` without `.sql`.
    #[schemars(length(min = 1), extend("examples" = ["upcoming_bills"]))]
    pub job_name: Option<String>,
    /// The job's arguments.
    #[schemars(with = "Option<Map<String, Json>>", extend("examples" = [{ "days": 14 }]))]
    pub job_args: Option<Json>,
    /// The zone in which times are meant; if not set, the owner's.
    #[schemars(extend("examples" = ["Europe/Berlin"]))]
    pub timezone: Option<Zone>,
    /// Not before this moment.
    #[schemars(extend("examples" = ["2026-05-01T00:00"]))]
    pub start_at: Option<Moment>,
    /// Not after this moment.
    #[schemars(extend("examples" = ["2026-05-31T23:59"]))]
    pub until_at: Option<Moment>,
    /// Who goes first where several are due: 1 before all else, ordinary messages too, 2 like messages, 3 after them.
    #[schemars(range(min = 1, max = 3), extend("default" = 3))]
    pub priority: u8,
    /// Waits until the butler has had no session for 3 seconds. After 30 minutes it runs anyway; if the next time comes
    /// before that, the run is skipped.
    #[schemars(extend("default" = false))]
    pub require_idle: bool,
    /// What becomes of times that passed while butlerd was not there: `skip` leaves them out, `run_once` lets one run
    /// stand for them, `backfill` runs each, at most 24 of them.
    #[schemars(extend("default" = "run_once"))]
    pub missed: Missed,
    /// How far back missed times are made up for.
    #[schemars(range(min = 1, max = 366 * 86_400), extend("default" = "7d"))]
    pub missed_window: HumanDuration,
    /// What becomes of a time that comes while an earlier run is still at work: `skip` leaves it out, `queue` lets it
    /// wait.
    #[schemars(extend("default" = "skip"))]
    pub overlap: Overlap,
    /// `false` keeps the entry without running it.
    #[schemars(extend("default" = true))]
    pub enabled: bool,
}

/// A butler's registration with the switchboard.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct SwitchboardSection {
    /// Whether messages may be routed to this butler.
    #[schemars(extend("default" = true))]
    pub advertise: bool,
    /// The MCP endpoint of this household's switchboard. It is taken anyway, and another one is refused.
    #[schemars(extend("format" = "url", "examples" = ["http://127.0.0.1:40100/mcp"]))]
    pub url: Option<String>,
    /// How long a registration lasts without a sign of life.
    #[schemars(range(min = 1, max = 86_400), extend("default" = "5m"))]
    pub liveness_ttl: HumanDuration,
    /// The oldest version of the routing contract that the butler understands.
    #[schemars(range(min = 1, max = 1000), extend("default" = 1))]
    pub route_contract_min: u32,
    /// The newest.
    #[schemars(range(min = 1, max = 1000), extend("default" = 1))]
    pub route_contract_max: u32,
}

/// The switchboard's buffer of accepted messages.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct BufferSection {
    /// How many messages wait in memory; what is beyond waits in the database alone.
    #[schemars(range(min = 1, max = 100_000), extend("default" = 100))]
    pub queue_capacity: u32,
    /// How many accepted messages may wait for their end; one more is refused, to be sent again later.
    #[schemars(range(min = 1, max = 10_000_000), extend("default" = 50000))]
    pub max_backlog: u32,
    /// How many messages one stranger may send within an hour; one more is refused, to be sent again later.
    #[schemars(range(min = 1, max = 1_000_000), extend("default" = 60))]
    pub stranger_per_hour: u32,
    /// How many messages one stranger may send within 24 hours.
    #[schemars(range(min = 1, max = 1_000_000), extend("default" = 300))]
    pub stranger_per_day: u32,
    /// How many bytes of files may come within 24 hours for those of strangers still to be kept; beyond that a stranger's
    /// message is taken without its files. Those of people whom the household knows are always kept.
    #[schemars(extend("default" = "1 GiB"))]
    pub stranger_files_per_day: ByteSize,
    /// How many messages are taken within a minute from one bot, mailbox or webhook that a module serves. The rest waits at its
    /// server, and the connector says so.
    #[schemars(range(min = 1, max = 1_000_000), extend("default" = 600))]
    pub connector_per_minute: u32,
    /// How many messages are dispatched at a time, and one of the owner besides.
    #[schemars(range(min = 1, max = 1000), extend("default" = 3))]
    pub worker_count: u32,
    /// How often the database is searched for messages that were left.
    #[schemars(range(min = 1, max = 86_400), extend("default" = "30s"))]
    pub scanner_interval: HumanDuration,
    /// How long the lease of a message must be over before another daemon takes it up.
    #[schemars(range(min = 0, max = 86_400), extend("default" = "2s"))]
    pub scanner_grace: HumanDuration,
    /// How many messages one scan takes.
    #[schemars(range(min = 1, max = 10_000), extend("default" = 50))]
    pub scanner_batch_size: u32,
}

/// One butler of the roster, as its `butler.toml` declares it.
#[derive(Debug, Clone)]
pub struct ButlerConfig {
    /// Its directory, absolute.
    pub dir: PathBuf,
    /// Its `butler.toml`, as mistakes and logs show it.
    pub file: PathBuf,
    /// Its unique name.
    pub name: ButlerName,
    /// The port of its `butler.toml`, moved as `daemon.port_base` says; with `daemon.ports = "auto"` it listens elsewhere.
    pub port: u16,
    /// What it is for; may be empty.
    pub description: String,
    /// Its own skills and the shared ones that it names, by name.
    pub skills: Arc<[Skill]>,
    /// The names of those that are shared.
    pub shared_skills: Vec<String>,
    /// `[butler.runtime]`
    pub sessions: SessionsSection,
    /// `[butler.budgets]`
    pub budgets: ButlerBudgets,
    /// `[runtime]`
    pub runtime: RuntimeSection,
    /// `[butler.db]`, the schema derived where it wasn't given.
    pub db: DbSection,
    /// `[butler.env]`
    pub env: EnvSection,
    /// `[butler.shutdown]`
    pub shutdown: ShutdownSection,
    /// `[butler.strangers]`
    pub strangers: OthersSection,
    /// `[butler.known]`
    pub known: OthersSection,
    /// `[[butler.schedule]]`, in the file's order.
    pub schedules: Vec<ScheduleEntry>,
    /// `[butler.switchboard]`; `None` if the butler does not register.
    pub switchboard: Option<SwitchboardSection>,
    /// `[buffer]`: `Some` for the switchboard alone, with defaults where the file has none.
    pub buffer: Option<BufferSection>,
    /// `[modules.<name>]`, and `[mcp.servers.<name>]` as `mcp.<name>`: each a JSON object.
    pub modules: BTreeMap<String, Json>,
    /// Another one as soon as a file changed that the butler is made of.
    pub digest: String,
    /// Another one as soon as a statement of its migrations, tools, jobs or pages changed.
    pub sql_digest: String,
}

impl ButlerConfig {
    pub(super) fn new(
        dir: PathBuf,
        file: PathBuf,
        parsed: ButlerFile,
        skills: Vec<Skill>,
        digest: impl FnOnce(&[String]) -> String,
    ) -> Self {
        let ButlerFile { butler, runtime, buffer, mut modules, mcp } = parsed;
        // What was just read can be written.
        let servers = mcp.servers.iter().filter_map(|(name, server)| {
            let mut table = serde_json::to_value(server).ok()?;
            table["name"] = name.as_str().into();
            Some((format!("{SERVER_MODULES}{name}"), table))
        });
        modules.extend(servers);
        Self {
            digest: digest(&butler.shared_skills),
            sql_digest: super::digest::of_sql(&dir),
            dir,
            file,
            name: butler.name,
            port: butler.port,
            description: butler.description,
            skills: skills.into(),
            shared_skills: butler.shared_skills,
            sessions: butler.runtime,
            budgets: butler.budgets,
            runtime,
            db: butler.db,
            env: butler.env,
            shutdown: butler.shutdown,
            strangers: butler.strangers,
            known: butler.known,
            schedules: butler.schedule,
            switchboard: butler.switchboard,
            buffer,
            modules,
        }
    }

    /// Whether the switchboard may route messages to this butler.
    pub fn advertises(&self) -> bool {
        self.switchboard.as_ref().is_some_and(|s| s.advertise)
    }
}
