//! `butlerd new`

use clap::Subcommand;

use super::out::Tone;
use super::problem::{FAILED, Problem, USAGE};
use super::{Outcome, Place};
use offline::setup::{SetupError, new_butler, new_tool};

/// `new`
#[derive(Debug, Clone, Subcommand)]
pub enum New {
    /// A butler with one table, tool, skill, schedule and file of tests
    Butler { name: String },
    /// A tool of a butler: SQL with its header, and tests
    Tool { butler: String, name: String },
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
        New::Tool { butler, name } => out.answer(&new_tool(overrides, environment, &butler, &name)?, |out, made| {
            out.toned(Tone::Good, "Made:");
            made.files.iter().for_each(|file| out.line(&format!("  {}", file.display())));
            let table = &made.table;
            out.line(&format!(
                "\nIt counts the rows of {table}. Make it yours, then: butlerd test {butler} · butlerd reload"
            ));
        }),
    }
}
