//! The keys of `config/butlerd.toml`.
//!
//! A field's doc comment is the user's documentation: the annotated default file is made of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use std::sync::LazyLock;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use base::{ByteSize, HumanDuration, Money, Secret};

use super::runtime::HouseholdRuntime;
use super::schema::{MAX_TOKENS, Table, keys};
use super::values::{Api, LogFormat, Ports, QuietHours, Retention, RuntimeKind, SandboxMode, SyncedContacts, Zone};

const KIB: u64 = 1 << 10;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// The keys of `butlerd.toml`.
pub(super) static CONFIG: LazyLock<Table> = LazyLock::new(Table::of::<Config>);

/// The household's settings.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct Config {
    /// The daemon as a whole.
    pub daemon: DaemonConfig,
    /// The person whom the household serves.
    pub owner: OwnerConfig,
    /// The people whom the owner knows.
    pub people: PeopleConfig,
    /// PostgreSQL. Without `url` butlerd runs a private server under its data directory and stops it with itself.
    pub database: DatabaseConfig,
    /// The admin port: health, metrics and the command line's calls.
    pub admin: AdminConfig,
    /// What runs the sessions of all butlers that don't say otherwise in `[runtime]` and `[butler.runtime] model`. A butler
    /// whose `type` or `api` is another one takes nothing from here that belongs to this one.
    pub runtime: HouseholdRuntime,
    /// Sessions and the processes that run them.
    pub spawner: SpawnerConfig,
    /// What butlers do by themselves, and how often they may.
    pub schedules: SchedulesConfig,
    /// How long is kept what has happened. Each butler takes away what is older, once a day at about four in the morning.
    pub retention: RetentionConfig,
    /// Backups that the daemon makes by itself, as `butlerd backup` does: encrypted under the master key, which is not in
    /// them. Keep a copy of that key elsewhere.
    pub backup: BackupConfig,
    /// What the daemon tells about itself.
    pub telemetry: TelemetryConfig,
}

/// The daemon as a whole.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct DaemonConfig {
    /// Where the database, the master key and the run-time files are kept. If not set: `$STATE_DIRECTORY` (set by
    /// systemd); for root `/var/lib/butlerd`, because the unprivileged user that PostgreSQL runs as can't enter
    /// root's home; else `$XDG_DATA_HOME/butlerd` or `~/.local/share/butlerd`.
    #[schemars(with = "Option<PathBuf>", extend("format" = "path", "examples" = ["/srv/butlerd"]))]
    pub data_dir: PathBuf,
    /// The directory with one directory for each butler. Relative paths start at the working directory.
    #[schemars(extend("format" = "path", "default" = "roster"))]
    pub roster: PathBuf,
    /// `roster`: each butler listens on the port of its butler.toml. `auto`: on a free one, for demos and tests;
    /// `<data_dir>/run/daemon.json` says which.
    #[schemars(extend("default" = "roster"))]
    pub ports: Ports,
    /// Where butlers' ports begin. Another base moves the ports of all butlers by the same number, and with them the admin
    /// port, unless that is set: so a second household fits on one machine.
    #[schemars(range(min = 1024, max = 65000), extend("default" = 40100))]
    pub port_base: u16,
    /// How long the whole household may take to stop before what is left is killed.
    #[schemars(range(min = 1, max = 3600), extend("default" = "30s"))]
    pub shutdown_timeout: HumanDuration,
    /// With less free space than this where `data_dir` is, no work is begun and no message is taken until there is more:
    /// the database needs the rest to stay whole.
    #[schemars(extend("default" = "64 MiB"))]
    pub disk_floor: ByteSize,
}

impl DaemonConfig {
    /// Where the ports of the shipped roster begin.
    const SHIPPED_BASE: u16 = 40100;

    /// A port of the roster, or the admin port's default, where the base puts it; `None`: it is no port there.
    pub fn moved(&self, port: u16) -> Option<u16> {
        let moved = i32::from(port) + i32::from(self.port_base) - i32::from(Self::SHIPPED_BASE);
        u16::try_from(moved).ok().filter(|port| *port > 0)
    }
}

