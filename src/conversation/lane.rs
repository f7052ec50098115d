//! The name of a conversation.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use base::RequestContext;

/// The longest text that an index of the database takes, with room to spare.
const MAX_KEY: usize = 500;

/// A key that an index takes: a long one is cut, and told from others of the same begin by its hash.
pub fn bounded(key: String) -> String {
    if key.len() <= MAX_KEY {
        return key;
    }
    let hash: String = Sha256::digest(key.as_bytes()).iter().map(|b| format!("{b:02x}")).collect();
    let begin: String = key.chars().take(MAX_KEY / 8).collect();
    format!("{begin}…{hash}")
}

/// Where a conversation goes on: messages of one lane are dealt with in the order in which they came.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lane(pub String);

impl Lane {
    /// The thread where there is one, else the sender's own.
    pub fn of(channel: &str, endpoint: &str, thread: Option<&str>, sender: &str) -> Self {
        Self(bounded(match thread {
            Some(thread) => format!("{channel}|{endpoint}|{thread}"),
            None => format!("{channel}|{endpoint}||{sender}"),
        }))
    }

    /// The lane of a request that came from outside.
    pub fn of_request(ctx: &RequestContext) -> Self {
        let thread = ctx.source_thread_identity.as_deref();
        Self::of(&ctx.source_channel, &ctx.source_endpoint_identity, thread, &ctx.source_sender_identity)
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
