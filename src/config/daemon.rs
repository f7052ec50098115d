//! The keys of `config/butlerd.toml`.
//!
//! A field's doc comment is the user's documentation: the annotated default file is made of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Deserializer};

use base::{ByteSize, HumanDuration, Money, Secret};

use super::key::{Default, Kind, section};
use super::rules;
use super::values::{Api, LogFormat, Ports, QuietHours, RuntimeKind, SandboxMode, Zone};

const KIB: u64 = 1 << 10;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

section! {
    /// The household's settings.
    pub struct Config {
        /// The daemon as a whole.
        daemon: DaemonConfig = Kind::Table(&DaemonConfig::TABLE), Default::Inner;
        /// The person whom the household serves.
        owner: OwnerConfig = Kind::Table(&OwnerConfig::TABLE), Default::Inner;
        /// PostgreSQL.
        database: DatabaseConfig = Kind::Table(&DatabaseConfig::TABLE), Default::Inner;
        /// The admin port: health, metrics and the command line's calls.
        admin: AdminConfig = Kind::Table(&AdminConfig::TABLE), Default::Inner;
        /// Sessions and the processes that run them.
        spawner: SpawnerConfig = Kind::Table(&SpawnerConfig::TABLE), Default::Inner;
        /// What the daemon tells about itself.
        telemetry: TelemetryConfig = Kind::Table(&TelemetryConfig::TABLE), Default::Inner;
    }
}

section! {
    /// The daemon as a whole.
    pub struct DaemonConfig {
        /// Where the database, the master key and the run-time files are kept. If not set: `$STATE_DIRECTORY` (set by
        /// systemd); for root `/var/lib/butlerd`, because the unprivileged user that PostgreSQL runs as can't enter
        /// root's home; else `$XDG_DATA_HOME/butlerd` or `~/.local/share/butlerd`.
        data_dir: PathBuf = Kind::Path, Default::Unset("\"/srv/butlerd\"");
        /// The directory with one directory for each butler. Relative paths start at the working directory.
        roster: PathBuf = Kind::Path, Default::Is("\"roster\"");
        /// `roster`: each butler listens on the port of its butler.toml. `auto`: on a free one, for demos and tests;
        /// `<data_dir>/run/daemon.json` says which.
        ports: Ports = Kind::OneOf(Ports::NAMES), Default::Is("\"roster\"");
        /// How long the whole household may take to stop before what is left is killed.
        shutdown_timeout: HumanDuration = rules::seconds(1, 3600), Default::Is("\"30s\"");
    }
}

section! {
    /// The person whom the household serves.
    pub struct OwnerConfig {
        /// How butlers address the owner.
        name: Option<String> = rules::FILLED_TEXT, Default::Unset("\"Ada\"");
        /// The zone of schedules, of "today", and of times that people read. If not set: the system's, else UTC.
        time_zone: Zone = rules::ZONE, Default::Unset("\"Europe/Berlin\"");
        /// Who the owner is on each channel. Only messages from these identities carry the owner's trust.
        #[serde(default)]
        identities: BTreeMap<String, String> = Kind::Map(rules::CHANNEL, &rules::FILLED_TEXT),
            Default::Unset("{ telegram = \"123456789\", email = \"ada@example.org\" }");
        /// The channel on which the daemon itself tells the owner that something needs a hand; one of the identities.
        notice_channel: Option<String> = rules::CHANNEL_NAME, Default::Unset("\"telegram\"");
        /// When only urgent messages are delivered, in the owner's time zone.
        quiet_hours: Option<QuietHours> = rules::QUIET_HOURS, Default::Unset("\"22:00-07:00\"");
    }
}

