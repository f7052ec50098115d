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
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::interval;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::inbound::{Inbound, forbidden, refusal_of, said};
use super::rights::{self, Need};
use access::{Edge, Holder};
use base::{Trust, task};
use butler::ButlerState;
use inbox::{
    AcceptError, Attachment, Authentication, Control, Envelope, Event, Following, Inbox, News, Payload, Sender, Source,
    Tier,
};
use mcp::{BODY_TIMEOUT, Body, json_body, refusal_response, whole_body};

/// The channel's name.
const CHANNEL: &str = "chat";
/// Where a message goes that names no thread.
const THREAD: &str = "main";
/// Between two signs of life.
const ALIVE: Duration = Duration::from_secs(15);
/// Files that go with one message.
const FILES: usize = 10;
/// Events that wait for a slow client; then the stream waits for it.
const WAITING: usize = 64;

/// The body of `POST /api/chat`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    text: String,
    /// Whom it is for; without it the switchboard finds out.
    #[serde(default)]
    butler: Option<String>,
    /// The conversation that it belongs to.
    #[serde(default)]
    thread: Option<String>,
    /// The client's own name for the message: sent again under the same, it is the same.
    #[serde(default)]
    id: Option<String>,
    /// Files that go with it, as in `ingest.v1`.
    #[serde(default)]
    attachments: Vec<Attachment>,
}

impl Said {
    /// What of its files is not as `ingest.v1` has it.
    fn wrong_file(&self) -> Option<String> {
        let token = |text: &str| {
            !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&b))
        };
        let is_type = |kind: &str| kind.split_once('/').is_some_and(|(kind, sub)| token(kind) && token(sub));
        let file = |(n, file): (usize, &Attachment)| {
            let field = match file {
                file if !is_type(&file.media_type) => "media_type, such as image/png",
                file if file.content_base64.is_none() => "content_base64",
                file if file.filename.as_ref().is_some_and(|name| name.len() > 500) => "a shorter filename",
                _ => return None,
            };
            Some(format!("attachments.{n} needs {field}."))
        };
        let too_many = || format!("At most {FILES} files go with a message.");
        if self.attachments.len() > FILES {
            Some(too_many())
        } else {
            self.attachments.iter().enumerate().find_map(file)
        }
    }
}

