//! Chat completions, as OpenAI, Ollama, vLLM and llama.cpp speak them.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::{BadAnswer, Call, Stop, ToolOutcome, Turn, WireTool, parse_arguments, text_at};
use crate::config::{AgentConfig, Image};
use llm_api::Usage;

pub fn opening(config: &AgentConfig) -> Vec<Value> {
    let mut messages = Vec::new();
    if !config.system_prompt.is_empty() {
        messages.push(json!({"role": "system", "content": config.system_prompt}));
    }
    let content = match config.images.as_slice() {
        // Servers that know no other content know this.
        [] => json!(config.prompt),
        images => {
            let url = |image: &Image| format!("data:{};base64,{}", image.media_type, image.data);
            let pictures = images.iter().map(|image| json!({"type": "image_url", "image_url": {"url": url(image)}}));
            std::iter::once(json!({"type": "text", "text": config.prompt})).chain(pictures).collect()
        }
    };
    messages.push(json!({"role": "user", "content": content}));
    messages
}

pub fn request(config: &AgentConfig, tools: &[WireTool], history: &[Value]) -> Value {
    let mut body = json!({
        "model": config.model,
        "stream": true,
        "stream_options": {"include_usage": true},
        "messages": history,
    });
    // OpenAI's reasoning models refuse the old name of the limit, the local servers know only the old one.
    let limit = if config.base_url.contains("openai.") { "max_completion_tokens" } else { "max_tokens" };
    body[limit] = json!(config.max_output_tokens);
    if !tools.is_empty() {
        body["tools"] = tools.iter().map(function).collect();
    }
    if let Some(temperature) = config.temperature {
        body["temperature"] = json!(temperature);
    }
    body
}

fn function(tool: &WireTool) -> Value {
    let mut schema = tool.schema.clone();
    // An object schema without `properties` is refused.
    if let Some(map) = schema.as_object_mut() {
        map.entry("properties").or_insert_with(|| json!({}));
    }
    json!({"type": "function", "function": {
        "name": tool.name, "description": tool.description, "parameters": schema}})
}

pub fn outcomes(outcomes: &[ToolOutcome]) -> Vec<Value> {
    outcomes
        .iter()
        .map(|outcome| json!({"role": "tool", "tool_call_id": outcome.id, "content": outcome.content}))
        .collect()
}

/// Gathers the deltas of the first choice.
#[derive(Debug, Default)]
pub struct Content {
    text: String,
    refusal: String,
    calls: Vec<OpenCall>,
    by_index: HashMap<u64, usize>,
    finish_reason: Option<String>,
}

#[derive(Debug, Default)]
struct OpenCall {
    id: String,
    name: String,
    arguments: String,
    /// What a provider adds to a call and wants to see again (`extra_content`).
    extra: Map<String, Value>,
}

impl Content {
    pub fn event(&mut self, data: &Value) {
        // In the last chunk `choices` is empty.
        let Some(choice) = data.get("choices").and_then(Value::as_array).and_then(|choices| choices.first()) else {
            return;
        };
        self.message(choice.get("delta").or_else(|| choice.get("message")).unwrap_or(&Value::Null));
        if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str) {
            self.finish_reason = Some(reason.to_owned());
        }
    }

    /// Takes an answer that was not streamed.
    pub fn whole(&mut self, answer: &Value) -> Result<(), BadAnswer> {
        if answer.get("choices").and_then(Value::as_array).is_none_or(|choices| choices.is_empty()) {
            return Err(BadAnswer::Malformed("an answer without `choices`".to_owned()));
        }
        self.event(answer);
        Ok(())
    }

    /// The text, as far as it is there.
    pub fn text(&self) -> &str {
        &self.text
    }

    fn message(&mut self, delta: &Value) {
        self.text.push_str(&content_text(&delta["content"]));
        self.refusal.push_str(&text_at(delta, "refusal"));
        for call in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            let at = self.slot(call);
            self.calls[at].add(call);
        }
    }

    /// Which call a delta belongs to. Servers differ: some give no index, some no id, some the index 0 to every call.
    fn slot(&mut self, delta: &Value) -> usize {
        let id = delta.get("id").and_then(Value::as_str).unwrap_or_default();
        let name = delta["function"].get("name").and_then(Value::as_str).unwrap_or_default();
        let index = delta.get("index").and_then(Value::as_u64);
        let known = match index {
            Some(index) => self.by_index.get(&index).copied(),
            None if !id.is_empty() => self.calls.iter().position(|call| call.id == id),
            None if name.is_empty() => self.calls.len().checked_sub(1),
            None => None,
        };
        let same = known.filter(|at| self.calls[*at].continued_by(id, name));
        if let Some(at) = same {
            return at;
        }
        let at = self.calls.len();
        self.calls.push(OpenCall::default());
        if let Some(index) = index {
            self.by_index.insert(index, at);
        }
        at
    }

    /// The turn that it is.
    pub fn turn(self, usage: Usage) -> Turn {
        let refused = !self.refusal.is_empty() && self.text.is_empty() && self.calls.is_empty();
        let stop = match self.finish_reason.as_deref() {
            Some("length") => Stop::OutputLimit,
            Some("content_filter") => Stop::Refused,
            _ if refused => Stop::Refused,
            _ => Stop::Done,
        };
        let text = if refused { self.refusal } else { self.text };
        let calls: Vec<Call> = self.calls.iter().map(OpenCall::call).collect();
        let mut message = json!({"role": "assistant", "content": (!text.is_empty()).then_some(&text)});
        if !calls.is_empty() {
            message["tool_calls"] = self.calls.iter().zip(&calls).map(|(open, call)| open.history(call)).collect();
        }
        Turn { texts: if text.is_empty() { vec![] } else { vec![text] }, calls, stop, usage, message }
    }
}

impl OpenCall {
    fn continued_by(&self, id: &str, name: &str) -> bool {
        if !id.is_empty() && !self.id.is_empty() {
            return id == self.id;
        }
        // Without ids a second name after whole arguments is a second call.
        name.is_empty() || self.name.is_empty() || serde_json::from_str::<Value>(&self.arguments).is_err()
    }

    fn add(&mut self, delta: &Value) {
        for (key, value) in delta.as_object().into_iter().flatten() {
            if !matches!(key.as_str(), "index" | "id" | "type" | "function") {
                self.extra.insert(key.clone(), value.clone());
            }
        }
        if self.id.is_empty() {
            self.id = text_at(delta, "id");
        }
        let function = &delta["function"];
        if self.name.is_empty() {
            self.name = text_at(function, "name");
        }
        match function.get("arguments") {
            Some(Value::String(piece)) => self.arguments.push_str(piece),
            Some(Value::Null) | None => {}
            Some(whole) => self.arguments = whole.to_string(),
        }
    }

    fn call(&self) -> Call {
        Call { id: self.id.clone(), name: self.name.clone(), arguments: parse_arguments(&self.arguments) }
    }

    fn history(&self, call: &Call) -> Value {
        // Chat templates parse the arguments of old calls, so broken ones must not go back.
        let arguments = Value::Object(call.arguments.clone().unwrap_or_default()).to_string();
        let mut value =
            json!({"id": self.id, "type": "function", "function": {"name": self.name, "arguments": arguments}});
        for (key, extra) in &self.extra {
            value[key] = extra.clone();
        }
        value
    }
}

/// Content is a text, or a list of parts with texts.
fn content_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(|part| text_at(part, "text")).collect(),
        _ => String::new(),
    }
}
