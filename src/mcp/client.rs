//! The daemon's side of other people's MCP servers: connects, lists tools, calls them.

use std::time::Duration;

use http::{HeaderName, HeaderValue};
use rmcp::model::{CallToolRequestParams, ClientConfig, ContentBlock, Implementation, ProtocolVersion};
use rmcp::service::RunningService;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientLifecycleMode, ClientServiceExt, RoleClient, ServiceError};
use serde_json::{Map, Value};

use base::redact::household;
use base::{Secret, http_client, innermost, text};

/// From the first packet to the list of tools.
const CONNECT_WITHIN: Duration = Duration::from_secs(15);
/// A server that keeps a session has this long to end it.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);
/// The longest text of one result, in bytes.
const MAX_RESULT: usize = 256 * 1024;

/// Where a server is and how one is let in.
#[derive(Clone, Debug)]
pub struct RemoteServer {
    /// Names the server in errors and in the log.
    pub name: String,
    /// The URL of its streamable HTTP endpoint.
    pub url: String,
    /// Goes along as the bearer's token.
    pub token: Option<Secret<String>>,
    /// More headers, such as a key that the server wants under a name of its own.
    pub headers: Vec<(String, Secret<String>)>,
    /// How long one call may take.
    pub call_within: Duration,
}

/// A tool of a remote server, as the server describes it. Its words are a stranger's.
#[derive(Clone, Debug)]
pub struct RemoteTool {
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments.
    pub schema: Value,
}

/// What a call gave: texts and structured content as one text, at most 256 KiB. Its words are a stranger's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RemoteAnswer {
    pub text: String,
    /// The tool says that the call failed.
    pub is_error: bool,
}

/// Why a remote server can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("the MCP server `{server}` has the header `{header}`, which HTTP can't carry")]
    Header { server: String, header: String },
    #[error("no HTTP client can be made for the MCP server `{server}`: {reason}")]
    Client { server: String, reason: String },
    #[error("the MCP server `{server}` can't be reached: {reason}")]
    Unreachable { server: String, reason: String },
    #[error("the MCP server `{server}` does not list its tools: {reason}")]
    Tools { server: String, reason: String },
    #[error("the MCP server `{server}` did not answer within {} s", within.as_secs())]
    Slow { server: String, within: Duration },
    /// Whether the call took effect is unknown.
    #[error("the connection to the MCP server `{server}` broke during a call: {reason}")]
    Broken { server: String, reason: String },
    #[error("the MCP server `{server}` refused the call: {reason}")]
    Refused { server: String, reason: String },
}

/// An open connection to one server. Dropped, it is closed without a farewell; [`RemoteConnection::close`] says one.
pub struct RemoteConnection {
    server: RemoteServer,
    tools: Vec<RemoteTool>,
    service: RunningService<RoleClient, ClientConfig>,
}

impl RemoteConnection {
    /// Connects and lists the server's tools, within 15 s.
    pub async fn open(server: RemoteServer) -> Result<Self, ClientError> {
        if let Some(token) = &server.token {
            household().hide(token);
        }
        server.headers.iter().for_each(|(_, value)| household().hide(value));
        let slow = ClientError::Slow { server: server.name.clone(), within: CONNECT_WITHIN };
        let (service, tools) = tokio::time::timeout(CONNECT_WITHIN, connect(&server)).await.map_err(|_| slow)??;
        Ok(Self { server, tools, service })
    }

    /// The server's tools, in its order, as they were when the connection was opened.
    pub fn tools(&self) -> &[RemoteTool] {
        &self.tools
    }

    /// Calls a tool. What the tool says of itself is an answer, also where it failed.
    pub async fn call(&self, tool: &str, arguments: Map<String, Value>) -> Result<RemoteAnswer, ClientError> {
        let server = || self.server.name.clone();
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let called = tokio::time::timeout(self.server.call_within, self.service.call_tool(params)).await;
        let slow = |_| ClientError::Slow { server: server(), within: self.server.call_within };
        let result = called.map_err(slow)?.map_err(|e| match e {
            ServiceError::McpError(error) => {
                ClientError::Refused { server: server(), reason: household().clean(error.message.into_owned()) }
            }
            error => ClientError::Broken { server: server(), reason: household().clean(innermost(&error)) },
        })?;
        let mut parts: Vec<String> = result.content.iter().map(part).collect();
        if let (true, Some(structured)) = (parts.is_empty(), &result.structured_content) {
            parts.push(structured.to_string());
        }
        let text = text::truncate(&household().clean(parts.join("\n")), MAX_RESULT);
        Ok(RemoteAnswer { text, is_error: result.is_error.unwrap_or(false) })
    }

    /// Ends the session with the server, if it keeps one; waits for it a second at most.
    pub async fn close(self) {
        let _ = tokio::time::timeout(CLOSE_WITHIN, self.service.cancel()).await;
    }
}

async fn connect(
    server: &RemoteServer,
) -> Result<(RunningService<RoleClient, ClientConfig>, Vec<RemoteTool>), ClientError> {
    let name = || server.name.clone();
    let client = http_client(&server.url)
        .build()
        .map_err(|e| ClientError::Client { server: name(), reason: innermost(&e.without_url()) })?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(server.url.as_str());
    if let Some(token) = &server.token {
        config = config.auth_header(token.expose().as_str());
    }
    for (header, value) in &server.headers {
        let wrong = || ClientError::Header { server: name(), header: header.clone() };
        let key: HeaderName = header.parse().map_err(|_| wrong())?;
        let mut value = HeaderValue::from_str(value.expose()).map_err(|_| wrong())?;
        value.set_sensitive(true);
        config.custom_headers.insert(key, value);
    }
    let mut info = ClientConfig::default();
    info.client_info = Implementation::new("butlerd", env!("CARGO_PKG_VERSION"));
    // The newest protocol opens no session; older servers say that they want one.
    let lifecycle = ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
    };
    let transport = StreamableHttpClientTransport::with_client(client, config);
    let reason = |e: &(dyn std::error::Error + 'static)| household().clean(innermost(e));
    let service = info.serve_with_lifecycle(transport, lifecycle).await;
    let service = service.map_err(|e| ClientError::Unreachable { server: name(), reason: reason(&e) })?;
    let tools = service.list_all_tools().await;
    let tools = tools.map_err(|e| ClientError::Tools { server: name(), reason: reason(&e) })?;
    let told = tools.into_iter().map(|tool| RemoteTool {
        name: tool.name.into_owned(),
        description: tool.description.map(|d| d.into_owned()).unwrap_or_default(),
        schema: Value::Object((*tool.input_schema).clone()),
    });
    Ok((service, told.collect()))
}

fn part(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => format!("[an image, {}, not shown]", image.mime_type),
        ContentBlock::Audio(audio) => format!("[a sound, {}, not played]", audio.mime_type),
        other => serde_json::to_string(other).unwrap_or_else(|_| "[a resource that can't be shown]".to_owned()),
    }
}
