use serde_json::{Value, json};

use super::*;
use base::SseReader;

fn read(api: Api, stream: &str) -> Result<Turn, BadAnswer> {
    let mut sse = SseReader::default();
    let mut reader = AnswerReader::new(api, 4096);
    let mut events = sse.push(stream.as_bytes()).unwrap();
    events.extend(sse.finish());
    for event in &events {
        reader.event(event)?;
    }
    reader.finish()
}

/// A stream of bare `data:` lines, one for each value.
fn lines(values: &[Value]) -> String {
    values.iter().map(|value| format!("data: {value}\n\n")).collect()
}

fn arguments(turn: &Turn) -> Vec<Value> {
    turn.calls.iter().map(|call| call.arguments.clone().map_or_else(|e| Value::String(e.0), Value::Object)).collect()
}

fn tool(name: &str) -> WireTool {
    WireTool { name: name.into(), description: "d".into(), schema: json!({"type": "object"}) }
}

#[test]
fn anthropic_requests_carry_limits_tools_and_cache_marks() {
    let mut config = AgentConfig::new(Api::Anthropic, "http://h/", "m", "hello");
    config.system_prompt = "be kind".into();
    let history = config.api.opening(&config);
    let body = config.api.request(&config, &[tool("t")], &history);
    assert_eq!(body["max_tokens"], 8192);
    assert_eq!(body["stream"], true);
    assert_eq!(body["system"][0]["text"], "be kind");
    assert_eq!(body["messages"][0]["content"][0]["cache_control"]["type"], "ephemeral");
    assert_eq!(body["tools"][0], json!({"name": "t", "description": "d", "input_schema": {"type": "object"}}));
    assert_eq!(body.get("temperature"), None);
    assert!(history[0]["content"][0].get("cache_control").is_none(), "the mark moves, the history stays clean");
    assert_eq!(config.api.url(&config.base_url), "http://h/v1/messages");
    assert_eq!(config.api.url("http://h/v1"), "http://h/v1/messages");
    assert_eq!(config.api.key_header("ANTHROPIC_API_KEY", "k"), ("x-api-key", "k".into()));
    assert_eq!(config.api.key_header("ANTHROPIC_AUTH_TOKEN", "k"), ("authorization", "Bearer k".into()));
}

#[test]
fn openai_requests_ask_for_usage_and_name_the_limit_as_the_server_wants_it() {
    let mut config = AgentConfig::new(Api::Openai, "http://127.0.0.1:11434/v1", "m", "hello");
    config.temperature = Some(0.0);
    let body = config.api.request(&config, &[tool("t")], &config.api.opening(&config));
    assert_eq!(body["messages"], json!([{"role": "user", "content": "hello"}]));
    assert_eq!(body["stream_options"]["include_usage"], true);
    assert_eq!((&body["max_tokens"], body.get("max_completion_tokens")), (&json!(8192), None));
    assert_eq!(body["tools"][0]["function"]["parameters"], json!({"type": "object", "properties": {}}));
    assert_eq!(body["temperature"], 0.0);
    config.base_url = "https://api.openai.com/v1".into();
    let body = config.api.request(&config, &[], &[]);
    assert_eq!((body.get("max_tokens"), &body["max_completion_tokens"]), (None, &json!(8192)));
    assert_eq!(body.get("tools"), None);
    assert_eq!(config.api.url("http://h/v1/"), "http://h/v1/chat/completions");
}

