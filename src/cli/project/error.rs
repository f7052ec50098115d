//! Why something was not done to a project's memory, and what helps.

use std::io;
use std::path::PathBuf;

use super::super::local::{meaning, sentence};
use super::super::problem::{FAILED, Problem, USAGE};
use project::connection::ConnectionError;
use project::init::InitError;
use project::place::PlaceError;
use project::record::FormatError;
use project::rules::RulesError;
use project::sync::SyncError;

/// What to do where nobody answers.
const AWAY: &str = "Start it with `butlerd serve`, or see `systemctl status butlerd`. If it runs, `butlerd project init` \
                    sets up project memory, and `butlerd project status` says where the socket was looked for.";

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    #[error("the current directory can't be read: {0}")]
    Directory(#[source] io::Error),
    #[error(transparent)]
    Place(#[from] PlaceError),
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    #[error(transparent)]
    Sync(#[from] SyncError),
    #[error(transparent)]
    Rules(#[from] RulesError),
    #[error(transparent)]
    Init(#[from] InitError),
    #[error("standard input can't be read: {0}")]
    Input(#[source] io::Error),
    #[error("{path} can't be read: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path} can't be written: {source}")]
    Write { path: PathBuf, source: io::Error },
    #[error("{path} is not an export of memories: {source}")]
    Format { path: PathBuf, source: FormatError },
    #[error("the daemon's answer to {op} can't be read: {why}")]
    Answer { op: &'static str, why: String },
    /// What was typed, or given to a tool, makes no sense.
    #[error("{0}")]
    Usage(String),
}

impl ProjectError {
    /// As a sentence of its own.
    pub fn sentence(&self) -> String {
        sentence(self)
    }

    /// Why the daemon was not asked, or not heard.
    fn connection(&self) -> Option<&ConnectionError> {
        fn of_sync(error: &SyncError) -> Option<&ConnectionError> {
            match error {
                SyncError::Daemon(error) => Some(error),
                SyncError::Push { source, .. } => of_sync(source),
                _ => None,
            }
        }
        match self {
            Self::Connection(error) => Some(error),
            Self::Sync(error) => of_sync(error),
            _ => None,
        }
    }

    /// The process's exit code, a stable name, and what to do next; empty where the sentence says it.
    fn meaning(&self) -> (i32, &str, &str) {
        if let Some(error) = self.connection() {
            return meaning(error, AWAY);
        }
        match self {
            Self::Answer { .. } => (FAILED, "foreign_answer", "Run the same version of butlerd as the daemon."),
            Self::Usage(_) => (USAGE, "usage", ""),
            Self::Sync(_) => (FAILED, "sync", ""),
            Self::Rules(_) => (FAILED, "rules", ""),
            Self::Init(_) => (FAILED, "init", ""),
            Self::Place(_) | Self::Directory(_) => {
                (FAILED, "place", "Run this in the project's directory, or name the project with --project NAME.")
            }
            Self::Format { .. } => (FAILED, "format", "Write one with: butlerd project export --output FILE"),
            _ => (FAILED, "file", ""),
        }
    }
}

impl From<ProjectError> for Problem {
    fn from(error: ProjectError) -> Self {
        let (exit, code, next) = error.meaning();
        Self::new(exit, code, error.sentence(), next)
    }
}

impl From<ConnectionError> for Problem {
    fn from(error: ConnectionError) -> Self {
        ProjectError::from(error).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use project::wire::Refusal;

    #[test]
    fn exit_codes_say_whether_the_daemon_was_there() {
        let refused = |code: &str| {
            let (code, message) = (code.to_owned(), "no memory begins with 12".to_owned());
            ConnectionError::Refused(Refusal { code, message })
        };
        let away = || ConnectionError::Away { tried: vec!["/run/x.sock".into()] };
        let lost = || ConnectionError::Lost(io::ErrorKind::TimedOut.into());
        for (error, exit, code) in [
            (ProjectError::from(away()), 3, "not_running"),
            (SyncError::Daemon(away()).into(), 3, "not_running"),
            (lost().into(), 3, "unreachable"),
            (refused("not_found").into(), 1, "not_found"),
            (refused("invalid_arguments").into(), 2, "invalid_arguments"),
            (ProjectError::Usage("x".into()), 2, "usage"),
        ] {
            let problem = Problem::from(error);
            assert_eq!((problem.exit, problem.code.as_str()), (exit, code), "{problem:?}");
        }
        let problem = Problem::from(ProjectError::from(away()));
        assert!(problem.message.contains("/run/x.sock") && problem.next.contains("systemctl status butlerd"));
        assert_eq!(Problem::from(refused("x")).message, "No memory begins with 12.");
    }
}