section! {
    /// PostgreSQL. Without `url` butlerd runs a private server under its data directory and stops it with itself.
    pub struct DatabaseConfig {
        /// An external server instead of the private one. Keep a password out of this file: set
        /// `BUTLERD_DATABASE__URL` where only the daemon can read it.
        #[serde(default, deserialize_with = "secret")]
        url: Option<Secret<String>> =
            rules::DATABASE_URL, Default::Unset("\"postgres://butlerd@db.home:5432/butlers\"");
        /// The directory of `postgres` and `initdb` for the private server. If not set: the system's newest from 14
        /// on, else a bundle.
        pg_bin: Option<PathBuf> = Kind::Path, Default::Unset("\"/usr/lib/postgresql/17/bin\"");
        /// A bundle of PostgreSQL's programs on this machine, for where none can be fetched.
        pg_bundle: Option<PathBuf> = Kind::Path, Default::Unset("\"/srv/postgresql-bundle.tgz\"");
        /// How many connections the private server accepts. It accepts more where there are many butlers: three for each, and 20.
        max_connections: u16 = rules::count(10, 10_000), Default::Is("100");
        /// How many connections one butler may hold at a time. Idle ones are given back.
        pool_size: u16 = rules::count(1, 200), Default::Is("8");
    }
}

section! {
    /// The admin port: health, metrics and the command line's calls.
    pub struct AdminConfig {
        /// Address and port. Port 0 takes a free one.
        listen: SocketAddr = rules::LISTEN, Default::Is("\"127.0.0.1:40200\"");
        /// Host names, besides loopback's, under which clients may call this daemon.
        allowed_hosts: Vec<String> = Kind::List(&rules::HOST), Default::Is("[]");
        /// Web origins whose pages may call this daemon from a browser.
        allowed_origins: Vec<String> = Kind::List(&rules::ORIGIN), Default::Is("[]");
        /// The largest request body, here and on butlers' ports.
        max_body: ByteSize = rules::bytes(KIB, GIB), Default::Is("\"4 MiB\"");
    }
}

section! {
    /// Sessions and the processes that run them.
    pub struct SpawnerConfig {
        /// How many sessions run at a time in the whole household; further ones wait in their butler's queue.
        max_sessions: u32 = rules::count(1, 1000), Default::Is("6");
        /// How long a child that was told to end may take before its process group is killed.
        kill_grace: HumanDuration = rules::seconds(0, 600), Default::Is("\"5s\"");
        /// How long a child may stay after its final event.
        final_event_grace: HumanDuration = rules::seconds(0, 600), Default::Is("\"5s\"");
        /// How often a session is started anew that failed because its model or its tools could not be reached, and that
        /// had called no tool. A fallback runtime, where there is one, goes first.
        retries: u32 = rules::count(0, 10), Default::Is("1");
        /// The user that children run as when the daemon is root. If not set, butlerd picks an unprivileged one.
        child_user: Option<String> = rules::USER, Default::Unset("\"butlerd-child\"");
        /// Whether children are shut in by Landlock and seccomp: they read the system's libraries and their own program,
        /// write their workspace, and connect to their butler and their model, and that is all. `auto`: as far as the
        /// kernel can; the log and `butlerd doctor` say what is off. `required`: no session starts where it can't.
        sandbox: SandboxMode = Kind::OneOf(SandboxMode::NAMES), Default::Is("\"auto\"");
        /// Keep the working directory of a failed session, to look at it. It holds what the session wrote.
        keep_workspace_on_failure: bool = Kind::Bool, Default::Is("false");
        /// Children reach their models through a port of the daemon, which adds the key, counts, and stops at limits.
        /// `false` puts the keys in the children's environment instead.
        gateway: bool = Kind::Bool, Default::Is("true");
        /// Limits of each child.
        limits: LimitsConfig = Kind::Table(&LimitsConfig::TABLE), Default::Inner;
        /// Where the models' APIs are.
        endpoints: EndpointsConfig = Kind::Table(&EndpointsConfig::TABLE), Default::Inner;
        /// Where the vendors' command-line programs are.
        clis: ClisConfig = Kind::Table(&ClisConfig::TABLE), Default::Inner;
        /// What sessions may use, in money and in tokens of all kinds together.
        budgets: BudgetsConfig = Kind::Table(&BudgetsConfig::TABLE), Default::Inner;
    }
}

