//! What can be typed.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use serde::Serialize;
use strum::VariantNames;
use uuid::Uuid;

use super::deliveries::Deliveries;

use config::{Ports, RuntimeKind};

/// Reads one of an enum's names, and tells them all where it is none.
pub(super) fn one_of<T>() -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err = strum::ParseError> + VariantNames + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(T::VARIANTS).try_map(|name| name.parse())
}

/// One process that keeps a household staff of LLM agents. Without a command it serves.
#[derive(Debug, Parser)]
#[command(name = "butlerd", version, disable_help_subcommand = true)]
pub struct Cli {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Flags of every command.
#[derive(Debug, Clone, Default, Args)]
pub struct Common {
    /// The file of settings [default: config/butlerd.toml, if there is one]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Everywhere")]
    pub config: Option<PathBuf>,
    /// The directory with one directory for each butler [default: roster]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Everywhere")]
    pub roster: Option<PathBuf>,
    /// Where the database, the master key and the run-time files are kept
    #[arg(long, global = true, value_name = "DIR", help_heading = "Everywhere")]
    pub data_dir: Option<PathBuf>,
    /// JSON of a stable shape instead of text for people
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub json: bool,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the household until SIGTERM or Ctrl-C
    Serve(ServeArgs),
    /// Begin: settings, butlers and a key, so that you can write to your household a minute later
    Init(super::init::InitArgs),
    /// Make a butler, or a tool of one, as files that work and are yours to change
    #[command(subcommand)]
    New(super::new::New),
    /// Check the settings and the roster, and tell every mistake
    Check(CheckArgs),
    /// Play the scenarios of the roster (`roster/<butler>/tests/`) in a scratch household
    Test(TestArgs),
    /// Look at the settings, the machine and the daemon, and say what to do
    Doctor(PostgresArgs),
    /// Show it all at work, with a scripted model, in a scratch directory
    Demo(DemoArgs),
    /// How the daemon, its butlers and their modules are
    Status,
    /// Take up new, changed and removed butlers of the roster; the others' work goes on
    Reload,
    /// Give a butler something to do and wait for the answer
    Trigger(TriggerArgs),
    /// Talk to the household, or to one butler
    Chat(ChatArgs),
    /// Hand in messages from outside, in the words of ingest.v1
    Ingest {
        /// One envelope, or one on each line; `-` or nothing: standard input
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// What your butlers may only do once you say so
    #[command(subcommand)]
    Approvals(super::approvals::Approvals),
    /// The messages that came in, and what became of them
    #[command(subcommand)]
    Inbox(Inbox),
    /// What was sent, waits to be sent, or failed
    #[command(subcommand)]
    Deliveries(Deliveries),
    /// What was spent, and what the month will come to
    Costs(super::costs::CostsArgs),
    /// What butlers' sessions did and do
    #[command(subcommand)]
    Sessions(Sessions),
    /// What a butler remembers: see it, question it, correct it
    Memory(MemoryArgs),
    /// What butlers noted for their own sessions to come
    #[command(subcommand)]
    Notes(super::notes::Notes),
    /// What butlers do by themselves, and when
    #[command(subcommand)]
    Schedule(super::schedule::Schedule),
    /// All that one id led to, over all butlers: what came, sessions, calls, answers, costs
    Timeline {
        /// Of a session, a request, a trace or a schedule
        #[arg(value_parser = any_id)]
        id: Uuid,
    },
    /// Keys and passwords, kept encrypted in the database
    #[command(subcommand)]
    Secret(Secret),
    /// Tokens for programs that call this household
    #[command(subcommand)]
    Token(Token),
    /// The database, as one butler sees it
    #[command(subcommand)]
    Db(Db),
    /// Write the whole database into one encrypted file, while the daemon runs or not
    Backup(BackupArgs),
    /// Bring a backup back, into an empty place
    Restore(RestoreArgs),
    /// Rules that decide what becomes of a message before any model is asked
    #[command(subcommand)]
    Rules(Rules),
    /// Who writes under which identity, and so is no stranger
    #[command(subcommand)]
    Contacts(Contacts),
    /// Take back what a tool call, or a whole session, changed; without an argument: what can be taken back
    Undo(super::undo::Undo),
    /// Butlers' tools
    #[command(subcommand)]
    Tool(Tool),
    /// Print every setting with its default and its meaning
    Config(super::settings::Settings),
    /// butlerd's own agent; sessions start it
    #[command(hide = true)]
    Agent,
}

/// `check`
#[derive(Debug, Clone, Default, Args)]
pub struct CheckArgs {
    /// Don't try the roster's SQL on a database of its own, which is made for it and thrown away
    #[arg(long)]
    pub offline: bool,
}

/// `test`
#[derive(Debug, Clone, Default, Args)]
pub struct TestArgs {
    /// Only these butlers [default: all]
    #[arg(value_name = "BUTLER")]
    pub butlers: Vec<String>,
    /// Only scenarios whose name has this in it
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
}

/// `serve`
#[derive(Debug, Clone, Default, Args)]
pub struct ServeArgs {
    /// Where butlers' ports come from: `roster` or `auto` (free ones)
    #[arg(long, value_name = "WHICH", value_parser = one_of::<Ports>())]
    pub ports: Option<Ports>,
    /// The admin port's address
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<String>,
    /// How much is logged: a level, or directives for single parts
    #[arg(long, value_name = "FILTER")]
    pub log: Option<String>,
    #[command(flatten)]
    pub postgres: PostgresArgs,
}

/// Which PostgreSQL
#[derive(Debug, Clone, Default, Args)]
pub struct PostgresArgs {
    /// The directory of `postgres` and `initdb`
    #[arg(long, value_name = "DIR")]
    pub pg_bin: Option<PathBuf>,
    /// A bundle of PostgreSQL's programs on this machine, where none can be fetched
    #[arg(long, value_name = "FILE")]
    pub pg_bundle: Option<PathBuf>,
}

/// `demo`
#[derive(Debug, Clone, Args)]
pub struct DemoArgs {
    /// `claude-code`, `codex`, `gemini` or `native` [default: claude-code where it is installed]
    #[arg(long, value_name = "RUNTIME", value_parser = one_of::<RuntimeKind>())]
    pub runtime: Option<RuntimeKind>,
    /// Leave it running until Ctrl-C
    #[arg(long)]
    pub keep: bool,
}

/// `trigger`
#[derive(Debug, Args)]
pub struct TriggerArgs {
    pub butler: String,
    /// What to do, in words; `-` reads it from standard input
    pub prompt: String,
    /// Facts for the session, given to it as data
    #[arg(long, value_name = "JSON", value_parser = json)]
    pub context: Option<serde_json::Value>,
    /// Show what the session does while it does it
    #[arg(long)]
    pub follow: bool,
    /// Show what would run and what it may cost, and start nothing
    #[arg(long, conflicts_with = "follow")]
    pub dry_run: bool,
}

/// `memory`
#[derive(Debug, Args)]
pub struct MemoryArgs {
    /// Whose memory [default: the only butler's that has one]
    #[arg(long, global = true, value_name = "NAME")]
    pub butler: Option<String>,
    #[command(subcommand)]
    pub what: super::memory::Memory,
}

/// `chat`
#[derive(Debug, Args)]
pub struct ChatArgs {
    /// Whom to talk to [default: the switchboard finds out whose each message is]
    pub butler: Option<String>,
    /// The conversation that it belongs to
    #[arg(long, value_name = "NAME", default_value = "main")]
    pub thread: String,
}

/// `inbox`
#[derive(Debug, Subcommand)]
pub enum Inbox {
    /// The newest messages
    List {
        /// Only those of this state
        #[arg(long, value_name = "STATE", value_parser = ["accepted", "processing", "done", "dead"])]
        state: Option<String>,
        /// How many
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=200))]
        limit: u32,
    },
    /// One message with its parts and answers
    Show {
        #[arg(value_parser = request_id)]
        id: Uuid,
    },
    /// Take a dead message up again. What its sessions did before may be done a second time
    Retry {
        #[arg(value_parser = request_id)]
        id: Uuid,
    },
    /// Give a message to another butler
    Reroute {
        #[arg(value_parser = request_id)]
        id: Uuid,
        butler: String,
        /// Only this part of it, by its number
        #[arg(long, value_name = "N")]
        part: Option<i32>,
    },
}

