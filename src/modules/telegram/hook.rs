//! Taking in what Telegram sends by itself, where the world reaches the household: instead of polls.
//!
//! Each update is answered once it is committed. What is answered otherwise, or not at all, Telegram sends again.

use std::sync::Arc;

use async_trait::async_trait;
use http::{HeaderMap, Method, StatusCode};
use serde_json::{Value, json};

use super::source::{PATH, TelegramSource, Took};
use crate::connector::{Source, Unreadable};
use crate::contract::ModuleContext;
use crate::routes::{RouteAnswer, RouteHandler, RouteRequest, RouteSpec};
use base::TenantId;
use inbox::AcceptError;

/// Telegram's proof: what it was given when the webhook was set.
const PROOF: &str = "x-telegram-bot-api-secret-token";

pub(super) fn spec() -> RouteSpec {
    RouteSpec::open(Method::POST, PATH)
}

pub(super) struct Hook {
    pub source: Arc<TelegramSource>,
    pub cx: ModuleContext,
}

impl Hook {
    /// Puts on record that a message is not taken in; then Telegram may forget it.
    async fn refuse(&self, id: &str, why: &str) -> RouteAnswer {
        tracing::warn!(message = id, why, "a message of Telegram was not taken in");
        let account = self.cx.inbound.account(&TenantId::owner(), self.source.kind(), &self.source.endpoint());
        match account.refuse(id, why).await {
            Ok(()) => RouteAnswer::json(StatusCode::OK, &json!({"status": "ok"})),
            Err(e) => RouteAnswer::error(StatusCode::SERVICE_UNAVAILABLE, "unavailable", &e.to_string()),
        }
    }
}

#[async_trait]
impl RouteHandler for Hook {
    fn may_prove(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(PROOF).map(|value| value.as_bytes()).unwrap_or_default();
        self.source.is_proof(given)
    }

    async fn answer(&self, request: RouteRequest) -> RouteAnswer {
        let Ok(update) = serde_json::from_slice::<Value>(&request.body) else {
            return RouteAnswer::error(StatusCode::BAD_REQUEST, "invalid_update", "The body is not JSON.");
        };
        let done = RouteAnswer::json(StatusCode::OK, &json!({"status": "ok"}));
        let message = match self.source.take(&update).await {
            Took::Nothing => return done,
            Took::Message(message) => message,
            // Sent again it may be had.
            Took::Later(e) => {
                return RouteAnswer::error(StatusCode::SERVICE_UNAVAILABLE, "unavailable", &e.to_string());
            }
            Took::Unreadable(Unreadable { id, why }) => return self.refuse(&id, &why).await,
        };
        match self.cx.inbound.accept(&TenantId::owner(), message.envelope.clone()).await {
            Ok(accepted) => {
                self.source.taken(&message, &accepted);
                done
            }
            Err(AcceptError::Invalid(why)) => self.refuse(&message.id, &why).await,
            // Sent again it would be refused again. It is on record with its sender.
            Err(why @ AcceptError::TooMany { .. }) => {
                tracing::warn!(message = message.id, why = %why, "a message of Telegram was not taken in");
                done
            }
            Err(why) => RouteAnswer::error(StatusCode::SERVICE_UNAVAILABLE, why.code(), &why.to_string()),
        }
    }
}
