//! The agent's loop against a scripted model and a real MCP server, over real sockets.

mod servers;

use std::path::PathBuf;

use serde_json::{Value, json};

use super::*;
use base::HumanDuration;
use servers::{Plain, Tools};
use testkit::model::{DEMO_PROMPT, Script, ScriptedModel, demo_script};

const KEY: &str = "sk-test-0123456789";

struct Run {
    code: i32,
    events: Vec<AgentEvent>,
    text: String,
}

impl Run {
    fn result(&self) -> &RunResult {
        match self.events.last() {
            Some(AgentEvent::Result(result)) => result,
            other => panic!("the last event is {other:?} in {}", self.text),
        }
    }

    fn error(&self) -> &Failure {
        self.result().error.as_ref().unwrap_or_else(|| panic!("no error in {}", self.text))
    }

    fn types(&self) -> Vec<String> {
        let kind = |event| serde_json::to_value(event).unwrap()["type"].as_str().unwrap().to_owned();
        self.events.iter().map(kind).collect()
    }
}

struct Setting {
    _dir: tempfile::TempDir,
    path: PathBuf,
    servers: Option<String>,
    key: Option<String>,
}

impl Setting {
    fn new(config: &AgentConfig, mcp_url: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent.json");
        std::fs::write(&path, serde_json::to_string(config).unwrap()).unwrap();
        let servers = json!({"mcpServers": {"butler": {"type": "http", "url": mcp_url,
            "headers": {"Authorization": "Bearer session-token-1", "X-Extra": "yes"}}}});
        Self { _dir: dir, path, servers: Some(servers.to_string()), key: Some(KEY.to_owned()) }
    }

    async fn run(&self) -> Run {
        let env = |name: &str| match name {
            CONFIG_ENV => Some(self.path.display().to_string()),
            MCP_ENV => self.servers.clone(),
            "MODEL_KEY" => self.key.clone(),
            _ => None,
        };
        let mut out = Vec::new();
        let code = run(&env, &mut out).await;
        let text = String::from_utf8(out).unwrap();
        assert!(!text.contains(KEY) && !text.contains("session-token-1"), "a secret is in {text}");
        let events: Vec<AgentEvent> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let results = events.iter().filter(|event| matches!(event, AgentEvent::Result(_))).count();
        assert_eq!(results, 1, "exactly one result in {text}");
        Run { code, events, text }
    }
}

fn config(api: Api, model: &ScriptedModel, prompt: &str) -> AgentConfig {
    let base = match api {
        Api::Anthropic => model.base_url(),
        Api::Openai => model.openai_base_url(),
    };
    let mut config = AgentConfig::new(api, &base, "scripted-1", prompt);
    config.api_key_env = Some("MODEL_KEY".to_owned());
    config.system_prompt = "You are a butler.".to_owned();
    config.retry_delay = HumanDuration::from_millis(1);
    config
}

async fn model(script: Value) -> ScriptedModel {
    ScriptedModel::start(Script::from_value(script).unwrap()).await.unwrap()
}

/// Runs one conversation of these steps in both wire formats, with the tools at hand.
async fn both(steps: Value, change: impl Fn(&mut AgentConfig)) -> Vec<Run> {
    let mut runs = Vec::new();
    for api in [Api::Anthropic, Api::Openai] {
        let tools = Tools::start().await;
        let model = model(json!({"conversations": [{"when": "go", "steps": steps}]})).await;
        let mut config = config(api, &model, "go");
        change(&mut config);
        runs.push(Setting::new(&config, &tools.url()).run().await);
    }
    runs
}

