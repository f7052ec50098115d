//! What can be typed behind `butlerd project`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};
use serde_json::{Map, Value};

use super::super::common::BadArgument;
use project::init::Assistant;
use project::record::ExperienceType;

/// `hook`
#[derive(Debug, Args)]
pub struct HookArgs {
    /// Such as UserPromptSubmit
    pub event: Option<String>,
}

/// `project`
#[derive(Debug, Args)]
pub struct ProjectArgs {
    /// Another project than the current directory's, by its name
    #[arg(long, global = true, value_name = "NAME")]
    pub project: Option<String>,
    #[command(subcommand)]
    pub what: Project,
}

/// `project`
#[derive(Debug, Subcommand)]
pub enum Project {
    /// Register this project's memory with coding assistants: MCP server, hooks and a section of their instructions
    Init(Register),
    /// Take away what `init` registered
    Remove(Register),
    /// Show whether memory is at work here, what was missed and what is registered
    Status,
    /// Remember something about this project
    Remember(Remember),
    /// Search this project's memories
    Recall(Recall),
    /// Show what bears on a piece of work, and why
    Proactive {
        /// What is being done
        text: String,
        #[command(flatten)]
        most: Most,
    },
    /// List memories, the newest first
    List {
        /// Only of this type: Decision, Learning or Context
        #[arg(long = "type", value_name = "TYPE", value_parser = experience_type)]
        kind: Option<TypeName>,
        /// How many [default: all]
        #[arg(long, value_name = "N")]
        limit: Option<u32>,
    },
    /// Show one memory
    Get {
        /// Its id, or how the id begins
        id: String,
    },
    /// Forget one memory, or all that fit
    Forget(Forget),
    /// Show what matters most
    Context {
        /// Only what is about this
        topic: Option<String>,
    },
    /// Show which memories are in use
    Brain,
    /// Count memories by type, tag and importance
    Stats,
    /// List all projects that have memories
    Projects,
    /// Say whether memories can be read and written
    Health {
        /// Also how many memories are stored, and how many the index holds
        #[arg(long)]
        index: bool,
    },
    /// Show memories that say the same, and change nothing
    Audit(Alike),
    /// Make memories that say the same one; `undo` takes it back
    Dedup(Dedup),
    /// Forget what is too short or matters too little; `undo` takes it back
    Cleanup(Cleanup),
    /// Take back a run of `dedup`, `cleanup` or `forget`
    Undo {
        /// Which run [default: the last one]
        run: Option<String>,
    },
    /// Write all memories as JSON
    Export {
        /// Into this file instead of standard output
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Take in the memories of an export
    Import {
        file: PathBuf,
        /// Only say what would be done
        #[arg(long)]
        dry_run: bool,
    },
    /// Exchange memories with other machines by the project's own git repository
    Sync(SyncArgs),
    /// Manage what is left to do in this project
    #[command(subcommand)]
    Todo(Todo),
    /// Manage what an assistant must be told whenever a topic comes up
    #[command(subcommand)]
    Rules(Rules),
    /// Count what hooks told assistants
    Metrics {
        /// Of so many days, as in 7d [default: 30d]
        #[arg(long, value_name = "DAYS", value_parser = days)]
        since: Option<u32>,
    },
}

/// `project init`, `project remove`
#[derive(Debug, Args)]
pub struct Register {
    /// With this one [default: each that is found]
    #[arg(long = "assistant", value_name = "NAME", value_delimiter = ',', value_parser = assistant)]
    pub assistants: Vec<Assistant>,
    /// Only show what would change
    #[arg(long)]
    pub dry_run: bool,
}

/// How many.
#[derive(Debug, Args)]
pub struct Most {
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=200))]
    pub limit: u32,
}

/// `project remember`
#[derive(Debug, Args)]
pub struct Remember {
    /// What to remember; `-` or nothing: standard input
    pub content: Option<String>,
    /// Decision, Learning or Context
    #[arg(long = "type", value_name = "TYPE", value_parser = experience_type)]
    pub kind: TypeName,
    /// Comma-separated
    #[arg(long, value_name = "TAGS")]
    pub tags: Option<String>,
    /// What else is to be noted, as a JSON object
    #[arg(long, value_name = "JSON", value_parser = metadata)]
    pub metadata: Option<Map<String, Value>>,
    /// It tells of a failure
    #[arg(long)]
    pub failure: bool,
    /// It tells of something unusual
    #[arg(long)]
    pub anomaly: bool,
}

