//! The name of a conversation, and how names are made out of parts that come from outside.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use base::RequestContext;
use base::text::{hex, plain_identity};

/// The longest text that an index of the database takes, with room to spare.
const MAX_KEY: usize = 500;

/// One key out of several parts, each behind its length, so that no text in one part reads as the border to the next:
/// `5:group4:home`. A part that is not there is `-`. `shared.joined()` makes the same in SQL.
///
/// ```
/// use conversation::joined;
///
/// assert_eq!(joined(&[Some("a"), None, Some("b:c")]), "1:a-3:b:c");
/// assert_ne!(joined(&[Some("a|"), Some("b")]), joined(&[Some("a"), Some("|b")]));
/// ```
pub fn joined(parts: &[Option<&str>]) -> String {
    let key = parts.iter().map(|part| part.map_or_else(|| "-".to_owned(), |part| format!("{}:{part}", part.len())));
    bounded(key.collect())
}

/// A key that an index takes: a long one is cut, and told from others of the same begin by its hash.
pub fn bounded(key: String) -> String {
    if key.len() <= MAX_KEY {
        return key;
    }
    let hash = hex(&Sha256::digest(key.as_bytes()));
    let begin: String = key.chars().take(MAX_KEY / 8).collect();
    format!("{begin}…{hash}")
}

/// Where a conversation goes on: messages of one lane are dealt with in the order in which they came.
///
/// A group's thread is one lane, because the group hears what is said there. Every other lane is one person's: whoever
/// writes into a thread of somebody else begins a conversation of his own there, and so does whoever only claims to be
/// that person. So nobody waits behind, is shown, or is routed by what another one said.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lane(pub String);

impl Lane {
    /// A conversation with one person whom the channel knows, in a thread where there is one.
    pub fn of(channel: &str, endpoint: &str, thread: Option<&str>, sender: &str) -> Self {
        Self::personal("person", (channel, endpoint, thread), sender)
    }

    /// The lane of a request that came from outside.
    pub fn of_request(ctx: &RequestContext) -> Self {
        let (channel, endpoint) = (ctx.source_channel.as_str(), ctx.source_endpoint_identity.as_str());
        match ctx.source_thread_identity.as_deref() {
            Some(thread) if ctx.group => Self(joined(&[Some("group"), Some(channel), Some(endpoint), Some(thread)])),
            thread => {
                let kind = if ctx.unauthenticated { "claimed" } else { "person" };
                Self::personal(kind, (channel, endpoint, thread), &ctx.source_sender_identity)
            }
        }
    }

    fn personal(kind: &str, (channel, endpoint, thread): (&str, &str, Option<&str>), sender: &str) -> Self {
        let sender = plain_identity(sender);
        Self(joined(&[Some(kind), Some(channel), Some(endpoint), thread, Some(&sender)]))
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Clock, TenantId, Trust};

    #[test]
    fn no_text_of_a_part_makes_it_another_lane() {
        let owners = Lane::of("email", "home", None, "ada@example.org");
        for thread in ["|ada@example.org", "-15:ada@example.org", "", "ada@example.org", "15:ada@example.org"] {
            for sender in ["eve@example.org", "", "|ada@example.org", "15:ada@example.org"] {
                assert_ne!(Lane::of("email", "home", Some(thread), sender), owners, "{thread} {sender}");
            }
        }
        assert_ne!(Lane::of("email", "a|b", None, "c"), Lane::of("email", "a", Some("b"), "c"));
        assert_eq!(Lane::of("email", "home", None, "Ada <ADA@example.org>"), owners, "it is the same person");
    }

    #[test]
    fn a_group_is_one_conversation_and_a_thread_is_one_for_each_person() {
        let request = |sender: &str, group: bool, unauthenticated: bool| {
            let root =
                RequestContext::root(&Clock::default(), TenantId::owner(), "email", "home", sender, Trust::Known);
            let thread = Some("t".to_owned());
            Lane::of_request(&RequestContext { source_thread_identity: thread, group, unauthenticated, ..root })
        };
        assert_eq!(request("ada", true, false), request("eve", true, true));
        assert_ne!(request("ada", false, false), request("eve", false, false));
        assert_ne!(request("ada", false, false), request("ada", true, false));
        assert_ne!(request("ada", false, false), request("ada", false, true), "a claim is nobody's conversation");
    }

    #[test]
    fn long_keys_are_cut_and_stay_apart() {
        let (a, b) = ("x".repeat(600), "x".repeat(601));
        let (a, b) = (joined(&[Some(&a)]), joined(&[Some(&b)]));
        assert!(a != b && a.len() < 200 && a.starts_with("600:xxx"), "{a}");
    }
}
