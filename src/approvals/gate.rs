//! The decision at the door: whether a session's call may be made now, or waits for a person.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::Notify;
use uuid::Uuid;

use super::actions::Actions;
use super::settings::Settings;
use super::sql::SessionPieces;
use super::types::{Action, Cause, NewAction, RiskTier};
use access::may_tell;
use base::{ButlerName, Label, Principal, RequestContext, Trust};
use store::{Store, StoreError};
use tools::{EgressGate, EgressRecipient, EgressTarget, GateDecision, ToolCall, ToolError};

/// What a butler's sessions may do by themselves that somebody besides the owner and the house has influenced.
#[derive(Clone, Debug, Default)]
pub struct OthersMay {
    /// Tools with effects that a stranger's words may cause.
    pub strangers: BTreeSet<String>,
    /// The same of people whom the owner knows.
    pub known: BTreeSet<String>,
    /// Known people may learn what this butler knows.
    pub known_may_learn: bool,
}

impl OthersMay {
    /// Whether a session of this trust may call this tool by itself.
    fn may(&self, trust: Trust, tool: &str) -> bool {
        match trust {
            Trust::Stranger => self.strangers.contains(tool),
            Trust::Known => self.known.contains(tool),
            Trust::System | Trust::Owner => true,
        }
    }
}

/// A butler's doorkeeper. Cheap to clone.
#[derive(Clone)]
pub struct ApprovalGate {
    pub(super) butler: ButlerName,
    pub(super) store: Store,
    pub(super) actions: Actions,
    pub(super) settings: Arc<Settings>,
    /// What sessions may do by themselves that the household's people did not influence alone.
    pub(super) others: Arc<OthersMay>,
    /// How its statements look at the butler's sessions.
    pub(super) pieces: SessionPieces,
    /// Something new waits or was decided.
    pub(super) wake: Arc<Notify>,
    /// Tells whoever shows the owner what waits.
    pub(super) call: Arc<dyn Fn() + Send + Sync>,
}

impl ApprovalGate {
    /// `call` is told whenever something new waits for the owner.
    pub fn new(
        butler: &ButlerName,
        store: &Store,
        actions: Actions,
        (settings, others): (Settings, OthersMay),
        pieces: SessionPieces,
        call: Arc<dyn Fn() + Send + Sync>,
    ) -> Self {
        Self {
            butler: butler.clone(),
            store: store.clone(),
            actions,
            settings: Arc::new(settings),
            others: Arc::new(others),
            pieces,
            wake: Arc::new(Notify::new()),
            call,
        }
    }

    async fn park(&self, new_action: &NewAction<'_>) -> Result<(Action, bool), StoreError> {
        let earlier_tries = (self.pieces.earlier_tries)(self.store.schema(), "$1");
        self.actions.park(self.butler.as_str(), &earlier_tries, new_action).await
    }

    /// The answer to a session's call that waits for a person. `None`: a rule of theirs lets it through, where `by_rule` says
    /// that one may.
    async fn answered(
        &self,
        call: &ToolCall,
        (target, why): (Option<&EgressTarget>, Option<&str>),
        cause: Cause,
        by_rule: bool,
    ) -> Result<Option<Value>, ToolError> {
        let (Some(session), Some(taint)) = (call.session(), call.caller.taint()) else { return Ok(None) };
        // More may have been shown since the call came in.
        let label = taint.label();
        let usual = (self.settings.default_risk_tier, self.settings.default_expiry_hours);
        let (risk_tier, expiry_hours) = self.settings.gated(&call.def.name).unwrap_or(usual);
        let args = Value::Object((*call.args).clone());
        let request = call.context().clone().joined(&label);
        let new_action = NewAction {
            session: session.0,
            tool: &call.def.name,
            args: &args,
            changes: call.def.changes(),
            sensitive: &call.def.meta.sensitive,
            why,
            cause,
            to: target.filter(|target| target.outward),
            risk_tier,
            expiry_hours,
            request: &request,
        };
        // A rule names who may have influenced a session, which its request tells, and not what others had said that it
        // was shown. What the person behind the request may learn whole, nobody else's words are in.
        let known_whole = !label.is_influenced() || label.audience.includes(&call.context().heard_by());
        let ruled = by_rule && known_whole;
        if ruled && self.actions.by_rule(self.butler.as_str(), &new_action, &call.args).await?.is_some() {
            return Ok(None);
        }
        let (action, _) = self.park(&new_action).await?;
        (self.call)();
        let why = match cause {
            Cause::Gated => "it is one that the owner wants to see first",
            Cause::Taint => {
                "somebody else's words have influenced this session, and it would reach people who may not \
                             learn all that it was shown"
            }
            Cause::Influenced => "somebody else's words have influenced this session, and it would change something",
        };
        Ok(Some(json!({
            "status": "pending_approval", "action_id": action.id, "risk_tier": action.risk_tier,
            "expires_at": action.expires_at.to_string(),
            "message": format!("Not done yet: {why}. The owner was asked. Don't try another way; say that it waits, and \
                                end. You get a new session once it is decided."),
        })))
    }

