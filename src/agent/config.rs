//! What one run of the agent is told: a configuration file and the MCP servers of its environment.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use base::HumanDuration;

/// Names the environment variable that holds the path of the configuration file.
pub const CONFIG_ENV: &str = "BUTLERD_AGENT_CONFIG";
/// Names the environment variable that holds the MCP servers as JSON.
pub const MCP_ENV: &str = "MCP_SERVERS";
/// The variable that says which span of which trace a run is.
pub const TRACE_ENV: &str = "TRACEPARENT";

/// Which wire format the model's endpoint speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Api {
    /// The Messages API, `POST {base_url}/v1/messages`.
    Anthropic,
    /// Chat completions, `POST {base_url}/chat/completions`, with a base that usually ends in `/v1`.
    Openai,
}

/// One run: written by the spawner into the session's workspace (mode 0600), read by `butlerd agent`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentConfig {
    pub api: Api,
    /// Where the model is served, for example `https://api.anthropic.com` or `http://127.0.0.1:11434/v1`.
    pub base_url: String,
    pub model: String,
    /// Name of the environment variable that holds the key; `None` sends no key. The key goes into `x-api-key`
    /// (anthropic) or `Authorization: Bearer` (openai, and anthropic if the name ends in `_AUTH_TOKEN`).
    #[serde(default)]
    pub api_key_env: Option<String>,
    #[serde(default)]
    pub system_prompt: String,
    pub prompt: String,
    /// Pictures that the model is shown with the prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// The largest number of model calls, retries not counted.
    #[serde(default = "default_max_turns")]
    pub max_turns: u32,
    /// The run is over once the calls of the model's first answer are made, if one of them succeeded.
    #[serde(default)]
    pub one_round: bool,
    /// Of one model call. An answer cut by it is a failure, never taken for a whole one.
    #[serde(default = "default_max_output_tokens")]
    pub max_output_tokens: u32,
    /// From the sending of one model request to the end of its answer. A request that takes longer is not repeated.
    #[serde(default = "default_request_timeout")]
    pub request_timeout: HumanDuration,
    /// How often one model call is tried again after 429, 5xx, a refused connection or a broken-off answer.
    #[serde(default = "default_max_retries")]
    pub max_retries: u32,
    /// The first delay between two tries; it doubles up to 30 s. A `retry-after` of the server comes first.
    #[serde(default = "default_retry_delay")]
    pub retry_delay: HumanDuration,
    /// Text is reported as it is written, too.
    #[serde(default)]
    pub stream_text: bool,
    /// The model's own default where it is `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Of one tool call. One that takes longer is reported to the model as unanswered, its effect unknown.
    #[serde(default = "default_tool_timeout")]
    pub tool_timeout: HumanDuration,
}

/// A picture.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    /// Such as `image/png`.
    pub media_type: String,
    /// In base64.
    pub data: String,
}

fn default_max_turns() -> u32 {
    30
}
fn default_max_output_tokens() -> u32 {
    8192
}
fn default_request_timeout() -> HumanDuration {
    HumanDuration::from_secs(300)
}
fn default_max_retries() -> u32 {
    3
}
fn default_retry_delay() -> HumanDuration {
    HumanDuration::from_millis(500)
}
fn default_tool_timeout() -> HumanDuration {
    HumanDuration::from_secs(600)
}

impl AgentConfig {
    /// A configuration with the default limits and no key.
    pub fn new(api: Api, base_url: &str, model: &str, prompt: &str) -> Self {
        Self {
            api,
            base_url: base_url.to_owned(),
            model: model.to_owned(),
            api_key_env: None,
            system_prompt: String::new(),
            prompt: prompt.to_owned(),
            images: Vec::new(),
            max_turns: default_max_turns(),
            one_round: false,
            max_output_tokens: default_max_output_tokens(),
            request_timeout: default_request_timeout(),
            max_retries: default_max_retries(),
            retry_delay: default_retry_delay(),
            stream_text: false,
            temperature: None,
            tool_timeout: default_tool_timeout(),
        }
    }
}

/// The content of `MCP_SERVERS`, the shape that other LLM programs read from their `mcp.json`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct McpServers {
    #[serde(rename = "mcpServers")]
    pub servers: BTreeMap<String, McpServer>,
}

/// One MCP server. `Debug` shows the names of its headers, not their values.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpServer {
    /// `http`: streamable HTTP, the only kind that the agent speaks.
    #[serde(rename = "type")]
    pub kind: String,
    /// With its query, which is sent on every request.
    pub url: String,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
}

impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&String> = self.headers.keys().collect();
        f.debug_struct("McpServer").field("kind", &self.kind).field("url", &self.url).field("headers", &names).finish()
    }
}

/// Why the agent could not even begin.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("the environment variable {CONFIG_ENV} is not set; `butlerd agent` is started by the spawner, not by hand")]
    NoPath,
    #[error("cannot read the agent's configuration {path}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("the agent's configuration {path} is wrong")]
    Parse { path: PathBuf, source: serde_json::Error },
    #[error("`{field}` in the agent's configuration {expected}")]
    Value { field: &'static str, expected: &'static str },
    #[error("the environment variable {0}, which should hold the model's key, is not set or empty")]
    NoKey(String),
    #[error("the model's key in {0} has characters that an HTTP header cannot carry")]
    KeyForm(String),
    #[error("the environment variable {MCP_ENV} is not set")]
    NoServers,
    #[error("the environment variable {MCP_ENV} is not the JSON of MCP servers")]
    Servers(#[source] serde_json::Error),
    #[error("{MCP_ENV} names no server")]
    Empty,
    #[error("MCP server `{name}` is of type `{kind}`; the agent speaks only `http`")]
    Kind { name: String, kind: String },
}

impl AgentConfig {
    /// Reads and checks the file.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        let config: Self =
            serde_json::from_slice(&text).map_err(|source| ConfigError::Parse { path: path.to_owned(), source })?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), ConfigError> {
        let wrong = |field, expected| Err(ConfigError::Value { field, expected });
        if !self.base_url.starts_with("http://") && !self.base_url.starts_with("https://") {
            return wrong("base_url", "must begin with http:// or https://");
        }
        if self.model.is_empty() {
            return wrong("model", "must not be empty");
        }
        if self.prompt.trim().is_empty() {
            return wrong("prompt", "must not be empty");
        }
        if self.max_turns == 0 {
            return wrong("max_turns", "must be at least 1");
        }
        if self.max_output_tokens == 0 {
            return wrong("max_output_tokens", "must be at least 1");
        }
        Ok(())
    }
}

impl McpServers {
    /// Reads the value of `MCP_SERVERS`: at least one server, all of type `http`.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let this: Self = serde_json::from_str(text).map_err(ConfigError::Servers)?;
        if this.servers.is_empty() {
            return Err(ConfigError::Empty);
        }
        for (name, server) in &this.servers {
            if server.kind != "http" {
                return Err(ConfigError::Kind { name: name.clone(), kind: server.kind.clone() });
            }
        }
        Ok(this)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_file_gets_the_defaults_and_unknown_keys_are_mistakes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent.json");
        std::fs::write(&path, r#"{"api":"openai","base_url":"http://h/v1","model":"m","prompt":"p"}"#).unwrap();
        assert_eq!(AgentConfig::read(&path).unwrap(), AgentConfig::new(Api::Openai, "http://h/v1", "m", "p"));
        std::fs::write(&path, r#"{"api":"openai","base_url":"http://h/v1","model":"m","prompt":"p","tokens":1}"#)
            .unwrap();
        assert!(matches!(AgentConfig::read(&path), Err(ConfigError::Parse { .. })));
        std::fs::write(&path, r#"{"api":"openai","base_url":"h/v1","model":"m","prompt":"p"}"#).unwrap();
        assert!(matches!(AgentConfig::read(&path), Err(ConfigError::Value { field: "base_url", .. })));
    }

    #[test]
    fn a_written_configuration_reads_back() {
        let mut config = AgentConfig::new(Api::Anthropic, "http://h", "m", "p");
        config.temperature = Some(0.5);
        config.request_timeout = HumanDuration::from_secs(7);
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<AgentConfig>(&text).unwrap(), config);
    }

    #[test]
    fn mcp_servers_hide_their_header_values() {
        let text = r#"{"mcpServers":{"butler":{"type":"http","url":"http://127.0.0.1:1/mcp?runtime_session_id=s",
            "headers":{"Authorization":"Bearer hidden-token"}}}}"#;
        let servers = McpServers::parse(text).unwrap();
        let shown = format!("{servers:?}");
        assert!(shown.contains("Authorization") && !shown.contains("hidden-token"), "{shown}");
        assert!(matches!(McpServers::parse(r#"{"mcpServers":{}}"#), Err(ConfigError::Empty)));
        let stdio = r#"{"mcpServers":{"x":{"type":"stdio","url":""}}}"#;
        assert!(matches!(McpServers::parse(stdio), Err(ConfigError::Kind { .. })));
    }
}