#[test]
fn an_anthropic_stream_becomes_a_turn() {
    let stream = lines(&[
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 10, "output_tokens": 1,
            "cache_read_input_tokens": 5, "cache_creation_input_tokens": 0}}}),
        json!({"type": "content_block_start", "index": 0,
            "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "sig"}}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "ping"}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "I lo"}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "ok"}}),
        json!({"type": "content_block_start", "index": 2,
            "content_block": {"type": "tool_use", "id": "a", "name": "x", "input": {}}}),
        json!({"type": "content_block_delta", "index": 2,
            "delta": {"type": "input_json_delta", "partial_json": "{\"n\""}}),
        json!({"type": "content_block_delta", "index": 2,
            "delta": {"type": "input_json_delta", "partial_json": ":1}"}}),
        json!({"type": "content_block_start", "index": 3,
            "content_block": {"type": "tool_use", "id": "b", "name": "y", "input": {}}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 7}}),
        json!({"type": "message_stop"}),
    ]);
    let turn = read(Api::Anthropic, &stream).unwrap();
    assert_eq!(turn.texts, ["I look"]);
    assert_eq!(arguments(&turn), [json!({"n": 1}), json!({})]);
    assert_eq!((turn.calls[0].id.as_str(), turn.calls[1].name.as_str()), ("a", "y"));
    assert_eq!(turn.message["content"][0], json!({"type": "thinking", "thinking": "hm", "signature": "sig"}));
    assert_eq!(turn.message["content"][2]["input"], json!({"n": 1}));
    let usage = Usage { input: Some(10), output: Some(7), cache_read: Some(5), cache_write: Some(0) };
    assert_eq!((turn.usage, turn.stop), (usage, Stop::Done));
    let cut = stream.replace("message_stop", "ping");
    assert_eq!(read(Api::Anthropic, &cut), Err(BadAnswer::Incomplete));
}

#[test]
fn faults_and_cuts_in_an_anthropic_answer_are_told_apart() {
    let overloaded = lines(&[json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})]);
    assert!(matches!(read(Api::Anthropic, &overloaded), Err(BadAnswer::Failure(f)) if f.is_passing()));
    let orphan = lines(&[json!({"type": "content_block_delta", "index": 4, "delta": {"text": "x"}})]);
    assert!(matches!(read(Api::Anthropic, &orphan), Err(BadAnswer::Malformed(_))));
    for (reason, stop) in [
        ("max_tokens", Stop::OutputLimit),
        ("refusal", Stop::Refused),
        ("model_context_window_exceeded", Stop::ContextFull),
        ("pause_turn", Stop::Pause),
        ("something_new", Stop::Done),
    ] {
        let whole = json!({"content": [{"type": "text", "text": "t"}], "stop_reason": reason});
        let turn = Api::Anthropic.whole(&whole).unwrap();
        assert_eq!((turn.stop, turn.usage), (stop, Usage::default()), "{reason}");
    }
}

#[test]
fn an_openai_stream_becomes_a_turn() {
    let delta = |delta: Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}], "usage": null});
    let stream = lines(&[
        delta(json!({"role": "assistant", "content": "Let me"})),
        delta(json!({"content": " see"})),
        delta(json!({"tool_calls": [{"index": 0, "id": "c1", "type": "function",
            "function": {"name": "x", "arguments": ""}}]})),
        delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"n\":"}}]})),
        delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]})),
        delta(json!({"tool_calls": [{"index": 1, "id": "c2", "type": "function",
            "function": {"name": "y", "arguments": "{bad"},
            "extra_content": {"thought_signature": "s"}}]})),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
        json!({"choices": [], "usage": {"prompt_tokens": 30, "completion_tokens": 4,
            "prompt_tokens_details": {"cached_tokens": 10}}}),
    ]) + "data: [DONE]\n\n";
    let turn = read(Api::Openai, &stream).unwrap();
    assert_eq!(turn.texts, ["Let me see"]);
    assert_eq!(arguments(&turn), [json!({"n": 1}), json!("{bad")]);
    assert_eq!(turn.usage, Usage { input: Some(20), output: Some(4), cache_read: Some(10), cache_write: None });
    assert_eq!(turn.message["tool_calls"][1]["function"]["arguments"], "{}", "broken arguments don't go back");
    assert_eq!(turn.message["tool_calls"][1]["extra_content"]["thought_signature"], "s");
    assert_eq!(
        read(Api::Openai, &stream[..200]),
        Err(BadAnswer::Malformed("an event of the stream is not valid JSON".into()))
    );
    let first = stream.split_inclusive("\n\n").next().unwrap();
    assert_eq!(read(Api::Openai, first), Err(BadAnswer::Incomplete));
}

