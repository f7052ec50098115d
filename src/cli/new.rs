//! `butlerd new`

use clap::Subcommand;

use super::out::Tone;
use super::problem::{FAILED, Problem, USAGE};
use super::{CommandContext, Outcome};
use setup::{SetupError, new_butler, new_tool};

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
        let (exit, code) = if error.usage { (USAGE, "usage") } else { (FAILED, "setup") };
        Problem::new(exit, code, error.sentence, error.next)
    }
}

pub fn run(context: &CommandContext, what: New) -> Outcome {
    let out = context.out;
    match what {
        New::Butler { name } => {
            let made = new_butler(&context.overrides, &context.environment, &name)?;
            if out.json {
                out.value(&made);
                return Ok(0);
            }
            let place = made.dir.display();
            out.line(&format!("{} {place}, on port {}:", out.paint(Tone::Good, "Made:"), made.port));
            made.files.iter().for_each(|file| out.line(&format!("  {}", file.display())));
            out.line("");
            out.line(&format!(
                "It works as it is. Make it yours, then: butlerd check · butlerd test {name} · butlerd reload"
            ));
        }
        New::Tool { butler, name } => {
            let made = new_tool(&context.overrides, &context.environment, &butler, &name)?;
            if out.json {
                out.value(&made);
                return Ok(0);
            }
            out.line(&out.paint(Tone::Good, "Made:"));
            made.files.iter().for_each(|file| out.line(&format!("  {}", file.display())));
            out.line("");
            let table = &made.table;
            out.line(&format!(
                "It counts the rows of {table}. Make it yours, then: butlerd test {butler} · butlerd reload"
            ));
        }
    }
    Ok(0)
}