#[tokio::test]
async fn a_whole_conversation_in_both_formats() {
    for api in [Api::Anthropic, Api::Openai] {
        let tools = Tools::start().await;
        let model = model(json!({"conversations": [{"when": "go", "steps": [
            {"say": "First I look.", "calls": [
                {"tool": "state_set", "arguments": {"key": "colour", "value": "teal"}},
                {"tool": "state_get", "arguments": {"key": "colour"}}]},
            {"call": {"tool": "module_states"},
                "usage": {"input_tokens": 7, "output_tokens": 3, "cache_read_tokens": 2}},
            {"say": "It is {{result.1./value}}; modules: {{last_result}}."}]}]}))
        .await;
        let run = Setting::new(&config(api, &model, "go"), &tools.url()).run().await;
        assert_eq!(run.code, 0, "{}", run.text);
        let wanted = [
            "init",
            "text",
            "usage",
            "tool_call",
            "tool_result",
            "tool_call",
            "tool_result",
            "usage",
            "tool_call",
            "tool_result",
            "text",
            "usage",
            "result",
        ];
        assert_eq!(run.types(), wanted);
        let AgentEvent::Init { tools: names, mcp_connected, .. } = &run.events[0] else { panic!("{}", run.text) };
        assert!(*mcp_connected && names.contains(&"module.states".to_owned()), "{names:?}");
        let result = run.result();
        assert!(result.ok && result.error.is_none());
        assert_eq!(result.final_text.as_deref(), Some("It is teal; modules: {\"modules\":[]}."));
        assert_eq!((result.turns, result.usage.input, result.usage.output), (3, Some(2207), Some(43)));
        assert_eq!(result.usage.cache_read, Some(2));
        assert_eq!(result.usage.cache_write, (api == Api::Anthropic).then_some(0));
        assert_eq!(
            tools.calls(),
            [
                ("state_set".to_owned(), json!({"key": "colour", "value": "teal"})),
                ("state_get".to_owned(), json!({"key": "colour"})),
                ("module.states".to_owned(), json!({})),
            ],
            "in the model's order, under their MCP names"
        );
        let AgentEvent::ToolCall { id, name, .. } = &run.events[7 + 1] else { panic!("{}", run.text) };
        assert!(!id.is_empty() && name == "module.states");

        let requests = model.requests();
        assert_eq!(requests.len(), 3);
        let (path, header, value) = match api {
            Api::Anthropic => ("/v1/messages", "x-api-key", KEY.to_owned()),
            Api::Openai => ("/v1/chat/completions", "authorization", format!("Bearer {KEY}")),
        };
        for request in &requests {
            assert_eq!(request.path, path);
            assert!(request.has_key(header, &value));
        }
        // Every request of MCP carried query, token and header, and none opened a session.
        let seen = tools.seen();
        assert!(seen.len() >= 5);
        for (query, token, extra, session) in seen {
            assert_eq!((query.as_str(), token.as_str()), ("runtime_session_id=s1", "Bearer session-token-1"));
            assert_eq!((extra.as_str(), session.as_str()), ("yes", ""));
        }
    }
}

#[tokio::test]
async fn the_demonstration_s_script_uses_the_tools_own_numbers() {
    let tools = Tools::start().await;
    let model = ScriptedModel::start(demo_script().unwrap()).await.unwrap();
    let run = Setting::new(&config(Api::Anthropic, &model, DEMO_PROMPT), &tools.url()).run().await;
    let text = run.result().final_text.clone().unwrap_or_default();
    assert!(
        text.starts_with("Logged: 81.4 kg. Readings in the last 30 days: 4, the first 82.6 kg, the newest 81.4 kg"),
        "{text}"
    );
    assert_eq!(tools.calls()[0].1, json!({"kind": "weight", "value": {"kg": 81.4}}));
}

#[tokio::test]
async fn refusals_and_faults_of_tools_are_told_to_the_model() {
    let steps = json!([
        {"calls": [{"tool": "refuse"}, {"tool": "break"}, {"tool": "absent_tool", "arguments": {"a": 1}}]},
        {"say": "1 {{result.0}} 2 {{result.1}} 3 {{result.2}}"}]);
    for run in both(steps, |_| {}).await {
        assert_eq!(run.code, 0, "{}", run.text);
        assert_eq!(
            run.result().final_text.as_deref(),
            Some(
                "1 {\"status\":\"error\",\"error\":\"not today\"} 2 wires crossed \
                 3 There is no tool named `absent_tool`."
            )
        );
        let errors = run.events.iter().filter(|e| matches!(e, AgentEvent::ToolResult { is_error: true, .. })).count();
        assert_eq!(errors, 3);
    }
}

