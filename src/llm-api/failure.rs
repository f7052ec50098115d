//! What a model's server says when it doesn't answer, and what that means.

use base::text;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::IntoStaticStr;

/// The kinds of failure of a run that are treated differently.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ErrorClass {
    /// The key is missing, wrong, or not allowed to use this model.
    Auth,
    /// 429, after all retries.
    RateLimited,
    /// 5xx or the server's own word, after all retries.
    Overloaded,
    /// Nobody answers at the model's address, not as the protocol says, or not to the end, after all retries.
    ModelUnreachable,
    /// The conversation no longer fits the model.
    ContextTooLong,
    /// There is no money left, in the account or for this session.
    Budget,
    /// The model calls that it was given were not enough.
    Turns,
    /// It called tools without end: too many, or the same one again and again.
    Runaway,
    /// An answer was cut at its bound.
    OutputLimit,
    /// The model or its provider declined to answer.
    Refused,
    /// The butler's tools were not reachable.
    McpUnreachable,
    /// The request or the configuration is wrong.
    InvalidRequest,
    /// The runtime's program is not on this machine.
    ProgramMissing,
    /// The program failed by its own fault, ended without a final event, or not as it should.
    Crashed,
    /// SIGKILL ended it, and not from here: the kernel's, where memory ran out, or a person's.
    Killed,
    /// It took longer than it may.
    TimedOut,
    /// Somebody stopped it.
    Cancelled,
}

base::named!(ErrorClass);

impl ErrorClass {
    /// What an HTTP status of a model's API means.
    pub fn of_status(status: u64) -> Option<Self> {
        Some(match status {
            401 | 403 => ErrorClass::Auth,
            402 => ErrorClass::Budget,
            408 => ErrorClass::TimedOut,
            413 => ErrorClass::ContextTooLong,
            429 => ErrorClass::RateLimited,
            500..=599 => ErrorClass::Overloaded,
            400..=499 => ErrorClass::InvalidRequest,
            _ => return None,
        })
    }
}

/// Why a model call or a run failed, for people.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct Failure {
    pub class: ErrorClass,
    pub message: String,
}

/// The longest words of a server that are kept, in bytes.
const LONGEST: usize = 1000;

impl Failure {
    /// A failure whose class is known.
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self { class, message: message.into() }
    }

    /// What an answer with a status other than success says.
    pub fn of_answer(status: u16, body: &[u8]) -> Self {
        match serde_json::from_slice::<Value>(body) {
            Ok(document) => Self::of_document(Some(status), &document),
            Err(_) => Self::judged(Some(status.into()), "", &String::from_utf8_lossy(body)),
        }
    }

    /// What an error's document says. `status`: of the answer, or unknown in the middle of a stream.
    pub fn of_document(status: Option<u16>, document: &Value) -> Self {
        let (kind, sentence) = words(document);
        let inner = || document.get("error").and_then(|e| ["code", "status"].iter().find_map(|k| e.get(*k)?.as_u64()));
        Self::judged(status.map(u64::from).or_else(inner), &kind, &sentence)
    }

    /// The error in a document or an event of an answer that began well, if it is one.
    pub fn inside(document: &Value) -> Option<Self> {
        let is_error = document.get("error").is_some_and(|e| !e.is_null());
        is_error.then(|| Self::of_document(None, document))
    }

    /// Whether the same request may succeed a little later.
    pub fn is_passing(&self) -> bool {
        matches!(self.class, ErrorClass::RateLimited | ErrorClass::Overloaded | ErrorClass::TimedOut)
    }

    /// Whether it may be the pictures of the request that the model refused. Servers say so in many ways.
    pub fn may_be_of_pictures(&self) -> bool {
        let words = self.message.to_ascii_lowercase();
        self.class == ErrorClass::InvalidRequest || words.contains("image") || words.contains("vision")
    }

    fn judged(status: Option<u64>, kind: &str, sentence: &str) -> Self {
        let said = format!("{kind} {sentence}").to_lowercase();
        let says = |phrases: &[&str]| phrases.iter().any(|phrase| said.contains(phrase));
        let class = if says(NO_MONEY) {
            ErrorClass::Budget
        } else if says(TOO_LONG) && status.is_none_or(may_be_too_long) {
            ErrorClass::ContextTooLong
        } else {
            match status {
                Some(status) => ErrorClass::of_status(status).unwrap_or(ErrorClass::InvalidRequest),
                None => of_kind(&kind.to_lowercase()),
            }
        };
        let sentence = text::clean(sentence);
        let sentence = match sentence.trim() {
            "" => "no explanation given",
            some => some,
        };
        Self { class, message: text::truncate(sentence, LONGEST) }
    }
}

/// What a prompt ends with whose pictures the model is not shown.
pub fn pictures_not_shown(why: &str) -> String {
    format!("\n\n(The pictures that came with this could not be shown to you: {why}. Say so if they matter.)")
}

/// Why it is not, where the model refused them.
pub const TAKES_NO_PICTURES: &str = "this model takes none";

