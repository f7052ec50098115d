//! The HTTP server around the player.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::log::{Log, LoggedRequest};
use super::play::{Player, Reply, Responder, TurnReply};
use super::route::Route;
use super::script::Script;
use base::task::{self, Kind};

type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// Conversations with pictures are large; this is only against a runaway client.
const LARGEST_BODY: usize = 64 * 1024 * 1024;

/// A model that plays a script, served on a free port of the loopback. It stops when this is dropped.
#[derive(Debug)]
pub struct ScriptedModel {
    addr: SocketAddr,
    log: Log,
    stop: DropGuard,
    accepting: tokio::task::JoinHandle<()>,
}

impl ScriptedModel {
    /// Binds and serves. Fails only if the loopback has no free port.
    pub async fn start(script: Script) -> std::io::Result<Self> {
        Self::serve(script, None).await
    }

    /// As [`start`](Self::start); `responder` is asked before the script.
    pub async fn start_thinking(
        script: Script,
        responder: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        Self::serve(script, Some(Box::new(responder))).await
    }

    async fn serve(script: Script, responder: Option<Responder>) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let addr = listener.local_addr()?;
        let (log, token) = (Log::default(), CancellationToken::new());
        let shared = Arc::new(Shared { player: Player::new(script, responder), log: log.clone() });
        let accepting = task::spawn(Kind::Actor, "scripted model", accept(listener, shared, token.clone()));
        Ok(Self { addr, log, stop: token.drop_guard(), accepting })
    }

    /// The address that it listens on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The base for clients of the Anthropic and Gemini APIs: `http://127.0.0.1:PORT`.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// The base for clients of the OpenAI APIs: `http://127.0.0.1:PORT/v1`.
    pub fn openai_base_url(&self) -> String {
        format!("http://{}/v1", self.addr)
    }

    /// All requests so far, in the order of their arrival.
    pub fn requests(&self) -> Vec<LoggedRequest> {
        self.log.all()
    }

    /// Waits until `enough` is true of the requests so far, and returns them.
    pub async fn wait_for(&self, enough: impl FnMut(&[LoggedRequest]) -> bool) -> Vec<LoggedRequest> {
        self.log.wait(enough).await
    }

    /// Closes the port and all connections, also those that hang.
    pub async fn shutdown(self) {
        drop(self.stop);
        let _ = self.accepting.await;
    }
}

struct Shared {
    player: Player,
    log: Log,
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, stop: CancellationToken) {
    loop {
        let Some(accepted) = stop.run_until_cancelled(listener.accept()).await else { return };
        match accepted {
            Ok((stream, _)) => {
                task::spawn(Kind::Request, "scripted model", serve(stream, shared.clone(), stop.clone()));
            }
            // Too many open files, for instance: others may close some.
            Err(error) => {
                tracing::warn!(%error, "the scripted model cannot accept a connection");
                tokio::task::yield_now().await;
            }
        }
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>, stop: CancellationToken) {
    // Small events are sent one by one; without this each would wait for the acknowledgement of the one before.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let shared = shared.clone();
        async move { Ok::<_, Infallible>(answer(request, &shared).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // A client that goes away and an answer that is cut on purpose both end here.
    stop.run_until_cancelled(connection).await;
}

async fn answer(request: Request<Incoming>, shared: &Shared) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let route = Route::of(&parts.method, parts.uri.path(), parts.uri.query().unwrap_or_default());
    let Ok(bytes) = Limited::new(body, LARGEST_BODY).collect().await.map(|body| body.to_bytes()) else {
        return json(413, &route.error(413, "the request is too large"));
    };
    let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let Some(dialog) = route.dialog(&body) else {
        let fixed = route.fixed(shared.player.script());
        let label = if fixed.is_some() { "fixed" } else { "unknown" };
        let is_head = parts.method == Method::HEAD;
        shared.log.push(LoggedRequest::new(&parts, body, label.to_owned()));
        return match fixed {
            Some(_) if is_head => json(200, &Value::Null),
            Some(value) => json(200, &value),
            None => json(404, &route.error(404, "the scripted model does not serve this path")),
        };
    };
    let (reply, label) = shared.player.play(&dialog);
    shared.log.push(LoggedRequest::new(&parts, body, label));
    match reply {
        Reply::Turn(turn) => match route.events(&turn, &dialog) {
            Some(events) => streamed(events, false),
            None => json(200, &route.document(&turn, &dialog)),
        },
        Reply::Cut(turn) => cut(&route, &turn, &dialog),
        Reply::Stall(turn) => stalled(route.events(&turn, &dialog).unwrap_or_default()),
        Reply::Endless(turn) => endless(route.events(&turn, &dialog).unwrap_or_default()),
        Reply::Hang => std::future::pending().await,
        Reply::Fail { status, body, headers } => {
            let body = match body {
                Some(Value::String(message)) => route.error(status, &message),
                Some(other) => other,
                None => route.error(status, "this error stands in the script"),
            };
            let mut response = json(status, &body);
            for (name, value) in headers {
                if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(&value)) {
                    response.headers_mut().insert(name, value);
                }
            }
            response
        }
    }
}

fn json(status: u16, value: &Value) -> Response<Body> {
    let text = if value.is_null() { Bytes::new() } else { Bytes::from(value.to_string()) };
    let mut response = Response::new(Full::new(text).map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Server-sent events, each in a frame of its own; with `broken` the connection is torn off behind the last.
fn streamed(events: Vec<String>, broken: bool) -> Response<Body> {
    let frames = stream::iter(events).map(|event| Ok(Frame::data(Bytes::from(event))));
    let end = stream::once(async {
        // Pausing lets the server write out what it has before it hears of the error.
        tokio::task::yield_now().await;
        Err(std::io::Error::other("cut by the script"))
    });
    let body =
        if broken { StreamBody::new(frames.chain(end)).boxed_unsync() } else { StreamBody::new(frames).boxed_unsync() };
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response
}

/// The events up to the first that holds words, and that one for ever. Nothing of a client that does not ask for a
/// stream.
fn endless(mut events: Vec<String>) -> Response<Body> {
    let word = events.iter().position(|event| event.contains("and so on")).map_or(0, |at| at + 1);
    events.truncate(word);
    let more = events.last().cloned().map_or_else(Bytes::new, Bytes::from);
    let frames = stream::iter(events).map(|event| Frame::data(Bytes::from(event)));
    let body = frames.chain(stream::repeat_with(move || Frame::data(more.clone()))).map(Ok);
    let mut response = Response::new(StreamBody::new(body).boxed_unsync());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response
}

/// The first half of the events, and then nothing more.
fn stalled(mut events: Vec<String>) -> Response<Body> {
    events.truncate(events.len() / 2);
    let frames = stream::iter(events).map(|event| Ok(Frame::data(Bytes::from(event))));
    let mut response = Response::new(StreamBody::new(frames.chain(stream::pending())).boxed_unsync());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response
}

fn cut(route: &Route, turn: &TurnReply, dialog: &super::dialog::Dialog) -> Response<Body> {
    if let Some(mut events) = route.events(turn, dialog) {
        events.truncate(events.len() / 2);
        return streamed(events, true);
    }
    let mut text = route.document(turn, dialog).to_string();
    text.truncate((0..=text.len() / 2).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0));
    let mut response = streamed(vec![text], true);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
