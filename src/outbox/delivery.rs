//! A delivery: as it is wanted, and as it is carried out.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use strum::{EnumString, IntoStaticStr};
use uuid::Uuid;

use super::files::OutFile;
use super::recipient::Recipient;
use super::{BUTLERD, MESSENGER};
use base::{Label, Priority, RequestContext, TenantId};
use conversation::Lane;

/// What a delivery is to what came before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, IntoStaticStr, EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum Intent {
    Send,
    Reply,
    React,
}

base::named!(Intent);

impl Intent {
    pub fn from_name(name: &str) -> Self {
        name.parse().unwrap_or(Intent::Send)
    }
}

/// Where a delivery's context says what it asks for.
pub(super) const ASKS: &str = "asks";

/// A decision that a message to the owner asks for. Channels with buttons offer it by them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionRequest {
    /// The call, or what several calls of one message are called together.
    pub id: Uuid,
    #[serde(default)]
    pub proposal: bool,
    /// The hash of what the message shows of it. `None`: not all of it, so that it can only be refused.
    pub seen: Option<String>,
}

store::row! {
    /// One delivery, as a channel is given it.
    #[derive(Clone, Debug)]
    pub struct Delivery {
        pub id: Uuid,
        pub tenant: TenantId = |row| TenantId::new(row.get("tenant_id")).unwrap_or_else(|_| TenantId::owner()),
        pub origin: String,
        pub request_id: Uuid,
        pub kind: String,
        pub intent: Intent = |row| Intent::from_name(row.get("intent")),
        pub channel: String,
        /// The household's own end that an answer goes back through.
        pub endpoint: Option<String>,
        pub target: String,
        pub thread: Option<String>,
        pub subject: Option<String>,
        pub message: Option<String>,
        pub emoji: Option<String>,
        pub priority: Priority = |row| Priority::from_name(row.get("priority")),
        pub context: Value,
        pub created_at: Timestamp,
        /// Whether files go along.
        pub has_files: bool,
        /// These, where it is about to leave.
        pub files: Vec<OutFile> = |_| Vec::new(),
        /// Which try this is, from 1.
        pub attempt: i32 = |row| row.get("attempts"),
    }
}

impl Delivery {
    /// A message that is on no record, for asking a channel what it would make of one.
    pub fn sketch(tenant: &TenantId, channel: &str, target: &str, now: Timestamp) -> Self {
        Self {
            id: Uuid::now_v7(),
            tenant: tenant.clone(),
            origin: MESSENGER.to_owned(),
            request_id: Uuid::now_v7(),
            kind: "message".to_owned(),
            intent: Intent::Send,
            channel: channel.to_owned(),
            endpoint: None,
            target: target.to_owned(),
            thread: None,
            subject: None,
            message: None,
            emoji: None,
            priority: Priority::default(),
            context: json!({}),
            created_at: now,
            has_files: false,
            files: Vec::new(),
            attempt: 0,
        }
    }

    /// The key under which the other side may know a repetition: the same for every try.
    pub fn idempotency_key(&self) -> String {
        self.id.to_string()
    }

    /// What it asks the owner to decide.
    pub fn asks(&self) -> Vec<DecisionRequest> {
        let asks = self.context.get(ASKS).filter(|_| self.origin == BUTLERD).cloned();
        asks.and_then(|asks| serde_json::from_value(asks).ok()).unwrap_or_default()
    }

    /// As `notify.v1` has it. Of the request only what the other side may know: its own, where it is answered.
    pub fn envelope(&self) -> Value {
        let mut delivery = json!({"intent": self.intent.as_str(), "channel": self.channel, "recipient": self.target,
                                  "priority": self.priority.as_str()});
        for (name, value) in [("subject", &self.subject), ("message", &self.message), ("emoji", &self.emoji)] {
            if let Some(value) = value {
                delivery[name] = json!(value);
            }
        }
        if !self.files.is_empty() {
            delivery["files"] = self.files.iter().map(OutFile::written).collect();
        }
        let mut request = json!({"request_id": self.request_id});
        if self.intent != Intent::Send {
            for name in [
                "source_channel",
                "source_endpoint_identity",
                "source_sender_identity",
                "source_thread_identity",
                "received_at",
            ] {
                if let Some(value) = self.context.get(name).filter(|value| !value.is_null()) {
                    request[name] = value.clone();
                }
            }
        }
        json!({"schema_version": "notify.v1", "delivery_id": self.id, "origin_butler": self.origin, "kind": self.kind,
               "created_at": self.created_at.to_string(), "delivery": delivery, "request_context": request})
    }
}

/// A delivery that somebody wants.
#[derive(Clone, Debug)]
pub struct NewDelivery<'a> {
    pub id: Uuid,
    pub recipient: &'a Recipient,
    pub request: &'a RequestContext,
    pub session: Option<Uuid>,
    /// `message` or `reminder`.
    pub kind: &'static str,
    /// It answers `request`, a stored message, through the end that this came to.
    pub answers: bool,
    pub subject: Option<&'a str>,
    pub message: &'a str,
    pub priority: Priority,
    /// Not before this time; and whether the time is why it waits.
    pub due_at: Timestamp,
    pub deferred: Option<&'static str>,
    /// The label of what the message holds and its call was not shown: its row carries it on.
    pub holds: Option<&'a Label>,
    /// What goes along.
    pub files: &'a [OutFile],
}

impl NewDelivery<'_> {
    /// The same request, butler, channel, target and content is the same delivery. Whose it is, the database adds.
    fn key(&self) -> String {
        let reminder = (self.kind == "reminder").then(|| self.due_at.to_string());
        let parts = [
            self.request.request_id.0.to_string(),
            self.kind.to_owned(),
            self.recipient.channel.clone(),
            self.recipient.target.clone(),
            self.subject.unwrap_or_default().to_owned(),
            self.message.to_owned(),
            reminder.unwrap_or_default(),
        ];
        let mut hash = Sha256::new();
        let files = self.files.iter().flat_map(|file| [file.name.as_bytes(), &file.content]);
        for part in parts.iter().map(String::as_bytes).chain(files) {
            hash.update(part.len().to_be_bytes());
            hash.update(part);
        }
        base::text::hex(&hash.finalize())
    }

    /// As `shared.queue_delivery()` takes it.
    pub fn row(&self) -> Value {
        let intent = if self.answers { Intent::Reply } else { Intent::Send };
        let asked = self.answers.then_some(self.request);
        let lane = asked.map(|asked| Lane::of_request(asked).0);
        let endpoint = asked.map(|asked| &asked.source_endpoint_identity);
        json!({"id": self.id, "request_id": self.request.request_id.0, "session_id": self.session,
               "kind": self.kind, "intent": intent.as_str(), "endpoint": endpoint, "conversation": lane,
               "channel": self.recipient.channel, "target": self.recipient.target,
               "thread": self.recipient.thread, "subject": self.subject, "message": self.message,
               "priority": self.priority.as_str(), "idempotency_key": self.key(), "context": self.request,
               "state": if self.deferred.is_some() { "deferred" } else { "pending" }, "reason": self.deferred,
               "due_at": self.due_at.to_string()})
    }
}
