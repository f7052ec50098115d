//! The model gateway: what of a child's reaches the model, what of the model's reaches a child, and what ends where.

mod asked;
mod slow;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use testkit::model::LoggedRequest;
use tokio::process::Command;

use crate::support::{Daemon, Household, butlerd, child_environment, eventually, http, model, ports};
use slow::{EVENTS, Slow, answering};
use what_was_left_out::left_out;

const KEY: &str = "sk-test-key-of-the-scripted-model";

/// A session of `general` whose program waits for its model, and that session's token.
struct Waiting {
    session: tokio::task::JoinHandle<Value>,
    token: String,
    servers: String,
    url: String,
}

impl Waiting {
    async fn start(household: &Household, daemon: &Daemon) -> Self {
        let general = daemon.mcp("general");
        let session =
            tokio::spawn(async move { general.call("trigger", json!({"prompt": "wait for it"})).await.result() });
        let (environment, _) = child_environment(household).await;
        let text = environment["MCP_SERVERS"].clone();
        let servers: Value = serde_json::from_str(&text).expect("JSON");
        let proof = servers["mcpServers"]["butler"]["headers"]["Authorization"].as_str().expect("a token");
        let token = proof.strip_prefix("Bearer ").expect("a bearer's").to_owned();
        Self { session, token, servers: text, url: format!("http://127.0.0.1:{}", daemon.info["gateway"]) }
    }

