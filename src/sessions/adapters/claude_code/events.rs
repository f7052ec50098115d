//! Claude Code's `stream-json` output.

use std::collections::HashMap;

use rust_decimal::Decimal;
use rust_decimal::prelude::FromPrimitive;
use serde_json::{Value, json};

use super::super::common::{self, Names, SERVER, number, string};
use super::super::{ErrorClass, Failure, Outcome, Parser, RunEvent, Usage};
use super::SKILL_TOOL;
use process::ExitInfo;
use tools::SKILL_READ;

/// One run's state.
#[derive(Default)]
pub(super) struct ClaudeParser {
    names: Names,
    /// `None` as long as it is not known.
    mcp: Option<bool>,
    /// Of each tool call by its id: the tool's name, and whether it is the butler's.
    tools: HashMap<String, (String, bool)>,
    /// Bytes of the text that is being written.
    written: usize,
    /// The vendor's word for the last API error.
    api_error: Option<String>,
    result: Option<Value>,
}

/// What the program puts before the butler's names.
fn prefix() -> String {
    format!("mcp__{SERVER}__")
}

/// The vendor's words for API errors, in `api_retry` and in the made-up assistant message after the last try.
fn class_of_word(word: &str) -> Option<ErrorClass> {
    Some(match word {
        "authentication_failed" => ErrorClass::Auth,
        "billing_error" => ErrorClass::Budget,
        "rate_limit" => ErrorClass::RateLimited,
        "overloaded" | "server_error" => ErrorClass::Overloaded,
        "invalid_request" | "model_not_found" => ErrorClass::InvalidRequest,
        "max_output_tokens" => ErrorClass::OutputLimit,
        _ => return None,
    })
}

impl ClaudeParser {
    pub fn new(tools: &[String]) -> Self {
        Self { names: Names::new(tools), ..Self::default() }
    }

    fn system(&mut self, event: &Value) -> Vec<RunEvent> {
        match string(event, "subtype") {
            Some("init") => {
                let servers = event.get("mcp_servers").and_then(Value::as_array);
                let ours = servers.and_then(|s| s.iter().find(|s| string(s, "name") == Some(SERVER)));
                self.mcp = match ours.and_then(|s| string(s, "status")) {
                    Some("connected") => Some(true),
                    // It may yet come; a call that is answered will tell.
                    Some("pending") => None,
                    _ => Some(false),
                };
                self.mcp.map(RunEvent::McpConnected).into_iter().collect()
            }
            Some("api_retry") => {
                let status = number(event, "error_status");
                let class = status
                    .and_then(ErrorClass::of_status)
                    .or_else(|| class_of_word(string(event, "error")?))
                    .unwrap_or(ErrorClass::ModelUnreachable);
                vec![RunEvent::Retry {
                    class,
                    attempt: number(event, "attempt").and_then(|n| n.try_into().ok()).unwrap_or(1),
                    delay_ms: number(event, "retry_delay_ms"),
                    status: status.and_then(|s| s.try_into().ok()),
                    message: None,
                }]
            }
            _ => Vec::new(),
        }
    }

