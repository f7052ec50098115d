//! The Messages API.

use llm_api::Api;
use serde_json::{Value, json};

use super::dialog::{Dialog, texts};
use super::play::TurnReply;
use super::sse::{halves, sse_named};

pub fn dialog(body: &Value) -> Dialog {
    let mut dialog = Dialog { schema: schema(body), ..Dialog::of(body) };
    for tool in body.get("tools").and_then(Value::as_array).into_iter().flatten() {
        dialog.offer(tool, None);
    }
    for message in body.get("messages").and_then(Value::as_array).into_iter().flatten() {
        let content = &message["content"];
        if message["role"] == "assistant" {
            dialog.model();
            continue;
        }
        for block in content.as_array().into_iter().flatten().filter(|block| block["type"] == "tool_result") {
            dialog.result(&texts(&block["content"]).join("\n"));
        }
        // Blocks of text beside tool results are the client's own remarks or new words of the user.
        dialog.user(&texts(content).join("\n"));
    }
    dialog
}

fn schema(body: &Value) -> Option<Value> {
    let places = ["/output_config/format/schema", "/output_format/schema"];
    places.iter().find_map(|place| body.pointer(place)).cloned()
}

pub fn document(turn: &TurnReply, dialog: &Dialog) -> Value {
    let mut content = Vec::new();
    if let Some(text) = &turn.text {
        content.push(json!({"type": "text", "text": text}));
    }
    for call in &turn.calls {
        let (id, input) = (format!("toolu_{}", call.id), &call.arguments);
        content.push(json!({"type": "tool_use", "id": id, "name": call.name, "input": input}));
    }
    let stop = if turn.calls.is_empty() { "end_turn" } else { "tool_use" };
    let mut message = json!({
        "id": format!("msg_{:02}", dialog.turns()), "type": "message", "role": "assistant", "model": dialog.model,
        "content": content, "stop_reason": stop, "stop_sequence": null,
    });
    if let Some(usage) = turn.usage {
        message["usage"] = Api::Messages.usage(&usage);
    }
    message
}

pub fn events(turn: &TurnReply, dialog: &Dialog) -> Vec<String> {
    let whole = document(turn, dialog);
    let mut start = whole.clone();
    start["content"] = json!([]);
    start["stop_reason"] = Value::Null;
    if turn.usage.is_some() {
        start["usage"]["output_tokens"] = json!(1);
    }
    let mut events = vec![json!({"type": "message_start", "message": start})];
    for (index, block) in whole["content"].as_array().into_iter().flatten().enumerate() {
        let mut empty = block.clone();
        let (field, kind, text) = match block["type"].as_str() {
            Some("text") => {
                empty["text"] = json!("");
                ("text", "text_delta", block["text"].as_str().unwrap_or_default().to_owned())
            }
            _ => {
                empty["input"] = json!({});
                ("partial_json", "input_json_delta", block["input"].to_string())
            }
        };
        events.push(json!({"type": "content_block_start", "index": index, "content_block": empty}));
        for piece in halves(&text) {
            events.push(json!({"type": "content_block_delta", "index": index, "delta": {"type": kind, field: piece}}));
        }
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    let mut end =
        json!({"type": "message_delta", "delta": {"stop_reason": whole["stop_reason"], "stop_sequence": null}});
    if let Some(usage) = turn.usage {
        end["usage"] = json!({"output_tokens": usage.output});
    }
    events.push(end);
    events.push(json!({"type": "message_stop"}));
    events.iter().map(sse_named).collect()
}
