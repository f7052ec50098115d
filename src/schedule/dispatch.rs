//! What the scheduler asks of whoever runs what schedules ask for.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use access::Caller;
use base::{SessionId, TenantId, Trust};
use store::StoreError;

/// What is told of a run by hand that could not begin.
pub(super) const NOT_NOW: &str = "it could not begin now: its butler is busy or is stopping; try again later";

/// One schedule that fires now.
#[derive(Debug, Clone)]
pub struct Firing {
    pub task_id: Uuid,
    /// The run's row.
    pub run: Uuid,
    pub name: String,
    /// The time that it is the run of.
    pub fire_at: Timestamp,
    pub prompt: Option<String>,
    pub job_name: Option<String>,
    pub job_args: Option<Value>,
    pub tenant: TenantId,
    /// Of whoever made the schedule.
    pub trust: Trust,
    /// 1 to 3; 1 goes first.
    pub priority: u8,
    /// Where the session of its prompt sends what came of it.
    pub reply: Option<Reply>,
    /// The call that makes it fire, if one does: then the new session is caused by that call's session.
    pub caller: Option<Caller>,
}

/// Where an outcome goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub channel: String,
    /// To whom there; `None`: the owner.
    pub to: Option<String>,
}

/// A firing that has begun.
pub struct Begun {
    /// The session that works on it, if it is known by now.
    pub session: Option<SessionId>,
    pub end: BoxFuture<'static, Ended>,
}

/// What became of a firing.
#[derive(Debug, Clone)]
pub struct Ended {
    pub session: Option<SessionId>,
    pub how: How,
}

/// How it ended.
#[derive(Debug, Clone)]
pub enum How {
    /// As it was meant to; a job may say what it did.
    Done(Option<String>),
    Failed(String),
    /// It could not begin, or was interrupted before it changed anything.
    Later(Duration),
    /// The machine or the model's side let it down before it changed anything; that was no try.
    Wait {
        after: Duration,
        why: String,
    },
}

impl Ended {
    /// A firing that no session worked on.
    pub fn without_session(how: How) -> Self {
        Self { session: None, how }
    }
}

impl Begun {
    /// A firing that was over as it began.
    pub fn ended(how: How) -> Self {
        Self { session: None, end: Box::pin(std::future::ready(Ended::without_session(how))) }
    }
}

/// What earlier tries of a run have done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Earlier {
    /// Nothing that could be done twice.
    Nothing,
    /// All of it.
    Finished(Uuid),
    /// A part of it, and doing that again could be worse than leaving the rest.
    Broken { session: Uuid, why: String },
}

/// Whoever runs what a schedule asks for.
#[async_trait]
pub trait Dispatch: Send + Sync {
    /// How long the butler has had no session, at work or waiting; `None`: it has one.
    fn idle_for(&self) -> Option<Duration>;

    /// Begins it. The end comes whether or not anybody waits for it.
    async fn begin(&self, firing: Firing) -> Begun;

    /// What the sessions of earlier tries did, for whoever has just claimed the run: those of other daemons end by this.
    async fn earlier(&self, tenant: &TenantId, run: Uuid) -> Result<Earlier, StoreError>;

    /// Cancels a session.
    fn cancel(&self, session: SessionId);
}
