//! The way to the daemon: its project socket.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use uuid::Uuid;

use crate::place::ProjectPlace;
use crate::wire::{Answer, Request};
use base::local::LocalConnection;

pub use base::local::ConnectionError;

/// The variable that names the socket where it is none of the usual ones.
pub const SOCKET_VARIABLE: &str = "BUTLERD_PROJECT_SOCKET";

/// What the socket is called in each of the usual directories.
const SOCKET: &str = "project.sock";

/// An open connection. After a failure the next question opens another one at the same place.
#[derive(Debug)]
pub struct Connection(LocalConnection);

impl Connection {
    /// Connects to the first of [`candidates`] that somebody listens at. Each question is answered `within` this time,
    /// or lost.
    pub fn open(data_dir: Option<&Path>, within: Duration) -> Result<Self, ConnectionError> {
        Self::open_first(candidates(data_dir), within)
    }

    fn open_first(tried: Vec<PathBuf>, within: Duration) -> Result<Self, ConnectionError> {
        LocalConnection::open_first(tried, within).map(Self)
    }

    /// Asks for one thing. `op` is a tool's name or another operation; `args` an object. Returns its result and the
    /// project that it was done to.
    pub fn ask(&mut self, place: &ProjectPlace, op: &str, args: Value) -> Result<(Uuid, Value), ConnectionError> {
        let request =
            Request { op: op.to_owned(), project: place.identity.clone(), branch: place.branch.clone(), args };
        let line = serde_json::to_vec(&request).map_err(|error| ConnectionError::Foreign(error.to_string()))?;
        let answer = self.0.exchange(line)?;
        match serde_json::from_slice(&answer).map_err(|error| ConnectionError::Foreign(error.to_string()))? {
            Answer::Done { project, result } => Ok((project, result)),
            Answer::Refused(refusal) => Err(ConnectionError::Refused(refusal)),
        }
    }
}

/// The socket at which this user is answered: `named`, where the settings name one, else the first of [`candidates`].
pub fn reachable(data_dir: Option<&Path>, named: Option<&Path>) -> Result<PathBuf, ConnectionError> {
    let tried = named.map_or_else(|| candidates(data_dir), |path| vec![path.to_owned()]);
    Connection::open_first(tried, Duration::ZERO).map(|connection| connection.0.path().to_owned())
}

/// Where a client looks for the socket, in this order.
pub fn candidates(data_dir: Option<&Path>) -> Vec<PathBuf> {
    base::local::candidates(SOCKET_VARIABLE, SOCKET, data_dir)
}

#[cfg(test)]
mod tests;
