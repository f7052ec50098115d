//! Why a registration was not made, or not taken away.

use std::io;
use std::path::PathBuf;

/// Why nothing was changed. What was begun has been taken back, except where [`InitError::Restore`] says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// A path has to be written into files that hold text, and hooks run in any directory.
    #[error("the path {path} is not absolute or not valid UTF-8, so it can't be registered. Name it by another path")]
    Path { path: PathBuf },
    #[error("{path} can't be read: {source}. Nothing was changed. Let this user read it and run this again")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path}:{line}: this is not valid {format}: {what}. Nothing was changed. Correct it and run this again")]
    Syntax { path: PathBuf, line: usize, format: &'static str, what: String },
    #[error("{path}: `{at}` is not {expected}. Nothing was changed. Correct it and run this again")]
    Shape { path: PathBuf, at: String, expected: &'static str },
    /// A repository may hold a link to any file of its developer.
    #[error("{path} leads to {target}, outside of the project. Nothing was changed. Replace the link with a file")]
    Outside { path: PathBuf, target: PathBuf },
    #[error("{path} was changed by somebody else meanwhile. Everything is as it was. Run this again")]
    Changed { path: PathBuf },
    #[error("{path} can't be written: {source}. Everything is as it was. Let this user write it and run this again")]
    Write { path: PathBuf, source: io::Error },
    #[error("`{command}` failed in {directory}: {output}. Everything is as it was. Run it by hand to see why")]
    Program { command: String, directory: PathBuf, output: String },
    /// The one case in which a run is left half done.
    #[error("{first} But {what} couldn't be put back: {why}. Put it back by hand")]
    Restore { first: Box<InitError>, what: String, why: String },
}