/// The phrases by which servers say that the account has no money left.
const NO_MONEY: &[&str] = &["insufficient_quota", "billing_error", "credit balance is too low"];

/// Those by which they say that the conversation no longer fits the model.
const TOO_LONG: &[&str] = &[
    "prompt is too long",
    "context_length_exceeded",
    "maximum context length",
    "exceed_context_size",
    "exceeds the available context",
    "exceeds the maximum number of tokens",
    "context window",
];

/// llama.cpp answers 500 to a prompt that doesn't fit.
fn may_be_too_long(status: u64) -> bool {
    matches!(status, 400 | 404 | 413 | 422) || status >= 500
}

/// In the middle of a stream only the kind tells; an error without a name is the server's own trouble.
fn of_kind(kind: &str) -> ErrorClass {
    let has = |part: &str| kind.contains(part);
    if has("rate_limit") {
        ErrorClass::RateLimited
    } else if has("authentication") || has("permission") {
        ErrorClass::Auth
    } else if has("invalid_request") || has("not_found") {
        ErrorClass::InvalidRequest
    } else {
        ErrorClass::Overloaded
    }
}

/// The kind and the sentence of an error's document, out of the shapes that servers use. The kind is what `type`,
/// `code` and `status` say, where these are texts.
fn words(document: &Value) -> (String, String) {
    let error = document.get("error").unwrap_or(document);
    if let Some(sentence) = error.as_str() {
        return (String::new(), sentence.to_owned());
    }
    let kind: Vec<&str> = ["type", "code", "status"].iter().filter_map(|key| error.get(*key)?.as_str()).collect();
    let sentence = ["message", "detail"].iter().find_map(|key| error.get(*key)?.as_str());
    (kind.join(" "), sentence.map_or_else(|| error.to_string(), str::to_owned))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_are_found_in_all_shapes() {
        let anthropic = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
        assert_eq!(words(&anthropic), ("overloaded_error".into(), "Overloaded".into()));
        let numbered = json!({"error": {"code": 429, "message": "m", "status": "RESOURCE_EXHAUSTED"}});
        assert_eq!(words(&numbered), ("RESOURCE_EXHAUSTED".into(), "m".into()));
        assert_eq!(words(&json!({"error": "no such model"})), (String::new(), "no such model".into()));
        assert_eq!(words(&json!({"detail": "d"})), (String::new(), "d".into()));
    }

    #[test]
    fn statuses_and_words_give_the_class() {
        use ErrorClass::*;
        let cases: &[(u16, &str, ErrorClass, bool)] = &[
            (401, r#"{"error":{"type":"authentication_error","message":"invalid x-api-key"}}"#, Auth, false),
            (403, "", Auth, false),
            (402, "{}", Budget, false),
            (429, r#"{"error":"slow down"}"#, RateLimited, true),
            (429, r#"{"error":{"message":"quota","code":"insufficient_quota"}}"#, Budget, false),
            (400, r#"{"error":{"message":"Your Credit Balance is too low to access"}}"#, Budget, false),
            (400, r#"{"error":{"message":"prompt is too long: 2 tokens > 1 maximum"}}"#, ContextTooLong, false),
            (400, r#"{"error":{"message":"x","code":"context_length_exceeded"}}"#, ContextTooLong, false),
            (400, r#"{"error":{"code":400,"message":"m","type":"exceed_context_size_error"}}"#, ContextTooLong, false),
            (413, "", ContextTooLong, false),
            (400, r#"{"error":{"message":"bad"}}"#, InvalidRequest, false),
            (404, r#"{"error":"model 'x' not found"}"#, InvalidRequest, false),
            (408, "", TimedOut, true),
            (500, "<html>", Overloaded, true),
            (500, "null", Overloaded, true),
            (500, r#"{"error":"the request exceeds the available context size"}"#, ContextTooLong, false),
            (529, r#"{"error":{"type":"overloaded_error","message":"Overloaded"}}"#, Overloaded, true),
            (301, "", InvalidRequest, false),
        ];
        for (status, body, class, passing) in cases {
            let failure = Failure::of_answer(*status, body.as_bytes());
            assert_eq!((failure.class, failure.is_passing()), (*class, *passing), "{status} {body}");
            assert!(!failure.message.is_empty());
        }
    }

    #[test]
    fn an_error_inside_a_stream_is_found() {
        let class = |document: Value| Failure::inside(&document).map(|f| f.class);
        let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
        assert_eq!(class(overloaded), Some(ErrorClass::Overloaded));
        assert_eq!(class(json!({"error": {"code": 429, "message": "m"}})), Some(ErrorClass::RateLimited));
        assert_eq!(class(json!({"choices": [], "error": null})), None);
    }

    #[test]
    fn the_servers_words_are_cleaned_and_cut() {
        let message = |body: Value| Failure::of_document(Some(500), &body).message;
        assert_eq!(message(json!({"error": {"message": "a\u{1b}[31mb"}})), "a[31mb");
        assert!(message(json!({"error": "x".repeat(5000)})).len() < 1100);
    }
}
