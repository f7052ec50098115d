//! The Messages API.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{ArgumentsError, BadAnswer, Call, Stop, ToolOutcome, Turn, WireTool, parse_arguments, text_at};
use crate::config::{AgentConfig, Image};
use llm_api::Usage;

pub fn opening(config: &AgentConfig) -> Vec<Value> {
    let picture = |image: &Image| json!({"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": image.data}});
    let mut content: Vec<Value> = config.images.iter().map(picture).collect();
    content.push(json!({"type": "text", "text": config.prompt}));
    vec![json!({"role": "user", "content": content})]
}

pub fn request(config: &AgentConfig, tools: &[WireTool], history: &[Value]) -> Value {
    let mut messages = history.to_vec();
    // Two cache marks: one behind tools and system prompt, which stay the same, one that moves with the conversation.
    let last = messages.last_mut().and_then(|m| m.get_mut("content")).and_then(Value::as_array_mut);
    if let Some(block) = last.and_then(|blocks| blocks.last_mut()) {
        block["cache_control"] = json!({"type": "ephemeral"});
    }
    let mut body = json!({
        "model": config.model,
        "max_tokens": config.max_output_tokens,
        "stream": true,
        "messages": messages,
    });
    if !config.system_prompt.is_empty() {
        body["system"] =
            json!([{"type": "text", "text": config.system_prompt, "cache_control": {"type": "ephemeral"}}]);
    }
    if !tools.is_empty() {
        body["tools"] = tools
            .iter()
            .map(|tool| json!({"name": tool.name, "description": tool.description, "input_schema": tool.schema}))
            .collect();
    }
    if let Some(temperature) = config.temperature {
        body["temperature"] = json!(temperature);
    }
    body
}

pub fn outcomes(outcomes: &[ToolOutcome]) -> Vec<Value> {
    let blocks: Vec<Value> = outcomes
        .iter()
        .map(|outcome| {
            let mut block = json!({"type": "tool_result", "tool_use_id": outcome.id, "content": outcome.content});
            if outcome.is_error {
                block["is_error"] = json!(true);
            }
            block
        })
        .collect();
    vec![json!({"role": "user", "content": blocks})]
}

/// Gathers `content_block_*` events by index.
#[derive(Debug, Default)]
pub struct Content {
    blocks: BTreeMap<u64, Block>,
    stop_reason: Option<String>,
}

#[derive(Debug)]
struct Block {
    value: Value,
    /// Arguments of a tool call arrive as pieces of text.
    input: String,
}

impl Content {
    pub fn event(&mut self, data: &Value) -> Result<(), BadAnswer> {
        let index = data.get("index").and_then(Value::as_u64).unwrap_or_default();
        match data.get("type").and_then(Value::as_str).unwrap_or_default() {
            "content_block_start" => self.begin(index, &data["content_block"]),
            "content_block_delta" => {
                let block = self
                    .blocks
                    .get_mut(&index)
                    .ok_or_else(|| BadAnswer::Malformed(format!("a piece of block {index}, which never began")))?;
                block.add(&data["delta"]);
            }
            "message_delta" => self.stopped(&data["delta"]),
            // `ping`, `content_block_stop` and whatever comes later carry nothing that is needed.
            _ => {}
        }
        Ok(())
    }

    /// Takes an answer that was not streamed.
    pub fn whole(&mut self, answer: &Value) -> Result<(), BadAnswer> {
        let blocks = answer
            .get("content")
            .and_then(Value::as_array)
            .ok_or_else(|| BadAnswer::Malformed("a message without `content`".to_owned()))?;
        (0..).zip(blocks).for_each(|(index, block)| self.begin(index, block));
        self.stopped(answer);
        Ok(())
    }

    /// The first text, as far as it is there.
    pub fn text(&self) -> &str {
        let text = |block: &'_ Block| block.value["type"] == "text" && block.value["text"] != "";
        self.blocks
            .values()
            .find(|block| text(block))
            .and_then(|block| block.value["text"].as_str())
            .unwrap_or_default()
    }

    fn begin(&mut self, index: u64, block: &Value) {
        self.blocks.insert(index, Block { value: block.clone(), input: String::new() });
    }

    fn stopped(&mut self, with: &Value) {
        if let Some(reason) = with.get("stop_reason").and_then(Value::as_str) {
            self.stop_reason = Some(reason.to_owned());
        }
    }

    /// The turn that it is.
    pub fn turn(self, usage: Usage) -> Turn {
        let (mut texts, mut calls, mut content) = (Vec::new(), Vec::new(), Vec::new());
        for Block { value: mut block, input } in self.blocks.into_values() {
            match block.get("type").and_then(Value::as_str).unwrap_or_default() {
                "text" => {
                    let text = text_at(&block, "text");
                    // The API refuses an empty text block in the history.
                    if text.is_empty() {
                        continue;
                    }
                    texts.push(text);
                }
                "tool_use" => {
                    let arguments = if input.is_empty() {
                        match block.get("input") {
                            Some(Value::Object(map)) => Ok(map.clone()),
                            None | Some(Value::Null) => Ok(Map::new()),
                            Some(other) => Err(ArgumentsError(other.to_string())),
                        }
                    } else {
                        parse_arguments(&input)
                    };
                    block["input"] = Value::Object(arguments.clone().unwrap_or_default());
                    calls.push(Call { id: text_at(&block, "id"), name: text_at(&block, "name"), arguments });
                }
                _ => {}
            }
            content.push(block);
        }
        let stop = match self.stop_reason.as_deref() {
            Some("max_tokens") => Stop::OutputLimit,
            Some("model_context_window_exceeded") => Stop::ContextFull,
            Some("refusal") => Stop::Refused,
            Some("pause_turn") => Stop::Pause,
            _ => Stop::Done,
        };
        Turn { texts, calls, stop, usage, message: json!({"role": "assistant", "content": content}) }
    }
}

impl Block {
    fn add(&mut self, delta: &Value) {
        if let Some(piece) = delta.get("partial_json").and_then(Value::as_str) {
            self.input.push_str(piece);
            return;
        }
        for key in ["text", "thinking", "signature"] {
            let Some(piece) = delta.get(key).and_then(Value::as_str) else { continue };
            match self.value.get_mut(key) {
                Some(Value::String(whole)) => whole.push_str(piece),
                _ => self.value[key] = Value::String(piece.to_owned()),
            }
        }
    }
}
