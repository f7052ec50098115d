//! Each way in which a model, a butler's tools or a child can fail, with each runtime's real program: the session ends
//! within its limits, as failed, and for the right reason.

use serde_json::{Value, json};
use testkit::model::ScriptedModel;

use crate::support::{Daemon, Household, Mcp, RUNTIMES, Runtime, eventually, installed, leads_a_session, model, ports};

/// What happens, and the error class that a session of each runtime ends with, in the order of [`RUNTIMES`].
type Row = (&'static str, [&'static str; 4]);

/// The model server answers, but not with an answer.
const ANSWERS: [Row; 8] = [
    ("overloaded (529)", ["overloaded"; 4]),
    ("internal error (500)", ["overloaded"; 4]),
    ("too many requests (429)", ["rate_limited"; 4]),
    ("wrong key (401)", ["auth"; 4]),
    ("bad request (400)", ["invalid_request"; 4]),
    ("too long a conversation", ["context_too_long"; 4]),
    ("the stream is cut", ["model_unreachable"; 4]),
    ("more turns than allowed", ["turns"; 4]),
];

/// A child that somebody else ends. One of the programs makes an orderly end of it.
const SIGNALS: [(Row, i32); 2] = [
    (("SIGTERM from outside", ["crashed"; 4]), libc::SIGTERM),
    (("SIGINT from outside", ["cancelled", "crashed", "crashed", "crashed"]), libc::SIGINT),
];

const MODEL_DOWN: Row = ("the model server is down", ["model_unreachable"; 4]);
const MCP_DOWN: Row = ("the butler's tools are not reachable", ["mcp_unreachable"; 4]);

/// No session here comes near its end by the clock.
const LIMITS: &str = "max_concurrent_sessions = 2\nmax_queued = 50\nsession_timeout = \"4m\"\nmax_turns = 8\n";

fn class_of(row: &Row, runtime: &Runtime) -> &'static str {
    row.1[RUNTIMES.iter().position(|r| r == runtime).expect("one of them")]
}

/// The prompt that plays a row for a runtime.
fn prompt(row: &Row, runtime: &Runtime) -> String {
    format!("{} with {}", row.0, runtime.kind)
}

/// What the model does in a row; `None` where it is not asked.
fn steps(what: &str, runtime: &Runtime) -> Value {
    let fail = |status: u16| json!([{"fail": {"status": status}}]);
    match what {
        "overloaded (529)" => fail(529),
        "internal error (500)" => fail(500),
        "too many requests (429)" => fail(429),
        "wrong key (401)" => fail(401),
        "bad request (400)" => fail(400),
        // Each vendor has words of its own for it.
        "too long a conversation" => {
            let body = match runtime.kind {
                "codex" => json!({"error": {"message": "Your input exceeds the context window of this model.",
                    "type": "invalid_request_error", "code": "context_length_exceeded"}}),
                "gemini" => {
                    json!("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).")
                }
                _ => json!("prompt is too long: 210000 tokens > 200000 maximum"),
            };
            json!([{"fail": {"status": 400, "body": body}}])
        }
        "the stream is cut" => json!([{"cut": true}, {"say": "Nobody reads this to its end."}]),
        "more turns than allowed" => {
            let call = |n| json!({"call": {"tool": "state_set", "arguments": {"key": "n", "value": n}}});
            (0..40).map(call).collect()
        }
        _ => json!([{"hang": true}]),
    }
}

/// The household of a row: its sessions are tried once, so that each shows its own end.
fn household(household: Household, runtimes: &[Runtime]) -> Household {
    household.with_runtimes(runtimes, LIMITS).env("BUTLERD_SPAWNER__RETRIES", "0")
}

/// A model that plays all rows in which it is asked.
async fn scripted(runtimes: &[Runtime]) -> ScriptedModel {
    let rows = ANSWERS.iter().chain(SIGNALS.iter().map(|(row, _)| row));
    let all = rows.flat_map(|row| runtimes.iter().map(move |runtime| (row, runtime)));
    let escaped = |text: &str| text.replace('(', "\\(").replace(')', "\\)");
    model(
        all.map(|(row, runtime)| json!({"when": escaped(&prompt(row, runtime)), "steps": steps(row.0, runtime)}))
            .collect(),
    )
    .await
}

/// Waits for the end of a session and says what is wrong with it.
async fn judge(butler: Mcp, row: Row, runtime: Runtime) -> Option<String> {
    let done = butler.ok("trigger", json!({"prompt": prompt(&row, &runtime)})).await;
    let session = butler.ok("sessions_get", json!({"session_id": done["session_id"]})).await;
    let expected = (json!("failed"), json!(class_of(&row, &runtime)));
    let words = session["error"].as_str().unwrap_or_default();
    let right = (&session["state"], &session["error_class"]) == (&expected.0, &expected.1)
        && (&done["success"], &done["error_class"]) == (&json!(false), &expected.1);
    let leaked = words.contains("sk-test-key") || words.is_empty();
    (!right || leaked).then(|| format!("{} with {}: expected {expected:?}, got {session}", row.0, runtime.kind))
}