    fn assistant(&mut self, event: &Value) -> Vec<RunEvent> {
        if let Some(word) = string(event, "error") {
            self.api_error = Some(word.to_owned());
        }
        let message = &event["message"];
        if string(message, "model") == Some("<synthetic>") {
            // An error in the shape of words of the model.
            return Vec::new();
        }
        let meta = event.get("tool_use_meta").and_then(Value::as_array);
        let own_name = |id: &str| {
            let entry = meta?.iter().find(|m| string(m, "id") == Some(id))?;
            string(entry, "tool_name").map(str::to_owned)
        };
        let mut events = Vec::new();
        for block in message.get("content").and_then(Value::as_array).into_iter().flatten() {
            match string(block, "type") {
                Some("text") => {
                    let text = string(block, "text").unwrap_or_default();
                    if !text.is_empty() {
                        events.push(RunEvent::Text(text.to_owned()));
                    }
                }
                Some("tool_use") => {
                    let id = string(block, "id").unwrap_or_default().to_owned();
                    let shown = string(block, "name").unwrap_or_default();
                    let stripped = shown.strip_prefix(&prefix());
                    let name = match stripped {
                        Some(stripped) => own_name(&id).unwrap_or_else(|| self.names.own(stripped)),
                        None if shown == SKILL_TOOL => SKILL_READ.to_owned(),
                        None => shown.to_owned(),
                    };
                    self.tools.insert(id.clone(), (name.clone(), stripped.is_some()));
                    let arguments = if stripped.is_none() && shown == SKILL_TOOL {
                        skill_arguments(&block["input"])
                    } else {
                        block["input"].clone()
                    };
                    events.push(RunEvent::ToolCall { id, name, arguments });
                }
                _ => {}
            }
        }
        events
    }

    /// An event of the model's own stream: text as it is written. The whole follows in an `assistant` event.
    fn partial(&mut self, event: &Value) -> Vec<RunEvent> {
        let part = &event["event"];
        match (string(part, "type"), part.pointer("/delta/text").and_then(Value::as_str)) {
            // What its helpers write among themselves is no answer.
            _ if event["parent_tool_use_id"].is_string() => Vec::new(),
            (Some("content_block_start"), _) => {
                self.written = 0;
                Vec::new()
            }
            (Some("content_block_delta"), Some(text)) => common::written(&mut self.written, text),
            _ => Vec::new(),
        }
    }

    fn user(&mut self, event: &Value) -> Vec<RunEvent> {
        let mut events = Vec::new();
        for block in event["message"].get("content").and_then(Value::as_array).into_iter().flatten() {
            if string(block, "type") != Some("tool_result") {
                continue;
            }
            let id = string(block, "tool_use_id").unwrap_or_default().to_owned();
            let (name, of_butler) = self.tools.remove(&id).unwrap_or_default();
            let is_error = block["is_error"] == true;
            if self.mcp.is_none() && of_butler && !is_error {
                self.mcp = Some(true);
                events.push(RunEvent::McpConnected(true));
            }
            events.push(RunEvent::ToolResult { id, name, is_error, content: content(&block["content"]) });
        }
        events
    }

    fn error(&self, result: &Value) -> Option<Failure> {
        let subtype = string(result, "subtype").unwrap_or_default();
        if subtype == "success" && result["is_error"] == false {
            let message = match self.mcp {
                Some(true) => return None,
                Some(false) => "Claude Code could not reach the butler's tools and ran without them",
                None => "Claude Code never said that it reached the butler's tools",
            };
            return Some(Failure::new(ErrorClass::McpUnreachable, message));
        }
        let reason = string(result, "terminal_reason").unwrap_or_default();
        let class = match (subtype, reason) {
            ("error_max_turns", _) => ErrorClass::Turns,
            ("error_max_budget_usd", _) => ErrorClass::Budget,
            (_, "prompt_too_long") => ErrorClass::ContextTooLong,
            // SIGINT: it then exits with 0.
            (_, aborted) if aborted.starts_with("aborted") => ErrorClass::Cancelled,
            ("success", _) => number(result, "api_error_status")
                .and_then(ErrorClass::of_status)
                // A refused connection is called `server_error` too.
                .or_else(|| class_of_word(self.api_error.as_deref()?).filter(|c| *c != ErrorClass::Overloaded))
                // Without a status there was no answer, or none that its API promises.
                .unwrap_or(if reason == "api_error" { ErrorClass::ModelUnreachable } else { ErrorClass::Crashed }),
            _ => ErrorClass::Crashed,
        };
        let errors = result.get("errors").and_then(Value::as_array);
        let first = errors.and_then(|e| e.iter().find_map(Value::as_str));
        let message = string(result, "result").or(first).unwrap_or(subtype);
        let class = if message.starts_with("Not logged in") { ErrorClass::Auth } else { class };
        Some(Failure::new(class, common::shown(message)))
    }
}

