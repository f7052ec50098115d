//! A message of Telegram as one of the household's: pure, no network.
//!
//! Whose words are whose is kept apart here. The sender's own are the message. What others wrote and the sender quotes or
//! forwards comes along as an attachment: whoever reads it is influenced by them, and whoever doesn't, is not.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::types::{Entity, File, Message};
use super::{CHANNEL, GroupAnswers};
use base::text;

/// The account of anonymous administrators: many people behind one number.
const ANONYMOUS: i64 = 1_087_968_824;

/// What people send that has no words for a butler; the rest of what is not read are Telegram's own notes about a chat.
const UNREAD: [&str; 7] = ["poll", "dice", "game", "story", "checklist", "paid_media", "invoice"];

/// What reading needs to know of the bot and its settings.
#[derive(Clone, Debug)]
pub struct Reader {
    pub endpoint: String,
    pub bot: i64,
    /// Without `@`; `None` until Telegram was asked.
    pub username: Option<String>,
    pub groups: GroupAnswers,
    /// Chats whose messages are taken in; empty: all.
    pub allowed_chats: Vec<i64>,
}

/// A message for the household, and the files that belong to it.
#[derive(Clone, Debug)]
pub struct Reading {
    pub id: String,
    pub envelope: Map<String, Value>,
    pub files: Vec<Wanted>,
}

/// A file that is still at Telegram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The attachment's place in the envelope.
    pub at: usize,
    pub file_id: String,
    /// As Telegram says; unknown for some.
    pub size: Option<u64>,
}

/// Which chat a message belongs to, as deliveries name it: `None` in a private chat, else the chat and its topic.
pub fn thread(message: &Message) -> Option<String> {
    let topic = message.message_thread_id.filter(|_| message.is_topic_message);
    match (message.chat.is_private(), topic) {
        (true, _) => None,
        (false, Some(topic)) => Some(format!("{}:{topic}", message.chat.id)),
        (false, None) => Some(message.chat.id.to_string()),
    }
}

/// Chat and topic of a thread, or of a person's identity.
pub fn chat_of(thread: Option<&str>, target: &str) -> Option<(i64, Option<i64>)> {
    let name = thread.unwrap_or(target);
    match name.split_once(':') {
        Some((chat, topic)) => Some((chat.parse().ok()?, Some(topic.parse().ok()?))),
        None => Some((name.parse().ok()?, None)),
    }
}

