//! What the agent reports: one JSON object a line, and one last `result`.

use llm_api::{ErrorClass, Failure, Usage};
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
    /// A piece of the text that the model writes just now; the whole comes as `Text`. `start`: where in it, in bytes; 0
    /// begins a text, in the place of one that is not whole.
    TextDelta { start: usize, text: String },
    /// The model asks for a tool, by its MCP name. `arguments` is an object, or the raw text where it was none.
    ToolCall { id: String, name: String, arguments: Value },
    /// What the model is told of the call with this `id`.
    ToolResult { id: String, name: String, is_error: bool, content: String, duration_ms: u64 },
    /// A model call failed and is tried again after `delay_ms`. `attempt` counts the retries of this call from 1.
    Retry {
        class: ErrorClass,
        attempt: u32,
        delay_ms: u64,
        status: Option<u16>,
        #[serde(default)]
        message: String,
    },
    /// What one model call used.
    Usage(Usage),
    /// The last line of every run.
    Result(RunResult),
}

/// How the run ended.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunResult {
    pub ok: bool,
    /// The text of the model's last turn. After a failure it is there only if that turn was cut or refused.
    pub final_text: Option<String>,
    /// Model calls that were answered.
    pub turns: u32,
    /// Why it failed.
    pub error: Option<Failure>,
    /// The sum over all answered model calls; all unknown where there was none.
    #[serde(default)]
    pub usage: Usage,
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
            shape(&AgentEvent::Usage(Usage { input: Some(3), ..Usage::default() })),
            serde_json::json!({"type":"usage","input":3,"output":null,"cache_read":null,"cache_write":null})
        );
        let failed = AgentEvent::Result(RunResult {
            ok: false,
            final_text: None,
            turns: 2,
            error: Some(Failure { class: ErrorClass::McpUnreachable, message: "m".into() }),
            usage: Usage::default(),
        });
        let value = shape(&failed);
        assert_eq!(value["type"], "result");
        assert_eq!(value["error"]["class"], "mcp_unreachable");
        assert_eq!(serde_json::from_value::<AgentEvent>(value).unwrap(), failed);
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
