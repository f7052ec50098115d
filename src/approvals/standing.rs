//! The rows of standing rules.

use serde_json::{Value, json};
use tokio_postgres::Row;
use uuid::Uuid;

use super::actions::{Actions, DecideError, failed, note};
use super::decisions::seen_whole;
use super::gate::ApprovalGate;
use super::rules::{Constraints, Draft, Rule, suggested};
use super::types::RiskTier;
use base::{TenantId, Trust};
use store::StoreError;

const COLUMNS: &str =
    "id, butler, tool_name, arg_constraints, description, created_from, created_by, created_at, expires_at,
    max_uses, use_count, active, trust, also_influenced_by";

fn rule(row: &Row) -> Rule {
    Rule {
        id: row.get(0),
        butler: row.get(1),
        tool_name: row.get(2),
        arg_constraints: row.get(3),
        description: row.get(4),
        created_from: row.get(5),
        created_by: row.get(6),
        created_at: row.get(7),
        expires_at: row.get(8),
        max_uses: row.get(9),
        use_count: row.get(10),
        active: row.get(11),
        trust: Trust::from_name(row.get(12)),
        also_influenced_by: row.get(13),
    }
}

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
        let sql = format!(
            "INSERT INTO shared.approval_rules (id, tenant_id, butler, tool_name, arg_constraints, description,
                 created_from, created_by, created_at, expires_at, max_uses, also_influenced_by, trust)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,
                     coalesce((SELECT trust FROM shared.pending_actions WHERE id = $7 AND tenant_id = $2), 'owner'))
             RETURNING {COLUMNS}"
        );
        let row = tx
            .query(
                &sql,
                &[
                    &Uuid::now_v7(),
                    &tenant.as_str(),
                    &butler,
                    &draft.tool_name,
                    &draft.constraints.write(),
                    &draft.description,
                    &draft.created_from,
                    &actor,
                    &self.clock.now(),
                    &draft.expires_at,
                    &draft.max_uses,
                    &draft.also_influenced_by,
                ],
            )
            .await
            .map_err(failed())?;
        let made = rule(&row[0]);
        let meta = json!({"tool": made.tool_name});
        note(&mut tx, tenant, draft.created_from, Some(made.id), "rule_created", actor, Some(&made.description), meta)
            .await?;
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
        let sql = format!(
            "SELECT {COLUMNS} FROM shared.approval_rules
             WHERE tenant_id = $1 AND ($2::text IS NULL OR butler = $2) AND ($3::text IS NULL OR tool_name = $3)
               AND (active OR NOT $4) ORDER BY created_at DESC, id"
        );
        let mut lease = self.db.shared(tenant).await?;
        let rows = lease.read(&sql, &[&tenant.as_str(), &butler, &tool, &active_only]).await.map_err(failed())?;
        Ok(rows.iter().map(rule).collect())
    }

    /// One rule.
    pub async fn rule(&self, tenant: &TenantId, id: Uuid) -> Result<Option<Rule>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM shared.approval_rules WHERE tenant_id = $1 AND id = $2");
        let mut lease = self.db.shared(tenant).await?;
        let rows = lease.read(&sql, &[&tenant.as_str(), &id]).await.map_err(failed())?;
        Ok(rows.first().map(rule))
    }

    /// Ends a rule. `false`: it does not stand.
    pub async fn revoke_rule(&self, tenant: &TenantId, id: Uuid, actor: &str) -> Result<bool, StoreError> {
        let mut lease = self.db.shared(tenant).await?;
        let mut tx = lease.begin().await.map_err(failed())?;
        let sql = "UPDATE shared.approval_rules SET active = false WHERE id = $1 AND tenant_id = $2 AND active";
        let ended = tx.execute(sql, &[&id, &tenant.as_str()]).await.map_err(failed())? == 1;
        if ended {
            note(&mut tx, tenant, None, Some(id), "rule_revoked", actor, None, json!({})).await?;
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
        let mut lease = self.db.shared(tenant).await?;
        let sql = "SELECT butler, tool_name, risk_tier, tool_args, args_shown FROM shared.pending_actions
                   WHERE id = $1 AND tenant_id = $2";
        let row = lease.query_opt(sql, &[&action, &tenant.as_str()]).await.map_err(failed())?;
        let row = row.ok_or(DecideError::Unknown(action))?;
        let args: Value = serde_json::from_str(row.get(3)).unwrap_or_default();
        let constraints = suggested(&args.as_object().cloned().unwrap_or_default(), &row.get(4));
        Ok((row.get(0), row.get(1), RiskTier::from_name(row.get(2)), constraints))
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
