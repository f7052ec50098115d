//! What travels through the switchboard: messages as they come in, their parts as they go on, and the names of states.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use strum::{IntoStaticStr, VariantArray};
use uuid::Uuid;

use base::RequestContext;
pub use conversation::Lane;
pub(crate) use conversation::joined;
use store::StoreError;

/// The name of the routing contract that this build speaks, and its number.
pub const ROUTE_SCHEMA: &str = "route.v1";
pub const ROUTE_CONTRACT: i32 = 1;
/// What butlers answer to a route.
pub const ROUTE_RESPONSE_SCHEMA: &str = "route_response.v1";
/// Where everything goes that nobody else can be found for.
pub const FALLBACK: &str = "general";
/// Tools of the house that are called here by their names.
pub const ROUTE_EXECUTE: &str = "route.execute";
pub const ROUTE_TO_BUTLER: &str = "route_to_butler";

/// How urgent a message is. Lower rows of the table go first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    HighPriority,
    Interactive,
    #[default]
    Default,
}

impl Tier {
    pub const ALL: [Tier; 3] = [Tier::HighPriority, Tier::Interactive, Tier::Default];

    /// The number in its row.
    pub fn number(self) -> i16 {
        self as i16
    }

    pub fn from_number(n: i16) -> Self {
        Self::ALL.into_iter().find(|tier| tier.number() == n).unwrap_or_default()
    }
}

/// `ingest.v1`: one message as a connector hands it in.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Envelope {
    pub schema_version: String,
    pub source: Source,
    pub event: Event,
    pub sender: Sender,
    pub payload: Payload,
    #[serde(default)]
    pub control: Control,
}

/// Through what it came.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    pub channel: String,
    pub provider: String,
    /// The household's own end: a bot, a mailbox.
    pub endpoint_identity: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// As the channel numbers it.
    pub external_event_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_thread_id: Option<String>,
    pub observed_at: Timestamp,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sender {
    pub identity: String,
    /// Whether the channel has proven who writes. Nobody said: it has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authenticated: Option<Authentication>,
    /// What else a connector knows of who writes: display name, participants, kind of chat.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// What a channel found out about who writes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Authentication {
    pub result: AuthenticationResult,
    /// How: `dmarc`, `platform`, …
    pub method: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum AuthenticationResult {
    /// The sender is who the identity says.
    Pass,
    /// Somebody else sent it.
    Fail,
    /// Nobody knows.
    None,
}

impl Authentication {
    /// The channel has proven by this method who writes.
    pub fn pass(method: &str) -> Self {
        Self { result: AuthenticationResult::Pass, method: method.to_owned() }
    }
}

/// Kinds of chats in which more than the sender and the household take part.
const GROUPS: [&str; 4] = ["group", "supergroup", "channel", "community"];

impl Sender {
    /// Whether the channel has proven who writes.
    pub fn is_authenticated(&self) -> bool {
        self.authenticated.as_ref().is_some_and(|a| a.result == AuthenticationResult::Pass)
    }

    /// Whether others than the sender and the household hear what is said there.
    pub fn is_group(&self) -> bool {
        let kind = self.more.get("chat_type").and_then(Value::as_str);
        let participants = self.more.get("participant_count").and_then(Value::as_u64);
        kind.is_some_and(|kind| GROUPS.contains(&kind)) || participants.is_some_and(|n| n > 2)
    }

    /// As a session is shown who writes: what the channel says, and beside it what the sender says of himself.
    pub fn shown(&self) -> Value {
        let mut shown = json!({"identity": self.identity, "group": self.is_group()});
        if let Some(name) = self.more.get("display_name").and_then(Value::as_str).filter(|name| !name.trim().is_empty())
        {
            shown["calls_himself"] = json!(name);
        }
        let result = self.authenticated.as_ref().map_or(AuthenticationResult::None, |a| a.result);
        shown["authenticated"] = json!(result);
        if result != AuthenticationResult::Pass {
            shown["note"] = json!(format!("claims to be {}, not authenticated", self.identity));
        }
        shown
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Payload {
    /// The message as the channel has it; null for tier `metadata`.
    #[serde(default)]
    pub raw: Option<Map<String, Value>>,
    pub normalized_text: String,
    #[serde(default)]
    pub attachments: Vec<Attachment>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attachment {
    pub media_type: String,
    /// Where its content is stored already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_ref: Option<String>,
    /// The content itself, which goes to the blob store; in the row stands the reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_base64: Option<String>,
    pub size_bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_message_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_attachment_id: Option<String>,
    /// Somebody else made it than the sender, who passes it on: it is believed no more than a stranger's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_others: bool,
}

/// How it shall be dealt with.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Control {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_context: Option<Map<String, Value>>,
    pub policy_tier: Tier,
    pub ingestion_tier: IngestionTier,
    /// The butler that it is for, whatever it says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned_target: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IngestionTier {
    #[default]
    Full,
    /// It is on record, and nobody acts on it.
    Metadata,
}

/// What triage says of a message before any model is asked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Triage {
    pub action: Action,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub butler: Option<String>,
    /// `rule`, `pinned`, `envelope`
    pub by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_id: Option<Uuid>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, IntoStaticStr, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Action {
    /// It ends here.
    Skip,
    /// It stays on record, and nobody acts on it.
    MetadataOnly,
    LowPriority,
    RouteTo,
    /// On to classification, past all later rules.
    Pass,
}

base::named!(Action);

impl Action {
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// What becomes of the message, in words; the butler's name follows that of `route_to`.
    pub fn words(self) -> &'static str {
        match self {
            Action::Skip => "skip it",
            Action::MetadataOnly => "note that it came, no more",
            Action::LowPriority => "deal with it after all others",
            Action::RouteTo => "give it to the butler",
            Action::Pass => "let the switchboard find out",
        }
    }

    /// Whether the message needs nothing more.
    pub fn ends(self) -> bool {
        matches!(self, Action::Skip | Action::MetadataOnly)
    }

    /// As the answer to `ingest` calls it.
    pub fn decision(self) -> &'static str {
        match self {
            Action::LowPriority => "low_priority_queue",
            Action::Pass => "pass_through",
            other => other.as_str(),
        }
    }
}

/// The answer to an accepted message.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Accepted {
    pub request_id: Uuid,
    /// Always `accepted`.
    pub status: String,
    /// The same message was accepted before, as this request.
    pub duplicate: bool,
    pub triage_decision: Option<String>,
    pub triage_target: Option<String>,
}

