//! `ingest.v1`: its schema, its limits, and what is kept of it.

use std::sync::{Arc, OnceLock};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value, json};

use super::types::{AcceptError, Attachment, Envelope, IngestionTier, Sender};
use base::text;
use tools::{Definition, Effect, Meta};

/// The longest text of a message, in bytes: with its history it must fit into a prompt.
pub const MAX_TEXT: usize = 128 * 1024;
/// The largest raw payload that is kept, in bytes of JSON.
const MAX_RAW: usize = 256 * 1024;
const MAX_ATTACHMENTS: usize = 50;
/// Channels of the house itself: nobody from outside speaks through them.
const RESERVED: [&str; 6] = ["chat", "cli", "mcp", "schedule", "system", "butler"];

/// Whether messages from outside come through a channel of this name.
pub fn is_channel(name: &str) -> bool {
    let rest = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.len() <= 31
        && name.bytes().all(rest)
        && !RESERVED.contains(&name)
}

/// The tool `ingest`, whose schema is that of every way in.
pub fn definition() -> &'static Arc<Definition> {
    static DEFINITION: OnceLock<Arc<Definition>> = OnceLock::new();
    DEFINITION.get_or_init(|| {
        let meta = Meta { reads_untrusted: true, sensitive: vec!["payload".into()], ..Meta::write(Effect::Idempotent) };
        let description = "Hand in one message from outside (ingest.v1). It is accepted once it is stored; the same \
                           message handed in again gets the first request_id.";
        Arc::new(Definition::new("ingest", description, schema(), meta).expect("a schema in the source is right"))
    })
}

fn schema() -> Value {
    let id =
        |description: &str| json!({"type": "string", "minLength": 1, "maxLength": 1000, "description": description});
    let optional =
        |description: &str| json!({"type": ["string", "null"], "maxLength": 1000, "description": description});
    let attachment = json!({"type": "object", "additionalProperties": false, "required": ["media_type", "size_bytes"],
        "properties": {
            "media_type": {"type": "string", "pattern": "^[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+$"},
            "storage_ref": {"type": "string", "pattern": "^blob:sha256:[0-9a-f]{64}$"},
            "content_base64": {"type": "string", "description": "The content, to be stored"},
            "size_bytes": {"type": "integer", "minimum": 0},
            "filename": {"type": "string", "maxLength": 500},
            "width": {"type": "integer", "minimum": 0}, "height": {"type": "integer", "minimum": 0},
            "source_message_id": id("As the channel names it"), "source_attachment_id": id("As the channel names it"),
            "by_others": {"type": "boolean", "description": "Somebody else made it than the sender, who passes it on"}}});
    json!({"type": "object", "additionalProperties": false,
        "required": ["schema_version", "source", "event", "sender", "payload"],
        "properties": {
            "schema_version": {"type": "string", "enum": ["ingest.v1"]},
            "source": {"type": "object", "additionalProperties": false,
                "required": ["channel", "provider", "endpoint_identity"],
                "properties": {
                    "channel": {"type": "string", "pattern": "^[a-z][a-z0-9_]{0,30}$", "description": "telegram, email, …"},
                    "provider": {"type": "string", "pattern": "^[a-z][a-z0-9_-]{0,30}$", "description": "gmail, imap, …"},
                    "endpoint_identity": id("The household's own end: a bot, a mailbox")}},
            "event": {"type": "object", "additionalProperties": false, "required": ["external_event_id", "observed_at"],
                "properties": {
                    "external_event_id": id("As the channel numbers the message"),
                    "external_thread_id": optional("The conversation that it belongs to"),
                    "observed_at": {"type": "string", "format": "date-time", "description": "With an offset"}}},
            "sender": {"type": "object", "required": ["identity"],
                "properties": {
                    "identity": id("Who writes, as the channel knows them"),
                    "authenticated": {"type": ["object", "null"], "additionalProperties": false,
                        "required": ["result", "method"],
                        "description": "Whether the channel has proven that the identity is the sender's. Only `pass` \
                                        makes the owner or a contact of the sender; absent: nobody looked",
                        "properties": {
                            "result": {"enum": ["pass", "fail", "none"]},
                            "method": {"type": "string", "minLength": 1, "maxLength": 100,
                                       "description": "How: dmarc, platform, …"}}},
                    "display_name": optional("How they call themselves; no identity"),
                    "participants": {"type": ["object", "null"]},
                    "owner_sender_id": optional("The owner's own identity in this chat"),
                    "participant_count": {"type": ["integer", "null"], "minimum": 0},
                    "chat_type": {"enum": [null, "private", "group", "supergroup", "channel", "community"]}},
                "additionalProperties": false},
            "payload": {"type": "object", "additionalProperties": false, "required": ["normalized_text"],
                "properties": {
                    "raw": {"type": ["object", "null"], "description": "The message as the channel has it; null for tier metadata"},
                    "normalized_text": {"type": "string", "minLength": 1, "description": "The text to act on"},
                    "attachments": {"type": "array", "maxItems": MAX_ATTACHMENTS, "items": attachment}}},
            "control": {"type": "object", "additionalProperties": false, "properties": {
                "idempotency_key": optional("The same key is the same message"),
                "trace_context": {"type": ["object", "null"]},
                "policy_tier": {"enum": ["default", "interactive", "high_priority"]},
                "ingestion_tier": {"enum": ["full", "metadata"]},
                "pinned_target": optional("The butler that it is for, whatever it says")}}}})
}