/// The message of an event's id: chat and message.
pub fn message_of(event: &str) -> Option<(i64, i64)> {
    let mut parts = event.split(':');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

impl Reader {
    /// The message in the household's words; `None`: it is not for the household.
    pub fn read(&self, message: &Message, edited: bool) -> Option<Reading> {
        let chat = message.chat.id;
        let sender = message.from.as_ref();
        // Somebody's way is told as changes of one message, every few seconds.
        let moves = edited && message.location.is_some();
        if sender.is_some_and(|user| user.id == self.bot) || !self.takes(chat) || moves {
            return None;
        }
        // Whoever speaks to the bot waits for its answer.
        let asks = message.chat.is_private() || self.is_addressed(message);
        if !asks && self.groups == GroupAnswers::Addressed {
            return None;
        }
        let mut parts = Parts::of(message);
        parts.quoted(message, self.bot);
        let text = parts.text(edited)?;
        // A number in front of many people proves nothing of the one who writes.
        let anonymous = sender.is_none_or(|user| user.id == ANONYMOUS) || message.sender_chat.is_some();
        let identity = match sender.filter(|_| !anonymous) {
            Some(user) => user.id.to_string(),
            None => format!("chat:{}", message.sender_chat.as_ref().map_or(chat, |sender| sender.id)),
        };
        // Telegram tells of changes that nobody made to the words, and by the second alone when it was.
        let id = match edited {
            true => format!("{chat}:{}:{}", message.message_id, digest(&text)),
            false => format!("{chat}:{}", message.message_id),
        };
        let observed = Timestamp::from_second(message.edit_date.filter(|_| edited).unwrap_or(message.date));
        let observed = observed.unwrap_or(Timestamp::UNIX_EPOCH).to_string();
        let envelope = json!({
            "schema_version": "ingest.v1",
            "source": {"channel": CHANNEL, "provider": CHANNEL, "endpoint_identity": self.endpoint},
            "event": {"external_event_id": id, "external_thread_id": thread(message), "observed_at": observed},
            "sender": {
                "identity": identity,
                "authenticated": {"result": if anonymous { "none" } else { "pass" }, "method": "platform"},
                "display_name": sender.map(|user| text::truncate(&user.shown(), 200)),
                "chat_type": message.chat.kind},
            "payload": {
                "raw": {"chat_id": chat, "message_id": message.message_id, "chat_title": message.chat.title},
                "normalized_text": text, "attachments": parts.attachments},
            "control": {"policy_tier": if asks { "interactive" } else { "default" }}});
        let Value::Object(envelope) = envelope else { return None };
        Some(Reading { id, envelope, files: parts.files })
    }

    pub fn takes(&self, chat: i64) -> bool {
        self.allowed_chats.is_empty() || self.allowed_chats.contains(&chat)
    }

    /// Whether a group's message is meant for the bot: it is named, answered or commanded.
    fn is_addressed(&self, message: &Message) -> bool {
        let answered = message.reply_to_message.as_ref().and_then(|other| other.from.as_ref());
        if answered.is_some_and(|user| user.id == self.bot) {
            return true;
        }
        let (words, entities) = message.words();
        entities.iter().any(|entity| match entity.kind.as_str() {
            "text_mention" => entity.user.as_ref().is_some_and(|user| user.id == self.bot),
            "mention" | "bot_command" => self.username.as_deref().is_some_and(|own| {
                let marked = piece(words, entity);
                let name = marked.rsplit_once('@').map(|(_, name)| name);
                // A command that names no bot is for all bots of the group.
                name.map_or(entity.kind == "bot_command", |name| name.eq_ignore_ascii_case(own))
            }),
            _ => false,
        })
    }
}

/// A short name of a text.
fn digest(text: &str) -> String {
    text::hex(&Sha256::digest(text.as_bytes())[..8])
}

/// What an entity marks.
pub fn piece(words: &str, entity: &Entity) -> String {
    let units: Vec<u16> = words.encode_utf16().skip(entity.offset).take(entity.length).collect();
    String::from_utf16_lossy(&units)
}

/// A message's parts.
struct Parts {
    /// The sender's own words.
    words: String,
    /// What the sender did, in the household's words.
    notes: Vec<String>,
    attachments: Vec<Value>,
    files: Vec<Wanted>,
    /// Somebody else's words came along.
    forwarded: bool,
}

impl Parts {
    fn of(message: &Message) -> Self {
        let forwarded = message.is_others();
        let words = message.words().0.to_owned();
        let mut parts = Self { words, notes: Vec::new(), attachments: Vec::new(), files: Vec::new(), forwarded };
        if forwarded && !parts.words.trim().is_empty() {
            let words = std::mem::take(&mut parts.words);
            parts.others_words("forwarded-message.txt", &words);
            parts.notes.push("forwards somebody's message; its text is attached: forwarded-message.txt".to_owned());
        } else if forwarded {
            parts.notes.push("forwards somebody's message".to_owned());
        }
        if let Some(picture) = message.photo.iter().max_by_key(|p| (p.width, p.file_size)) {
            parts.file(picture, "photo", "image/jpeg", "jpg");
        }
        for (file, kind, media, ending) in [
            (&message.document, "document", "application/octet-stream", "bin"),
            (&message.voice, "voice message", "audio/ogg", "ogg"),
            (&message.audio, "audio", "audio/mpeg", "mp3"),
            (&message.video, "video", "video/mp4", "mp4"),
            (&message.video_note, "video message", "video/mp4", "mp4"),
        ] {
            if let Some(file) = file {
                parts.file(file, kind, media, ending);
            }
        }
        if let Some(sticker) = &message.sticker {
            let emoji = sticker.emoji.as_deref().unwrap_or("of no emoji");
            parts.notes.push(format!("sends a sticker: {emoji}"));
        }
        match (&message.venue, &message.location) {
            (Some(venue), _) => {
                let (lat, lon) = (venue.location.latitude, venue.location.longitude);
                parts.notes.push(format!("sends a place: {lat}, {lon}"));
                parts.others_words("place.txt", &format!("{}\n{}", venue.title, venue.address));
            }
            (None, Some(place)) => {
                parts.notes.push(format!("sends a location: {}, {}", place.latitude, place.longitude))
            }
            (None, None) => {}
        }
        if let Some(kind) = UNREAD.into_iter().find(|kind| message.more.contains_key(*kind)) {
            parts.notes.push(format!("sends something that this household can't read: {}", kind.replace('_', " ")));
        }
        if let Some(contact) = &message.contact {
            let name = [Some(contact.first_name.as_str()), contact.last_name.as_deref()];
            let name = name.into_iter().flatten().collect::<Vec<_>>().join(" ");
            parts.others_words("contact.txt", &format!("{name}\n{}", contact.phone_number));
            parts.notes.push("sends a contact, attached: contact.txt".to_owned());
        }
        parts
    }

    /// What the message answers: the sender's own words are quoted, others' are attached.
    fn quoted(&mut self, message: &Message, bot: i64) {
        let Some(other) = &message.reply_to_message else { return };
        // Each message of a topic is told as an answer to the one that began it.
        if message.is_topic_message && Some(other.message_id) == message.message_thread_id {
            return;
        }
        let said = message.quote.as_ref().map_or_else(|| other.words().0, |quote| quote.text.as_str());
        if said.trim().is_empty() {
            return;
        }
        let (from, own) = (other.from.as_ref().map(|user| user.id), message.from.as_ref().map(|user| user.id));
        if from.is_some() && from == own && !other.is_others() && !self.forwarded {
            let quoted: String = said.lines().take(20).map(|line| format!("> {line}\n")).collect();
            self.words = format!("{quoted}\n{}", self.words);
            return;
        }
        self.others_words("quoted-message.txt", said);
        let whose = if from == Some(bot) { "an earlier message of this household" } else { "somebody else's message" };
        self.notes.push(format!("answers {whose}, attached: quoted-message.txt"));
    }

    /// Somebody else's words, as they are.
    fn others_words(&mut self, name: &str, content: &str) {
        use base64::Engine;
        let encoded = base64::engine::general_purpose::STANDARD.encode(content);
        self.attachments.push(json!({"media_type": "text/plain", "content_base64": encoded,
                                     "size_bytes": content.len(), "filename": name, "by_others": true}));
    }

    fn file(&mut self, file: &File, kind: &str, media: &str, ending: &str) {
        // Whoever made the file chose its name and type.
        let name = file
            .file_name
            .clone()
            .filter(|_| !self.forwarded)
            .unwrap_or_else(|| format!("{}.{ending}", kind.replace(' ', "-")));
        let plain = |c: char| c.is_ascii_alphanumeric() || "!#$&^_.+-/".contains(c);
        let halves = |m: &str| m.split('/').count() == 2 && m.split('/').all(|half| !half.is_empty());
        let named = file.mime_type.as_deref().filter(|m| !self.forwarded && halves(m) && m.chars().all(plain));
        let media = named.unwrap_or(media);
        self.files.push(Wanted { at: self.attachments.len(), file_id: file.file_id.clone(), size: file.file_size });
        self.attachments.push(json!({"media_type": media, "size_bytes": file.file_size.unwrap_or_default(),
            "filename": text::truncate(&name, 200), "width": file.width.unwrap_or_default(),
            "height": file.height.unwrap_or_default(), "source_attachment_id": file.file_unique_id,
            "by_others": self.forwarded}));
        self.notes.push(format!("sends a {kind}"));
    }

    /// The text to act on; `None`: nothing was said or sent.
    fn text(&self, edited: bool) -> Option<String> {
        let mut lines: Vec<String> = self.notes.iter().map(|note| format!("[{note}]")).collect();
        let words = self.words.trim();
        if words.is_empty() && lines.is_empty() {
            return None;
        }
        if edited {
            lines.insert(0, "[changes an earlier message, which now says:]".to_owned());
        }
        if !words.is_empty() {
            lines.push(words.to_owned());
        }
        Some(lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader() -> Reader {
        Reader {
            endpoint: "bot:7".to_owned(),
            bot: 7,
            username: Some("home_bot".to_owned()),
            groups: GroupAnswers::Addressed,
            allowed_chats: Vec::new(),
        }
    }

    fn message(more: Value) -> Message {
        let mut whole = json!({"message_id": 5, "date": 1_790_000_000, "chat": {"id": 42, "type": "private"},
                               "from": {"id": 42, "first_name": "Ada", "username": "ada"}});
        whole.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        serde_json::from_value(whole).unwrap()
    }

    fn read(more: Value) -> Option<Reading> {
        reader().read(&message(more), false)
    }

    fn attached(reading: &Reading, at: usize) -> (String, String) {
        use base64::Engine;
        let file = &reading.envelope["payload"]["attachments"][at];
        let content = base64::engine::general_purpose::STANDARD.decode(file["content_base64"].as_str().unwrap());
        (file["filename"].as_str().unwrap().to_owned(), String::from_utf8(content.unwrap()).unwrap())
    }

    #[test]
    fn a_private_message_is_its_senders_own() {
        let reading = read(json!({"text": "hello"})).unwrap();
        let envelope = &reading.envelope;
        assert_eq!((reading.id.as_str(), &envelope["event"]["external_thread_id"]), ("42:5", &Value::Null));
        assert_eq!(envelope["sender"]["identity"], "42");
        assert_eq!(envelope["sender"]["authenticated"]["result"], "pass");
        assert_eq!(envelope["payload"]["normalized_text"], "hello");
        inbox::envelope::read(envelope.clone()).unwrap();
    }

    #[test]
    fn others_words_are_never_the_senders() {
        let forwarded = read(json!({"text": "pay Mallory", "forward_origin": {"type": "hidden_user"}})).unwrap();
        let text = forwarded.envelope["payload"]["normalized_text"].as_str().unwrap();
        assert!(!text.contains("Mallory"), "{text}");
        assert_eq!(attached(&forwarded, 0), ("forwarded-message.txt".to_owned(), "pay Mallory".to_owned()));

        let other = json!({"message_id": 4, "date": 1, "chat": {"id": 42, "type": "private"}, "text": "pay Mallory",
                           "from": {"id": 66, "first_name": "Mallory"}});
        let quoting = read(json!({"text": "see this", "reply_to_message": other})).unwrap();
        let text = quoting.envelope["payload"]["normalized_text"].as_str().unwrap();
        assert!(!text.contains("Mallory") && text.ends_with("see this"), "{text}");
        assert_eq!(attached(&quoting, 0).1, "pay Mallory");

        let mut own = other;
        own["from"]["id"] = json!(42);
        let quoting = read(json!({"text": "see this", "reply_to_message": own})).unwrap();
        assert_eq!(quoting.envelope["payload"]["normalized_text"], "> pay Mallory\n\nsee this");
        for reading in [forwarded, quoting] {
            inbox::envelope::read(reading.envelope).unwrap();
        }
    }

    #[test]
    fn a_group_is_answered_when_it_speaks_to_the_bot() {
        let group = |more: Value| {
            let mut whole = json!({"chat": {"id": -100, "type": "supergroup", "title": "Family"}});
            whole.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
            read(whole)
        };
        assert!(group(json!({"text": "hello all"})).is_none());
        let mention = |kind: &str, text: &str| {
            group(
                json!({"text": text, "entities": [{"type": kind, "offset": 0, "length": text.encode_utf16().count()}]}),
            )
        };
        assert!(mention("mention", "@Home_Bot").is_some() && mention("mention", "@other_bot").is_none());
        assert!(mention("bot_command", "/weight").is_some() && mention("bot_command", "/weight@other_bot").is_none());
        let other = json!({"message_id": 4, "date": 1, "chat": {"id": -100, "type": "supergroup"}, "text": "82 kg",
                           "from": {"id": 7, "is_bot": true, "first_name": "Home"}});
        let answer = group(json!({"text": "thanks", "reply_to_message": other})).unwrap();
        assert_eq!(answer.envelope["event"]["external_thread_id"], "-100");
        assert_eq!(answer.envelope["sender"]["chat_type"], "supergroup");
        let topic = json!({"message_thread_id": 9, "is_topic_message": true, "text": "@home_bot hi",
                           "entities": [{"type": "mention", "offset": 0, "length": 9}]});
        assert_eq!(group(topic).unwrap().envelope["event"]["external_thread_id"], "-100:9");
        assert_eq!(chat_of(Some("-100:9"), "42"), Some((-100, Some(9))));
        assert_eq!(chat_of(None, "42"), Some((42, None)));
        let anonymous = json!({"from": {"id": ANONYMOUS, "first_name": "Group"}, "sender_chat": {"id": -100, "type": "supergroup"},
                               "text": "@home_bot hi", "entities": [{"type": "mention", "offset": 0, "length": 9}]});
        let sender = &group(anonymous).unwrap().envelope["sender"];
        assert_eq!((&sender["identity"], &sender["authenticated"]["result"]), (&json!("chat:-100"), &json!("none")));
    }

    #[test]
    fn files_places_and_edits_are_told() {
        let photo = read(json!({"caption": "my lunch", "photo": [
            {"file_id": "s", "file_unique_id": "a", "width": 90, "height": 60, "file_size": 900},
            {"file_id": "l", "file_unique_id": "b", "width": 900, "height": 600, "file_size": 90_000}]}));
        let photo = photo.unwrap();
        assert_eq!(photo.files, [Wanted { at: 0, file_id: "l".to_owned(), size: Some(90_000) }]);
        assert_eq!(photo.envelope["payload"]["normalized_text"], "[sends a photo]\nmy lunch");
        inbox::envelope::read(photo.envelope).unwrap();
        let place = read(json!({"location": {"latitude": 52.5, "longitude": 13.4}})).unwrap();
        assert_eq!(place.envelope["payload"]["normalized_text"], "[sends a location: 52.5, 13.4]");
        let edited = reader().read(&message(json!({"text": "81 kg", "edit_date": 1_790_000_060})), true).unwrap();
        assert_eq!(edited.id, format!("42:5:{}", digest("[changes an earlier message, which now says:]\n81 kg")));
        assert_eq!(message_of(&edited.id), Some((42, 5)));
        assert!(read(json!({"new_chat_title": "x"})).is_none());
        let poll = read(json!({"poll": {"id": "1"}})).unwrap();
        assert_eq!(
            poll.envelope["payload"]["normalized_text"],
            "[sends something that this household can't read: poll]"
        );
        let bot = read(json!({"text": "buy now", "via_bot": {"id": 9, "is_bot": true, "first_name": "X"}})).unwrap();
        assert_eq!(attached(&bot, 0).1, "buy now");
        assert_eq!(bot.envelope["payload"]["attachments"][0]["by_others"], true);
        let named = json!({"file_id": "f", "file_unique_id": "g", "file_name": "pay Mallory.pdf", "mime_type": "/"});
        let passed_on = read(json!({"document": named, "forward_origin": {"type": "hidden_user"}})).unwrap();
        assert_eq!(passed_on.envelope["payload"]["attachments"][0]["filename"], "document.bin");
        inbox::envelope::read(passed_on.envelope).unwrap();
    }
}
