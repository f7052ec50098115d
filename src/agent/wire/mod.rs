//! The two wire formats. Everything here is pure: requests are built, answers are read, nobody is called.
//!
//! The history of a conversation is kept in the wire format itself, so that blocks of the answer which the agent
//! doesn't understand (thinking, signatures) go back to the model as they came.

mod anthropic;
mod openai;
#[cfg(test)]
mod tests;

use llm_api::{Failure, Reading, Usage};
use serde_json::{Map, Value};

use super::config::{AgentConfig, Api};
use base::SseEvent;

/// A tool as the model is told of it.
#[derive(Clone, Debug)]
pub struct WireTool {
    /// In the alphabet that the APIs accept.
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments.
    pub schema: Value,
}

/// Arguments that are not a JSON object: the text that came in their place.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("not a JSON object: {0}")]
pub struct ArgumentsError(pub String);

/// The model asks for a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Empty in the answers of some servers; [`Turn::name_calls`] fills it.
    pub id: String,
    pub name: String,
    pub arguments: Result<Map<String, Value>, ArgumentsError>,
}

/// Why the model stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// It is done, or waits for tools.
    Done,
    /// Cut at `max_output_tokens`.
    OutputLimit,
    /// Cut because the context is full.
    ContextFull,
    /// It or its provider declined.
    Refused,
    /// The server interrupts a long turn and wants the same conversation again.
    Pause,
}

/// One whole answer of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    pub texts: Vec<String>,
    pub calls: Vec<Call>,
    pub stop: Stop,
    pub usage: Usage,
    /// The answer as a message of the history.
    pub message: Value,
}

impl Turn {
    /// Gives the calls that came without an id one of their own, here and in the history. `turn` keeps them unique.
    pub fn name_calls(&mut self, turn: u32) {
        for (n, call) in self.calls.iter_mut().enumerate().filter(|(_, call)| call.id.is_empty()) {
            call.id = format!("call_{turn}_{n}");
            let list = if self.message.get("tool_calls").is_some() { "tool_calls" } else { "content" };
            let is_call = |block: &&mut Value| list == "tool_calls" || block["type"] == "tool_use";
            let blocks = self.message.get_mut(list).and_then(Value::as_array_mut);
            if let Some(block) = blocks.and_then(|blocks| blocks.iter_mut().filter(is_call).nth(n)) {
                block["id"] = Value::String(call.id.clone());
            }
        }
    }
}

/// What came of a call, as the model will read it.
#[derive(Clone, Debug)]
pub struct ToolOutcome {
    pub id: String,
    pub content: String,
    pub is_error: bool,
}

/// An answer that breaks the API's own rules, or ends before it is whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadAnswer {
    #[error("the answer broke off before its end")]
    Incomplete,
    #[error("the answer is not what the API promises: {0}")]
    Malformed(String),
    /// More events than so many tokens can take.
    #[error("the answer had no end: it went on after {mib} MiB, more than {tokens} tokens take")]
    Endless { mib: usize, tokens: u32 },
    #[error(transparent)]
    Failure(#[from] Failure),
}

impl Api {
    /// Where to post.
    pub fn url(self, base: &str) -> String {
        let base = base.trim_end_matches('/');
        match self {
            Api::Anthropic => format!("{}/v1/messages", base.strip_suffix("/v1").unwrap_or(base)),
            Api::Openai => format!("{base}/chat/completions"),
        }
    }

    /// The header that carries the key and its value, given the name of the variable that the key came from.
    pub fn key_header(self, variable: &str, key: &str) -> (&'static str, String) {
        match self {
            Api::Anthropic if !variable.ends_with("_AUTH_TOKEN") => ("x-api-key", key.to_owned()),
            _ => ("authorization", format!("Bearer {key}")),
        }
    }

