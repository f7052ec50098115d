//! Live events for subscribers.

use jsonrpsee::SubscriptionSink;
use serde_json::value::RawValue;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::api::LiveEvent;
use super::failure::Failure;
use super::rights::{self, Need};
use super::rpc::Visitor;
use base::TenantId;
use sessions::SessionEvent;

/// What one subscriber may see and wants to see.
pub(super) struct Watch {
    visitor: Visitor,
    /// Only this butler; `None` is all.
    butler: Option<String>,
}

impl Watch {
    /// Checks the subscriber's right.
    pub fn new(visitor: Visitor, butler: Option<String>) -> Result<Self, Failure> {
        let grant = visitor.grant(Need::Look)?;
        // Events don't say whose they are, so only the owner, whose daemon it is, may see them.
        if grant.tenant != TenantId::owner() {
            return Err(Failure::forbidden("Live events are shown to the owner's tokens only."));
        }
        if let Some(name) = &butler {
            rights::check_butler(&grant, name)?;
        }
        let butler = butler.or_else(|| grant.butler.as_ref().map(ToString::to_string));
        Ok(Self { visitor, butler })
    }

    fn wants(&self, event: &SessionEvent) -> bool {
        self.butler.as_deref().is_none_or(|name| name == event.butler)
    }

    fn still_allowed(&self) -> bool {
        self.visitor.grant(Need::Look).is_ok()
    }
}

/// Hands events on until the subscriber leaves, loses its right, or the daemon stops.
pub(super) async fn forward(
    watch: Watch,
    mut events: Receiver<SessionEvent>,
    pack: impl Fn(&LiveEvent) -> serde_json::Result<Box<RawValue>>,
    sink: SubscriptionSink,
) {
    loop {
        let event = tokio::select! {
            () = sink.closed() => return,
            event = events.recv() => event,
        };
        let event = match event {
            Ok(event) if watch.wants(&event) => LiveEvent::Session(Box::new(event)),
            Ok(_) => continue,
            Err(RecvError::Lagged(missed)) => LiveEvent::Missed { missed },
            Err(RecvError::Closed) => return,
        };
        if !watch.still_allowed() {
            return;
        }
        let message = match pack(&event) {
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
