//! Listening on a butler's port: connections, the checks at the door, then the protocol.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connections::{AnswerBody, Connection, Connections, Leave, prove};
use super::handler::{Conn, Ended, Face};
use super::http::{BODY_TIMEOUT, Body, json_body, refusal_response, whole_body};
use super::quick;
use access::{Caller, Edge, Peer, Refusal};
use base::{Clock, task};
use tools::{TOOL_FIND, ToolSet, meant};

/// Connections that wait to be accepted; the kernel refuses more. A client that is refused tries again after a second.
const BACKLOG: u32 = 1024;
/// A client has this long to send its request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);

/// A port that can't be had.
#[derive(Debug, thiserror::Error)]
#[error("can't listen on {addr}: {source}{}", hint(.source))]
pub struct BindError {
    pub addr: SocketAddr,
    #[source]
    pub source: io::Error,
}

fn hint(e: &io::Error) -> &'static str {
    match e.kind() {
        io::ErrorKind::AddrInUse => "; another program has this port: stop it, or give the butler another one",
        io::ErrorKind::PermissionDenied => "; ports below 1024 need a privilege: take a higher one",
        _ => "",
    }
}

/// A bound port, not yet answering.
pub struct Listener {
    inner: TcpListener,
    addr: SocketAddr,
}

impl Listener {
    /// Binds; port 0 takes a free one.
    pub fn bind(addr: SocketAddr) -> Result<Self, BindError> {
        let bind = || -> io::Result<Self> {
            let socket = if addr.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
            // A port that was just closed can be had again at once.
            socket.set_reuseaddr(true)?;
            socket.bind(addr)?;
            let addr = socket.local_addr()?;
            Ok(Self { inner: socket.listen(BACKLOG)?, addr })
        };
        bind().map_err(|source| BindError { addr, source })
    }

