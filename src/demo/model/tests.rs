//! The server over real sockets, in all four APIs. What the bodies look like here is what the real clients send.

use serde_json::{Value, json};

use super::*;

/// Events of a stream as values; `[DONE]` is left out.
fn events(text: &str) -> Vec<Value> {
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
}

fn http() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().tls_certs_only([]).no_proxy().build().unwrap()
}

async fn start(script: Value) -> ScriptedModel {
    ScriptedModel::start(Script::from_value(script).unwrap()).await.unwrap()
}

/// Says something and calls `state_get`, then repeats the result.
async fn usual() -> ScriptedModel {
    start(json!({"conversations": [{"when": "go", "steps": [
        {"say": "I look.", "call": {"tool": "state_get", "arguments": {"key": "a"}},
            "usage": {"input_tokens": 10, "output_tokens": 2, "cache_read_tokens": 5}},
        {"say": "It is {{last_result}}."}]}]}))
    .await
}

async fn post(url: String, body: Value) -> (u16, String) {
    let response = http().post(url).header("x-api-key", "k-1").json(&body).send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

async fn post_json(url: String, body: Value) -> Value {
    let (status, text) = post(url, body).await;
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).unwrap()
}

#[tokio::test]
async fn messages_with_and_without_a_stream() {
    let model = usual().await;
    let url = format!("{}/v1/messages?beta=true", model.base_url());
    let first = json!({"model": "m", "tools": [{"name": "mcp__butler__state_get"}], "messages": [
        {"role": "user", "content": [{"type": "text", "text": "<system-reminder>stop</system-reminder>"},
            {"type": "text", "text": "go"}]}]});
    let answer = post_json(url.clone(), first.clone()).await;
    assert_eq!(answer["content"][0], json!({"type": "text", "text": "I look."}));
    assert_eq!(answer["content"][1]["name"], "mcp__butler__state_get");
    assert_eq!(answer["stop_reason"], "tool_use");
    assert_eq!(answer["usage"]["cache_read_input_tokens"], 5);

    let mut second = first.clone();
    second["stream"] = json!(true);
    let messages = second["messages"].as_array_mut().unwrap();
    messages.push(json!({"role": "assistant", "content": answer["content"]}));
    messages.push(json!({"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": answer["content"][1]["id"],
            "content": [{"type": "text", "text": "teal"}]},
        {"type": "text", "text": "<system-reminder>go</system-reminder>"}]}));
    let stream = events(&post(url.clone(), second.clone()).await.1);
    let types: Vec<&str> = stream.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let wanted = [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(types, wanted);
    let text: String = stream.iter().filter_map(|event| event["delta"]["text"].as_str()).collect();
    assert_eq!(text, "It is teal.");
    assert_eq!(
        (&stream[0]["message"]["usage"]["output_tokens"], &stream[5]["usage"]["output_tokens"]),
        (&json!(1), &json!(20))
    );
    assert_eq!(events(&post(url, second).await.1), stream, "the same request gets the same answer");

    let log = model.requests();
    assert_eq!((log[0].answer.as_str(), log[1].answer.as_str()), ("call mcp__butler__state_get", "say"));
    assert_eq!((log[0].query.as_str(), &log[0].body["messages"]), ("beta=true", &first["messages"]));
    assert!(log[0].has_key("x-api-key", "k-1") && !format!("{log:?}").contains("k-1"));
}

