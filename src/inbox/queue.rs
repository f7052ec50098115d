//! The queue of messages: its table, a row in hand, and what becomes of a try.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use uuid::Uuid;

use super::lanes::Item;
use super::types::Triage;
use base::{Backoff, RequestContext};
use store::{QueueTable, RetryPolicy};

/// How often messages and their parts are tried, and how long they wait in between.
pub const RETRY: RetryPolicy = RetryPolicy { tries: 5, pause, error: "last_error" };

/// How long something waits before its next try, after so many.
pub(super) fn pause(attempts: i32) -> Duration {
    let mut backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(120));
    let delays = (0..attempts.max(1)).map(|_| backoff.next_delay());
    delays.last().unwrap_or_default()
}

/// The queue of messages; one that is with its butlers is `processing` and in nobody's hands.
pub(super) fn message_inbox(schema: &str) -> QueueTable {
    QueueTable {
        open: "state = 'accepted' OR state = 'processing' AND claim_id IS NOT NULL".to_owned(),
        ..QueueTable::accepted(format!("\"{schema}\".message_inbox"), "request_id", "n.seq", RETRY)
    }
}

/// A message in these hands.
pub(super) struct Message {
    pub item: Item,
    pub claim: Uuid,
    pub body: String,
    pub attachments: Value,
    pub envelope: Value,
    pub context: Arc<RequestContext>,
    pub triage: Option<Triage>,
    pub classified: bool,
    /// Why the last try failed.
    pub last_error: Option<String>,
}

/// What became of one try.
pub(super) enum Tried {
    /// Its parts are with their butlers, who end it.
    HandedOn,
    /// Nothing of it is at fault; the same again after a while.
    Later(Duration),
    /// It failed; again, unless it has failed too often.
    Failed(String),
    /// Somebody else holds it by now.
    Lost,
}