/// The arguments of the program's own tool for skills, as those of the butler's.
fn skill_arguments(input: &Value) -> Value {
    let name = string(input, "skill").unwrap_or_default();
    json!({"name": name.strip_prefix(SERVER).and_then(|n| n.strip_prefix(':')).unwrap_or(name)})
}

/// The text of a tool's result: a string, or blocks of which those that are no text stand there as JSON.
fn content(value: &Value) -> String {
    let block = |b: &Value| match string(b, "text") {
        Some(text) => text.to_owned(),
        None => b.to_string(),
    };
    match value {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().map(block).collect::<Vec<_>>().join("\n"),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Tokens and dollars of all models of the run. `usage` is 0 after some failures where `modelUsage` has the numbers; an
/// empty `modelUsage` means that no request was answered, and nothing is known then. Dollars are known only where the
/// program knew the model's price.
fn spent(result: &Value) -> (Usage, Option<Decimal>) {
    let models = result.get("modelUsage").and_then(Value::as_object);
    let Some(models) = models.filter(|m| !m.is_empty()) else { return (Usage::default(), None) };
    let usage = models.values().map(of_model).fold(Usage::default(), Usage::plus);
    let guessed = models.values().any(|m| string(m, "costBasis") == Some("unknown"));
    let cost = result.get("total_cost_usd").and_then(Value::as_f64).and_then(Decimal::from_f64);
    (usage, cost.filter(|c| !guessed && !c.is_zero()))
}

/// What each model was used for: the program asks smaller ones for titles and the like.
fn by_model(result: &Value) -> Vec<RunEvent> {
    let models = result.get("modelUsage").and_then(Value::as_object).into_iter().flatten();
    models.flat_map(|(model, used)| [RunEvent::Model(model.clone()), RunEvent::Usage(of_model(used))]).collect()
}

fn of_model(used: &Value) -> Usage {
    Usage {
        input: number(used, "inputTokens"),
        output: number(used, "outputTokens"),
        cache_read: number(used, "cacheReadInputTokens"),
        cache_write: number(used, "cacheCreationInputTokens"),
    }
}

impl Parser for ClaudeParser {
    fn line(&mut self, line: &str) -> Vec<RunEvent> {
        let Ok(event) = serde_json::from_str::<Value>(line) else { return Vec::new() };
        match string(&event, "type") {
            Some("system") => self.system(&event),
            Some("assistant") => self.assistant(&event),
            Some("user") => self.user(&event),
            Some("stream_event") => self.partial(&event),
            Some("result") => {
                let mut events = by_model(&event);
                self.result = Some(event);
                events.push(RunEvent::Final);
                events
            }
            _ => Vec::new(),
        }
    }

    fn finish(&mut self, exit: ExitInfo, stderr_tail: &str) -> Outcome {
        let Some(result) = self.result.take() else {
            return Outcome::failed(common::no_final_event("Claude Code", exit, stderr_tail));
        };
        let error = self.error(&result);
        let (usage, mut cost_usd) = spent(&result);
        // Versions that don't say how they came to the price say this.
        if stderr_tail.contains("unrecognized_model") {
            cost_usd = None;
        }
        let turns = number(&result, "num_turns").filter(|_| usage != Usage::default());
        // It counts the turn that it did not take any more.
        let over = u64::from(string(&result, "subtype") == Some("error_max_turns"));
        let text = string(&result, "result").filter(|_| result["is_error"] == false);
        Outcome {
            ok: error.is_none(),
            final_text: text.map(str::to_owned),
            usage,
            cost_usd,
            turns: turns.and_then(|n| n.checked_sub(over)?.try_into().ok()),
            error,
        }
    }
}