/// `project recall`
#[derive(Debug, Args)]
pub struct Recall {
    /// What is looked for; may be left out with --tags-only, --since or --until
    #[arg(required_unless_present_any = ["tags_only", "since", "until"])]
    pub query: Option<String>,
    #[command(flatten)]
    pub most: Most,
    /// By words and meaning, or by one of them
    #[arg(long, value_parser = ["hybrid", "semantic", "keyword"])]
    pub mode: Option<String>,
    /// Only with one of these tags, comma-separated
    #[arg(long, value_name = "TAGS")]
    pub tags: Option<String>,
    /// By the tags alone
    #[arg(long, requires = "tags")]
    pub tags_only: bool,
    /// Of at least this importance, 0 to 1
    #[arg(long, value_name = "N")]
    pub min_importance: Option<f64>,
    /// Since this moment or day
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Until this moment or day
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// First the branch's, whatever they are worth, as wt-memory had it
    #[arg(long)]
    pub legacy_order: bool,
}

/// `project forget`
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").required(true).multiple(true)
    .args(["id", "all", "older_than", "tags", "pattern", "since", "until"]))]
pub struct Forget {
    /// One, by its id or how the id begins
    #[arg(conflicts_with_all = ["all", "older_than", "tags", "pattern", "since", "until"])]
    pub id: Option<String>,
    /// All of this project
    #[arg(long, requires = "confirm", conflicts_with_all = ["older_than", "tags", "pattern", "since", "until"])]
    pub all: bool,
    /// What is older than so many days
    #[arg(long, value_name = "DAYS", conflicts_with_all = ["tags", "pattern", "since", "until"])]
    pub older_than: Option<u32>,
    /// What has one of these tags, comma-separated
    #[arg(long, value_name = "TAGS", conflicts_with_all = ["pattern", "since", "until"])]
    pub tags: Option<String>,
    /// What this regular expression matches
    #[arg(long, value_name = "REGEX", conflicts_with_all = ["since", "until"])]
    pub pattern: Option<String>,
    /// What is from this moment or day on
    #[arg(long, value_name = "TIME", requires = "confirm")]
    pub since: Option<String>,
    /// What is from before this moment or day
    #[arg(long, value_name = "TIME", requires = "confirm")]
    pub until: Option<String>,
    /// Yes, so many
    #[arg(long)]
    pub confirm: bool,
}

/// `project audit`
#[derive(Debug, Args)]
pub struct Alike {
    /// How alike they must be, 0 to 1
    #[arg(long, value_name = "N", default_value_t = project::tool::DEFAULT_ALIKE)]
    pub threshold: f64,
}

/// `project dedup`
#[derive(Debug, Args)]
pub struct Dedup {
    #[command(flatten)]
    pub alike: Alike,
    /// Only say what would be done
    #[arg(long)]
    pub dry_run: bool,
}

/// `project cleanup`
#[derive(Debug, Args)]
pub struct Cleanup {
    /// The least importance that stays, 0 to 1
    #[arg(long, value_name = "N", default_value_t = project::tool::DEFAULT_LEAST_IMPORTANCE)]
    pub threshold: f64,
    /// The least characters that stay
    #[arg(long, value_name = "N", default_value_t = project::tool::DEFAULT_LEAST_LENGTH)]
    pub min_length: u64,
    /// Only say what would be done
    #[arg(long)]
    pub dry_run: bool,
}

/// `project sync`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SyncArgs {
    /// Push even if fewer memories are here than there, and forget what others forgot even if that is most of it
    #[arg(long)]
    pub force: bool,
    #[command(subcommand)]
    pub what: Option<SyncPart>,
}

/// `project sync …`
#[derive(Debug, Subcommand)]
pub enum SyncPart {
    /// Push this machine's memories
    Push {
        /// Even if fewer are here than there
        #[arg(long)]
        force: bool,
    },
    /// Take in what others have pushed
    Pull {
        /// Only of this one
        #[arg(long, value_name = "USER/MACHINE")]
        from: Option<String>,
        /// Forget what they forgot even if that is more than half of what is here
        #[arg(long)]
        force: bool,
    },
    /// Show when memories were pushed and pulled last, and by whom there are others
    Status,
}

