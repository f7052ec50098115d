//! Sessions as people and tools look at them.

use std::sync::LazyLock;

use jiff::Timestamp;
use jiff::civil::Date;
use rust_decimal::Decimal;
use serde_json::Value;
use tokio_postgres::Row;
use uuid::Uuid;

use store::{AsRows, Lease, StoreError};
use tools::sql::calls;
use tools::{ToolCall, ToolError};

/// How far the words of a session are believed.
pub const TRUST: &str = "SELECT trust FROM sessions WHERE id = $1";

store::row! {
    /// The composed system prompt of a session, and what its trigger came with.
    pub struct PromptRow {
        pub system_prompt: Option<String>,
        pub context: Value,
    }
}

pub const PROMPT: &str = "SELECT CASE WHEN s.prompt_sha256 IS NULL THEN s.system_prompt
        ELSE concat(p.parts[1], s.prompt_notes, p.parts[2], s.system_prompt) END AS system_prompt, s.context
    FROM sessions s LEFT JOIN system_prompts p ON p.tenant_id = s.tenant_id AND p.sha256 = s.prompt_sha256
    WHERE s.id = $1";

/// The traces of an id: a session's, a request's, a trace's own (`$2`); and those of the last sessions that `$4` started.
pub const TRACES: &str = "SELECT trace_id FROM sessions WHERE id = $1 OR request_id = $1 OR trace_id = $2
    UNION (SELECT trace_id FROM sessions WHERE trigger_source = $4 ORDER BY queued_at DESC LIMIT $3)";

/// Sessions whose ids are from `$1` to `$2`.
pub const IDS: &str = "SELECT id FROM sessions WHERE id BETWEEN $1 AND $2 ORDER BY id LIMIT $3";

/// Ids from `$1` to `$2` that [`TRACES`] takes: of sessions, requests and traces.
pub const TRACED_IDS: &str = "SELECT id FROM (
        SELECT id FROM sessions WHERE id BETWEEN $1 AND $2
        UNION SELECT request_id FROM sessions WHERE request_id BETWEEN $1 AND $2
        UNION SELECT trace_id::uuid FROM sessions
              WHERE trace_id BETWEEN replace($1::text, '-', '') AND replace($2::text, '-', '')) ids
    ORDER BY id LIMIT $3";

/// What the sessions of a schedule's run cost together. `run` is SQL.
pub fn cost_of_run(run: &str) -> String {
    format!("(SELECT sum(s.cost_usd)::text FROM sessions s WHERE s.run_id = {run})")
}

/// The sums of the sessions between two times by what started them, as rows of `source`, `sessions`, `unknown_cost`,
/// `tokens` and `cost_usd`. The times are SQL.
pub fn sums_by_source(from: &str, to: &str) -> String {
    format!(
        "(SELECT trigger_source AS source, count(*) AS sessions,
                 count(*) FILTER (WHERE cost_usd IS NULL AND completed_at IS NOT NULL) AS unknown_cost,
                 sum(coalesce(input_tokens, 0) + coalesce(output_tokens, 0))::bigint AS tokens, sum(cost_usd) AS cost_usd
          FROM sessions WHERE queued_at >= {from} AND queued_at < {to} GROUP BY trigger_source)"
    )
}

/// What is shown of a session.
static COLUMNS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "id, prompt, trigger_source, state, result, duration_ms, trace_id, model, runtime, cost_usd, error_class, error,
         input_tokens, output_tokens, cached_input_tokens, cache_creation_tokens, request_id, parent_session_id, retry_of,
         trust, turns, exposed_at, audience, exit_status, queued_at, started_at, completed_at, {} AS tool_call_count",
        calls::COUNT
    )
});

/// The sessions of these traces, in their order, with the request of each.
pub async fn of_traces(lease: &mut Lease, traces: &[String], most: i64) -> Result<Vec<Row>, StoreError> {
    let sql = format!(
        "SELECT {}, context -> 'request' AS request FROM sessions WHERE trace_id = ANY($1)
         ORDER BY queued_at, id LIMIT $2",
        *COLUMNS
    );
    lease.read(&sql, &[&traces, &most]).await.map_err(StoreError::query("reading a trace"))
}

/// The newest sessions.
pub async fn newest(call: &ToolCall, limit: i64, offset: i64) -> Result<Vec<Row>, ToolError> {
    let sql = format!("SELECT {} FROM sessions ORDER BY queued_at DESC, id DESC LIMIT $1 OFFSET $2", *COLUMNS);
    call.query(&sql, &[&limit, &offset]).await
}

/// The newest sessions queued before a moment, or at that moment with a lower id.
pub async fn newest_before(lease: &mut Lease, (at, id): (Timestamp, Uuid), limit: i64) -> Result<Vec<Row>, StoreError> {
    let sql = format!(
        "SELECT {} FROM sessions WHERE queued_at <= $1 AND (queued_at < $1 OR id < $2)
         ORDER BY queued_at DESC, id DESC LIMIT $3",
        *COLUMNS
    );
    lease.read(&sql, &[&at, &id, &limit]).await.map_err(StoreError::query("reading sessions"))
}

