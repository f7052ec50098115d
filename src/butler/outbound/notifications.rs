//! `notifications`: what a butler has sent lately, and what became of it.

use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::define;
use base::text;
use tools::{Definition, Meta, Tool, ToolCall, ToolError, handler};

/// What of a text is shown.
const SHOWN: usize = 500;

pub fn notifications_tool() -> Tool {
    static DEFINITION: OnceLock<Arc<Definition>> = OnceLock::new();
    let definition = DEFINITION.get_or_init(|| {
        let schema = json!({"type": "object", "additionalProperties": false, "properties": {
            "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 20, "description": "How many"},
            "open_only": {"type": "boolean", "default": false, "description": "Only what is still to be delivered"}}});
        let description = "What you have sent, answered and scheduled lately, the newest first, and what became of it.";
        define("notifications", description, schema, Meta::read())
    });
    Tool::new(definition, handler(list))
}

async fn list(call: ToolCall) -> Result<Value, ToolError> {
    let limit = call.args.get("limit").and_then(Value::as_i64).unwrap_or(20);
    let open = call.args.get("open_only").and_then(Value::as_bool).unwrap_or(false);
    let rows = call
        .query(
            "SELECT id, kind, intent, channel, target, message, emoji, priority, state, last_error, due_at, created_at,
                    settled_at
             FROM shared.deliveries() WHERE origin = $2 AND (NOT $3 OR state IN ('pending', 'deferred', 'waiting', 'sending'))
             ORDER BY seq DESC LIMIT $1",
            &[&limit, &call.butler.as_str(), &open],
        )
        .await?;
    let shown = rows.iter().map(|row| {
        let message: Option<String> = row.get(5);
        let settled: Option<Timestamp> = row.get(12);
        json!({"delivery_id": row.get::<_, uuid::Uuid>(0), "kind": row.get::<_, String>(1),
               "intent": row.get::<_, String>(2), "channel": row.get::<_, String>(3),
               "recipient": row.get::<_, String>(4), "message": message.map(|m| text::truncate(&m, SHOWN)),
               "emoji": row.get::<_, Option<String>>(6), "priority": row.get::<_, String>(7),
               "state": row.get::<_, String>(8), "error": row.get::<_, Option<String>>(9),
               "due_at": row.get::<_, Timestamp>(10).to_string(),
               "created_at": row.get::<_, Timestamp>(11).to_string(), "settled_at": settled.map(|t| t.to_string())})
    });
    Ok(shown.collect())
}
