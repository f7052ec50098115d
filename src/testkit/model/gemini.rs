//! Gemini's `generateContent`.

use llm_api::Api;
use serde_json::{Value, json};

use super::dialog::{Dialog, texts};
use super::play::TurnReply;
use super::sse::{halves, sse_data};

/// `model` and `stream` come from the path.
pub fn dialog(body: &Value, model: &str, stream: bool) -> Dialog {
    let mut dialog = Dialog { model: model.to_owned(), stream, ..Dialog::default() };
    let config = &body["generationConfig"];
    dialog.schema = config.get("responseJsonSchema").or_else(|| config.get("responseSchema")).cloned();
    for group in body.get("tools").and_then(Value::as_array).into_iter().flatten() {
        for tool in group.get("functionDeclarations").and_then(Value::as_array).into_iter().flatten() {
            dialog.offer(tool, None);
        }
    }
    for content in body.get("contents").and_then(Value::as_array).into_iter().flatten() {
        if content["role"] == "model" {
            dialog.model();
            continue;
        }
        let parts = content.get("parts").and_then(Value::as_array).into_iter().flatten();
        for response in parts.filter_map(|part| part.get("functionResponse")) {
            dialog.result(&result(&response["response"]));
        }
        dialog.user(&texts(&content["parts"]).join("\n"));
    }
    dialog
}

fn result(response: &Value) -> String {
    let inner = ["output", "result", "error"].iter().find_map(|key| response.get(*key)).unwrap_or(response);
    inner.as_str().map_or_else(|| inner.to_string(), str::to_owned)
}

fn answer(parts: Value, finish: Option<&str>, turn: &TurnReply, dialog: &Dialog) -> Value {
    let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
    if let Some(finish) = finish {
        candidate["finishReason"] = json!(finish);
    }
    let id = format!("resp{:02}", dialog.turns());
    let mut answer = json!({"candidates": [candidate], "modelVersion": dialog.model, "responseId": id});
    if let Some(usage) = turn.usage {
        answer["usageMetadata"] = Api::Generate.usage(&usage);
    }
    answer
}

fn calls(turn: &TurnReply) -> impl Iterator<Item = Value> {
    turn.calls.iter().map(|call| json!({"functionCall": {"name": call.name, "args": call.arguments}}))
}

pub fn document(turn: &TurnReply, dialog: &Dialog) -> Value {
    let text = turn.text.iter().map(|text| json!({"text": text}));
    answer(text.chain(calls(turn)).collect(), Some("STOP"), turn, dialog)
}

/// The answers that the stream consists of.
pub fn chunks(turn: &TurnReply, dialog: &Dialog) -> Vec<Value> {
    let mut chunks: Vec<Value> = halves(turn.text.as_deref().unwrap_or_default())
        .into_iter()
        .map(|piece| answer(json!([{"text": piece}]), None, turn, dialog))
        .collect();
    let calls: Vec<Value> = calls(turn).collect();
    if calls.is_empty() {
        chunks.push(answer(json!([{"text": ""}]), Some("STOP"), turn, dialog));
    } else {
        chunks.push(answer(calls.into(), Some("STOP"), turn, dialog));
    }
    chunks
}

pub fn events(turn: &TurnReply, dialog: &Dialog) -> Vec<String> {
    chunks(turn, dialog).iter().map(sse_data).collect()
}