/// One session.
pub async fn one(call: &ToolCall, id: Uuid) -> Result<Option<Row>, ToolError> {
    let sql = format!("SELECT {} FROM sessions WHERE id = $1", *COLUMNS);
    Ok(call.query(&sql, &[&id]).await?.into_iter().next())
}

const DAY: &str = "(queued_at AT TIME ZONE current_setting('TimeZone'))::date";

/// The sessions that used most tokens, of some days or of all.
pub async fn top(call: &ToolCall, limit: i64, (from, to): (Option<Date>, Option<Date>)) -> Result<Vec<Row>, ToolError> {
    let sql = format!(
        "SELECT {} FROM sessions
         WHERE ($2::date IS NULL OR {DAY} >= $2) AND ($3::date IS NULL OR {DAY} <= $3)
         ORDER BY coalesce(input_tokens, 0) + coalesce(output_tokens, 0) DESC, queued_at DESC LIMIT $1",
        *COLUMNS
    );
    call.query(&sql, &[&limit, &from, &to]).await
}

store::row! {
    /// Sums that stay null where nothing is known: a session without token counts is not one with zero tokens.
    #[derive(serde::Serialize)]
    pub struct Sums {
        pub total_sessions: i64 = |row| row.get("sessions"),
        pub succeeded_sessions: i64 = |row| row.get("succeeded"),
        pub total_input_tokens: Option<i64> = |row| row.get("input"),
        pub total_output_tokens: Option<i64> = |row| row.get("output"),
        pub total_cached_input_tokens: Option<i64> = |row| row.get("cached_input"),
        pub total_cache_creation_tokens: Option<i64> = |row| row.get("cache_creation"),
        /// An exact decimal.
        pub total_cost_usd: Option<String> =
            |row| row.get::<_, Option<Decimal>>("cost_usd").map(|d| d.normalize().to_string()),
        pub sessions_of_unknown_cost: i64 = |row| row.get("unknown_cost"),
    }
}

const SUMS: &str = "count(*) AS sessions, count(*) FILTER (WHERE state = 'succeeded') AS succeeded,
    sum(input_tokens)::bigint AS input, sum(output_tokens)::bigint AS output,
    sum(cached_input_tokens)::bigint AS cached_input, sum(cache_creation_tokens)::bigint AS cache_creation,
    sum(cost_usd) AS cost_usd, count(*) FILTER (WHERE cost_usd IS NULL AND completed_at IS NOT NULL) AS unknown_cost";

/// The same of sums: of sessions that are there, and of days whose sessions are gone.
const SUMS_OF_SUMS: &str = "sum(sessions)::bigint AS sessions, sum(succeeded)::bigint AS succeeded,
    sum(input)::bigint AS input, sum(output)::bigint AS output, sum(cached_input)::bigint AS cached_input,
    sum(cache_creation)::bigint AS cache_creation, sum(cost_usd) AS cost_usd, sum(unknown_cost)::bigint AS unknown_cost";

/// What a day whose sessions are gone has of these.
const DAYS: &str =
    "sessions, succeeded, input, output, cached_input, cache_creation, cost_usd, unknown_cost FROM session_days";

/// From the start of the owner's day, `$1` days back, today included.
const SINCE: &str =
    "queued_at >= ((shared.today() - ($1::int - 1))::timestamp AT TIME ZONE current_setting('TimeZone'))";
const DAY_SINCE: &str = "day >= shared.today() - ($1::int - 1)";

/// The sums of the last days.
pub async fn all_sums(call: &ToolCall, days: i32) -> Result<Option<Sums>, ToolError> {
    let sql = format!(
        "SELECT {SUMS_OF_SUMS} FROM (SELECT {SUMS} FROM sessions WHERE {SINCE}
         UNION ALL SELECT {DAYS} WHERE cut = 'source' AND {DAY_SINCE}) parts"
    );
    call.query(&sql, &[&days]).await.first_typed()
}

/// The sums of the last days by model.
pub async fn by_model(call: &ToolCall, days: i32) -> Result<Vec<(Option<String>, Sums)>, ToolError> {
    let sql = format!(
        "SELECT model, {SUMS_OF_SUMS} FROM (SELECT model, {SUMS} FROM sessions WHERE {SINCE} GROUP BY model
         UNION ALL SELECT nullif(what, ''), {DAYS} WHERE cut = 'model' AND {DAY_SINCE}) parts GROUP BY model ORDER BY model"
    );
    Ok(call.query(&sql, &[&days]).await?.iter().map(|row| (row.get("model"), row.into())).collect())
}

/// The sums of each day between two, both included.
pub async fn by_day(call: &ToolCall, from: Option<Date>, to: Option<Date>) -> Result<Vec<(Date, Sums)>, ToolError> {
    let sql = format!(
        "SELECT day, {SUMS_OF_SUMS} FROM (
             SELECT {DAY} AS day, {SUMS} FROM sessions WHERE {DAY} BETWEEN $1 AND $2 GROUP BY 1
             UNION ALL SELECT day, {DAYS} WHERE cut = 'source' AND day BETWEEN $1 AND $2) parts GROUP BY 1 ORDER BY 1"
    );
    Ok(call.query(&sql, &[&from, &to]).await?.iter().map(|row| (row.get("day"), row.into())).collect())
}