    /// Told when something was decided.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// Rings when something was decided, for whoever decides elsewhere.
    pub fn waker(&self) -> Arc<Notify> {
        self.wake.clone()
    }

    /// All wishes and rules of the household.
    pub fn actions(&self) -> &Actions {
        &self.actions
    }

    /// The tools whose calls by sessions wait.
    pub fn gated_tools(&self) -> impl Iterator<Item = &str> {
        self.settings.gated_tools.keys().map(String::as_str).filter(|_| self.settings.enabled)
    }

    /// The tier of a tool's calls.
    pub fn tier(&self, tool: &str) -> RiskTier {
        self.settings.gated(tool).map_or(self.settings.default_risk_tier, |(tier, _)| tier)
    }

    /// Whether a session with this label may answer this request by itself.
    pub fn may_answer(&self, label: &Label, request: &RequestContext) -> bool {
        self.may_tell(label, Some(&[request.heard_by()]), request)
    }

    /// Whether a session with this label, begun by `request`, may let these learn something by itself.
    fn may_tell(&self, label: &Label, those: Option<&[Principal]>, request: &RequestContext) -> bool {
        // People whom the owner knows may learn from this butler what the household knows, where the settings say so.
        let open = label.trust == Trust::Known && self.others.known_may_learn;
        may_tell(label, those) || open && those.is_some_and(|those| those.iter().all(|one| *one == request.heard_by()))
    }

    /// Holds what a session that has ended would have said by itself, as the call with which it would have said it.
    pub async fn hold_reply(
        &self,
        session: Uuid,
        request: &RequestContext,
        label: &Label,
        text: &str,
    ) -> Result<Uuid, StoreError> {
        let args = json!({"intent": "reply", "message": text});
        let (channel, address) = (request.source_channel.clone(), request.source_sender_identity.clone());
        let recipient = Some(EgressRecipient { name: None, channel, address });
        let to = request.heard_by();
        let to = EgressTarget { outward: true, to: to.to_string(), recipient, those: Some(vec![to]) };
        let new_action = NewAction {
            session,
            tool: "notify",
            args: &args,
            changes: false,
            sensitive: &[],
            why: None,
            cause: Cause::Taint,
            to: Some(&to),
            risk_tier: self.tier("notify"),
            expiry_hours: self.settings.default_expiry_hours,
            request: &request.clone().joined(label),
        };
        let (action, _) = self.park(&new_action).await?;
        (self.call)();
        Ok(action.id)
    }
}

#[async_trait]
impl EgressGate for ApprovalGate {
    fn gated(&self, tool: &str) -> bool {
        self.settings.gated(tool).is_some()
    }

    async fn ask(
        &self,
        call: &ToolCall,
        egress_target: Option<&EgressTarget>,
        why: Option<&str>,
    ) -> Result<GateDecision, ToolError> {
        let (Some(_), Some(taint)) = (call.session(), call.caller.taint()) else { return Ok(GateDecision::Allow) };
        let label = taint.label();
        let outward = egress_target.filter(|target| target.outward);
        let gated = self.settings.gated(&call.def.name).is_some() || call.def.meta.asks_always;
        let tells = outward.is_none_or(|target| self.may_tell(&label, target.those.as_deref(), call.context()));
        let cause = if !tells {
            Cause::Taint
        } else if call.def.changes() && label.is_influenced() && !self.others.may(label.trust, &call.def.name) {
            Cause::Influenced
        } else if gated && egress_target.is_none_or(|target| target.outward) {
            Cause::Gated
        } else {
            // What only the owner gets, the owner need not be asked for.
            return Ok(GateDecision::Allow);
        };
        let waits = self.answered(call, (egress_target, why), cause, true).await?;
        Ok(waits.map_or(GateDecision::Allow, GateDecision::Hold))
    }

    async fn hold(&self, call: &ToolCall, target: Option<&EgressTarget>, why: &str) -> Result<Value, ToolError> {
        let held = self.answered(call, (target, Some(why)), Cause::Gated, false).await?;
        held.ok_or_else(|| ToolError::Internal("a call that has to wait was let through".to_owned()))
    }
}
