//! The exchange of memories between machines by a branch of the project's own repository.
//!
//! Each identity, `<user>/<machine>`, writes one file of the branch and no other, so there is nothing to merge. The
//! developer's working tree, index and branches are never touched.

mod exchange;
mod losses;
mod outgoing;
mod pull;
mod push;
mod secret;
mod state;
mod status;
mod temporary;
#[cfg(test)]
mod tests;

use std::borrow::BorrowMut;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Value, json};

use self::exchange::Exchange;
use self::state::State;
pub use self::status::{SyncSource, SyncStatus};
use crate::connection::{Connection, ConnectionError};
use crate::git::GitError;
use crate::place::ProjectPlace;

/// The branch on `origin`.
pub const BRANCH: &str = "wt-memory";

/// Who is asked for memories and given them.
pub trait Daemon {
    /// Asks for one thing, as [`Connection::ask`] does, about the project of one place.
    fn ask(&mut self, op: &str, args: Value) -> Result<Value, ConnectionError>;
}

impl<C: BorrowMut<Connection>> Daemon for (C, &ProjectPlace) {
    fn ask(&mut self, op: &str, args: Value) -> Result<Value, ConnectionError> {
        let connection: &mut Connection = self.0.borrow_mut();
        connection.ask(self.1, op, args).map(|(_, result)| result)
    }
}

/// What was done.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct SyncReport {
    /// For people, in the order in which it was done.
    pub lines: Vec<String>,
    /// Whether this machine's memories went to `origin`.
    pub pushed: bool,
    /// Memories that are new here.
    pub imported: u64,
    /// Memories that were known here, or forgotten.
    pub skipped: u64,
    /// Memories that are forgotten here because they were elsewhere.
    pub deleted: u64,
    /// Memories that stay here though others forgot them, because they are too many to go unasked.
    pub kept: u64,
}

impl SyncReport {
    fn tell(&mut self, line: impl Into<String>) {
        self.lines.push(line.into());
    }

    fn and(mut self, other: Self) -> Self {
        self.lines.extend(other.lines);
        self.pushed |= other.pushed;
        self.imported += other.imported;
        self.skipped += other.skipped;
        self.deleted += other.deleted;
        self.kept += other.kept;
        self
    }
}

/// Why nothing was exchanged, or only a part.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    #[error("{path} is not a git repository; memories are exchanged by a branch of one")]
    NoRepository { path: PathBuf },
    #[error("no git remote 'origin' found in {path}; add one with `git remote add origin URL`")]
    NoOrigin { path: PathBuf },
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Daemon(#[from] ConnectionError),
    #[error("butlerd's answer to {op} can't be read: {why}")]
    Answer { op: &'static str, why: String },
    #[error(
        "{file} on branch {BRANCH} has {there} memories, and only {here} are here, which were not forgotten one by one; \
         nothing was pushed. Take them in with `sync pull --from {identity}`, or push with --force if they are to go"
    )]
    Shrinks { file: String, identity: String, there: usize, here: usize },
    #[error(
        "{file} on branch {BRANCH} forgets {would} of the {here} memories here; nothing was pushed. Forget them here, too, \
         with `sync pull --from {identity} --force`, or keep them with `sync push --force`"
    )]
    Forgets { file: String, identity: String, would: u64, here: u64 },
    #[error("others pushed at the same time, {tries} times in a row; try again")]
    Contended { tries: u32 },
    #[error("{path} can't be used: {source}")]
    File { path: PathBuf, source: std::io::Error },
    /// Memories were taken in and not pushed.
    #[error("{source}")]
    Push { source: Box<Self>, pulled: SyncReport },
}

/// Tells the daemon how an exchange ended, so that its owner sees it. The exchange does not depend on that.
fn tell(
    exchange: &Exchange,
    daemon: &mut dyn Daemon,
    ended: Result<SyncReport, SyncError>,
) -> Result<SyncReport, SyncError> {
    let state = State::read(exchange);
    let error = ended.as_ref().err().map(ToString::to_string);
    let noted = json!({"identity": exchange.identity, "pushed_at": state.last_push_at, "pulled_at": state.last_pull_at,
        "error": error});
    let _ = daemon.ask("exchanged", noted);
    ended
}

/// Pushes this machine's memories. With `force` it replaces whatever stands there under this machine's name.
pub fn push(place: &ProjectPlace, daemon: &mut dyn Daemon, force: bool) -> Result<SyncReport, SyncError> {
    let exchange = Exchange::of(place)?;
    let ended = push::push(&exchange, daemon, force);
    tell(&exchange, daemon, ended)
}

/// Takes in what others have pushed: all of them, or the one that `from` names. Without `force`, deletions that would
/// take more than half of what is here are left out.
pub fn pull(
    place: &ProjectPlace,
    daemon: &mut dyn Daemon,
    from: Option<&str>,
    force: bool,
) -> Result<SyncReport, SyncError> {
    let exchange = Exchange::of(place)?;
    let ended = pull::pull(&exchange, daemon, from, force);
    tell(&exchange, daemon, ended)
}

/// Pushes, then pulls, each with or without `force`, whether or not that push came through; its error is the result nevertheless.
pub fn sync(place: &ProjectPlace, daemon: &mut dyn Daemon, force: bool) -> Result<SyncReport, SyncError> {
    let exchange = Exchange::of(place)?;
    let pushed = push::push(&exchange, daemon, force);
    let pulled = pull::pull(&exchange, daemon, None, force);
    let ended = match (pushed, pulled) {
        (Ok(pushed), Ok(pulled)) => Ok(pushed.and(pulled)),
        (Err(error), Ok(pulled)) => Err(SyncError::Push { source: Box::new(error), pulled }),
        (Err(error), Err(_)) | (Ok(_), Err(error)) => Err(error),
    };
    tell(&exchange, daemon, ended)
}

/// When memories were pushed and pulled last, and who has pushed any.
pub fn status(place: &ProjectPlace) -> Result<SyncStatus, SyncError> {
    SyncStatus::of(&Exchange::of(place)?)
}