    /// Headers that belong to the format.
    pub fn headers(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Api::Anthropic => &[("anthropic-version", "2023-06-01")],
            Api::Openai => &[],
        }
    }

    /// The first messages of the conversation.
    pub fn opening(self, config: &AgentConfig) -> Vec<Value> {
        match self {
            Api::Anthropic => anthropic::opening(config),
            Api::Openai => openai::opening(config),
        }
    }

    /// The request for the next turn.
    pub fn request(self, config: &AgentConfig, tools: &[WireTool], history: &[Value]) -> Value {
        match self {
            Api::Anthropic => anthropic::request(config, tools, history),
            Api::Openai => openai::request(config, tools, history),
        }
    }

    /// The messages that tell the model what its calls gave, in their order.
    pub fn outcomes(self, outcomes: &[ToolOutcome]) -> Vec<Value> {
        match self {
            Api::Anthropic => anthropic::outcomes(outcomes),
            Api::Openai => openai::outcomes(outcomes),
        }
    }

    /// Reads an answer that came as one JSON document, from servers that don't stream.
    pub fn whole(self, answer: &Value) -> Result<Turn, BadAnswer> {
        let mut reader = AnswerReader::new(self, 0);
        reader.note(answer)?;
        reader.said.done();
        match &mut reader.content {
            Content::Messages(content) => content.whole(answer)?,
            Content::Chat(content) => content.whole(answer)?,
        }
        reader.finish()
    }

    fn wire(self) -> llm_api::Api {
        match self {
            Api::Anthropic => llm_api::Api::Messages,
            Api::Openai => llm_api::Api::Chat,
        }
    }
}

const MIB: usize = 1024 * 1024;

/// How many bytes the events of an answer of so many tokens take at most: servers that send each token by itself and
/// repeat the model's name with it need a quarter of that.
fn largest(max_tokens: u32) -> usize {
    2 * MIB + 1024 * usize::try_from(max_tokens).unwrap_or(usize::MAX / 2048)
}

/// Puts a streamed answer together.
#[derive(Debug)]
pub struct AnswerReader {
    api: Api,
    /// Bytes of events that may still come.
    left: usize,
    max_tokens: u32,
    said: Reading,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Messages(anthropic::Content),
    Chat(openai::Content),
}

impl AnswerReader {
    /// `max_tokens`: what the model was told that its answer may take. Its events may take [`largest`] then.
    pub fn new(api: Api, max_tokens: u32) -> Self {
        let content = match api {
            Api::Anthropic => Content::Messages(anthropic::Content::default()),
            Api::Openai => Content::Chat(openai::Content::default()),
        };
        Self { api, left: largest(max_tokens), max_tokens, said: Reading::default(), content }
    }

    /// Takes the next event.
    pub fn event(&mut self, event: &SseEvent) -> Result<(), BadAnswer> {
        self.left = self.left.checked_sub(event.data.len()).ok_or_else(|| self.endless())?;
        if event.data == "[DONE]" {
            if self.api == Api::Openai {
                self.said.done();
            }
            return Ok(());
        }
        let data: Value = serde_json::from_str(&event.data)
            .map_err(|_| BadAnswer::Malformed("an event of the stream is not valid JSON".to_owned()))?;
        self.note(&data)?;
        match &mut self.content {
            Content::Messages(content) => content.event(&data)?,
            Content::Chat(content) => content.event(&data),
        }
        Ok(())
    }

    /// The answer's first text, as far as it is there.
    pub fn text(&self) -> &str {
        let text = match &self.content {
            Content::Messages(content) => content.text(),
            Content::Chat(content) => content.text(),
        };
        if text.trim().is_empty() { "" } else { text }
    }

    fn endless(&self) -> BadAnswer {
        BadAnswer::Endless { mib: largest(self.max_tokens) / MIB, tokens: self.max_tokens }
    }

    /// Notes what a document tells beside its content.
    fn note(&mut self, data: &Value) -> Result<(), BadAnswer> {
        self.said.document(self.api.wire(), data);
        self.said.failure.take().map_or(Ok(()), |failure| Err(failure.into()))
    }

    /// The stream has ended: the turn, if it was whole.
    pub fn finish(self) -> Result<Turn, BadAnswer> {
        if !self.said.whole {
            return Err(BadAnswer::Incomplete);
        }
        Ok(match self.content {
            Content::Messages(content) => content.turn(self.said.usage),
            Content::Chat(content) => content.turn(self.said.usage),
        })
    }
}

/// Reads arguments that come as text. No text at all means no arguments.
fn parse_arguments(text: &str) -> Result<Map<String, Value>, ArgumentsError> {
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(Value::Null) => Ok(Map::new()),
        _ => Err(ArgumentsError(text.to_owned())),
    }
}

fn text_at(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}