/// The people whom the owner knows: those in the household's contacts.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct PeopleConfig {
    /// Butlers that tell known people what the household knows, without asking the owner, in answer to what those people write.
    #[schemars(extend("items" = {"type": "string", "format": "butler"}, "default" = []))]
    pub known_may_learn: Vec<String>,
    /// How far people are believed whom an address book of `[modules.contacts]` names: as people whom the owner knows, or as
    /// strangers. Never more.
    #[schemars(extend("default" = "known"))]
    pub synced_contacts: SyncedContacts,
}

/// The person whom the household serves.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct OwnerConfig {
    /// How butlers address the owner.
    #[schemars(length(min = 1), extend("examples" = ["Ada"]))]
    pub name: Option<String>,
    /// The zone of schedules, of "today", and of times that people read. If not set: the system's, else UTC.
    #[schemars(with = "Option<Zone>", extend("examples" = ["Europe/Berlin"]))]
    pub time_zone: Zone,
    /// Who the owner is on each channel. Only messages from these identities carry the owner's trust.
    #[serde(default)]
    #[schemars(
        with = "BTreeMap<String, String>",
        extend("additionalProperties" = {"type": "string", "minLength": 1}, "propertyNames" = {"format": "channel"}, "examples" = [{ "telegram": "123456789", "email": "ada@example.org" }])
    )]
    pub identities: BTreeMap<String, String>,
    /// The channel on which the daemon itself tells the owner that something needs a hand; one of the identities.
    #[schemars(extend("format" = "channel", "examples" = ["telegram"]))]
    pub notice_channel: Option<String>,
    /// When only urgent messages are delivered, in the owner's time zone.
    #[schemars(extend("examples" = ["22:00-07:00"]))]
    pub quiet_hours: Option<QuietHours>,
}

/// PostgreSQL.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct DatabaseConfig {
    /// An external server instead of the private one. Keep a password out of this file: set
    /// `BUTLERD_DATABASE__URL` where only the daemon can read it.
    #[serde(default, deserialize_with = "secret")]
    #[schemars(
        with = "Option<String>",
        extend("format" = "database-url", "examples" = ["postgres://butlerd@db.home:5432/butlers"])
    )]
    pub url: Option<Secret<String>>,
    /// The directory of `postgres` and `initdb` for the private server. If not set: the system's newest from 14
    /// on, else a bundle.
    #[schemars(extend("format" = "path", "examples" = ["/usr/lib/postgresql/17/bin"]))]
    pub pg_bin: Option<PathBuf>,
    /// A bundle of PostgreSQL's programs on this machine, for where none can be fetched.
    #[schemars(extend("format" = "path", "examples" = ["/srv/postgresql-bundle.tgz"]))]
    pub pg_bundle: Option<PathBuf>,
    /// How many connections the private server accepts, at least 40. The household keeps 27 for itself, and all butlers
    /// share the rest.
    #[schemars(range(min = 10, max = 10_000), extend("default" = 100))]
    pub max_connections: u16,
    /// How many connections one butler may hold at a time. Idle ones are given back.
    #[schemars(range(min = 1, max = 200), extend("default" = 8))]
    pub pool_size: u16,
}

/// The admin port: health, metrics and the command line's calls.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct AdminConfig {
    /// Address and port. Port 0 takes a free one. If not set, it moves with `daemon.port_base`, and is a free one with
    /// `daemon.ports = "auto"`.
    #[schemars(with = "String", extend("format" = "socket", "default" = "127.0.0.1:40200"))]
    pub listen: SocketAddr,
    /// Host names, besides loopback's, under which clients may call this daemon.
    #[schemars(extend("items" = {"type": "string", "format": "host"}, "default" = []))]
    pub allowed_hosts: Vec<String>,
    /// Web origins whose pages may call this daemon from a browser.
    #[schemars(extend("items" = {"type": "string", "format": "origin"}, "default" = []))]
    pub allowed_origins: Vec<String>,
    /// Where the world reaches `/hooks` of this port, through a proxy of yours that speaks TLS. What needs no token, because it
    /// brings a proof of its own, is also answered under this host; all else is not.
    #[schemars(extend("format" = "url"))]
    pub public_url: Option<String>,
    /// Addresses of proxies of yours, such as "127.0.0.1" or "10.0.0.0/8", that carry the dashboard: through them it is also
    /// answered under the host of `public_url`, and they are believed where they say that a browser came over TLS
    /// (`X-Forwarded-Proto`).
    #[schemars(extend("items" = {"type": "string", "format": "network"}, "default" = []))]
    pub trusted_proxies: Vec<String>,
    /// How long a browser stays signed in to the dashboard.
    #[schemars(range(min = 1, max = 31_536_000), extend("default" = "30d"))]
    pub browser_session: HumanDuration,
    /// The largest request body, here and on butlers' ports.
    #[schemars(range(min = KIB, max = GIB), extend("default" = "4 MiB"))]
    pub max_body: ByteSize,
}

