//! `log_extraction`, `extraction_log_list|undo`: a record of what was taken out of messages and which tool it was given
//! to. The record alone: what a butler keeps is its own.

use serde_json::{Value, json};
use uuid::Uuid;

use super::sql::contacts;
use super::sql::extractions::{self as sql, StruckOut};
use tools::{Effect, Meta, Tool, ToolCall, ToolError, handler};

pub(super) fn tools() -> Vec<Tool> {
    let text =
        |most: u32, what: &str| json!({"type": "string", "minLength": 1, "maxLength": most, "description": what});
    let contact =
        json!({"type": "string", "format": "uuid", "description": "Whom it is about (contact_identity_list)"});
    let kind = json!({"type": "string", "pattern": "^[a-z][a-z0-9_]{0,40}$",
                      "description": "What it is: contact, interaction, life_event, date, fact, gift, loan, …"});
    let tool = json!({"type": "string", "pattern": "^[a-z][a-z0-9_.]{0,60}$",
                      "description": "The tool that it was given to"});
    vec![
        Tool::built_in(
            "log_extraction",
            "Note what was taken out of a message, and the butler's tool that it was given to. This keeps the record; \
             it does not call the tool.",
            json!({"extraction_type": kind, "tool_name": tool,
                   "tool_args": {"type": "object", "description": "The arguments that the tool was given"},
                   "butler": text(31, "Whose tool it is"), "target_contact_id": contact,
                   "confidence": {"type": "string", "enum": ["high", "medium", "low"]},
                   "source_message_preview": text(500, "The begin of the message"),
                   "source_channel": text(31, "How the message came")}),
            &["extraction_type", "tool_name", "tool_args"],
            Meta::write(Effect::Once),
            handler(log),
        ),
        Tool::built_in(
            "extraction_log_list",
            "What was taken out of messages, the newest first, also what was struck out (undone_at).",
            json!({"contact_id": contact, "extraction_type": kind,
                   "since": text(64, "Not before: 2026-11-24T09:00, or with an offset"),
                   "limit": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}}),
            &[],
            Meta { reads_untrusted: true, ..Meta::read() },
            handler(list),
        ),
        Tool::built_in(
            "extraction_log_undo",
            "Strike out an entry of the record that was a mistake. What the butler's tool wrote stands: the answer says \
             how that is taken back.",
            json!({"log_id": {"type": "string", "format": "uuid", "description": "From extraction_log_list"}}),
            &["log_id"],
            Meta::write(Effect::Once),
            handler(undo),
        ),
    ]
}

fn id(call: &ToolCall, name: &str) -> Option<Uuid> {
    call.text(name).and_then(|id| id.parse().ok())
}

/// The person among the arguments, whom the household must know.
async fn contact(call: &ToolCall, name: &str) -> Result<Option<Uuid>, ToolError> {
    let Some(id) = id(call, name) else { return Ok(None) };
    if !contacts::is_there(call, id).await? {
        let why =
            format!("{name}: there is no contact with that id; contact_identity_list shows whom the household knows.");
        return Err(ToolError::refused("not_found", why));
    }
    Ok(Some(id))
}

async fn log(call: ToolCall) -> Result<Value, ToolError> {
    let contact = contact(&call, "target_contact_id").await?;
    Ok(json!({"status": "ok", "log_id": sql::add(&call, contact).await?}))
}

async fn list(call: ToolCall) -> Result<Value, ToolError> {
    let contact = contact(&call, "contact_id").await?;
    let (since, _) = call.span()?;
    let limit = call.args.get("limit").and_then(Value::as_i64).unwrap_or(100);
    Ok(sql::list(&call, contact, call.text("extraction_type"), since, limit).await?.into())
}

async fn undo(call: ToolCall) -> Result<Value, ToolError> {
    let id = id(&call, "log_id").unwrap_or_default();
    if let Some(StruckOut { tool_name: tool, butler }) = sql::strike_out(&call, id).await? {
        let whose = butler.unwrap_or_else(|| "its butler".to_owned());
        let next = format!("What {tool} wrote stands at {whose}. A person takes it back with: butlerd undo CALL_ID");
        return Ok(json!({"status": "ok", "log_id": id, "undone": true, "next": next}));
    }
    let why = match sql::is_there(&call, id).await? {
        false => "There is no entry with that id; extraction_log_list shows them.",
        true => "That entry is struck out already; there is nothing more to do.",
    };
    Err(ToolError::refused("not_found", why))
}
