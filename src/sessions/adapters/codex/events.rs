//! Codex's `exec --json` output.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::super::common::{self, Names, number, string};
use super::super::{ErrorClass, Failure, Outcome, Parser, RunEvent, Usage};
use process::ExitInfo;

/// One run's state.
#[derive(Default)]
pub(super) struct CodexParser {
    names: Names,
    /// Its first event comes when its required server is connected.
    begun: bool,
    /// Calls that were told.
    called: HashSet<String>,
    final_text: Option<String>,
    /// The last error that was no notice of a retry.
    complaint: Option<String>,
    end: Option<Value>,
}

/// Items that are no work of a tool.
const SILENT: [&str; 4] = ["agent_message", "reasoning", "error", "todo_list"];

/// The HTTP status that a message names.
fn status(message: &str) -> Option<u64> {
    let rest = &message[message.find("status")?..];
    let digits = rest.trim_start_matches(|c: char| !c.is_ascii_digit()).split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok().filter(|n| (400..600).contains(n))
}

/// What the last words of a failed run mean. They are for people, so this goes by their wording.
fn class(message: &str) -> ErrorClass {
    let says = |words: &str| message.contains(words);
    // Whatever a server answers with 400 stands here as it came.
    let body: Value = serde_json::from_str(message).unwrap_or_default();
    let code = body.pointer("/error/code").and_then(Value::as_str).unwrap_or_default();
    if says("ran out of room in the model's context") || code == "context_length_exceeded" {
        ErrorClass::ContextTooLong
    } else if says("budget reached") || says("Quota exceeded") || code == "insufficient_quota" {
        ErrorClass::Budget
    } else if says("usage limit") {
        ErrorClass::RateLimited
    } else if says("Missing environment variable") {
        ErrorClass::Auth
    } else if let Some(class) = status(message).and_then(ErrorClass::of_status) {
        class
    } else if says("experiencing high demand") || says("at capacity") {
        ErrorClass::Overloaded
    } else if says("stream disconnected") || says("Connection failed") || says("error sending request") {
        ErrorClass::ModelUnreachable
    } else if body.is_object() {
        ErrorClass::InvalidRequest
    } else {
        ErrorClass::Crashed
    }
}

/// The error behind the last words of a failed run: of a server's whole answer its sentence.
fn failure(message: &str) -> Failure {
    let body: Value = serde_json::from_str(message).unwrap_or_default();
    let sentence = body.pointer("/error/message").and_then(Value::as_str).unwrap_or(message);
    Failure::new(class(message), common::shown(sentence))
}

/// Tokens of the run. The program counts cached input as input.
fn usage(event: &Value) -> Usage {
    let told = &event["usage"];
    let (read, write) = (number(told, "cached_input_tokens"), number(told, "cache_write_input_tokens"));
    let cached = read.unwrap_or(0).saturating_add(write.unwrap_or(0));
    Usage {
        input: number(told, "input_tokens").map(|n| n.saturating_sub(cached)),
        output: number(told, "output_tokens"),
        cache_read: read,
        cache_write: write,
    }
}

/// The text of a tool's result.
fn content(item: &Value) -> String {
    if let Some(message) = item.pointer("/error/message").and_then(Value::as_str) {
        return message.to_owned();
    }
    let blocks = item.pointer("/result/content").and_then(Value::as_array);
    let text = |b: &Value| string(b, "text").map_or_else(|| b.to_string(), str::to_owned);
    match blocks {
        Some(blocks) => blocks.iter().map(text).collect::<Vec<_>>().join("\n"),
        None => string(item, "aggregated_output").unwrap_or_default().to_owned(),
    }
}

impl CodexParser {
    pub fn new(tools: &[String]) -> Self {
        Self { names: Names::new(tools), ..Self::default() }
    }

