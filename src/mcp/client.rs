//! The daemon's side of other people's MCP servers: connects, lists tools, calls them.

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use rmcp::handler::client::ClientHandler;
use rmcp::model::{
    CallToolRequestParams, ClientConfig, ContentBlock, Implementation, PaginatedRequestParams, ProtocolVersion,
};
use rmcp::service::{ClientInitializeError, NotificationContext, RunningService};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, InsufficientScopeError, StreamableHttpClientTransportConfig, StreamableHttpError,
};
use rmcp::transport::{IntoTransport, StreamableHttpClientTransport};
use rmcp::{ClientLifecycleMode, ClientServiceExt, RoleClient, ServiceError};
use serde_json::{Map, Value};
use tokio::sync::Notify;

use super::pipe::ChildPipe;
use base::redact::household;
use base::{Secret, innermost, text};
use process::Child;
use tools::http::client_for;

/// From the first packet to the list of tools.
const CONNECT_WITHIN: Duration = Duration::from_secs(15);
/// The same of a program: it has to be loaded first, on a machine that may be busy.
const START_WITHIN: Duration = Duration::from_secs(20);
/// A server has no more tools than this.
const MOST_TOOLS: usize = 500;
/// A server that keeps a session has this long to end it.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);
/// The longest text of one result, in bytes.
const MAX_RESULT: usize = 256 * 1024;
/// So much is repeated of what a program said last, in bytes.
const LAST_WORDS: usize = 500;

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
    /// It says that the same call again changes nothing more.
    pub idempotent: bool,
}

/// What a call gave: texts and structured content as one text, at most 256 KiB. Its words are a stranger's.
#[derive(Clone, PartialEq, Debug)]
pub struct RemoteAnswer {
    pub text: String,
    /// The structured content, if there is any.
    pub structured: Option<Value>,
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
    /// Nothing was done.
    #[error("the MCP server `{server}` does not let this household in: {reason}")]
    NotLetIn { server: String, reason: String },
    /// Whether the call took effect is unknown.
    #[error("the connection to the MCP server `{server}` broke during a call: {reason}")]
    Broken { server: String, reason: String },
    #[error("the MCP server `{server}` refused the call: {reason}")]
    Refused { server: String, reason: String },
}

/// What the daemon is to servers: it offers them nothing, and hears that their tools changed.
struct Listener {
    info: ClientConfig,
    changed: Arc<Notify>,
}

impl ClientHandler for Listener {
    fn get_info(&self) -> ClientConfig {
        self.info.clone()
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}

/// An open connection to one server. Dropped, it is closed without a farewell; [`RemoteConnection::close`] says one.
pub struct RemoteConnection {
    name: String,
    call_within: Duration,
    tools: Vec<RemoteTool>,
    service: RunningService<RoleClient, Listener>,
    changed: Arc<Notify>,
    stale: AtomicBool,
    /// Of a server that is a program.
    child: Option<Child>,
    /// Why its output is not read any more.
    stopped: Arc<OnceLock<String>>,
}

impl RemoteConnection {
    /// Connects and lists the server's tools, within 15 s.
    pub async fn open(server: RemoteServer) -> Result<Self, ClientError> {
        if let Some(token) = &server.token {
            household().hide(token);
        }
        server.headers.iter().for_each(|(_, value)| household().hide(value));
        let transport = transport(&server)?;
        let slow = ClientError::Slow { server: server.name.clone(), within: CONNECT_WITHIN };
        let making = Self::connect(server.name, server.call_within, transport, Arc::default());
        tokio::time::timeout(CONNECT_WITHIN, making).await.map_err(|_| slow)?
    }

