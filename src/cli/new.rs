//! `butlerd new`

use std::path::PathBuf;

use clap::Subcommand;
use clap::builder::PossibleValuesParser;

use super::out::Tone;
use super::problem::{FAILED, Problem, USAGE};
use super::{Outcome, Place};
use offline::setup::{SetupError, add_ready, new_butler, new_tool, ready_names};

/// `new`
#[derive(Debug, Clone, Subcommand)]
pub enum New {
    /// A butler with one table, tool, skill, schedule and file of tests
    Butler { name: String },
    /// A tool of a butler: SQL with its header, and tests
    Tool {
        butler: String,
        name: String,
        /// One that asks a web service
        #[arg(long)]
        http: bool,
    },
    /// Give a butler tools of others that are ready: web search, web pages, Home Assistant, GitHub, files of a directory
    Mcp {
        butler: String,
        #[arg(value_parser = PossibleValuesParser::new(ready_names()))]
        what: String,
        /// For `files`: the directory that the butler reads
        #[arg(long)]
        dir: Option<PathBuf>,
    },
}

impl From<SetupError> for Problem {
    fn from(error: SetupError) -> Self {
        let (exit, code) = match error {
            SetupError::Daemon(e) => return e.into(),
            SetupError::Request { .. } => (USAGE, "usage"),
            SetupError::Failed { .. } => (FAILED, "setup"),
        };
        Problem::new(exit, code, error.to_string(), error.next())
    }
}

pub fn run(place: &Place, what: New) -> Outcome {
    let (overrides, environment, out) = (&place.overrides, &place.environment, &place.out);
    match what {
        New::Butler { name } => out.answer(&new_butler(overrides, environment, &name)?, |out, made| {
            out.line(&format!("{} {}, on port {}:", out.paint(Tone::Good, "Made:"), made.dir.display(), made.port));
            made.files.iter().for_each(|file| out.line(&format!("  {}", file.display())));
            out.line(&format!(
                "\nIt works as it is. Make it yours, then: butlerd check · butlerd test {name} · butlerd reload"
            ));
        }),
        New::Tool { butler, name, http } => {
            out.answer(&new_tool(overrides, environment, &butler, &name, http)?, |out, made| {
                out.toned(Tone::Good, "Made:");
                made.files.iter().for_each(|file| out.line(&format!("  {}", file.display())));
                let does = match &made.table {
                    Some(table) => format!("It counts the rows of {table}"),
                    None => "It asks for the weather, and is answered with a recording in tests".to_owned(),
                };
                out.line(&format!("\n{does}. Make it yours, then: butlerd test {butler} · butlerd reload"));
            })
        }
        New::Mcp { butler, what, dir } => {
            out.answer(&add_ready(overrides, environment, &butler, &what, dir.as_deref())?, |out, added| {
                out.toned(Tone::Good, "Added:");
                out.line(&format!("  {}, {}", added.what, added.file.display()));
                out.line(&format!("\nNext: {}, then butlerd reload", added.next));
            })
        }
    }
}
