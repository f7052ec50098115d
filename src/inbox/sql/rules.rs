//! The statements on `triage_rules`.

use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::triage::Rule;
use store::{AsRows, Lease, StoreError};
use tools::{ToolCall, ToolError};

store::row! {
    /// A rule on record.
    #[derive(Serialize)]
    pub struct RuleRow {
        pub id: Uuid,
        pub position: i32,
        pub kind: String,
        pub pattern: String,
        pub action: String,
        pub butler: Option<String>,
        pub enabled: bool,
        pub note: Option<String>,
    }
}

const COLUMNS: &str = "id, position, kind, pattern, action, butler, enabled, note";
const LIST: &str = "SELECT id, position, kind, pattern, action, butler, enabled, note FROM triage_rules
    ORDER BY position, id";
/// Between the positions of rules that name none, so that others fit in.
const STEP: i32 = 10;

/// The rules of a tenant, in their order.
pub async fn list(lease: &mut Lease) -> Result<Vec<RuleRow>, StoreError> {
    lease.read(LIST, &[]).await.typed().map_err(StoreError::query("reading the triage rules"))
}

/// The rules, as a call shows them.
pub async fn shown(call: &ToolCall) -> Result<Value, ToolError> {
    Ok(call.query(LIST, &[]).await?.iter().map(|row| json!(RuleRow::from(row))).collect())
}

/// Adds a rule as the call's effect; without a position it comes last.
pub async fn add(call: &ToolCall, rule: &Rule, position: Option<i32>) -> Result<Option<RuleRow>, ToolError> {
    let sql = format!(
        "INSERT INTO triage_rules (id, position, kind, pattern, action, butler, note)
         VALUES ($1, coalesce($2, (SELECT coalesce(max(position), 0) + $8 FROM triage_rules)), $3, $4, $5, $6, $7)
         RETURNING {COLUMNS}"
    );
    let (kind, action) = (rule.kind.as_str(), rule.action.as_str());
    call.effect(&sql, &[&rule.id, &position, &kind, &rule.pattern, &action, &rule.butler, &rule.note, &STEP])
        .await
        .first_typed()
}

/// Changes of a rule what is given, as the call's effect.
pub async fn update(
    call: &ToolCall,
    id: Uuid,
    (enabled, position, note): (Option<bool>, Option<i32>, Option<&str>),
) -> Result<Option<RuleRow>, ToolError> {
    let sql = format!(
        "UPDATE triage_rules SET enabled = coalesce($2, enabled), position = coalesce($3, position),
                note = coalesce($4, note), updated_at = shared.clock()
         WHERE id = $1 RETURNING {COLUMNS}"
    );
    Ok(call.effect(&sql, &[&id, &enabled, &position, &note]).await?.first().map(RuleRow::from))
}

/// Removes a rule as the call's effect.
pub async fn remove(call: &ToolCall, id: Uuid) -> Result<Option<RuleRow>, ToolError> {
    let sql = format!("DELETE FROM triage_rules WHERE id = $1 RETURNING {COLUMNS}");
    Ok(call.effect(&sql, &[&id]).await?.first().map(RuleRow::from))
}