/// Reads an envelope that came from outside. The error names each field that is wrong.
pub fn read(value: Map<String, Value>) -> Result<Envelope, AcceptError> {
    let mut value = value;
    definition().validate(&mut value).map_err(|e| AcceptError::Invalid(e.to_string()))?;
    let mut envelope: Envelope =
        serde_json::from_value(Value::Object(value)).map_err(|e| AcceptError::Invalid(e.to_string()))?;
    if RESERVED.contains(&envelope.source.channel.as_str()) {
        let channel = &envelope.source.channel;
        return Err(AcceptError::Invalid(format!("source.channel: `{channel}` is the house's own")));
    }
    tidy(&mut envelope)?;
    Ok(envelope)
}

/// Cleans an envelope and holds it to its limits.
pub fn tidy(envelope: &mut Envelope) -> Result<(), AcceptError> {
    let wrong = |field: &str, why: &str| Err(AcceptError::Invalid(format!("{field}: {why}")));
    let payload = &mut envelope.payload;
    payload.normalized_text = text::clean(&payload.normalized_text);
    if payload.normalized_text.trim().is_empty() {
        return wrong("payload.normalized_text", "it holds no text");
    }
    if payload.normalized_text.len() > MAX_TEXT {
        let why = format!("{} bytes; at most {MAX_TEXT} are taken", payload.normalized_text.len());
        return wrong("payload.normalized_text", &why);
    }
    match (&payload.raw, envelope.control.ingestion_tier) {
        (Some(_), IngestionTier::Metadata) => {
            return wrong("payload.raw", "it must be null where control.ingestion_tier is metadata");
        }
        (Some(raw), _) if text::json_length(raw) > MAX_RAW => {
            return wrong("payload.raw", &format!("more than {MAX_RAW} bytes of JSON"));
        }
        _ => {}
    }
    let ids =
        [&mut envelope.source.endpoint_identity, &mut envelope.event.external_event_id, &mut envelope.sender.identity];
    for (id, field) in ids.into_iter().zip(["source.endpoint_identity", "event.external_event_id", "sender.identity"]) {
        *id = id.chars().filter(|c| !c.is_control()).collect::<String>().trim().to_owned();
        if id.is_empty() {
            return wrong(field, "it holds no text");
        }
    }
    part_from_name(&mut envelope.sender);
    if let Some(thread) = &mut envelope.event.external_thread_id {
        *thread = thread.chars().filter(|c| !c.is_control()).collect();
    }
    envelope.event.external_thread_id = envelope.event.external_thread_id.take().filter(|t| !t.trim().is_empty());
    Ok(())
}

/// `Name <address>` as the address, and the name as what the sender calls himself: it must not pass for an identity.
fn part_from_name(sender: &mut Sender) {
    let Some((name, rest)) = sender.identity.rsplit_once('<') else { return };
    let Some(address) = rest.strip_suffix('>').map(str::trim).filter(|address| !address.is_empty()) else { return };
    let (name, address) = (name.trim().to_owned(), address.to_owned());
    let named = sender.more.get("display_name").and_then(Value::as_str).is_some_and(|name| !name.trim().is_empty());
    if !named && !name.is_empty() {
        sender.more.insert("display_name".to_owned(), json!(name));
    }
    sender.identity = address;
}

