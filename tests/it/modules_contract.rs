//! What a module may have beside tools: background tasks, routes, inbound, sessions, other people's MCP servers, and
//! lines at the start of sessions. The module `contract_probe` uses each.

use serde_json::{Value, json};
use testkit::model::ScriptedModel;

use crate::support::http;
use crate::support::{Daemon, Household, eventually, model};

/// A butler `tester` with the test module; `more` stands below `[modules.contract_probe]`, `runtime` below the butler's
/// own.
fn toml(runtime: &str, more: &str) -> String {
    format!(
        "[butler]\nname = \"tester\"\nport = 40190\ndescription = \"for tests\"\n\n[butler.runtime]\nmodel = \"m\"\n{runtime}\n\n\
         [modules.contract_probe]\n{more}\n"
    )
}

async fn module(daemon: &Daemon, name: &str) -> Value {
    daemon.butler("tester").await["modules"][name].clone()
}

/// Waits until the module's state is as `wanted`.
async fn until(daemon: &Daemon, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    eventually(what, || async {
        let state = module(daemon, name).await;
        if wanted(&state) { Ok(state) } else { Err(state.to_string()) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_background_task_is_started_again_by_its_kind_and_its_health_is_shown() {
    let household = Household::few().butler("tester", &toml("", "\n[modules.contract_child]\n"));
    let daemon = household.start().await;
    let tester = daemon.mcp("tester");
    let end = async |task: &str, how: &str| tester.ok("contract_end", json!({"task": task, "how": how})).await;
    let begun =
        until(&daemon, "contract_probe", "the task with one thing to do", |s| s["tasks"]["done"]["state"] == "done");
    let begun = begun.await;
    assert_eq!((&begun["health"], &begun["tasks"]["steady"]["restarts"]), (&json!("active"), &json!(0)), "{begun}");

    end("shaky", "panic").await;
    let restarted =
        |n: u32| move |s: &Value| s["tasks"]["shaky"]["restarts"] == n && s["tasks"]["shaky"]["state"] == "running";
    let state = until(&daemon, "contract_probe", "the task runs again after its panic", restarted(1)).await;
    assert!(state["tasks"]["shaky"]["error"].as_str().is_some_and(|e| e.contains("panicked")), "{state}");
    assert_eq!((&state["health"], &state["tasks"]["steady"]["restarts"]), (&json!("active"), &json!(0)), "{state}");
    end("shaky", "error").await;
    let state = until(&daemon, "contract_probe", "it runs again after its error", restarted(2)).await;
    assert_eq!(state["tasks"]["shaky"]["error"], "asked to fail", "{state}");
    daemon.logged(&["asked to fail"], 1).await;

    // The more often it fails the longer it pauses, and meanwhile readyz and doctor say so.
    for ended in 3..7_u32 {
        end("shaky", "error").await;
        // The pause may be over before it is looked at; the next one is longer.
        until(&daemon, "contract_probe", "it fails", |s| s["tasks"]["shaky"]["restarts"] == ended).await;
        let ready: Value = serde_json::from_str(&daemon.get("/readyz").await.1).expect("JSON");
        let shown = ready["butlers"]["tester"]["modules"]["contract_probe"].clone();
        if shown == "degraded" {
            break;
        }
        until(&daemon, "contract_probe", "it runs again", |s| s["tasks"]["shaky"]["state"] == "running").await;
    }
    until(&daemon, "contract_probe", "it runs again", |s| s["health"] == "active").await;

    // Without its vital task the module is nothing, and neither is the one that needs it. The butler stays up.
    end("vital", "error").await;
    let failed = until(&daemon, "contract_probe", "the module failed", |s| s["health"] == "failed").await;
    assert_eq!(failed["failure_phase"], "running", "{failed}");
    assert!(
        failed["failure_error"].as_str().is_some_and(|e| e.contains("vital") && e.contains("asked to fail")),
        "{failed}"
    );
    let above = module(&daemon, "contract_child").await;
    assert_eq!(above["health"], "cascade_failed", "{above}");
    until(&daemon, "contract_probe", "its other tasks stop", |s| s["tasks"]["steady"]["state"] == "stopped").await;
    let refused = tester.ok("contract_end", json!({"task": "steady"})).await;
    assert_eq!(refused["code"], "module_failed", "{refused}");
    let (status, body) = daemon.get("/api/contract/rose").await;
    assert!(status == 503 && body.contains("module_failed"), "{status} {body}");
    assert_eq!(daemon.butler("tester").await["state"], "up");
    daemon.ready().await;
    let doctor = household.cli(&["doctor"]).1;
    assert!(doctor.contains("contract_probe") && doctor.contains("running"), "{doctor}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn modules_and_their_tasks_stop_in_reverse_order_of_their_start() {
    let household = Household::few();
    let marker = household.path().join("order");
    let line = format!("marker = \"{}\"", marker.display());
    let household = household.butler("tester", &toml("", &format!("{line}\n\n[modules.contract_child]\n{line}\n")));
    let mut daemon = household.start().await;
    let said = || std::fs::read_to_string(&marker).unwrap_or_default();
    eventually("all tasks run", || async {
        let text = said();
        if text.lines().count() == 8 { Ok(()) } else { Err(text) }
    })
    .await;
    let begun = said();
    let begun: Vec<&str> = begun.lines().collect();
    assert_eq!(begun[..2], ["contract_probe started", "contract_child started"], "modules before any task");
    let code = tokio::task::spawn_blocking(move || daemon.stop_blocking()).await.expect("the stop");
    assert_eq!(code, 0);
    let ended = said();
    let ended: Vec<&str> = ended.lines().skip(8).collect();
    assert_eq!(
        ended,
        [
            "contract_child/vital stopped",
            "contract_child/shaky stopped",
            "contract_child/steady stopped",
            "contract_probe/vital stopped",
            "contract_probe/shaky stopped",
            "contract_probe/steady stopped",
            "contract_child stopped",
            "contract_probe stopped",
        ]
    );
}

fn token(household: &Household, args: &[&str]) -> String {
    let (code, out, err) = household.cli(&[&["token", "new", "--json"], args].concat());
    assert_eq!(code, 0, "{out}{err}");
    serde_json::from_str::<Value>(&out).expect("JSON")["token"].as_str().expect("a token").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn routes_of_modules_are_served_to_tokens_of_their_scope() {
    let household = Household::few().butler("tester", &toml("", ""));
    let daemon = household.start().await;
    let ask = async |method: &str, path: &str, token: Option<&str>| -> (u16, Value) {
        let method = method.parse().expect("a method");
        let mut request = http().request(method, format!("http://{}{path}", daemon.admin())).body("a body");
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let response = request.send().await.expect("an answer");
        let status = response.status().as_u16();
        (status, serde_json::from_str(&response.text().await.expect("a body")).unwrap_or_default())
    };
    let (ingest, read) = (token(&household, &["--scope", "ingest"]), token(&household, &["--scope", "read"]));
    let (hook, named) = ("/hooks/contract_probe/echo", "/api/contract/rose?colour=red");
    assert_eq!(ask("POST", hook, None).await.0, 401);
    assert_eq!(ask("POST", hook, Some(&read)).await.0, 403);
    let (status, told) = ask("POST", hook, Some(&ingest)).await;
    assert_eq!((status, &told["body"], &told["token_shown"]), (200, &json!("a body"), &json!(false)), "{told}");
    assert_eq!(ask("GET", named, Some(&ingest)).await.0, 403);
    let (status, told) = ask("GET", named, Some(&read)).await;
    assert_eq!((status, &told["parts"]["name"], &told["query"]), (200, &json!("rose"), &json!("colour=red")), "{told}");
    let foreign = token(&household, &["--scope", "read", "--butler", "messenger"]);
    let (status, told) = ask("GET", named, Some(&foreign)).await;
    assert!(status == 403 && told["error"].as_str().is_some_and(|e| e.contains("messenger")), "{told}");
    assert_eq!(ask("GET", hook, Some(&daemon.token())).await.0, 405);
    assert_eq!(ask("GET", "/hooks/contract_probe/no", Some(&daemon.token())).await.0, 404);
    assert_eq!(ask("POST", "/api/contract/panic", Some(&daemon.token())).await.0, 500);
    let off = json!({"name": "contract_probe", "enabled": false});
    daemon.mcp("tester").ok("module.set_enabled", off).await;
    let (status, told) = ask("GET", named, Some(&read)).await;
    assert_eq!((status, &told["code"]), (503, &json!("module_disabled")), "{told}");
    daemon.ready().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_module_that_wants_anothers_path_fails_alone() {
    for (path, why) in [("/api/chat/mine", "butlerd's core"), ("/hooks/another/x", "neither below")] {
        let household = Household::few().butler("tester", &toml("", &format!("route = \"{path}\"")));
        let daemon = household.start().await;
        let failed = module(&daemon, "contract_probe").await;
        assert_eq!((&failed["health"], &failed["failure_phase"]), (&json!("failed"), &json!("routes")), "{failed}");
        assert!(failed["failure_error"].as_str().is_some_and(|e| e.contains(why)), "{failed}");
        let refused = daemon.mcp("tester").ok("contract_end", json!({"task": "steady"})).await;
        assert_eq!(refused["code"], "module_failed", "{refused}");
        assert_eq!(daemon.get("/api/contract/rose").await.0, 404, "all of its routes, or none");
        assert_eq!(daemon.butler("tester").await["state"], "up");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_module_hands_in_messages_of_its_own_channels_only() {
    let household = Household::few().butler("tester", &toml("", ""));
    let daemon = household.start().await;
    let tester = daemon.mcp("tester");
    let taken = tester.ok("contract_receive", json!({"text": "the hedge is on fire"})).await;
    let id = taken["request_id"].as_str().unwrap_or_else(|| panic!("not taken: {taken}")).to_owned();
    let (status, entry) = daemon.get(&format!("/api/inbox/{id}")).await;
    assert!(status == 200 && entry.contains("\"probe\""), "{entry}");
    let again = tester.ok("contract_receive", json!({"text": "the hedge is on fire"})).await;
    assert_eq!((&again["request_id"], &again["duplicate"]), (&json!(id), &json!(true)), "{again}");
    // Its manifest names `chat`, too; but that is the household's own, whose senders count as the owner.
    for channel in ["chat", "telegram"] {
        let refused = tester.ok("contract_receive", json!({"text": "x", "channel": channel})).await;
        assert_eq!(refused["code"], "invalid_envelope", "{refused}");
        assert!(refused["error"].as_str().is_some_and(|e| e.contains(channel)), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_module_reads_on_in_what_concerns_its_butler() {
    let household = Household::few().butler("tester", &toml("", ""));
    let daemon = household.start().await;
    let tester = daemon.mcp("tester");
    let mut requests = Vec::new();
    for text in ["for the tester", "for another butler"] {
        let taken = tester.ok("contract_receive", json!({"text": text})).await;
        requests.push(taken["request_id"].as_str().and_then(|id| id.parse::<uuid::Uuid>().ok()).expect("an id"));
    }
    assert_eq!(tester.ok("contract_conversation", json!({})).await, json!([]), "neither is its concern yet");
    // A part of the message is handed to the butler.
    let sql = "INSERT INTO tester.route_inbox (id, request_id, kind, route, trust, state, settled_at)
               VALUES ($1, $2, 'message', '{}', 'owner', 'done', now())";
    let owner = household.owner().await;
    owner.batch_execute("SELECT set_config('butlerd.tenant', 'owner', false)").await.expect("a tenant");
    owner.execute(sql, &[&uuid::Uuid::now_v7(), &requests[0]]).await.expect("a part");
    let page = tester.ok("contract_conversation", json!({})).await;
    assert_eq!(page.as_array().map(Vec::len), Some(1), "{page}");
    assert_eq!(page[0]["text"], "for the tester", "{page}");
    assert_eq!(tester.ok("contract_conversation", json!({"after": page[0]["place"]})).await, json!([]));
}

/// Sessions that do as their prompt says.
async fn sessions() -> ScriptedModel {
    let inner = json!({"prompt": "inner work", "turns": 5});
    model(json!([
        {"when": "outer work", "steps": [
            {"call": {"tool": "contract_session", "arguments": inner}}, {"say": "outer done"}]},
        {"when": "inner work", "steps": [{"say": "inner done"}]},
        {"when": "three turns", "steps": [
            {"call": {"tool": "state_get", "arguments": {"key": "a"}}},
            {"call": {"tool": "state_get", "arguments": {"key": "b"}}}, {"say": "three turns done"}]},
        {"when": ".", "steps": [{"say": "Done."}]},
    ]))
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_module_starts_sessions_with_a_model_tools_and_limits_of_their_own() {
    let model = sessions().await;
    let household = Household::few_with_model(&model).butler("tester", &toml("", ""));
    let daemon = household.start().await;
    let tester = daemon.mcp("tester");
    let given = json!({"prompt": "inner work", "model": "another-model", "tools": ["state_get"]});
    let end = tester.ok("contract_session", given).await;
    assert_eq!((&end["state"], &end["output"]), (&json!("succeeded"), &json!("inner done")), "{end}");
    let asked =
        model.requests().into_iter().rfind(|r| r.body["model"] == "another-model").expect("the model was asked");
    let offered: Vec<&str> =
        asked.body["tools"].as_array().expect("tools").iter().filter_map(|t| t["name"].as_str()).collect();
    assert!(offered.len() == 1 && offered[0].contains("state_get"), "{offered:?}");
    let row = tester.ok("sessions_get", json!({"session_id": end["session_id"]})).await;
    assert_eq!(
        (&row["trigger_source"], &row["model"]),
        (&json!("module:contract_probe"), &json!("another-model")),
        "{row}"
    );

    let over = tester.ok("contract_session", json!({"prompt": "three turns", "turns": 1})).await;
    assert_eq!((&over["state"], &over["error_class"]), (&json!("failed"), &json!("turns")), "{over}");
    let all = tester.ok("contract_session", json!({"prompt": "three turns", "turns": 9})).await;
    assert_eq!(all["state"], "succeeded", "{all}");
    // A runtime that has no program here says so, and none of the butler's own takes its place.
    let absent = tester.ok("contract_session", json!({"prompt": "inner work", "runtime": "codex"})).await;
    let shown = absent.to_string();
    assert!(absent["state"] == "failed" || absent["code"] == "no_model", "{shown}");
    assert!(!shown.contains("inner done"), "{shown}");

    // Of its own doing: as housekeeping, believed no more than the words that it is made of.
    let own = http().post(format!("http://{}/api/contract/session", daemon.admin())).bearer_auth(daemon.token());
    let own: Value = own.body("inner work").send().await.expect("an answer").json().await.expect("JSON");
    let row = tester.ok("sessions_get", json!({"session_id": own["session_id"]})).await;
    assert_eq!(row["trigger_source"], "housekeeping:module:contract_probe", "{row}");
    assert_eq!(row["trust"], "known", "{row}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_modules_session_stands_under_its_callers_and_waits_for_no_slot_that_this_one_holds() {
    for (slots, state) in [(2, "succeeded"), (1, "self_wait")] {
        let model = sessions().await;
        let runtime = format!("max_concurrent_sessions = {slots}");
        let household = Household::few_with_model(&model).butler("tester", &toml(&runtime, ""));
        let daemon = household.start().await;
        let tester = daemon.mcp("tester");
        let outer = tester.ok("trigger", json!({"prompt": "outer work"})).await;
        assert_eq!(outer["output"], "outer done", "{outer}");
        let list = tester.ok("sessions_list", json!({})).await;
        let inner = list.as_array().expect("a list").iter().find(|s| s["trigger_source"] == "module:contract_probe");
        if state == "succeeded" {
            let inner = inner.expect("the inner session");
            assert_eq!(
                (&inner["parent_session_id"], &inner["state"]),
                (&outer["session_id"], &json!(state)),
                "{inner}"
            );
        } else {
            assert!(inner.is_none(), "{list}");
            let told = model.requests().iter().any(|r| r.body.to_string().contains("self_wait"));
            assert!(told, "the outer session was told why");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_module_calls_tools_of_another_mcp_server() {
    let household = Household::few().butler("tester", &toml("", ""));
    let daemon = household.start().await;
    let tester = daemon.mcp("tester");
    let file = household.data().join("run/operator.token");
    let url = daemon.mcp("messenger").url;
    let asked = json!({"url": url, "token_file": file, "tool": "status", "arguments": {}});
    let told = tester.ok("contract_remote", asked).await;
    assert_eq!(told["is_error"], false, "{told}");
    assert!(told["text"].as_str().is_some_and(|text| text.contains("\"messenger\"")), "{told}");
    assert!(told["tools"].as_array().is_some_and(|tools| tools.contains(&json!("status"))), "{told}");
    let refused = tester.ok("contract_remote", json!({"url": url, "tool": "status"})).await;
    assert_eq!(refused["code"], "remote", "{refused}");
    let wrong = json!({"url": url, "token_file": file, "tool": "no_such_tool"});
    let refused = tester.ok("contract_remote", wrong).await;
    assert!(refused["code"] == "remote" || refused["is_error"] == true, "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_modules_say_stands_below_the_memory_block_of_a_session() {
    let model = sessions().await;
    let memory = "opening = \"\"\"\nThe garden gate is open.\nThe hedge is cut.\"\"\"\n\n[modules.memory]\nenabled = true\n\n\
                  [modules.memory.retrieval]\ndeadline = \"10s\"\n";
    let household = Household::few_with_model(&model).butler("tester", &toml("", memory));
    let daemon = household.start().await;
    let (tester, db) = (daemon.mcp("tester"), household.owner().await);
    let fact = json!({"subject": "owner", "predicate": "car", "content": "drives a green Saab"});
    tester.ok("memory_store_fact", fact).await;
    let told = async |prompt: &str| -> (String, Value) {
        let end = tester.ok("trigger", json!({"prompt": prompt})).await;
        let id: uuid::Uuid = end["session_id"].as_str().expect("a session").parse().expect("an id");
        let row = db.query_one("SELECT system_prompt, memory FROM tester.sessions WHERE id = $1", &[&id]).await;
        let row = row.expect("the session");
        (row.get::<_, Option<String>>(0).unwrap_or_default(), row.get::<_, Option<Value>>(1).unwrap_or_default())
    };
    let (system, row) = told("which car do I drive?").await;
    let memory = system.find("# Memory Context").unwrap_or_else(|| panic!("no memory: {row} {system}"));
    let lines =
        system.find("\n\nThe garden gate is open.\nThe hedge is cut.").unwrap_or_else(|| panic!("{row} {system}"));
    assert!(memory < lines && system[memory..lines].contains("green Saab"), "{system}");
    assert_eq!(
        (&row["lines"][0]["module"], &row["lines"][0]["cut"]),
        (&json!("contract_probe"), &json!(false)),
        "{row}"
    );
    tester.ok("module.set_enabled", json!({"name": "contract_probe", "enabled": false})).await;
    let (system, row) = told("which car do I drive?").await;
    assert!(!system.contains("garden gate") && row["lines"].is_null(), "{row} {system}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_begins_without_lines_that_come_too_late() {
    let model = sessions().await;
    let household = Household::few_with_model(&model).butler("tester", &toml("", "opening = \"The gate is open.\""));
    let daemon = household.start().await;
    let (tester, db) = (daemon.mcp("tester"), household.owner().await);
    let told = async |prompt: &str| {
        let end = tester.ok("trigger", json!({"prompt": prompt})).await;
        let id: uuid::Uuid = end["session_id"].as_str().expect("a session").parse().expect("an id");
        let sql = "SELECT system_prompt, remember FROM tester.sessions WHERE id = $1";
        let row = db.query_one(sql, &[&id]).await.expect("the session");
        assert_ne!(row.get::<_, Option<String>>(1).as_deref(), Some("pending"), "it has no memory to take this in");
        let system: String = row.get(0);
        if system.contains("The gate is open.") { Ok(()) } else { Err(system) }
    };
    assert!(told("the opening hangs").await.is_err(), "nobody waits for it");
    daemon.logged(&["came too late"], 1).await;
    // On a busy machine other lines may be as late.
    eventually("a session is told it", || async { told("hello").await }).await;
}
