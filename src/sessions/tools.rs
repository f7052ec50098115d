//! Tools over the session log: `sessions_list|get|summary|daily` and `top_sessions`.

use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use rust_decimal::Decimal;
use serde_json::{Value, json};
use tokio_postgres::Row;
use uuid::Uuid;

use tools::{Definition, Meta, Tool, ToolCall, ToolError, handler};

/// The tools over one butler's sessions.
pub fn session_tools() -> Vec<Tool> {
    static DEFS: OnceLock<Vec<Arc<Definition>>> = OnceLock::new();
    let defs = DEFS.get_or_init(definitions);
    let handlers = [
        handler(sessions_list),
        handler(sessions_get),
        handler(sessions_summary),
        handler(sessions_daily),
        handler(top_sessions),
    ];
    defs.iter().zip(handlers).map(|(d, h)| Tool::new(d, h)).collect()
}

fn definitions() -> Vec<Arc<Definition>> {
    let define = |name: &str, description: &str, properties: Value, required: Value| {
        let schema =
            json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
        // Prompts and results carry what strangers wrote.
        let meta = Meta { reads_untrusted: true, ..Meta::read() };
        Arc::new(Definition::new(name, description, schema, meta).expect("a schema in the source is right"))
    };
    let day = |d: &str| json!({"type": "string", "format": "date", "description": d});
    vec![
        define(
            "sessions_list",
            "List this butler's sessions, newest first.",
            json!({"limit": {"type": "integer", "minimum": 1, "maximum": 200, "default": 20},
                   "offset": {"type": "integer", "minimum": 0, "default": 0}}),
            json!([]),
        ),
        define(
            "sessions_get",
            "One session with its tool calls; null when there is none with this id.",
            json!({"session_id": {"type": "string", "format": "uuid"}}),
            json!(["session_id"]),
        ),
        define(
            "sessions_summary",
            "Count, tokens and cost of this butler's sessions over a period, in all and by model.",
            json!({"period": {"type": "string", "enum": ["today", "7d", "30d"], "default": "today"}}),
            json!([]),
        ),
        define(
            "sessions_daily",
            "Count, tokens and cost of this butler's sessions for each day.",
            json!({"from_date": day("First day"), "to_date": day("Last day")}),
            json!(["from_date", "to_date"]),
        ),
        define(
            "top_sessions",
            "The sessions that used most tokens.",
            json!({"limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 10},
                   "from_date": day("First day"), "to_date": day("Last day")}),
            json!([]),
        ),
    ]
}

pub(super) const COLUMNS: &str = "id, prompt, trigger_source, state, result, duration_ms, trace_id, model, runtime, cost_usd, error_class,
    error, input_tokens, output_tokens, cached_input_tokens, cache_creation_tokens, request_id, parent_session_id, retry_of, trust, turns,
    exposed_at, private_at, exit_status, queued_at, started_at, completed_at,
    (SELECT count(*) FROM tool_calls c WHERE c.session_id = sessions.id) AS tool_call_count";

/// Money as an exact decimal text; unknown stays null.
fn money(value: Option<Decimal>) -> Value {
    value.map_or(Value::Null, |d| Value::String(d.normalize().to_string()))
}

pub(super) fn show(row: &Row) -> Value {
    let text = |name: &str| row.get::<_, Option<String>>(name);
    let number = |name: &str| row.get::<_, Option<i64>>(name);
    let time = |name: &str| row.get::<_, Option<Timestamp>>(name).map(|t| t.to_string());
    let state: String = row.get("state");
    let over = row.get::<_, Option<Timestamp>>("completed_at").is_some();
    json!({
        "id": row.get::<_, Uuid>("id"), "prompt": text("prompt"), "trigger_source": text("trigger_source"),
        "state": state, "success": over.then(|| state == "succeeded"), "result": text("result"),
        "error_class": text("error_class"), "error": text("error"), "runtime": text("runtime"), "model": text("model"),
        "turns": row.get::<_, Option<i32>>("turns"), "tool_call_count": number("tool_call_count"),
        "input_tokens": number("input_tokens"), "output_tokens": number("output_tokens"),
        "cached_input_tokens": number("cached_input_tokens"),
        "cache_creation_tokens": number("cache_creation_tokens"),
        "cost_usd": money(row.get("cost_usd")), "duration_ms": number("duration_ms"), "trace_id": text("trace_id"),
        "request_id": row.get::<_, Uuid>("request_id"),
        "parent_session_id": row.get::<_, Option<Uuid>>("parent_session_id"), "trust": text("trust"),
        "exposed_at": time("exposed_at"), "private_at": time("private_at"),
        "retry_of": row.get::<_, Option<Uuid>>("retry_of"), "exit_status": text("exit_status"), "queued_at": time("queued_at"), "started_at": time("started_at"),
        "completed_at": time("completed_at"),
    })
}

fn number(call: &ToolCall, name: &str, default: i64) -> i64 {
    call.args.get(name).and_then(Value::as_i64).unwrap_or(default)
}

async fn sessions_list(call: ToolCall) -> Result<Value, ToolError> {
    let (limit, offset) = (number(&call, "limit", 20), number(&call, "offset", 0));
    let sql = format!("SELECT {COLUMNS} FROM sessions ORDER BY queued_at DESC, id DESC LIMIT $1 OFFSET $2");
    let rows = call.query(&sql, &[&limit, &offset]).await?;
    Ok(rows.iter().map(show).collect())
}

