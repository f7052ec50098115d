//! A newcomer at a terminal, with nothing but the program and a model server.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use process::Kernel;
use serde_json::{Value, json};
use testkit::model::{Script, ScriptedModel};

use crate::support::{Daemon, Household, Terminal};
use what_was_left_out::left_out;

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
    let last = lines.last().copied().unwrap_or_default();
    assert!(last.contains("now, in another terminal: butlerd chat --data-dir "), "it is not the last line:\n{log}");
}

/// The doctor's report, as a program reads it.
async fn doctor(household: &Household) -> Vec<Value> {
    let (_, out, err) = tokio::task::block_in_place(|| household.cli(&["doctor", "--json"]));
    let report: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"));
    report["findings"].as_array().expect("findings").clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doctor_names_a_model_that_is_away_and_a_program_that_is_old() {
    // A vendor that does not take the key.
    let refusing = json!([{"when": "Say: ready", "steps": [{"fail": {"status": 401}}]}]);
    let refusing = crate::support::model(refusing).await;
    let url = refusing.openai_base_url();
    let household = Household::bare();
    // A file that the machine's users may read, and sessions may not. The shell's own `read` needs no other program.
    let outside = household.path().join("outside");
    std::fs::write(&outside, "seen\n").expect("a file");
    std::fs::set_permissions(&outside, std::os::unix::fs::PermissionsExt::from_mode(0o644)).expect("its mode");
    let old = match Kernel::here().is_enough() {
        true => format!(
            "#!/bin/sh\nif read -r line < '{}'; then kill -ABRT $$; fi\necho '2.1.100 (Claude Code)'\n",
            outside.display()
        ),
        false => {
            left_out("first_hour", "the doctor's programs run in no sandbox: this kernel has none");
            "#!/bin/sh\necho '2.1.100 (Claude Code)'\n".to_owned()
        }
    };
    let household = household
        .env("BUTLERD_RUNTIME__API", "openai")
        .env("BUTLERD_RUNTIME__ENDPOINT", "http://127.0.0.1:9/v1")
        .env("BUTLERD_RUNTIME__MODEL", "qwen3:8b")
        .env("OPENAI_API_KEY", "sk-wrong-key-for-the-doctor")
        .runtime("health", "type = \"claude-code\"")
        .runtime("travel", &format!("endpoint = \"{url}\""))
        .runtime("finance", &format!("endpoint = \"{url}\""))
        .write("claude", &old);
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
    let refused = of("models", &format!("qwen3:8b at {url} did not answer: "));
    let text = refused["text"].as_str().unwrap_or_default();
    assert!(refused["level"] == "problem" && text.contains("401"), "{refused}");
    assert!(text.ends_with("; for finance, travel") && !text.contains("sk-wrong"), "{refused}");
    assert!(refused["advice"].as_str().is_some_and(|advice| advice.contains("the key")), "{refused}");
    // The same program is not run where the sandbox is off: there it would read the file.
    if Kernel::here().is_enough() {
        let household = household.env("BUTLERD_SPAWNER__SANDBOX", "off");
        let findings = doctor(&household).await;
        let program = findings.iter().find(|f| f["topic"] == "programs" && f["level"] == "problem");
        let program = program.unwrap_or_else(|| panic!("{findings:#?}"));
        let (text, advice) = (program["text"].as_str().unwrap_or_default(), program["advice"].as_str());
        assert!(text.starts_with("claude: ") && text.contains("SIGABRT: it broke down by itself"), "{text}");
        assert!(advice.is_some_and(|advice| advice.starts_with("Update it")), "{program}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_answer_is_asked_again() {
    let model = ollama().await;
    let household = nothing("http://127.0.0.1:9").env("OLLAMA_HOST", "127.0.0.1:9");
    let data = household.data().to_string_lossy().into_owned();
    let mut init = Terminal::open(&household, &["init", "--data-dir", &data]);
    init.answers("Your name", "").await;
    init.sees("no: a household needs an owner's name.").await;
    init.answers("Your name", "Ada").await;
    init.answers("Your time zone", "Rome").await;
    init.sees("no: `Rome` is not a time zone").await;
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
    init.answers("Which butlers", "health, gardener").await;
    init.sees("no: No butler `gardener` is shipped").await;
    init.answers("Which butlers", "health").await;
    init.sees("OPENAI_API_KEY, encrypted in the database").await;
    init.sees("Now: butlerd serve").await;
    init.end();
    assert!(!init.shown().contains("sk-typed"), "{}", init.shown());
    let settings = std::fs::read_to_string(household.path().join("config/butlerd.toml")).expect("the settings");
    assert!(settings.contains("model = \"qwen3:8b\"") && !settings.contains("sk-typed"), "{settings}");
}

/// A vendor that takes one key and has nothing but an empty list.
fn vendor(right: &'static str) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("its address"));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = Vec::new();
            let mut part = [0; 1024];
            while !head.windows(4).any(|end| end == b"\r\n\r\n") {
                match stream.read(&mut part) {
                    Ok(n @ 1..) => head.extend_from_slice(&part[..n]),
                    _ => break,
                }
            }
            let known = String::from_utf8_lossy(&head).contains(right);
            let status = if known { "200 OK" } else { "401 Unauthorized" };
            let answer =
                format!("HTTP/1.1 {status}\r\nContent-Length: 13\r\nConnection: close\r\n\r\n{{\"models\":[]}}");
            // A client that is gone needs no answer.
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    url
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_tried_at_its_vendor_before_it_is_kept() {
    const RIGHT: &str = "sk-right-and-never-shown";
    let script = json!([{"when": "Say: ready", "steps": [{"fail": {"status": 401, "times": 1}}, {"say": "ready"}]}]);
    let model = crate::support::model(script).await;
    // The program is not there, whatever the key is worth.
    let household = nothing(&model.base_url())
        .env("OLLAMA_HOST", "127.0.0.1:9")
        .env("BUTLERD_SPAWNER__ENDPOINTS__GEMINI", &vendor("x-goog-api-key: AIza-right"))
        .env("BUTLERD_SPAWNER__CLIS__GEMINI", "/nonexistent/gemini");
    let data = household.data().to_string_lossy().into_owned();
    let mut init = Terminal::open(&household, &["init", "--data-dir", &data]);
    init.answers("Your name", "Ada").await;
    init.answers("Your time zone", "").await;
    for (key, said) in [("AIza-wrong", "401 Unauthorized"), ("AIza-right", "ok: GEMINI_API_KEY is taken by http://")] {
        init.answers("Its number or word", "google").await;
        init.answers("GEMINI_API_KEY", key).await;
        init.sees("/nonexistent/gemini").await;
        init.sees(said).await;
        init.answers("Take it all the same", "").await;
    }
    for (key, said) in [("sk-wrong", "401"), (RIGHT, "ok: claude-sonnet-4-5 answered in ")] {
        init.answers("Its number or word", "anthropic").await;
        init.answers("ANTHROPIC_API_KEY", key).await;
        init.answers("Which model", "").await;
        init.sees(said).await;
        if key != RIGHT {
            init.answers("Take it all the same", "no").await;
        }
    }
    init.answers("Which butlers", "health").await;
    init.sees("ANTHROPIC_API_KEY, encrypted in the database").await;
    init.sees("Now: butlerd serve").await;
    init.end();
    let tries = model.requests();
    let keys: Vec<bool> = tries.iter().map(|request| request.has_key("x-api-key", RIGHT)).collect();
    assert_eq!(keys, [false, true], "each key was tried once");
    let shown = init.shown();
    assert!(["AIza", "sk-"].iter().all(|key| !shown.contains(key)), "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_not_be_tried_is_said_and_flags_are_tried_too() {
    let init = |household: &Household, args: &[&str]| {
        let (code, out, err) = tokio::task::block_in_place(|| household.cli(&[&["init"], args].concat()));
        (code, format!("{out}{err}"))
    };
    // With flags nothing is asked, and a model that is away is a warning.
    let household = nothing("http://127.0.0.1:9");
    let away = ["--owner", "Ada", "--butlers", "health", "--endpoint", "http://127.0.0.1:9/v1", "--model", "qwen3:8b"];
    let (_, said) = init(&household, &away);
    assert!(said.contains("warning: ") && said.contains("http://127.0.0.1:9/v1"), "{said}");
    assert!(said.contains("made ") && said.contains("Now: butlerd serve"), "{said}");
    // A vendor's program tells its version; a subscription can't be tried.
    let household = nothing("http://127.0.0.1:9");
    let claude = household.path().join("claude");
    std::fs::write(&claude, "#!/bin/sh\necho '2.1.200 (Claude Code)'\n").expect("a program");
    std::fs::set_permissions(&claude, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("its mode");
    let household = household.env("BUTLERD_SPAWNER__CLIS__CLAUDE", &claude.to_string_lossy());
    let (_, said) = init(&household, &["--owner", "Ada", "--butlers", "health", "--runtime", "claude-code"]);
    assert!(said.contains("/claude (2.1.200 (Claude Code))"), "{said}");
    assert!(said.contains("not tried: there is no key for the model yet"), "{said}");
    // A sample that sets nothing is no household's settings.
    let household = nothing("http://127.0.0.1:9");
    let config = household.path().join("config");
    std::fs::create_dir(&config).expect("the directory");
    let sample = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("config/butlerd.toml");
    std::fs::copy(sample, config.join("butlerd.toml")).expect("the sample");
    for args in [&[][..], &away] {
        let (code, said) = init(&household, args);
        assert!(code == 1 && said.contains("butlerd.toml is there, and sets no owner; nothing was changed"), "{said}");
        assert!(said.contains("Set [owner] name") && !said.contains("with owner"), "{said}");
        assert!(!household.roster().exists(), "{said}");
    }
}
