//! What becomes of a session's row: opened, running, closed.

use uuid::Uuid;

pub(in crate::sql) const NOTE_TAINT: &str =
    "UPDATE sessions SET exposed_at = CASE WHEN trust <> $2 THEN coalesce(exposed_at, shared.clock()) ELSE exposed_at END,
            trust = $2, audience = $3
     WHERE id = $1";

/// The row of a new session.
pub const OPEN: &str = "INSERT INTO sessions (id, request_id, parent_session_id, trigger_source, state, context, trust,
        prompt, runtime, model, trace_id, queued_at, retry_of, route_id, run_id, node, remember)
    VALUES ($1, $2, $3, $4, 'queued', $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15,
            CASE WHEN $16 THEN 'pending' END)";

/// What a running session has used so far.
pub const SPENT: &str = "UPDATE sessions SET input_tokens = $2, output_tokens = $3, cached_input_tokens = $4,
        cache_creation_tokens = $5, turns = coalesce($6, turns), cost_usd = $7, usage_by_model = $8
    WHERE id = $1 AND state IN ('queued', 'running')";

/// The session has its slot.
pub const RUNNING: &str = "UPDATE sessions SET state = 'running', started_at = $2::timestamptz, system_prompt = $3,
        memory = $4, trust = $5, exposed_at = CASE WHEN trust <> $5 THEN $2 END, audience = $6,
        prompt_sha256 = shared.keep_system_prompt($7, $8), prompt_notes = nullif($9, ''),
        tool_tokens = $10
    WHERE id = $1 AND state = 'queued'";

/// The process of its child.
pub const CHILD: &str = "UPDATE sessions SET pid = $2, pid_started = $3, boot_id = $4 WHERE id = $1";

store::row! {
    /// A row that was closed.
    pub struct ClosedRow {
        pub duration_ms: i64,
        pub tool_calls: i64,
    }
}

/// Closes the row of a session that is open. `{count}` is the number of its calls.
pub const CLOSE: &str = "UPDATE sessions SET state = $2, result = $3, error_class = $4, error = $5,
        turns = coalesce($6, turns),
        input_tokens = coalesce($7, input_tokens), output_tokens = coalesce($8, output_tokens),
        cached_input_tokens = coalesce($9, cached_input_tokens),
        cache_creation_tokens = coalesce($10, cache_creation_tokens),
        cost_usd = CASE WHEN $14::jsonb IS NULL THEN coalesce($11, cost_usd) ELSE $11 END,
        usage_by_model = coalesce($14, usage_by_model), exit_status = $12, completed_at = greatest($13, queued_at),
        duration_ms = greatest(0, (extract(epoch FROM $13::timestamptz - queued_at) * 1000)::bigint)
    WHERE id = $1 AND state IN ('queued', 'running')
    RETURNING duration_ms, {count} AS tool_calls";

store::row! {
    /// A row that was left open.
    pub struct OpenRow {
        pub id: Uuid,
        pub pid: Option<i32>,
        pub pid_started: Option<i64>,
        pub boot_id: Option<String>,
        pub own: Option<bool>,
    }
}

/// Closes what is open of `{schema}` and is this node's (`$2`), if `$3` says so, or that of a node not among `{nodes}`.
/// With `$4`, what other nodes have open that works on this route or run.
pub const INTERRUPT: &str = "UPDATE \"{schema}\".sessions SET state = 'interrupted',
        completed_at = greatest($1, queued_at), error_class = 'interrupted',
        error = 'butlerd stopped before this session was over'
    WHERE state IN ('queued', 'running')
      AND CASE WHEN $4::uuid IS NOT NULL THEN node <> $2 AND $4 IN (route_id, run_id)
               WHEN coalesce(node, $2) = $2 THEN $3 ELSE node NOT IN {nodes} END
    RETURNING id, pid, pid_started, boot_id, node = $2 AS own";
