//! A newcomer at a terminal, with nothing but the program and a model server.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::model::{Script, ScriptedModel};

use crate::support::{Daemon, Household, Terminal};

/// A server that lists one model, as Ollama does.
async fn ollama() -> ScriptedModel {
    let script = json!({"models": ["qwen3:8b"], "conversations": [
        {"when": "Say: ready", "steps": [{"say": "ready"}]},
        {"when": "Route the message in", "steps": [
            {"call": {"tool": "route_to_butler", "arguments": {"butler": "general", "prompt": "hello"}}}]},
        {"when": "hello", "steps": [{"say": "Good morning, Ada."}]},
    ]});
    let script = Script::from_value(script).expect("a right script");
    ScriptedModel::start(script).await.expect("the scripted model starts")
}

/// An empty directory. `vendors`: where their addresses lead.
fn nothing(vendors: &str) -> Household {
    let household = Household::bare()
        .env("BUTLERD_SPAWNER__ENDPOINTS__ANTHROPIC", vendors)
        .env("BUTLERD_SPAWNER__ENDPOINTS__OPENAI", vendors);
    std::fs::remove_dir_all(household.roster()).expect("no roster");
    std::fs::remove_dir_all(household.path().join("config")).expect("no settings");
    household
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_nothing_to_the_first_answer_with_a_model_server_at_home() {
    let model = ollama().await;
    let url = model.openai_base_url();
    let household = nothing("http://127.0.0.1:9").env("OLLAMA_HOST", &url);
    let data = household.data().to_string_lossy().into_owned();
    let started = Instant::now();
    let mut typed = 0;
    let mut init = Terminal::open(&household, &["init", "--data-dir", &data]);
    for (question, answer) in [
        ("Your name", "Ada"),
        ("Your time zone", ""),
        ("Its number or word [ollama]", ""),
        ("Its address", ""),
        ("Which model [qwen3:8b]", ""),
        ("Which butlers", ""),
    ] {
        init.answers(question, answer).await;
        typed += 1;
    }
    init.sees("Now: butlerd serve").await;
    init.end();
    let shown = init.shown();
    assert!(shown.contains("ollama      Ollama, which runs here with 1 model"), "{shown}");
    assert!(shown.contains("ok: qwen3:8b answered in "), "{shown}");
    let settings = std::fs::read_to_string(household.path().join("config/butlerd.toml")).expect("the settings");
    let lines = format!("[runtime]\ntype = \"native\"\napi = \"openai\"\nendpoint = \"{url}\"\nmodel = \"qwen3:8b\"\n");
    assert!(settings.contains(&lines), "{settings}");
    let daemon = household.start().await;
    first_screen(&daemon).await;
    let mut chat = Terminal::open(&household, &["chat", "--data-dir", &data]);
    chat.answers("> ", "hello").await;
    chat.sees("Good morning, Ada.").await;
    let took = started.elapsed();
    eprintln!("from init to the first answer: {typed} answers, {:.1} s", took.as_secs_f64());
    assert!(typed <= 6 && took < Duration::from_secs(60), "{typed} answers, {took:?}");
    // Each butler has what the household has.
    let status = daemon.status().await;
    for butler in status["butlers"].as_array().expect("butlers") {
        assert_eq!(butler["model"]["runtime"], "native", "{butler}");
    }
    // The doctor asks once more, through the daemon, and says how long that took.
    let (_, report, _) = tokio::task::block_in_place(|| household.cli(&["doctor"]));
    assert!(report.contains(&format!("qwen3:8b at {url} answered in ")), "{report}");
    // The lists have none.
    let asked = model.requests().into_iter().map(|request| request.body["model"].clone());
    let named: Vec<Value> = asked.filter(|name| !name.is_null()).collect();
    assert!(named.len() >= 3 && named.iter().all(|name| name == "qwen3:8b"), "{named:?}");
}

/// What the first start says: one screen without an alarm, which ends with what to do.
async fn first_screen(daemon: &Daemon) {
    daemon.logged(&["now, in another terminal: butlerd chat --data-dir "], 1).await;
    let log = daemon.log();
    // What this machine's kernel lacks is no false alarm.
    let of_machine = |line: &&str| line.contains("sandbox: ") || line.contains("control group");
    let lines: Vec<&str> = log.lines().filter(|line| !of_machine(line)).collect();
    let alarms: Vec<&&str> = lines.iter().filter(|line| line.contains(" WARN ") || line.contains("ERROR")).collect();
    assert!(alarms.is_empty(), "{alarms:#?}");
    assert!(lines.len() <= 20, "{} lines:\n{log}", lines.len());
}

/// The doctor's report, as a program reads it.
async fn doctor(household: &Household) -> Vec<Value> {
    let (_, out, err) = tokio::task::block_in_place(|| household.cli(&["doctor", "--json"]));
    let report: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"));
    report["findings"].as_array().expect("findings").clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doctor_names_a_model_that_is_away_and_a_program_that_is_old() {
    let old = "#!/bin/sh\necho '2.1.100 (Claude Code)'\n";
    let household = Household::bare()
        .env("BUTLERD_RUNTIME__API", "openai")
        .env("BUTLERD_RUNTIME__ENDPOINT", "http://127.0.0.1:9/v1")
        .env("BUTLERD_RUNTIME__MODEL", "qwen3:8b")
        .runtime("health", "type = \"claude-code\"")
        .write("claude", old);
    let claude = household.roster().join("claude");
    std::fs::set_permissions(&claude, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("the mode");
    // It stands outside of the roster, which sessions may not see.
    let program = household.path().join("claude");
    std::fs::rename(claude, &program).expect("moved");
    let household = household.env("BUTLERD_SPAWNER__CLIS__CLAUDE", &program.to_string_lossy());
    let findings = doctor(&household).await;
    let of = |topic: &str, text: &str| {
        let found = |f: &&Value| f["topic"] == topic && f["text"].as_str().is_some_and(|t| t.contains(text));
        let found = findings.iter().find(found);
        found.unwrap_or_else(|| panic!("no {topic} with {text:?}: {findings:#?}")).clone()
    };
    let away = of("models", "qwen3:8b at http://127.0.0.1:9/v1 did not answer: ");
    assert!(away["level"] == "problem" && away["text"].as_str().is_some_and(|t| t.contains("refused")), "{away}");
    assert!(of("models", "there is no key for it")["text"].as_str().is_some_and(|t| t.contains("health")));
    let program = of("programs", "is older than 2.1.197");
    assert_eq!((&program["level"], program["advice"].is_string()), (&json!("warning"), true), "{program}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_answer_is_asked_again() {
    let model = ollama().await;
    let household = nothing("http://127.0.0.1:9").env("OLLAMA_HOST", "127.0.0.1:9");
    let data = household.data().to_string_lossy().into_owned();
    let mut init = Terminal::open(&household, &["init", "--data-dir", &data]);
    init.answers("Your name", "Ada").await;
    init.answers("Your time zone", "").await;
    init.answers("Its number or word [anthropic]", "12").await;
    init.sees("no: `12` is not in the list; type a number from 1 to 9.").await;
    init.answers("Its number or word", "compatible").await;
    init.answers("Its address", "127.0.0.1:9").await;
    init.answers("Its key", "").await;
    init.sees("no: no list of models from http://127.0.0.1:9/v1/models: Connection refused").await;
    init.answers("Its number or word", "4").await;
    init.answers("Its address", &model.openai_base_url()).await;
    init.answers("Its key", "sk-typed-and-never-shown").await;
    init.answers("Which model", "llama9").await;
    init.sees("no: the server has no model `llama9`.").await;
    init.answers("Its number or word", "4").await;
    init.answers("Its address", &model.openai_base_url()).await;
    init.answers("Its key", "sk-typed-and-never-shown").await;
    init.answers("Which model", "").await;
    init.sees("ok: qwen3:8b answered in").await;
    init.answers("Which butlers", "health").await;
    init.sees("OPENAI_API_KEY, encrypted in the database").await;
    init.sees("Now: butlerd serve").await;
    init.end();
    assert!(!init.shown().contains("sk-typed"), "{}", init.shown());
    let settings = std::fs::read_to_string(household.path().join("config/butlerd.toml")).expect("the settings");
    assert!(settings.contains("model = \"qwen3:8b\"") && !settings.contains("sk-typed"), "{settings}");
}