fn request_id(typed: &str) -> Result<Uuid, String> {
    Uuid::parse_str(typed).map_err(|_| format!("`{typed}` is no message's id; see `butlerd inbox list`"))
}

fn json(text: &str) -> Result<serde_json::Value, String> {
    serde_json::from_str(text).map_err(|e| format!("it is no JSON: {e}"))
}

/// `sessions`
#[derive(Debug, Subcommand)]
pub enum Sessions {
    /// The newest sessions
    List {
        /// Only this butler's
        #[arg(long, value_name = "NAME")]
        butler: Option<String>,
        /// How many
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=200))]
        limit: u32,
    },
    /// One session's whole story: prompt, calls with their results, texts, answer
    Show {
        #[arg(value_parser = session_id)]
        id: Uuid,
    },
    /// Follow sessions as they happen: one until its end, or all until Ctrl-C
    Tail {
        #[arg(value_parser = session_id)]
        id: Option<Uuid>,
        /// Only this butler's
        #[arg(long, value_name = "NAME", conflicts_with = "id")]
        butler: Option<String>,
    },
    /// End a session that waits or runs
    Cancel {
        #[arg(value_parser = session_id)]
        id: Uuid,
    },
}

fn session_id(typed: &str) -> Result<Uuid, String> {
    Uuid::parse_str(typed).map_err(|_| format!("`{typed}` is no session id; see `butlerd sessions list`"))
}

