//! The way in: a program posts JSON to `/hooks/webhook/<path>`, and what the settings pick out of it becomes a message.
//!
//! **Whose words they are.** The proof shows that the program sent the body, not who wrote what stands in it: anybody
//! may open an issue or name a song. So the envelope says of the sender `"result": "none"`, and the inbox takes whoever
//! it is for a stranger, with a stranger's limits, lane and budget; no contact and no identity of the owner's changes
//! that. With `trusted = true` it says `pass` (`signature` or `token`), and the inbox looks the identity up: then it is
//! the owner's if `[owner] identities` has it as `webhook`, somebody known's if a contact has it on the channel
//! `webhook`, and still a stranger's if neither has. The identity is the inbound's name, or begins with it and a colon,
//! so that one inbound never brings somebody of another one. That is for programs all of whose words are the owner's
//! own, such as a doorbell.
//!
//! **The same again.** The inbox knows a message by its id, with inbound, thread and sender, for as long as it keeps the
//! row. A request that somebody has seen and sends again is the same message, if its id stands in what is signed: in the
//! body, or the body's hash is the id. An id in a header (GitHub has no other) is not signed: who has a whole signed
//! request may hand it in again under a new id. A signed time ends that after the replay window.
//!
//! **Answers.** Nobody waits for one: no message is interactive, so none is answered by itself. What a butler replies all
//! the same goes to the outgoing endpoint of the inbound's name, and fails where there is none.

use async_trait::async_trait;
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use super::mapping::{Incoming, Mapping, Reading};
use super::proof::Prover;
use crate::contract::ModuleContext;
use crate::routes::{RouteAnswer, RouteHandler, RouteRequest};
use base::TenantId;
use inbox::AcceptError;

/// What a program without a proof is told, whatever is wrong with it: as the port says it of headers.
fn unproven() -> RouteAnswer {
    let sentence = "This is for the channel alone, which proves itself.";
    RouteAnswer::error(StatusCode::UNAUTHORIZED, "unauthorized", sentence)
}

/// Takes in what one program posts.
pub(super) struct InboundHook {
    pub prover: Prover,
    pub mapping: Mapping,
    pub cx: ModuleContext,
}

#[async_trait]
impl RouteHandler for InboundHook {
    fn may_prove(&self, headers: &HeaderMap) -> bool {
        self.prover.may_hold(headers, self.cx.clock.now())
    }

    async fn answer(&self, request: RouteRequest) -> RouteAnswer {
        let (name, now) = (self.mapping.name.as_str(), self.cx.clock.now());
        let Some(proven) = self.prover.holds(&request.headers, &request.body, now) else {
            tracing::debug!(inbound = name, "a request brought no valid proof");
            return unproven();
        };
        let Ok(body) = serde_json::from_slice::<Value>(&request.body) else {
            let why =
                "The body is not valid JSON. Set the content type application/json where the program sends forms.";
            return RouteAnswer::error(StatusCode::BAD_REQUEST, "invalid_body", why);
        };
        let incoming =
            Incoming { body: &body, raw: &request.body, headers: &request.headers, signed_at: proven.signed_at };
        let message = match self.mapping.read(&incoming, now) {
            Reading::Message(message) => message,
            Reading::Skipped => return RouteAnswer::json(StatusCode::OK, &json!({"status": "skipped"})),
            Reading::Empty => {
                tracing::warn!(inbound = name, "a body has none of the places that the inbound's text names");
                let why = format!("The text of [modules.webhook.inbound.{name}] finds no words in this body.");
                return RouteAnswer::error(StatusCode::BAD_REQUEST, "no_text", &why);
            }
        };
        match self.cx.inbound.accept(&TenantId::owner(), message).await {
            Ok(accepted) => {
                let (request, same) = (accepted.request_id, accepted.duplicate);
                RouteAnswer::json(
                    StatusCode::OK,
                    &json!({"status": "accepted", "request_id": request, "duplicate": same}),
                )
            }
            Err(why) => refused(name, &why),
        }
    }
}

/// A message that was not taken.
fn refused(inbound: &str, why: &AcceptError) -> RouteAnswer {
    let status = match why {
        AcceptError::Invalid(_) | AcceptError::Foreign { .. } | AcceptError::Unproven { .. } => StatusCode::BAD_REQUEST,
        AcceptError::TooMany { .. } | AcceptError::TooFast { .. } => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    tracing::warn!(inbound, why = %why, "a message of a webhook was not taken in");
    RouteAnswer::error(status, why.code(), &why.to_string()).with_retry_after(why.retry_after())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_taken_is_told_with_when_to_come_again() {
        let sent = AcceptError::TooMany {
            sender: "github".to_owned(),
            sent: 60,
            within: "an hour",
            setting: "stranger_per_hour",
            retry_after: 90,
        };
        for (why, status, after) in [
            (sent, 429, Some(90)),
            (AcceptError::Full { waiting: 1 }, 503, Some(10)),
            (AcceptError::NotUp, 503, Some(2)),
            (AcceptError::Invalid("x".to_owned()), 400, None),
        ] {
            let answer = refused("github", &why);
            assert_eq!((answer.status.as_u16(), answer.retry_after), (status, after), "{why}");
        }
    }
}
