//! What the Bot API says, as far as it is read. Fields that are not here are ignored: new ones come every few weeks.
//!
//! Source: <https://core.telegram.org/bots/api#available-types>, version 10.3.

use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Clone, Debug, Deserialize)]
pub struct Update {
    pub message: Option<Message>,
    pub edited_message: Option<Message>,
    pub callback_query: Option<CallbackQuery>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct User {
    pub id: i64,
    #[serde(default)]
    pub first_name: String,
    pub last_name: Option<String>,
    pub username: Option<String>,
}

impl User {
    /// As they call themselves; no identity.
    pub fn shown(&self) -> String {
        let name = [Some(self.first_name.as_str()), self.last_name.as_deref()];
        let name = name.into_iter().flatten().collect::<Vec<_>>().join(" ");
        match &self.username {
            Some(username) => format!("{name} (@{username})"),
            None => name,
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
pub struct Chat {
    pub id: i64,
    /// `private`, `group`, `supergroup` or `channel`.
    #[serde(rename = "type")]
    pub kind: String,
    pub title: Option<String>,
}

impl Chat {
    pub fn is_private(&self) -> bool {
        self.kind == "private"
    }
}

#[derive(Clone, Debug, Deserialize)]
pub struct Message {
    pub message_id: i64,
    pub message_thread_id: Option<i64>,
    #[serde(default)]
    pub is_topic_message: bool,
    pub from: Option<User>,
    /// Who speaks through an anonymous administrator or a linked channel.
    pub sender_chat: Option<Chat>,
    pub chat: Chat,
    /// Seconds since 1970.
    pub date: i64,
    pub edit_date: Option<i64>,
    pub text: Option<String>,
    pub caption: Option<String>,
    #[serde(default)]
    pub entities: Vec<Entity>,
    #[serde(default)]
    pub caption_entities: Vec<Entity>,
    pub reply_to_message: Option<Box<Message>>,
    /// The part of the other message that the reply quotes.
    pub quote: Option<Quote>,
    /// Who wrote it first.
    pub forward_origin: Option<Value>,
    #[serde(default)]
    pub photo: Vec<File>,
    pub document: Option<File>,
    pub voice: Option<File>,
    pub audio: Option<File>,
    pub video: Option<File>,
    pub video_note: Option<File>,
    pub sticker: Option<File>,
    pub location: Option<Location>,
    pub venue: Option<Venue>,
    pub contact: Option<Contact>,
    /// All else: what happened in the chat, games, payments.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

impl Message {
    /// Somebody else wrote it than its sender: it is passed on, or an inline bot made it.
    pub fn is_others(&self) -> bool {
        self.forward_origin.is_some() || self.more.contains_key("via_bot")
    }

    /// What was written, and the marks in it.
    pub fn words(&self) -> (&str, &[Entity]) {
        match (&self.text, &self.caption) {
            (Some(text), _) => (text, &self.entities),
            (None, Some(caption)) => (caption, &self.caption_entities),
            (None, None) => ("", &[]),
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
pub struct Quote {
    pub text: String,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Entity {
    #[serde(rename = "type")]
    pub kind: String,
    /// In UTF-16 units.
    pub offset: usize,
    pub length: usize,
    pub user: Option<User>,
}

/// A file of any kind.
#[derive(Clone, Debug, Deserialize)]
pub struct File {
    pub file_id: String,
    pub file_unique_id: String,
    pub file_size: Option<u64>,
    pub file_name: Option<String>,
    pub mime_type: Option<String>,
    pub width: Option<u32>,
    pub height: Option<u32>,
    /// Of a sticker.
    pub emoji: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct FileInfo {
    pub file_path: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Location {
    pub latitude: f64,
    pub longitude: f64,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Venue {
    pub location: Location,
    pub title: String,
    pub address: String,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Contact {
    pub phone_number: String,
    pub first_name: String,
    pub last_name: Option<String>,
}

/// A press on a button below a message of the bot's.
#[derive(Clone, Debug, Deserialize)]
pub struct CallbackQuery {
    pub id: String,
    pub from: User,
    pub message: Option<Message>,
    pub data: Option<String>,
}

/// A message that the bot sent.
#[derive(Clone, Debug, Deserialize)]
pub struct Sent {
    pub message_id: i64,
}
