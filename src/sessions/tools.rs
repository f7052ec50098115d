//! Tools over the session log: `sessions_list|get|summary|daily` and `top_sessions`.

use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use rust_decimal::Decimal;
use serde_json::{Value, json};
use tokio_postgres::Row;
use uuid::Uuid;

use super::sql;
use base::{Label, SessionId, Trust};
use tools::sql::calls;
use tools::{Definition, Meta, Tool, ToolCall, ToolError, handler};

/// The tools over one butler's sessions.
pub fn session_tools() -> Vec<Tool> {
    static DEFS: LazyLock<Vec<Arc<Definition>>> = LazyLock::new(definitions);
    let handlers = [
        handler(sessions_list),
        handler(sessions_get),
        handler(sessions_summary),
        handler(sessions_daily),
        handler(top_sessions),
    ];
    DEFS.iter().zip(handlers).map(|(d, h)| Tool::new(d, h)).collect()
}

fn definitions() -> Vec<Arc<Definition>> {
    let define = |name: &str, description: &str, properties: Value, required: Value| {
        // Prompts and results carry what strangers wrote.
        let meta = Meta { reads_untrusted: true, ..Meta::read() };
        Definition::built_in(name, description, properties, required, meta)
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
        "exposed_at": time("exposed_at"), "audience": row.get::<_, Vec<String>>("audience"),
        "retry_of": row.get::<_, Option<Uuid>>("retry_of"), "exit_status": text("exit_status"), "queued_at": time("queued_at"), "started_at": time("started_at"),
        "completed_at": time("completed_at"),
    })
}

fn number(call: &ToolCall, name: &str, default: i64) -> i64 {
    call.args.get(name).and_then(Value::as_i64).unwrap_or(default)
}

/// Counts the end of a session as shown to the call that waited for it: its words are believed as far as its row says, and
/// those of a session without a row as far as a stranger's.
pub async fn show_end(call: &ToolCall, session: SessionId) -> Result<(), ToolError> {
    if call.query(sql::TRUST, &[&session.0]).await?.is_empty() {
        call.shows(&Label::household(Trust::Stranger));
    }
    Ok(())
}

async fn sessions_list(call: ToolCall) -> Result<Value, ToolError> {
    let (limit, offset) = (number(&call, "limit", 20), number(&call, "offset", 0));
    let rows = sql::newest(&call, limit, offset).await?;
    Ok(rows.iter().map(show).collect())
}

async fn sessions_get(call: ToolCall) -> Result<Value, ToolError> {
    let id: Uuid = call.text("session_id").and_then(|s| s.parse().ok()).unwrap_or_default();
    let Some(row) = sql::one(&call, id).await? else { return Ok(Value::Null) };
    let mut shown = show(&row);
    let calls = calls::of_session(&call, id).await?.into_iter().map(|c| {
        json!({"tool": c.tool, "arguments": c.arguments, "outcome": c.outcome, "detail": c.detail, "effect": c.effect,
               "called_at": c.called_at.to_string(), "duration_us": c.duration_us, "id": c.id})
    });
    shown["tool_calls"] = calls.collect();
    Ok(shown)
}

async fn sessions_summary(call: ToolCall) -> Result<Value, ToolError> {
    let period = call.text("period").unwrap_or("today").to_owned();
    let days: i32 = match period.as_str() {
        "7d" => 7,
        "30d" => 30,
        _ => 1,
    };
    let mut shown = sql::all_sums(&call, days).await?.map_or_else(|| json!({}), |sums| json!(sums));
    shown["period"] = json!(period);
    let models = sql::by_model(&call, days).await?.into_iter().map(|(model, of_model)| {
        let mut shown = json!(of_model);
        shown["model"] = json!(model);
        shown
    });
    shown["by_model"] = models.collect();
    Ok(shown)
}

async fn sessions_daily(call: ToolCall) -> Result<Value, ToolError> {
    let (from, to) = (date(&call, "from_date"), date(&call, "to_date"));
    if from > to {
        return Err(ToolError::refused("invalid_arguments", "from_date is after to_date."));
    }
    let days = sql::by_day(&call, from, to).await?.into_iter().map(|(day, of_day)| {
        let mut shown = json!(of_day);
        shown["date"] = json!(day.to_string());
        shown
    });
    Ok(json!({"days": days.collect::<Vec<_>>()}))
}

fn date(call: &ToolCall, name: &str) -> Option<jiff::civil::Date> {
    call.text(name).and_then(|d| d.parse().ok())
}

async fn top_sessions(call: ToolCall) -> Result<Value, ToolError> {
    let span = (date(&call, "from_date"), date(&call, "to_date"));
    let rows = sql::top(&call, number(&call, "limit", 10), span).await?;
    Ok(json!({"sessions": rows.iter().map(show).collect::<Vec<_>>()}))
}
