//! OpenAI's chat completions.

use llm_api::Api;
use serde_json::{Value, json};

use super::dialog::{Dialog, texts};
use super::play::TurnReply;
use super::sse::{halves, sse_data};

pub fn dialog(body: &Value) -> Dialog {
    let mut dialog = Dialog::of(body);
    dialog.schema = body.pointer("/response_format/json_schema/schema").cloned();
    dialog.stream_usage = body.pointer("/stream_options/include_usage").and_then(Value::as_bool).unwrap_or(false);
    for tool in body.get("tools").and_then(Value::as_array).into_iter().flatten() {
        dialog.offer(&tool["function"], None);
    }
    for message in body.get("messages").and_then(Value::as_array).into_iter().flatten() {
        let text = texts(&message["content"]).join("\n");
        match message["role"].as_str().unwrap_or_default() {
            "user" => dialog.user(&text),
            "assistant" => dialog.model(),
            "tool" | "function" => dialog.result(&text),
            _ => {}
        }
    }
    dialog
}

fn calls(turn: &TurnReply) -> Vec<Value> {
    let call = |(index, call): (usize, &super::play::ReplyCall)| {
        json!({"index": index, "id": format!("call_{}", call.id), "type": "function",
            "function": {"name": call.name, "arguments": Value::Object(call.arguments.clone()).to_string()}})
    };
    turn.calls.iter().enumerate().map(call).collect()
}

fn finish(turn: &TurnReply) -> &'static str {
    if turn.calls.is_empty() { "stop" } else { "tool_calls" }
}

pub fn document(turn: &TurnReply, dialog: &Dialog) -> Value {
    let mut message = json!({"role": "assistant", "content": turn.text});
    if !turn.calls.is_empty() {
        message["tool_calls"] = calls(turn).into();
    }
    let mut answer = json!({
        "id": format!("chatcmpl-{:02}", dialog.turns()), "object": "chat.completion", "created": 0,
        "model": dialog.model, "choices": [{"index": 0, "message": message, "finish_reason": finish(turn)}],
    });
    if let Some(usage) = turn.usage {
        answer["usage"] = Api::Chat.usage(&usage);
    }
    answer
}

pub fn events(turn: &TurnReply, dialog: &Dialog) -> Vec<String> {
    let chunk = |choices: Value| {
        json!({"id": format!("chatcmpl-{:02}", dialog.turns()), "object": "chat.completion.chunk", "created": 0,
            "model": dialog.model, "choices": choices})
    };
    let delta = |delta: Value| chunk(json!([{"index": 0, "delta": delta, "finish_reason": null}]));
    let mut events = vec![delta(json!({"role": "assistant", "content": ""}))];
    for piece in halves(turn.text.as_deref().unwrap_or_default()) {
        events.push(delta(json!({"content": piece})));
    }
    for call in calls(turn) {
        let mut first = call.clone();
        first["function"]["arguments"] = json!("");
        events.push(delta(json!({"tool_calls": [first]})));
        for piece in halves(call["function"]["arguments"].as_str().unwrap_or_default()) {
            events.push(delta(json!({"tool_calls": [{"index": call["index"], "function": {"arguments": piece}}]})));
        }
    }
    events.push(chunk(json!([{"index": 0, "delta": {}, "finish_reason": finish(turn)}])));
    if dialog.stream_usage
        && let Some(usage) = turn.usage
    {
        let mut last = chunk(json!([]));
        last["usage"] = Api::Chat.usage(&usage);
        events.push(last);
    }
    let mut lines: Vec<String> = events.iter().map(sse_data).collect();
    lines.push("data: [DONE]\n\n".to_owned());
    lines
}
