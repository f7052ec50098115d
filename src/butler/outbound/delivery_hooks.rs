//! Between messenger and switchboard: whom an answer goes to, and that one is there to be sent.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use base::{TenantId, task};
use inbox::{Inbox, LiveKind};
use outbox::{Conversation, DeliveryHooks, Outbox};
use store::StoreError;

/// An answer to what a butler sent goes back to that butler.
pub struct Replies {
    inbox: Inbox,
}

impl Replies {
    pub fn new(inbox: &Inbox) -> Arc<Self> {
        Arc::new(Self { inbox: inbox.clone() })
    }
}

#[async_trait]
impl DeliveryHooks for Replies {
    async fn sent(&self, tenant: &TenantId, origin: &str, from: &Conversation) -> Result<(), StoreError> {
        self.inbox.expect_reply(tenant, &from.lane(), origin).await
    }

    fn told(&self, origin: &str) {
        if let Some(target) = self.inbox.butlers().target(origin) {
            target.wake.notify_one();
        }
    }
}

/// Wakes the post when something was answered, until `stop`: the answer may have to go out.
pub fn listen(inbox: &Inbox, outbox: &Outbox, stop: CancellationToken) {
    let (mut heard, outbox) = (inbox.live(), outbox.clone());
    let listening = async move {
        loop {
            let Some(live) = stop.run_until_cancelled(heard.recv()).await else { return };
            match live {
                Ok(live) if matches!(live.kind, LiveKind::Replied) && outbox.carries_answers() => outbox.wake(),
                Ok(_) => {}
                Err(RecvError::Lagged(_)) => outbox.wake(),
                Err(RecvError::Closed) => return,
            }
        }
    };
    task::spawn(task::Kind::Actor, "answers", listening);
}