#[tokio::test]
async fn passing_faults_are_tried_again_and_reported() {
    let steps = json!([
        {"fail": {"status": 529, "times": 1}}, {"fail": {"status": 429, "times": 1, "headers": {"retry-after": "0"}}},
        {"fail": {"status": 500, "times": 1}}, {"cut": {"times": 1}}, {"say": "done"}]);
    for run in both(steps, |config| config.max_retries = 4).await {
        assert_eq!(run.code, 0, "{}", run.text);
        let retries: Vec<(ErrorClass, u32, Option<u16>)> = run
            .events
            .iter()
            .filter_map(|event| match event {
                AgentEvent::Retry { class, attempt, status, .. } => Some((*class, *attempt, *status)),
                _ => None,
            })
            .collect();
        assert_eq!(
            retries,
            [
                (ErrorClass::Overloaded, 1, Some(529)),
                (ErrorClass::RateLimited, 2, Some(429)),
                (ErrorClass::Overloaded, 3, Some(500)),
                (ErrorClass::ModelUnreachable, 4, None),
            ]
        );
        assert_eq!((run.result().turns, run.result().usage.input), (1, Some(1100)));
        assert_eq!(run.types().iter().filter(|kind| *kind == "text").count(), 1, "the cut answer left no text");
    }
}

#[tokio::test]
async fn lasting_faults_end_the_run_with_their_class() {
    let cases = [
        (json!({"status": 529}), ErrorClass::Overloaded, 2),
        (json!({"status": 429}), ErrorClass::RateLimited, 2),
        (json!({"status": 429, "headers": {"retry-after": "3600"}}), ErrorClass::RateLimited, 0),
        (json!({"status": 401, "body": format!("wrong key {KEY}")}), ErrorClass::Auth, 0),
        (json!({"status": 403}), ErrorClass::Auth, 0),
        (json!({"status": 402}), ErrorClass::Budget, 0),
        (json!({"status": 400}), ErrorClass::InvalidRequest, 0),
        (json!({"status": 307, "headers": {"location": "http://127.0.0.1:9/"}}), ErrorClass::InvalidRequest, 0),
        (
            json!({"status": 400, "body": "prompt is too long: 210000 tokens > 200000 maximum"}),
            ErrorClass::ContextTooLong,
            0,
        ),
    ];
    for (fail, class, retries) in cases {
        for run in both(json!([{"fail": fail}]), |config| config.max_retries = 2).await {
            assert_eq!(run.code, 1);
            assert_eq!(run.error().class, class, "{}", run.text);
            assert_eq!(run.types().iter().filter(|kind| *kind == "retry").count(), retries, "{}", run.text);
            assert_eq!((run.result().turns, run.result().usage), (0, Usage::default()));
        }
    }
}

#[tokio::test]
async fn a_model_that_hangs_or_is_away_is_named_so() {
    for run in both(json!([{"hang": true}]), |config| config.request_timeout = HumanDuration::from_millis(50)).await {
        assert_eq!(run.error().class, ErrorClass::TimedOut, "{}", run.text);
    }
    let tools = Tools::start().await;
    let gone = model(json!({"conversations": []})).await;
    let mut config = config(Api::Anthropic, &gone, "go");
    config.max_retries = 1;
    gone.shutdown().await;
    let run = Setting::new(&config, &tools.url()).run().await;
    assert_eq!(run.error().class, ErrorClass::ModelUnreachable, "{}", run.text);
    assert!(run.error().message.contains("Connection refused"), "{}", run.text);
    assert_eq!(run.types(), ["init", "retry", "result"]);
}

#[tokio::test]
async fn too_many_turns_end_the_run_before_the_last_calls() {
    let steps = json!([{"call": {"tool": "state_get", "arguments": {"key": "a"}}}, {"call": {"tool": "module.states"}},
        {"say": "never"}]);
    for run in both(steps, |config| config.max_turns = 2).await {
        assert_eq!((run.code, run.error().class), (1, ErrorClass::Turns), "{}", run.text);
        assert!(run.error().message.contains("module.states after 2 turns"), "{}", run.text);
        assert_eq!(run.result().turns, 2);
        let made = run.types().iter().filter(|kind| *kind == "tool_call").count();
        assert_eq!(made, 1, "a call whose result nobody reads is not made");
    }
}

