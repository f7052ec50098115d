//! Making, ending and suggesting standing rules.

use serde_json::{Value, json};
use uuid::Uuid;

use super::actions::{Actions, DecideError};
use super::decisions::seen_whole;
use super::gate::ApprovalGate;
use super::rules::{Constraints, Draft, Rule, suggested};
use super::sql::{self, NewEvent, NewRule, failed};
use super::types::RiskTier;
use base::TenantId;
use store::StoreError;

impl Actions {
    /// Makes a rule for a tool of this tier.
    pub async fn create_rule(
        &self,
        tenant: &TenantId,
        butler: &str,
        draft: &Draft,
        tier: RiskTier,
        actor: &str,
    ) -> Result<Rule, DecideError> {
        draft.check(tier, self.clock.now())?;
        let like = match draft.created_from {
            Some(action) => self.get(tenant, action).await?.filter(|action| action.pages().len() > 1),
            None => None,
        };
        let mut lease = self.db.shared(tenant).await?;
        let mut tx = lease.begin().await.map_err(failed())?;
        if let Some(action) = like {
            // The rule is for just what it does, so whoever makes it must have seen that.
            seen_whole(&mut tx, tenant, &action, actor).await?;
        }
        let new = NewRule {
            butler,
            tool: &draft.tool_name,
            constraints: &draft.constraints.write(),
            description: &draft.description,
            created_from: draft.created_from,
            created_by: actor,
            created_at: self.clock.now(),
            expires_at: draft.expires_at,
            max_uses: draft.max_uses,
            also_influenced_by: &draft.also_influenced_by,
        };
        let made = sql::create_rule(&mut tx, tenant, &new).await?;
        let created = NewEvent {
            action: draft.created_from,
            rule: Some(made.id),
            what: "rule_created",
            actor,
            reason: Some(&made.description),
            meta: json!({"tool": made.tool_name}),
        };
        sql::note(&mut tx, tenant, &created).await?;
        tx.commit().await.map_err(failed())?;
        Ok(made)
    }

    /// Rules, newest first.
    pub async fn rules(
        &self,
        tenant: &TenantId,
        butler: Option<&str>,
        tool: Option<&str>,
        active_only: bool,
    ) -> Result<Vec<Rule>, StoreError> {
        sql::rules(&mut self.db.shared(tenant).await?, tenant, (butler, tool), active_only).await
    }

    /// One rule.
    pub async fn rule(&self, tenant: &TenantId, id: Uuid) -> Result<Option<Rule>, StoreError> {
        sql::one_rule(&mut self.db.shared(tenant).await?, tenant, id).await
    }

    /// Ends a rule. `false`: it does not stand.
    pub async fn revoke_rule(&self, tenant: &TenantId, id: Uuid, actor: &str) -> Result<bool, StoreError> {
        let mut lease = self.db.shared(tenant).await?;
        let mut tx = lease.begin().await.map_err(failed())?;
        let ended = sql::revoke_rule(&mut tx, tenant, id).await?;
        if ended {
            let (what, meta) = ("rule_revoked", json!({}));
            let revoked = NewEvent { action: None, rule: Some(id), what, actor, reason: None, meta };
            sql::note(&mut tx, tenant, &revoked).await?;
        }
        tx.commit().await.map_err(failed())?;
        Ok(ended)
    }

    /// Constraints that would allow a wish as it is, and for which tool of which butler and tier.
    pub async fn suggest(
        &self,
        tenant: &TenantId,
        action: Uuid,
    ) -> Result<(String, String, RiskTier, Constraints), DecideError> {
        let row = sql::to_suggest_from(&mut self.db.shared(tenant).await?, tenant, action).await?;
        let row = row.ok_or(DecideError::Unknown(action))?;
        let args: Value = serde_json::from_str(&row.tool_args).unwrap_or_default();
        let constraints = suggested(&args.as_object().cloned().unwrap_or_default(), &row.args_shown);
        Ok((row.butler, row.tool_name, RiskTier::from_name(&row.risk_tier), constraints))
    }
}

impl ApprovalGate {
    /// A rule for calls like this one: the same arguments, but for those that are overridden. It has no end yet.
    pub async fn draft_like(
        &self,
        tenant: &TenantId,
        action: Uuid,
        overrides: Constraints,
        description: Option<&str>,
    ) -> Result<Draft, DecideError> {
        let (butler, tool_name, _, mut constraints) = self.actions.suggest(tenant, action).await?;
        if butler != self.butler.as_str() {
            return Err(DecideError::Unknown(action));
        }
        constraints.0.extend(overrides.0);
        let description = description.map_or_else(|| format!("calls of {tool_name} like {action}"), str::to_owned);
        let created_from = Some(action);
        let also_influenced_by = Vec::new();
        Ok(Draft {
            tool_name,
            constraints,
            also_influenced_by,
            description,
            expires_at: None,
            max_uses: None,
            created_from,
        })
    }

    /// Makes a rule, if there may be such a one.
    pub async fn allow(&self, tenant: &TenantId, draft: &Draft, actor: &str) -> Result<Rule, DecideError> {
        if !self.gated_tools().any(|gated| gated == draft.tool_name) {
            return Err(DecideError::NotGated(draft.tool_name.clone()));
        }
        self.actions.create_rule(tenant, self.butler.as_str(), draft, self.tier(&draft.tool_name), actor).await
    }
}
