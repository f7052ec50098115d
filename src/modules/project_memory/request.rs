//! A request on its way, and what it is put to.

use std::sync::Arc;

use memory::Memory;
use memory::write::{Origin, Vector, WriteError};
use memory_index::rank::{fact_text, spoken};
use project::wire::Identity;
use store::{Store, StoreError};

use super::arguments::Arguments;
use super::projects::{Project, Projects};
use ::tools::ToolCall;
use base::{Clock, RequestContext, TenantId};

/// The subject of all facts of projects: their scope says which project it is.
pub(super) const SUBJECT: &str = "project";

/// A butler's memory of projects.
pub(super) struct ProjectMemory {
    pub memory: Arc<Memory>,
    pub clock: Clock,
    pub store: Store,
    projects: Projects,
}

/// Who asks: a developer's program at the socket, or a call of a tool, in whose own transaction things are done.
#[derive(Clone, Copy)]
pub(super) enum Caller<'a> {
    Program(&'a RequestContext),
    Call(&'a ToolCall),
}

impl Caller<'_> {
    pub fn context(&self) -> &RequestContext {
        match self {
            Self::Program(context) => context,
            Self::Call(call) => call.context(),
        }
    }
}

/// A request on its way.
pub(super) struct ProjectRequest<'a> {
    pub house: &'a ProjectMemory,
    pub project: &'a Project,
    pub tenant: &'a TenantId,
    /// The branch that is checked out.
    pub branch: Option<&'a str>,
    pub args: Arguments<'a>,
    pub origin: Origin,
}

impl ProjectMemory {
    pub fn new(memory: Arc<Memory>, store: &Store, clock: &Clock) -> Self {
        Self { memory, clock: clock.clone(), store: store.clone(), projects: Projects::default() }
    }

    /// The project that is meant. One that nobody knows yet is made.
    pub async fn project(&self, context: &RequestContext, by: &Identity) -> Result<Project, WriteError> {
        match self.projects.seen(&context.tenant_id, by) {
            Some(project) => Ok(project),
            None => self.find_or_make(context, by).await,
        }
    }

    /// The project, in a transaction of its own: it is there whatever becomes of the request.
    async fn find_or_make(&self, context: &RequestContext, by: &Identity) -> Result<Project, WriteError> {
        let tenant = &context.tenant_id;
        let mut lease = self.store.lease(context).await?;
        let mut tx = lease.begin().await.map_err(StoreError::query("beginning"))?;
        match Projects::of(&mut tx, by).await {
            Ok(project) => {
                tx.commit().await.map_err(StoreError::query("noting a project"))?;
                self.projects.committed(tenant, by, &project);
                Ok(project)
            }
            Err(e) => {
                drop(tx.rollback().await);
                Err(e)
            }
        }
    }

    /// The vector of a fact's words; without it the fact is found by its words.
    pub async fn vector(&self, predicate: &str, content: &str) -> Option<Vector> {
        let numbers = self.memory.vector(&spoken(Some(SUBJECT), &fact_text(predicate, content))).await.ok()?;
        Some(Vector { model: self.memory.embedder.model().to_owned(), numbers })
    }
}
