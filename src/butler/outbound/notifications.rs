//! `notifications`: what a butler has sent lately, and what became of it.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use super::define;
use crate::sql::{self, SentRow};
use base::text;
use tools::{Definition, Meta, Tool, ToolCall, ToolError, handler};

/// What of a text is shown.
const SHOWN: usize = 500;

pub fn notifications_tool() -> Tool {
    static DEFINITION: LazyLock<Arc<Definition>> = LazyLock::new(|| {
        let schema = json!({"type": "object", "additionalProperties": false, "properties": {
            "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 20, "description": "How many"},
            "open_only": {"type": "boolean", "default": false, "description": "Only what is still to be delivered"}}});
        let description = "What you have sent, answered and scheduled lately, the newest first, and what became of it.";
        define("notifications", description, schema, Meta::read())
    });
    Tool::new(&DEFINITION, handler(list))
}

async fn list(call: ToolCall) -> Result<Value, ToolError> {
    let limit = call.args.get("limit").and_then(Value::as_i64).unwrap_or(20);
    let open = call.args.get("open_only").and_then(Value::as_bool).unwrap_or(false);
    let shown = |row: SentRow| {
        json!({"delivery_id": row.id, "kind": row.kind, "intent": row.intent, "channel": row.channel,
               "recipient": row.target, "message": row.message.map(|m| text::truncate(&m, SHOWN)),
               "emoji": row.emoji, "priority": row.priority, "state": row.state, "error": row.last_error,
               "due_at": row.due_at.to_string(), "created_at": row.created_at.to_string(),
               "settled_at": row.settled_at.map(|t| t.to_string())})
    };
    Ok(sql::sent_lately(&call, limit, open).await?.into_iter().map(shown).collect())
}
