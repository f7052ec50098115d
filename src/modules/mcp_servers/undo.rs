//! Taking calls back where the owner's file says which other tool of the server does it: what that tool would be given is put
//! on record with the call.

use serde_json::Value;

use super::pins::Listing;
use base::Label;
use base::redact::household;
use base::text::{self, visible::visible_line};
use config::{McpServer, UndoTool};
use mcp::RemoteAnswer;
use tools::sql::call_undos;
use tools::{ToolCall, ToolError, UndoTemplate};

/// Larger arguments are not kept, in bytes.
const MOST_ARGUMENTS: usize = 64 << 10;

/// A call whose undo is on record, by its number, and waits for the answer.
pub(super) type Begun<'a> = (i64, &'a UndoTool);

/// Puts a call that changes something on record before it is made: what was cut off is not begun again as if it had not
/// been. `of`: the server's name and its settings.
pub(super) async fn begin<'a>(
    call: &ToolCall,
    of: (&str, &'a McpServer),
    tool: &str,
) -> Result<Option<Begun<'a>>, ToolError> {
    let (server, config) = of;
    let Some(undo) = config.undo.get(tool) else {
        call.effect("SELECT 1", &[]).await?;
        return Ok(None);
    };
    Ok(Some((call_undos::begin(call, &config.tool_name(server, &undo.tool)).await?, undo)))
}

/// Notes what takes the call back, or why that is not known. The call is done, whatever comes of this.
pub(super) async fn note(
    call: &ToolCall,
    (begun, undo): Begun<'_>,
    answer: Result<&RemoteAnswer, &str>,
    label: &Label,
) {
    let known = answer.map_err(str::to_owned).and_then(|answer| arguments(undo, call, answer));
    if let Err(e) = call_undos::settle(call, begun, known.as_ref().map_err(String::as_str), label).await {
        tracing::error!(tool = call.def.name, "what takes a call back is not on record: {e}");
    }
}

/// What the other tool is given; `Err`: why that can't be known, without a full stop.
fn arguments(undo: &UndoTool, call: &ToolCall, answer: &RemoteAnswer) -> Result<Value, String> {
    if answer.is_error {
        return Err("the server said that the call failed".to_owned());
    }
    let as_text = || serde_json::from_str(&answer.text).unwrap_or_else(|_| answer.text.clone().into());
    let result = answer.structured.clone().unwrap_or_else(as_text);
    let given = Value::Object((*call.args).clone());
    let mut filled = UndoTemplate(&undo.arguments).fill(&given, &result).map_err(|e| e.to_string())?;
    household().clean_json(&mut filled);
    text::strip_nul(&mut filled);
    if text::json_length(&filled) > MOST_ARGUMENTS {
        return Err(format!("what `{}` would be given is more than {} KiB", undo.tool, MOST_ARGUMENTS >> 10));
    }
    Ok(filled)
}

/// Why calls of a tool can't be taken back as the file says, as far as what the server shows tells; without a full stop.
pub(super) fn problem(shown: &Listing, tool: &str, undo: &UndoTool) -> Option<String> {
    let (of, by) = (shown.0.get(tool)?, visible_line(&undo.tool));
    let Some(other) = shown.0.get(&undo.tool) else { return Some(format!("the server has no tool `{by}`")) };
    let has = |schema: &Value, name: &str| schema["properties"].as_object().is_none_or(|all| all.contains_key(name));
    let template = UndoTemplate(&undo.arguments);
    if let Some(name) = template.arguments().iter().find(|name| !has(&of.schema, name)) {
        return Some(format!("it has no argument `{}`", visible_line(name)));
    }
    if let Some(name) = undo.arguments.keys().find(|name| !has(&other.schema, name)) {
        return Some(format!("`{by}` has no argument `{}`", visible_line(name)));
    }
    let needed = other.schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let lacks = needed.into_iter().find(|name| !undo.arguments.contains_key(*name))?;
    Some(format!("`{by}` needs the argument `{}`", visible_line(lacks)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_the_server_shows_tells_whether_an_undo_can_work() {
        let shown: Listing = serde_json::from_value(json!({
            "make": {"description": "", "schema": {"properties": {"name": {}}}},
            "drop": {"description": "", "schema": {"properties": {"id": {}, "why": {}}, "required": ["id"]}},
            "open": {"description": "", "schema": {}},
        }))
        .unwrap();
        let said = |undo: Value| problem(&shown, "make", &serde_json::from_value(undo).unwrap()).unwrap_or_default();
        for (undo, why) in [
            (json!({"tool": "drop", "arguments": {"id": "$result/id", "why": "$arguments/name"}}), ""),
            (json!({"tool": "open", "arguments": {"id": "$result"}}), ""),
            (json!({"tool": "gone"}), "the server has no tool `gone`"),
            (json!({"tool": "drop", "arguments": {"id": "$arguments/nmae"}}), "it has no argument `nmae`"),
            (json!({"tool": "drop", "arguments": {"id": 1, "to": 2}}), "`drop` has no argument `to`"),
            (json!({"tool": "drop", "arguments": {"why": "x"}}), "`drop` needs the argument `id`"),
        ] {
            assert_eq!(said(undo), why);
        }
    }
}
