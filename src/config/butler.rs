//! The keys of `roster/<butler>/butler.toml`.
//!
//! A field's doc comment is the user's documentation.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value as Json;

use base::{ButlerName, HumanDuration, Money};

use super::key::{Default, Kind, section};
use super::rules;
use super::skills::Skill;
use super::values::{Api, DispatchMode, Missed, Moment, Overlap, RuntimeKind, Zone};

/// The database that holds all butlers; the framework fixes its name.
const DATABASE_NAME: &str = "butlers";

section! {
    /// One butler: identity, runtime, database, schedule, modules.
    pub struct ButlerFile {
        /// Who the butler is.
        butler: IdentitySection = Kind::Table(&IdentitySection::TABLE), Default::Inner;
        /// The program that runs its sessions.
        runtime: RuntimeSection = Kind::Table(&RuntimeSection::TABLE), Default::Inner;
        /// The switchboard's buffer of accepted messages; no other butler has one.
        buffer: Option<BufferSection> = Kind::Table(&BufferSection::TABLE), Default::Unset("{ worker_count = 3 }");
        /// The modules that the butler has, each with its own settings.
        #[serde(default)]
        modules: BTreeMap<String, Json> = Kind::Free, Default::Unset("{ memory = {} }");
    }
}

section! {
    /// Who the butler is.
    pub struct IdentitySection {
        /// Its unique name; the name of its directory.
        name: ButlerName = rules::BUTLER_NAME, Default::Required;
        /// The port of its MCP server on loopback.
        port: u16 = rules::PORT, Default::Required;
        /// What it is for, in a sentence for people and for the switchboard, which routes by it.
        description: String = rules::ANY_TEXT, Default::Is("\"\"");
        /// Skills of `shared/skills/` in the roster that it has besides its own, by name.
        shared_skills: Vec<String> = Kind::List(&rules::SKILL_NAME), Default::Is("[]");
        /// Its sessions.
        runtime: SessionsSection = Kind::Table(&SessionsSection::TABLE), Default::Inner;
        /// What its sessions may use.
        budgets: ButlerBudgets = Kind::Table(&ButlerBudgets::TABLE), Default::Inner;
        /// Its place in the database.
        db: DbSection = Kind::Table(&DbSection::TABLE), Default::Inner;
        /// The environment of its sessions.
        env: EnvSection = Kind::Table(&EnvSection::TABLE), Default::Inner;
        /// How it stops.
        shutdown: ShutdownSection = Kind::Table(&ShutdownSection::TABLE), Default::Inner;
        /// What it does by itself, and when.
        #[serde(default)]
        schedule: Vec<ScheduleEntry> = Kind::Tables(&ScheduleEntry::TABLE), Default::Unset("[]");
        /// Its registration with the switchboard; without the section it is not registered.
        switchboard: Option<SwitchboardSection> =
            Kind::Table(&SwitchboardSection::TABLE), Default::Unset("{ advertise = true }");
    }
}

section! {
    /// A butler's sessions.
    pub struct SessionsSection {
        /// The model that runs them; if not set, the runtime's own default.
        model: Option<String> = rules::FILLED_TEXT, Default::Unset("\"claude-sonnet-4-5\"");
        /// How many run at a time.
        max_concurrent_sessions: u32 = rules::count(1, 1000), Default::Is("3");
        /// How many triggers wait; a further one is refused.
        max_queued: u32 = rules::count(0, 100_000), Default::Is("20");
        /// After how long a session is ended as timed out.
        session_timeout: HumanDuration = rules::seconds(1, 7 * 86_400), Default::Is("\"10m\"");
        /// How many times a session may go to the model.
        max_turns: u32 = rules::count(1, 1000), Default::Is("20");
        /// How many tool calls a session may make; the next one ends it, as does the fifth of the same in a row.
        max_tool_calls: u32 = rules::count(1, 100_000), Default::Is("200");
    }
}

section! {
    /// What a butler's sessions may use, in the place of the household's `[spawner.budgets]`, key by key.
    pub struct ButlerBudgets {
        /// What one session may cost.
        session_usd: Option<Money> = rules::DOLLARS, Default::Unset("0.50");
        /// How many tokens of all kinds together one session may use.
        session_tokens: Option<u64> = rules::TOKENS, Default::Unset("500000");
        /// What all its sessions of a day may cost.
        day_usd: Option<Money> = rules::DOLLARS, Default::Unset("2");
        /// How many tokens all its sessions of a day may use.
        day_tokens: Option<u64> = rules::TOKENS, Default::Unset("5000000");
    }
}

