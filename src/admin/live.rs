//! Live events for subscribers.

use async_trait::async_trait;
use jsonrpsee::core::SubscriptionResult;
use jsonrpsee::proc_macros::rpc;
use jsonrpsee::types::ErrorObjectOwned;
use jsonrpsee::{Extensions, PendingSubscriptionSink, SubscriptionSink};
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::failure::Failure;
use super::rights::{self, Need};
use super::rpc::Rpc;
use super::visitor::{Visitor, visitor};
use base::TenantId;
use sessions::SessionEvent;

/// What happens, as it happens. Subscriptions need the WebSocket.
#[rpc(server, client, namespace = "butlerd", namespace_separator = ".")]
pub trait EventsApi {
    /// Events of sessions as they happen, of one butler or of all. Scope `read`.
    #[subscription(name = "subscribe_events" => "event", unsubscribe = "unsubscribe_events", item = LiveEvent,
                   param_kind = map, with_extensions)]
    async fn subscribe_events(&self, butler: Option<String>) -> SubscriptionResult;
}

/// What a subscriber gets.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum LiveEvent {
    Session(Box<SessionEvent>),
    /// The subscriber was too slow: so many events were left out here.
    Missed {
        missed: u64,
    },
}

#[async_trait]
impl EventsApiServer for Rpc {
    async fn subscribe_events(
        &self,
        pending: PendingSubscriptionSink,
        ext: &Extensions,
        butler: Option<String>,
    ) -> SubscriptionResult {
        let watch = match visitor(ext).and_then(|v| Watch::new(v.clone(), butler)) {
            Ok(watch) => watch,
            Err(failure) => {
                pending.reject(ErrorObjectOwned::from(failure)).await;
                return Ok(());
            }
        };
        // Before the answer, so that whatever the caller starts after it is seen.
        let events = self.supervisor.services().events.subscribe();
        let sink = pending.accept().await?;
        forward(watch, events, sink).await;
        Ok(())
    }
}

/// What one subscriber may see and asked to see.
struct Watch {
    visitor: Visitor,
    /// Only this butler; `None` is all.
    butler: Option<String>,
}

impl Watch {
    /// Checks the subscriber's right.
    fn new(visitor: Visitor, butler: Option<String>) -> Result<Self, Failure> {
        let grant = visitor.grant(Need::Look)?;
        // Events don't say whose they are, so only the owner, whose daemon it is, may see them.
        if grant.tenant != TenantId::owner() {
            return Err(Failure::forbidden("Live events are shown to the owner's tokens only."));
        }
        Ok(Self { butler: rights::own_or(&grant, butler)?, visitor })
    }

    fn shows(&self, event: &SessionEvent) -> bool {
        self.butler.as_deref().is_none_or(|name| name == event.butler)
    }
}

/// Hands events on until the subscriber leaves, loses its right, or the daemon stops.
async fn forward(watch: Watch, mut events: Receiver<SessionEvent>, sink: SubscriptionSink) {
    loop {
        let event = tokio::select! {
            () = sink.closed() => return,
            event = events.recv() => event,
        };
        let event = match event {
            Ok(event) if watch.shows(&event) => LiveEvent::Session(Box::new(event)),
            Ok(_) => continue,
            Err(RecvError::Lagged(missed)) => LiveEvent::Missed { missed },
            Err(RecvError::Closed) => return,
        };
        if watch.visitor.grant(Need::Look).is_err() {
            return;
        }
        let message = match serde_json::value::to_raw_value(&event) {
            Ok(message) => message,
            Err(e) => {
                tracing::error!(error = %e, "a live event can't be written as JSON");
                continue;
            }
        };
        if sink.send(message).await.is_err() {
            return;
        }
    }
}
