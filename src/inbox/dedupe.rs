//! Under which key a message is known, so that the same one handed in again is found.
//!
//! A key holds whose message it is (channel, endpoint, thread, sender), and whether the channel has proven that. So
//! nobody's message is taken for another one's: who guesses the id of somebody's next message only makes a message of
//! his own.

use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};

use super::types::{Envelope, joined};
use base::text::{hex, plain_identity};

/// Messages without an id of their own are the same if they say the same within this time.
const SAME_WITHIN: SignedDuration = SignedDuration::from_mins(10);
/// Ids that connectors send when they have none.
const NO_IDS: [&str; 6] = ["placeholder", "unknown", "none", "null", "-", "0"];

/// How a message is known.
pub(super) struct Key {
    pub text: String,
    /// `idempotency_key`, `event` or `content`
    pub by: &'static str,
    /// Under which the same message may be on record as well.
    pub also: Option<Also>,
}

/// Another key of the same message.
pub(super) struct Also {
    pub text: String,
    /// It counts for this long.
    within: Option<SignedDuration>,
}

impl Also {
    /// Whether a message of this key that came at `at` is the same as one that comes now.
    pub fn holds(&self, at: Timestamp, now: Timestamp) -> bool {
        self.within.is_none_or(|within| now.duration_since(at) < within)
    }
}

/// Under which key the message is known.
pub(super) fn key(envelope: &Envelope, now: Timestamp) -> Key {
    let source = &envelope.source;
    let proven = envelope.sender.is_authenticated();
    let sender = plain_identity(&envelope.sender.identity);
    let thread = envelope.event.external_thread_id.as_deref();
    let (channel, endpoint) = (Some(source.channel.as_str()), Some(source.endpoint_identity.as_str()));
    let of = |by: &'static str, parts: &[Option<&str>]| match proven {
        true => Key { text: joined(parts), by, also: None },
        // One that was proven before is the same; the other way round an impostor could come first.
        false => {
            let claimed = [&[Some("claimed")], parts].concat();
            Key { text: joined(&claimed), by, also: Some(Also { text: joined(parts), within: None }) }
        }
    };
    if let Some(key) = envelope.control.idempotency_key.as_deref().filter(|k| !k.trim().is_empty()) {
        return of("idempotency_key", &[Some("idem"), channel, endpoint, thread, Some(&sender), Some(key)]);
    }
    let id = envelope.event.external_event_id.as_str();
    if !NO_IDS.contains(&id.to_ascii_lowercase().as_str()) {
        let provider = Some(source.provider.as_str());
        return of("event", &[Some("event"), channel, provider, endpoint, thread, Some(&sender), Some(id)]);
    }
    let mut hash = Sha256::new();
    let proof = if proven { "person" } else { "claimed" };
    let text = Some(envelope.payload.normalized_text.as_str());
    let attachments = envelope.payload.attachments.iter().map(|attachment| attachment.storage_ref.as_deref());
    let parts = [Some(proof), channel, endpoint, thread, Some(&sender), text];
    for part in parts.into_iter().chain(attachments) {
        let part = part.unwrap_or_default();
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    let hash = hex(&hash.finalize());
    let slot = now.as_second().div_euclid(SAME_WITHIN.as_secs());
    let text = |slot: i64| format!("content:{hash}:{slot}");
    let before = Also { text: text(slot - 1), within: Some(SAME_WITHIN) };
    Key { text: text(slot), by: "content", also: Some(before) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn envelope(event: &str, given: Option<&str>, more: Value) -> Envelope {
        let mut value = json!({"schema_version": "ingest.v1",
            "source": {"channel": "email", "provider": "imap", "endpoint_identity": "home"},
            "event": {"external_event_id": event, "observed_at": "2026-11-01T08:00:00Z"},
            "sender": {"identity": "a@b", "authenticated": {"result": "pass", "method": "dmarc"}},
            "payload": {"normalized_text": "hello"}, "control": {"idempotency_key": given}});
        for (path, new) in more.as_object().into_iter().flatten() {
            *value.pointer_mut(path).unwrap_or_else(|| panic!("no {path}")) = new.clone();
        }
        serde_json::from_value(value).unwrap()
    }

    fn now() -> Timestamp {
        "2026-11-01T08:05:00Z".parse().unwrap()
    }

    #[test]
    fn a_message_is_known_by_its_key_else_its_id_else_its_content() {
        let of = |event, given| key(&envelope(event, given, json!({})), now());
        assert_eq!(of("7", Some("k")).text, "4:idem5:email4:home-3:a@b1:k");
        assert_eq!(of("7", None).text, "5:event5:email4:imap4:home-3:a@b1:7");
        for none in ["unknown", "None", "placeholder"] {
            let key = of(none, Some(" "));
            assert!(key.by == "content" && key.text.starts_with("content:"), "{}", key.text);
            let later = super::key(&envelope(none, None, json!({})), now() + SAME_WITHIN).also.unwrap();
            assert_eq!(later.text, key.text, "the slot before");
            assert!(later.holds(now(), now()) && !later.holds(now(), now() + SAME_WITHIN));
        }
    }

    #[test]
    fn nobody_takes_the_key_of_somebody_elses_message() {
        for (event, given) in [("7", None), ("7", Some("k")), ("unknown", None)] {
            let own = key(&envelope(event, given, json!({})), now()).text;
            for other in [
                json!({"/sender/identity": "eve@b"}),
                json!({"/source/endpoint_identity": "office"}),
                json!({"/sender/authenticated/result": "none"}),
                json!({"/sender/authenticated/result": "fail"}),
                json!({"/source/channel": "telegram"}),
            ] {
                assert_ne!(key(&envelope(event, given, other.clone()), now()).text, own, "{other}");
            }
            assert_eq!(key(&envelope(event, given, json!({"/sender/identity": "A <A@B>"})), now()).text, own);
        }
        let mut threaded = envelope("7", None, json!({}));
        threaded.event.external_thread_id = Some("3:a@b1:7".to_owned());
        assert_ne!(key(&threaded, now()).text, key(&envelope("7", None, json!({})), now()).text);
        // What was proven before is known again where nobody proves it.
        let claimed = key(&envelope("7", None, json!({"/sender/authenticated/result": "none"})), now());
        assert_eq!(claimed.also.unwrap().text, key(&envelope("7", None, json!({})), now()).text);
    }
}
