//! MCP servers of others are held: what a call leaves on record and does to its session, what a program sees of the
//! household, what an address can do to the daemon, and that their tools ask and count as the butler's own do.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::http_tools::{Service, read};
use crate::inbound::{ended, ingest, message};
use crate::mcp_servers::{HEAD, Served, cli, has, installed, recovers, refused_with, say, visiting, works};
use crate::support::{Daemon, Household, Mcp, eventually, model};

fn call(tool: &str, arguments: Value) -> Value {
    json!({"call": {"tool": tool, "arguments": arguments}})
}

/// Sessions that call one tool and say what came back, each for a prompt of the tool's name.
fn one_call_each(calls: &[(&str, Value)]) -> Value {
    let plays = |(tool, arguments): &(&str, Value)| json!({"when": format!("use {tool} now"), "steps": [call(tool, arguments.clone()), {"say": "{{last_result}}"}]});
    calls.iter().map(plays).collect()
}

/// Runs a session that calls a tool: what it says.
async fn session(mcp: &Mcp, tool: &str) -> Value {
    mcp.ok("trigger", json!({"prompt": format!("Please use {tool} now")})).await
}

/// The one call of each session has its row, and the session the label that the server's settings give it.
async fn on_record(household: &Household, mcp: &Mcp, wanted: &[(&str, Value, &str, &str, &str, &str)]) {
    let owner = household.owner().await;
    let sql = "SELECT c.tool, c.arguments, c.outcome, c.effect, s.trust, s.audience::text FROM visitor.tool_calls c \
               JOIN visitor.sessions s ON s.id = c.session_id WHERE s.id = $1::text::uuid";
    for (tool, arguments, effect, said, trust, audience) in wanted {
        let done = session(mcp, tool).await;
        assert!(done["output"].as_str().is_some_and(|output| output.contains(said)), "{tool}: {done}");
        let rows = owner.query(sql, &[&done["session_id"].as_str().expect("an id")]).await.expect("the rows");
        let [row] = &rows[..] else { panic!("{tool}: {} rows", rows.len()) };
        let text = |n: usize| row.get::<_, String>(n);
        assert_eq!((text(0).as_str(), row.get::<_, Value>(1), text(2).as_str()), (*tool, arguments.clone(), "ok"));
        assert_eq!((text(3).as_str(), text(4).as_str(), text(5).as_str()), (*effect, *trust, *audience), "{tool}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_s_call_of_a_reference_server_is_on_record_and_labels_it() {
    let name = "a_session_s_call_of_a_reference_server_is_on_record_and_labels_it";
    let Some([node, modules]) = installed(name, ["BUTLERD_TEST_NODE22", "BUTLERD_TEST_MCP_TS"]) else { return };
    let notes = tempfile::tempdir().expect("a directory");
    std::fs::set_permissions(notes.path(), std::fs::Permissions::from_mode(0o755)).expect("its mode");
    std::fs::write(notes.path().join("list.txt"), "milk and cheese").expect("a note");
    let (hello, note) = (json!({"message": "hello"}), json!({"path": notes.path().join("list.txt")}));
    let wanted = [
        ("all_echo", hello.clone(), "none", "hello", "owner", "{}"),
        ("open_echo", hello, "none", "hello", "stranger", "{}"),
        ("note_read", note, "none", "milk and cheese", "stranger", "{}"),
    ];
    let calls: Vec<(&str, Value)> = wanted.iter().map(|(tool, arguments, ..)| (*tool, arguments.clone())).collect();
    let model = model(one_call_each(&calls)).await;
    let script = |name: &str| Path::new(&modules).join(format!("@modelcontextprotocol/server-{name}/dist/index.js"));
    let (everything, files, notes) = (script("everything"), script("filesystem"), notes.path());
    let toml = format!(
        "{HEAD}\n[mcp.servers.all]\ncommand = [{node:?}, {everything:?}]\ntools = [\"echo\"]\nonly_reads = [\"echo\"]\n\
         sends_out = false\ntrust = \"owner\"\n\n\
         [mcp.servers.open]\ncommand = [{node:?}, {everything:?}]\ntools = [\"echo\"]\nonly_reads = [\"echo\"]\n\
         reads_private = false\nsends_out = false\n\n\
         [mcp.servers.files]\ncommand = [{node:?}, {files:?}, {notes:?}]\nread = [{notes:?}]\n\
         tools = [\"read_text_file\"]\nonly_reads = [\"read_text_file\"]\nrename = {{ read_text_file = \"note_read\" }}\n\
         sends_out = false\n",
    );
    let household = Household::few_with_model(&model).butler("visitor", &toml);
    let daemon = household.start().await;
    let mcp = daemon.mcp("visitor");
    for (tool, ..) in &wanted {
        works(&daemon, &mcp, tool).await;
    }
    on_record(&household, &mcp, &wanted).await;
    // What is private to the household is told to nobody else, and what is not lets a stranger have his answer.
    for (tool, answers, audience) in [("open_echo", 1, true), ("all_echo", 0, false)] {
        let entry = from_stranger(&daemon, tool).await;
        assert_eq!(entry["replies"].as_array().map(Vec::len), Some(answers), "{tool}: {entry}");
        let owner = household.owner().await;
        let sql = "SELECT audience <> '{}' FROM visitor.sessions ORDER BY queued_at DESC LIMIT 1";
        assert_eq!(owner.query_one(sql, &[]).await.expect("its row").get::<_, bool>(0), audience, "{tool}");
    }
}

/// A stranger asks the butler to use a tool: how his message ended.
async fn from_stranger(daemon: &Daemon, tool: &str) -> Value {
    let mut envelope = message(tool, tool, &format!("Please use {tool} now"));
    envelope["sender"]["identity"] = json!("eve");
    envelope["control"]["pinned_target"] = json!("visitor");
    let (status, accepted) = ingest(daemon, &envelope).await;
    assert_eq!(status, 202, "{accepted}");
    ended(daemon, accepted["request_id"].as_str().expect("an id")).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_s_call_of_a_python_server_is_on_record_and_labels_it() {
    let name = "a_session_s_call_of_a_python_server_is_on_record_and_labels_it";
    let Some([python]) = installed(name, ["BUTLERD_TEST_MCP_PY"]) else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/server.py");
    let served = tokio::task::block_in_place(|| Served::start(&python, &script));
    let (sum, bea) = (json!({"a": 2, "b": 3}), json!({"name": "Bea"}));
    let wanted =
        [("far_add", sum, "none", "5", "known", "{}"), ("far_greet", bea, "once", "Hello, Bea", "known", "{}")];
    let calls: Vec<(&str, Value)> = wanted.iter().map(|(tool, arguments, ..)| (*tool, arguments.clone())).collect();
    let model = model(one_call_each(&calls)).await;
    let toml = format!(
        "{HEAD}\n[mcp.servers.far]\nurl = \"http://127.0.0.1:{}/mcp\"\ntools = [\"add\", \"greet\"]\n\
         only_reads = [\"add\"]\nsends_out = false\ntrust = \"known\"\n",
        served.1
    );
    let household = Household::few_with_model(&model).butler("visitor", &toml);
    let daemon = household.start().await;
    let mcp = daemon.mcp("visitor");
    works(&daemon, &mcp, "far_add").await;
    on_record(&household, &mcp, &wanted).await;
}

/// A tool of the fake's that tries to read a path.
fn look() -> Value {
    json!({"name": "look", "description": "Reads.", "inputSchema": {"type": "object", "required": ["path"],
        "properties": {"path": {"type": "string"}}}})
}

/// Lets everybody read all below, as far as modes can.
fn open(path: &Path) {
    let mode = if path.is_dir() { 0o755 } else { 0o644 };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("its mode");
    if path.is_dir() {
        std::fs::read_dir(path).expect("its entries").flatten().for_each(|entry| open(&entry.path()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_sees_nothing_of_the_household() {
    let model = model(json!([{"when": "wait here", "steps": [{"hang": true}]}])).await;
    let (household, control) = visiting(Household::few_with_model(&model), "");
    say(&control, &json!({"more": [look()]}));
    let household = household.replace("visitor/butler.toml", "\"extra\"", "\"look\"");
    let daemon = household.start().await;
    let mcp = daemon.mcp("visitor");
    has(&mcp, "fake_look", true).await;
    let sees = async |path: &Path| mcp.ok("fake_look", json!({"path": path})).await["result"].clone();
    assert!(sees(&control).await.as_str().is_some_and(|text| text.contains("more")), "it reads what it was given");

    // Another session works meanwhile.
    let (butler, mut workspaces) = (mcp.clone(), household.workspaces());
    let waiting = tokio::spawn(async move { butler.call("trigger", json!({"prompt": "wait here"})).await });
    eventually("the session's workspace", || async {
        let now = household.workspaces();
        if now.len() > workspaces.len() { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .await;
    let theirs = household.workspaces().into_iter().find(|dir| !workspaces.contains(dir)).expect("its workspace");
    workspaces.push(theirs.clone());
    let secret = theirs.join("secret.txt");
    std::fs::write(&secret, "a secret of the session").expect("a file");

    // Modes allow all of it, so that the sandbox alone is between them.
    let key = household.data().join("master.key");
    open(&theirs);
    [&household.data(), &household.data().join("work"), &key].into_iter().for_each(|path| {
        let mode = if path.is_dir() { 0o755 } else { 0o644 };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("its mode");
    });
    open(&household.roster());
    let all: [PathBuf; 8] = [
        key,
        household.data(),
        household.roster(),
        household.roster().join("visitor/butler.toml"),
        theirs,
        secret,
        household.data().join("work"),
        PathBuf::from(format!("/proc/{}/environ", daemon.pid())),
    ];
    for path in &all {
        let seen = sees(path).await;
        assert!(seen.as_str().is_some_and(|text| text.starts_with("no: ")), "{}: {seen}", path.display());
    }
    waiting.abort();
}

/// A server at an address, whose tools do what their names say.
fn misbehave(mut stream: TcpStream, request: &str) {
    let body = request.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let message: Value = serde_json::from_str(body).unwrap_or_default();
    let head = |status: &str, kind: &str| format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: close\r\n");
    let ok = || head("200 OK", "application/json");
    let whole = |head: String, body: &str| format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    let result =
        |result: Value| whole(ok(), &json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string());
    let cheese = "cheese ".repeat(150_000);
    let mut flood = |head: &str, part: &str| {
        let _ = stream.write_all(head.as_bytes());
        let mut times = 0;
        while times < 100 && stream.write_all(part.as_bytes()).is_ok() {
            times += 1;
        }
    };
    let text = match (message["method"].as_str(), message["params"]["name"].as_str().unwrap_or_default()) {
        (None, _) => whole(head("405 Method Not Allowed", "text/plain"), ""),
        (Some("initialize"), _) => result(json!({"protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}}, "serverInfo": {"name": "far", "version": "0"}})),
        (Some("tools/list"), _) => {
            let tool = |name: &&str| json!({"name": name, "inputSchema": {"type": "object"}});
            result(
                json!({"tools": HOSTILE.iter().map(|(name, _)| name).chain(&["fine"]).map(tool).collect::<Vec<_>>()}),
            )
        }
        (Some("tools/call"), "fine") => result(json!({"content": [{"type": "text", "text": "fine"}]})),
        (_, "dies") => return,
        (_, "dies_halfway") => format!("{}content-length: 1000\r\n\r\n{{", ok()),
        (_, "hangs") => {
            // Until the daemon has enough of it.
            let _ = stream.read(&mut [0]);
            return;
        }
        (_, "drips") => {
            let _ = stream.write_all(format!("{}content-length: 1000\r\n\r\n", ok()).as_bytes());
            while stream.write_all(b" ").is_ok() {
                std::thread::sleep(Duration::from_millis(100));
            }
            return;
        }
        (_, "floods") => return flood(&format!("{}content-length: 1000000000\r\n\r\n\"", ok()), &cheese),
        (_, "floods_on") => return flood(&format!("{}\r\n\"", ok()), &cheese),
        (_, "floods_one_event") => {
            return flood(&format!("{}\r\ndata: \"", head("200 OK", "text/event-stream")), &cheese);
        }
        (_, "chatters") => {
            let note = json!({"jsonrpc": "2.0", "method": "notifications/message",
                "params": {"level": "info", "data": "cheese"}});
            let _ = stream.write_all(format!("{}\r\n", head("200 OK", "text/event-stream")).as_bytes());
            while stream.write_all(format!("data: {note}\n\n").as_bytes()).is_ok() {}
            return;
        }
        (_, "large") => result(json!({"content": [{"type": "text", "text": cheese}]})),
        (_, "junk") => whole(ok(), "cheese"),
        (_, "page") => whole(head("200 OK", "text/html"), "<html>Log in</html>"),
        (_, "breaks") => whole(head("500 Internal Server Error", "text/plain"), "cheese"),
        (_, "redirects") => {
            let to = "location: http://169.254.169.254/latest/meta-data/\r\n";
            whole(head("307 Temporary Redirect", "text/plain") + to, "")
        }
        _ if message["id"].is_null() => whole(head("202 Accepted", "text/plain"), ""),
        _ => whole(
            ok(),
            &json!({"jsonrpc": "2.0", "id": message["id"],
            "error": {"code": -32601, "message": "Method not found"}})
            .to_string(),
        ),
    };
    let _ = stream.write_all(text.as_bytes());
}

/// What a server at an address may do in a call, and what the session is told of that.
const HOSTILE: [(&str, &str); 12] = [
    ("dies", "broke during a call"),
    ("dies_halfway", "broke during a call"),
    ("hangs", "did not answer within 2 s"),
    ("drips", "did not answer within 2 s"),
    ("floods", "16777216"),
    ("floods_on", "16777216"),
    ("floods_one_event", "broke during a call"),
    ("chatters", "did not answer within 2 s"),
    ("junk", "broke during a call"),
    ("page", "text/html"),
    ("breaks", "500"),
    ("redirects", "307"),
];

/// The most memory that the daemon has had, in MiB.
fn most_memory(daemon: &Daemon) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.pid())).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") >> 10
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_dies_hangs_or_floods_is_a_clear_error() {
    let service = Service::serving(|mut stream, _| {
        if let Some(request) = read(&mut stream) {
            misbehave(stream, &request);
        }
    });
    // Little time is given to those alone that are to be told for that.
    let server = |why: &str| if why.contains("within 2 s") { "late" } else { "far" };
    let section = |name: &str, timeout: &str| {
        let of = |why: &str| server(why) == name;
        let tools: Vec<&str> =
            HOSTILE.iter().filter(|(_, why)| of(why)).map(|(tool, _)| *tool).chain(["fine"]).collect();
        let reads: Vec<&str> = tools.iter().copied().filter(|tool| ["fine", "hangs"].contains(tool)).collect();
        format!(
            "\n[mcp.servers.{name}]\nurl = \"http://127.0.0.1:{}/mcp\"\ntools = {tools:?}\nonly_reads = {reads:?}\n\
             timeout = \"{timeout}\"\n",
            service.port
        )
    };
    let toml = format!("{HEAD}{}{}", section("far", "30s"), section("late", "2s"));
    let household = Household::few().butler("visitor", &toml);
    let daemon = household.start().await;
    let mcp = daemon.mcp("visitor");
    has(&mcp, "far_fine", true).await;
    has(&mcp, "late_fine", true).await;
    let before = most_memory(&daemon);
    for (tool, why) in HOSTILE {
        let server = server(why);
        let (code, said) = refused_with(&mcp, &format!("{server}_{tool}"), json!({})).await;
        println!("{tool}: {code}: {said}");
        // Of one that only reads it is all the same whether it was done.
        let wanted = if tool == "hangs" { "mcp_server_down" } else { "outcome_unknown" };
        assert!(code == wanted && said.contains(why), "{tool}: {code}: {said}");
        let state = mcp.ok("module.states", json!({})).await[&format!("mcp.{server}")].clone();
        assert!(state["note"].as_str().is_some_and(|note| note.contains("is down")), "{tool}: {state}");
        eventually(&format!("it works after {tool}"), || async {
            let answer = mcp.call(&format!("{server}_fine"), json!({})).await.text();
            if answer["result"] == "fine" { Ok(()) } else { Err(answer.to_string()) }
        })
        .await;
    }
    let grown = most_memory(&daemon) - before;
    println!("the daemon grew by {grown} MiB");
    assert!(grown < 200, "the daemon grew by {grown} MiB");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_destructive_tool_of_a_server_asks_as_an_own_one_does() {
    let own = "/*---\ndescription: Throws away.\nargs: {}\nreturns: row\nmeta: {reads_private: false, destructive: true, \
               effect: once}\n---*/\nINSERT INTO gone DEFAULT VALUES RETURNING 'did throw' AS result;\n";
    let own_gated = own.replace("Throws away", "Throws all away");
    let table =
        "CREATE TABLE gone (id uuid PRIMARY KEY DEFAULT gen_random_uuid());\nSELECT shared.tenant_table('gone');\n";
    let tools = ["throw", "throw_all", "fake_throw", "fake_throw_all"];
    let model = model(one_call_each(&tools.map(|tool| (tool, json!({}))))).await;
    let gate = "[modules.visitor]\n\n[modules.approvals.gated_tools.throw_all]\nrisk_tier = \"high\"\n\n\
                [modules.approvals.gated_tools.fake_throw_all]\nrisk_tier = \"high\"\n";
    let more = format!("destructive = true\nsends_out = false\ntrust = \"owner\"\n\n{gate}");
    let (household, control) = visiting(Household::few_with_model(&model), &more);
    say(&control, &json!({"more": ["throw", "throw_all"]}));
    let household = household
        .replace("visitor/butler.toml", "\"extra\"", "\"throw\", \"throw_all\"")
        .write("visitor/tools/throw.sql", own)
        .write("visitor/tools/throw_all.sql", &own_gated)
        .migration("visitor", "gone", table);
    let daemon = household.start().await;
    let mcp = daemon.mcp("visitor");
    has(&mcp, "fake_throw", true).await;
    let listed = mcp.request("tools/list", json!({})).await.body["result"].clone();
    for tool in tools {
        let shown = listed["tools"].as_array().into_iter().flatten().find(|shown| shown["name"] == tool);
        assert_eq!(shown.expect(tool)["annotations"]["destructiveHint"], true, "{tool}");
    }
    // The owner's own session: only what the owner named waits.
    for (tool, waits) in tools.into_iter().zip([false, true, false, true]) {
        let done = session(&mcp, tool).await;
        let output = done["output"].as_str().unwrap_or_default();
        assert_eq!(output.contains("pending_approval"), waits, "{tool}: {done}");
        assert_eq!(output.contains("did throw"), !waits, "{tool}: {done}");
    }
    // A stranger's words throw nothing away.
    for tool in ["throw", "fake_throw"] {
        from_stranger(&daemon, tool).await;
    }
    let owner = household.owner().await;
    let sql =
        "SELECT tool_name, id::text FROM shared.pending_actions WHERE status = 'pending' AND tool_name <> 'notify'";
    let rows = owner.query(sql, &[]).await.expect("what waits");
    let mut waiting: Vec<(String, String)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    waiting.sort();
    let names: Vec<&str> = waiting.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["fake_throw", "fake_throw_all", "throw", "throw_all"]);

    // Approved, the call is made once.
    for (tool, id) in waiting.iter().filter(|(tool, _)| tool.ends_with("_all")) {
        let (code, shown) = cli(&household, &["approvals", "show", id, "--json"]);
        let shown: Value = serde_json::from_str(&shown).unwrap_or_else(|e| panic!("{code}: {e}: {shown}"));
        let (code, said) =
            cli(&household, &["approvals", "approve", id, "--seen", shown["seen"].as_str().expect("a hash")]);
        assert_eq!(code, 0, "{tool}: {said}");
        eventually("it is made", || async {
            let done = "SELECT outcome FROM visitor.tool_calls WHERE tool = $1 AND caller LIKE 'approval %'";
            let rows = owner.query(done, &[tool]).await.map_err(|e| e.to_string())?;
            let outcomes: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
            if outcomes == ["ok"] { Ok(()) } else { Err(format!("{outcomes:?}")) }
        })
        .await;
    }
    recovers(&mcp).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_of_a_server_count_in_the_budget_and_are_found() {
    const MANY: usize = 300;
    let about = "Keeps a cheese in the cellar, turns it each day, and says how old it is and how it smells by now.";
    let tool = |n: usize| {
        json!({"name": format!("cheese_{n}"), "description": format!("{about} It is number {n}."),
        "inputSchema": {"type": "object", "properties": {"day": {"type": "string", "description": "The day, YYYY-MM-DD"}}}})
    };
    let needle =
        json!({"name": "melt", "description": "Pours raclette over potatoes.", "inputSchema": {"type": "object"}});
    let model = model(json!([
        {"when": "hello", "steps": [{"say": "good day"}]},
        {"when": "have a look", "steps": [call("tool_find", json!({"query": "raclette over potatoes"})),
            call("tool_call", json!({"name": "fake_melt", "arguments": {}})), {"say": "{{last_result}}"}]},
    ]))
    .await;
    // For models on the owner's own network, as those of tests are, it is half of it.
    let household = Household::few_with_model(&model).env("BUTLERD_SPAWNER__TOOL_BUDGET", "5000");
    let (household, control) = visiting(household, "");
    let more: Vec<Value> = (0..MANY).map(tool).chain([needle]).collect();
    say(&control, &json!({"more": more}));
    let names: Vec<String> = more.iter().filter_map(|tool| Some(format!("{:?}", tool["name"].as_str()?))).collect();
    let household = household.replace("visitor/butler.toml", "\"extra\"", &names.join(", "));
    let daemon = household.start().await;
    let mcp = daemon.mcp("visitor");
    has(&mcp, "fake_melt", true).await;
    // People's programs get all of them.
    let tools = mcp.tools().await;
    assert_eq!(tools.iter().filter(|name| name.starts_with("fake_cheese_")).count(), MANY);
    let shown = |n: usize| {
        let request = &model.requests()[n];
        let told = request.body["tools"].clone();
        let names: Vec<String> = told.as_array().into_iter().flatten().map(|tool| tool["name"].to_string()).collect();
        (told.to_string().len() * 2 / 7, names)
    };
    assert_eq!(mcp.ok("trigger", json!({"prompt": "hello"})).await["success"], true);
    let (tokens, names) = shown(0);
    println!("{} tools of {tokens} tokens", names.len());
    assert!(tokens <= 2500 && names.iter().any(|name| name.contains("tool_find")), "{tokens}: {names:?}");
    // What the prompt speaks of is told first.
    assert_eq!(mcp.ok("trigger", json!({"prompt": "hello, pour raclette over the potatoes"})).await["success"], true);
    let (tokens, names) = shown(1);
    println!("{} tools of {tokens} tokens", names.len());
    assert!(tokens <= 2500 && names.iter().any(|name| name.contains("fake_melt")), "{tokens}: {names:?}");
    // The others are found and called.
    let before = model.requests().len();
    let done = mcp.ok("trigger", json!({"prompt": "have a look"})).await;
    assert!(!shown(before).1.iter().any(|name| name.contains("fake_melt")), "it was told at once");
    assert!(done["output"].as_str().is_some_and(|output| output.contains("did melt")), "{done}");
    let owner = household.owner().await;
    let sql = "SELECT tool FROM visitor.tool_calls WHERE session_id = $1::text::uuid ORDER BY called_at";
    let rows = owner.query(sql, &[&done["session_id"].as_str().expect("an id")]).await.expect("the rows");
    let calls: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(calls, ["tool_find", "fake_melt"]);
}
