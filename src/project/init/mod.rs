//! The registration with coding assistants: of project memory (the MCP server, the hooks, and a section of
//! instructions), and of the [`journal`].
//!
//! A run thinks all changes out in memory, then makes all or none: files first, each at one instant, then the calls of
//! Claude Code's program, which keeps its own list. A run that finds everything as it should be changes nothing.

mod assistant;
mod claude;
mod codex;
mod diff;
mod edit;
mod error;
mod files;
mod hooks;
mod instructions;
pub mod journal;
mod journal_command;
mod json;
mod plan;
mod servers;
mod shell;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::PathBuf;

use serde::Serialize;

pub use assistant::Assistant;
pub use error::InitError;
pub use journal_command::JournalCommand;
use plan::Plan;

use crate::place::ProjectPlace;

/// What is registered, with whom, and where the developer's things are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InitOptions {
    /// The absolute path of butlerd.
    pub program: PathBuf,
    /// With whom; empty: with each that is found here, and for [`remove`] and [`status`] with all.
    pub assistants: Vec<Assistant>,
    /// Only says what would change: nothing is written and no program is started.
    pub dry_run: bool,
    /// The developer's home. `.claude.json` is looked for in it, so a `CLAUDE_CONFIG_DIR` is given here instead.
    pub home: PathBuf,
    /// Codex's home; none: `.codex` in [`home`](Self::home).
    pub codex_home: Option<PathBuf>,
    /// Where the assistants' programs are looked for, as `PATH` has it.
    pub path: OsString,
    /// The daemon's socket where it is none of the usual ones. Whatever is registered is told of it.
    pub socket: Option<PathBuf>,
}

/// What was changed, or would be.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct InitReport {
    pub changes: Vec<Change>,
    /// What somebody has to know or do.
    pub notes: Vec<String>,
}

/// One file that changed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Change {
    pub path: PathBuf,
    /// What for.
    pub what: String,
    /// The lines that went, with `-`, and that came, with `+`.
    pub diff: String,
    /// Whether it was made; not in a dry run.
    pub done: bool,
}

/// What an assistant knows of project memory here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Registration {
    pub assistant: Assistant,
    /// Its MCP server is registered, with the same program and socket.
    pub server: bool,
    /// Its hooks are, all of them. Only Claude Code has any.
    pub hooks: bool,
    /// Its file of instructions has the section.
    pub instructions: bool,
}

/// Registers a project's memory. Another run changes nothing.
pub fn init(place: &ProjectPlace, options: &InitOptions) -> Result<InitReport, InitError> {
    Plan::to_register(place, options)?.carry_out()
}

/// Takes away what [`init`] registered. Files that held nothing else go.
pub fn remove(place: &ProjectPlace, options: &InitOptions) -> Result<InitReport, InitError> {
    Plan::to_remove(place, options)?.carry_out()
}

/// What is registered. What can't be read is not.
pub fn status(place: &ProjectPlace, options: &InitOptions) -> Vec<Registration> {
    plan::status(place, options)
}