    /// The address really bound.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}

/// Accepts connections until `stop`, then closes the port and waits for the requests that are under way.
pub async fn accept_loop<S, F, B>(listener: Listener, stop: CancellationToken, serve: S)
where
    S: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let connections = Connections::default();
    let open = TaskTracker::new();
    loop {
        let (stream, peer) = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.inner.accept() => match accepted {
                Ok((stream, peer)) => (stream, Peer(peer.ip())),
                Err(e) => {
                    // Out of descriptors, or a client that was gone at once: neither ends the server.
                    tracing::warn!(error = %e, addr = %listener.addr, "a connection could not be accepted");
                    connections.make_room();
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        // Small answers must not wait for the client's acknowledgement.
        let _ = stream.set_nodelay(true);
        let connection = connections.enter().await;
        let one = converse((stream, peer), connection, stop.clone(), serve.clone());
        task::spawn(task::Kind::Request, "connection", open.track_future(one));
    }
    open.close();
    drop(listener);
    open.wait().await;
}

/// Answers the requests of one connection, until the client or the port closes it, or another needs its place.
async fn converse<S, F, B>((stream, peer): (TcpStream, Peer), connection: Connection, stop: CancellationToken, serve: S)
where
    S: Fn(Request<Incoming>) -> F,
    F: Future<Output = Response<B>>,
    B: http_body::Body<Data = Bytes> + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let service = service_fn(|mut request: Request<Incoming>| {
        let busy = connection.begin();
        request.extensions_mut().insert(busy.clone());
        request.extensions_mut().insert(peer);
        let answer = serve(request);
        async move { Ok::<_, Infallible>(answer.await.map(|body| AnswerBody::new(body, busy))) }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    let exchange = http.serve_connection(TokioIo::new(stream), service).with_upgrades();
    tokio::pin!(exchange);
    let ended = tokio::select! {
        ended = exchange.as_mut() => ended,
        leave = connection.leave() => match leave {
            Leave::Now => return,
            Leave::AfterAnswer => {
                exchange.as_mut().graceful_shutdown();
                exchange.await
            }
        },
        () = stop.cancelled() => {
            if !connection.is_busy() {
                return;
            }
            exchange.as_mut().graceful_shutdown();
            exchange.await
        }
    };
    if let Err(e) = ended {
        tracing::debug!(error = %e, "a connection ended with an error");
    }
}

/// A butler's MCP server, ready to answer.
#[derive(Clone)]
pub struct Served {
    face: Arc<Face>,
    service: StreamableHttpService<Conn, NeverSessionManager>,
    edge: Edge,
    clock: Clock,
    draining: CancellationToken,
}

const WRONG_BUTLER: Refusal =
    Refusal::new(StatusCode::FORBIDDEN, "wrong_butler", "This token does not open this butler.");
const WRONG_TOOL: Refusal =
    Refusal::new(StatusCode::FORBIDDEN, "tool_not_allowed", "This token's list does not have this tool.");
const WRONG_SESSION: Refusal = Refusal::new(
    StatusCode::FORBIDDEN,
    "wrong_session",
    "The runtime_session_id of the address contradicts the token.",
);
const FAILED: Refusal =
    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "The tool failed; the daemon's log says why.");
const STOPPING: Refusal =
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", "This butler is stopping and takes no new work.");

impl Served {
    /// A server over these tools, behind this door. Once `draining` fires, only sessions that run are still served.
    pub fn new(tools: ToolSet, edge: Edge, clock: Clock, draining: CancellationToken) -> Self {
        let face = Arc::new(Face::new(tools, draining.clone()));
        // Host and Origin were checked at the door; the protocol library need not do it again.
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .disable_allowed_hosts()
            .with_max_request_body_bytes(usize::try_from(edge.max_body()).unwrap_or(usize::MAX));
        let conn = Conn(face.clone());
        let service = StreamableHttpService::new(move || Ok(conn.clone()), Arc::default(), config);
        Self { face, service, edge, clock, draining }
    }

    /// Answers one request.
    pub async fn answer(self, request: Request<Incoming>) -> Response<Body> {
        match self.admit(request).await {
            Ok(response) => response,
            Err(refusal) => refusal_response(&refusal),
        }
    }

    async fn admit(self, request: Request<Incoming>) -> Result<Response<Body>, Refusal> {
        self.edge.check(request.uri(), request.headers())?;
        if request.uri().path() != "/mcp" {
            let known = serde_json::json!({"status": "error", "code": "not_found", "error": "MCP is served at /mcp."});
            return Ok(json_body(StatusCode::NOT_FOUND, &known));
        }
        let grant = self.edge.authenticate(request.headers())?;
        if !grant.opens(self.face.tools.butler()) {
            return Err(WRONG_BUTLER);
        }
        prove(request.extensions(), &grant)?;
        let traceparent = request.headers().get("traceparent").and_then(|value| value.to_str().ok());
        let caller = Caller::of(grant, &self.clock, "mcp").from_span(traceparent);
        if let (Some(claimed), Some(session)) = (query_value(request.uri(), "runtime_session_id"), caller.session())
            && claimed != session.to_string()
        {
            return Err(WRONG_SESSION);
        }
        if self.draining.is_cancelled() && caller.session().is_none() {
            return Err(STOPPING);
        }
        // Read here: the protocol library would wait for its end for ever.
        let (mut parts, body) = request.into_parts();
        let bytes = whole_body(body, self.edge.max_body(), BODY_TIMEOUT).await?;
        if let Some(call) = quick::read(&parts, &bytes) {
            return self.plain_call(call, caller, parts, bytes).await;
        }
        // The tool's name stands in the body.
        let shut = |tool: &String| !caller.grant.allows(tool) || self.face.tools.is_internal(tool);
        // Without a list only the house's own tools are shut; a name in disguise gets no further than the handler.
        let looks = caller.grant.tools.is_some() || self.face.internal.iter().any(|name| contains(&bytes, name));
        if looks && called_tools(&bytes).iter().any(shut) {
            return Err(WRONG_TOOL);
        }
        parts.extensions.insert(caller);
        Ok(self.through_library(parts, bytes).await)
    }

    async fn through_library(&self, parts: Parts, bytes: Bytes) -> Response<Body> {
        let request = Request::from_parts(parts, Full::<Bytes>::new(bytes));
        self.service.handle(request).await.map(|b| b.boxed_unsync())
    }

    /// Makes a plain call without the library, which is asked only to say what is wrong with one.
    async fn plain_call(
        &self,
        mut call: quick::Call,
        caller: Caller,
        mut parts: Parts,
        bytes: Bytes,
    ) -> Result<Response<Body>, Refusal> {
        let may = |name: &str| caller.grant.allows(name) && !self.face.tools.is_internal(name);
        if !may(&call.tool) {
            return Err(WRONG_TOOL);
        }
        let known = |name: &str| may(name) && self.face.tools.has(name);
        (call.tool, call.arguments) = meant(call.tool, call.arguments, known);
        // What is found changes the list, of which the library tells clients.
        if call.tool == TOOL_FIND || !self.face.tools.has(&call.tool) {
            parts.extensions.insert(caller);
            return Ok(self.through_library(parts, bytes).await);
        }
        let caller = caller.from_span(call.traceparent.as_deref());
        let conn = Conn(self.face.clone());
        match conn.run(call.tool, call.arguments, caller, CancellationToken::new()).await {
            Ended::Replied(reply) => Ok(quick::answer(&call.id, &reply)),
            Ended::NoTool(_) | Ended::Failed => Err(FAILED),
        }
    }
}

fn contains(body: &[u8], name: &str) -> bool {
    body.windows(name.len()).any(|part| part == name.as_bytes())
}

fn query_value<'a>(uri: &'a http::Uri, name: &str) -> Option<&'a str> {
    uri.query()?.split('&').find_map(|pair| pair.split_once('=').filter(|(k, _)| *k == name).map(|(_, v)| v))
}

/// The tools that a body asks for: one message or a batch.
fn called_tools(body: &[u8]) -> Vec<String> {
    #[derive(Deserialize)]
    struct Params {
        name: Option<String>,
    }
    #[derive(Deserialize)]
    struct Message {
        method: Option<String>,
        params: Option<Params>,
    }
    let messages = serde_json::from_slice::<Vec<Message>>(body)
        .or_else(|_| serde_json::from_slice::<Message>(body).map(|m| vec![m]))
        .unwrap_or_default();
    let calls = messages.into_iter().filter(|m| m.method.as_deref() == Some("tools/call"));
    calls.filter_map(|m| m.params?.name).collect()
}
