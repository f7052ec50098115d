//! Between messenger and switchboard: whom an answer goes to, and that one is there to be sent.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use base::{TenantId, task};
use inbox::{Desk, Lane, LiveKind};
use outbox::{Aftermath, Conversation, Post};
use store::StoreError;

/// An answer to what a butler sent goes back to that butler.
pub struct Replies {
    desk: Desk,
}

impl Replies {
    pub fn new(desk: &Desk) -> Arc<Self> {
        Arc::new(Self { desk: desk.clone() })
    }
}

#[async_trait]
impl Aftermath for Replies {
    async fn sent(&self, tenant: &TenantId, origin: &str, from: &Conversation) -> Result<String, StoreError> {
        let lane = Lane::of(&from.channel, &from.endpoint, from.thread.as_deref(), &from.sender);
        self.desk.expect_reply(tenant, &lane, origin).await?;
        Ok(lane.0)
    }

    fn told(&self, origin: &str) {
        if let Some(target) = self.desk.target(origin) {
            target.wake.notify_one();
        }
    }
}

/// Wakes the post when something was answered, until `stop`: the answer may have to go out.
pub fn listen(desk: &Desk, post: &Post, stop: CancellationToken) {
    let (mut heard, post) = (desk.live(), post.clone());
    let listening = async move {
        loop {
            let live = tokio::select! {
                () = stop.cancelled() => return,
                live = heard.recv() => live,
            };
            match live {
                Ok(live) if matches!(live.kind, LiveKind::Replied) && post.carries_answers() => post.wake(),
                Ok(_) => {}
                Err(RecvError::Lagged(_)) => post.wake(),
                Err(RecvError::Closed) => return,
            }
        }
    };
    task::spawn(task::Kind::Actor, "answers", listening);
}