/// The content of an attachment that came along; `None` where it is stored already or was not sent.
pub fn content(attachment: &Attachment, at: usize) -> Result<Option<Vec<u8>>, AcceptError> {
    let Some(encoded) = &attachment.content_base64 else { return Ok(None) };
    let wrong = |why: String| AcceptError::Invalid(format!("payload.attachments.{at}.content_base64: {why}"));
    let bytes = BASE64.decode(encoded).map_err(|e| wrong(e.to_string()))?;
    if bytes.len() as u64 != attachment.size_bytes {
        return Err(wrong(format!("{} bytes, and size_bytes says {}", bytes.len(), attachment.size_bytes)));
    }
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Value {
        json!({"schema_version": "ingest.v1",
               "source": {"channel": "telegram", "provider": "telegram", "endpoint_identity": "bot:home"},
               "event": {"external_event_id": "1", "observed_at": "2026-11-01T08:00:00+01:00"},
               "sender": {"identity": "42"},
               "payload": {"raw": {}, "normalized_text": "hello"}})
    }

    fn reading(value: Value) -> Result<Envelope, AcceptError> {
        read(value.as_object().cloned().unwrap())
    }

    #[test]
    fn a_bad_envelope_is_told_each_of_its_fields() {
        assert!(reading(good()).is_ok());
        let mut bad = good();
        bad["source"]["channel"] = json!("Tele gram");
        bad["event"]["observed_at"] = json!("yesterday");
        bad["sender"] = json!({});
        bad["payload"]["normalized_text"] = json!("");
        let said = reading(bad).unwrap_err().to_string();
        for field in ["source.channel", "event.observed_at", "sender", "payload.normalized_text"] {
            assert!(said.contains(field), "{field}: {said}");
        }
    }

    #[test]
    fn what_a_terminal_would_obey_goes_and_what_is_left_must_be_text() {
        let mut value = good();
        value["payload"]["normalized_text"] = json!("a\u{0}\u{1b}[2Jb\n");
        value["sender"]["identity"] = json!("4\u{7}2");
        let envelope = reading(value).unwrap();
        assert_eq!((envelope.payload.normalized_text.as_str(), envelope.sender.identity.as_str()), ("a[2Jb\n", "42"));
        for (path, empty) in [("/payload/normalized_text", "\u{0} "), ("/event/external_event_id", "\u{1}")] {
            let mut value = good();
            *value.pointer_mut(path).unwrap() = json!(empty);
            let said = reading(value).unwrap_err().to_string();
            assert!(said.contains("no text"), "{said}");
        }
    }

    #[test]
    fn a_display_name_never_passes_for_an_identity() {
        let sender = |identity: &str| {
            let mut value = good();
            value["sender"]["identity"] = json!(identity);
            reading(value).unwrap().sender
        };
        let mallory = sender("ada@example.org <mallory@evil.example>");
        assert_eq!(mallory.identity, "mallory@evil.example");
        let shown = mallory.shown();
        assert_eq!(shown["calls_himself"], "ada@example.org");
        assert_eq!(shown["note"], "claims to be mallory@evil.example, not authenticated");
        assert_eq!((sender("a<b").identity.as_str(), sender("<>").identity.as_str()), ("a<b", "<>"));
        let mut value = good();
        value["sender"]["authenticated"] = json!({"result": "pass", "method": "platform"});
        let proven = reading(value).unwrap().sender;
        assert!(proven.is_authenticated() && proven.shown().get("note").is_none());
    }

    #[test]
    fn more_than_two_are_a_group() {
        let group = |more: Value| {
            let mut value = good();
            value["sender"].as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
            reading(value).unwrap().sender.is_group()
        };
        assert!(!group(json!({})) && !group(json!({"chat_type": "private", "participant_count": 2})));
        assert!(group(json!({"chat_type": "supergroup"})) && group(json!({"participant_count": 3})));
    }

    #[test]
    fn the_house_s_own_channels_and_raw_metadata_are_refused() {
        let mut value = good();
        value["source"]["channel"] = json!("chat");
        assert!(reading(value).unwrap_err().to_string().contains("the house's own"));
        let mut value = good();
        value["control"] = json!({"ingestion_tier": "metadata"});
        assert!(reading(value).unwrap_err().to_string().contains("payload.raw"));
    }
}
