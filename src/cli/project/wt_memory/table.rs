//! The commands of `wt-memory`.

use std::fmt::Write as _;

use super::super::WT_MEMORY;
use super::commands as does;
use super::words::Flag::{Switch, Value};
use super::words::{Command, Flag, Words};
use super::{Reply, World, WtError};

/// What a command does.
pub type Run = fn(&dyn World, &Words, &mut Reply) -> Result<(), WtError>;

const fn command(
    names: &'static [&'static str],
    flags: &'static [Flag],
    usage: &'static str,
    about: &'static str,
    run: Run,
) -> (Command, Run) {
    (Command { names, flags, strict: false, usage, about }, run)
}

/// A command that refuses flags it does not know.
const fn strict((command, run): (Command, Run)) -> (Command, Run) {
    (Command { strict: true, ..command }, run)
}

/// All commands, in the order of the help.
static COMMANDS: [(Command, Run); 32] = [
    command(&["health"], &[Switch("--index")], "[--index]", "Say whether memory works", does::health),
    command(
        &["remember"],
        &[Value("--type"), Value("--tags"), Value("--metadata"), Switch("--failure"), Switch("--anomaly")],
        "--type TYPE [--tags a,b] [--metadata JSON] [--failure] [--anomaly] < text",
        "Remember a text; prints its id",
        does::remember,
    ),
    command(
        &["recall"],
        &[
            Value("--limit"),
            Value("--mode"),
            Value("--tags"),
            Switch("--tags-only"),
            Value("--min-importance"),
            Value("--since"),
            Value("--until"),
            Switch("--legacy-order"),
        ],
        "QUERY [--limit N] [--mode M] [--tags a,b [--tags-only]] [--min-importance F] [--since T] [--until T] \
         [--legacy-order]",
        "Search memories (JSON)",
        does::recall,
    ),
    command(&["proactive"], &[Value("--limit")], "TEXT [--limit N]", "What bears on a text (JSON)", does::proactive),
    command(
        &["list"],
        &[Value("--type"), Value("--limit")],
        "[--type T] [--limit N]",
        "List memories (JSON)",
        does::list,
    ),
    command(&["get", "inspect"], &[], "ID", "One memory (JSON)", does::get),
    strict(command(
        &["forget"],
        &[
            Switch("--all"),
            Switch("--confirm"),
            Value("--older-than"),
            Value("--tags"),
            Value("--pattern"),
            Value("--since"),
            Value("--until"),
        ],
        "ID | --all --confirm | --older-than DAYS | --tags a,b | --pattern RE | --since T --until T --confirm",
        "Forget memories",
        does::forget,
    )),
    command(&["context"], &[], "[TOPIC]", "What matters most (JSON)", does::context),
    command(&["brain"], &[], "", "Which memories are in use (JSON)", does::brain),
    command(&["stats"], &[Switch("--json")], "[--json]", "Count memories", does::stats),
    command(&["status"], &[Switch("--json")], "[--json]", "Show the project and its memory", does::status),
    command(&["projects"], &[], "", "List projects with their memories", does::projects),
    command(
        &["audit"],
        &[Value("--threshold"), Switch("--json")],
        "[--threshold F] [--json]",
        "Show duplicates",
        does::audit,
    ),
    command(
        &["dedup"],
        &[Value("--threshold"), Switch("--dry-run"), Switch("--interactive"), Switch("-i")],
        "[--threshold F] [--dry-run]",
        "Make duplicates one",
        does::dedup,
    ),
    command(
        &["cleanup"],
        &[Value("--threshold"), Value("--min-length"), Switch("--dry-run")],
        "[--threshold F] [--min-length N] [--dry-run]",
        "Forget what is short or matters little",
        does::cleanup,
    ),
    command(&["undo"], &[], "[RUN]", "Take back a run of dedup, cleanup or forget", does::undo),
    command(&["export"], &[Value("--output")], "[--output FILE]", "Write all memories (JSON)", does::export),
    strict(command(&["import"], &[Switch("--dry-run")], "FILE [--dry-run]", "Take in an export", does::import)),
    command(
        &["sync"],
        &[Value("--from"), Switch("--force")],
        "[push|pull|status] [--from USER/MACHINE] [--force]",
        "Exchange memories by git",
        does::sync,
    ),
    command(
        &["todo"],
        &[Value("--tags"), Switch("--json"), Switch("--confirm")],
        "add|list|done|clear",
        "What is left to do",
        does::todo,
    ),
    command(
        &["rules"],
        &[Value("--topics")],
        "add --topics a,b TEXT | list | remove ID",
        "What must be said to a topic",
        does::rules,
    ),
    command(
        &["seed"],
        &[Value("--file"), Switch("--dry-run")],
        "[--file FILE] [--dry-run]",
        "Take in memory-seed.yaml",
        does::seed,
    ),
    command(
        &["metrics"],
        &[Value("--since"), Switch("--json"), Switch("--enable"), Switch("--disable")],
        "[--since Nd] [--json]",
        "Count what hooks told",
        does::metrics,
    ),
    command(&["verify"], &[], "", "Whether the index has every memory (JSON)", does::verify),
    command(&["graph-stats"], &[], "", "How memories hang together (JSON)", does::graph_stats),
    command(
        &["consolidation"],
        &[Value("--since"), Switch("--events")],
        "[--since T]",
        "What was done to memories (JSON)",
        does::consolidation,
    ),
    command(&["repair"], &[], "", "Not needed any more", does::not_needed),
    command(&["flush"], &[], "", "Not needed any more", does::not_needed),
    command(&["migrate"], &[Switch("--status")], "[--status]", "Not needed any more", does::migrate),
    command(&["cleanup-logs"], &[], "", "Not needed any more", does::not_needed),
    command(&["tui"], &[], "", "Left out: `butlerd project status`", does::tui),
    command(&["dashboard"], &[], "", "Left out: `butlerd project metrics`", does::dashboard),
];

/// A command by one of its names.
pub fn find(name: &str) -> Option<(&'static Command, Run)> {
    COMMANDS.iter().find(|(command, _)| command.names.contains(&name)).map(|(command, run)| (command, *run))
}

/// The help.
pub fn usage() -> String {
    let mut text = format!(
        "Usage: {WT_MEMORY} [--project NAME] [--no-migrate] COMMAND …\n\nA project's memory, kept by butlerd. The same with \
         more to read: butlerd project --help\n\n"
    );
    for (command, _) in &COMMANDS {
        let names = command.names.join(", ");
        let _ = writeln!(text, "  {names} {}\n      {}", command.usage, command.about);
    }
    text.trim_end().to_owned()
}
