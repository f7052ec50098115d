//! The messenger's own tools: what became of deliveries, what came to a bad end and what people do about it, whether a
//! request could be sent, and how the channels are. All of them read what the outbox has; what there is no record of is
//! not told.

mod channels;
mod dead;
mod deliveries;
mod requests;

use serde_json::{Value, json};
use uuid::Uuid;

use super::handle::Outbox;
use crate::sql::tools::used_channels;
use tools::{Effect, Meta, Tool, ToolCall, ToolError};

/// The tools, for the messenger alone.
pub fn messenger_tools(outbox: &Outbox) -> Vec<Tool> {
    let mut tools = deliveries::tools(outbox);
    tools.extend(dead::tools(outbox));
    tools.extend(requests::tools(outbox));
    tools.extend(channels::tools(outbox));
    tools
}

/// Metadata of what shows others' words.
fn shows() -> Meta {
    Meta { reads_untrusted: true, ..Meta::read() }
}

/// Metadata of what only the people of the household do.
fn operators() -> Meta {
    Meta { operators: true, ..Meta::write(Effect::Once) }
}

fn text(most: u32, what: &str) -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": most, "description": what})
}

fn id_of(what: &str) -> Value {
    json!({"type": "string", "format": "uuid", "description": what})
}

fn limit() -> Value {
    json!({"type": "integer", "minimum": 1, "maximum": 500, "default": 50, "description": "How many at most"})
}

fn offset() -> Value {
    json!({"type": "integer", "minimum": 0, "maximum": 1_000_000, "default": 0, "description": "How many to pass over"})
}

fn since() -> Value {
    text(64, "Not before: 2026-11-24T09:00 in the owner's time zone, or with an offset")
}

/// The limit and the offset of a list.
fn page(call: &ToolCall) -> (i64, i64) {
    let number = |name: &str| call.args.get(name).and_then(Value::as_i64);
    (number("limit").unwrap_or(50), number("offset").unwrap_or(0))
}

fn id(call: &ToolCall, name: &str) -> Uuid {
    call.text(name).and_then(|id| id.parse().ok()).unwrap_or_default()
}

/// The channel among the arguments. One that is neither there nor was ever used is a mistake.
async fn channel(call: &ToolCall, outbox: &Outbox) -> Result<Option<String>, ToolError> {
    let Some(named) = call.text("channel") else { return Ok(None) };
    let mut known: Vec<String> = outbox.ways().into_keys().collect();
    if !known.iter().any(|name| name == named) {
        known.extend(used_channels(call).await?);
        if !known.iter().any(|name| name == named) {
            known.sort();
            known.dedup();
            let why = format!("There is no channel {named}, and there never was; there are: {}.", known.join(", "));
            return Err(ToolError::refused("unknown_channel", why));
        }
    }
    Ok(Some(named.to_owned()))
}
