//! The agent's side of MCP: connects, lists tools, calls them.

use std::collections::HashMap;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientConfig, ContentBlock, Implementation, ProtocolVersion,
    RequestParamsMeta, Tool,
};
use rmcp::service::RunningService;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientLifecycleMode, ClientServiceExt, RoleClient, ServiceError};
use serde_json::{Map, Value};

use super::config::{McpServer, McpServers};
use super::model::http_client;
use base::{innermost, text};

/// From the first packet to the list of tools. The server is the daemon on the same host.
const CONNECT_LIMIT: Duration = Duration::from_secs(15);
/// Of one result, as the model reads it.
const LONGEST_RESULT: usize = 256 * 1024;

/// A server that lists some of its tools alone is asked for the others by this one: a model may know them from its
/// prompt.
const TOOL_CALL: &str = "tool_call";

fn through(tool: &str, arguments: Map<String, Value>) -> Map<String, Value> {
    let parts = [("name", tool.into()), ("arguments", arguments.into())];
    parts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Why no tool can be called.
#[derive(Debug, thiserror::Error)]
pub enum McpError {
    #[error("MCP server `{server}` has the header `{header}`, which HTTP cannot carry")]
    Header { server: String, header: String },
    #[error("cannot build an HTTP client for MCP server `{server}`: {reason}")]
    Client { server: String, reason: String },
    #[error("MCP server `{server}` at {url} is not reachable: {reason}")]
    Connect { server: String, url: String, reason: String },
    #[error("MCP server `{server}` at {url} does not list its tools: {reason}")]
    List { server: String, url: String, reason: String },
    #[error("MCP server `{server}` at {url} did not answer within {} s", CONNECT_LIMIT.as_secs())]
    Slow { server: String, url: String },
    #[error("two MCP servers offer a tool named `{0}`")]
    Twice(String),
    #[error("the connection to MCP server `{server}` is lost: {reason}")]
    Lost { server: String, reason: String },
}

/// What a tool call gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub content: String,
    pub is_error: bool,
}

impl Answer {
    fn failed(content: String) -> Self {
        Self { content, is_error: true }
    }
}

struct Connection {
    server: String,
    service: RunningService<RoleClient, ClientConfig>,
}

/// The servers of one run and the tools of all of them.
pub struct Mcp {
    connections: Vec<Connection>,
    by_tool: HashMap<String, usize>,
    tools: Vec<Tool>,
    tool_timeout: Duration,
    /// Goes along with every call, so that servers tell which run it belongs to.
    traceparent: Option<String>,
}

impl Mcp {
    /// Connects to every server and lists its tools, in the order of the servers' names.
    pub async fn connect(
        servers: &McpServers,
        tool_timeout: Duration,
        traceparent: Option<String>,
    ) -> Result<Self, McpError> {
        let mut this =
            Self { connections: Vec::new(), by_tool: HashMap::new(), tools: Vec::new(), tool_timeout, traceparent };
        for (name, server) in &servers.servers {
            let slow = || McpError::Slow { server: name.clone(), url: server.url.clone() };
            let opened = tokio::time::timeout(CONNECT_LIMIT, open(name, server)).await;
            let (service, tools) = opened.map_err(|_| slow())??;
            let number = this.connections.len();
            this.connections.push(Connection { server: name.clone(), service });
            for tool in tools {
                if this.by_tool.insert(tool.name.to_string(), number).is_some() {
                    return Err(McpError::Twice(tool.name.to_string()));
                }
                this.tools.push(tool);
            }
        }
        Ok(this)
    }

    /// All tools, in the order in which the servers list them.
    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// Calls a tool. A refusal or a fault of the tool is an answer; only a lost connection is an error.
    pub async fn call(&self, tool: &str, arguments: Map<String, Value>) -> Result<Answer, McpError> {
        let (at, tool, arguments) = match (self.by_tool.get(tool), self.by_tool.get(TOOL_CALL)) {
            (Some(at), _) => (*at, tool, arguments),
            (None, Some(at)) => (*at, TOOL_CALL, through(tool, arguments)),
            (None, None) => return Ok(Answer::failed(format!("There is no tool named `{tool}`."))),
        };
        let connection = &self.connections[at];
        let mut params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        if let Some(traceparent) = &self.traceparent {
            params.set_traceparent(traceparent);
        }
        let Ok(outcome) = tokio::time::timeout(self.tool_timeout, connection.service.call_tool(params)).await else {
            let limit = self.tool_timeout.as_secs_f32();
            return Ok(Answer::failed(format!(
                "No answer within {limit} s. Whether the call took effect is unknown: look before calling it again."
            )));
        };
        match outcome {
            Ok(result) => Ok(answer(&result)),
            Err(ServiceError::McpError(error)) => Ok(Answer::failed(error.message.into_owned())),
            Err(error) => Err(McpError::Lost { server: connection.server.clone(), reason: innermost(&error) }),
        }
    }

    /// Ends the sessions with the servers, if they keep any; waits for it only briefly.
    pub async fn close(self) {
        for connection in self.connections {
            let _ = tokio::time::timeout(Duration::from_secs(1), connection.service.cancel()).await;
        }
    }
}

async fn open(
    name: &str,
    server: &McpServer,
) -> Result<(RunningService<RoleClient, ClientConfig>, Vec<Tool>), McpError> {
    let client = http_client(&server.url)
        .map_err(|error| McpError::Client { server: name.to_owned(), reason: innermost(&error.without_url()) })?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(server.url.as_str());
    for (header, value) in &server.headers {
        let wrong = || McpError::Header { server: name.to_owned(), header: header.clone() };
        match value.strip_prefix("Bearer ") {
            Some(token) if header.eq_ignore_ascii_case("authorization") => config = config.auth_header(token),
            _ => {
                let key: HeaderName = header.parse().map_err(|_| wrong())?;
                let mut value = HeaderValue::from_str(value).map_err(|_| wrong())?;
                value.set_sensitive(true);
                config.custom_headers.insert(key, value);
            }
        }
    }
    let mut info = ClientConfig::default();
    info.client_info = Implementation::new("butlerd-agent", env!("CARGO_PKG_VERSION"));
    // The newest protocol needs no session, so there is nothing to open or to leave behind; older servers say so.
    let lifecycle = ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
    };
    let transport = StreamableHttpClientTransport::with_client(client, config);
    let service = info.serve_with_lifecycle(transport, lifecycle).await.map_err(|error| McpError::Connect {
        server: name.to_owned(),
        url: server.url.clone(),
        reason: innermost(&error),
    })?;
    let tools = service.list_all_tools().await.map_err(|error| McpError::List {
        server: name.to_owned(),
        url: server.url.clone(),
        reason: innermost(&error),
    })?;
    Ok((service, tools))
}

/// The text that the model gets. Servers of butlerd answer with one text of JSON; others may mix kinds.
fn answer(result: &CallToolResult) -> Answer {
    let mut parts: Vec<String> = result.content.iter().map(part).collect();
    if let (true, Some(structured)) = (parts.is_empty(), &result.structured_content) {
        parts.push(structured.to_string());
    }
    Answer { content: text::truncate(&parts.join("\n"), LONGEST_RESULT), is_error: result.is_error.unwrap_or(false) }
}

fn part(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => format!("[an image, {}, not shown]", image.mime_type),
        ContentBlock::Audio(audio) => format!("[a sound, {}, not played]", audio.mime_type),
        other => serde_json::to_string(other).unwrap_or_else(|_| "[a resource that cannot be shown]".to_owned()),
    }
}
