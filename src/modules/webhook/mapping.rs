//! What a body says, by pointers into it (RFC 6901).

use std::collections::BTreeMap;

use http::HeaderMap;
use http::header::HeaderName;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::NAME;
use base::text;
use jiff::Timestamp;

/// The most of a text that is taken in, in bytes.
const LONGEST_TEXT: usize = 100 * 1024;
/// The most of a name of somebody, in bytes.
const LONGEST_NAME: usize = 200;
/// The most of an id, in bytes; of a longer one its hash counts.
const LONGEST_ID: usize = 500;

/// What a pointer must be, for people.
pub(super) const POINTER: &str = "a JSON pointer such as \"/issue/title\"";

/// A place in a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pointer(String);

impl Pointer {
    /// `None`: it is no pointer of RFC 6901, or it points to the body as a whole.
    pub fn parse(text: &str) -> Option<Self> {
        let escapes = text.split('~').skip(1).all(|after| after.starts_with(['0', '1']));
        (text.starts_with('/') && escapes).then(|| Self(text.to_owned()))
    }

    /// What stands there: a text as it is, anything else as compact JSON. `None`: nothing, or null.
    pub fn of(&self, body: &Value) -> Option<String> {
        match body.pointer(&self.0)? {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }
}

/// A text with places in braces, such as `{/repository/full_name}: {/head_commit/message}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Words(String),
    Place(Pointer),
}

impl Template {
    /// `None`: a place has no end, or is no pointer. A brace without a slash behind it is a brace.
    pub fn parse(text: &str) -> Option<Self> {
        let (mut pieces, mut rest) = (Vec::new(), text);
        while let Some(at) = rest.find("{/") {
            let (words, place) = rest.split_at(at);
            let (pointer, after) = place[1..].split_once('}')?;
            pieces.extend((!words.is_empty()).then(|| Piece::Words(words.to_owned())));
            pieces.push(Piece::Place(Pointer::parse(pointer)?));
            rest = after;
        }
        pieces.extend((!rest.is_empty()).then(|| Piece::Words(rest.to_owned())));
        Some(Self(pieces))
    }

    /// Whether it has places, and the body has nothing for any of them.
    fn finds_nothing(&self, body: &Value) -> bool {
        let mut places = self.0.iter().filter_map(|piece| match piece {
            Piece::Place(pointer) => Some(pointer),
            Piece::Words(_) => None,
        });
        let blank = |pointer: &Pointer| pointer.of(body).is_none_or(|found| found.trim().is_empty());
        places.clone().next().is_some() && places.all(blank)
    }

    /// With what the body has; nothing stands for what it lacks. What is put in is not looked through for more places.
    pub fn fill(&self, body: &Value) -> String {
        let mut filled = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Words(words) => filled.push_str(words),
                Piece::Place(pointer) => filled.push_str(&pointer.of(body).unwrap_or_default()),
            }
            if filled.len() > LONGEST_TEXT {
                break;
            }
        }
        text::truncate(&filled, LONGEST_TEXT)
    }
}

/// By what the same message is known again.
#[derive(Clone, Debug)]
pub(super) enum Id {
    Pointer(Pointer),
    /// A header; no signature covers it.
    Header(HeaderName),
    /// The body, and when it was signed.
    Body,
}

impl Id {
    pub fn parse(text: &str) -> Option<Self> {
        match text.strip_prefix("header:") {
            Some(name) => HeaderName::try_from(name).ok().map(Id::Header),
            None => Pointer::parse(text).map(Id::Pointer),
        }
    }

    fn of(&self, request: &Incoming<'_>) -> String {
        let given = match self {
            Id::Pointer(pointer) => pointer.of(request.body),
            Id::Header(name) => request.headers.get(name).and_then(|id| id.to_str().ok()).map(str::to_owned),
            Id::Body => None,
        };
        match given.map(|id| id.trim().to_owned()).filter(|id| !id.is_empty()) {
            Some(id) if id.len() <= LONGEST_ID => id,
            Some(id) => hashed(&[id.as_bytes()]),
            None => hashed(&[request.signed_at.unwrap_or_default().as_bytes(), b".", request.raw]),
        }
    }
}

fn hashed(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    parts.iter().for_each(|part| hash.update(part));
    format!("sha256:{}", text::hex(&hash.finalize()))
}

/// Who it is from.
#[derive(Clone, Debug)]
pub(super) enum SenderName {
    Pointer(Pointer),
    Fixed(String),
}

