use base::SseEvent;
use http::Method;
use serde_json::{Value, json};

use super::*;

fn post(family: Family, path: &str) -> Option<Endpoint> {
    family.endpoint(&Method::POST, path)
}

#[test]
fn only_known_paths_of_the_own_family_are_served() {
    let calls = [
        (Family::Anthropic, "/v1/messages", Some(Api::Messages), "/v1/messages"),
        (Family::Anthropic, "/v1/messages/count_tokens", None, "/v1/messages/count_tokens"),
        (Family::OpenAi, "/v1/responses", Some(Api::Responses), "/responses"),
        (Family::OpenAi, "/v1/chat/completions", Some(Api::Chat), "/chat/completions"),
        (
            Family::Gemini,
            "/v1beta/models/g-2:generateContent",
            Some(Api::Generate),
            "/v1beta/models/g-2:generateContent",
        ),
        (Family::Gemini, "/v1beta/models/g-2:countTokens", None, "/v1beta/models/g-2:countTokens"),
    ];
    for (family, path, api, onward) in calls {
        let known = post(family, path).unwrap_or_else(|| panic!("{path}"));
        assert_eq!((known.api(), known.path.as_str()), (api, onward));
        for other in [Family::Anthropic, Family::OpenAi, Family::Gemini].into_iter().filter(|f| *f != family) {
            assert_eq!(post(other, path), None, "{other:?} {path}");
        }
    }
    assert_eq!(post(Family::Gemini, "/v1beta/models/g-2:streamGenerateContent").unwrap().model.as_deref(), Some("g-2"));
    let models =
        [(Family::Anthropic, "/v1/models"), (Family::OpenAi, "/v1/models/o-1"), (Family::Gemini, "/v1beta/models")];
    for (family, path) in models {
        assert_eq!(family.endpoint(&Method::GET, path).unwrap().api(), None, "{path}");
    }
}

#[test]
fn everything_else_is_unknown() {
    for path in [
        "/",
        "/v1",
        "/v1/",
        "/v1/files",
        "/v1/messages/",
        "/v1/messages/batches",
        "/v1/messages/../files",
        "/v1/embeddings",
        "/v1/responses/r1",
        "//v1/messages",
        "/v1/organizations/api_keys",
        "/v1beta/models/..:generateContent",
        "/v1beta/models/a/b:generateContent",
        "/v1beta/models/a%2Fb:generateContent",
        "/v1beta/models/:generateContent",
        "/v1beta/files",
        "/v1beta/models/m:embedContent",
        "http://other.example/v1/messages",
    ] {
        for family in [Family::Anthropic, Family::OpenAi, Family::Gemini] {
            for method in [Method::POST, Method::GET, Method::DELETE, Method::PUT, Method::CONNECT] {
                assert_eq!(family.endpoint(&method, path), None, "{family:?} {method} {path}");
            }
        }
    }
    assert_eq!(Family::Anthropic.endpoint(&Method::GET, "/v1/models/../files"), None);
    assert_eq!(Family::Anthropic.endpoint(&Method::GET, "/v1/messages"), None);
}

fn reads(api: Api, events: &[Value]) -> Reading {
    let mut said = Reading::default();
    for data in events {
        said.event(api, &SseEvent { name: String::new(), data: data.to_string() });
    }
    said
}

#[test]
fn kinds_of_tokens_do_not_overlap() {
    let written = json!({"type": "message_start", "message": {"model": "m", "usage":
        {"input_tokens": 3, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 100, "output_tokens": 1}}});
    let end = json!({"type": "message_delta", "delta": {}, "usage": {"output_tokens": 9}});
    let usage = reads(Api::Messages, &[written, end]).usage;
    assert_eq!(usage, Usage { input: Some(3), output: Some(9), cache_read: Some(100), cache_write: Some(20) });
    let done = json!({"type": "response.completed", "response": {"object": "response", "model": "m", "usage":
        {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 64}, "output_tokens": 12,
         "output_tokens_details": {"reasoning_tokens": 8}}}});
    let usage = reads(Api::Responses, &[done]).usage;
    assert_eq!(usage, Usage { input: Some(36), output: Some(12), cache_read: Some(64), cache_write: None });
    let thoughts = json!({"modelVersion": "m", "usageMetadata": {"promptTokenCount": 50, "cachedContentTokenCount": 10,
        "candidatesTokenCount": 4, "thoughtsTokenCount": 6, "toolUsePromptTokenCount": 2}});
    let usage = reads(Api::Generate, &[thoughts]).usage;
    assert_eq!(usage, Usage { input: Some(42), output: Some(10), cache_read: Some(10), cache_write: None });
    assert_eq!(reads(Api::Chat, &[json!({"model": "m", "choices": []})]).usage, Usage::default());
}

#[test]
fn errors_inside_of_streams_are_found() {
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let class = |api, event: Value| reads(api, &[event]).failure.map(|f| f.class);
    assert_eq!(class(Api::Messages, overloaded), Some(ErrorClass::Overloaded));
    let failed = json!({"type": "response.failed", "response": {"object": "response", "model": "m",
        "error": {"code": "rate_limit_exceeded", "message": "slow"}}});
    assert_eq!(class(Api::Responses, failed), Some(ErrorClass::RateLimited));
    let in_chat = json!({"error": {"code": 401, "message": "no"}});
    assert_eq!(class(Api::Chat, in_chat), Some(ErrorClass::Auth));
    let whole = json!({"error": {"code": 400, "message": "The input token count (9) exceeds the maximum number of tokens allowed (8)."}});
    assert_eq!(class(Api::Generate, whole), Some(ErrorClass::ContextTooLong));
}
