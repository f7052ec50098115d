//! One cheap session: a question without tools, and its answer.

use std::sync::Arc;

use super::super::Memory;
use crate::{JobCall, Unthought};
use base::{RequestContext, SessionId, TenantId, Trust};
use sessions::{SCHEDULE, Trigger, Wants};
use store::StoreError;

/// Why nothing came of it.
pub(super) enum Not {
    /// It is as it was; the sentence says what is in the way of all of them.
    Now(String),
    /// As the one before, and somebody should hear of it.
    Away(String),
    /// The try counts.
    Failed(String),
    Store(StoreError),
}

impl From<StoreError> for Not {
    fn from(e: StoreError) -> Self {
        Not::Store(e)
    }
}

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
) -> Result<Answered, Not> {
    let (clock, butler) = (memory.store.clock(), memory.butler.as_str());
    let root = RequestContext::root(clock, tenant.clone(), "schedule", butler, call.schedule, trust);
    let request = Arc::new(RequestContext { private: true, ..root });
    let wants = Wants {
        tools: Some(Arc::default()),
        one_round: true,
        apart_from_memory: true,
        priority: Some(call.priority),
        ..Wants::default()
    };
    let wish = Trigger { wants, ..Trigger::new(prompt, format!("{SCHEDULE}{}", call.schedule), request.clone()) };
    let result = call.think.think(wish).await.map_err(|e| match e {
        Unthought::NotNow(why) => Not::Now(why),
        Unthought::Away(why) => Not::Away(why),
        Unthought::Failed(why) => Not::Failed(why),
        Unthought::Store(e) => Not::Store(e),
    })?;
    Ok(Answered { request, session: result.session_id, output: result.output })
}
