//! What memory told to sessions, and what it tells of the sessions that its memories come from.

use std::collections::HashSet;

use serde_json::Value;
use uuid::Uuid;

use store::{Lease, StoreError};
use tools::{ToolCall, ToolError};

/// The memories that were told to these sessions before they began.
pub async fn told_by_memory(lease: &mut Lease, schema: &str, sessions: &[Uuid]) -> Result<HashSet<Uuid>, StoreError> {
    let sql = format!("SELECT memory -> 'ids' AS ids FROM \"{schema}\".sessions WHERE id = ANY($1)");
    let rows = lease.read(&sql, &[&sessions]).await.map_err(StoreError::query("reading what sessions were told"))?;
    let told: Vec<Option<Value>> = rows.iter().map(|row| row.get("ids")).collect();
    let ids = told.iter().flatten().filter_map(Value::as_array).flatten();
    Ok(ids.filter_map(Value::as_str).filter_map(|id| id.parse().ok()).collect())
}

/// What is told of the session that a memory comes from.
pub async fn source(call: &ToolCall, session: Uuid) -> Result<Option<Value>, ToolError> {
    let sql = "
    SELECT jsonb_build_object('session_id', s.id, 'state', s.state, 'trigger_source', s.trigger_source, 'trust', s.trust,
                              'prompt', left(s.prompt, 500), 'started_at', s.started_at,
                              'channel', s.context #>> '{request,source_channel}',
                              'sender', s.context #>> '{request,source_sender_identity}') AS source
    FROM sessions s WHERE s.id = $1";
    Ok(call.query(sql, &[&session]).await?.first().map(|row| row.get("source")))
}