async fn sessions_get(call: ToolCall) -> Result<Value, ToolError> {
    let id: Uuid = call.text("session_id").and_then(|s| s.parse().ok()).unwrap_or_default();
    let rows = call.query(&format!("SELECT {COLUMNS} FROM sessions WHERE id = $1"), &[&id]).await?;
    let Some(row) = rows.first() else { return Ok(Value::Null) };
    let mut shown = show(row);
    let calls = call
        .query(
            "SELECT tool, arguments, outcome, detail, effect, called_at, duration_us, id FROM tool_calls
             WHERE session_id = $1 ORDER BY called_at, id",
            &[&id],
        )
        .await?;
    let calls: Value = calls
        .iter()
        .map(|r| {
            json!({"tool": r.get::<_, String>(0), "arguments": r.get::<_, Value>(1), "outcome": r.get::<_, String>(2),
                   "detail": r.get::<_, Option<String>>(3), "effect": r.get::<_, String>(4),
                   "called_at": r.get::<_, Timestamp>(5).to_string(), "duration_us": r.get::<_, i64>(6),
                   "id": r.get::<_, i64>(7)})
        })
        .collect();
    if let Value::Object(o) = &mut shown {
        o.insert("tool_calls".to_owned(), calls);
    }
    Ok(shown)
}

/// Sums that stay null where nothing is known: a session without token counts is not one with zero tokens.
const SUMS: &str = "count(*), count(*) FILTER (WHERE state = 'succeeded'), sum(input_tokens)::bigint,
    sum(output_tokens)::bigint, sum(cached_input_tokens)::bigint, sum(cache_creation_tokens)::bigint, sum(cost_usd),
    count(*) FILTER (WHERE cost_usd IS NULL AND completed_at IS NOT NULL)";

fn sums(row: &Row, from: usize) -> serde_json::Map<String, Value> {
    let count = |i: usize| row.get::<_, Option<i64>>(from + i);
    let Value::Object(shown) = json!({
        "total_sessions": count(0), "succeeded_sessions": count(1), "total_input_tokens": count(2),
        "total_output_tokens": count(3), "total_cached_input_tokens": count(4),
        "total_cache_creation_tokens": count(5), "total_cost_usd": money(row.get(from + 6)),
        "sessions_of_unknown_cost": count(7),
    }) else {
        unreachable!("the literal above is an object")
    };
    shown
}

async fn sessions_summary(call: ToolCall) -> Result<Value, ToolError> {
    let period = call.text("period").unwrap_or("today").to_owned();
    let days: i32 = match period.as_str() {
        "7d" => 7,
        "30d" => 30,
        _ => 1,
    };
    // From the start of the owner's day, `days` days back, today included.
    let since = "queued_at >= ((shared.today() - ($1::int - 1))::timestamp AT TIME ZONE current_setting('TimeZone'))";
    let all = call.query(&format!("SELECT {SUMS} FROM sessions WHERE {since}"), &[&days]).await?;
    let by_model = call
        .query(&format!("SELECT model, {SUMS} FROM sessions WHERE {since} GROUP BY model ORDER BY model"), &[&days])
        .await?;
    let mut shown = all.first().map(|r| sums(r, 0)).unwrap_or_default();
    shown.insert("period".to_owned(), json!(period));
    let models = by_model.iter().map(|r| {
        let mut m = sums(r, 1);
        m.insert("model".to_owned(), json!(r.get::<_, Option<String>>(0)));
        Value::Object(m)
    });
    shown.insert("by_model".to_owned(), models.collect());
    Ok(Value::Object(shown))
}

const DAY: &str = "(queued_at AT TIME ZONE current_setting('TimeZone'))::date";

async fn sessions_daily(call: ToolCall) -> Result<Value, ToolError> {
    let (from, to) = (date(&call, "from_date"), date(&call, "to_date"));
    if from > to {
        return Err(ToolError::refused("invalid_arguments", "from_date is after to_date."));
    }
    let sql = format!("SELECT {DAY} AS day, {SUMS} FROM sessions WHERE {DAY} BETWEEN $1 AND $2 GROUP BY 1 ORDER BY 1");
    let rows = call.query(&sql, &[&from, &to]).await?;
    let days = rows.iter().map(|r| {
        let mut d = sums(r, 1);
        d.insert("date".to_owned(), json!(r.get::<_, jiff::civil::Date>(0).to_string()));
        Value::Object(d)
    });
    Ok(json!({"days": days.collect::<Vec<_>>()}))
}

fn date(call: &ToolCall, name: &str) -> Option<jiff::civil::Date> {
    call.text(name).and_then(|d| d.parse().ok())
}

async fn top_sessions(call: ToolCall) -> Result<Value, ToolError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM sessions
         WHERE ($2::date IS NULL OR {DAY} >= $2) AND ($3::date IS NULL OR {DAY} <= $3)
         ORDER BY coalesce(input_tokens, 0) + coalesce(output_tokens, 0) DESC, queued_at DESC LIMIT $1"
    );
    let rows =
        call.query(&sql, &[&number(&call, "limit", 10), &date(&call, "from_date"), &date(&call, "to_date")]).await?;
    Ok(json!({"sessions": rows.iter().map(show).collect::<Vec<_>>()}))
}
