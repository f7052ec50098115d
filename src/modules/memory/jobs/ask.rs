//! One cheap session: a question without tools, and its answer.

use std::sync::Arc;

use crate::{AskModelError, JobCall};
use base::{RequestContext, SessionId, TenantId, Trust};
use memory::Memory;
use sessions::{SCHEDULE, SessionOptions, Trigger};

/// What was answered, in which session, and on whose behalf what follows from it is written.
pub(super) struct Answered {
    pub request: Arc<RequestContext>,
    pub session: SessionId,
    pub output: Option<String>,
}

/// Asks. `trust`: how far the least believed word of the prompt is.
pub(super) async fn ask(
    memory: &Memory,
    call: &JobCall<'_>,
    tenant: &TenantId,
    trust: Trust,
    prompt: String,
) -> Result<Answered, AskModelError> {
    let (clock, butler) = (memory.store.clock(), memory.butler.as_str());
    let root = RequestContext::root(clock, tenant.clone(), "schedule", butler, call.schedule, trust);
    let request = Arc::new(root);
    let options = SessionOptions {
        tools: Some(Arc::default()),
        one_round: true,
        apart_from_memory: true,
        priority: Some(call.priority),
        ..SessionOptions::default()
    };
    let trigger = Trigger { options, ..Trigger::new(prompt, format!("{SCHEDULE}{}", call.schedule), request.clone()) };
    let result = call.model.ask(trigger).await?;
    Ok(Answered { request, session: result.session_id, output: result.output })
}
