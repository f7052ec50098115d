use serde_json::json;

use super::*;
use base::{Secret, SseReader};
use demo::model::{Script, ScriptedModel};

fn post(family: Family, path: &str) -> Option<ApiPath> {
    family.known(&Method::POST, path)
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
        assert_eq!((known.api, known.path.as_str()), (api, onward));
        for other in [Family::Anthropic, Family::OpenAi, Family::Gemini].into_iter().filter(|f| *f != family) {
            assert_eq!(post(other, path), None, "{other:?} {path}");
        }
    }
    assert_eq!(post(Family::Gemini, "/v1beta/models/g-2:streamGenerateContent").unwrap().model.as_deref(), Some("g-2"));
    let models =
        [(Family::Anthropic, "/v1/models"), (Family::OpenAi, "/v1/models/o-1"), (Family::Gemini, "/v1beta/models")];
    for (family, path) in models {
        assert_eq!(family.known(&Method::GET, path).unwrap().api, None, "{path}");
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
                assert_eq!(family.known(&method, path), None, "{family:?} {method} {path}");
            }
        }
    }
    assert_eq!(Family::Anthropic.known(&Method::GET, "/v1/models/../files"), None);
    assert_eq!(Family::Anthropic.known(&Method::GET, "/v1/messages"), None);
}

#[test]
fn each_login_stands_in_its_header() {
    let key = |text: &str| Secret::new(text.to_owned());
    let proof = |family: Family, name: &str| {
        let headers = family.proof(&family.login(name, key("k"))).unwrap();
        let (name, value) = headers.iter().next().unwrap();
        assert!(value.is_sensitive() && headers.len() == 1);
        format!("{name}: {}", value.to_str().unwrap())
    };
    assert_eq!(proof(Family::Anthropic, "ANTHROPIC_API_KEY"), "x-api-key: k");
    assert_eq!(proof(Family::Anthropic, "CLAUDE_CODE_OAUTH_TOKEN"), "authorization: Bearer k");
    assert_eq!(proof(Family::OpenAi, "OPENAI_API_KEY"), "authorization: Bearer k");
    assert_eq!(proof(Family::Gemini, "GEMINI_API_KEY"), "x-goog-api-key: k");
    assert!(Family::OpenAi.proof(&Login::Nobody).unwrap().is_empty());
    let account = Login::Account { token: key("t").into(), account: "acc-1".to_owned() };
    let headers = Family::OpenAi.proof(&account).unwrap();
    assert_eq!(
        (&headers["authorization"], &headers["chatgpt-account-id"]),
        (&"Bearer t".parse().unwrap(), &"acc-1".parse().unwrap())
    );
    assert!(Family::OpenAi.proof(&Family::OpenAi.login("OPENAI_API_KEY", key("a\nb"))).is_err());
}

/// The measured answers that end each program at its first request.
#[test]
fn a_limit_is_told_as_each_program_ends_at_once() {
    let at = |api: Api| {
        let (status, body) = api.over_limit("Budget reached");
        (status.as_u16(), body)
    };
    let (status, body) = at(Api::Messages);
    assert_eq!((status, &body["type"], &body["error"]["type"]), (402, &json!("error"), &json!("billing_error")));
    let (status, body) = at(Api::Responses);
    assert_eq!((status, &body["error"]["code"]), (400, &json!("budget_reached")));
    let (status, body) = at(Api::Generate);
    assert_eq!((status, &body["error"]["status"]), (402, &json!("FAILED_PRECONDITION")));
    for api in [Api::Messages, Api::Responses, Api::Chat, Api::Generate] {
        assert_eq!(at(api).1["error"]["message"], "Budget reached");
    }
}

/// What an answer of the scripted model says in this API, streamed or not, cut into pieces of `size` bytes.
async fn said(model: &ScriptedModel, api: Api, stream: bool, size: usize) -> AnswerSoFar {
    let (path, body) = match api {
        Api::Messages => ("/v1/messages", json!({"model": "m-1", "messages": [{"role": "user", "content": "go"}]})),
        Api::Responses => ("/v1/responses", json!({"model": "m-1", "input": "go"})),
        Api::Chat => {
            let options = json!({"include_usage": true});
            let messages = json!([{"role": "user", "content": "go"}]);
            ("/v1/chat/completions", json!({"model": "m-1", "messages": messages, "stream_options": options}))
        }
        Api::Generate if stream => ("/v1beta/models/m-1:streamGenerateContent?alt=sse", json!({})),
        Api::Generate => ("/v1beta/models/m-1:generateContent", json!({})),
    };
    let mut body = body;
    if api == Api::Generate {
        body = json!({"contents": [{"role": "user", "parts": [{"text": "go"}]}]});
    } else {
        body["stream"] = json!(stream);
    }
    let client = base::http_client("http://127.0.0.1").build().unwrap();
    let url = format!("{}{path}", model.base_url());
    let answer = client.post(url).json(&body).send().await.unwrap().bytes().await.unwrap();
    let mut said = AnswerSoFar::default();
    if stream {
        let mut sse = SseReader::default();
        for piece in answer.chunks(size) {
            sse.push(piece).unwrap().iter().for_each(|event| said.event(api, event));
        }
    } else {
        said.document(api, &serde_json::from_slice(&answer).unwrap());
    }
    said
}

#[tokio::test]
async fn all_apis_say_the_same_of_the_same_answer() {
    let usage = json!({"input_tokens": 11, "output_tokens": 7, "cache_read_tokens": 5, "cache_write_tokens": 0});
    let steps = json!([{"say": "usage \"error\" finish", "usage": usage}]);
    let script = Script::from_value(json!({"conversations": [{"when": "go", "steps": steps}]})).unwrap();
    let model = ScriptedModel::start(script).await.unwrap();
    for api in [Api::Messages, Api::Responses, Api::Chat, Api::Generate] {
        for (stream, size) in [(false, 1), (true, 1), (true, 13), (true, 1 << 20)] {
            let said = said(&model, api, stream, size).await;
            let what = format!("{api:?} {stream} {size}: {said:?}");
            let usage = said.usage;
            assert_eq!((usage.input, usage.output, usage.cache_read), (Some(11), Some(7), Some(5)), "{what}");
            assert_eq!(said.model.as_deref(), Some("m-1"), "{what}");
            assert!(said.whole && said.failure.is_none(), "{what}");
        }
    }
}

fn reads(api: Api, events: &[Value]) -> AnswerSoFar {
    let mut said = AnswerSoFar::default();
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

#[test]
fn statuses_and_words_give_the_class() {
    use ErrorClass::*;
    let of = |status: u16, body: Value| failure(StatusCode::from_u16(status).ok(), &body);
    for (status, body, class) in [
        (401, json!({"error": {"message": "bad key"}}), Auth),
        (402, json!({}), Budget),
        (429, json!({"error": {"type": "insufficient_quota", "message": "m"}}), Budget),
        (429, json!({"error": "slow down"}), RateLimited),
        (400, json!({"error": {"message": "prompt is too long: 2 tokens > 1 maximum"}}), ContextTooLong),
        (400, json!({"error": {"message": "m"}}), InvalidRequest),
        (529, json!({"error": {"type": "overloaded_error", "message": "Overloaded"}}), Overloaded),
        (500, json!(null), Overloaded),
    ] {
        assert_eq!(of(status, body.clone()).class, class, "{status} {body}");
    }
    assert_eq!(of(500, json!({"error": {"message": "a\u{1b}[31mb"}})).message, "a[31mb");
    assert!(of(500, json!({"error": "x".repeat(5000)})).message.len() < 1100);
}