/// Sessions and the processes that run them.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct SpawnerConfig {
    /// How many sessions run at a time in the whole household; further ones wait in their butler's queue.
    #[schemars(range(min = 1, max = 1000), extend("default" = 6))]
    pub max_sessions: u32,
    /// How much the tools that a session is told of may cost its model, in tokens of their names, descriptions and schemas.
    /// Those that fit its prompt best are shown, and it can find and call the others. `0` shows all of them always.
    #[schemars(range(max = 1_000_000), extend("default" = 6000))]
    pub tool_budget: u32,
    /// How long a child that was told to end may take before its process group is killed.
    #[schemars(range(min = 0, max = 600), extend("default" = "5s"))]
    pub kill_grace: HumanDuration,
    /// How long a child may stay after its final event.
    #[schemars(range(min = 0, max = 600), extend("default" = "5s"))]
    pub final_event_grace: HumanDuration,
    /// How often a session is started anew that failed because its model or its tools could not be reached, and that
    /// had called no tool. A fallback runtime, where there is one, goes first.
    #[schemars(range(min = 0, max = 10), extend("default" = 1))]
    pub retries: u32,
    /// The user that children run as when the daemon is root. If not set, each session has a user of its own, with a number
    /// that nothing else on the machine uses. One that other programs run as, such as `nobody`, lets these read the tokens
    /// of sessions.
    #[schemars(extend("format" = "user", "examples" = ["butlerd-child"]))]
    pub child_user: Option<String>,
    /// Whether children are shut in by Landlock and seccomp: they read the system's libraries and their own program,
    /// write their workspace, and connect to their butler and their model, and that is all. `auto`: as far as the
    /// kernel can; the log and `butlerd doctor` say what is off. `required`: no session starts where it can't.
    #[schemars(extend("default" = "auto"))]
    pub sandbox: SandboxMode,
    /// Keep the working directory of a failed session, to look at it. It holds what the session wrote.
    #[schemars(extend("default" = false))]
    pub keep_workspace_on_failure: bool,
    /// Children reach their models through a port of the daemon, which adds the key, counts, and stops at limits.
    /// `false` puts the keys in the children's environment instead.
    #[schemars(extend("default" = true))]
    pub gateway: bool,
    /// Limits of each child, set by the kernel.
    pub limits: LimitsConfig,
    /// Where the models' APIs are.
    pub endpoints: EndpointsConfig,
    /// Where the vendors' command-line programs are.
    pub clis: ClisConfig,
    /// What sessions may use, in money and in tokens of all kinds together. A limit holds before a session is started
    /// and before each of its model calls: the call that crosses it is the last one. Money is counted by pricing.toml
    /// beside this file. Where a limit of money holds, a model whose price is not known there is refused before its
    /// session starts, because nobody could hold the limit; limit tokens for such a model, or give its price. A day is
    /// the owner's. Without the gateway butlerd counts what the program tells: some tell it only at their end, and are
    /// held to a limit from their next session on.
    pub budgets: BudgetsConfig,
}