/// `project todo`
#[derive(Debug, Subcommand)]
pub enum Todo {
    /// Note something
    Add {
        /// What is to be done; `-` or nothing: standard input
        content: Option<String>,
        /// Comma-separated
        #[arg(long, value_name = "TAGS")]
        tags: Option<String>,
    },
    /// List what is left to do
    List,
    /// It is done
    Done {
        /// Its id, or how the id begins
        id: String,
    },
    /// Forget all of it
    Clear {
        /// Yes, all
        #[arg(long)]
        confirm: bool,
    },
}

/// `project rules`
#[derive(Debug, Subcommand)]
pub enum Rules {
    /// Add a rule
    Add {
        /// Words or phrases of a prompt, comma-separated
        #[arg(long, value_name = "TOPICS", required = true, value_delimiter = ',')]
        topics: Vec<String>,
        /// What the assistant is told then
        text: String,
    },
    /// List the rules
    List,
    /// Remove a rule
    Remove { id: String },
}

/// A type as it was typed, and what is meant by it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TypeName {
    pub meant: ExperienceType,
    /// An older name that it is taken for.
    pub older: Option<String>,
}

fn experience_type(name: &str) -> Result<TypeName, BadArgument> {
    let unknown = || BadArgument(format!("there is no type `{name}`: Decision, Learning or Context"));
    let (meant, older) = ExperienceType::read(name).ok_or_else(unknown)?;
    Ok(TypeName { meant, older: older.then(|| name.to_owned()) })
}

fn assistant(name: &str) -> Result<Assistant, BadArgument> {
    let all = || Assistant::ALL.map(Assistant::as_str).join(", ");
    Assistant::from_name(name).ok_or_else(|| BadArgument(format!("`{name}` is none of {}", all())))
}

fn metadata(text: &str) -> Result<Map<String, Value>, BadArgument> {
    serde_json::from_str(text).map_err(|e| BadArgument(format!("that is not a JSON object: {e}")))
}

/// `7d` and `7` are seven days.
pub fn days(text: &str) -> Result<u32, BadArgument> {
    let number = text.strip_suffix('d').unwrap_or(text);
    number.parse().map_err(|_| BadArgument(format!("`{text}` is no number of days, as in 7d")))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::super::args::{Cli, Command, ProjectCli, ProjectCommand};
    use super::*;

    /// As the whole command line reads it, which is as the short one does.
    fn parse(line: &str) -> Result<Project, clap::Error> {
        let short = ProjectCli::try_parse_from(line.split(' '));
        let whole = Cli::try_parse_from(line.split(' '));
        assert_eq!(short.is_ok(), whole.is_ok(), "{line}");
        let (Cli { common, command: Some(Command::Project(args)) }, Ok(short)) = (whole?, short) else {
            panic!("{line} is something else")
        };
        let ProjectCommand::Project(same) = short.command;
        assert_eq!(format!("{:?} {same:?}", short.common), format!("{common:?} {args:?}"));
        Ok(args.what)
    }

    #[test]
    fn what_makes_sense_is_taken() {
        for line in [
            "remember --type Decision",
            "remember x --type observation --tags a,b --failure --anomaly --metadata {\"k\":1}",
            "recall q --limit 3 --mode keyword --min-importance 0.5 --legacy-order",
            "recall --tags a --tags-only",
            "recall --since 2026-01-01",
            "forget 12ab",
            "forget --all --confirm",
            "forget --older-than 30",
            "forget --tags a,b",
            "forget --pattern ^wip",
            "forget --since 2026-01-01 --until 2026-02-01 --confirm",
            "sync",
            "sync --force",
            "sync push --force",
            "sync pull --from ada/laptop",
            "sync pull --from ada/laptop --force",
            "todo add x --tags a",
            "todo clear --confirm",
            "rules add --topics a,b text",
            "metrics --since 7d",
            "init --assistant claude,codex --dry-run",
            "list --project api",
            "--json list --data-dir /x --config=y",
        ] {
            assert!(parse(&format!("butlerd project {line}")).is_ok(), "{line}");
        }
    }

    #[test]
    fn what_makes_none_is_refused() {
        for line in [
            "remember x",
            "remember x --type Weather",
            "remember x --type Decision --metadata [1]",
            "recall",
            "recall --tags-only",
            "recall q --mode guess",
            "forget",
            "forget --all",
            "forget --since 2026-01-01",
            "forget 12 --all --confirm",
            "rules add text",
            "metrics --since soon",
            "init --assistant clippy",
        ] {
            assert_eq!(parse(&format!("butlerd project {line}")).unwrap_err().exit_code(), 2, "{line}");
        }
    }
}