    /// A request to the gateway with these headers.
    async fn ask(&self, path: &str, headers: &[(&str, &str)], prompt: &str) -> (u16, Value) {
        let body = json!({"model": "m", "stream": false, "messages": [{"role": "user", "content": prompt}]});
        let mut request = http().post(format!("{}{path}", self.url)).json(&body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = request.send().await.expect("an answer");
        (answer.status().as_u16(), answer.json().await.unwrap_or(Value::Null))
    }

    async fn say(&self, prompt: &str) -> (u16, Value) {
        self.ask("/v1/messages", &[("x-api-key", &self.token)], prompt).await
    }

    /// Cancels the session and returns how it ended.
    async fn cancel(self, household: &Household) -> Value {
        let (code, out, err) = household.cli(&["sessions", "list", "--json"]);
        assert_eq!(code, 0, "{out}{err}");
        let list: Value = serde_json::from_str(&out).expect("JSON");
        let list = list["items"].as_array().expect("sessions");
        let id = list.iter().find(|s| s["state"] == "running").and_then(|s| s["id"].as_str()).expect("it runs");
        let (code, out, err) = household.cli(&["sessions", "cancel", id]);
        assert_eq!(code, 0, "{out}{err}");
        self.session.await.expect("its end")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_model_gets_the_key_and_the_row_what_the_gateway_counted() {
    let usage = json!({"input_tokens": 30, "output_tokens": 5, "cache_read_tokens": 200, "cache_write_tokens": 7});
    let call = json!({"tool": "state_set", "arguments": {"key": "a", "value": 1}});
    let model = model(json!([{"when": "count", "steps": [
        {"fail": {"status": 529, "times": 1}},
        {"call": call, "usage": usage}, {"say": "done", "usage": usage}]}]))
    .await;
    let household = Household::with_model(&model);
    let daemon = household.start().await;
    let general = daemon.mcp("general");
    let done = general.ok("trigger", json!({"prompt": "count"})).await;
    assert_eq!(done["success"], true, "{done}\n{}", daemon.log());
    let requests = model.requests();
    assert_eq!(requests.len(), 3);
    for request in &requests {
        assert!(request.has_key("x-api-key", KEY), "{:?}", request.headers);
        assert!(!request.headers.contains_key("authorization"), "{:?}", request.headers);
    }
    let row = general.ok("sessions_get", json!({"session_id": done["session_id"]})).await;
    let counts = ["input_tokens", "output_tokens", "cached_input_tokens", "cache_creation_tokens", "turns"];
    assert_eq!(counts.map(|c| row[c].as_i64()), [60, 10, 400, 14, 2].map(Some), "{row}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_door_opens_for_live_sessions_and_known_paths_only() {
    let model = model(json!([
        {"when": "wait", "steps": [{"hang": true}]},
        {"when": "hello", "steps": [{"say": "hi"}]},
    ]))
    .await;
    let household = Household::with_model(&model);
    let daemon = household.start().await;
    let waiting = Waiting::start(&household, &daemon).await;
    let token = waiting.token.clone();
    let bearer = format!("Bearer {token}");
    let (status, answer) = waiting.say("hello").await;
    assert_eq!((status, &answer["content"][0]["text"]), (200, &json!("hi")), "{answer}");
    let both = [("x-api-key", token.as_str()), ("authorization", bearer.as_str())];
    assert_eq!(waiting.ask("/v1/messages", &both, "hello").await.0, 200);
    let operator = daemon.token();
    let wrong: [&[(&str, &str)]; 5] = [
        &[],
        &[("x-api-key", "wrong")],
        &[("x-api-key", &operator)],
        &[("x-api-key", &token), ("authorization", "Bearer other")],
        &[("authorization", "Basic eDp5")],
    ];
    // The waiting session's own, and two.
    eventually("what was asked so far has arrived", || async {
        let asked = model.requests().len();
        if asked == 3 { Ok(()) } else { Err(format!("{asked} requests")) }
    })
    .await;
    let asked = model.requests().len();
    for headers in wrong {
        let (status, answer) = waiting.ask("/v1/messages", headers, "hello").await;
        assert_eq!((status, &answer["error"]["message"].is_string()), (401, &true), "{headers:?}: {answer}");
    }
    let own = [("x-api-key", token.as_str())];
    for path in ["/", "/v1/files", "/v1/responses", "/v1beta/models/m:generateContent", "/v1/messages/../files"] {
        assert_eq!(waiting.ask(path, &own, "hello").await.0, 404, "{path}");
    }
    for extra in [("host", "evil.example"), ("origin", "http://evil.example")] {
        assert_eq!(waiting.ask("/v1/messages", &[own[0], extra], "hello").await.0, 403, "{extra:?}");
    }
    assert_eq!(model.requests().len(), asked, "nothing of these reached the model");
    let url = waiting.url.clone();
    let ended = waiting.cancel(&household).await;
    assert_eq!(ended["error_class"], "cancelled", "{ended}");
    let after = http().post(format!("{url}/v1/messages")).header("x-api-key", &token).json(&json!({}));
    assert_eq!(after.send().await.expect("an answer").status(), 401, "the token of a session that is over");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_pass_as_they_come_and_a_client_that_leaves_ends_the_request() {
    let mut slow = Slow::start().await;
    let household =
        Household::new().env("BUTLERD_SPAWNER__ENDPOINTS__ANTHROPIC", &slow.base_url()).env("ANTHROPIC_API_KEY", KEY);
    let daemon = household.start().await;
    let waiting = Waiting::start(&household, &daemon).await;
    slow.asked("wait for it").await;
    let body = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "piecemeal"}]});
    let ask = || http().post(format!("{}/v1/messages", waiting.url)).bearer_auth(&waiting.token).json(&body).send();
    let mut answer = ask().await.expect("an answer's head, before any event");
    slow.asked("piecemeal").await;
    for event in EVENTS {
        // The next event is let go only when this one has arrived: a buffer would wait for ever.
        slow.go.add_permits(1);
        let mut got = String::new();
        while !got.ends_with("\n\n") {
            got.push_str(&String::from_utf8_lossy(&answer.chunk().await.expect("a piece").expect("not the end")));
        }
        assert_eq!(got, format!("data: {event}\n\n"));
    }
    assert_eq!(answer.chunk().await.expect("the end"), None);

    let answer = ask().await.expect("a head");
    slow.asked("piecemeal").await;
    drop(answer);
    slow.gone().await;

    // The session's end closes what is under way for it.
    let left = ask().await.expect("a head");
    slow.asked("piecemeal").await;
    waiting.cancel(&household).await;
    slow.gone().await;
    drop(left);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_past_the_limit_is_refused_and_ends_the_session() {
    let model = model(json!([
        {"when": "wait", "steps": [{"hang": true}]},
        {"when": "hello", "steps": [{"say": "hi"}]},
    ]))
    .await;
    let household = Household::with_model(&model)
        .replace("general/butler.toml", "max_queued = 20", "max_queued = 20\nmax_turns = 2")
        .env("BUTLERD_SPAWNER__FINAL_EVENT_GRACE", "1s");
    let daemon = household.start().await;
    let waiting = Waiting::start(&household, &daemon).await;
    model.wait_for(|seen| seen.len() == 1).await;
    assert_eq!(waiting.say("hello").await.0, 200);
    let (status, answer) = waiting.say("hello").await;
    assert_eq!((status, &answer["error"]["type"]), (402, &json!("billing_error")), "{answer}");
    assert_eq!(model.requests().len(), 2, "the third call never reached the model");
    // The program goes on waiting; it is ended, and the reason is the limit.
    let ended = waiting.session.await.expect("its end");
    assert_eq!((&ended["success"], &ended["error_class"]), (&json!(false), &json!("turns")), "{ended}");
    let row = daemon.mcp("general").ok("sessions_get", json!({"session_id": ended["session_id"]})).await;
    assert_eq!((&row["state"], &row["turns"]), (&json!("failed"), &json!(2)), "{row}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_upstreams_own_words_reach_the_row_without_the_key() {
    let quoted = json!({"error": {"type": "authentication_error", "message": format!("no such key: {KEY}")}});
    let model = model(json!([
        {"when": "locked out", "steps": [{"fail": {"status": 401, "times": 99, "body": quoted}}]},
    ]))
    .await;
    let household = Household::with_model(&model);
    let daemon = household.start().await;
    let done = daemon.mcp("general").ok("trigger", json!({"prompt": "locked out"})).await;
    assert_eq!((&done["success"], &done["error_class"]), (&json!(false), &json!("auth")), "{done}");
    let error = done["error"].as_str().expect("words");
    assert!(error.contains("401") && error.contains("no such key: [hidden]"), "{error}");
    let (_taken, nobody) = ports::nobodys();
    let away = Household::new()
        .env("BUTLERD_SPAWNER__ENDPOINTS__ANTHROPIC", &format!("http://{nobody}"))
        .env("ANTHROPIC_API_KEY", KEY);
    let daemon = away.start().await;
    let done = daemon.mcp("general").ok("trigger", json!({"prompt": "anybody there?"})).await;
    assert_eq!((&done["success"], &done["error_class"]), (&json!(false), &json!("model_unreachable")), "{done}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_gateway_the_child_has_the_key_itself() {
    let model = model(json!([{"when": "wait", "steps": [{"hang": true}]}])).await;
    let household = Household::with_model(&model).env("BUTLERD_SPAWNER__GATEWAY", "false");
    let daemon = household.start().await;
    assert_eq!(daemon.info["gateway"], Value::Null);
    let general = daemon.mcp("general");
    let session = tokio::spawn(async move { general.call("trigger", json!({"prompt": "wait"})).await.result() });
    let (environment, _) = child_environment(&household).await;
    assert_eq!(environment["ANTHROPIC_API_KEY"], KEY);
    let asked = model.wait_for(|seen| seen.len() == 1).await;
    assert!(asked[0].has_key("x-api-key", KEY));
    let listed = daemon.mcp("general").ok("sessions_list", json!({})).await;
    let (code, out, err) = household.cli(&["sessions", "cancel", listed[0]["id"].as_str().expect("an id")]);
    assert_eq!(code, 0, "{out}{err}");
    session.await.expect("its end");
}

/// Claude Code with a subscription's login instead of a key: the token is swapped, and what marks it as one stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscriptions_login_stays_with_the_gateway() {
    let Some(program) = std::env::var_os("BUTLERD_TEST_CLAUDE") else {
        let why = "BUTLERD_TEST_CLAUDE is not set; `eval \"$(.ci/run clients)\"` installs Claude Code";
        return left_out("gateway::a_subscriptions_login_stays_with_the_gateway", why);
    };
    let model = model(json!([
        {"when": "hello", "steps": [{"say": "hi there"}]},
        {"when": "Are you ready", "steps": [{"say": "ready"}]}]))
    .await;
    let household = Household::new()
        .runtime("health", "type = \"claude-code\"")
        .model("health", "claude-sonnet-4-5")
        .env("BUTLERD_SPAWNER__CLIS__CLAUDE", program.to_str().expect("a path"))
        .env("BUTLERD_SPAWNER__ENDPOINTS__ANTHROPIC", &model.base_url())
        .env("CLAUDE_CODE_OAUTH_TOKEN", "sk-ant-oat-canary-of-the-owner");
    let daemon = household.start().await;
    let done = daemon.mcp("health").ok("trigger", json!({"prompt": "hello"})).await;
    assert_eq!((&done["success"], &done["output"]), (&json!(true), &json!("hi there")), "{done}\n{}", daemon.log());
    let before = model.requests();
    // The doctor has the program ask for a word with it.
    let (_, report, _) = tokio::task::block_in_place(|| household.cli(&["doctor"]));
    assert!(report.contains("claude-sonnet-4-5 at ") && report.contains(" s, for health"), "{report}");
    // The other butlers' runtime is asked as well, without a key.
    let of_program = |r: &LoggedRequest| !r.headers["user-agent"].starts_with("butlerd");
    let asked: Vec<LoggedRequest> = model.requests().into_iter().filter(of_program).collect();
    assert!(!before.is_empty() && asked.len() > before.len(), "{report}");
    for request in asked {
        assert!(request.has_key("authorization", "Bearer sk-ant-oat-canary-of-the-owner"), "{:?}", request.headers);
        assert!(!request.headers.contains_key("x-api-key"), "{:?}", request.headers);
        assert!(request.headers["anthropic-beta"].contains("oauth-"), "{:?}", request.headers);
    }
    eventually("no child is left", || async {
        let left = std::fs::read_dir(household.data().join("work")).map_or(0, Iterator::count);
        if left == 0 { Ok(()) } else { Err(format!("{left} workspaces")) }
    })
    .await;
}

/// Programs that go past a limit end with their first refused call, and try no other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_end_at_once_past_the_limit() {
    let model = model(json!([{"when": "wait", "steps": [{"hang": true}]}])).await;
    let household = Household::with_model(&model)
        .replace("general/butler.toml", "max_queued = 20", "max_queued = 20\nmax_turns = 1")
        .env("BUTLERD_SPAWNER__FINAL_EVENT_GRACE", "5m");
    let daemon = household.start().await;
    let waiting = Waiting::start(&household, &daemon).await;
    model.wait_for(|seen| seen.len() == 1).await;
    let file = household.path().join("agent.json");
    let config = json!({"api": "anthropic", "base_url": waiting.url, "model": "m", "prompt": "go on",
        "api_key_env": "ANTHROPIC_API_KEY", "max_retries": 5});
    std::fs::write(&file, config.to_string()).expect("the agent's file");
    let run = |program: &std::ffi::OsStr, args: &[&str]| {
        let mut command = Command::new(program);
        command.args(args).env_clear().current_dir(household.path()).kill_on_drop(true);
        command.env("HOME", household.path()).env("TMPDIR", household.path()).env("PATH", "/usr/bin:/bin");
        command.env("ANTHROPIC_API_KEY", &waiting.token).env("ANTHROPIC_BASE_URL", &waiting.url);
        command.env("MCP_SERVERS", &waiting.servers).env("BUTLERD_AGENT_CONFIG", &file);
        command.env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1").stdin(std::process::Stdio::null());
        async move {
            let out = command.output().await.expect("it runs");
            (out.status.code(), String::from_utf8_lossy(&out.stdout).into_owned())
        }
    };
    let (code, said) = run(butlerd().as_os_str(), &["agent"]).await;
    assert!(code == Some(1) && said.contains(r#""class":"budget""#) && !said.contains(r#""type":"retry""#), "{said}");
    match std::env::var_os("BUTLERD_TEST_CLAUDE") {
        Some(program) => {
            let args = ["-p", "go on", "--model", "m", "--output-format", "stream-json", "--verbose", "--tools", ""];
            let (code, said) = run(&program, &args).await;
            assert!(code == Some(1) && !said.contains("api_retry"), "{said}");
            assert!(said.contains(r#""api_error_status":402"#), "{said}");
        }
        None => left_out("gateway::programs_end_at_once_past_the_limit", "BUTLERD_TEST_CLAUDE is not set"),
    }
    assert_eq!(model.requests().len(), 1, "no refused call reached the model");
    let ended = waiting.cancel(&household).await;
    assert_eq!(ended["success"], false, "{ended}");
}

/// Codex with a ChatGPT login that is about to end: renewed once, stored, and known to the gateway alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_that_ends_is_renewed_and_the_child_has_none_of_it() {
    let Some(program) = std::env::var_os("BUTLERD_TEST_CODEX") else {
        let why = "BUTLERD_TEST_CODEX is not set; `eval \"$(.ci/run clients)\"` installs Codex";
        return left_out("gateway::a_login_that_ends_is_renewed_and_the_child_has_none_of_it", why);
    };
    let token = |claims: Value| format!("e30.{}.canary", URL_SAFE_NO_PAD.encode(claims.to_string()));
    let fresh = token(json!({"exp": 4_102_444_800i64}));
    let (login, mut renewals) =
        answering(json!({"access_token": fresh, "refresh_token": "canary-refresh-2"}).to_string()).await;
    let tokens =
        json!({"access_token": token(json!({"exp": 1})), "refresh_token": "canary-refresh-1", "account_id": "acc-7"});
    let model = model(json!([{"when": "hello", "steps": [{"say": "hi there"}]}])).await;
    let household = Household::new()
        .runtime("health", "type = \"codex\"")
        .model("health", "claude-sonnet-4-5")
        .env("BUTLERD_SPAWNER__CLIS__CODEX", program.to_str().expect("a path"))
        .env("BUTLERD_SPAWNER__ENDPOINTS__CHATGPT", &model.openai_base_url())
        .env("BUTLERD_SPAWNER__ENDPOINTS__CHATGPT_LOGIN", &login)
        .env("CODEX_AUTH_JSON", &json!({"tokens": tokens}).to_string());
    let daemon = household.start().await;
    for _ in 0..2 {
        let done = daemon.mcp("health").ok("trigger", json!({"prompt": "hello"})).await;
        assert_eq!((&done["success"], &done["output"]), (&json!(true), &json!("hi there")), "{done}\n{}", daemon.log());
    }
    let asked = renewals.recv().await.expect("a renewal");
    assert!(asked.contains("canary-refresh-1") && asked.contains("refresh_token"), "{asked}");
    assert!(renewals.try_recv().is_err(), "renewed once: the second session found it stored");
    for request in model.requests() {
        assert!(request.has_key("authorization", &format!("Bearer {fresh}")), "{:?}", request.headers);
        assert_eq!(request.headers["chatgpt-account-id"], "acc-7");
    }
    assert!(!daemon.log().contains("canary"), "a part of the login was logged");
}
