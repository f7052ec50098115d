//! OpenAI's Responses API, as Codex uses it.

use llm_api::Api;
use serde_json::{Value, json};

use super::dialog::{Dialog, texts};
use super::play::TurnReply;
use super::sse::{halves, sse_named};

pub fn dialog(body: &Value) -> Dialog {
    let mut dialog = Dialog::of(body);
    dialog.schema = body.pointer("/text/format/schema").cloned();
    for tool in body.get("tools").and_then(Value::as_array).into_iter().flatten() {
        if tool["type"] == "namespace" {
            for inner in tool.get("tools").and_then(Value::as_array).into_iter().flatten() {
                dialog.offer(inner, tool["name"].as_str());
            }
        } else {
            dialog.offer(tool, None);
        }
    }
    if let Some(text) = body["input"].as_str() {
        dialog.user(text);
    }
    for item in body.get("input").and_then(Value::as_array).into_iter().flatten() {
        let kind = item["type"].as_str().unwrap_or("message");
        match (kind, item["role"].as_str().unwrap_or_default()) {
            ("message", "user") => dialog.user(&texts(&item["content"]).join("\n")),
            ("message", "assistant") | ("reasoning", _) => dialog.model(),
            ("message", _) => {}
            (kind, _) if kind.ends_with("_output") => dialog.result(&output(&item["output"])),
            (kind, _) if kind.ends_with("_call") => dialog.model(),
            _ => {}
        }
    }
    dialog
}

/// A result is a text, a list of parts, or an object around one of them.
fn output(value: &Value) -> String {
    let inner = value.get("content").unwrap_or(value);
    match texts(inner) {
        parts if parts.is_empty() => inner.to_string(),
        parts => parts.join("\n"),
    }
}

fn items(turn: &TurnReply, dialog: &Dialog) -> Vec<Value> {
    let mut items = Vec::new();
    if let Some(text) = &turn.text {
        items.push(json!({
            "type": "message", "id": format!("msg_{:02}", dialog.turns()), "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        }));
    }
    for call in &turn.calls {
        let mut item = json!({
            "type": "function_call", "id": format!("fc_{}", call.id), "call_id": format!("call_{}", call.id),
            "name": call.name, "arguments": Value::Object(call.arguments.clone()).to_string(), "status": "completed",
        });
        if let Some(namespace) = &call.namespace {
            item["namespace"] = json!(namespace);
        }
        items.push(item);
    }
    items
}

pub fn document(turn: &TurnReply, dialog: &Dialog) -> Value {
    let mut answer = json!({
        "id": format!("resp_{:02}", dialog.turns()), "object": "response", "created_at": 0, "status": "completed",
        "model": dialog.model, "output": items(turn, dialog), "error": null,
    });
    if let Some(usage) = turn.usage {
        answer["usage"] = Api::Responses.usage(&usage);
    }
    answer
}

pub fn events(turn: &TurnReply, dialog: &Dialog) -> Vec<String> {
    let whole = document(turn, dialog);
    let mut begun = whole.clone();
    begun["status"] = json!("in_progress");
    begun["output"] = json!([]);
    begun["usage"] = Value::Null;
    let mut events = vec![json!({"type": "response.created", "response": begun})];
    for (index, item) in whole["output"].as_array().into_iter().flatten().enumerate() {
        let (id, is_message) = (&item["id"], item["type"] == "message");
        let mut open = item.clone();
        open["status"] = json!("in_progress");
        open[if is_message { "content" } else { "arguments" }] = if is_message { json!([]) } else { json!("") };
        events.push(json!({"type": "response.output_item.added", "output_index": index, "item": open}));
        if is_message {
            for piece in halves(item["content"][0]["text"].as_str().unwrap_or_default()) {
                events.push(json!({"type": "response.output_text.delta", "item_id": id, "output_index": index,
                    "content_index": 0, "delta": piece}));
            }
        }
        events.push(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
    }
    events.push(json!({"type": "response.completed", "response": whole}));
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = json!(number);
    }
    events.iter().map(sse_named).collect()
}