/// What sessions may use.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct BudgetsConfig {
    /// What one session may cost, where its butler has no limit of its own.
    #[schemars(extend("examples" = ["0.50"]))]
    pub session_usd: Option<Money>,
    /// How many tokens one session may use, where its butler has no limit of its own.
    #[schemars(title = "a number of tokens", range(min = 1, max = MAX_TOKENS), extend("examples" = [500000]))]
    pub session_tokens: Option<u64>,
    /// What the sessions of one butler may cost in a day, where it has no limit of its own.
    #[schemars(extend("examples" = [2]))]
    pub butler_day_usd: Option<Money>,
    /// How many tokens they may use in a day.
    #[schemars(title = "a number of tokens", range(min = 1, max = MAX_TOKENS), extend("examples" = [5000000]))]
    pub butler_day_tokens: Option<u64>,
    /// What all sessions of one tenant may cost in a day; the owner is a tenant.
    #[schemars(extend("examples" = [5]))]
    pub tenant_day_usd: Option<Money>,
    /// How many tokens they may use in a day.
    #[schemars(title = "a number of tokens", range(min = 1, max = MAX_TOKENS), extend("examples" = [20000000]))]
    pub tenant_day_tokens: Option<u64>,
    /// What all sessions together may cost in a day that messages of strangers start. What comes later is refused; it stays
    /// on record, and `butlerd inbox retry` takes it up.
    #[schemars(extend("examples" = [1]))]
    pub stranger_day_usd: Option<Money>,
    /// How many tokens these may use in a day.
    #[schemars(title = "a number of tokens", range(min = 1, max = MAX_TOKENS), extend("examples" = [2000000]))]
    pub stranger_day_tokens: Option<u64>,
}

/// Limits of each child, set by the kernel.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct LimitsConfig {
    /// The largest file that a child may write.
    #[schemars(range(min = KIB, max = TIB), extend("default" = "64 MiB"))]
    pub file_size: ByteSize,
    /// How many files a child may hold open.
    #[schemars(range(min = 16, max = 1_048_576), extend("default" = 256))]
    pub open_files: u64,
    /// How many processes and threads a session may have. Without control groups, and with a `child_user` for all of them,
    /// this holds for that user as a whole, with as many times more as sessions may run.
    #[schemars(range(min = 1, max = 1_048_576), extend("default" = 64))]
    pub processes: u64,
    /// How much data memory a child may reserve; with control groups, how much memory all processes of a session may use
    /// together. Runtimes of JavaScript reserve far more than they use.
    #[schemars(range(min = 16 << 20, max = TIB), extend("default" = "4 GiB"))]
    pub memory: ByteSize,
    /// The largest core dump. A dump holds a session's token and texts, so none is the default.
    #[schemars(range(min = 0, max = TIB), extend("default" = 0))]
    pub core: ByteSize,
}

/// Where the models' APIs are.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct EndpointsConfig {
    /// The Anthropic Messages API.
    #[schemars(extend("format" = "url", "default" = "https://api.anthropic.com"))]
    pub anthropic: String,
    /// The OpenAI API, or a server that speaks its chat completions.
    #[schemars(extend("format" = "url", "default" = "https://api.openai.com/v1"))]
    pub openai: String,
    /// The OpenAI API as a ChatGPT subscription reaches it.
    #[schemars(extend("format" = "url", "default" = "https://chatgpt.com/backend-api/codex"))]
    pub chatgpt: String,
    /// Where a ChatGPT subscription's login is renewed.
    #[schemars(extend("format" = "url", "default" = "https://auth.openai.com"))]
    pub chatgpt_login: String,
    /// The Gemini API.
    #[schemars(extend("format" = "url", "default" = "https://generativelanguage.googleapis.com"))]
    pub gemini: String,
}

/// Where the vendors' command-line programs are.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct ClisConfig {
    /// Claude Code. If not set: `claude` on the daemon's PATH.
    #[schemars(extend("format" = "path", "examples" = ["/usr/local/bin/claude"]))]
    pub claude: Option<PathBuf>,
    /// Codex. If not set: `codex` on the daemon's PATH.
    #[schemars(extend("format" = "path", "examples" = ["/usr/local/bin/codex"]))]
    pub codex: Option<PathBuf>,
    /// The Gemini CLI, which needs `node` on the daemon's PATH. If not set: `gemini` there.
    #[schemars(extend("format" = "path", "examples" = ["/usr/local/bin/gemini"]))]
    pub gemini: Option<PathBuf>,
}

