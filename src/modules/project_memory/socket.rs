//! What developers' programs ask at the project socket.

use std::sync::Arc;

use async_trait::async_trait;
use memory::write::WriteError;
use project::wire::{Answer, Request};

use super::request::{Caller, ProjectMemory};
use crate::local_socket::{Answers, Reply};
use base::{Clock, RequestContext, TenantId, Trust};

/// What the socket is called.
pub(super) const SOCKET: &str = "project.sock";
/// As requests and events name it.
const CHANNEL: &str = "project";

/// Answers for a butler's project memory.
pub(super) struct ProjectAnswers {
    pub memory: Arc<ProjectMemory>,
    pub clock: Clock,
}

#[async_trait]
impl Answers for ProjectAnswers {
    async fn answer(&self, line: &[u8], peer: &str) -> Reply {
        let request = match serde_json::from_slice::<Request>(line) {
            Ok(request) => request,
            Err(e) => return Reply::refused("invalid_request", format!("The request can't be read: {e}.")),
        };
        // A repository's text may come from anywhere, and so may what a session says of it.
        let context = RequestContext::root(&self.clock, TenantId::owner(), CHANNEL, CHANNEL, peer, Trust::Stranger);
        let (caller, memory) = (Caller::Program(&context), &self.memory);
        let asked = memory.run(caller, &request.op, &request.project, request.branch.as_deref(), &request.args).await;
        match asked {
            Ok((project, result)) => {
                let answer = Answer::Done { project, result };
                let reply = Reply::new(&answer);
                let (memory, op) = (memory.clone(), request.op);
                reply.then(async move {
                    if let Answer::Done { result, .. } = &answer {
                        memory.used(&context, &op, result).await;
                    }
                })
            }
            Err(WriteError::Refused { code, message }) => Reply::refused(code, message),
            Err(WriteError::Store(e)) => {
                tracing::warn!(op = request.op, error = %e, "a project's memory was asked in vain");
                let why = "The memory can't be reached right now; nothing was done. `butlerd status` says why.";
                Reply::refused("unavailable", why)
            }
        }
    }
}
