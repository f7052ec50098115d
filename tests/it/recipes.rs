//! What `new mcp` gives a butler, as docs/mcp-servers.md shows it: only the addresses are others, where fakes answer what
//! the real servers and services answered (tests/fixtures/recipes).

#[path = "../bin/fake_cli/replay.rs"]
mod replay;

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::http_tools::{Service, read};
use crate::inbound::{ended, ingest, message};
use crate::mcp_servers::{HEAD, cli, refused_with};
use crate::reload;
use crate::support::{Daemon, Household, Mcp, eventually, model};

/// What the recipes want stored, and what a service must be shown of it.
const SECRETS: [(&str, &str); 3] = [
    ("GITHUB_TOKEN", "github-token-that-nobody-may-see"),
    ("HOME_ASSISTANT_TOKEN", "home-token-that-nobody-may-see"),
    ("BRAVE_SEARCH_KEY", "search-key-that-nobody-may-see"),
];

/// What the butler has by the recipes: its name, whose it is, and the server's name.
const TOOLS: [(&str, &str, &str); 11] = [
    ("note_read", "files", "read_text_file"),
    ("files_list_directory", "files", "list_directory"),
    ("files_search_files", "files", "search_files"),
    ("github_issue_read", "github", "issue_read"),
    ("github_list_issues", "github", "list_issues"),
    ("github_search_issues", "github", "search_issues"),
    ("home_state", "home", "homeassistant__GetLiveContext"),
    ("home_turn_on", "home", "intent__HassTurnOn"),
    ("home_turn_off", "home", "intent__HassTurnOff"),
    ("home_light", "home", "light__HassLightSet"),
    ("web_read", "web", "fetch"),
];

/// What `new mcp` gives a butler.
const READY: [&str; 5] = ["files", "github", "home-assistant", "fetch", "search"];

/// What the page shows of one kind: what `new mcp` writes, and the example of `undo`.
fn examples(kind: &str) -> (Vec<&'static str>, Vec<&'static str>) {
    let page = include_str!("../../docs/mcp-servers.md");
    let after = page.split(&format!("```{kind}\n")).skip(1).collect::<Vec<_>>();
    let all = after.into_iter().map(|rest| rest.split("```").next().unwrap_or_default());
    all.partition(|text| !text.contains(".undo."))
}

fn shown(kind: &str) -> Vec<&'static str> {
    examples(kind).0
}