impl SenderName {
    pub fn parse(text: &str) -> Option<Self> {
        match text.starts_with('/') {
            true => Pointer::parse(text).map(SenderName::Pointer),
            false => Some(SenderName::Fixed(text.to_owned())),
        }
    }

    /// As part of an identity: without what would make another identity of it.
    fn of(&self, body: &Value) -> Option<String> {
        let name = match self {
            SenderName::Pointer(pointer) => pointer.of(body)?,
            SenderName::Fixed(name) => name.clone(),
        };
        let plain: String = name.chars().filter(|c| !c.is_control() && !['<', '>'].contains(c)).collect();
        let plain = text::truncate(plain.trim(), LONGEST_NAME);
        (!plain.is_empty()).then_some(plain)
    }
}

/// A request whose proof held.
pub(super) struct Incoming<'a> {
    pub body: &'a Value,
    pub raw: &'a [u8],
    pub headers: &'a HeaderMap,
    /// When it was signed, as the program wrote it.
    pub signed_at: Option<&'a str>,
}

/// What a body comes to.
#[derive(Debug, PartialEq)]
pub(super) enum Reading {
    /// `when` does not let it in.
    Skipped,
    /// The text has no words for it.
    Empty,
    /// In the words of `ingest.v1`.
    Message(Map<String, Value>),
}

/// How bodies become messages.
#[derive(Clone, Debug)]
pub(super) struct Mapping {
    /// The inbound's.
    pub name: String,
    pub text: Template,
    pub id: Id,
    pub from: Option<SenderName>,
    pub thread: Option<Pointer>,
    /// Each place with what may stand there.
    pub when: Vec<(Pointer, Vec<String>)>,
    /// As envelopes call it.
    pub tier: &'static str,
    pub butler: Option<String>,
    /// Whether the words count as those of the identity, and by what the program proved itself.
    pub authenticated: (bool, &'static str),
}

impl Mapping {
    /// The message of a request. Its identity is the inbound's name, or begins with it, so that no inbound brings
    /// somebody who is another one's.
    pub fn read(&self, request: &Incoming<'_>, now: Timestamp) -> Reading {
        let body = request.body;
        let fits =
            |(place, allowed): &(Pointer, Vec<String>)| place.of(body).is_some_and(|found| allowed.contains(&found));
        if !self.when.iter().all(fits) {
            return Reading::Skipped;
        }
        let words = self.text.fill(body);
        if self.text.finds_nothing(body) || text::clean(&words).trim().is_empty() {
            return Reading::Empty;
        }
        let from = self.from.as_ref().and_then(|from| from.of(body));
        let identity = from.as_ref().map_or_else(|| self.name.clone(), |from| format!("{}:{from}", self.name));
        let thread = self.thread.as_ref().and_then(|place| place.of(body));
        let thread = thread.map(|id| if id.len() <= LONGEST_ID { id } else { hashed(&[id.as_bytes()]) });
        // Nobody is named: it must not be taken for whoever has the inbound's own name.
        let nobody = self.from.is_some() && from.is_none();
        let (trusted, method) = (self.authenticated.0 && !nobody, self.authenticated.1);
        let envelope = json!({
            "schema_version": "ingest.v1",
            "source": {"channel": NAME, "provider": NAME, "endpoint_identity": self.name},
            "event": {"external_event_id": self.id.of(request), "external_thread_id": thread,
                      "observed_at": now.to_string()},
            "sender": {"identity": identity, "display_name": from,
                       "authenticated": {"result": if trusted { "pass" } else { "none" }, "method": method}},
            "payload": {"raw": null, "normalized_text": words},
            "control": {"policy_tier": self.tier, "pinned_target": self.butler}});
        match envelope {
            Value::Object(envelope) => Reading::Message(envelope),
            _ => Reading::Empty,
        }
    }
}

/// The conditions, or the first place that is none.
pub(super) fn conditions(when: &BTreeMap<String, Vec<String>>) -> Result<Vec<(Pointer, Vec<String>)>, NoPointer> {
    let read = |(place, allowed): (&String, &Vec<String>)| {
        let pointer = Pointer::parse(place).ok_or_else(|| NoPointer(place.clone()))?;
        Ok((pointer, allowed.clone()))
    };
    when.iter().map(read).collect()
}

/// A key that is no pointer.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("found the key `{0}`")]
pub(super) struct NoPointer(String);

#[cfg(test)]
#[path = "mapping_tests.rs"]
mod tests;