section! {
    /// What sessions may use, in money and in tokens of all kinds together. A limit holds before a session is started
    /// and before each of its model calls: the call that crosses it is the last one. Money is counted by pricing.toml
    /// beside this file. Where a limit of money holds, a model whose price is not known there is refused before its
    /// session starts, because nobody could hold the limit; limit tokens for such a model, or give its price. A day is
    /// the owner's. Without the gateway butlerd counts what the program tells: some tell it only at their end, and are
    /// held to a limit from their next session on.
    pub struct BudgetsConfig {
        /// What one session may cost, where its butler has no limit of its own.
        session_usd: Option<Money> = rules::DOLLARS, Default::Unset("0.50");
        /// How many tokens one session may use, where its butler has no limit of its own.
        session_tokens: Option<u64> = rules::TOKENS, Default::Unset("500000");
        /// What the sessions of one butler may cost in a day, where it has no limit of its own.
        butler_day_usd: Option<Money> = rules::DOLLARS, Default::Unset("2");
        /// How many tokens they may use in a day.
        butler_day_tokens: Option<u64> = rules::TOKENS, Default::Unset("5000000");
        /// What all sessions of one tenant may cost in a day; the owner is a tenant.
        tenant_day_usd: Option<Money> = rules::DOLLARS, Default::Unset("5");
        /// How many tokens they may use in a day.
        tenant_day_tokens: Option<u64> = rules::TOKENS, Default::Unset("20000000");
    }
}

section! {
    /// Limits of each child, set by the kernel.
    pub struct LimitsConfig {
        /// The largest file that a child may write.
        file_size: ByteSize = rules::bytes(KIB, TIB), Default::Is("\"64 MiB\"");
        /// How many files a child may hold open.
        open_files: u64 = rules::count(16, 1_048_576), Default::Is("256");
        /// How many processes and threads a session may have. Without control groups this holds for the children's user as a
        /// whole, with as many times more as sessions may run.
        processes: u64 = rules::count(1, 1_048_576), Default::Is("64");
        /// How much data memory a child may reserve; with control groups, how much memory all processes of a session may use
        /// together. Runtimes of JavaScript reserve far more than they use.
        memory: ByteSize = rules::bytes(16 << 20, TIB), Default::Is("\"4 GiB\"");
        /// The largest core dump. A dump holds a session's token and texts, so none is the default.
        core: ByteSize = rules::bytes(0, TIB), Default::Is("0");
    }
}

section! {
    /// Where the models' APIs are.
    pub struct EndpointsConfig {
        /// The Anthropic Messages API.
        anthropic: String = rules::URL, Default::Is("\"https://api.anthropic.com\"");
        /// The OpenAI API, or a server that speaks its chat completions.
        openai: String = rules::URL, Default::Is("\"https://api.openai.com/v1\"");
        /// The OpenAI API as a ChatGPT subscription reaches it.
        chatgpt: String = rules::URL, Default::Is("\"https://chatgpt.com/backend-api/codex\"");
        /// Where a ChatGPT subscription's login is renewed.
        chatgpt_login: String = rules::URL, Default::Is("\"https://auth.openai.com\"");
        /// The Gemini API.
        gemini: String = rules::URL, Default::Is("\"https://generativelanguage.googleapis.com\"");
    }
}

section! {
    /// Where the vendors' command-line programs are.
    pub struct ClisConfig {
        /// Claude Code. If not set: `claude` on the daemon's PATH.
        claude: Option<PathBuf> = Kind::Path, Default::Unset("\"/usr/local/bin/claude\"");
        /// Codex. If not set: `codex` on the daemon's PATH.
        codex: Option<PathBuf> = Kind::Path, Default::Unset("\"/usr/local/bin/codex\"");
        /// The Gemini CLI, which needs `node` on the daemon's PATH. If not set: `gemini` there.
        gemini: Option<PathBuf> = Kind::Path, Default::Unset("\"/usr/local/bin/gemini\"");
    }
}

section! {
    /// What the daemon tells about itself.
    pub struct TelemetryConfig {
        /// How much is logged: a level, or directives for single parts.
        log: String = rules::LOG_FILTER, Default::Is("\"info\"");
        /// `text` for people, `json` for collectors. `auto` is text: with colours on a terminal, without times in systemd's
        /// journal, which has its own.
        format: LogFormat = Kind::OneOf(LogFormat::NAMES), Default::Is("\"auto\"");
        /// A collector of OpenTelemetry that takes traces over HTTP. They hold arguments and results of tool calls. If
        /// not set, none are made.
        otlp: Option<String> = rules::URL, Default::Unset("\"http://127.0.0.1:4318\"");
    }
}

fn secret<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Secret<String>>, D::Error> {
    Ok(Option::<String>::deserialize(d)?.map(Secret::new))
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
