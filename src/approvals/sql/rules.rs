//! The rows of standing rules.

use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use super::failed;
use crate::rules::Rule;
use base::TenantId;
use store::{AsRows, Lease, StoreError, Tx};

const COLUMNS: &str =
    "id, butler, tool_name, arg_constraints, description, created_from, created_by, created_at, expires_at,
    max_uses, use_count, active, trust, also_influenced_by";

/// A rule that is to be made.
pub(crate) struct NewRule<'a> {
    pub butler: &'a str,
    pub tool: &'a str,
    pub constraints: &'a Value,
    pub description: &'a str,
    /// The call that it is for calls like, whose trust it has.
    pub created_from: Option<Uuid>,
    pub created_by: &'a str,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub max_uses: Option<i32>,
    pub also_influenced_by: &'a [String],
}

/// Makes a rule.
pub(crate) async fn create_rule(tx: &mut Tx<'_>, tenant: &TenantId, new: &NewRule<'_>) -> Result<Rule, StoreError> {
    let sql = format!(
        "INSERT INTO shared.approval_rules (id, tenant_id, butler, tool_name, arg_constraints, description,
             created_from, created_by, created_at, expires_at, max_uses, also_influenced_by, trust)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,
                 coalesce((SELECT trust FROM shared.pending_actions WHERE id = $7 AND tenant_id = $2), 'owner'))
         RETURNING {COLUMNS}"
    );
    let params: store::Params<'_> = &[
        &Uuid::now_v7(),
        &tenant.as_str(),
        &new.butler,
        &new.tool,
        new.constraints,
        &new.description,
        &new.created_from,
        &new.created_by,
        &new.created_at,
        &new.expires_at,
        &new.max_uses,
        &new.also_influenced_by,
    ];
    let rows = tx.query(&sql, params).await.map_err(failed())?;
    Ok(Rule::from(&rows[0]))
}

/// Uses up one allowance of a rule, in the row itself: its last use may have been taken meanwhile. `false`: it has
/// none.
pub(crate) async fn use_up(tx: &mut Tx<'_>, tenant: &TenantId, id: Uuid, now: Timestamp) -> Result<bool, StoreError> {
    let sql = "UPDATE shared.approval_rules SET use_count = use_count + 1
               WHERE id = $1 AND tenant_id = $3 AND active AND (expires_at IS NULL OR expires_at > $2)
                 AND (max_uses IS NULL OR use_count < max_uses)";
    Ok(tx.execute(sql, &[&id, &now, &tenant.as_str()]).await.map_err(failed())? == 1)
}

/// Rules, newest first.
pub(crate) async fn rules(
    lease: &mut Lease,
    tenant: &TenantId,
    (butler, tool): (Option<&str>, Option<&str>),
    active_only: bool,
) -> Result<Vec<Rule>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM shared.approval_rules
         WHERE tenant_id = $1 AND ($2::text IS NULL OR butler = $2) AND ($3::text IS NULL OR tool_name = $3)
           AND (active OR NOT $4) ORDER BY created_at DESC, id"
    );
    lease.read(&sql, &[&tenant.as_str(), &butler, &tool, &active_only]).await.typed().map_err(failed())
}

/// One rule.
pub(crate) async fn one_rule(lease: &mut Lease, tenant: &TenantId, id: Uuid) -> Result<Option<Rule>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM shared.approval_rules WHERE tenant_id = $1 AND id = $2");
    lease.read(&sql, &[&tenant.as_str(), &id]).await.first_typed().map_err(failed())
}

/// Ends a rule. `false`: it does not stand.
pub(crate) async fn revoke_rule(tx: &mut Tx<'_>, tenant: &TenantId, id: Uuid) -> Result<bool, StoreError> {
    let sql = "UPDATE shared.approval_rules SET active = false WHERE id = $1 AND tenant_id = $2 AND active";
    Ok(tx.execute(sql, &[&id, &tenant.as_str()]).await.map_err(failed())? == 1)
}