/// Plays rows with all runtimes at once, and shows all that went wrong together.
async fn play(daemon: &Daemon, rows: &[Row], runtimes: &[Runtime]) {
    let sessions: Vec<_> = rows
        .iter()
        .flat_map(|row| runtimes.iter().map(move |runtime| (*row, *runtime)))
        .map(|(row, runtime)| tokio::spawn(judge(daemon.mcp(runtime.kind), row, runtime)))
        .collect();
    let mut wrong = Vec::new();
    for session in sessions {
        wrong.extend(session.await.expect("an answer"));
    }
    assert!(wrong.is_empty(), "{}\n", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_that_does_not_answer_as_it_should_has_its_class_with_every_runtime() {
    let runtimes = installed("failures::a_model_that_does_not_answer_as_it_should_has_its_class_with_every_runtime");
    let model = scripted(&runtimes).await;
    let household = household(Household::with_model(&model), &runtimes);
    let daemon = household.start().await;
    play(&daemon, &ANSWERS, &runtimes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_that_somebody_else_ends_has_failed_whatever_it_exits_with() {
    let runtimes = installed("failures::a_child_that_somebody_else_ends_has_failed_whatever_it_exits_with");
    let model = scripted(&runtimes).await;
    let household = household(Household::with_model(&model), &runtimes);
    let daemon = household.start().await;
    let work = household.data().join("work");
    let mut ended = Vec::new();
    for (row, signal) in SIGNALS {
        for runtime in &runtimes {
            let (butler, prompt) = (daemon.mcp(runtime.kind), prompt(&row, runtime));
            let session = tokio::spawn(judge(butler.clone(), row, *runtime));
            let (model, work) = (&model, work.clone());
            ended.push(async move {
                // It waits for its model: so it is in the middle of its work.
                model
                    .wait_for(|all| all.iter().any(|r| r.answer == "hang" && r.body.to_string().contains(&prompt)))
                    .await;
                let listed = butler.ok("sessions_list", json!({})).await;
                let running = listed.as_array().into_iter().flatten().find(|s| s["prompt"] == prompt.as_str());
                let id = running.and_then(|s| s["id"].as_str()).unwrap_or_else(|| panic!("not listed: {listed}"));
                let home = work.join(id).to_string_lossy().into_owned();
                let pid = eventually("the child", || async { child_of(&home).ok_or_else(|| home.clone()) }).await;
                // SAFETY: a plain system call; the process is a child of the daemon that this test started.
                unsafe { libc::kill(pid, signal) };
                session.await.expect("an answer")
            });
        }
    }
    let wrong: Vec<String> = futures_util::future::join_all(ended).await.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{}\n", wrong.join("\n"));
}

/// The process whose environment names this workspace, and none that it has started, which may have a smaller number.
fn child_of(home: &str) -> Option<i32> {
    let entries = std::fs::read_dir("/proc").expect("proc").flatten();
    entries.filter_map(|e| Some((e.file_name().to_str()?.parse().ok()?, e.path()))).find_map(|(pid, path)| {
        let environ = std::fs::read(path.join("environ")).unwrap_or_default();
        (String::from_utf8_lossy(&environ).contains(home) && leads_a_session(&path)).then_some(pid)
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_server_that_is_down_is_unreachable_with_every_runtime() {
    let runtimes = installed("failures::a_model_server_that_is_down_is_unreachable_with_every_runtime");
    let (_taken, nobody) = ports::nobodys();
    let nobody = format!("http://{nobody}");
    let endpoints = Household::new()
        .env("BUTLERD_SPAWNER__ENDPOINTS__ANTHROPIC", &nobody)
        .env("BUTLERD_SPAWNER__ENDPOINTS__OPENAI", &format!("{nobody}/v1"))
        .env("BUTLERD_SPAWNER__ENDPOINTS__GEMINI", &nobody);
    let household = household(endpoints, &runtimes);
    let daemon = household.start().await;
    play(&daemon, &[MODEL_DOWN], &runtimes).await;
    // What no model has seen has cost nothing, and that is known.
    for runtime in &runtimes {
        let butler = daemon.mcp(runtime.kind);
        let listed = butler.ok("sessions_list", json!({})).await;
        let ids: Vec<&Value> = listed.as_array().into_iter().flatten().map(|session| &session["id"]).collect();
        assert_eq!(ids.len(), 1, "{}: {listed}", runtime.kind);
        let session = butler.ok("sessions_get", json!({"session_id": ids[0]})).await;
        let cost = session["cost_usd"].as_str().and_then(|usd| usd.parse::<f64>().ok());
        assert_eq!(cost, Some(0.0), "{}: {session}", runtime.kind);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_butlers_tools_no_session_succeeds_with_any_runtime() {
    let runtimes = installed("failures::without_its_butlers_tools_no_session_succeeds_with_any_runtime");
    // The model would let each of them succeed.
    let model = model(json!([{"when": MCP_DOWN.0, "steps": [{"say": "All is well."}]}])).await;
    let household = household(Household::with_model(&model), &runtimes);
    let household = household.env("BUTLERD_FAULT_POINT", "session.mcp_down");
    let daemon = household.start().await;
    play(&daemon, &[MCP_DOWN], &runtimes).await;
}
