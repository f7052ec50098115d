//! `/api/chat/notes`: what butlers and butlerd itself have for the owner, until the chat has shown it.

use std::time::Duration;

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use super::inbound::{Inbound, forbidden, refusal_of, said};
use super::owner_notes::for_the_owner;
use super::rights::{self, Need};
use inbox::AcceptError;
use mcp::{BODY_TIMEOUT, Body, json_body, refusal_response, whole_body};

/// The longest that a request waits for something.
const LONGEST: u64 = 30;

/// The body of `POST /api/chat/notes`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Seen {
    seen: Vec<Uuid>,
}

impl Inbound<'_> {
    /// The refusal of a caller that does not speak for the owner of its tenant, whom all notes are for.
    fn not_the_owner(&self) -> Option<Response<Body>> {
        let allowed = rights::check(self.grant, Need::Work).and_then(|()| for_the_owner(self.grant));
        allowed.err().map(|failure| forbidden(&failure))
    }

    /// `GET /api/chat/notes?wait=SECONDS`: what was not shown yet, the oldest first.
    pub(super) async fn notes(&self, query: Option<&str>) -> Response<Body> {
        if let Some(refused) = self.not_the_owner() {
            return refused;
        }
        let wait = query.and_then(|q| q.split('&').find_map(|pair| pair.strip_prefix("wait=")));
        let wait = Duration::from_secs(wait.and_then(|w| w.parse().ok()).unwrap_or(0).min(LONGEST));
        let post = &self.supervisor.services().outbox;
        let notes = tokio::select! {
            notes = post.unshown(&self.grant.tenant, wait) => notes,
            () = self.closing.cancelled() => Ok(Vec::new()),
        };
        match notes {
            Ok(notes) => json_body(StatusCode::OK, &json!({"notes": notes})),
            Err(e) => {
                tracing::debug!(error = %e, "notes can't be read");
                refusal_of(&AcceptError::Unavailable)
            }
        }
    }

    /// `POST /api/chat/notes`: these were shown.
    pub(super) async fn notes_seen(&self, request: Request<Incoming>) -> Response<Body> {
        if let Some(refused) = self.not_the_owner() {
            return refused;
        }
        let bytes = match whole_body(request.into_body(), self.edge.max_body(), BODY_TIMEOUT).await {
            Ok(bytes) => bytes,
            Err(refusal) => return refusal_response(&refusal),
        };
        let seen: Seen = match serde_json::from_slice(&bytes) {
            Ok(seen) => seen,
            Err(e) => {
                let why = format!("The body is not a list {{seen: [id, …]}}: {e}.");
                return said(StatusCode::BAD_REQUEST, "invalid_message", &why);
            }
        };
        match self.supervisor.services().outbox.shown(&self.grant.tenant, &seen.seen).await {
            Ok(n) => json_body(StatusCode::OK, &json!({"status": "ok", "seen": n})),
            Err(e) => {
                tracing::debug!(error = %e, "notes could not be marked");
                refusal_of(&AcceptError::Unavailable)
            }
        }
    }
}
