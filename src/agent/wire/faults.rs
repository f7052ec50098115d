//! What a model server says when it doesn't answer, and what that means.

use serde_json::Value;

use super::super::event::ErrorClass;
use base::model_words::{says_no_money, says_too_long, words};
use base::text;

/// An error that the server reported, as a status or in the middle of a stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    pub class: ErrorClass,
    /// Whether the same request may succeed a little later.
    pub passing: bool,
    /// The server's own words, cut and cleaned.
    pub message: String,
}

const LONGEST_MESSAGE: usize = 500;

/// Reads the answer to a request that got a status other than success.
pub fn fault_of_status(status: u16, body: &[u8]) -> Fault {
    let parsed = serde_json::from_slice::<Value>(body).ok();
    let (kind, message) = match &parsed {
        Some(value) => words(value),
        None => (String::new(), String::from_utf8_lossy(body).into_owned()),
    };
    judge(Some(status), &kind, &message)
}

/// The error in a document or an event of a successful answer, if it is one.
pub fn fault_of_stream(data: &Value) -> Option<Fault> {
    let is_error = data.get("error").is_some_and(|e| !e.is_null());
    if !is_error {
        return None;
    }
    let (kind, message) = words(data);
    let status = ["code", "status"].iter().find_map(|key| data["error"].get(*key)?.as_u64());
    Some(judge(status.and_then(|s| u16::try_from(s).ok()), &kind, &message))
}

fn judge(status: Option<u16>, kind: &str, message: &str) -> Fault {
    let said = kind.to_lowercase() + " " + &message.to_lowercase();
    let says = |parts: &[&str]| parts.iter().any(|part| said.contains(part));
    let (too_long, no_money) = (says_too_long(kind, message), says_no_money(kind, message));
    let (class, passing) = match status {
        _ if no_money => (ErrorClass::Budget, false),
        Some(402) => (ErrorClass::Budget, false),
        Some(401 | 403) => (ErrorClass::Auth, false),
        Some(413) => (ErrorClass::ContextTooLong, false),
        Some(400 | 404 | 422) | None if too_long => (ErrorClass::ContextTooLong, false),
        Some(429) => (ErrorClass::RateLimited, true),
        Some(408) => (ErrorClass::TimedOut, true),
        // llama.cpp answers 500 to a prompt that doesn't fit.
        Some(500..) if too_long => (ErrorClass::ContextTooLong, false),
        Some(500..) => (ErrorClass::Overloaded, true),
        Some(_) => (ErrorClass::InvalidRequest, false),
        None if says(&["rate_limit"]) => (ErrorClass::RateLimited, true),
        None if says(&["authentication", "permission"]) => (ErrorClass::Auth, false),
        None if says(&["invalid_request", "not_found"]) => (ErrorClass::InvalidRequest, false),
        // In the middle of a stream a fault without a name is the server's own trouble.
        None => (ErrorClass::Overloaded, true),
    };
    let sentence = text::clean(message).trim().to_owned();
    let sentence = if sentence.is_empty() { "no explanation given".to_owned() } else { sentence };
    Fault { class, passing, message: text::truncate(&sentence, LONGEST_MESSAGE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_and_words_give_the_class() {
        use ErrorClass::*;
        let cases: &[(u16, &str, ErrorClass, bool)] = &[
            (401, r#"{"error":{"type":"authentication_error","message":"invalid x-api-key"}}"#, Auth, false),
            (403, "", Auth, false),
            (402, "", Budget, false),
            (429, r#"{"error":{"message":"slow down"}}"#, RateLimited, true),
            (429, r#"{"error":{"message":"quota","code":"insufficient_quota"}}"#, Budget, false),
            (400, r#"{"error":{"message":"Your credit balance is too low to access"}}"#, Budget, false),
            (
                400,
                r#"{"error":{"message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
                ContextTooLong,
                false,
            ),
            (400, r#"{"error":{"message":"x","code":"context_length_exceeded"}}"#, ContextTooLong, false),
            (400, r#"{"error":{"code":400,"message":"m","type":"exceed_context_size_error"}}"#, ContextTooLong, false),
            (413, "", ContextTooLong, false),
            (400, r#"{"error":{"message":"bad"}}"#, InvalidRequest, false),
            (404, r#"{"error":"model 'x' not found"}"#, InvalidRequest, false),
            (500, "<html>", Overloaded, true),
            (529, r#"{"error":{"type":"overloaded_error","message":"Overloaded"}}"#, Overloaded, true),
            (301, "", InvalidRequest, false),
        ];
        for (status, body, class, passing) in cases {
            let fault = fault_of_status(*status, body.as_bytes());
            assert_eq!((fault.class, fault.passing), (*class, *passing), "{status} {body}");
            assert!(!fault.message.is_empty());
        }
    }

    #[test]
    fn an_error_inside_a_stream_is_found() {
        let fault = |text: &str| fault_of_stream(&serde_json::from_str(text).unwrap());
        let overloaded =
            fault(r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#).unwrap();
        assert_eq!((overloaded.class, overloaded.passing), (ErrorClass::Overloaded, true));
        let limited = fault(r#"{"error":{"code":429,"message":"m"}}"#).unwrap();
        assert_eq!(limited.class, ErrorClass::RateLimited);
        assert_eq!(fault(r#"{"choices":[],"error":null}"#), None);
    }
}
