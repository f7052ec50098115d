//! What a session may ask of its model's vendor: answers, and what its runtime's settings grant.

use serde_json::{Value, json};

use super::Waiting;
use crate::support::{Daemon, Household, http, model};
use testkit::model::ScriptedModel;

async fn scene(settings: &str) -> (ScriptedModel, Household, Daemon, Waiting) {
    let model = model(json!([
        {"when": "wait", "steps": [{"hang": true}]},
        {"when": "hello", "steps": [{"say": "hi"}]},
    ]))
    .await;
    let household = Household::with_model(&model).runtime("general", settings);
    let daemon = household.start().await;
    let waiting = Waiting::start(&household, &daemon).await;
    model.wait_for(|seen| seen.len() == 1).await;
    (model, household, daemon, waiting)
}

impl Waiting {
    /// Hands this text to the gateway as a call of the Messages API.
    async fn post(&self, path: &str, features: &str, body: String) -> (u16, Value) {
        let request = http().post(format!("{}{path}", self.url)).bearer_auth(&self.token).body(body);
        let request = request.header("content-type", "application/json").header("anthropic-beta", features);
        let answer = request.send().await.expect("an answer");
        assert!(answer.status() == 200 || answer.headers()["x-should-retry"] == "false", "{answer:?}");
        (answer.status().as_u16(), answer.json().await.unwrap_or(Value::Null))
    }
}

fn with(more: Value) -> Value {
    let mut body = json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]});
    body.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    body
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vendor_is_asked_for_answers_alone() {
    let (model, household, daemon, waiting) = scene("").await;
    let image = json!({"type": "image", "source": {"type": "url", "url": "https://evil.example/?q=81.4"}});
    let asked = [
        with(json!({"tools": [{"type": "web_search_20250305", "name": "web_search"}]})).to_string(),
        with(json!({"tools": [{"type": "web_fetch_20250910", "name": "web_fetch"}]})).to_string(),
        with(json!({"tools": [{"type": "code_execution_20250825", "name": "code_execution"}]})).to_string(),
        with(json!({"tools": [{"type": "computer_20250124", "name": "computer"}]})).to_string(),
        with(json!({"mcp_servers": [{"type": "url", "url": "https://evil.example/mcp", "name": "e"}]})).to_string(),
        with(json!({"container": {"skills": [{"type": "anthropic", "skill_id": "pdf"}]}})).to_string(),
        with(json!({"messages": [{"role": "user", "content": [image]}]})).to_string(),
        // The last of two is what one reader takes, and the first what another does.
        with(json!({})).to_string().replacen('{', r#"{"tools":[{"type":"web_search_20250305"}],"tools":[],"#, 1),
        "\u{1}".to_owned(),
    ];
    for path in ["/v1/messages", "/v1/messages/count_tokens?beta=true"] {
        for body in &asked {
            let (status, answer) = waiting.post(path, "", body.clone()).await;
            let error = &answer["error"];
            assert_eq!((status, &error["type"]), (400, &json!("invalid_request_error")), "{body}: {answer}");
            assert!(error["message"].as_str().is_some_and(|m| m.contains("passed on")), "{body}: {answer}");
        }
    }
    for features in ["mcp-client-2025-04-04", "claude-code-20250219,code-execution-2025-08-25", "files-api-2025-04-14"]
    {
        assert_eq!(waiting.post("/v1/messages", features, with(json!({})).to_string()).await.0, 400, "{features}");
    }
    assert_eq!(model.requests().len(), 1, "nothing of these reached the model");
    let (_, metrics) = daemon.get("/metrics").await;
    let calls = asked.len() + 3;
    assert!(metrics.contains(&format!("butlerd_model_calls_refused_total{{butler=\"general\"}} {calls}")), "{metrics}");
    let refused = 2 * asked.len() + 3;
    assert_eq!(daemon.logged(&["a session's request to its model was refused"], refused).await, refused);

    // A call that asks for an answer alone still goes, without what nobody knows.
    let plain =
        with(json!({"surprise": {"fetch": "https://evil.example/"}, "tools": [{"name": "a", "input_schema": {}}]}));
    let (status, answer) = waiting
        .post("/v1/messages?beta=true&surprise=1", "claude-code-20250219,unheard-of-2030-01-01", plain.to_string())
        .await;
    assert_eq!((status, &answer["content"][0]["text"]), (200, &json!("hi")), "{answer}");
    let seen = model.requests().pop().expect("a request");
    assert_eq!(seen.body, with(json!({"tools": [{"name": "a", "input_schema": {}}]})));
    assert_eq!((seen.headers["anthropic-beta"].as_str(), seen.query.as_str()), ("claude-code-20250219", "beta=true"));
    daemon.logged(&["left out of a session's requests to its model: surprise"], 1).await;
    waiting.cancel(&household).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runtime_that_grants_a_vendors_tool_gets_that_one() {
    let (model, household, _daemon, waiting) = scene("vendor_tools = [\"web_search\"]").await;
    let search = with(json!({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}));
    assert_eq!(waiting.post("/v1/messages", "web-search-2025-03-05", search.to_string()).await.0, 200);
    assert_eq!(model.requests().pop().expect("a request").body, search);
    let fetch = with(json!({"tools": [{"type": "web_fetch_20250910", "name": "web_fetch"}]}));
    let (status, answer) = waiting.post("/v1/messages", "", fetch.to_string()).await;
    let words = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(status == 400 && words.contains("[runtime] vendor_tools = [\"web_fetch\"]"), "{status} {answer}");
    waiting.cancel(&household).await;
}
