//! The name `wt-memory`: the commands, flags, output and exit codes that its scripts know, over the daemon that has
//! the memories. Exit codes are 0 and 1; what fails says so on standard error and never looks like an empty answer.

mod commands;
mod print;
mod table;
mod words;

use std::ffi::OsString;
use std::io::Write;

use serde_json::Value;

use super::client::{ProjectClient, Sockets};
use super::developer::read_input;
use super::error::ProjectError;
use project::connection::ConnectionError;
use project::place::ProjectPlace;
use project::sync::{SyncError, SyncReport, SyncStatus};
use words::{Words, WordsError};

/// The exit code of whatever went wrong.
const FAILED: i32 = 1;

/// What a command printed, and its exit code.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reply {
    stdout: String,
    stderr: String,
    code: i32,
}

impl Reply {
    fn say(&mut self, line: impl AsRef<str>) {
        self.stdout.push_str(line.as_ref());
        self.stdout.push('\n');
    }

    fn note(&mut self, line: impl AsRef<str>) {
        self.stderr.push_str(line.as_ref());
        self.stderr.push('\n');
    }

    /// Prints JSON.
    fn json(&mut self, value: &Value) {
        self.say(value.to_string());
    }
}

/// What ends a command otherwise than well.
#[derive(Debug, thiserror::Error)]
pub enum WtError {
    #[error(transparent)]
    Words(#[from] WordsError),
    /// What was typed makes no sense, or was not confirmed.
    #[error("{0}")]
    Refused(String),
    // As a part of a line, like all that wt-memory says of failures: scripts look for its words.
    #[error("{}.", .0.to_string().trim_end_matches('.'))]
    Project(#[from] ProjectError),
}

impl From<ConnectionError> for WtError {
    fn from(error: ConnectionError) -> Self {
        Self::Project(error.into())
    }
}

/// What commands need of the world around them.
pub trait World {
    fn ask(&self, op: &str, args: Value) -> Result<Value, ConnectionError>;
    fn place(&self) -> &ProjectPlace;
    /// All of standard input.
    fn input(&self) -> Result<String, ProjectError>;
    fn import(&self, export: project::record::Export, dry_run: bool) -> Result<Value, ProjectError>;
    fn exchange(&self, what: super::developer::Exchange<'_>, force: bool) -> Result<SyncReport, ProjectError>;
    fn sync_status(&self) -> Result<SyncStatus, ProjectError>;
}

impl World for ProjectClient {
    fn ask(&self, op: &str, args: Value) -> Result<Value, ConnectionError> {
        Self::ask(self, op, args)
    }

    fn place(&self) -> &ProjectPlace {
        &self.place
    }

    fn input(&self) -> Result<String, ProjectError> {
        read_input()
    }

    fn import(&self, export: project::record::Export, dry_run: bool) -> Result<Value, ProjectError> {
        super::developer::import(self, export, dry_run)
    }

    fn exchange(&self, what: super::developer::Exchange<'_>, force: bool) -> Result<SyncReport, ProjectError> {
        super::developer::exchange(self, what, force)
    }

    fn sync_status(&self) -> Result<SyncStatus, ProjectError> {
        Ok(project::sync::status(&self.place)?)
    }
}

/// Runs `wt-memory` with these words behind it and returns the exit code.
pub fn main(words: &[OsString]) -> i32 {
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let reply =
        run(&words, |project| ProjectClient::here(Sockets::new(crate::local::data_dir_of_environment()), project));
    // Whoever stopped reading knows why.
    drop(std::io::stderr().lock().write_all(reply.stderr.as_bytes()));
    drop(std::io::stdout().lock().write_all(reply.stdout.as_bytes()));
    reply.code
}

fn run<W: World>(words: &[String], world: impl FnOnce(Option<&str>) -> Result<W, ProjectError>) -> Reply {
    let mut reply = Reply::default();
    if let Err(error) = dispatch(words, world, &mut reply) {
        tell(&error, &mut reply);
    }
    reply
}

fn dispatch<W: World>(
    words: &[String],
    world: impl FnOnce(Option<&str>) -> Result<W, ProjectError>,
    reply: &mut Reply,
) -> Result<(), WtError> {
    let (before, rest) = words::before(words)?;
    let asked = rest.split_first().filter(|(name, _)| !matches!(name.as_str(), "-h" | "--help" | "help"));
    let Some((name, rest)) = asked else {
        reply.say(table::usage());
        return Ok(());
    };
    let Some((command, run)) = table::find(name) else {
        reply.note(format!("Error: Unknown command '{name}'"));
        reply.note(table::usage());
        reply.code = FAILED;
        return Ok(());
    };
    let words = Words::read(command, rest)?;
    run(&world(before.project.as_deref())?, &words, reply)
}

fn tell(error: &WtError, reply: &mut Reply) {
    // What was taken in stays, though not all was done.
    if let WtError::Project(ProjectError::Sync(SyncError::Push { pulled, .. })) = error {
        pulled.lines.iter().for_each(|line| reply.say(line));
    }
    let sentence = error.to_string();
    reply.note(format!("Error: {}", sentence.trim_end()));
    if let WtError::Project(ProjectError::Connection(ConnectionError::Away { .. })) = error {
        reply.note("Start it with `butlerd serve`, or see `systemctl status butlerd`. Nothing was done.");
    }
    reply.code = FAILED;
}

#[cfg(test)]
mod tests;