#[tokio::test]
async fn chat_completions_with_and_without_a_stream() {
    let model = usual().await;
    let url = format!("{}/chat/completions", model.openai_base_url());
    let mut body = json!({"model": "m", "tools": [{"type": "function", "function": {"name": "state_get"}}],
        "messages": [{"role": "system", "content": "go on"}, {"role": "user", "content": "go"}]});
    let answer = post_json(url.clone(), body.clone()).await;
    let message = &answer["choices"][0]["message"];
    assert_eq!(
        (&message["content"], &answer["choices"][0]["finish_reason"]),
        (&json!("I look."), &json!("tool_calls"))
    );
    assert_eq!(message["tool_calls"][0]["function"]["arguments"], "{\"key\":\"a\"}");
    assert_eq!(answer["usage"]["prompt_tokens"], 15);
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(message.clone());
    messages.push(json!({"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "teal"}));
    body["stream"] = json!(true);
    let (_, text) = post(url.clone(), body.clone()).await;
    assert!(text.ends_with("data: [DONE]\n\n") && !text.contains("usage"), "{text}");
    body["stream_options"] = json!({"include_usage": true});
    let stream = events(&post(url, body).await.1);
    let said: String = stream.iter().filter_map(|event| event["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(said, "It is teal.");
    assert_eq!(stream.last().unwrap()["usage"]["total_tokens"], 1120);
}

#[tokio::test]
async fn responses_take_codex_s_input() {
    let model = usual().await;
    let url = format!("{}/responses", model.openai_base_url());
    let user =
        |text: &str| json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]});
    let tools = json!([{"type": "function", "name": "shell"},
        {"type": "namespace", "name": "mcp__butler", "tools": [{"type": "function", "name": "state_get"}]}]);
    let mut body = json!({"model": "m", "stream": true, "instructions": null, "tools": tools, "input": [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "go"}]}, user("go")]});
    let stream = events(&post(url.clone(), body.clone()).await.1);
    let done: Vec<&Value> = stream
        .iter()
        .filter(|event| event["type"] == "response.output_item.done")
        .map(|event| &event["item"])
        .collect();
    assert_eq!((done[0]["type"].as_str(), done[0]["content"][0]["text"].as_str()), (Some("message"), Some("I look.")));
    assert_eq!((done[1]["namespace"].as_str(), done[1]["name"].as_str()), (Some("mcp__butler"), Some("state_get")));
    let last = stream.last().unwrap();
    assert_eq!(last["type"], "response.completed");
    assert_eq!(last["response"]["usage"]["input_tokens"], 15);
    let output = json!({"type": "function_call_output", "call_id": done[1]["call_id"],
        "output": "Wall time: 0.01 seconds\nOutput:\nteal"});
    let items = [done[0].clone(), done[1].clone(), output];
    body["input"].as_array_mut().unwrap().extend(items);
    body["stream"] = json!(false);
    let answer = post_json(url, body).await;
    assert_eq!(answer["output"][0]["content"][0]["text"], "It is teal.", "message and call were one turn");
}

#[tokio::test]
async fn gemini_in_its_three_forms() {
    let model = usual().await;
    let url = |action: &str| format!("{}/v1beta/models/gemini-2.5-pro:{action}", model.base_url());
    let mut body = json!({"tools": [{"functionDeclarations": [{"name": "mcp_butler_state_get"}]}],
        "contents": [{"role": "user", "parts": [{"text": "go"}]}]});
    let answer = post_json(url("generateContent"), body.clone()).await;
    let parts = &answer["candidates"][0]["content"]["parts"];
    assert_eq!(parts[1]["functionCall"], json!({"name": "mcp_butler_state_get", "args": {"key": "a"}}));
    assert_eq!(answer["usageMetadata"]["promptTokenCount"], 15);
    let contents = body["contents"].as_array_mut().unwrap();
    contents.push(answer["candidates"][0]["content"].clone());
    contents.push(json!({"role": "user", "parts": [{"functionResponse": {"name": "mcp_butler_state_get",
        "response": {"output": "<untrusted_context>\nteal\n</untrusted_context>"}}}]}));
    let stream = events(&post(url("streamGenerateContent?alt=sse"), body.clone()).await.1);
    let list = post_json(url("streamGenerateContent"), body).await;
    for chunks in [stream.as_slice(), list.as_array().unwrap()] {
        let said: String =
            chunks.iter().filter_map(|chunk| chunk["candidates"][0]["content"]["parts"][0]["text"].as_str()).collect();
        assert_eq!(said, "It is teal.");
        assert_eq!(chunks.last().unwrap()["candidates"][0]["finishReason"], "STOP");
    }
    assert!(post_json(url("countTokens"), json!({})).await["totalTokens"].is_u64());
}

