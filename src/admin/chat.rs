//! `/api/chat`: a message of the house's own channel, and the stream of what becomes of it.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::interval;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::chat_message::{ChatMessage, ChatRefusal, accept, follow};
use super::inbound::{Inbound, forbidden, refusal_of, said};
use super::rights::{self, Need};
use access::Edge;
use base::task;
use inbox::{Following, News};
use mcp::{BODY_TIMEOUT, Body, json_body, refusal_response, whole_body};

/// Between two signs of life.
const ALIVE: Duration = Duration::from_secs(15);
/// Events that wait for a slow client; then the stream waits for it.
const WAITING: usize = 64;

impl Inbound<'_> {
    /// `POST /api/chat`
    pub(super) async fn chat(&self, request: Request<Incoming>) -> Response<Body> {
        if let Err(failure) = rights::check(self.grant, Need::Work) {
            return forbidden(&failure);
        }
        let (parts, body) = request.into_parts();
        let bytes = match whole_body(body, self.edge.max_body(), BODY_TIMEOUT).await {
            Ok(bytes) => bytes,
            Err(refusal) => return refusal_response(&refusal),
        };
        let message: ChatMessage = match serde_json::from_slice(&bytes) {
            Ok(message) => message,
            Err(e) => {
                let why = format!("The body is not a message {{text, butler?, thread?, id?, attachments?}}: {e}.");
                return said(StatusCode::BAD_REQUEST, "invalid_message", &why);
            }
        };
        match accept(self.supervisor, self.grant, message).await {
            Ok((accepted, following)) => {
                let first = News::Accepted { request_id: accepted.request_id, duplicate: accepted.duplicate };
                self.stream(following, first, &parts.headers)
            }
            Err(refused) => response_of(refused),
        }
    }

    /// `GET /api/chat/{request_id}`: the stream of a message that was accepted before, from its beginning.
    pub(super) async fn chat_again(&self, id: Option<Uuid>, headers: &HeaderMap) -> Response<Body> {
        if let Err(failure) = rights::check(self.grant, Need::Work) {
            return forbidden(&failure);
        }
        let Some(id) = id else { return said(StatusCode::BAD_REQUEST, "invalid_id", "That is not a request_id.") };
        match follow(self.supervisor, self.grant, id).await {
            Ok(following) => self.stream(following, News::Accepted { request_id: id, duplicate: true }, headers),
            Err(refused) => response_of(refused),
        }
    }

    fn stream(&self, following: Following, first: News, headers: &HeaderMap) -> Response<Body> {
        let (out, mut told) = mpsc::channel::<Bytes>(WAITING);
        let mut own = HeaderMap::new();
        if let Some(token) = headers.get(AUTHORIZATION) {
            own.insert(AUTHORIZATION, token.clone());
        }
        let writer = StreamWriter { out, edge: self.edge.clone(), headers: own, closing: self.closing.clone() };
        task::spawn(task::Kind::Request, "chat", writer.write(following, first));
        let frames = futures_util::stream::poll_fn(move |cx| told.poll_recv(cx));
        let body = StreamBody::new(frames.map(|bytes| Ok::<_, Infallible>(Frame::data(bytes))));
        let mut response = Response::new(body.boxed_unsync());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

/// A refusal over HTTP.
fn response_of(refused: ChatRefusal) -> Response<Body> {
    match refused {
        ChatRefusal::Forbidden(failure) => forbidden(&failure),
        ChatRefusal::Invalid(why) => said(StatusCode::BAD_REQUEST, "invalid_message", &why),
        ChatRefusal::UnknownButler { why, butlers } => {
            let answer = json!({"status": "error", "error": why, "code": "unknown_butler", "butlers": butlers});
            json_body(StatusCode::NOT_FOUND, &answer)
        }
        ChatRefusal::UnknownMessage => {
            said(StatusCode::NOT_FOUND, "not_found", "There is no message of this request_id in the chat.")
        }
        ChatRefusal::NotTaken(e) => refusal_of(&e),
    }
}

/// Writes one stream.
struct StreamWriter {
    out: mpsc::Sender<Bytes>,
    edge: Edge,
    /// The token, which is asked for again from time to time.
    headers: HeaderMap,
    closing: CancellationToken,
}

/// Nobody listens any more, or there is nothing more to say.
struct Over;

impl StreamWriter {
    async fn write(self, mut following: Following, first: News) {
        let mut alive = interval(ALIVE);
        alive.reset();
        let closing = self.closing.clone();
        let ended = async {
            self.send(&first).await?;
            loop {
                let news = {
                    let next = following.next();
                    tokio::pin!(next);
                    loop {
                        tokio::select! {
                            biased;
                            () = self.out.closed() => return Err::<(), Over>(Over),
                            news = &mut next => break news.ok_or(Over)?,
                            _ = alive.tick() => self.live_on().await?,
                        }
                    }
                };
                self.send(&news).await?;
            }
        };
        tokio::select! {
            _ = ended => {}
            () = closing.cancelled() => {}
        }
    }

    async fn live_on(&self) -> Result<(), Over> {
        // The token may have been revoked meanwhile.
        let grant = self.edge.authenticate(&self.headers).map_err(|_| Over)?;
        rights::check(&grant, Need::Work).map_err(|_| Over)?;
        self.out.send(Bytes::from_static(b": still here\n\n")).await.map_err(|_| Over)
    }

    async fn send(&self, news: &News) -> Result<(), Over> {
        let data: Value = json!(news);
        let frame = format!("event: {}\ndata: {data}\n\n", news.name());
        self.out.send(Bytes::from(frame)).await.map_err(|_| Over)
    }
}
