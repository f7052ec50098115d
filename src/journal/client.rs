//! The way to the daemon: its journal socket.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::wire::{Answer, Op};
use base::local::{self, ConnectionError, LocalConnection};

/// The variable that names the socket where it is none of the usual ones.
pub const SOCKET_VARIABLE: &str = "BUTLERD_JOURNAL_SOCKET";

/// What the socket is called in each of the usual directories.
pub const SOCKET: &str = "journal.sock";

/// What a butler's socket is called: the general one has the short name, because its journal is the owner's.
pub fn socket_of(butler: &str) -> String {
    if butler == "general" { SOCKET.to_owned() } else { format!("journal-{butler}.sock") }
}

/// An open connection. After a failure the next question opens another one at the same place.
#[derive(Debug)]
pub struct Client(LocalConnection);

impl Client {
    /// Connects to the first of [`candidates`] that somebody listens at. Each question is answered `within` this time,
    /// or lost.
    pub fn open(data_dir: Option<&Path>, butler: Option<&str>, within: Duration) -> Result<Self, ConnectionError> {
        LocalConnection::open_first(candidates(data_dir, butler), within).map(Self)
    }

    /// Asks for one thing. The answer is what [`Op`] says of it.
    pub fn ask<T: DeserializeOwned>(&mut self, op: Op) -> Result<T, ConnectionError> {
        let foreign = |error: serde_json::Error| ConnectionError::Foreign(error.to_string());
        let answer = self.0.exchange(serde_json::to_vec(&op).map_err(foreign)?)?;
        match serde_json::from_slice(&answer).map_err(foreign)? {
            Answer::Done(result) => serde_json::from_value(result).map_err(foreign),
            Answer::Refused(refusal) => Err(ConnectionError::Refused(refusal)),
        }
    }
}

/// Where a client looks for a butler's socket, in this order; `None`: that of general. Where the variable names one, another
/// butler's lies beside it.
pub fn candidates(data_dir: Option<&Path>, butler: Option<&str>) -> Vec<PathBuf> {
    let Some(butler) = butler else { return local::candidates(SOCKET_VARIABLE, SOCKET, data_dir) };
    let name = socket_of(butler);
    let beside = |path: PathBuf| path.parent().map_or_else(|| PathBuf::from(&name), |directory| directory.join(&name));
    local::candidates(SOCKET_VARIABLE, SOCKET, data_dir).into_iter().map(beside).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_butlers_socket_lies_beside_generals() {
        let at = |butler| candidates(Some(Path::new("/data")), butler)[0].clone();
        assert_eq!(at(None), Path::new("/data/run/journal.sock"));
        assert_eq!(at(Some("general")), at(None));
        assert_eq!(at(Some("health")), Path::new("/data/run/journal-health.sock"));
    }
}
