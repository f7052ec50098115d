//! butlerd's own small agent, `butlerd agent`, as a child like any other.

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use super::common::{self, number, string};
use super::{
    Adapter, AdapterError, Composed, EnvList, ErrorClass, Failure, Invocation, Outcome, Parser, Probe, RunEvent, Usage,
};
use config::{Api, RuntimeKind, SandboxMode};
use process::{ExitInfo, ProcessSupervisor};

/// Where the agent reads its configuration from.
const CONFIG_FILE: &str = "agent.json";
const CONFIG_ENV: &str = "BUTLERD_AGENT_CONFIG";

/// The variables of the native agent: its configuration, and one key, for the protocol that it speaks.
pub const FIXED_ENV: EnvList =
    EnvList { always: &[CONFIG_ENV], sometimes: &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY"] };

/// The adapter of the native agent.
#[derive(Clone, Debug)]
pub struct Native;

/// This very binary. The link in `/proc` works where its path doesn't: after it was replaced by a newer one, or in a
/// directory that the children's user can't enter.
const PROGRAM: &str = "/proc/self/exe";

/// The variables in which a key for a protocol may be.
fn key_names(api: Api) -> &'static [&'static str] {
    match api {
        Api::Anthropic => &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"],
        Api::Openai => &["OPENAI_API_KEY"],
    }
}

#[async_trait]
impl Adapter for Native {
    fn kind(&self) -> RuntimeKind {
        RuntimeKind::Native
    }

    fn compose(&self, inv: &Invocation) -> Result<Composed, AdapterError> {
        if inv.prompt.trim().is_empty() {
            return Err(AdapterError::EmptyPrompt);
        }
        if let Some(tool) = inv.granted_tools.first() {
            return Err(AdapterError::Tool(tool.clone(), self.kind()));
        }
        let model = inv.model.as_deref().ok_or(AdapterError::NoModel(self.kind()))?;
        let key = common::credential(inv, key_names(inv.api));
        let (default_url, hint) = match inv.api {
            Api::Anthropic => (
                "https://api.anthropic.com",
                "run `butlerd secret set ANTHROPIC_API_KEY`, or set [runtime] endpoint in butlerd.toml to a model server of your own",
            ),
            Api::Openai => (
                "https://api.openai.com/v1",
                "run `butlerd secret set OPENAI_API_KEY`, or set [runtime] endpoint in butlerd.toml to a model server of your own",
            ),
        };
        let base_url = match (&inv.base_url, &key) {
            (Some(url), _) => url.as_str(),
            (None, Some(_)) => default_url,
            (None, None) => return Err(AdapterError::NoKey { runtime: self.kind(), hint }),
        };
        let mut config = json!({
            "api": inv.api.into_str(),
            "base_url": base_url,
            "model": model,
            "api_key_env": key.map(|(name, _)| name),
            "system_prompt": inv.system_prompt,
            "prompt": inv.prompt,
            "max_turns": inv.max_turns,
            "one_round": inv.one_round,
            "stream_text": inv.stream_text,
        });
        if !inv.images.is_empty() {
            let image = |(kind, data): &(String, Vec<u8>)| json!({"media_type": kind, "data": BASE64.encode(data)});
            config["images"] = inv.images.iter().map(image).collect();
        }
        // What is not said here has the agent's own default.
        if let Some(tokens) = inv.max_output_tokens {
            config["max_output_tokens"] = json!(tokens);
        }
        if let Some(timeout) = inv.request_timeout {
            config["request_timeout"] = json!(format!("{}ms", timeout.as_millis()));
        }
        if let Some(retries) = inv.max_retries {
            config["max_retries"] = json!(retries);
        }
        let mut own = vec![(CONFIG_ENV, inv.workspace.root.join(CONFIG_FILE).to_string_lossy().into_owned())];
        own.extend(key.map(|(name, key)| (name, key.expose().clone())));
        let env = common::environment(inv, FIXED_ENV, own)?;
        let mut args = vec!["agent".to_owned()];
        args.extend(inv.extra_args.iter().cloned());
        Ok(common::composed(PROGRAM.into(), args, env, vec![(CONFIG_FILE, config.to_string())], None))
    }