impl Inbound<'_> {
    /// `POST /api/chat`
    pub(super) async fn chat(&self, request: Request<Incoming>) -> Response<Body> {
        if let Err(failure) = rights::check(self.grant, Need::Work) {
            return forbidden(&failure);
        }
        let Holder::Operator { label, .. } = &self.grant.holder else {
            return said(StatusCode::FORBIDDEN, "forbidden", "Only an operator's token speaks for a person.");
        };
        let (parts, body) = request.into_parts();
        let bytes = match whole_body(body, self.edge.max_body(), BODY_TIMEOUT).await {
            Ok(bytes) => bytes,
            Err(refusal) => return refusal_response(&refusal),
        };
        let message: Said = match serde_json::from_slice(&bytes) {
            Ok(message) => message,
            Err(e) => {
                let why = format!("The body is not a message {{text, butler?, thread?, id?, attachments?}}: {e}.");
                return said(StatusCode::BAD_REQUEST, "invalid_message", &why);
            }
        };
        if let Some(why) = message.wrong_file() {
            return said(StatusCode::BAD_REQUEST, "invalid_message", &why);
        }
        // A token of one butler talks to that one.
        let butler = message.butler.clone().or_else(|| self.grant.butler.as_ref().map(ToString::to_string));
        if let Some(butler) = &butler {
            if let Err(failure) = rights::check_butler(self.grant, butler) {
                return forbidden(&failure);
            }
            if let Err(refused) = self.reachable(butler).await {
                return refused;
            }
        }
        let services = self.supervisor.services();
        let inbox = services.inbox.clone();
        // Before the message is there, so that nothing of it is missed.
        let listening = inbox.listen();
        let tenant = self.grant.tenant.clone();
        let envelope = envelope(&inbox, label, message, butler);
        // Whoever holds an operator's token of a tenant is its owner, as for every other call.
        let accepting = {
            let (inbox, tenant) = (inbox.clone(), tenant.clone());
            async move { inbox.accept(&tenant, envelope, Trust::Owner).await }
        };
        // A task of its own: a client that goes away now changes nothing.
        let accepted = match task::spawn(task::Kind::Request, "chat-accept", accepting).await {
            Ok(Ok(accepted)) => accepted,
            Ok(Err(e)) => return refusal_of(&e),
            Err(_) => return refusal_of(&AcceptError::Unavailable),
        };
        if let Err(e) = inbox.hasten(&tenant, accepted.request_id).await {
            // It is tried in its own time.
            tracing::debug!(error = %e, "what stands before a message could not be hastened");
        }
        let first = News::Accepted { request_id: accepted.request_id, duplicate: accepted.duplicate };
        self.stream(listening.follow(&tenant, accepted.request_id), first, &parts.headers)
    }

    /// `GET /api/chat/{request_id}`: the stream of a message that was accepted before, from its beginning.
    pub(super) async fn chat_again(&self, id: Option<Uuid>, headers: &HeaderMap) -> Response<Body> {
        if let Err(failure) = rights::check(self.grant, Need::Work) {
            return forbidden(&failure);
        }
        let Holder::Operator { label, .. } = &self.grant.holder else {
            return said(StatusCode::FORBIDDEN, "forbidden", "Only an operator's token speaks for a person.");
        };
        let Some(id) = id else { return said(StatusCode::BAD_REQUEST, "invalid_id", "That is not a request_id.") };
        let services = self.supervisor.services();
        let listening = services.inbox.listen();
        let entry = match services.inbox.entry(&self.grant.tenant, id).await {
            Ok(entry) => entry,
            Err(e) => {
                tracing::warn!(error = %e, "the inbox can't be read");
                return refusal_of(&AcceptError::Unavailable);
            }
        };
        // A token of one butler sees what it said itself.
        let own = |sender: &str| self.grant.butler.is_none() || sender == label;
        if !entry.is_some_and(|e| e.channel == CHANNEL && own(&e.sender)) {
            return said(StatusCode::NOT_FOUND, "not_found", "There is no message of this request_id in the chat.");
        }
        let following = listening.follow(&self.grant.tenant, id);
        self.stream(following, News::Accepted { request_id: id, duplicate: true }, headers)
    }

    /// Whether things can be handed to the butler; else 404 with those that can, or 503 while it starts.
    async fn reachable(&self, butler: &str) -> Result<(), Response<Body>> {
        let routable = self.supervisor.services().inbox.butlers().routable();
        if routable.iter().any(|(name, _)| name == butler) {
            return Ok(());
        }
        let status = self.supervisor.status().await;
        if status.butlers.iter().any(|b| b.name == butler && b.state == ButlerState::Booting) {
            return Err(refusal_of(&AcceptError::NotUp));
        }
        let names: Vec<&str> = routable.iter().map(|(name, _)| name.as_str()).collect();
        let why = format!("There is no butler `{butler}` to talk to; there are: {}.", names.join(", "));
        let answer = json!({"status": "error", "error": why, "code": "unknown_butler", "butlers": names});
        Err(json_body(StatusCode::NOT_FOUND, &answer))
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

/// A name of one token's own. A stroke in the label does not read as its end.
fn own_name(label: &str, name: &str) -> String {
    format!("{}/{name}", label.replace('%', "%25").replace('/', "%2F"))
}

fn envelope(inbox: &Inbox, label: &str, message: Said, butler: Option<String>) -> Envelope {
    let thread = message.thread.as_deref().map(str::trim).filter(|t| !t.is_empty()).unwrap_or(THREAD);
    let id = message.id.filter(|id| !id.trim().is_empty()).unwrap_or_else(|| Uuid::now_v7().to_string());
    Envelope {
        schema_version: "ingest.v1".to_owned(),
        source: Source {
            channel: CHANNEL.to_owned(),
            provider: "internal".to_owned(),
            endpoint_identity: "local".to_owned(),
        },
        event: Event {
            // Of each token its own: two programs may number alike, and one must not read the other's conversation.
            external_event_id: own_name(label, &id),
            external_thread_id: Some(own_name(label, thread)),
            observed_at: inbox.clock().now(),
        },
        sender: Sender {
            identity: label.to_owned(),
            authenticated: Some(Authentication::pass("token")),
            more: Map::new(),
        },
        payload: Payload { raw: None, normalized_text: message.text, attachments: message.attachments },
        control: Control { policy_tier: Tier::Interactive, pinned_target: butler, ..Control::default() },
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_what_it_is() {
        let read = |text: &str| serde_json::from_str::<Said>(text);
        let whole = read(r#"{"text": "hi", "butler": "health", "thread": "t", "id": "1"}"#).unwrap();
        assert_eq!(
            (whole.butler.as_deref(), whole.thread.as_deref(), whole.id.as_deref()),
            (Some("health"), Some("t"), Some("1"))
        );
        assert!(read(r#"{"text": "hi", "trust": "owner"}"#).is_err() && read("{}").is_err());
        let with = |file: &str| read(&format!(r#"{{"text": "hi", "attachments": [{file}]}}"#)).unwrap().wrong_file();
        assert_eq!(with(r#"{"media_type": "image/png", "content_base64": "eA==", "size_bytes": 1}"#), None);
        for wrong in [
            r#"{"media_type": "png", "content_base64": "eA==", "size_bytes": 1}"#,
            r#"{"media_type": "image/png", "storage_ref": "blob:sha256:00", "size_bytes": 1}"#,
        ] {
            assert!(with(wrong).is_some_and(|why| why.starts_with("attachments.0 needs")), "{wrong}");
        }
    }

    #[test]
    fn no_label_makes_another_tokens_thread() {
        assert_eq!(own_name("cli", "main"), "cli/main");
        assert_ne!(own_name("a/b", "c"), own_name("a", "b/c"));
        assert_ne!(own_name("a%2Fb", "c"), own_name("a/b", "c"));
    }
}