/// Why a message was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    #[error("{0}")]
    Invalid(String),
    #[error("{waiting} messages wait already, which is all that [buffer] max_backlog allows; send it again later")]
    Full { waiting: u64 },
    /// Strangers' share of the backlog is used up.
    #[error(
        "{waiting} messages wait already; the rest of what [buffer] max_backlog allows is kept for those whom the household \
         knows; send it again later"
    )]
    ShareFull { waiting: u64 },
    /// The token speaks for other ends of channels.
    #[error(
        "this token does not speak for the channel {channel} at {endpoint}; use one that was made with: \
         butlerd token new --scope ingest --channel {channel} --endpoint {endpoint}"
    )]
    Foreign { channel: String, endpoint: String },
    /// The token names no channel, so nobody believes it who writes there.
    #[error(
        "this token can't say who is authenticated on the channel {channel} at {endpoint}, because it names neither; make \
         one that does: butlerd token new --scope ingest --channel {channel} --endpoint {endpoint}"
    )]
    Unproven { channel: String, endpoint: String },
    /// A stranger has sent as much as [buffer] allows.
    #[error(
        "{sender} has sent {sent} messages within {within}, which is all that [buffer] {setting} allows a stranger; send it \
         again later"
    )]
    TooMany { sender: String, sent: u64, within: &'static str, setting: &'static str, retry_after: u32 },
    /// An end of a channel that a module serves has brought as much as [buffer] allows.
    #[error(
        "{channel} at {endpoint} has brought {most} messages within a minute, which is all that [buffer] \
         connector_per_minute allows; the rest waits at its server"
    )]
    TooFast { channel: String, endpoint: String, most: u32, retry_after: u32 },
    /// The machine fails; the sentence says how.
    #[error("{0}; send it again later: nothing is taken until that is over")]
    Machine(String),
    #[error(
        "the database can't be reached just now; send it again in a moment: a message that was taken is known again"
    )]
    Unavailable,
    #[error("the switchboard is not up; send it again in a moment")]
    NotUp,
}

impl AcceptError {
    /// The database can't be reached; why, the log says.
    pub(crate) fn unavailable(why: StoreError) -> Self {
        tracing::warn!(error = %why, "a message was not accepted");
        Self::Unavailable
    }