    fn parser(&self, _: &[String]) -> Box<dyn Parser> {
        Box::new(NativeParser::default())
    }

    async fn probe(&self, _: &ProcessSupervisor, _: SandboxMode) -> Probe {
        Probe { program: std::env::current_exe().ok(), version: Some(env!("CARGO_PKG_VERSION").into()), problem: None }
    }
}

#[derive(Default)]
struct NativeParser {
    mcp_connected: bool,
    result: Option<Value>,
}

fn usage(value: &Value) -> Usage {
    serde_json::from_value(value.clone()).unwrap_or_default()
}

/// A class by its name; a name that this build doesn't know is a crash.
fn class(value: &Value) -> ErrorClass {
    value.get("class").and_then(|c| serde_json::from_value(c.clone()).ok()).unwrap_or(ErrorClass::Crashed)
}

impl Parser for NativeParser {
    fn line(&mut self, line: &str) -> Vec<RunEvent> {
        let Ok(event) = serde_json::from_str::<Value>(line) else { return Vec::new() };
        let text = |key| string(&event, key).unwrap_or_default().to_owned();
        let one = match string(&event, "type") {
            Some("init") => {
                self.mcp_connected = event["mcp_connected"] == true;
                RunEvent::McpConnected(self.mcp_connected)
            }
            Some("text") => RunEvent::Text(text("text")),
            Some("text_delta") => {
                let Some(start) = number(&event, "start").and_then(|n| n.try_into().ok()) else { return Vec::new() };
                RunEvent::TextDelta { start, text: text("text") }
            }
            Some("tool_call") => {
                RunEvent::ToolCall { id: text("id"), name: text("name"), arguments: event["arguments"].clone() }
            }
            Some("tool_result") => RunEvent::ToolResult {
                id: text("id"),
                name: text("name"),
                is_error: event["is_error"] == true,
                content: text("content"),
            },
            Some("retry") => RunEvent::Retry {
                class: class(&event),
                attempt: number(&event, "attempt").and_then(|n| n.try_into().ok()).unwrap_or(1),
                delay_ms: number(&event, "delay_ms"),
                status: number(&event, "status").and_then(|n| n.try_into().ok()),
                message: string(&event, "message").filter(|m| !m.is_empty()).map(common::shown),
            },
            Some("usage") => RunEvent::Usage(usage(&event)),
            Some("result") => {
                self.result = Some(event);
                RunEvent::Final
            }
            _ => return Vec::new(),
        };
        vec![one]
    }

    fn finish(&mut self, exit: ExitInfo, stderr_tail: &str) -> Outcome {
        let Some(result) = self.result.take() else {
            return Outcome::failed(common::no_final_event("butlerd's agent", exit, stderr_tail));
        };
        let error = match (result["ok"] == true, result.get("error").filter(|e| !e.is_null())) {
            (true, None) if self.mcp_connected => None,
            (true, None) => {
                Some(Failure::new(ErrorClass::McpUnreachable, "the agent ran without being connected to its butler"))
            }
            (_, Some(error)) => Some(Failure::new(
                class(error),
                common::shown(string(error, "message").unwrap_or("the agent gave no reason")),
            )),
            (false, None) => Some(Failure::new(ErrorClass::Crashed, "the agent failed and gave no reason")),
        };
        Outcome {
            ok: error.is_none(),
            final_text: string(&result, "final_text").map(str::to_owned),
            usage: usage(&result["usage"]),
            cost_usd: None,
            turns: number(&result, "turns").and_then(|n| n.try_into().ok()),
            error,
        }
    }
}

#[cfg(test)]
#[path = "native_tests.rs"]
mod tests;
