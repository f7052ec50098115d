//! What the agent reports: one JSON object a line, and one last `result`.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// One line of the agent's standard output.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AgentEvent {
    /// Every MCP server answered and listed its tools; no model was called yet.
    Init { model: String, tools: Vec<String>, mcp_connected: bool },
    /// A whole block of text that the model wrote.
    Text { text: String },
    /// The model asks for a tool, by its MCP name. `arguments` is an object, or the raw text where it was none.
    ToolCall { id: String, name: String, arguments: Value },
    /// What the model is told of the call with this `id`.
    ToolResult { id: String, name: String, is_error: bool, content: String, duration_ms: u64 },
    /// A model call failed and is tried again after `delay_ms`. `attempt` counts the retries of this call from 1.
    Retry { class: ErrorClass, attempt: u32, delay_ms: u64, status: Option<u16> },
    /// What one model call used.
    Usage(Usage),
    /// The last line of every run.
    Result(RunResult),
}

/// Tokens. `None` means that the server did not say, never 0.
///
/// The four kinds do not overlap: `input_tokens` counts what was neither read from nor written to a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Usage {
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    pub cache_read_tokens: Option<u64>,
    pub cache_write_tokens: Option<u64>,
}

impl Usage {
    /// The sum of two model calls; unknown as soon as one of them is.
    pub fn plus(self, other: Self) -> Self {
        let sum = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        Self {
            input_tokens: sum(self.input_tokens, other.input_tokens),
            output_tokens: sum(self.output_tokens, other.output_tokens),
            cache_read_tokens: sum(self.cache_read_tokens, other.cache_read_tokens),
            cache_write_tokens: sum(self.cache_write_tokens, other.cache_write_tokens),
        }
    }
}

/// How the run ended.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunResult {
    pub ok: bool,
    /// The text of the model's last turn. After a failure it is there only if that turn was cut or refused.
    pub final_text: Option<String>,
    /// Model calls that were answered.
    pub turns: u32,
    pub error: Option<RunError>,
    /// The sum over all answered model calls; all unknown where there was none.
    #[serde(default)]
    pub usage: Usage,
}

/// Why the run failed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RunError {
    pub class: ErrorClass,
    /// For people: what happened, where, what to do.
    pub message: String,
}

/// The kinds of failure that a supervisor treats differently.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// The key is missing, wrong or not allowed to use this model (401, 403).
    Auth,
    /// 429, after all retries.
    RateLimited,
    /// 5xx, 529 or the server's own word, after all retries.
    Overloaded,
    /// Nobody answers at the model's address, or the answer breaks off, after all retries.
    ModelUnreachable,
    /// The conversation no longer fits the model.
    ContextTooLong,
    /// The account has no money left (402, exhausted quota).
    Budget,
    /// `max_turns` model calls were not enough.
    Turns,
    /// The answer was cut at `max_output_tokens`.
    OutputLimit,
    /// The model or its provider declined to answer.
    Refused,
    /// An MCP server was not reachable, at the start or later.
    McpUnreachable,
    /// A model request took longer than `request_timeout`.
    TimedOut,
    /// The configuration is wrong, or the model's server refuses the request as wrong (400, 404, …).
    InvalidRequest,
    /// A fault of the agent itself, or an answer that is not what the API promises.
    Crashed,
}

/// Writes events as lines and keeps secrets out of them.
pub struct Reporter<'a> {
    out: &'a mut (dyn AsyncWrite + Unpin + Send),
    secrets: Vec<String>,
}

/// Shorter texts are no secrets: replacing them everywhere would only spoil the lines.
const SHORTEST_SECRET: usize = 8;

impl<'a> Reporter<'a> {
    pub fn new(out: &'a mut (dyn AsyncWrite + Unpin + Send)) -> Self {
        Self { out, secrets: Vec::new() }
    }

    /// From now on no line contains `secret`, whoever quoted it (a server's error text, a tool).
    pub fn hide(&mut self, secret: &str) {
        if secret.len() >= SHORTEST_SECRET {
            // Lines are searched as JSON, so the secret is kept as JSON writes it.
            let quoted = Value::String(secret.to_owned()).to_string();
            self.secrets.push(quoted[1..quoted.len() - 1].to_owned());
        }
    }

    /// Writes one line and flushes it.
    pub async fn emit(&mut self, event: &AgentEvent) -> std::io::Result<()> {
        let mut line = serde_json::to_string(event)?;
        for secret in &self.secrets {
            if line.contains(secret.as_str()) {
                line = line.replace(secret.as_str(), "[hidden]");
            }
        }
        line.push('\n');
        self.out.write_all(line.as_bytes()).await?;
        self.out.flush().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_their_promised_shape() {
        let shape = |event: &AgentEvent| serde_json::to_value(event).unwrap();
        assert_eq!(
            shape(&AgentEvent::Usage(Usage { input_tokens: Some(3), ..Usage::default() })),
            serde_json::json!({"type":"usage","input_tokens":3,"output_tokens":null,"cache_read_tokens":null,
                "cache_write_tokens":null})
        );
        let failed = AgentEvent::Result(RunResult {
            ok: false,
            final_text: None,
            turns: 2,
            error: Some(RunError { class: ErrorClass::McpUnreachable, message: "m".into() }),
            usage: Usage::default(),
        });
        let value = shape(&failed);
        assert_eq!(value["type"], "result");
        assert_eq!(value["error"]["class"], "mcp_unreachable");
        assert_eq!(serde_json::from_value::<AgentEvent>(value).unwrap(), failed);
    }

    #[test]
    fn an_unknown_part_makes_the_sum_unknown() {
        let known = Usage { input_tokens: Some(1), output_tokens: Some(2), ..Usage::default() };
        assert_eq!(known.plus(known).output_tokens, Some(4));
        assert_eq!(known.plus(Usage::default()).input_tokens, None);
    }

    #[tokio::test]
    async fn secrets_never_leave_whoever_quotes_them() {
        let mut out = Vec::new();
        let mut reporter = Reporter::new(&mut out);
        reporter.hide("sk-very\"secret");
        reporter.hide("x");
        reporter.emit(&AgentEvent::Text { text: "key sk-very\"secret, x".into() }).await.unwrap();
        let line = String::from_utf8(out).unwrap();
        let event: AgentEvent = serde_json::from_str(&line).unwrap();
        assert_eq!(event, AgentEvent::Text { text: "key [hidden], x".into() });
    }
}
