//! The pages that are made from the code. `just docs` makes them anew.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::{Arg, Command};
use modules::Catalog;
use serde_json::{Value, json};

use super::pages::root;
use crate::support::Daemon;

/// Whether what is there shall be replaced by what the code says.
pub fn blessing() -> bool {
    std::env::var_os("BLESS").is_some()
}

fn hold(file: &str, made: &str) {
    let path = root().join(file);
    if blessing() {
        std::fs::write(&path, made).expect("the page is written");
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = there.lines().zip(made.lines()).find(|(a, b)| a != b);
    assert!(there == made, "{file} is not what the code says: run `just docs`. First difference: {differs:?}");
}

#[test]
fn the_page_of_settings_is_of_this_code() {
    hold("docs/reference/settings.md", &config::settings_page(Catalog::default().sections()));
}

#[test]
fn the_page_of_commands_is_of_this_code() {
    let mut all = cli::command();
    all.build();
    let mut page = "# Commands\n\nMade from the code by `just docs`. `butlerd help chat` prints what stands here of `chat`.\n\nExit codes: 0 done, 1 refused \
                    or failed, 2 wrong usage or configuration, 3 the daemon can't be reached.\n\n## Flags of every command\n"
        .to_owned();
    arguments(&all, true, &mut page);
    for command in all.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help") {
        section(command, 2, &mut page);
    }
    hold("docs/reference/commands.md", &page);
}

fn section(command: &Command, depth: usize, page: &mut String) {
    let name = command.get_bin_name().unwrap_or_default().to_owned();
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let _ = writeln!(page, "\n{} `{name}`\n\n{about}.", "#".repeat(depth));
    let below: Vec<&Command> =
        command.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help").collect();
    if below.is_empty() {
        let usage = command.clone().render_usage().to_string();
        let _ = writeln!(page, "\n```text\n{}\n```", usage.trim_start_matches("Usage: "));
    }
    arguments(command, false, page);
    below.iter().for_each(|command| section(command, depth + 1, page));
}

/// A table of what stands behind a command; `everywhere`: of the flags that all commands have.
fn arguments(command: &Command, everywhere: bool, page: &mut String) {
    let own = |arg: &&Arg| {
        !arg.is_hide_set() && arg.is_global_set() == everywhere && !["help", "version"].contains(&arg.get_id().as_str())
    };
    let all: Vec<&Arg> = command.get_arguments().filter(own).collect();
    if all.is_empty() {
        return;
    }
    page.push_str("\n| | |\n|---|---|\n");
    for arg in all {
        let values = arg.get_value_names().map(|names| names.join(" ")).filter(|_| arg.get_action().takes_values());
        let head = match (arg.get_long(), values) {
            (Some(long), Some(value)) => format!("--{long} {value}"),
            (Some(long), None) => format!("--{long}"),
            (None, value) => value.unwrap_or_default(),
        };
        let mut text = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let possible: Vec<String> = arg.get_possible_values().iter().map(|v| format!("`{}`", v.get_name())).collect();
        if arg.get_action().takes_values() && !possible.is_empty() {
            let _ = write!(text, " ({})", possible.join(", "));
        }
        let defaults: Vec<String> = arg.get_default_values().iter().map(|v| v.to_string_lossy().into_owned()).collect();
        if arg.get_action().takes_values() && !defaults.is_empty() {
            let _ = write!(text, " [default: {}]", defaults.join(", "));
        }
        let _ = writeln!(page, "| `{}` | {} |", cell(&head), cell(&text));
    }
}

fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|").replace('<', "&lt;")
}

/// The page of tools: those of a household that runs the shipped roster, by who has them.
pub async fn tools(daemon: &Daemon) {
    let status = daemon.status().await;
    let butlers: Vec<&str> =
        status["butlers"].as_array().expect("butlers").iter().filter_map(|b| b["name"].as_str()).collect();
    // A tool by all that is told of it, and who has it.
    let mut owners: BTreeMap<(String, String), (Value, Vec<&str>)> = BTreeMap::new();
    for butler in &butlers {
        let list = daemon.rpc("tool_list", json!({"butler": butler})).await;
        for tool in list.as_array().expect("tools") {
            let key = (tool["name"].as_str().expect("a name").to_owned(), tool.to_string());
            owners.entry(key).or_insert_with(|| (tool.clone(), Vec::new())).1.push(butler);
        }
    }
    let mut groups: BTreeMap<(usize, Vec<&str>), Vec<Value>> = BTreeMap::new();
    for (tool, who) in owners.into_values() {
        groups.entry((butlers.len() - who.len(), who)).or_default().push(tool);
    }
    let mut page = "# Tools\n\nMade from a running household by `just docs`. `butlerd tool show BUTLER TOOL` explains each argument. An \
                    argument with `?` may be left out. The effect says what a call may change: `none`, `idempotent` (twice is like once) \
                    or `once`.\n"
        .to_owned();
    for ((missing, who), tools) in groups {
        let title = match (missing, who.as_slice()) {
            (0, _) => "Every butler".to_owned(),
            (_, [only]) => (*only).to_owned(),
            (_, several) => several.join(", "),
        };
        let _ = writeln!(page, "\n## {title}\n\n| tool | arguments | effect | what it does |\n|---|---|---|---|");
        for tool in tools {
            let text = |key: &str| cell(tool[key].as_str().unwrap_or_default());
            let schema = &tool["input_schema"];
            let needed = |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|n| n == name));
            let properties = schema["properties"].as_object();
            let names = properties
                .into_iter()
                .flatten()
                .map(|(name, _)| format!("`{name}{}`", if needed(name) { "" } else { "?" }));
            let names = names.collect::<Vec<_>>().join(" ");
            let _ = writeln!(page, "| `{}` | {names} | {} | {} |", text("name"), text("effect"), text("description"));
        }
    }
    hold("docs/reference/tools.md", &page);
}
