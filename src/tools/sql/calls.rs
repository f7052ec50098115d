//! The statements on `tool_calls`, and the pieces of SQL by which statements of others look at it.

use uuid::Uuid;

use super::audited::{AuditedCall, COLUMNS};
use crate::call::{ToolCall, ToolError};
use store::{Aged, Lease, StoreError};

/// Calls that are kept for looking back. One that was let through stays: by its row it has its effect once.
pub const OLD: Aged = Aged {
    table: "tool_calls",
    old: "called_at < $1 AND NOT (outcome = 'ok' AND effect <> 'none' AND caller LIKE 'approval %')",
};

/// How many calls a row of `sessions` has.
pub const COUNT: &str = "(SELECT count(*) FROM tool_calls c WHERE c.session_id = sessions.id)";

/// The calls of a session that may have changed something, as columns `id`, `tool` and `called_at`. `session` is SQL.
pub fn changing(schema: &str, session: &str) -> String {
    format!(
        "(SELECT c.id, c.tool, c.called_at FROM \"{schema}\".tool_calls c
          WHERE c.session_id = {session} AND c.effect <> 'none' AND c.outcome <> 'refused')"
    )
}

/// Whether a session changed anything. `session` is SQL.
pub fn any_effect(schema: &str, session: &str) -> String {
    format!(
        "EXISTS (SELECT FROM \"{schema}\".tool_calls t
                 WHERE t.session_id = {session} AND t.effect <> 'none' AND t.outcome = 'ok')"
    )
}

/// The first calls of a session as an array of `tool`, `outcome` and `arguments`. `session` is SQL.
pub fn first(schema: &str, session: &str, most: u32) -> String {
    format!(
        "(SELECT coalesce(jsonb_agg(jsonb_build_object('tool', c.tool, 'outcome', c.outcome, 'arguments', c.arguments)
                                    ORDER BY c.id), '[]')
          FROM (SELECT * FROM \"{schema}\".tool_calls t WHERE t.session_id = {session} ORDER BY t.id LIMIT {most}) c)"
    )
}

/// The calls of a session, in their order.
pub async fn of_session(call: &ToolCall, session: Uuid) -> Result<Vec<AuditedCall>, ToolError> {
    let sql = format!("SELECT {COLUMNS} FROM tool_calls WHERE session_id = $1 ORDER BY called_at, id");
    Ok(call.query(&sql, &[&session]).await?.iter().map(AuditedCall::from).collect())
}

/// The calls that people and programs made for these requests, outside of sessions.
pub async fn outside_of_sessions(
    lease: &mut Lease,
    requests: &[Uuid],
    most: i64,
) -> Result<Vec<AuditedCall>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM tool_calls WHERE request_id = ANY($1) AND session_id IS NULL ORDER BY called_at, id LIMIT $2"
    );
    let rows =
        lease.read(&sql, &[&requests, &most]).await.map_err(StoreError::query("reading the calls of a trace"))?;
    Ok(rows.iter().map(AuditedCall::from).collect())
}

/// Whether a call that a session made as this caller went well. Its row is committed with its effect.
pub async fn went_well(lease: &mut Lease, session: Uuid, caller: &str) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM tool_calls WHERE session_id = $1 AND caller = $2 AND outcome = 'ok'";
    let rows = lease.read(sql, &[&session, &caller]).await;
    Ok(!rows.map_err(StoreError::query("looking for a call on record"))?.is_empty())
}

/// How many calls of a session are on record.
pub async fn count(lease: &mut Lease, session: Uuid) -> Result<i64, StoreError> {
    let rows = lease.read("SELECT count(*) FROM tool_calls WHERE session_id = $1", &[&session]).await;
    let rows = rows.map_err(StoreError::query("counting a session's tool calls"))?;
    Ok(rows.first().map_or(0, |r| r.get(0)))
}