fn any_id(typed: &str) -> Result<Uuid, String> {
    let why = "is no id of a session, a request, a trace or a schedule; see `butlerd sessions list`";
    Uuid::parse_str(typed).map_err(|_| format!("`{typed}` {why}"))
}

/// `secret`
#[derive(Debug, Subcommand)]
pub enum Secret {
    /// Store a secret; its value is asked for, or read from standard input
    Set {
        /// Such as ANTHROPIC_API_KEY
        name: String,
        /// Taken only to be refused: a value on a command line is in the shell's history and in every process list.
        #[arg(hide = true)]
        value: Vec<OsString>,
    },
    /// Names of the stored secrets
    List,
    /// Remove a secret
    Rm { name: String },
}

/// `token`
#[derive(Debug, Subcommand)]
pub enum Token {
    /// Make a token; it is shown once
    New {
        /// What it is for, to know it again
        #[arg(long, value_name = "TEXT", default_value = "made on the command line")]
        label: String,
        /// Only for this butler
        #[arg(long, value_name = "NAME")]
        butler: Option<String>,
        /// Whose rows it sees [default: owner]
        #[arg(long, value_name = "TENANT")]
        tenant: Option<String>,
        /// What it is for; may be given more than once
        #[arg(long = "scope", value_name = "SCOPE", default_value = "tools", value_delimiter = ',',
              value_parser = ["tools", "read", "ingest", "admin"])]
        scopes: Vec<String>,
        /// How long it lasts, such as 30d [default: until it is revoked]
        #[arg(long, value_name = "DURATION")]
        expires_in: Option<String>,
    },
    /// The live tokens
    List,
    /// End a token at once
    Revoke { id: Uuid },
}

/// `db`
#[derive(Debug, Subcommand)]
pub enum Db {
    /// Print how to connect as the butler's role, its password included
    Url {
        #[arg(long, value_name = "NAME")]
        butler: String,
    },
    /// Run psql as the butler's role
    Psql {
        #[arg(long, value_name = "NAME")]
        butler: String,
        /// Handed on to psql
        #[arg(last = true)]
        args: Vec<OsString>,
    },
}

/// `backup`
#[derive(Debug, Args)]
pub struct BackupArgs {
    /// Where to; it appears once all of it is on the disk
    pub file: PathBuf,
    /// Replace a file that is there
    #[arg(long)]
    pub force: bool,
    /// The master key, where it is not in the data directory
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// As of the moment that another transaction exported with pg_export_snapshot()
    #[arg(long, value_name = "ID", hide = true)]
    pub snapshot: Option<String>,
    #[command(flatten)]
    pub postgres: PostgresArgs,
}

/// `restore`
#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// What `butlerd backup` wrote
    pub file: PathBuf,
    /// The master key under which it was written; a copy is put into the data directory
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Read all of it, say what is in it, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub postgres: PostgresArgs,
}

