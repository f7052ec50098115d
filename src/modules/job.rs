//! Work of a module that schedules name, and what it gets for it.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use base::TenantId;
use sessions::{SessionResult, Trigger};
use store::{Database, StoreError};

/// Lets a job ask a model of the butler's: one session, which waits for its place as all housekeeping does.
#[async_trait]
pub trait AskModel: Send + Sync {
    /// Whether the butler has a model now. The error says what to set.
    async fn ready(&self) -> Result<(), AskModelError>;
    /// Runs the session to its end.
    async fn ask(&self, trigger: Trigger) -> Result<SessionResult, AskModelError>;
}

/// Why a job has no answer of a model. Each holds a sentence.
#[derive(Debug, thiserror::Error)]
pub enum AskModelError {
    /// Nothing is wrong with what was asked: there is no place, no money or no model just now, or the daemon stops.
    #[error("{0}")]
    NotNow(String),
    /// Neither here: the model could not be reached, or turned the household away.
    #[error("{0}")]
    Unreachable(String),
    /// The session failed.
    #[error("{0}")]
    Failed(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a job of a module works with.
pub struct JobCall<'a> {
    pub db: &'a Database,
    /// Whose rows; those of every tenant, if it is the owner's.
    pub tenant: &'a TenantId,
    pub args: Option<&'a Value>,
    pub model: &'a dyn AskModel,
    /// Under which name rows are claimed: the same after a restart, another one elsewhere.
    pub node: &'a str,
    /// Of the schedule that runs it: its name, and how it stands to other work (1 goes first).
    pub schedule: &'a str,
    pub priority: u8,
}

/// Why a job of a module came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum JobFailure {
    /// A sentence for the owner.
    #[error("{0}")]
    Failed(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Work that schedules name and that begins without a model.
#[async_trait]
pub trait Job: Send + Sync {
    /// Does it, and says in a sentence what was done.
    async fn run(&self, call: JobCall<'_>) -> Result<String, JobFailure>;
}

/// A job with its names, the first of which is its own.
#[derive(Clone)]
pub struct NamedJob {
    pub names: &'static [&'static str],
    pub job: Arc<dyn Job>,
}
