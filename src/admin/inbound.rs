//! `/api`: messages handed in over HTTP, and what became of them.

use http::header::{HeaderValue, RETRY_AFTER};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::failure::Failure;
use super::rights::{self, Need};
use access::{Edge, Grant, Holder};
use inbox::{AcceptError, HandedInBy};
use mcp::{BODY_TIMEOUT, Body, json_body, refusal_response, whole_body};
use store::StoreError;
use supervisor::Supervisor;

/// A request below `/api`, its token proven.
pub(super) struct Inbound<'a> {
    pub supervisor: &'a Supervisor,
    pub edge: &'a Edge,
    pub grant: &'a Grant,
    /// Cancelled as the port closes: streams end then.
    pub closing: &'a CancellationToken,
}

impl Inbound<'_> {
    pub async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let path = request.uri().path().to_owned();
        match (request.method(), path.as_str()) {
            (&Method::POST, "/api/ingest") => self.ingest(request).await,
            (&Method::GET, _) if path.starts_with("/api/inbox/") => {
                let id = path.trim_start_matches("/api/inbox/").parse();
                self.entry(id.ok()).await
            }
            (&Method::GET, "/api/chat/notes") => {
                let query = request.uri().query().map(str::to_owned);
                self.notes(query.as_deref()).await
            }
            (&Method::POST, "/api/chat/notes") => self.notes_seen(request).await,
            (&Method::POST, "/api/chat") => self.chat(request).await,
            (&Method::GET, _) if path.starts_with("/api/chat/") => {
                let id = path.trim_start_matches("/api/chat/").parse();
                self.chat_again(id.ok(), request.headers()).await
            }
            _ if path.starts_with("/api/butlers/") => self.butler_page(&request).await,
            _ => said(
                StatusCode::NOT_FOUND,
                "not_found",
                "This path does not exist. Use POST /api/ingest, GET /api/inbox/{request_id}, POST /api/chat, GET \
                 /api/chat/{request_id}, GET and POST /api/chat/notes, GET /api/butlers/{butler}/{page}, or a path that a configured module serves.",
            ),
        }
    }

    async fn ingest(&self, request: Request<Incoming>) -> Response<Body> {
        if let Err(refused) = rights::check(self.grant, Need::HandIn) {
            return forbidden(&refused);
        }
        let bytes = match whole_body(request.into_body(), self.edge.max_body(), BODY_TIMEOUT).await {
            Ok(bytes) => bytes,
            Err(refusal) => return refusal_response(&refusal),
        };
        let envelope = match serde_json::from_slice(&bytes) {
            Ok(Value::Object(envelope)) => envelope,
            Ok(_) => return said(StatusCode::BAD_REQUEST, "invalid_envelope", "The body is JSON, but not an object."),
            Err(e) => {
                return said(StatusCode::BAD_REQUEST, "invalid_envelope", &format!("The body is not valid JSON: {e}."));
            }
        };
        let inbox = &self.supervisor.services().inbox;
        match inbox.ingest(&self.grant.tenant, envelope, HandedInBy::Token(self.grant)).await {
            Ok(accepted) => json_body(StatusCode::ACCEPTED, &json!(accepted)),
            Err(e) => refusal_of(&e),
        }
    }

    async fn entry(&self, id: Option<Uuid>) -> Response<Body> {
        if let Err(refused) = rights::check(self.grant, Need::Look) {
            return forbidden(&refused);
        }
        let Some(id) = id else { return said(StatusCode::BAD_REQUEST, "invalid_id", "That is not a request_id.") };
        match self.supervisor.services().inbox.entry(&self.grant.tenant, id).await {
            Ok(Some(entry)) => match self.answers_arrived(id, &entry.replies).await {
                Ok(()) => json_body(StatusCode::OK, &json!(entry)),
                Err(e) => {
                    tracing::warn!(error = %e, "that answers were read can't be noted");
                    refusal_of(&AcceptError::Unavailable)
                }
            },
            Ok(None) => said(StatusCode::NOT_FOUND, "not_found", "There is no message of this request_id."),
            Err(e) => {
                tracing::warn!(error = %e, "the inbox can't be read");
                refusal_of(&AcceptError::Unavailable)
            }
        }
    }

    /// A program that speaks for an end of a channel takes the answers that it reads here to where they belong.
    async fn answers_arrived(&self, request: Uuid, replies: &[Value]) -> Result<(), StoreError> {
        let Holder::Operator { label, .. } = &self.grant.holder else { return Ok(()) };
        let Some(last) = replies.iter().filter_map(|reply| reply["seq"].as_i64()).max() else { return Ok(()) };
        let channels: Vec<&str> = self.grant.ends.channels.iter().map(String::as_str).collect();
        let endpoints: Vec<&str> = self.grant.ends.endpoints.iter().map(String::as_str).collect();
        if channels.is_empty() {
            return Ok(());
        }
        let outbox = &self.supervisor.services().outbox;
        outbox.answers_were_read((&self.grant.tenant, request, last), (&channels, &endpoints), label).await
    }
}

/// A message that was not taken; nothing of it was stored.
pub(super) fn refusal_of(e: &AcceptError) -> Response<Body> {
    let status = match e {
        AcceptError::Invalid(_) => StatusCode::BAD_REQUEST,
        AcceptError::Foreign { .. } | AcceptError::Unproven { .. } => StatusCode::FORBIDDEN,
        AcceptError::Full { .. }
        | AcceptError::ShareFull { .. }
        | AcceptError::TooMany { .. }
        | AcceptError::TooFast { .. } => StatusCode::TOO_MANY_REQUESTS,
        AcceptError::Unavailable | AcceptError::Machine(_) | AcceptError::NotUp => StatusCode::SERVICE_UNAVAILABLE,
    };
    let mut response = said(status, e.code(), &e.to_string());
    if let Some(seconds) = e.retry_after() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

pub(super) fn forbidden(failure: &Failure) -> Response<Body> {
    said(StatusCode::FORBIDDEN, &failure.code, &failure.message)
}

pub(super) fn said(status: StatusCode, code: &str, sentence: &str) -> Response<Body> {
    json_body(status, &json!({"status": "error", "error": sentence, "code": code}))
}