/// Local servers: whole arguments in one delta (as text or as an object), the same index for every call, no index,
/// no id, no usage, no `[DONE]`.
#[test]
fn what_local_servers_leave_out_is_tolerated() {
    let delta =
        |calls: Value| json!({"choices": [{"delta": {"content": "", "tool_calls": calls}, "finish_reason": null}]});
    let end = json!({"choices": [{"delta": {}, "finish_reason": "stop"}]});
    let same_index = [
        delta(json!([{"index": 0, "id": "a", "function": {"name": "x", "arguments": "{\"n\":1}"}}])),
        delta(json!([{"index": 0, "id": "b", "function": {"name": "x", "arguments": "{\"n\":2}"}}])),
        end.clone(),
    ];
    let nothing_but_names = [
        delta(json!([{"function": {"name": "x", "arguments": {"n": 1}}},
                {"function": {"name": "x", "arguments": {"n": 2}}}])),
        end.clone(),
    ];
    let same_index_no_id = [
        delta(json!([{"index": 0, "id": "", "function": {"name": "x", "arguments": "{\"n\":1}"}}])),
        delta(json!([{"index": 0, "id": "", "function": {"name": "x", "arguments": "{\"n\":2}"}}])),
        end.clone(),
    ];
    for stream in [&same_index[..], &nothing_but_names[..], &same_index_no_id[..]] {
        let mut turn = read(Api::Openai, &lines(stream)).unwrap();
        assert_eq!(arguments(&turn), [json!({"n": 1}), json!({"n": 2})]);
        assert_eq!(turn.usage, Usage::default());
        turn.name_calls(3);
        assert!(turn.calls.iter().all(|call| !call.id.is_empty()));
        assert_ne!(turn.calls[0].id, turn.calls[1].id);
        for (call, sent) in turn.calls.iter().zip(turn.message["tool_calls"].as_array().unwrap()) {
            assert_eq!(sent["id"], call.id.as_str());
        }
        assert_eq!(turn.message["content"], Value::Null);
    }
    let pieces_without_index = [
        delta(json!([{"id": "a", "function": {"name": "x", "arguments": "{\"n\""}}])),
        delta(json!([{"function": {"arguments": ":1}"}}])),
        end,
    ];
    assert_eq!(arguments(&read(Api::Openai, &lines(&pieces_without_index)).unwrap()), [json!({"n": 1})]);
}

#[test]
fn an_openai_answer_in_one_piece_is_read_too() {
    let whole = json!({"choices": [{"message": {"content": [{"type": "text", "text": "hi"}],
        "tool_calls": [{"id": "a", "function": {"name": "x", "arguments": "{}"}}]}, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2}});
    let turn = Api::Openai.whole(&whole).unwrap();
    assert_eq!((turn.texts, turn.calls.len(), turn.usage.cache_read), (vec!["hi".to_owned()], 1, None));
    assert!(matches!(Api::Openai.whole(&json!({})), Err(BadAnswer::Malformed(_))));
    let refused = json!({"choices": [{"message": {"content": null, "refusal": "no"}, "finish_reason": "stop"}]});
    assert_eq!(Api::Openai.whole(&refused).unwrap().stop, Stop::Refused);
    assert!(matches!(Api::Openai.whole(&json!({"error": {"message": "m"}})), Err(BadAnswer::Failure(_))));
}

#[test]
fn anthropic_calls_without_id_get_one_in_the_history_too() {
    let whole =
        json!({"content": [{"type": "text", "text": "t"}, {"type": "tool_use", "name": "x", "input": {"n": 1}}]});
    let mut turn = Api::Anthropic.whole(&whole).unwrap();
    turn.name_calls(1);
    assert_eq!(turn.calls[0].id, "call_1_0");
    assert_eq!(turn.message["content"][1]["id"], "call_1_0");
}

#[test]
fn outcomes_go_back_in_order() {
    let outcomes = [
        ToolOutcome { id: "a".into(), content: "1".into(), is_error: false },
        ToolOutcome { id: "b".into(), content: "no".into(), is_error: true },
    ];
    let sent = Api::Anthropic.outcomes(&outcomes);
    assert_eq!(sent.len(), 1, "one message");
    assert_eq!(sent[0]["content"][0], json!({"type": "tool_result", "tool_use_id": "a", "content": "1"}));
    assert_eq!(sent[0]["content"][1]["is_error"], true);
    let sent = Api::Openai.outcomes(&outcomes);
    assert_eq!(sent[1], json!({"role": "tool", "tool_call_id": "b", "content": "no"}));
}
