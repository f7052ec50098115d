//! The decision at the door: whether a session's call may be made now, or waits for a person.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::Notify;
use uuid::Uuid;

use super::actions::Actions;
use super::settings::Settings;
use super::types::{Cause, NewAction, RiskTier};
use base::{ButlerName, RequestContext, TenantId, Trust};
use store::{Store, StoreError};
use tools::{EgressGate, EgressRecipient, EgressTarget, GateDecision, ToolCall, ToolError};

/// A butler's doorkeeper. Cheap to clone.
#[derive(Clone)]
pub struct ApprovalGate {
    pub(super) butler: ButlerName,
    pub(super) store: Store,
    pub(super) actions: Actions,
    pub(super) settings: Arc<Settings>,
    /// Something new waits or was decided.
    pub(super) wake: Arc<Notify>,
    /// Tells whoever shows the owner what waits.
    pub(super) call: Arc<dyn Fn() + Send + Sync>,
}

/// Whether a session stands beside a stranger's words and private data both, as its row has it.
pub async fn risky(store: &Store, tenant: &TenantId, session: Uuid) -> Result<bool, StoreError> {
    let mut lease = store.tenant(tenant).await?;
    let sql = "SELECT trust, private_at IS NOT NULL FROM sessions WHERE id = $1";
    let row = lease.query_opt(sql, &[&session]).await.map_err(StoreError::query("asking what a session was shown"))?;
    // A session that is not on record is not to be trusted.
    Ok(row.is_none_or(|row| Trust::from_name(row.get(0)) == Trust::Stranger && row.get(1)))
}

impl ApprovalGate {
    /// `call` is told whenever something new waits for the owner.
    pub fn new(
        butler: &ButlerName,
        store: &Store,
        actions: Actions,
        settings: Settings,
        call: Arc<dyn Fn() + Send + Sync>,
    ) -> Self {
        Self {
            butler: butler.clone(),
            store: store.clone(),
            actions,
            settings: Arc::new(settings),
            wake: Arc::new(Notify::new()),
            call,
        }
    }

    /// Told when something was decided.
    pub fn wake(&self) {
        self.wake.notify_one();
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

    /// Parks what a session that has ended would have said by itself, as the call with which it would have said it.
    pub async fn park_reply(&self, session: Uuid, request: &RequestContext, text: &str) -> Result<Uuid, StoreError> {
        let args = json!({"intent": "reply", "message": text});
        let (channel, address) = (request.source_channel.clone(), request.source_sender_identity.clone());
        let recipient = Some(EgressRecipient { name: None, channel, address });
        let to = EgressTarget { outward: true, to: "whoever wrote the message".to_owned(), recipient };
        let new_action = NewAction {
            session,
            tool: "notify",
            args: &args,
            sensitive: &[],
            why: None,
            cause: Cause::Taint,
            to: Some(&to),
            risk_tier: self.tier("notify"),
            expiry_hours: self.settings.default_expiry_hours,
            request: &RequestContext { private: true, ..request.clone() }.with_trust_at_most(Trust::Stranger),
        };
        let (action, _) = self.actions.park(self.butler.as_str(), self.store.schema(), &new_action).await?;
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
        let Some(session) = call.session() else { return Ok(GateDecision::Allow) };
        let tenant = &call.context().tenant_id;
        let outward = egress_target.is_some_and(|egress_target| egress_target.outward);
        let tainted = outward && {
            // The row is what counts; what the token's holder knows can only be ahead of it.
            let known = call.caller.taint().is_some_and(|e| e.is_risky());
            known || risky(&self.store, tenant, session.0).await?
        };
        let gated = self.settings.gated(&call.def.name);
        let (cause, (risk_tier, expiry_hours)) = match gated {
            _ if tainted => {
                let terms = gated.unwrap_or((self.settings.default_risk_tier, self.settings.default_expiry_hours));
                (Cause::Taint, terms)
            }
            // What only the owner gets, the owner need not be asked for.
            Some(_) if egress_target.is_some_and(|egress_target| !egress_target.outward) => {
                return Ok(GateDecision::Allow);
            }
            Some(terms) => (Cause::Gated, terms),
            None => return Ok(GateDecision::Allow),
        };
        let args = Value::Object(call.args.clone());
        // A stranger's words may have come up since the call came in. What it is to carry on, the row says.
        let now_tainted = RequestContext { private: true, ..call.context().clone() };
        let now_tainted = tainted.then(|| now_tainted.with_trust_at_most(Trust::Stranger));
        let new_action = NewAction {
            session: session.0,
            tool: &call.def.name,
            args: &args,
            sensitive: &call.def.meta.sensitive,
            why,
            cause,
            to: egress_target.filter(|egress_target| egress_target.outward),
            risk_tier,
            expiry_hours,
            request: now_tainted.as_ref().unwrap_or(call.context()),
        };
        let butler = self.butler.as_str();
        // A rule was made for calls in general; that a stranger may be behind this one, it did not know.
        if cause == Cause::Gated && self.actions.by_rule(butler, &new_action, &call.args).await?.is_some() {
            return Ok(GateDecision::Allow);
        }
        let (action, _) = self.actions.park(butler, self.store.schema(), &new_action).await?;
        (self.call)();
        let why = match cause {
            Cause::Influenced => "somebody else than the owner has influenced this session",
            Cause::Gated => "it is one that the owner wants to see first",
            Cause::Taint => {
                "text from a stranger and private data have met in this session, and it would leave the household"
            }
        };
        Ok(GateDecision::Hold(json!({
            "status": "pending_approval", "action_id": action.id, "risk_tier": action.risk_tier,
            "expires_at": action.expires_at.to_string(),
            "message": format!("Not done yet: {why}. The owner was asked. Don't try another way; say that it waits, and \
                                end. You get a new session once it is decided."),
        })))
    }
}
