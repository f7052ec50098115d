//! What commands share that ask the daemon over a local socket: which daemon is meant, and why it did nothing.

use std::path::{Path, PathBuf};

use super::problem::{FAILED, Problem, UNREACHABLE, USAGE, refused};
use super::{Outcome, Place, text};
use base::local::ConnectionError;
use config::load_config;

/// The data directory of the daemon that is meant, where one was named. A settings file counts only then: the one that
/// lies in the current directory is whatever a repository holds.
pub fn data_dir(place: &Place) -> Result<Option<PathBuf>, Problem> {
    match (&place.overrides.data_dir, &place.overrides.config_file) {
        (Some(directory), _) => Ok(Some(directory.clone())),
        (None, Some(_)) => Ok(Some(load_config(&place.overrides, &place.environment)?.daemon.data_dir)),
        (None, None) => Ok(data_dir_of_environment()),
    }
}

/// The data directory that the environment names, as it does for the daemon.
pub fn data_dir_of_environment() -> Option<PathBuf> {
    variable("BUTLERD_DAEMON__DATA_DIR").map(PathBuf::from)
}

/// A variable that is set and not empty.
pub fn variable(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The socket that was named, by its own variable or by a data directory: programs that are registered are told of it.
/// `candidates` is where a client with that data directory looks.
pub fn named_socket(
    socket_variable: &str,
    data_dir: Option<&Path>,
    candidates: impl FnOnce(Option<&Path>) -> Vec<PathBuf>,
) -> Option<PathBuf> {
    let named = variable(socket_variable).map(PathBuf::from);
    let socket = named.or_else(|| first_there(candidates(Some(data_dir?))));
    socket.map(|path| std::path::absolute(&path).unwrap_or(path))
}

/// Of the places where a client looks for a socket, the first where there is one; as long as there is none, the first.
pub fn first_there(candidates: Vec<PathBuf>) -> Option<PathBuf> {
    let there = candidates.iter().position(|path| path.exists());
    candidates.into_iter().nth(there.unwrap_or_default())
}

/// An error as a sentence of its own. A file name at its beginning stays as it is.
pub fn sentence(error: &dyn std::fmt::Display) -> String {
    let said = format!("{}.", error.to_string().trim_end_matches('.'));
    // The program's name is written small.
    if said.starts_with("butlerd") { said } else { text::sentence(&said) }
}

/// The process's exit code, a stable name, and what to do next; empty where the sentence says it. `away` is what to do
/// where nobody answers.
pub fn meaning<'a>(error: &'a ConnectionError, away: &'a str) -> (i32, &'a str, &'a str) {
    match error {
        ConnectionError::Away { .. } => (UNREACHABLE, "not_running", away),
        ConnectionError::Closed { .. } => (
            FAILED,
            "forbidden",
            "Run this as the user that butlerd runs as, or join the socket's group. `butlerd doctor` says more.",
        ),
        ConnectionError::Lost(_) => (
            UNREACHABLE,
            "unreachable",
            "It may have been done: look before you try again. The daemon's log or `systemctl status butlerd` says \
             more.",
        ),
        ConnectionError::Foreign(_) => (FAILED, "foreign_answer", "Run the same version of butlerd as the daemon."),
        ConnectionError::Refused(refusal) => (refused(&refusal.code), refusal.code.as_str(), ""),
    }
}

/// Ends a command that was typed wrong with a line that says how it is typed.
pub fn usage(place: &Place, line: &str) -> Outcome {
    if place.out.json {
        return Err(Problem::usage(line, ""));
    }
    place.out.aside(line);
    Ok(USAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_that_is_there_is_the_one_that_is_meant() {
        let dir = tempfile::tempdir().unwrap();
        let [one, other] = ["run", "runtime"].map(|name| dir.path().join(name));
        let all = || vec![one.clone(), other.clone()];
        assert_eq!(first_there(all()).as_ref(), Some(&one));
        std::fs::write(&other, "").unwrap();
        assert_eq!(first_there(all()).as_ref(), Some(&other));
        assert_eq!(first_there(Vec::new()), None);
    }

    #[test]
    fn a_sentence_begins_with_a_capital_or_with_the_name_of_a_file() {
        for (error, want) in [
            ("the range has a gap", "The range has a gap."),
            ("no memory begins with 12.", "No memory begins with 12."),
            ("core.md would have 3073 bytes", "core.md would have 3073 bytes."),
            ("sessions/today.md lost a line", "sessions/today.md lost a line."),
            ("/home/ada/work has none of the files of a memory", "/home/ada/work has none of the files of a memory."),
            ("no daemon answers", "No daemon answers."),
        ] {
            assert_eq!(sentence(&error), want);
        }
    }
}