    /// Speaks with a program that was started with a pipe as its standard input, and lists its tools. On an error the
    /// program is ended.
    pub async fn over(name: &str, call_within: Duration, mut child: Child) -> Result<Self, ClientError> {
        let stopped: Arc<OnceLock<String>> = Arc::default();
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            let reason = "it was started without pipes".to_owned();
            return Err(ClientError::Unreachable { server: name.to_owned(), reason });
        };
        let pipe = ChildPipe::new(input, output, stopped.clone());
        let making = Self::connect(name.to_owned(), call_within, pipe, stopped.clone());
        let made = tokio::time::timeout(START_WITHIN, making).await;
        let slow = ClientError::Slow { server: name.to_owned(), within: START_WITHIN };
        match made.unwrap_or(Err(slow)) {
            Ok(connection) => Ok(Self { child: Some(child), ..connection }),
            Err(ClientError::Unreachable { server, reason } | ClientError::Tools { server, reason }) => {
                let reason = stopped.get().cloned().unwrap_or(reason);
                let last = last_words(child).await;
                Err(ClientError::Unreachable { server, reason: format!("{reason}{last}") })
            }
            Err(e) => Err(e),
        }
    }

    async fn connect<T, E, A>(
        name: String,
        call_within: Duration,
        transport: T,
        stopped: Arc<OnceLock<String>>,
    ) -> Result<Self, ClientError>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let mut info = ClientConfig::default();
        info.client_info = Implementation::new("butlerd", env!("CARGO_PKG_VERSION"));
        let changed = Arc::new(Notify::new());
        let listener = Listener { info, changed: changed.clone() };
        // The newest protocol opens no session; older servers say that they want one.
        let lifecycle = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        };
        let service = listener.serve_with_lifecycle(transport, lifecycle).await;
        let service = service.map_err(|e| {
            let (server, cause) = (name.clone(), cause(&e));
            let reason = household().clean(innermost(cause));
            match not_let_in(cause) {
                true => ClientError::NotLetIn { server, reason },
                false => ClientError::Unreachable { server, reason },
            }
        })?;
        let stale = AtomicBool::new(false);
        let made = Self { name, call_within, tools: Vec::new(), service, changed, stale, child: None, stopped };
        let tools = made.list().await?;
        Ok(Self { tools, ..made })
    }

    /// Asks for the tools again.
    async fn list(&self) -> Result<Vec<RemoteTool>, ClientError> {
        let failed = |reason: String| ClientError::Tools { server: self.name.clone(), reason };
        let (mut tools, mut cursor) = (Vec::new(), None);
        loop {
            let page = self.service.list_tools(Some(PaginatedRequestParams::default().with_cursor(cursor))).await;
            let page = page.map_err(|e| failed(self.reason(&e)))?;
            // A page without tools that leads to another one would lead on for ever.
            let goes_on = !page.tools.is_empty();
            tools.extend(page.tools.into_iter().map(|tool| RemoteTool {
                name: tool.name.into_owned(),
                description: tool.description.map(|d| d.into_owned()).unwrap_or_default(),
                schema: Value::Object((*tool.input_schema).clone()),
                idempotent: tool.annotations.and_then(|hints| hints.idempotent_hint).unwrap_or(false),
            }));
            if tools.len() > MOST_TOOLS {
                return Err(failed(format!("it has more than {MOST_TOOLS}")));
            }
            cursor = page.next_cursor.filter(|_| goes_on);
            if cursor.is_none() {
                return Ok(tools);
            }
        }
    }

    /// The server's tools, in its order, as they were when the connection was opened.
    pub fn tools(&self) -> &[RemoteTool] {
        &self.tools
    }

    /// Waits until the server says that its tools changed.
    pub async fn changed(&self) {
        self.changed.notified().await;
        self.stale.store(true, Ordering::Release);
    }

    /// The tools as they are now, asked for within 15 s, if [`RemoteConnection::changed`] has returned since the last time.
    pub async fn changed_tools(&self) -> Result<Option<Vec<RemoteTool>>, ClientError> {
        if !self.stale.swap(false, Ordering::AcqRel) {
            return Ok(None);
        }
        let slow = ClientError::Slow { server: self.name.clone(), within: CONNECT_WITHIN };
        tokio::time::timeout(CONNECT_WITHIN, self.list()).await.map_err(|_| slow)?.map(Some)
    }

    /// Whether the connection is gone.
    pub fn is_closed(&self) -> bool {
        self.service.is_closed() || self.service.is_transport_closed()
    }

    /// Calls a tool. What the tool says of itself is an answer, also where it failed.
    pub async fn call(&self, tool: &str, arguments: Map<String, Value>) -> Result<RemoteAnswer, ClientError> {
        let server = || self.name.clone();
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let called = tokio::time::timeout(self.call_within, self.service.call_tool(params)).await;
        let slow = |_| ClientError::Slow { server: server(), within: self.call_within };
        let result = called.map_err(slow)?.map_err(|e| match e {
            ServiceError::McpError(error) => {
                ClientError::Refused { server: server(), reason: household().clean(error.message.into_owned()) }
            }
            ServiceError::TransportSend(error) if not_let_in(&error) => {
                ClientError::NotLetIn { server: server(), reason: self.reason(&error) }
            }
            ServiceError::TransportSend(error) => ClientError::Broken { server: server(), reason: self.reason(&error) },
            error => ClientError::Broken { server: server(), reason: self.reason(&error) },
        })?;
        let mut parts: Vec<String> = result.content.iter().map(part).collect();
        if let (true, Some(structured)) = (parts.is_empty(), &result.structured_content) {
            parts.push(structured.to_string());
        }
        let text = text::truncate(&household().clean(parts.join("\n")), MAX_RESULT);
        let mut structured = result.structured_content;
        structured.iter_mut().for_each(|value| household().clean_json(value));
        Ok(RemoteAnswer { text, structured, is_error: result.is_error.unwrap_or(false) })
    }

    /// Why something failed: what is known of the program's output, else the error's own words.
    fn reason(&self, error: &(dyn std::error::Error + 'static)) -> String {
        let Some(stopped) = self.stopped.get() else { return household().clean(innermost(error)) };
        household()
            .clean(format!("{stopped}{}", said(&self.child.as_ref().map(Child::stderr_so_far).unwrap_or_default())))
    }

    /// Ends the session with the server, if it keeps one, and its program; waits for each a second at most. What the
    /// program said last, for people.
    pub async fn close(self) -> String {
        let _ = tokio::time::timeout(CLOSE_WITHIN, self.service.cancel()).await;
        match self.child {
            Some(child) => last_words(child).await,
            None => String::new(),
        }
    }
}

