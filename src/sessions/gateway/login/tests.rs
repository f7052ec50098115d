use serde_json::json;

use super::*;

#[test]
fn each_login_stands_in_its_header() {
    let key = |text: &str| Secret::new(text.to_owned());
    let proof = |family: Family, name: &str| {
        let headers = Login::of(family, name, key("k")).headers(family).unwrap();
        let (name, value) = headers.iter().next().unwrap();
        assert!(value.is_sensitive() && headers.len() == 1);
        format!("{name}: {}", value.to_str().unwrap())
    };
    assert_eq!(proof(Family::Anthropic, "ANTHROPIC_API_KEY"), "x-api-key: k");
    assert_eq!(proof(Family::Anthropic, "CLAUDE_CODE_OAUTH_TOKEN"), "authorization: Bearer k");
    assert_eq!(proof(Family::OpenAi, "OPENAI_API_KEY"), "authorization: Bearer k");
    assert_eq!(proof(Family::Gemini, "GEMINI_API_KEY"), "x-goog-api-key: k");
    assert!(Login::Nobody.headers(Family::OpenAi).unwrap().is_empty());
    let account = Login::Account { token: key("t").into(), account: "acc-1".to_owned() };
    let headers = account.headers(Family::OpenAi).unwrap();
    assert_eq!(
        (&headers["authorization"], &headers["chatgpt-account-id"]),
        (&"Bearer t".parse().unwrap(), &"acc-1".parse().unwrap())
    );
    assert!(Login::of(Family::OpenAi, "OPENAI_API_KEY", key("a\nb")).headers(Family::OpenAi).is_err());
}

/// The measured answers that end each program at its first request.
#[test]
fn a_limit_is_told_as_each_program_ends_at_once() {
    let at = |api: Api| {
        let (status, body) = over_limit(api, "Budget reached");
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
