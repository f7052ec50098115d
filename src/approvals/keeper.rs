//! The decision at the door: whether a session's call may be made now, or waits for a person.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::Notify;
use uuid::Uuid;

use super::actions::Actions;
use super::settings::Settings;
use super::types::{Cause, RiskTier, Wish};
use base::{ButlerName, RequestContext, TenantId, Trust};
use store::{Store, StoreError};
use tools::{Aim, Doorkeeper, Passage, ToolCall, ToolError};

/// A butler's doorkeeper. Cheap to clone.
#[derive(Clone)]
pub struct Keeper {
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

impl Keeper {
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
        let wish = Wish {
            session,
            tool: "notify",
            args: &args,
            sensitive: &[],
            why: None,
            cause: Cause::Exposure,
            to: Some("whoever wrote the message"),
            risk_tier: self.tier("notify"),
            expiry_hours: self.settings.default_expiry_hours,
            request: &RequestContext { private: true, ..request.clone() }.with_trust_at_most(Trust::Stranger),
        };
        let (action, _) = self.actions.park(self.butler.as_str(), self.store.schema(), &wish).await?;
        (self.call)();
        Ok(action.id)
    }
}

#[async_trait]
impl Doorkeeper for Keeper {
    fn gated(&self, tool: &str) -> bool {
        self.settings.gated(tool).is_some()
    }

    async fn ask(&self, call: &ToolCall, aim: Option<&Aim>, why: Option<&str>) -> Result<Passage, ToolError> {
        let Some(session) = call.session() else { return Ok(Passage::Free) };
        let tenant = &call.context().tenant_id;
        let outward = aim.is_some_and(|aim| aim.outward);
        let exposed = outward && {
            // The row is what counts; what the token's holder knows can only be ahead of it.
            let known = call.caller.exposure().is_some_and(|e| e.is_risky());
            known || risky(&self.store, tenant, session.0).await?
        };
        let gated = self.settings.gated(&call.def.name);
        let (cause, (risk_tier, expiry_hours)) = match gated {
            _ if exposed => {
                let terms = gated.unwrap_or((self.settings.default_risk_tier, self.settings.default_expiry_hours));
                (Cause::Exposure, terms)
            }
            // What only the owner gets, the owner need not be asked for.
            Some(_) if aim.is_some_and(|aim| !aim.outward) => return Ok(Passage::Free),
            Some(terms) => (Cause::Gated, terms),
            None => return Ok(Passage::Free),
        };
        let args = Value::Object(call.args.clone());
        // A stranger's words may have come up since the call came in. What it is to carry on, the row says.
        let now_exposed = RequestContext { private: true, ..call.context().clone() };
        let now_exposed = exposed.then(|| now_exposed.with_trust_at_most(Trust::Stranger));
        let wish = Wish {
            session: session.0,
            tool: &call.def.name,
            args: &args,
            sensitive: &call.def.meta.sensitive,
            why,
            cause,
            to: aim.filter(|aim| aim.outward).map(|aim| aim.to.as_str()),
            risk_tier,
            expiry_hours,
            request: now_exposed.as_ref().unwrap_or(call.context()),
        };
        let butler = self.butler.as_str();
        // A rule was made for calls in general; that a stranger may be behind this one, it did not know.
        if cause == Cause::Gated && self.actions.by_rule(butler, &wish, &call.args).await?.is_some() {
            return Ok(Passage::Free);
        }
        let (action, _) = self.actions.park(butler, self.store.schema(), &wish).await?;
        (self.call)();
        let why = match cause {
            Cause::Gated => "it is one that the owner wants to see first",
            Cause::Exposure => {
                "text from a stranger and private data have met in this session, and it would leave the household"
            }
        };
        Ok(Passage::Parked(json!({
            "status": "pending_approval", "action_id": action.id, "risk_tier": action.risk_tier,
            "expires_at": action.expires_at.to_string(),
            "message": format!("Not done yet: {why}. The owner was asked. Don't try another way; say that it waits, and \
                                end. You get a new session once it is decided."),
        })))
    }
}
