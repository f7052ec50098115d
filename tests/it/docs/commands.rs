//! The commands that pages show.

use clap::Command;
use clap::error::ErrorKind;

use super::pages::{Page, root};

/// Words that stand for something of the reader's.
pub const PLACEHOLDERS: &[&str] = &["ID", "SESSION", "MEMORY", "EVENT", "RULE", "FILE", "NAME", "DIR"];

/// Programs of others. Their commands are read, not run: they want a network, a login, or a machine of their own, or
/// only say where the next command is typed.
const FOREIGN: &[&str] = &[
    "npm",
    "ollama",
    "vllm",
    "llama-server",
    "claude",
    "codex",
    "curl",
    "git",
    "mkdir",
    "cd",
    "cp",
    "systemctl",
    "apt",
    "sha256sum",
];

/// A command of butlerd on a page.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shown {
    /// What stands behind `butlerd`.
    pub words: Vec<String>,
    pub at: String,
}

impl Shown {
    pub fn line(&self) -> String {
        format!("butlerd {}", self.words.join(" "))
    }
}

/// All commands of butlerd in blocks of code. What is wrong with the others goes to `wrong`.
pub fn shown(page: &Page, wrong: &mut Vec<String>) -> Vec<Shown> {
    let mut found = Vec::new();
    for block in &page.blocks {
        let first = block.lines.first().map_or("", |line| line.split_whitespace().next().unwrap_or_default());
        let shell = match block.language.as_deref() {
            Some("sh") => true,
            Some(_) => false,
            None => ["butlerd", "cargo", "just", ".ci/run"].contains(&first) || FOREIGN.contains(&first),
        };
        for (n, line) in block.lines.iter().enumerate().filter(|_| shell) {
            let at = format!("{}:{}", page.path.display(), block.line + n);
            for words in commands(line) {
                match check(&words) {
                    Ok(Some(own)) => found.push(Shown { words: own, at: at.clone() }),
                    Ok(None) => {}
                    Err(why) => wrong.push(format!("{at}: {}: {why}", words.join(" "))),
                }
            }
        }
    }
    found
}

/// The commands of a line, each word by word, without comments and redirections.
fn commands(line: &str) -> Vec<Vec<String>> {
    let (mut all, mut words) = (Vec::new(), Vec::new());
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        if first == '#' {
            break;
        }
        let (mut word, mut quote, mut end) = (String::new(), None, rest.len());
        for (at, c) in rest.char_indices() {
            match quote {
                Some(open) if c == open => quote = None,
                None if c == '"' || c == '\'' => quote = Some(c),
                None if c == ' ' => {
                    end = at;
                    break;
                }
                _ => word.push(c),
            }
        }
        rest = rest[end..].trim_start();
        match word.as_str() {
            "&&" => all.push(std::mem::take(&mut words)),
            // The file behind it is the shell's.
            "<" | ">" => rest = rest.split_once(' ').map_or("", |(_, after)| after).trim_start(),
            _ => words.push(word),
        }
    }
    all.push(words);
    all.retain(|words| !words.is_empty());
    all
}

/// What stands behind `butlerd` where that is what is called; else whether it is a command that there is.
fn check(words: &[String]) -> Result<Option<Vec<String>>, String> {
    // Variables for this command alone.
    let from = words.iter().position(|word| !word.contains('=')).unwrap_or_default();
    let words: Vec<&str> = words[from..].iter().map(String::as_str).collect();
    let own = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect());
    match words.as_slice() {
        ["butlerd", rest @ ..] | ["cargo", "run", "--release", "--", rest @ ..] | ["cargo", "run", "--", rest @ ..] => {
            parse(rest)?;
            Ok(own(rest))
        }
        ["cargo", rest @ ..] => cargo(rest).map(|()| None),
        ["just", recipe, ..] => this_recipe(recipe).map(|()| None),
        [".ci/run"] | [".ci/run", "clients"] => Ok(None),
        [program, ..] if FOREIGN.contains(program) => Ok(None),
        _ => Err("no command that is known here; see tests/it/docs/commands.rs".to_owned()),
    }
}

fn cargo(words: &[&str]) -> Result<(), String> {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).expect("the manifest");
    match words {
        ["test" | "check" | "build" | "clippy", ..] => Ok(()),
        ["install", "--path", ".", "--locked"] => Ok(()),
        ["install", "--path", ".", "--locked", "--features", feature] => {
            match manifest.contains(&format!("\n{feature} = [")) {
                true => Ok(()),
                false => Err(format!("Cargo.toml has no feature {feature}")),
            }
        }
        _ => Err("not a cargo command that is known here".to_owned()),
    }
}

fn this_recipe(name: &str) -> Result<(), String> {
    let recipes = std::fs::read_to_string(root().join("Justfile")).expect("the Justfile");
    let there = recipes.lines().any(|line| {
        let head = line.split(':').next().unwrap_or_default();
        !line.starts_with([' ', '#', '\t']) && line.contains(':') && head.split(' ').next() == Some(name)
    });
    if there { Ok(()) } else { Err(format!("the Justfile has no recipe {name}")) }
}

/// Whether butlerd's command line takes these words.
fn parse(words: &[&str]) -> Result<(), String> {
    for word in words.iter().filter(|word| word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase())) {
        if !PLACEHOLDERS.contains(word) {
            return Err(format!("{word} is no placeholder that the pages use: {}", PLACEHOLDERS.join(", ")));
        }
    }
    if let Some(left_out) = words.iter().find(|word| **word == "…") {
        return Err(format!("{left_out} can't be typed"));
    }
    let filled = words.iter().map(|word| match *word {
        "ID" | "SESSION" | "MEMORY" | "EVENT" | "RULE" => "01890000-0000-7000-8000-000000000000",
        other => other,
    });
    match cli::command().try_get_matches_from(std::iter::once("butlerd").chain(filled)) {
        Ok(_) => Ok(()),
        Err(e) if matches!(e.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => Ok(()),
        Err(e) => Err(e.to_string().lines().next().unwrap_or_default().to_owned()),
    }
}

/// What is wrong with a command that stands in a sentence: its words and flags must be there, its arguments may be left
/// out.
pub fn named(code: &str) -> Option<String> {
    let words = code.strip_prefix("butlerd ")?;
    let mut all = cli::command();
    all.build();
    let mut command: &Command = &all;
    for word in words.split(' ') {
        if let Some(flag) = word.strip_prefix("--") {
            let name = flag.split('=').next().unwrap_or_default();
            let there = |c: &Command| c.get_arguments().any(|a| a.get_long() == Some(name));
            // A tool's own arguments are its own.
            if !there(command) && !there(&all) && command.get_name() != "call" {
                return Some(format!("{} has no --{name}", command.get_name()));
            }
        } else if let Some(next) = command.find_subcommand(word) {
            command = next;
        } else if command.has_subcommands() && command.get_positionals().next().is_none() {
            return Some(format!("`{word}` is no command of {}", command.get_name()));
        }
    }
    None
}