/// What is behind a connection that was not made: the library's own words leave it out.
fn cause(error: &ClientInitializeError) -> &(dyn Error + 'static) {
    match error {
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => cause(fallback),
        ClientInitializeError::TransportError { error, .. } => error,
        error => error,
    }
}

/// Whether the server refused whoever asks: 401 or 403, with a challenge or without one.
fn not_let_in(error: &(dyn Error + 'static)) -> bool {
    let plain = |said: &str| ["HTTP 401", "HTTP 403"].iter().any(|status| said.starts_with(status));
    let http = error.downcast_ref::<StreamableHttpError<reqwest::Error>>();
    error.is::<AuthRequiredError>()
        || error.is::<InsufficientScopeError>()
        || matches!(http, Some(StreamableHttpError::UnexpectedServerResponse(said)) if plain(said))
        || error.source().is_some_and(not_let_in)
}

/// Ends a program, and tells how it ended and its last words: something to put behind a sentence.
async fn last_words(mut child: Child) -> String {
    let ended = child.terminate(CLOSE_WITHIN).await;
    let exit = ended.exit.map(|exit| format!(" ({exit})")).unwrap_or_default();
    let words = household().clean(child.stderr_tail().await);
    format!("{exit}{}", said(&words))
}

/// The last words of a program, if there are any, to put behind a sentence.
fn said(words: &str) -> String {
    match words.trim() {
        "" => String::new(),
        words => format!("; its last words: {}", text::last(words, LAST_WORDS)),
    }
}

fn transport(server: &RemoteServer) -> Result<StreamableHttpClientTransport<reqwest::Client>, ClientError> {
    let name = || server.name.clone();
    let client = client_for(&server.url)
        .map_err(|e| e.to_string())
        .and_then(|client| client.build().map_err(|e| innermost(&e.without_url())))
        .map_err(|reason| ClientError::Client { server: name(), reason })?;
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
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

fn part(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => format!("[an image, {}, not shown]", image.mime_type),
        ContentBlock::Audio(audio) => format!("[a sound, {}, not played]", audio.mime_type),
        other => serde_json::to_string(other).unwrap_or_else(|_| "[a resource that can't be shown]".to_owned()),
    }
}
