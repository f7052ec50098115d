//! The way from a developer's program to the daemon.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::error::ProjectError;
use project::connection::{Connection, ConnectionError};
use project::place::ProjectPlace;
use project::sync::Daemon;

/// What most questions take at the very most.
const PATIENCE: Duration = Duration::from_secs(30);
/// What may go through all memories takes.
const LONG_PATIENCE: Duration = Duration::from_secs(600);
const LONG: [&str; 7] = ["import_memories", "export_memories", "audit", "dedup", "cleanup", "undo", "forget_matching"];

/// Connections to the daemon, which may be another process by the next question. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Sockets {
    data_dir: Option<PathBuf>,
    idle: Arc<Mutex<Vec<Connection>>>,
}

impl Sockets {
    /// `data_dir`: of the daemon that is meant, where one was named.
    pub fn new(data_dir: Option<PathBuf>) -> Self {
        Self { data_dir, idle: Arc::default() }
    }

    pub fn data_dir(&self) -> Option<&Path> {
        self.data_dir.as_deref()
    }

    /// Asks for one thing. What was not surely left undone is never asked twice.
    fn ask(&self, place: &ProjectPlace, op: &str, args: Value) -> Result<Value, ConnectionError> {
        let long = LONG.contains(&op);
        // It is back only after an answer: what is left in a connection after a failure is nobody's.
        let idle = if long { None } else { self.idle().pop() };
        let mut connection = match idle {
            Some(connection) => connection,
            None => self.open(long)?,
        };
        let asked = match connection.ask(place, op, args.clone()) {
            // It was started anew, at another place perhaps.
            Err(error) if error.is_away() => {
                self.idle().clear();
                connection = self.open(long)?;
                connection.ask(place, op, args)
            }
            asked => asked,
        };
        if !long && matches!(asked, Ok(_) | Err(ConnectionError::Refused(_))) {
            self.idle().push(connection);
        }
        let (project, result) = asked?;
        // It is for a history that is rewritten some day; the answer is good without it.
        drop(place.keep(project));
        Ok(result)
    }

    fn open(&self, long: bool) -> Result<Connection, ConnectionError> {
        Connection::open(self.data_dir(), if long { LONG_PATIENCE } else { PATIENCE })
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A project, and the daemon that has its memories.
#[derive(Clone, Debug)]
pub struct ProjectClient {
    pub place: ProjectPlace,
    pub sockets: Sockets,
}

impl ProjectClient {
    /// The project of the current directory, or the one of this name.
    pub fn here(sockets: Sockets, named: Option<&str>) -> Result<Self, ProjectError> {
        let directory = std::env::current_dir().map_err(ProjectError::Directory)?;
        Self::at(sockets, &directory, named)
    }

    /// The project of a directory, as it is just now: its branch may be another one by the next question.
    pub fn at(sockets: Sockets, directory: &Path, named: Option<&str>) -> Result<Self, ProjectError> {
        Ok(Self { place: ProjectPlace::of(directory, named)?, sockets })
    }

    /// Asks for one thing. Arguments that are null are left out.
    pub fn ask(&self, op: &str, args: Value) -> Result<Value, ConnectionError> {
        let args = match args {
            Value::Object(args) => args.into_iter().filter(|(_, value)| !value.is_null()).collect(),
            other => other,
        };
        self.sockets.ask(&self.place, op, args)
    }
}

impl Daemon for ProjectClient {
    fn ask(&mut self, op: &str, args: Value) -> Result<Value, ConnectionError> {
        Self::ask(self, op, args)
    }
}