/// `rules`
#[derive(Debug, Subcommand)]
pub enum Rules {
    /// The rules, in the order in which they are asked
    List,
    /// Add a rule; the first that fits a message decides
    Add {
        #[command(flatten)]
        rule: NewRule,
        /// Lower ones are asked first [default: after all others]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
        position: Option<u32>,
        /// Why it is there
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// What all rules, one of them, or a new one would have done with the newest messages; changes nothing
    Test {
        /// A rule on record, also one that is off
        #[arg(long, value_name = "RULE")]
        id: Option<Uuid>,
        /// Of a new rule, as for `add`
        #[arg(requires_all = ["pattern", "action"], conflicts_with = "id")]
        kind: Option<String>,
        pattern: Option<String>,
        action: Option<String>,
        butler: Option<String>,
        /// How many messages
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
        last: u32,
    },
    /// Switch a rule on
    Enable { id: Uuid },
    /// Switch a rule off
    Disable { id: Uuid },
    /// Remove a rule
    Rm { id: Uuid },
}

/// What a rule says
#[derive(Debug, Args, Serialize)]
pub struct NewRule {
    /// sender_address, sender_domain, header, substring, chat_id, channel or mime_type
    pub kind: String,
    /// Such as example.org, `List-Id: news`, image/*
    pub pattern: String,
    /// skip, metadata_only, low_priority, route_to or pass
    pub action: String,
    /// Where to, for route_to
    pub butler: Option<String>,
}

/// `contacts`
#[derive(Debug, Subcommand)]
pub enum Contacts {
    /// The people whom the household knows
    List,
    /// Note that somebody writes under this identity
    Add { name: String, channel: String, identity: String },
    /// Forget an identity
    Rm { channel: String, identity: String },
}

/// `tool`
#[derive(Debug, Subcommand)]
pub enum Tool {
    /// A butler's tools
    List { butler: String },
    /// Call a butler's tool
    Call {
        butler: String,
        tool: String,
        /// The arguments as a JSON object; `-` reads it from standard input
        #[arg(default_value = "{}")]
        args: String,
    },
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_definitions_are_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn without_a_command_it_serves() {
        let cli = parse("butlerd --roster /x --data-dir /y").unwrap();
        assert!(cli.command.is_none());
        assert_eq!(cli.common.roster, Some("/x".into()));
        assert!(
            matches!(parse("butlerd serve --ports auto").unwrap().command, Some(Command::Serve(a)) if a.ports == Some(Ports::Auto))
        );
        assert!(parse("butlerd serve --ports some").is_err());
    }

    #[test]
    fn common_flags_stand_anywhere() {
        for line in ["butlerd --json status", "butlerd status --json", "butlerd sessions list --json"] {
            assert!(parse(line).unwrap().common.json, "{line}");
        }
        let cli = parse("butlerd token list --config /c --data-dir /d --roster /r").unwrap();
        assert_eq!(cli.common.config, Some("/c".into()));
    }

    #[test]
    fn scopes_may_be_listed_and_are_known() {
        let scopes = |line: &str| match parse(line).unwrap().command {
            Some(Command::Token(Token::New { scopes, .. })) => scopes,
            other => panic!("{other:?}"),
        };
        assert_eq!(scopes("butlerd token new"), ["tools"]);
        assert_eq!(scopes("butlerd token new --scope read,tools --scope ingest"), ["read", "tools", "ingest"]);
        assert!(parse("butlerd token new --scope root").is_err());
    }

    #[test]
    fn a_value_after_the_secrets_name_is_seen_and_not_a_flag() {
        match parse("butlerd secret set KEY value --json").unwrap() {
            Cli { command: Some(Command::Secret(Secret::Set { name, value })), common } => {
                assert_eq!((name.as_str(), value.len(), common.json), ("KEY", 1, true));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn wrong_usage_is_refused() {
        for line in [
            "butlerd nonsense",
            "butlerd sessions show 12",
            "butlerd sessions list --limit 0",
            "butlerd trigger health hi --context {",
            "butlerd costs --by weather",
            "butlerd costs --days 3 --month",
            "butlerd demo --runtime opencode",
            "butlerd db psql",
            "butlerd rules add channel email",
            "butlerd rules test channel email",
            "butlerd rules rm 12",
            "butlerd contacts add Bea telegram",
        ] {
            assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line}");
        }
        assert_eq!(parse("butlerd --help").unwrap_err().exit_code(), 0);
        let said = parse("butlerd sessions show xyz").unwrap_err().to_string();
        assert!(said.contains("`xyz` is no session id; see `butlerd sessions list`"), "{said}");
    }

    #[test]
    fn a_rule_is_tried_by_id_by_its_words_or_with_all_others() {
        for line in [
            "butlerd rules test",
            "butlerd rules test --last 5 channel email skip",
            "butlerd rules test channel email route_to health",
            "butlerd rules test --id 01890000-0000-7000-8000-000000000000",
            "butlerd rules add channel email skip --position 3 --note why",
        ] {
            assert!(matches!(parse(line).unwrap().command, Some(Command::Rules(_))), "{line}");
        }
    }

    #[test]
    fn psqls_own_arguments_stand_after_two_dashes() {
        match parse("butlerd db psql --butler health -- -c select").unwrap().command {
            Some(Command::Db(Db::Psql { butler, args })) => {
                assert_eq!((butler.as_str(), args.len()), ("health", 2));
            }
            other => panic!("{other:?}"),
        }
    }
}
