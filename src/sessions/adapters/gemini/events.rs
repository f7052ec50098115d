//! The Gemini CLI's `stream-json` output.

use std::collections::HashMap;

use serde_json::Value;

use super::super::common::{self, Names, number, string};
use super::super::{ErrorClass, Failure, Outcome, Parser, RunEvent, Usage};
use super::SKILL_TOOL;
use process::ExitInfo;
use tools::SKILL_READ;

/// One run's state.
#[derive(Default)]
pub(super) struct GeminiParser {
    names: Names,
    /// Names of the calls that are open, by their ids.
    calls: HashMap<String, String>,
    /// What the model has said since its last call.
    text: String,
    /// The last whole text.
    said: Option<String>,
    /// The last error that was told before the result, which may have none.
    complaint: Option<String>,
    result: Option<Value>,
}

/// The program's words for no answer, or half of one.
const BROKEN_ANSWERS: [&str; 4] = ["fetch failed", "Incomplete JSON", "stream ended", "terminated"];

/// What the program puts before the butler's names.
fn prefix() -> String {
    format!("mcp_{}_", common::SERVER)
}

/// The HTTP status behind an exit code: the program exits with the status of the model's last answer, of which the
/// system keeps the low eight bits. The program's own codes are others.
fn status_of_exit(code: i32) -> Option<u64> {
    match code {
        144..=255 => u64::try_from(code + 256).ok(),
        17 => Some(529),
        _ => None,
    }
}

/// Tokens of the run. The program counts cached input as input; thoughts are only in its total, and paid as output.
fn usage(result: &Value) -> Usage {
    let stats = &result["stats"];
    // Nobody answered, so nothing is known.
    if number(stats, "total_tokens").is_none_or(|n| n == 0) {
        return Usage::default();
    }
    let (input, cached) = (number(stats, "input_tokens"), number(stats, "cached"));
    let said = number(stats, "output_tokens");
    let rest = number(stats, "total_tokens").zip(input).and_then(|(total, input)| total.checked_sub(input));
    Usage {
        input: input.map(|n| n.saturating_sub(cached.unwrap_or(0))),
        output: said.max(rest),
        cache_read: cached,
        cache_write: None,
    }
}

/// The model server's answer, where the program quotes it whole: `[API Error: {…}]`.
fn answer(message: &str) -> Value {
    let json = message.strip_prefix("[API Error: ").and_then(|m| m.rsplit_once(']')).map_or("", |(json, _)| json);
    serde_json::from_str(json).unwrap_or_default()
}

/// What a butler's tool said of its error: it stands as JSON at the end of the program's own sentence.
fn tools_words(message: &str) -> Option<String> {
    let (_, response) = message.split_once(" with response: ")?;
    let response: Value = serde_json::from_str(response).ok()?;
    let blocks = response.pointer("/0/functionResponse/response/content")?.as_array()?;
    Some(blocks.iter().filter_map(|b| string(b, "text")).collect::<Vec<_>>().join("\n"))
}

impl GeminiParser {
    pub fn new(tools: &[String]) -> Self {
        Self { names: Names::new(tools), ..Self::default() }
    }

    /// The text that has come to its end, if there is any.
    fn block(&mut self) -> Vec<RunEvent> {
        if self.text.is_empty() {
            return Vec::new();
        }
        let text = std::mem::take(&mut self.text);
        self.said = Some(text.clone());
        vec![RunEvent::Text(text)]
    }

    fn call(&mut self, event: &Value) -> Vec<RunEvent> {
        let mut events = self.block();
        let id = string(event, "tool_id").unwrap_or_default().to_owned();
        let shown = string(event, "tool_name").unwrap_or_default();
        let name = match shown.strip_prefix(&prefix()) {
            Some(stripped) => self.names.own(stripped),
            None if shown == SKILL_TOOL => SKILL_READ.to_owned(),
            None => shown.to_owned(),
        };
        self.calls.insert(id.clone(), name.clone());
        events.push(RunEvent::ToolCall { id, name, arguments: event["parameters"].clone() });
        events
    }

    fn called(&mut self, event: &Value) -> Vec<RunEvent> {
        let id = string(event, "tool_id").unwrap_or_default().to_owned();
        let name = self.calls.remove(&id).unwrap_or_default();
        let is_error = string(event, "status") != Some("success");
        let message = event.pointer("/error/message").and_then(Value::as_str).filter(|_| is_error);
        let content = message.or(string(event, "output")).unwrap_or_default();
        let content = message.and_then(tools_words).unwrap_or_else(|| content.to_owned());
        vec![RunEvent::ToolResult { id, name, is_error, content }]
    }

    fn error(&self, result: &Value, exit: ExitInfo) -> Option<Failure> {
        if string(result, "status") == Some("success") {
            return None;
        }
        let part = |key: &str| result.pointer(&format!("/error/{key}")).and_then(Value::as_str);
        let message = part("message").or(self.complaint.as_deref()).unwrap_or("the Gemini CLI gave no reason");
        let answer = answer(message);
        let code = answer.pointer("/error/code").and_then(Value::as_u64);
        let status = code.or_else(|| exit.code.and_then(status_of_exit));
        let says = |words: &str| message.contains(words);
        let class = match part("type").unwrap_or_default() {
            "FatalTurnLimitedError" => ErrorClass::Turns,
            "FatalAuthenticationError" => ErrorClass::Auth,
            _ if says("exceeds the maximum number of tokens") => ErrorClass::ContextTooLong,
            _ if says("exhausted your daily quota") => ErrorClass::RateLimited,
            _ => match status.and_then(ErrorClass::of_status) {
                Some(class) => class,
                None if BROKEN_ANSWERS.iter().any(|words| says(words)) => ErrorClass::ModelUnreachable,
                None => ErrorClass::Crashed,
            },
        };
        let sentence = answer.pointer("/error/message").and_then(Value::as_str).unwrap_or(message);
        Some(Failure::new(class, common::shown(sentence)))
    }
}

impl Parser for GeminiParser {
    fn line(&mut self, line: &str) -> Vec<RunEvent> {
        let Ok(event) = serde_json::from_str::<Value>(line) else { return Vec::new() };
        match string(&event, "type") {
            Some("message") if string(&event, "role") == Some("assistant") => {
                let piece = string(&event, "content").unwrap_or_default();
                let mut start = self.text.len();
                self.text.push_str(piece);
                common::written(&mut start, piece)
            }
            Some("error") => {
                self.complaint = string(&event, "message").map(str::to_owned);
                Vec::new()
            }
            Some("tool_use") => self.call(&event),
            Some("tool_result") => self.called(&event),
            Some("result") => {
                let mut events = self.block();
                events.extend([RunEvent::Usage(usage(&event)), RunEvent::Final]);
                self.result = Some(event);
                events
            }
            _ => Vec::new(),
        }
    }

    fn finish(&mut self, exit: ExitInfo, stderr_tail: &str) -> Outcome {
        let Some(result) = self.result.take() else {
            return Outcome::failed(common::no_final_event("the Gemini CLI", exit, stderr_tail));
        };
        let error = self.error(&result, exit);
        Outcome {
            ok: error.is_none(),
            final_text: self.said.take(),
            usage: usage(&result),
            cost_usd: None,
            turns: None,
            error,
        }
    }
}
