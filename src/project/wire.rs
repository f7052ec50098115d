//! What a developer's program and the daemon say to each other over the project socket: one JSON object a line, each way.
//!
//! A connection carries as many requests as its client likes, one after the other. The daemon closes one that sends a
//! line over [`MAX_LINE`].

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

pub use base::local::{MAX_LINE, Refusal};

/// The name of the project of whatever lies in no repository.
pub const GLOBAL: &str = "_global";

/// By what a project is known: its root commit and where it comes from, so that clones and worktrees share a memory and
/// namesakes don't.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// Which project the daemon said it was, the last time. It outlives a rewritten history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Uuid>,
    /// The first commit, in hexadecimal; of several, the smallest. None: nothing was committed yet, or no repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_commit: Option<String>,
    /// Where it is fetched from, as [`normal_origin`](crate::place::normal_origin) writes it; none: from nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// What people call it: the name of its directory, or [`GLOBAL`].
    pub name: String,
    /// Where its repository lies here, the directory that all of its worktrees share. Tells apart what has no commit yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
}

/// A request, one line.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// What is to be done: a tool's name, or one of the operations that only this socket has.
    pub op: String,
    pub project: Identity,
    /// The branch that is checked out; none: no repository, or no branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// An object of the operation's arguments.
    #[serde(default)]
    pub args: Value,
}

/// An answer, one line.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// What came of it, and which project it was done to.
    Done { project: Uuid, result: Value },
    /// Nothing was done.
    Refused(Refusal),
}