    fn item(&mut self, item: &Value, completed: bool) -> Vec<RunEvent> {
        let id = string(item, "id").unwrap_or_default().to_owned();
        let (name, arguments) = match string(item, "type").unwrap_or_default() {
            "agent_message" if completed => {
                let text = string(item, "text").unwrap_or_default().to_owned();
                self.final_text = Some(text.clone());
                return if text.is_empty() { Vec::new() } else { vec![RunEvent::Text(text)] };
            }
            kind if SILENT.contains(&kind) || kind.is_empty() => return Vec::new(),
            "mcp_tool_call" => {
                let tool = string(item, "tool").unwrap_or_default();
                let ours = string(item, "server") == Some(common::SERVER);
                let name = if ours { self.names.own(tool) } else { tool.to_owned() };
                (name, item["arguments"].clone())
            }
            // A built-in tool that was granted.
            kind => {
                let arguments = ["command", "query", "changes"].iter().find_map(|k| Some((*k, item.get(*k)?)));
                (kind.to_owned(), arguments.map_or(Value::Null, |(key, value)| json!({key: value})))
            }
        };
        let mut events = Vec::new();
        if self.called.insert(id.clone()) {
            events.push(RunEvent::ToolCall { id: id.clone(), name: name.clone(), arguments });
        }
        if completed {
            let is_error = string(item, "status").is_some_and(|s| s != "completed");
            events.push(RunEvent::ToolResult { id, name, is_error, content: content(item) });
        }
        events
    }

    fn error(&mut self, event: &Value) -> Vec<RunEvent> {
        let message = string(event, "message").unwrap_or_default();
        let Some(count) = message.strip_prefix("Reconnecting... ") else {
            self.complaint = Some(message.to_owned());
            return Vec::new();
        };
        let attempt = count.split('/').next().and_then(|n| n.parse().ok()).unwrap_or(1);
        let status = status(message).and_then(|s| s.try_into().ok());
        vec![RunEvent::Retry { class: class(message), attempt, delay_ms: None, status, message: None }]
    }
}

impl Parser for CodexParser {
    fn line(&mut self, line: &str) -> Vec<RunEvent> {
        let Ok(event) = serde_json::from_str::<Value>(line) else { return Vec::new() };
        match string(&event, "type") {
            Some("thread.started") if !self.begun => {
                self.begun = true;
                vec![RunEvent::McpConnected(true)]
            }
            Some("item.started") => self.item(&event["item"], false),
            Some("item.completed") => self.item(&event["item"], true),
            Some("error") => self.error(&event),
            Some("turn.completed") => {
                let used = usage(&event);
                self.end = Some(event);
                vec![RunEvent::Usage(used), RunEvent::Final]
            }
            Some("turn.failed") => {
                self.end = Some(event);
                vec![RunEvent::Final]
            }
            _ => Vec::new(),
        }
    }

    fn finish(&mut self, exit: ExitInfo, stderr_tail: &str) -> Outcome {
        let Some(end) = self.end.take() else {
            if stderr_tail.contains("required MCP servers failed to initialize") {
                let why = "Codex could not reach the butler's tools and did not begin";
                return Outcome::failed(Failure::new(ErrorClass::McpUnreachable, why));
            }
            if let Some(complaint) = self.complaint.take() {
                return Outcome::failed(failure(&complaint));
            }
            return Outcome::failed(common::no_final_event("Codex", exit, stderr_tail));
        };
        if string(&end, "type") == Some("turn.failed") {
            let message = end.pointer("/error/message").and_then(Value::as_str);
            return Outcome::failed(failure(message.or(self.complaint.as_deref()).unwrap_or("Codex gave no reason")));
        }
        let error = (!self.begun)
            .then(|| Failure::new(ErrorClass::McpUnreachable, "Codex never said that it had begun with its tools"));
        Outcome {
            ok: error.is_none(),
            final_text: self.final_text.take(),
            usage: usage(&end),
            cost_usd: None,
            turns: None,
            error,
        }
    }
}
