//! `butlerd --help`: the commands by what people do with them, those of every day first.

use std::fmt::Write as _;

use clap::{Command, CommandFactory};

use super::args::Cli;

/// All commands, in the order in which they are shown.
const GROUPS: [(&str, &[&str]); 6] = [
    (
        "Every day",
        &[
            "open",
            "status",
            "chat",
            "trigger",
            "approvals",
            "inbox",
            "deliveries",
            "schedule",
            "memory",
            "calendar",
            "journal",
            "council",
            "costs",
            "undo",
        ],
    ),
    ("Look closer", &["sessions", "explain", "timeline", "notes", "mcp-servers", "tool"]),
    ("Where you write programs", &["project", "mcp", "hook"]),
    ("People, keys and messages", &["contacts", "rules", "ingest", "secret", "token", "login-link"]),
    ("Set up and change", &["init", "connect", "new", "check", "test", "config", "demo"]),
    (
        "Run and keep",
        &["serve", "reload", "doctor", "upgrade", "backup", "restore", "db", "help", "completions", "man", "version"],
    ),
];

/// What can be typed, with a help page in groups.
pub fn command() -> Command {
    let mut command = Cli::command();
    // It adds `help`.
    command.build();
    let width = command.get_subcommands().map(|c| c.get_name().len()).max().unwrap_or_default();
    let mut groups = String::new();
    for (title, names) in GROUPS {
        let _ = writeln!(groups, "{title}:");
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(groups, "  {name:width$}  {about}");
        }
        groups.push('\n');
    }
    let template = format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}Options:\n{{options}}");
    Cli::command().help_template(template)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_stands_in_one_group() {
        let mut all = Cli::command();
        all.build();
        let mut there: Vec<&str> = all.get_subcommands().filter(|c| !c.is_hide_set()).map(Command::get_name).collect();
        let mut shown: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        there.sort_unstable();
        shown.sort_unstable();
        assert_eq!(shown, there);
        let page = command().render_help().to_string();
        let first = page.find("  status").expect("status");
        assert!(page.find("  serve").is_some_and(|serve| serve > first) && page.contains("--data-dir"), "{page}");
        assert!(!page.contains("agent  "), "{page}");
    }
}