#[tokio::test]
async fn side_requests_and_small_paths_are_answered() {
    let model = usual().await;
    let base = model.base_url();
    let title = json!({"messages": [{"role": "user", "content": "go"}]});
    assert_eq!(post_json(format!("{base}/v1/messages"), title.clone()).await["stop_reason"], "end_turn");
    let mut form = title;
    form["output_config"] =
        json!({"format": {"schema": {"type": "object", "properties": {"title": {"type": "string"}}}}});
    let text = &post_json(format!("{base}/v1/messages"), form).await["content"][0]["text"];
    assert_eq!(text, "{\"title\":\"scripted\"}");
    assert_eq!(post_json(format!("{base}/v1/messages/count_tokens"), json!({})).await["input_tokens"], 1100);
    assert_eq!(http().head(&base).send().await.unwrap().status().as_u16(), 200);
    let list: Value = http().get(format!("{base}/v1/models")).send().await.unwrap().json().await.unwrap();
    assert_eq!(list["data"][0]["id"], "scripted-1");
    assert_eq!(post(format!("{base}/v1/embeddings"), json!({})).await.0, 404);
    let answers: Vec<String> = model.requests().into_iter().map(|request| request.answer).collect();
    assert_eq!(answers, ["side", "schema", "fixed", "fixed", "fixed", "unknown"]);
}

#[tokio::test]
async fn errors_have_the_form_of_their_api() {
    let model = start(json!({"conversations": [{"when": "go", "steps": [
        {"fail": {"status": 529, "body": "Overloaded", "headers": {"retry-after": "1"}}}]}]}))
    .await;
    let base = model.base_url();
    let user = json!({"messages": [{"role": "user", "content": "go"}]});
    let response = http().post(format!("{base}/v1/messages")).json(&user).send().await.unwrap();
    assert_eq!((response.status().as_u16(), response.headers()["retry-after"].as_bytes()), (529, &b"1"[..]));
    let error: Value = response.json().await.unwrap();
    assert_eq!(error, json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}));
    let (_, text) = post(format!("{base}/v1/chat/completions"), user).await;
    assert!(text.contains("server_error"), "{text}");
    let contents = json!({"contents": [{"role": "user", "parts": [{"text": "go"}]}]});
    let (status, text) = post(format!("{base}/v1beta/models/m:generateContent"), contents).await;
    assert!(status == 529 && text.contains("INTERNAL"), "{text}");
}

#[tokio::test]
async fn a_cut_answer_arrives_in_part() {
    let model =
        start(json!({"conversations": [{"when": "go", "steps": [{"cut": true}, {"say": "never whole"}]}]})).await;
    for (stream, beginning) in [(true, "event: message_start"), (false, "{")] {
        let body = json!({"stream": stream, "messages": [{"role": "user", "content": "go"}]});
        let mut response = http().post(format!("{}/v1/messages", model.base_url())).json(&body).send().await.unwrap();
        let mut got = Vec::new();
        let ending = loop {
            match response.chunk().await {
                Ok(Some(chunk)) => got.extend_from_slice(&chunk),
                ending => break ending,
            }
        };
        let got = String::from_utf8(got).unwrap();
        assert!(ending.is_err() && got.starts_with(beginning) && !got.contains("message_stop"), "{ending:?} {got}");
    }
}

#[tokio::test]
async fn a_hanging_answer_ends_with_the_server() {
    let model = start(json!({"conversations": [{"when": "go", "steps": [{"hang": true}]}]})).await;
    let url = format!("{}/v1/messages", model.base_url());
    let asking = base::task::spawn(base::task::Kind::Job, "client", async move {
        http().post(url).json(&json!({"messages": [{"role": "user", "content": "go"}]})).send().await.is_err()
    });
    let seen = model.wait_for(|requests| !requests.is_empty()).await;
    assert_eq!(seen[0].answer, "hang");
    assert!(!asking.is_finished());
    model.shutdown().await;
    assert!(asking.await.unwrap(), "the connection is torn off");
}

#[test]
fn the_demonstration_s_script_is_whole() {
    let script = demo_script().unwrap();
    let first = script.conversations.iter().find(|c| c.when.is_match(DEMO_PROMPT));
    assert!(first.is_some_and(|c| c.steps.len() > 1) && script.fallback.is_some());
    let mut steps = script.conversations.iter().flat_map(|c| &c.steps);
    assert!(steps.all(|step| matches!(step, Step::Turn { .. })));
    // Said in the chat, the sentence is routed first.
    assert!(script.conversations[0].when.is_match(&format!("{DEMO_PROMPT} … Route the message in")));
}
