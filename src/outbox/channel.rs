//! What a channel is to the messenger.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use strum::IntoStaticStr;

use super::delivery::Delivery;
use conversation::Lane;

/// What became of a try.
#[derive(Clone, PartialEq, Debug, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Outcome {
    /// The other side has it.
    Sent { receipt: Value },
    /// It surely did not arrive, and may later. `retry_after`: the other side said when; that is no failure.
    NotSent { why: String, retry_after: Option<Duration> },
    /// It did not arrive and never will like this.
    Refused { why: String },
    /// It left, and nobody knows whether it arrived.
    Unknown { why: String },
}

/// Where an answer to a delivery would come from: as the switchboard names conversations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Conversation {
    pub channel: String,
    pub endpoint: String,
    pub thread: Option<String>,
    pub sender: String,
}

impl Conversation {
    /// Its name.
    pub fn lane(&self) -> Lane {
        Lane::of(&self.channel, &self.endpoint, self.thread.as_deref(), &self.sender)
    }
}

/// Why a channel would not take a delivery: a sentence without its end.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct WouldRefuse(pub String);

/// A delivery as its reader would see it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Shown {
    /// In their order.
    pub messages: Vec<String>,
    /// What is other than it was written, in sentences.
    pub notes: Vec<String>,
}

/// A way out of the household. A channel knows nothing of rows: the pump hands it a delivery, and it says what became
/// of the try.
///
/// # Examples
///
/// A channel that does no harm if it sends twice, and reaches one place only:
///
/// ```
/// use async_trait::async_trait;
/// use outbox::{Channel, Delivery, Outcome};
/// use serde_json::json;
///
/// struct Bell;
///
/// #[async_trait]
/// impl Channel for Bell {
///     fn name(&self) -> &str {
///         "bell"
///     }
///     fn at_home(&self) -> bool {
///         true
///     }
///     fn targets(&self) -> Vec<String> {
///         vec!["hall".to_owned()]
///     }
///     fn repeatable(&self, _: &Delivery) -> bool {
///         true
///     }
///     async fn send(&self, delivery: &Delivery) -> Outcome {
///         match delivery.target.as_str() {
///             "hall" => Outcome::Sent { receipt: json!({"rang": true}) },
///             other => Outcome::Refused { why: format!("there is no bell in {other}") },
///         }
///     }
/// }
///
/// assert_eq!(Bell.targets(), ["hall"]);
/// ```
#[async_trait]
pub trait Channel: Send + Sync {
    /// As `notify` and the configuration call it.
    fn name(&self) -> &str;
    /// Nothing that goes this way leaves the house.
    fn at_home(&self) -> bool {
        false
    }
    /// It carries answers to what came in through a channel of this name. At home they are read where they stand.
    fn answers(&self) -> bool {
        !self.at_home()
    }
    /// Files can go along. Where they can't, the message says how to save them.
    fn carries_files(&self) -> bool {
        true
    }
    /// Those that it reaches by configuration, without a contact; the first is taken where none is named.
    fn targets(&self) -> Vec<String> {
        Vec::new()
    }
    /// Whether the other side knows a repetition by its idempotency key.
    fn repeatable(&self, _: &Delivery) -> bool {
        false
    }
    /// How many tries a minute a lane bears.
    fn per_minute(&self, _: &Delivery) -> Option<u32> {
        None
    }
    /// Where an answer to it would come from.
    fn conversation(&self, _: &Delivery) -> Option<Conversation> {
        None
    }
    /// How it would look there, without sending it.
    fn shown(&self, delivery: &Delivery) -> Result<Shown, WouldRefuse> {
        Ok(Shown { messages: delivery.message.iter().cloned().collect(), notes: Vec::new() })
    }
    /// Lets it leave. Ends within a bounded time.
    async fn send(&self, delivery: &Delivery) -> Outcome;
    /// Looks whether it arrived, after a try that nobody saw the end of. `None`: that can't be seen.
    async fn reconcile(&self, _: &Delivery) -> Option<Outcome> {
        None
    }
}
