//! What can be typed.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use super::common::{Id, PostgresArgs};

/// One process that keeps a household staff of LLM agents. Without a command it serves.
#[derive(Debug, Parser)]
#[command(name = "butlerd", version)]
pub struct Cli {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Flags of every command.
#[derive(Debug, Clone, Default, Args)]
pub struct Common {
    /// The settings file [default: config/butlerd.toml, if it exists]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Everywhere")]
    pub config: Option<PathBuf>,
    /// Directory with one directory for each butler [default: roster]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Everywhere")]
    pub roster: Option<PathBuf>,
    /// Directory of the database, the master key and the run-time files
    #[arg(long, global = true, value_name = "DIR", help_heading = "Everywhere")]
    pub data_dir: Option<PathBuf>,
    /// JSON of a stable shape instead of text for people
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub json: bool,
}

/// The same command line with no command but `project`, because all of them take longer to make than its answers to
/// come. What it can't read is read by [`Cli`], which knows everything.
#[derive(Debug, Parser)]
#[command(name = "butlerd", version)]
pub struct ProjectCli {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub command: ProjectCommand,
}

/// The one command of [`ProjectCli`], as in [`Command`].
#[derive(Debug, Subcommand)]
pub enum ProjectCommand {
    Project(super::project::ProjectArgs),
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Open the dashboard in a browser, signed in
    Open(super::open::OpenArgs),
    /// Make a link that signs another device in to the dashboard, once
    LoginLink(super::open::LinkArgs),
    /// Run the household until SIGTERM or Ctrl-C
    Serve(super::serve::ServeArgs),
    /// Set up a household: settings, butlers and a model's key
    Init(super::init::InitArgs),
    /// Make a butler, or a tool of one, as files that work and that you can change
    #[command(subcommand)]
    New(super::new::New),
    /// Connect a channel on which people reach the household
    #[command(subcommand)]
    Connect(super::connect::Connect),
    /// Check the settings and the roster, and list every mistake
    Check(super::check::CheckArgs),
    /// Play the scenarios of the roster (`roster/<butler>/tests/`) in a scratch household
    Test(super::test::TestArgs),
    /// Examine the settings, the machine and the daemon, and say what to do
    Doctor(PostgresArgs),
    /// Show everything at work, with a scripted model, in a scratch directory
    Demo(super::serve::DemoArgs),
    /// Show how the daemon, its butlers and their modules are
    Status,
    /// Take up new, changed and removed butlers of the roster; the others' work goes on
    Reload,
    /// Give a butler something to do and wait for the answer
    Trigger(super::trigger::TriggerArgs),
    /// Talk to the household, or to one butler
    Chat(super::chat::ChatArgs),
    /// Hand in messages from outside, as ingest.v1 envelopes
    Ingest {
        /// One envelope, or one on each line; `-` or nothing: standard input
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// See and decide what your butlers may do only with your consent
    Approvals(super::approvals::ApprovalsArgs),
    /// See the messages that came in and what became of them
    #[command(subcommand)]
    Inbox(super::inbox::Inbox),
    /// See what was sent, waits to be sent, or failed
    #[command(subcommand)]
    Deliveries(super::deliveries::Deliveries),
    /// Show what was spent, and what the month will come to
    Costs(super::costs::CostsArgs),
    /// Keep and find what a coding assistant should know of the project in this directory
    Project(super::project::ProjectArgs),
    /// Serve this project's memory to a coding assistant, as an MCP server over standard input and output
    Mcp,
    /// Tell a coding assistant what bears on its work; its hooks run this
    Hook(super::project::HookArgs),
    /// See what butlers' sessions do and did
    #[command(subcommand)]
    Sessions(super::session::Sessions),
    /// Say how a session came to its answer: what it was told, the tools it was shown and why, its calls, its cost
    ///
    /// The same as `butlerd sessions show`.
    Explain {
        /// Of a session
        id: Id,
    },
    /// See, question and correct what a butler remembers
    Memory(super::memory::MemoryArgs),
    /// Keep the journal: core memory, the day's log, and what was said since the last checkpoint
    Journal(super::journal::JournalArgs),
    /// See and fill the calendars of a butler, and make them and their servers equal
    Calendar(super::calendar::CalendarArgs),
    /// Have several models deliberate on a question
    Council(super::council::CouncilArgs),
    /// Manage what butlers noted for their own later sessions
    #[command(subcommand)]
    Notes(super::notes::Notes),
    /// Manage what butlers do by themselves, and when
    #[command(subcommand)]
    Schedule(super::schedule::Schedule),
    /// Show all that one id led to, over all butlers: messages, sessions, calls, answers, costs
    Timeline {
        /// Of a session, a request, a trace or a schedule
        id: Id,
    },
    /// Manage keys and passwords, kept encrypted in the database
    #[command(subcommand)]
    Secret(super::secret::Secret),
    /// Manage tokens for programs that call this household
    #[command(subcommand)]
    Token(super::token::Token),
    /// Connect to the database as one butler sees it
    #[command(subcommand)]
    Db(super::db::Db),
    /// Say what a start of this program would do to the database, and whether anything stands in its way
    Upgrade(super::upgrade::UpgradeArgs),
    /// Write the whole database into one encrypted file, whether the daemon runs or not
    Backup(super::backup::BackupArgs),
    /// Restore a backup into an empty place
    Restore(super::backup::RestoreArgs),
    /// Manage the rules that decide on a message before a model is asked
    #[command(subcommand)]
    Rules(super::switchboard::Rules),
    /// Manage contacts and their identities
    #[command(subcommand)]
    Contacts(super::switchboard::Contacts),
    /// Take back what a tool call, or a whole session, changed; without an argument, list what can be taken back
    Undo(super::undo::Undo),
    /// See MCP servers of others, and agree to what their tools have become
    #[command(subcommand)]
    McpServers(super::mcp_servers::McpServers),
    /// List and call butlers' tools
    #[command(subcommand)]
    Tool(super::tool::Tool),
    /// Print every setting with its default and its meaning
    Config(super::settings::Settings),
    /// Print what completes commands in a shell: bash, zsh, fish and others
    Completions(super::manual::CompletionsArgs),
    /// Print the manual page, or write one for each command
    Man(super::manual::ManArgs),
    /// Print the version
    Version,
    /// butlerd's own agent; sessions start it
    #[command(hide = true)]
    Agent,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use config::Ports;

    use crate::db::Db;
    use crate::secret::Secret;
    use crate::token::Token;

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
        assert!(said.contains("`xyz` is not an id, nor the first four or more digits of one"), "{said}");
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