section! {
    /// The program that runs a butler's sessions.
    pub struct RuntimeSection {
        /// `native` is butlerd's own small agent; the others are vendors' command-line programs.
        kind("type"): RuntimeKind = Kind::OneOf(RuntimeKind::NAMES), Default::Is("\"native\"");
        /// Further arguments for the program.
        args: Vec<String> = Kind::List(&rules::FILLED_TEXT), Default::Is("[]");
        /// Runtimes to try, in this order, where the first can't start a session.
        fallback: Vec<RuntimeKind> = Kind::List(&Kind::OneOf(RuntimeKind::NAMES)), Default::Is("[]");
        /// The models of the runtimes that are not to use `[butler.runtime] model`: fallbacks of other vendors, mostly.
        #[serde(default)]
        models: BTreeMap<RuntimeKind, String> =
            Kind::Map(rules::RUNTIME, &rules::FILLED_TEXT), Default::Unset("{ codex = \"gpt-5\" }");
        /// The protocol that `native` speaks to the model.
        api: Api = Kind::OneOf(Api::NAMES), Default::Is("\"anthropic\"");
        /// Where `native` finds the model; if not set, the household's endpoint for the protocol.
        endpoint: Option<String> = rules::URL, Default::Unset("\"http://127.0.0.1:11434/v1\"");
        /// Built-in tools of the program (shell, files, web) that sessions may use. Each one widens what a session
        /// that was led astray can do.
        tools: Vec<String> = Kind::List(&rules::FILLED_TEXT), Default::Is("[]");
    }
}

section! {
    /// A butler's place in the database.
    pub struct DbSection {
        /// The one database of all butlers.
        name: String = Kind::OneOf(&[DATABASE_NAME]), Default::Is("\"butlers\"");
        /// The butler's own schema; if not set, its name with `_` for `-`.
        schema: String = rules::SCHEMA_NAME, Default::Unset("\"health\"");
    }
}

section! {
    /// The environment of a butler's sessions, besides what every session has.
    pub struct EnvSection {
        /// Variables without which the butler does not start.
        required: Vec<String> = Kind::List(&rules::VARIABLE), Default::Is("[]");
        /// Variables that are handed on where they exist.
        optional: Vec<String> = Kind::List(&rules::VARIABLE), Default::Is("[]");
    }
}

section! {
    /// How a butler stops.
    pub struct ShutdownSection {
        /// How long its running sessions may take to end.
        timeout: HumanDuration = rules::seconds(0, 3600), Default::Is("\"30s\""), also &["shutdown_timeout_s"];
    }
}

