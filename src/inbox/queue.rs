//! The queue of messages: its table, how often a message is tried, and how long it waits in between.

use std::time::Duration;

use base::Backoff;
use store::{QueueTable, RetryPolicy};

/// How often messages and their parts are tried, and how long they wait in between.
pub const RETRY: RetryPolicy = RetryPolicy { tries: 5, pause, error: "last_error" };

/// How long something waits before its next try, after so many.
pub(super) fn pause(attempts: i32) -> Duration {
    let mut backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(120));
    let delays = (0..attempts.max(1)).map(|_| backoff.next_delay());
    delays.last().unwrap_or_default()
}

/// The queue of messages. One that is with its butlers is `processing`, and no claim holds it.
pub(super) fn message_inbox(schema: &str) -> QueueTable {
    QueueTable {
        open: "state = 'accepted' OR state = 'processing' AND claim_id IS NOT NULL".to_owned(),
        ..QueueTable::accepted(format!("\"{schema}\".message_inbox"), "request_id", "n.seq", RETRY)
    }
}