#[tokio::test]
async fn without_mcp_no_model_is_asked() {
    let model = model(json!({"conversations": [{"when": "go", "steps": [{"say": "hi"}]}]})).await;
    let config = config(Api::Anthropic, &model, "go");
    let tools = Tools::start().await;
    let refused = tools.url().replace("runtime_session_id=s1", "deny=1");
    let away = format!("http://127.0.0.1:{}/mcp", free_port().await);
    for url in [refused, away] {
        let run = Setting::new(&config, &url).run().await;
        assert_eq!((run.code, run.error().class), (1, ErrorClass::McpUnreachable), "{}", run.text);
        assert_eq!(run.types(), ["result"]);
    }
    let mut setting = Setting::new(&config, &tools.url());
    for servers in [None, Some("nonsense".to_owned()), Some(r#"{"mcpServers":{}}"#.to_owned())] {
        setting.servers = servers;
        assert_eq!(setting.run().await.error().class, ErrorClass::McpUnreachable);
    }
    assert!(model.requests().is_empty());
}

#[tokio::test]
async fn mcp_lost_on_the_way_is_a_failure_of_the_run() {
    let tools = Tools::start().await;
    let model =
        model(json!({"conversations": [{"when": "go", "steps": [{"call": {"tool": "drop_me"}}, {"say": "hi"}]}]}))
            .await;
    let run = Setting::new(&config(Api::Openai, &model, "go"), &tools.url()).run().await;
    assert_eq!((run.code, run.error().class), (1, ErrorClass::McpUnreachable), "{}", run.text);
    assert_eq!(model.requests().len(), 1, "the model is not asked again");
}

#[tokio::test]
async fn a_tool_that_never_answers_is_told_as_unknown() {
    let steps = json!([{"call": {"tool": "hang"}}, {"say": "{{last_result}}"}]);
    for run in both(steps, |config| config.tool_timeout = HumanDuration::from_millis(50)).await {
        let text = run.result().final_text.clone().unwrap_or_default();
        assert!(run.result().ok && text.contains("took effect is unknown"), "{text}");
    }
}

/// A server of the older kind: no `server/discover`, plain JSON answers, no sessions.
#[tokio::test]
async fn servers_of_the_older_protocol_are_understood() {
    let plain = Plain::start().await;
    let model =
        model(json!({"conversations": [{"when": "go", "steps": [{"call": {"tool": "echo", "arguments": {"a": 1}}},
        {"say": "{{last_result}}"}]}]}))
        .await;
    let run = Setting::new(&config(Api::Anthropic, &model, "go"), &plain.url()).run().await;
    assert_eq!(run.result().final_text.as_deref(), Some("{\"a\":1}"), "{}", run.text);
    assert!(plain.methods().starts_with(&["server/discover".to_owned(), "initialize".to_owned()]));
}

#[tokio::test]
async fn a_missing_key_or_configuration_is_said_before_anything_is_done() {
    let model = model(json!({"conversations": []})).await;
    let tools = Tools::start().await;
    let mut setting = Setting::new(&config(Api::Anthropic, &model, "go"), &tools.url());
    for key in [None, Some(String::new()), Some("line\nbreak".to_owned())] {
        setting.key = key;
        let run = setting.run().await;
        assert_eq!(run.error().class, ErrorClass::Auth, "{}", run.text);
        assert!(run.error().message.contains("MODEL_KEY"), "{}", run.text);
    }
    std::fs::write(&setting.path, "{}").unwrap();
    let run = setting.run().await;
    assert_eq!(run.error().class, ErrorClass::InvalidRequest);
    assert!(
        run.error().message.contains("agent.json") && run.error().message.contains("missing field"),
        "{}",
        run.text
    );
    assert!(model.requests().is_empty() && tools.seen().is_empty());
}

#[tokio::test]
async fn servers_that_never_speak_of_usage_leave_it_unknown() {
    for api in [Api::Anthropic, Api::Openai] {
        let tools = Tools::start().await;
        let model =
            model(json!({"report_usage": false, "conversations": [{"when": "go", "steps": [{"say": "hi"}]}]})).await;
        let run = Setting::new(&config(api, &model, "go"), &tools.url()).run().await;
        assert_eq!((run.result().ok, run.result().usage), (true, Usage::default()), "{}", run.text);
    }
}

/// Answers in one document instead of a stream, with endings that no step of a script has.
#[tokio::test]
async fn cut_refused_and_senseless_answers_are_no_success() {
    let message = |reason: &str| {
        json!({"stop_reason": reason, "content": [{"type": "text", "text": "Half an"},
            {"type": "tool_use", "id": "a", "name": "state_get", "input": {}}]})
    };
    let cases = [
        (message("max_tokens"), ErrorClass::OutputLimit, Some("Half an"), 1),
        (message("refusal"), ErrorClass::Refused, Some("Half an"), 1),
        (message("model_context_window_exceeded"), ErrorClass::ContextTooLong, Some("Half an"), 1),
        (json!({"hello": "world"}), ErrorClass::Crashed, None, 0),
    ];
    for (body, class, text, turns) in cases {
        let tools = Tools::start().await;
        let steps = json!([{"fail": {"status": 200, "body": body}}]);
        let model = model(json!({"conversations": [{"when": "go", "steps": steps}]})).await;
        let run = Setting::new(&config(Api::Anthropic, &model, "go"), &tools.url()).run().await;
        assert_eq!((run.code, run.error().class), (1, class), "{}", run.text);
        assert_eq!((run.result().final_text.as_deref(), run.result().turns), (text, turns));
        assert!(tools.calls().is_empty(), "calls of a cut answer are not made");
    }
}

#[tokio::test]
async fn a_fault_of_its_own_still_ends_with_a_result() {
    let mut out = Vec::new();
    let code = run(&|_| panic!("a fault for the test"), &mut out).await;
    let event: AgentEvent = serde_json::from_slice(&out).unwrap();
    let AgentEvent::Result(result) = event else { panic!("{event:?}") };
    assert_eq!((code, result.ok, result.error.map(|e| e.class)), (1, false, Some(ErrorClass::Crashed)));
}

async fn free_port() -> u16 {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    listener.local_addr().unwrap().port()
}

#[tokio::test]
async fn pictures_go_with_the_prompt_and_stay_away_where_the_model_takes_none() {
    for api in [Api::Anthropic, Api::Openai] {
        let tools = Tools::start().await;
        let refusal = json!({"fail": {"status": 400, "times": 1, "body": "this model does not support image input"}});
        let model = model(json!({"conversations": [{"when": "go", "steps": [refusal, {"say": "I see none."}]}]})).await;
        let mut config = config(api, &model, "go");
        config.images = vec![Image { media_type: "image/png".into(), data: "iVBORw0=".into() }];
        let run = Setting::new(&config, &tools.url()).run().await;
        assert_eq!(run.code, 0, "{}", run.text);
        let asked = model.requests();
        let shown: Vec<String> = asked.iter().map(|r| r.body["messages"].to_string()).collect();
        let picture = match api {
            Api::Anthropic => json!({"type": "base64", "media_type": "image/png", "data": "iVBORw0="}),
            Api::Openai => json!({"url": "data:image/png;base64,iVBORw0="}),
        };
        assert!(shown[0].contains(&picture.to_string()) && !shown[1].contains("iVBORw0="), "{shown:?}");
        assert!(shown[1].contains("could not be shown to you"), "{shown:?}");
    }
}

#[tokio::test]
async fn text_is_told_as_it_is_written_where_that_is_wanted() {
    for run in both(json!([{"say": "Good morning to you."}]), |config| config.stream_text = true).await {
        let mut written = String::new();
        for event in &run.events {
            match event {
                AgentEvent::TextDelta { start, text } => {
                    assert_eq!(*start, written.len(), "{}", run.text);
                    written.push_str(text);
                }
                AgentEvent::Text { text } => assert!(text.starts_with(&written), "{}", run.text),
                _ => {}
            }
        }
    }
    for run in both(json!([{"say": "Good morning to you."}]), |_| {}).await {
        assert!(!run.events.iter().any(|event| matches!(event, AgentEvent::TextDelta { .. })), "{}", run.text);
    }
}