    pub fn code(&self) -> &'static str {
        match self {
            AcceptError::Invalid(_) => "invalid_envelope",
            AcceptError::Full { .. } | AcceptError::ShareFull { .. } => "buffer_full",
            AcceptError::Foreign { .. } => "foreign_channel",
            AcceptError::Unproven { .. } => "not_authenticated",
            AcceptError::TooMany { .. } => "sender_limit",
            AcceptError::TooFast { .. } => "connector_limit",
            AcceptError::Unavailable | AcceptError::Machine(_) => "unavailable",
            AcceptError::NotUp => "switchboard_unavailable",
        }
    }

    /// After how many seconds another try makes sense.
    pub fn retry_after(&self) -> Option<u32> {
        match self {
            AcceptError::Invalid(_) | AcceptError::Foreign { .. } | AcceptError::Unproven { .. } => None,
            AcceptError::Full { .. } | AcceptError::ShareFull { .. } => Some(10),
            AcceptError::TooMany { retry_after, .. } | AcceptError::TooFast { retry_after, .. } => Some(*retry_after),
            AcceptError::Unavailable | AcceptError::Machine(_) | AcceptError::NotUp => Some(2),
        }
    }
}

/// `route.v1`: one part of a message, or a question, on its way to the butler that shall deal with it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Route {
    pub schema_version: String,
    pub request_context: RequestContext,
    pub input: RouteInput,
    pub subrequest: Subrequest,
    pub target: RouteTarget,
    pub kind: RouteKind,
    /// Somebody waits for an answer on the channel that it came through.
    #[serde(default)]
    pub interactive: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum RouteKind {
    Message,
    /// Another butler's question.
    Ask,
    /// The answer to a question of this butler's own that came after its session had stopped waiting.
    Answer,
}

base::named!(RouteKind);

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RouteInput {
    pub prompt: String,
    /// Who writes, as [`Sender::shown`] has it; `None`: the request context says all that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conversation_history: Vec<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Value>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Subrequest {
    /// The part's own id: the key of the butler's row.
    pub segment_id: Uuid,
    /// Of a question: the butler that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_by: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RouteTarget {
    pub butler: String,
    pub tool: String,
}

/// What happens to a message, for those who watch. The rows are the truth; who is too slow reads them.
#[derive(Clone, Debug)]
pub struct Live {
    pub request_id: Uuid,
    pub kind: LiveKind,
}

#[derive(Clone, Debug)]
pub enum LiveKind {
    /// A session of this butler works on it.
    Session {
        butler: String,
        session: Uuid,
        segment: Option<Uuid>,
    },
    Routed {
        butler: String,
        segment: Uuid,
    },
    /// It failed for now and is tried again by itself.
    Waiting {
        /// `None`: the switchboard has it.
        butler: Option<String>,
        why: String,
        after: Duration,
    },
    /// Something was answered: look at the replies.
    Replied,
    /// A part, or a question, has come to its end.
    SegmentSettled {
        segment: Uuid,
    },
    Settled,
}

/// Whether an account could be taken.
#[derive(Clone, PartialEq, Debug)]
pub enum Taken {
    /// It is this run's, for [`account_lease`](crate::account_lease).
    Held {
        /// As the last holder left it. `None`: nothing was ever taken in.
        checkpoint: Option<Value>,
    },
    /// Another daemon of the household serves it.
    Elsewhere { instance: String },
}

/// How a connector is, as `connector_list` shows it.
#[derive(Clone, Debug)]
pub struct AccountHealth<'a> {
    /// `healthy`, `degraded` or `error`.
    pub state: &'a str,
    /// What is wrong, for people.
    pub error: Option<&'a str>,
    pub uptime: Duration,
    /// An object of numbers.
    pub counters: &'a Value,
    /// What it can do, by name; `None`: as was said before.
    pub capabilities: &'a Option<Value>,
}

/// How far a message has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// It is committed.
    Seen,
    /// A butler has it.
    Working,
    Done,
    /// It, or a part of it, came to nothing.
    Failed,
}

impl Stage {
    /// Whether nothing more happens.
    pub fn is_last(self) -> bool {
        matches!(self, Stage::Done | Stage::Failed)
    }
}

/// A message of a channel and how far it has come.
#[derive(Clone, PartialEq, Debug)]
pub struct Fate {
    pub request: Uuid,
    pub origin: Origin,
    pub stage: Stage,
}

/// Which message of its channel a request is.
#[derive(Clone, PartialEq, Debug)]
pub struct Origin {
    pub channel: String,
    pub endpoint: String,
    pub thread: Option<String>,
    pub sender: String,
    /// As the channel numbers it.
    pub event: Option<String>,
    /// What its connector kept of it; null for messages of the tier `metadata`.
    pub raw: Value,
}