/// What butlers do by themselves.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct SchedulesConfig {
    /// The least time between two runs of a schedule, whoever made it: butler.toml, a tool or the command line. Times that
    /// come closer together are refused. A schedule that was there before runs this often and no more.
    #[schemars(range(min = 1, max = 86_400), extend("default" = "1m"))]
    pub min_interval: HumanDuration,
}

/// How long is kept what has happened: days such as `"90d"`, or `"forever"`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct RetentionConfig {
    /// What sessions did, line by line.
    #[schemars(extend("default" = "90d"))]
    pub transcripts: Retention,
    /// The sessions themselves, with their prompts, results and calls of tools. Their number, tokens and cost are kept for
    /// ever, by day.
    #[schemars(extend("default" = "365d"))]
    pub sessions: Retention,
    /// Which time of a schedule came to what.
    #[schemars(extend("default" = "400d"))]
    pub runs: Retention,
    /// Messages that came in and went out, with what became of them. One that comes a second time, after its first was taken
    /// away, is a new one.
    #[schemars(extend("default" = "forever"))]
    pub messages: Retention,
    /// Files that came with messages, each counted from when it came last. What a message says of its files stays with it.
    #[schemars(extend("default" = "forever"))]
    pub attachments: Retention,
    /// What rows held before tools changed them, for `butlerd undo`.
    #[schemars(extend("default" = "90d"))]
    pub undo: Retention,
}

/// Backups that the daemon makes by itself.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct BackupConfig {
    /// How often one is made; `0s` makes none. The owner is told when the last good one is half as old again.
    #[schemars(range(max = 31_536_000), extend("default" = "1d"))]
    pub every: HumanDuration,
    /// How many are kept. The oldest goes once a newer one was read back whole.
    #[schemars(range(min = 1, max = 10_000), extend("default" = 7))]
    pub keep: u32,
    /// Where they are kept, best on another disk. If not set: `backups` in the data directory.
    #[schemars(extend("format" = "path", "examples" = ["/mnt/nas/butlerd"]))]
    pub dir: Option<PathBuf>,
}

/// What the daemon tells about itself.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct TelemetryConfig {
    /// How much is logged: a level, or directives for single parts.
    #[schemars(extend("format" = "log-filter", "default" = "info"))]
    pub log: String,
    /// `text` for people, `json` for collectors. `auto` is text: with colours on a terminal, without times in systemd's
    /// journal, which has its own.
    #[schemars(extend("default" = "auto"))]
    pub format: LogFormat,
    /// A collector of OpenTelemetry that takes traces over HTTP. They hold arguments and results of tool calls. If
    /// not set, none are made.
    #[schemars(extend("format" = "url", "examples" = ["http://127.0.0.1:4318"]))]
    pub otlp: Option<String>,
}

fn secret<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Secret<String>>, D::Error> {
    Ok(Option::<String>::deserialize(d)?.map(Secret::new))
}

impl SchedulesConfig {
    /// Why times this close together are refused; `None`: they are not.
    pub fn refusal(&self, gap: Duration) -> Option<String> {
        let (least, gap) = (self.min_interval, HumanDuration(gap));
        (gap.0 < least.0)
            .then(|| format!("it comes {gap} after the last time, and [schedules] min_interval is {least}"))
    }
}

impl ClisConfig {
    /// All of them on the daemon's PATH.
    pub const ON_PATH: Self = Self { claude: None, codex: None, gemini: None };
}

impl EndpointsConfig {
    /// The address that a runtime asks; `api` is what the native one speaks.
    pub fn of(&self, runtime: RuntimeKind, api: Api) -> &str {
        match (runtime, api) {
            (RuntimeKind::Gemini, _) => &self.gemini,
            (RuntimeKind::Codex, _) | (RuntimeKind::Native, Api::Openai) => &self.openai,
            (RuntimeKind::ClaudeCode, _) | (RuntimeKind::Native, Api::Anthropic) => &self.anthropic,
        }
    }

    /// Whether this address is a server of the owner's own, and not the vendor's: such a server may need no key.
    pub fn is_own(url: &str) -> bool {
        let vendors =
            ["https://api.anthropic.com", "https://api.openai.com/v1", "https://generativelanguage.googleapis.com"];
        !vendors.contains(&url.trim_end_matches('/'))
    }
}