section! {
    /// One thing that a butler does by itself.
    pub struct ScheduleEntry {
        /// Unique within the butler.
        name: String = rules::FILLED_TEXT, Default::Required;
        /// When: minute, hour, day, month, weekday; seconds may stand in front. Either this, or `every`, or `at`.
        cron: Option<String> = rules::CRON, Default::Unset("\"0 8 * * 1-5\"");
        /// How often, counted from `start_at`, or else from when the entry was first seen; however long a run takes.
        every: Option<HumanDuration> = rules::seconds(1, 366 * 86_400), Default::Unset("\"90m\"");
        /// Once, at this moment; without an offset it is meant in `timezone`.
        at: Option<Moment> = rules::MOMENT, Default::Unset("\"2026-12-24T18:00\"");
        /// `prompt` starts a session, `job` runs a job without a model.
        dispatch_mode: DispatchMode = Kind::OneOf(DispatchMode::NAMES), Default::Is("\"prompt\"");
        /// What the session is told.
        prompt: Option<String> = rules::FILLED_TEXT, Default::Unset("\"Run the weekly-review workflow.\"");
        /// A built-in job, or the name of a file in the butler's `jobs/` without `.sql`.
        job_name: Option<String> = rules::FILLED_TEXT, Default::Unset("\"upcoming_bills\"");
        /// The job's arguments.
        job_args: Option<Json> = Kind::Free, Default::Unset("{ days = 14 }");
        /// The zone in which times are meant; if not set, the owner's.
        timezone: Option<Zone> = rules::ZONE, Default::Unset("\"Europe/Berlin\"");
        /// Not before this moment.
        start_at: Option<Moment> = rules::MOMENT, Default::Unset("\"2026-05-01T00:00\"");
        /// Not after this moment.
        until_at: Option<Moment> = rules::MOMENT, Default::Unset("\"2026-05-31T23:59\"");
        /// Who goes first where several are due: 1 before all else, ordinary messages too, 2 like messages, 3 after them.
        priority: u8 = rules::count(1, 3), Default::Is("3");
        /// Waits until the butler has no session; if it has none until the next time comes, the run is skipped.
        require_idle: bool = Kind::Bool, Default::Is("false");
        /// What becomes of times that passed while butlerd was not there: `skip` leaves them out, `run_once` lets one run
        /// stand for them, `backfill` runs each, at most 24 of them.
        missed: Missed = Kind::OneOf(Missed::NAMES), Default::Is("\"run_once\"");
        /// How far back missed times are made up for.
        missed_window: HumanDuration = rules::seconds(1, 366 * 86_400), Default::Is("\"7d\"");
        /// What becomes of a time that comes while an earlier run is still at work: `skip` leaves it out, `queue` lets it
        /// wait.
        overlap: Overlap = Kind::OneOf(Overlap::NAMES), Default::Is("\"skip\"");
        /// `false` keeps the entry without running it.
        enabled: bool = Kind::Bool, Default::Is("true");
    }
}

section! {
    /// A butler's registration with the switchboard.
    pub struct SwitchboardSection {
        /// Whether messages may be routed to this butler.
        advertise: bool = Kind::Bool, Default::Is("true");
        /// The switchboard's MCP endpoint; if not set, that of this household.
        url: Option<String> = rules::URL, Default::Unset("\"http://127.0.0.1:40100/mcp\"");
        /// How long a registration lasts without a sign of life.
        liveness_ttl: HumanDuration = rules::seconds(1, 86_400), Default::Is("\"5m\"");
        /// The oldest version of the routing contract that the butler understands.
        route_contract_min: u32 = rules::count(1, 1000), Default::Is("1");
        /// The newest.
        route_contract_max: u32 = rules::count(1, 1000), Default::Is("1");
    }
}

section! {
    /// The switchboard's buffer of accepted messages.
    pub struct BufferSection {
        /// How many messages wait in memory; what is beyond waits in the database alone.
        queue_capacity: u32 = rules::count(1, 100_000), Default::Is("100");
        /// How many accepted messages may wait for their end; one more is refused, to be sent again later.
        max_backlog: u32 = rules::count(1, 10_000_000), Default::Is("50000");
        /// How many messages are dispatched at a time.
        worker_count: u32 = rules::count(1, 1000), Default::Is("3");
        /// How often the database is searched for messages that were left.
        scanner_interval: HumanDuration = rules::seconds(1, 86_400), Default::Is("\"30s\"");
        /// How old a message must be before the scanner takes it.
        scanner_grace: HumanDuration = rules::seconds(0, 86_400), Default::Is("\"10s\"");
        /// How many messages one scan takes.
        scanner_batch_size: u32 = rules::count(1, 10_000), Default::Is("50");
    }
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
    /// The port of its `butler.toml`; with `daemon.ports = "auto"` it listens elsewhere.
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
    /// `[[butler.schedule]]`, in the file's order.
    pub schedules: Vec<ScheduleEntry>,
    /// `[butler.switchboard]`; `None` if the butler does not register.
    pub switchboard: Option<SwitchboardSection>,
    /// `[buffer]`: `Some` for the switchboard alone, with defaults where the file has none.
    pub buffer: Option<BufferSection>,
    /// `[modules.<name>]`: each a JSON object.
    pub modules: BTreeMap<String, Json>,
    /// Another one as soon as a file changed that the butler is made of.
    pub digest: String,
}

impl ButlerConfig {
    pub(super) fn new(
        dir: PathBuf,
        file: PathBuf,
        parsed: ButlerFile,
        skills: Vec<Skill>,
        digest: impl FnOnce(&[String]) -> String,
    ) -> Self {
        let ButlerFile { butler, runtime, buffer, modules } = parsed;
        Self {
            digest: digest(&butler.shared_skills),
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
