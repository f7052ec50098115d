//! The way to the daemon, and why something was not done.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::super::local::{meaning, sentence};
use super::super::problem::{FAILED, Problem, USAGE};
use super::access::AccessError;
use base::local::ConnectionError;
use journal::client::Client;
use journal::wire::Op;
use project::init::InitError;

/// What looking takes at the very most.
const PATIENCE: Duration = Duration::from_secs(30);
/// What changes the journal takes.
const LONG_PATIENCE: Duration = Duration::from_secs(600);

/// What to do where nobody answers.
const AWAY: &str = "Start it with `butlerd serve`, or see `systemctl status butlerd`. If it runs, switch the journal on: \
                    `[modules.journal]` in a butler's butler.toml.";

/// The daemon that keeps the journal.
#[derive(Debug)]
pub struct JournalClient {
    data_dir: Option<PathBuf>,
    butler: Option<String>,
}

impl JournalClient {
    /// `data_dir`: of the daemon that is meant, where one was named; `butler`: whose journal, where not general's.
    pub fn new(data_dir: Option<PathBuf>, butler: Option<String>) -> Self {
        Self { data_dir, butler }
    }

    pub fn butler(&self) -> Option<&str> {
        self.butler.as_deref()
    }

    pub fn data_dir(&self) -> Option<&Path> {
        self.data_dir.as_deref()
    }

    /// Asks for one thing. The answer is what [`Op`] says of it.
    pub fn ask<T: DeserializeOwned>(&self, op: Op) -> Result<T, JournalError> {
        let looks = matches!(
            op,
            Op::Status
                | Op::SyncStatus
                | Op::Log { .. }
                | Op::Checkpoints { .. }
                | Op::Show { .. }
                | Op::Edits
                | Op::Undo { dry_run: true }
        );
        let within = if looks { PATIENCE } else { LONG_PATIENCE };
        Ok(Client::open(self.data_dir(), self.butler(), within)?.ask(op)?)
    }
}

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    #[error(transparent)]
    Init(#[from] InitError),
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error("{path} can't be read: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error(
        "the environment has neither HOME nor CLAUDE_CONFIG_DIR, so it is not known where Claude Code's settings are"
    )]
    NoHome,
    #[error("{path} has none of the files of a memory")]
    NothingToTake { path: PathBuf },
    #[error("no edit of {file} waits")]
    NoEdit { file: String },
    #[error("nobody can be asked here, because standard input is not a terminal")]
    NobodyToAsk,
}

impl From<JournalError> for Problem {
    fn from(error: JournalError) -> Self {
        let (exit, code, next) = match &error {
            JournalError::Connection(error) => meaning(error, AWAY),
            JournalError::Init(_) => (FAILED, "init", ""),
            JournalError::Access(AccessError::NotRoot) => {
                (USAGE, "usage", "Run it by sudo, or set `group` in [modules.journal] to a group of that user.")
            }
            JournalError::Access(_) => (USAGE, "usage", "Nothing was done. Name a user of this system: --user NAME"),
            JournalError::Read { .. } => (FAILED, "file", ""),
            JournalError::NoHome => {
                (FAILED, "home", "Name the settings: butlerd journal install-hooks --settings FILE")
            }
            JournalError::NothingToTake { .. } => (
                USAGE,
                "usage",
                "Name a directory with core.md, context.md, decisions.md, or identity.md, state.md and others of zylos.",
            ),
            JournalError::NoEdit { .. } => (USAGE, "usage", "See what waits: butlerd journal accept"),
            JournalError::NobodyToAsk => (
                USAGE,
                "usage",
                "`butlerd journal accept` shows what was edited, and `butlerd journal accept --yes` takes it in.",
            ),
        };
        Self::new(exit, code, sentence(&error), next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use journal::wire::Refusal;

    #[test]
    fn exit_codes_say_whether_the_daemon_was_there() {
        let away = ConnectionError::Away { tried: vec!["/run/x.sock".into()] };
        let refused = |code: &str| {
            let (code, message) = (code.to_owned(), "the range has a gap".to_owned());
            ConnectionError::Refused(Refusal { code, message })
        };
        for (error, exit, code) in [
            (away, 3, "not_running"),
            (ConnectionError::Lost(std::io::ErrorKind::TimedOut.into()), 3, "unreachable"),
            (refused("invalid_arguments"), 2, "invalid_arguments"),
            (refused("unavailable"), 1, "unavailable"),
        ] {
            let problem = Problem::from(JournalError::from(error));
            assert_eq!((problem.exit, problem.code.as_str()), (exit, code), "{problem:?}");
        }
        assert_eq!(Problem::from(JournalError::from(refused("x"))).message, "The range has a gap.");
    }
}
