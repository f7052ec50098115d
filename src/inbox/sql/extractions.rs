//! The statements on `extraction_log`: what was taken out of messages.

use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use store::AsRows;
use tools::{ToolCall, ToolError};

/// Notes what the call says, as its effect. Returns the entry's id.
pub async fn add(call: &ToolCall, contact: Option<Uuid>) -> Result<Option<Uuid>, ToolError> {
    let sql = "INSERT INTO extraction_log (id, request_id, session_id, butler, extraction_type, tool_name, tool_args,
                   target_contact_id, confidence, source_message_preview, source_channel)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) RETURNING id";
    let params: store::Params<'_> = &[
        &Uuid::now_v7(),
        &call.context().request_id.0,
        &call.session().map(|s| s.0),
        &call.text("butler"),
        &call.text("extraction_type"),
        &call.text("tool_name"),
        &call.args.get("tool_args"),
        &contact,
        &call.text("confidence"),
        &call.text("source_message_preview"),
        &call.text("source_channel"),
    ];
    call.effect(sql, params).await.cell("id")
}

/// The newest entries as objects: of a person, a type, since a moment, where these are named.
pub async fn list(
    call: &ToolCall,
    contact: Option<Uuid>,
    kind: Option<&str>,
    since: Option<Timestamp>,
    limit: i64,
) -> Result<Vec<Value>, ToolError> {
    let sql = "SELECT id AS log_id, butler, extraction_type, tool_name, tool_args, target_contact_id, confidence,
                      source_message_preview, source_channel, request_id, created_at, undone_at
               FROM extraction_log
               WHERE ($1::uuid IS NULL OR target_contact_id = $1) AND ($2::text IS NULL OR extraction_type = $2)
                 AND ($3::timestamptz IS NULL OR created_at >= $3)
               ORDER BY seq DESC LIMIT $4";
    call.objects(sql, &[&contact, &kind, &since, &limit]).await
}

store::row! {
    /// An entry that was struck out.
    pub struct StruckOut {
        pub tool_name: String,
        pub butler: Option<String>,
    }
}

/// Strikes out an entry as the call's effect.
pub async fn strike_out(call: &ToolCall, id: Uuid) -> Result<Option<StruckOut>, ToolError> {
    let sql = "UPDATE extraction_log SET undone_at = shared.clock() WHERE id = $1 AND undone_at IS NULL
               RETURNING tool_name, butler";
    Ok(call.effect(sql, &[&id]).await?.first().map(StruckOut::from))
}

/// Whether there is such an entry.
pub async fn is_there(call: &ToolCall, id: Uuid) -> Result<bool, ToolError> {
    Ok(!call.query("SELECT 1 FROM extraction_log WHERE id = $1", &[&id]).await?.is_empty())
}