fn fixture(name: &str) -> Value {
    let file = format!("{}/tests/fixtures/recipes/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(&file).expect(&file)).expect(&file)
}

/// A household whose butler `visitor` was given all of it.
fn given(household: Household) -> Household {
    let household = household.butler("visitor", &format!("{HEAD}\n[modules.visitor]"));
    let notes = household.path().join("notes");
    std::fs::create_dir(&notes).expect("the directory");
    for name in READY {
        let mut args = vec!["new", "mcp", "visitor", name];
        args.extend((name == "files").then(|| ["--dir", notes.to_str().expect("a path")]).into_iter().flatten());
        let (code, out, err) = household.cli(&args);
        assert!(code == 0 && out.contains("then butlerd reload"), "{name}: {out}{err}");
        let next = out.lines().find_map(|line| line.strip_prefix("Next: ")?.strip_suffix(", then butlerd reload"));
        let page = include_str!("../../docs/mcp-servers.md");
        let told = next.is_some_and(|next| next.split(" && ").all(|part| page.contains(&format!("`{part}`"))));
        assert!(told, "the page has no {next:?}");
    }
    household
}

#[test]
fn what_the_page_shows_is_what_a_butler_is_given() {
    let taken = "\n[mcp.servers.x]\ncommand = [\"x\"]\ntools = [\"a\"]\nrename = { a = \"web_read\" }\n";
    let other = HEAD.replace("visitor", "other").replace("40189", "40190") + taken;
    let undoes = HEAD.replace("visitor", "undoes").replace("40189", "40191") + "\n" + &examples("toml").1.join("\n");
    let household = given(Household::bare().butler("other", &other).butler("undoes", &undoes));
    let read = |file: &str| std::fs::read_to_string(household.roster().join(file)).expect(file);
    let notes = household.path().join("notes").canonicalize().expect("the directory");
    let toml = read("visitor/butler.toml").replace(notes.to_str().expect("a path"), "/srv/notes");
    assert_eq!(toml, format!("{HEAD}\n[modules.visitor]\n\n{}", shown("toml").join("\n")));
    assert_eq!([read("visitor/tools/web_search.http").as_str()][..], shown("http"));
    let (code, out, err) = household.cli(&["check"]);
    assert_eq!(code, 0, "{out}{err}");

    // Nothing twice, and nothing that would not pass the check.
    let before = ["visitor/butler.toml", "other/butler.toml"].map(read);
    for (args, code, why) in [
        (&["visitor", "github"][..], 1, "[mcp.servers.github] of"),
        (&["visitor", "search"], 1, "web_search.http exists already"),
        (&["visitor", "files"], 2, "--dir DIR"),
        (&["visitor", "files", "--dir", "nowhere"], 2, "There is no directory"),
        (&["visitor", "fetch", "--dir", "/"], 2, "reads no directory"),
        (&["visitor", "weather"], 2, "home-assistant"),
        (&["nobody", "github"], 1, "butlerd new butler nobody"),
        (&["other", "search"], 1, "has no [modules.other]"),
        (&["other", "fetch"], 1, "web_read, a tool that the MCP server `x` has already"),
    ] {
        let (got, out, err) = household.cli(&[&["new", "mcp"], args].concat());
        assert!(got == code && err.contains(why), "{args:?}: {got} {out}{err}");
    }
    assert_eq!(["visitor/butler.toml", "other/butler.toml"].map(read), before);
}

/// GitHub, Home Assistant and the search service, until `refusing` is set: then no secret holds any more.
fn services(refusing: &Arc<AtomicBool>) -> Service {
    let (refusing, names) = (refusing.clone(), ["github", "home", "search"]);
    let recorded = names.map(fixture);
    Service::serving(move |mut stream: TcpStream, seen| {
        let Some(request) = read(&mut stream) else { return };
        seen.lock().expect("the requests").push(request.clone());
        let holds = |n: usize| !refusing.load(Ordering::SeqCst) && shows(&request, SECRETS[n].1);
        let target = request.split(' ').nth(1).unwrap_or_default();
        let answer = match target.split('?').next() {
            Some("/mcp/") => server(&recorded[0], &request, holds(0)),
            Some("/api/mcp") => server(&recorded[1], &request, holds(1)),
            Some("/res/v1/web/search") => search(&recorded[2], target, holds(2)),
            _ => reply("404 Not Found", &json!({}), ""),
        };
        let _ = stream.write_all(answer.as_bytes());
    })
}

/// Whether a header of the request has this secret, where the recipe puts it.
fn shows(request: &str, secret: &str) -> bool {
    let head = request.split("\r\n\r\n").next().unwrap_or_default();
    head.lines().filter_map(|line| line.split_once(": ")).any(|(name, value)| {
        let bearer = name.eq_ignore_ascii_case("authorization") && value == format!("Bearer {secret}");
        bearer || name.eq_ignore_ascii_case("x-subscription-token") && value == secret
    })
}

fn reply(status: &str, headers: &Value, body: &str) -> String {
    let headers = headers.as_object().into_iter().flatten();
    let headers: String = headers.map(|(k, v)| format!("{k}: {}\r\n", v.as_str().unwrap_or_default())).collect();
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n{body}", body.len())
}

/// An answer as it was recorded, with its status and headers.
fn recorded(answer: &Value) -> String {
    let body = answer["body"].as_str().map_or_else(|| answer["body"].to_string(), str::to_owned);
    reply(answer["status"].as_str().expect("a status"), &answer["headers"], &body)
}

/// One request to an MCP server: as a stream with a session, where it was recorded with one, else plain.
fn server(of: &Value, request: &str, let_in: bool) -> String {
    if !let_in {
        return recorded(&of["unauthorized"]);
    }
    let body = request.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    if !request.starts_with("POST ") {
        return reply("405 Method Not Allowed", &json!({}), "");
    }
    let message: Value = serde_json::from_str(body).expect("a message");
    if message["id"].is_null() {
        return reply("202 Accepted", &json!({}), "");
    }
    let mut said = json!({"jsonrpc": "2.0", "id": message["id"]});
    match replay::answer(of, message["method"].as_str().unwrap_or_default(), &message["params"]) {
        Ok(result) => said["result"] = result,
        Err(error) => said["error"] = error,
    }
    match of["session"].as_str() {
        Some(session) => {
            let headers = json!({"content-type": "text/event-stream", "mcp-session-id": session});
            reply("200 OK", &headers, &format!("event: message\ndata: {said}\n\n"))
        }
        None => reply("200 OK", &json!({"content-type": "application/json"}), &said.to_string()),
    }
}

fn search(of: &Value, target: &str, let_in: bool) -> String {
    let mut asked = of["requests"].as_array().into_iter().flatten().filter(|request| request["target"] == target);
    match asked.next() {
        _ if !let_in => recorded(&of["unauthorized"]),
        Some(request) => recorded(request),
        None => reply("422 Unprocessable Entity", &json!({"content-type": "application/json"}), "{}"),
    }
}

/// A household whose butler `visitor` was given all of it, with the fakes' addresses. No secret is stored yet.
fn cooked(household: Household, port: u16) -> Household {
    let program = household.fake_server();
    let mut household = given(household);
    // The servers that are programs: another one plays what they answered, and gets their arguments besides.
    for (name, theirs) in [("files", "mcp-server-filesystem"), ("web", "/opt/fetch/bin/mcp-server-fetch")] {
        let played = household.path().join(format!("{name}.json"));
        std::fs::write(&played, fixture(name).to_string()).expect("the recording");
        let command = format!("command = [{program:?}, \"--mcp-replay\", {played:?}");
        household = household.replace("visitor/butler.toml", &format!("command = [\"{theirs}\""), &command);
    }
    let here = format!("http://127.0.0.1:{port}");
    let inside = format!("allow_hosts: ['127.0.0.1:{port}']\nurl: {here}");
    household
        .replace("visitor/butler.toml", "https://api.githubcopilot.com", &here)
        .replace("visitor/butler.toml", "http://homeassistant.local:8123", &here)
        .replace("visitor/tools/web_search.http", "url: https://api.search.brave.com", &inside)
}

/// The prompts of sessions, and what they call one after the other.
fn prompts() -> Value {
    let call = |tool: &str, args: Value| json!({"call": {"tool": tool, "arguments": args}});
    let issues = || call("github_list_issues", json!({"owner": "owner-1", "repo": "garden", "state": "OPEN"}));
    let search = || call("web_search", json!({"query": "museum opening hours"}));
    let house = || call("home_state", json!({}));
    let plays = |when: &str, mut steps: Vec<Value>| {
        steps.push(json!({"say": "{{last_result}}"}));
        json!({"when": when, "steps": steps})
    };
    json!([
        plays("read the notes", vec![call("files_list_directory", json!({"path": "/srv/notes"}))]),
        plays("read the page", vec![call("web_read", json!({"url": "https://museum.example/visit"}))]),
        plays("search the web", vec![search()]),
        plays("look at the house", vec![house()]),
        plays("read the issues", vec![issues()]),
        plays("compare issues and house", vec![issues(), house()]),
        plays("search for the issues", vec![issues(), search()]),
        plays("do as the issues say", vec![issues(), call("home_turn_off", json!({"name": "Floor lamp"}))]),
    ])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_ready_works_as_recorded() {
    let model = model(prompts()).await;
    let refusing = Arc::new(AtomicBool::new(false));
    let service = services(&refusing);
    let household = cooked(Household::few_with_model(&model), service.port);
    let daemon = household.start().await;
    let mcp = daemon.mcp("visitor");
    secrets_are_asked_for(&household, &mcp).await;
    // It was started anew, on another free port.
    let mcp = reload::mcp(&daemon, "visitor").await;
    tools_are_the_recipes_own(&mcp).await;
    calls_are_answered_as_recorded(&mcp).await;
    wrong_arguments_are_refused(&mcp).await;
    labels_hold(&household, &mcp).await;
    a_stranger_is_told_nothing_of_the_house(&household, &daemon).await;

    // Each secret reached whom it is for, and nobody else.
    for (path, (name, secret)) in ["/mcp/", "/api/mcp", "/res/v1/web/search"].into_iter().zip(SECRETS) {
        let asked = service.asked(path);
        assert!(!asked.is_empty() && asked.iter().all(|request| shows(request, secret)), "{name}: {asked:?}");
        for (other, _) in SECRETS.iter().filter(|(_, other)| *other != secret) {
            assert!(!asked.iter().any(|request| request.contains(other)), "{path} was shown {other}");
        }
    }
    refusals_say_what_to_do(&mcp, &refusing).await;

    let owner = household.owner().await;
    for (name, secret) in SECRETS {
        assert!(!daemon.log().contains(secret), "the log has {name}");
        let told = model.requests().iter().filter(|request| request.body.to_string().contains(secret)).count();
        assert_eq!(told, 0, "a model was told {name}");
        for table in ["visitor.tool_calls", "visitor.session_events", "visitor.sessions", "shared.outbox"] {
            let rows = format!("SELECT count(*) FROM {table} r WHERE r::text LIKE $1");
            let found: i64 = owner.query_one(&rows, &[&format!("%{secret}%")]).await.expect(table).get(0);
            assert_eq!(found, 0, "{table} has {name}");
        }
    }
}

/// What needs a secret says which, and is there once that is stored and taken up, as the page has it.
async fn secrets_are_asked_for(household: &Household, mcp: &Mcp) {
    let states = mcp.ok("module.states", json!({})).await;
    for (module, name) in [("mcp.github", "GITHUB_TOKEN"), ("mcp.home", "HOME_ASSISTANT_TOKEN")] {
        let why = states[module]["failure_error"].as_str().unwrap_or_default();
        assert!(why.contains(&format!("butlerd secret set {name}")), "{module}: {states}");
    }
    let (code, why) = refused_with(mcp, "web_search", json!({"query": "museum opening hours"})).await;
    assert!(code == "not_set_up" && why.contains("butlerd secret set BRAVE_SEARCH_KEY"), "{code}: {why}");
    for (name, secret) in SECRETS {
        let (code, out, err) =
            tokio::task::block_in_place(|| household.cli_with_input(&["secret", "set", name], secret));
        assert_eq!(code, 0, "{out}{err}");
    }
    let (code, said) = cli(household, &["reload"]);
    assert_eq!(code, 0, "{said}");
}

/// The butler has what the recipes name, and nothing else of these servers. They need no consent when first seen.
async fn tools_are_the_recipes_own(mcp: &Mcp) {
    let own =
        |name: &str| ["files_", "github_", "home_", "note_read", "web_"].iter().any(|start| name.starts_with(start));
    let mut wanted: Vec<&str> = TOOLS.iter().map(|(name, ..)| *name).chain(["web_search"]).collect();
    wanted.sort_unstable();
    eventually("the recipes' tools", || async {
        let mut tools: Vec<String> = mcp.tools().await.into_iter().filter(|name| own(name)).collect();
        tools.sort_unstable();
        if tools == wanted { Ok(()) } else { Err(format!("{tools:?}\n{}", mcp.ok("module.states", json!({})).await)) }
    })
    .await;
}

/// Each call of the recordings, by the butler's names.
async fn calls_are_answered_as_recorded(mcp: &Mcp) {
    for server in ["files", "github", "home", "web"] {
        let recorded = fixture(server);
        for call in recorded["calls"].as_array().expect("calls") {
            let ours = TOOLS.iter().find(|(_, of, theirs)| *of == server && call["name"] == *theirs);
            let (ours, ..) = ours.unwrap_or_else(|| panic!("no recipe has {}", call["name"]));
            let text = call["result"]["content"][0]["text"].as_str().expect("a text");
            let answer = mcp.call(ours, call["arguments"].clone()).await.text();
            if call["result"]["isError"] == true {
                assert_eq!((&answer["code"], &answer["error"]), (&json!("mcp_tool_failed"), &json!(text)), "{call}");
            } else {
                assert_eq!(answer, json!({"result": text, "truncated": false}), "{call}");
            }
        }
    }
    let found = mcp.ok("web_search", json!({"query": "museum opening hours"})).await;
    let recorded = &fixture("search")["requests"][0]["body"]["web"]["results"];
    let row = |n: usize| json!({"title": recorded[n]["title"], "url": recorded[n]["url"], "about": recorded[n]["description"]});
    assert_eq!(found, json!({"result": [row(0), row(1)]}));
}

/// The servers' own schemas are asked before they are.
async fn wrong_arguments_are_refused(mcp: &Mcp) {
    for (tool, args) in [
        ("note_read", json!({"file": "/srv/notes/list.txt"})),
        ("files_search_files", json!({"path": "/srv/notes", "pattern": 3})),
        ("github_issue_read", json!({"method": "close", "owner": "owner-1", "repo": "garden", "issue_number": 7})),
        ("github_list_issues", json!({"owner": "owner-1", "repo": "garden", "perPage": 101})),
        ("home_light", json!({"name": "Floor lamp", "brightness": 130})),
        ("home_turn_on", json!({"domain": "light"})),
        ("web_read", json!({"url": "https://museum.example/visit", "max_length": 0})),
        ("web_read", json!({})),
        ("web_search", json!({})),
    ] {
        let (code, why) = refused_with(mcp, tool, args.clone()).await;
        assert_eq!(code, "invalid_arguments", "{tool} {args}: {why}");
    }
}

/// What a session is after it has read something, by its row, and what it may do then.
async fn labels_hold(household: &Household, mcp: &Mcp) {
    let owner = household.owner().await;
    let row = "SELECT trust FROM visitor.sessions WHERE id = $1::text::uuid";
    let waits = "pending_approval";
    for (prompt, trust, last) in [
        ("read the notes", "stranger", "[FILE] list.txt"),
        ("read the page", "stranger", "Tuesday to Sunday"),
        ("search the web", "stranger", "museum.example"),
        ("look at the house", "owner", "Floor lamp"),
        ("read the issues", "stranger", "runs dry in July"),
        // Its calls stay in the house, those of the search don't; and a change asks after a stranger's words.
        ("compare issues and house", "stranger", "Floor lamp"),
        ("search for the issues", "stranger", waits),
        ("do as the issues say", "stranger", waits),
    ] {
        let done = mcp.ok("trigger", json!({"prompt": format!("Please {prompt}")})).await;
        let output = done["output"].as_str().unwrap_or_default();
        assert!(output.contains(last), "{prompt}: {done}");
        let id = done["session_id"].as_str().expect("its id");
        let recorded: String = owner.query_one(row, &[&id]).await.expect("its row").get(0);
        assert_eq!(recorded, trust, "{prompt}");
    }
    let (_, listed) = cli(household, &["approvals", "list"]);
    assert!(listed.contains("web_search") && listed.contains("home_turn_off"), "{listed}");
    assert!(!listed.contains("home_state") && !listed.contains("github"), "{listed}");
}

/// What the house shows is for the household alone, whoever asks.
async fn a_stranger_is_told_nothing_of_the_house(household: &Household, daemon: &Daemon) {
    let mut envelope = message("r-1", "r-1", "Please look at the house");
    envelope["sender"]["identity"] = json!("eve");
    envelope["control"]["pinned_target"] = json!("visitor");
    let (status, accepted) = ingest(daemon, &envelope).await;
    assert_eq!(status, 202, "{accepted}");
    let entry = ended(daemon, accepted["request_id"].as_str().expect("an id")).await;
    assert_eq!(entry["replies"], json!([]), "{entry}");
    let (_, listed) = cli(household, &["approvals", "list", "--json"]);
    assert!(listed.contains("Front door"), "the answer waits: {listed}");
}

/// A limit of the search service, and secrets that hold no more.
async fn refusals_say_what_to_do(mcp: &Mcp, refusing: &AtomicBool) {
    let check = async |tool: &str, args: Value, wanted: &str, words: &[&str]| {
        let (code, why) = refused_with(mcp, tool, args).await;
        assert_eq!(code, wanted, "{tool}: {why}");
        assert!(words.iter().all(|word| why.contains(word)), "{tool}: {words:?} in {why}");
    };
    let limit = ["429 Too Many Requests", "rate limit exceeded", "wait before the next one"];
    check("web_search", json!({"query": "too much"}), "http_failed", &limit).await;
    refusing.store(true, Ordering::SeqCst);
    let key = ["422", "subscription token is invalid"];
    check("web_search", json!({"query": "opening hours of the zoo"}), "http_failed", &key).await;
    let token = [
        "does not let this household in",
        "Token is not authorized",
        "butlerd secret set GITHUB_TOKEN",
        "butlerd reload",
    ];
    let issue = json!({"method": "get", "owner": "owner-1", "repo": "garden", "issue_number": 7});
    // In the middle of a connection, and at the begin of one.
    for _ in 0..2 {
        check("github_issue_read", issue.clone(), "mcp_server_down", &token).await;
    }
    let token = ["does not let this household in", "401", "butlerd secret set HOME_ASSISTANT_TOKEN"];
    // That it changes something does not make its end unknown: it was not done.
    check("home_turn_off", json!({"name": "Floor lamp"}), "mcp_server_down", &token).await;
    let states = mcp.ok("module.states", json!({})).await;
    let note = states["mcp.github"]["note"].as_str().unwrap_or_default();
    assert!(note.contains("butlerd secret set GITHUB_TOKEN"), "{states}");
}
