//! Sessions that a module starts: of its butler, under the household's limits, with what the module asks for.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::Notify;

use base::{ButlerName, Clock, Label, RequestContext, SessionId, TenantId, Trust};
use config::RuntimeKind;
use sessions::budget::Limits;
use sessions::{
    Conducted, HOUSEKEEPING, ModelServer, SessionOptions, SessionResult, Spawner, Trigger, TriggerError, show_end,
};
use tools::ToolCall;

/// Starts sessions of the module's butler. Cheap to clone.
///
/// Depth, permits, queue and the limits of butler and tenant hold as for every trigger: what is asked for here can only
/// narrow them.
#[derive(Clone)]
pub struct ModuleSessions {
    spawner: Spawner,
    clock: Clock,
    butler: ButlerName,
    module: Arc<str>,
}

/// What a session is started for.
pub enum Cause<'a> {
    /// A call of one of the module's tools. Where a session made it, the new one stands one deeper under it, is trusted
    /// no more than what that one was shown, and is refused where it would have to wait for a slot: the caller may hold
    /// it.
    Call(&'a ToolCall),
    /// A session that the module conducts: the new one stands one deeper under it, and is trusted no more than what that
    /// one was shown. It waits for a slot, unless another session waits for the one that is conducted.
    Conducted(&'a Conducted),
    /// The module's own doing for this tenant. `trust`: of the least trusted words in prompt and context. It waits for
    /// its place behind what people wait for.
    Own { tenant: TenantId, trust: Trust },
}

/// A session as a module asks for it. [`SessionRequest::new`] asks for nothing special.
pub struct SessionRequest<'a> {
    pub prompt: String,
    /// Facts for the session; they reach its model fenced as data.
    pub context: Option<Value>,
    pub cause: Cause<'a>,
    /// Another runtime than the butler's; it needs its key.
    pub runtime: Option<RuntimeKind>,
    /// Another model than the butler's.
    pub model: Option<String>,
    /// Another model server than the butler's.
    pub server: Option<ModelServer>,
    /// All that it is told besides its prompt, in the place of the butler's own prompt.
    pub system_prompt: Option<&'static str>,
    /// References of attachments that the model is shown with the prompt, where they are pictures and its program can.
    pub attachments: Vec<String>,
    /// Of the butler's tools only these.
    pub tools: Option<BTreeSet<String>>,
    /// What it may use, where that is less than its butler's limits.
    pub limits: Limits,
    /// Memory tells it nothing and does not take in its end.
    pub apart_from_memory: bool,
    /// Rung once it waits for no slot any more.
    pub has_slot: Option<Arc<Notify>>,
}

impl<'a> SessionRequest<'a> {
    pub fn new(prompt: impl Into<String>, cause: Cause<'a>) -> Self {
        Self {
            prompt: prompt.into(),
            context: None,
            cause,
            runtime: None,
            model: None,
            server: None,
            system_prompt: None,
            attachments: Vec::new(),
            tools: None,
            limits: Limits::default(),
            apart_from_memory: false,
            has_slot: None,
        }
    }
}

impl ModuleSessions {
    /// The handle of a butler's modules; each module gets its own by its name.
    pub fn new(spawner: &Spawner, clock: &Clock, butler: &ButlerName) -> Self {
        Self { spawner: spawner.clone(), clock: clock.clone(), butler: butler.clone(), module: "".into() }
    }

    pub(super) fn of(&self, module: &str) -> Self {
        Self { module: module.into(), ..self.clone() }
    }

    /// The model of the butler's sessions, where its settings name one.
    pub fn own_model(&self) -> Option<&str> {
        self.spawner.model()
    }

    /// Runs a session to its end, which is an answer also where it failed. The session goes on when this future is
    /// dropped. Where a call caused it, the call counts as having been shown what the session says.
    pub async fn run(&self, request: SessionRequest<'_>) -> Result<SessionResult, TriggerError> {
        let call = match request.cause {
            Cause::Call(call) => Some(call),
            Cause::Conducted(session) => return self.run_under(session, self.trigger(request)).await,
            Cause::Own { .. } => None,
        };
        let (trigger, caller) = self.trigger(request);
        let end = self.spawner.trigger_from(trigger, caller).await?;
        if let Some(call) = call
            && show_end(call, end.session_id).await.is_err()
        {
            // Nobody can say how far its words are believed.
            call.shows(&Label::household(Trust::Stranger));
        }
        Ok(end)
    }

    /// Runs a session under one that is conducted, and ends it when that one must end.
    async fn run_under(
        &self,
        session: &Conducted,
        (trigger, caller): (Trigger, Option<SessionId>),
    ) -> Result<SessionResult, TriggerError> {
        let tenant = trigger.request.tenant_id.clone();
        let stopping = || TriggerError::Stopping(self.butler.to_string());
        if session.stop.is_cancelled() {
            return Err(stopping());
        }
        let (id, end) = self.spawner.begin(trigger, caller).await?;
        tokio::pin!(end);
        let ended = tokio::select! {
            ended = &mut end => ended,
            () = session.stop.cancelled() => {
                self.spawner.cancel(id);
                end.await
            }
        };
        let ended = ended.map_err(|_| stopping())??;
        // Nothing of it is used before it is on record how far it is believed.
        session.shows(&self.spawner.label_of(&tenant, ended.session_id).await?).await?;
        Ok(ended)
    }

    /// Starts a session and returns once its row is there. What comes with it is its end; `None`: the daemon goes down
    /// before.
    pub async fn start(
        &self,
        request: SessionRequest<'_>,
    ) -> Result<(SessionId, impl Future<Output = Option<SessionResult>> + Send + use<>), TriggerError> {
        let (trigger, caller) = self.trigger(request);
        let (id, end) = self.spawner.begin(trigger, caller).await?;
        Ok((id, async move { end.await.ok().and_then(Result::ok) }))
    }

    fn trigger(&self, request: SessionRequest<'_>) -> (Trigger, Option<SessionId>) {
        let (source, context, caller) = match request.cause {
            Cause::Call(call) => (format!("module:{}", self.module), self.under(call), call.session()),
            Cause::Conducted(session) => {
                // Who waits for it may hold the slot that these would wait for.
                let caller = session.trigger.options.awaited.then_some(session.id);
                (format!("module:{}", self.module), session.under(&self.clock), caller)
            }
            Cause::Own { tenant, trust } => {
                let (butler, module) = (self.butler.as_str(), &*self.module);
                let root = RequestContext::root(&self.clock, tenant, "module", butler, module, Trust::System);
                // What a module puts into a prompt it has from rows, so the household alone may learn it.
                let own = root.with_trust_at_most(trust);
                (format!("{HOUSEKEEPING}module:{module}"), own, None)
            }
        };
        let options = SessionOptions {
            tools: request.tools.map(Arc::new),
            runtime: request.runtime,
            model: request.model,
            server: request.server,
            system_prompt: request.system_prompt,
            attachments: request.attachments,
            by_a_model: true,
            limits: request.limits,
            apart_from_memory: request.apart_from_memory,
            has_slot: request.has_slot,
            ..SessionOptions::default()
        };
        let trigger = Trigger::new(request.prompt, source, Arc::new(context));
        (Trigger { context: request.context, options, ..trigger }, caller)
    }

    fn under(&self, call: &ToolCall) -> RequestContext {
        let context = match call.session() {
            Some(session) => call.context().caused_by(session, &self.clock),
            None => call.context().clone(),
        };
        match call.caller.taint() {
            Some(shown) => context.joined(&shown.label()),
            None => context,
        }
    }
}
