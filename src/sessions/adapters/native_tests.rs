use rust_decimal::Decimal;

use super::*;
use crate::adapters::tests::{CODE, told_to};

fn invocation() -> Invocation {
    Invocation { model: Some("m-1".into()), ..told_to() }
}

fn config(composed: &Composed) -> Value {
    serde_json::from_slice(&composed.files[0].contents).unwrap()
}

fn replay(lines: &[&str]) -> (Vec<RunEvent>, Outcome) {
    let mut parser = Native.parser(&[]);
    let events = lines.iter().flat_map(|line| parser.line(line)).collect();
    (events, parser.finish(CODE(0), ""))
}

#[test]
fn it_is_this_binary_with_one_file_and_one_key() {
    let composed = Native.compose(&invocation()).unwrap();
    assert_eq!(
        (composed.program.to_str(), composed.args.as_slice()),
        (Some("/proc/self/exe"), &["agent".to_owned()][..])
    );
    assert_eq!(composed.stdin, None);
    let names: Vec<&str> = composed.env.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        ["ANTHROPIC_API_KEY", "BUTLERD_AGENT_CONFIG", "HOME", "MCP_SERVERS", "PATH", "TMPDIR", "TRACEPARENT"]
    );
    assert_eq!(composed.env[1].1, "/s/agent.json");
    assert_eq!((composed.files[0].path.to_str(), composed.files[0].mode), (Some("agent.json"), 0o600));
    let expected = json!({"api": "anthropic", "base_url": "https://api.anthropic.com", "model": "m-1",
        "api_key_env": "ANTHROPIC_API_KEY", "system_prompt": "You are Health.", "prompt": "private words",
        "max_turns": 20, "one_round": false, "stream_text": false});
    assert_eq!(config(&composed), expected, "no key in the file");
}

#[test]
fn limits_are_handed_on_and_a_local_model_needs_no_key() {
    let mut inv = invocation();
    inv.api = Api::Openai;
    assert!(matches!(Native.compose(&inv), Err(AdapterError::NoKey { .. })), "a key for another protocol");
    inv.base_url = Some("http://127.0.0.1:11434/v1".into());
    inv.max_output_tokens = Some(100);
    inv.request_timeout = Some(std::time::Duration::from_millis(1500));
    inv.max_retries = Some(0);
    let composed = Native.compose(&inv).unwrap();
    let config = config(&composed);
    assert_eq!((&config["api_key_env"], &config["base_url"]), (&Value::Null, &json!("http://127.0.0.1:11434/v1")));
    assert_eq!((&config["request_timeout"], &config["max_retries"]), (&json!("1500ms"), &json!(0)));
    assert!(!composed.env.iter().any(|(name, _)| name.ends_with("_KEY")));
    inv.model = None;
    assert!(matches!(Native.compose(&inv), Err(AdapterError::NoModel(_))));
}

#[test]
fn a_run_is_read_to_its_result() {
    let (events, outcome) = replay(&[
        r#"{"type":"init","model":"m","tools":["state_get"],"mcp_connected":true}"#,
        r#"{"type":"retry","class":"rate_limited","attempt":2,"delay_ms":500,"status":429}"#,
        r#"{"type":"text","text":"hello"}"#,
        r#"{"type":"tool_call","id":"t1","name":"module.states","arguments":{"a":1}}"#,
        r#"{"type":"tool_result","id":"t1","name":"module.states","is_error":false,"content":"{}","duration_ms":3}"#,
        r#"{"type":"usage","input":5,"output":2,"cache_read":null,"cache_write":null}"#,
        r#"{"type":"something_new"}"#,
        r#"{"type":"result","ok":true,"final_text":"done","turns":2,"error":null,
            "usage":{"input":10,"output":4,"cache_read":0,"cache_write":null}}"#,
    ]);
    let usage = Usage { input: Some(5), output: Some(2), cache_read: None, cache_write: None };
    let name = || "module.states".to_owned();
    let expected = [
        RunEvent::McpConnected(true),
        RunEvent::Retry {
            class: ErrorClass::RateLimited,
            attempt: 2,
            delay_ms: Some(500),
            status: Some(429),
            message: None,
        },
        RunEvent::Text("hello".into()),
        RunEvent::ToolCall { id: "t1".into(), name: name(), arguments: json!({"a": 1}) },
        RunEvent::ToolResult { id: "t1".into(), name: name(), is_error: false, content: "{}".into() },
        RunEvent::Usage(usage),
        RunEvent::Final,
    ];
    assert_eq!(events, expected);
    let usage = Usage { input: Some(10), output: Some(4), cache_read: Some(0), cache_write: None };
    let cost_usd: Option<Decimal> = None;
    let expected = Outcome { ok: true, final_text: Some("done".into()), usage, cost_usd, turns: Some(2), error: None };
    assert_eq!(outcome, expected);
}

#[test]
fn failures_keep_their_class_and_success_needs_the_tools() {
    let init = r#"{"type":"init","model":"m","tools":[],"mcp_connected":true}"#;
    for class in [
        "auth",
        "rate_limited",
        "overloaded",
        "model_unreachable",
        "context_too_long",
        "budget",
        "turns",
        "output_limit",
        "refused",
        "mcp_unreachable",
        "timed_out",
        "invalid_request",
        "crashed",
    ] {
        let line = format!(r#"{{"type":"result","ok":false,"turns":0,"error":{{"class":"{class}","message":"why"}}}}"#);
        let error = replay(&[init, &line]).1.error.unwrap();
        assert_eq!((error.class.as_str(), error.message.as_str()), (class, "why"));
        assert_eq!(serde_json::to_value(error.class).unwrap(), class);
    }
    let class = |lines: &[&str]| replay(lines).1.error.map(|e| e.class);
    let ok = r#"{"type":"result","ok":true,"final_text":"x","turns":1,"error":null}"#;
    assert_eq!(class(&[init, ok]), None);
    assert_eq!(class(&[ok]), Some(ErrorClass::McpUnreachable));
    assert_eq!(class(&[&init.replace("true", "false"), ok]), Some(ErrorClass::McpUnreachable));
    assert_eq!(class(&[init, &ok.replace("true", "false")]), Some(ErrorClass::Crashed));
    let contradiction = ok.replace("null", r#"{"class":"new_class","message":"m"}"#);
    assert_eq!(class(&[init, &contradiction]), Some(ErrorClass::Crashed));
    assert_eq!(class(&[init]), Some(ErrorClass::Crashed));
}
