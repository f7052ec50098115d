//! A child gets exactly the documented environment, three descriptors and its limits: children that print these prove
//! it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{FAKE, Household, child_environment, eventually, installed, model, turned};

/// The names that ARCHITECTURE.md lists for a runtime: always, and where needed.
fn documented(runtime: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/ARCHITECTURE.md")).expect("the document");
    let row = |key: &str| -> (BTreeSet<String>, BTreeSet<String>) {
        let line =
            text.lines().find(|l| l.starts_with(&format!("| {key} |"))).unwrap_or_else(|| panic!("no row {key}"));
        let cells: Vec<&str> = line.split('|').collect();
        let names = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        (names(cells[2]), names(cells[3]))
    };
    let (mut always, _) = row("all");
    let (own, sometimes) = row(&format!("`{runtime}`"));
    always.extend(own);
    (always, sometimes)
}

fn assert_documented(runtime: &str, found: &BTreeSet<String>, declared: &[&str]) {
    let (always, sometimes) = documented(runtime);
    let missing: Vec<_> = always.difference(found).collect();
    assert!(missing.is_empty(), "{runtime}: not in the environment: {missing:?}");
    let extra: Vec<_> = found
        .iter()
        .filter(|n| !always.contains(*n) && !sometimes.contains(*n) && !declared.contains(&n.as_str()))
        .collect();
    assert!(extra.is_empty(), "{runtime}: neither documented nor declared: {extra:?}");
    for name in declared {
        assert!(found.contains(*name), "{runtime}: {name} was declared");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vendors_child_sees_exactly_what_is_documented() {
    let declared = "[butler.env]\noptional = [\"HOUSE_COLOUR\", \"NOT_SET_ANYWHERE\"]\n\n[modules.probe]";
    let household = Household::new()
        .with_fake()
        .replace("faker/butler.toml", "[modules.probe]", declared)
        .env("ANTHROPIC_API_KEY", "sk-secret-of-the-owner")
        .env("HOUSE_COLOUR", "teal")
        .env("AWS_SECRET_ACCESS_KEY", "must-not-leak")
        .env("LD_PRELOAD_X", "must-not-leak");
    let daemon = household.start().await;
    // Turned, because its secrets would be found and hidden else.
    let prompt = "a private prompt\ndo start\ndo dump\ndo finish-turned";
    let done = daemon.mcp(FAKE).ok("trigger", json!({"prompt": prompt})).await;
    assert_eq!(done["success"], true, "{done}\n{}", daemon.log());
    let text = turned(done["output"].as_str().expect("a report"));
    let report: Value = serde_json::from_str(&text).expect("JSON");
    let dump = &report["steps"][0]["found"];

    let env: BTreeMap<String, String> = serde_json::from_value(dump["env"].clone()).expect("texts");
    let names: BTreeSet<String> = env.keys().cloned().collect();
    assert_documented("claude-code", &names, &["HOUSE_COLOUR"]);
    assert_eq!(env["HOUSE_COLOUR"], "teal");
    let servers: serde_json::Value = serde_json::from_str(&env["MCP_SERVERS"]).expect("JSON");
    let servers = servers["mcpServers"].as_object().expect("servers");
    assert_eq!(servers.len(), 1, "only its own butler");
    let url = servers.values().next().and_then(|s| s["url"].as_str()).expect("a URL");
    assert!(url.starts_with(&format!("http://127.0.0.1:{}/mcp?runtime_session_id=", daemon.port(FAKE))), "{url}");

    // The key's variable holds the session's token; the key itself is nowhere.
    assert_eq!(env["ANTHROPIC_BASE_URL"], format!("http://127.0.0.1:{}", daemon.info["gateway"]), "the gateway's");
    let token = servers.values().next().and_then(|s| s["headers"]["Authorization"].as_str()).expect("a token");
    assert_eq!(format!("Bearer {}", env["ANTHROPIC_API_KEY"]), token);
    assert!(!text.contains("sk-secret-of-the-owner"), "the owner's key reached a child");

    assert_eq!(dump["fds"], json!({"0": "file", "1": "pipe", "2": "pipe"}));
    for (name, value) in [("core", 0), ("nofile", 256), ("fsize", 64 << 20), ("data", 4u64 << 30)] {
        assert_eq!(dump["limits"][name], json!([value, value]), "{name}, soft and hard");
    }
    if unsafe { libc::geteuid() } == 0 {
        assert!(dump["uid"] != 0 && dump["euid"] == dump["uid"], "a child must not be root: {dump}");
        assert_eq!(dump["groups"], json!([dump["gid"]]), "no supplementary groups");
    }
    assert_eq!(dump["no_new_privs"], 1);
    assert_eq!((&dump["session"], &dump["group"]), (&dump["pid"], &dump["pid"]), "it leads a session and a group");
    let work = household.data().join("work");
    assert!(dump["cwd"].as_str().is_some_and(|cwd| cwd.starts_with(&*work.to_string_lossy())), "{dump}");
    let command = dump["args"].to_string();
    assert!(!command.contains("private prompt") && !command.contains("sk-secret"), "{command}");
    assert!(!command.contains("Bearer") && !command.contains(&env["ANTHROPIC_API_KEY"]), "{command}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_native_child_sees_exactly_what_is_documented() {
    let model = model(json!([{"when": "hang", "steps": [{"hang": true}]}])).await;
    let household = Household::with_model(&model).env("AWS_SECRET_ACCESS_KEY", "must-not-leak");
    let daemon = household.start().await;
    let general = daemon.mcp("general");
    let trigger = tokio::spawn(async move { general.call("trigger", json!({"prompt": "hang"})).await });
    let (environment, process) = child_environment(&household).await;
    // Once it waits for its model it has read what a program reads as it begins.
    model.wait_for(|all| all.iter().any(|request| request.answer == "hang")).await;
    let names = environment.keys().cloned().collect();
    assert_documented("native", &names, &[]);
    let key = "sk-test-key-of-the-scripted-model";
    assert!(environment.values().all(|value| !value.contains(key)), "the owner's key reached a child");
    // What it holds beside the three: its own event queue and its own connections, to its butler and its model.
    for target in held(&process) {
        let own = ["anon_inode:", "socket:", "pipe:", "/dev/null", "/proc/"].iter().any(|p| target.starts_with(p));
        assert!(own, "{}: {target}", process.display());
    }
    reaches_no_database(&process);
    let sessions = daemon.mcp("general").ok("sessions_list", json!({})).await;
    let id = sessions[0]["id"].as_str().expect("an id").to_owned();
    let (code, out, err) = household.cli(&["sessions", "cancel", &id]);
    assert_eq!(code, 0, "{out}{err}");
    let ended = trigger.await.expect("an answer").result();
    assert_eq!(ended["error_class"], "cancelled", "{ended}");
}

/// A process holds no connection to the database.
fn reaches_no_database(process: &Path) {
    let unix = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let sockets: Vec<String> = held(process)
        .iter()
        .filter_map(|target| Some(target.strip_prefix("socket:[")?.trim_end_matches(']').to_owned()))
        .collect();
    for line in unix.lines().filter(|line| line.contains(".s.PGSQL")) {
        assert!(!sockets.iter().any(|inode| line.contains(inode.as_str())), "a connection to the database: {line}");
    }
}

/// Where the descriptors of a process lead.
fn held(process: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(process.join("fd")).expect("descriptors").flatten();
    entries.filter_map(|e| Some(std::fs::read_link(e.path()).ok()?.to_string_lossy().into_owned())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_vendors_own_programs_see_exactly_what_is_documented() {
    let runtimes = installed("environment");
    let model = model(json!([{"when": "hang", "steps": [{"hang": true}]}])).await;
    let household = Household::with_model(&model)
        .with_runtimes(&runtimes, "")
        .env("AWS_SECRET_ACCESS_KEY", "must-not-leak")
        .env("LD_PRELOAD_X", "must-not-leak");
    let daemon = household.start().await;
    for kind in runtimes.iter().map(|runtime| runtime.kind) {
        let before = model.requests().len();
        let butler = daemon.mcp(kind);
        let trigger = tokio::spawn(async move { butler.call("trigger", json!({"prompt": "hang"})).await });
        let (environment, process) = child_environment(&household).await;
        // Once it waits for its model it has read what a program reads as it begins.
        eventually("it asks its model", || async {
            let asked = &model.requests()[before..];
            let hangs = asked.iter().any(|request| request.answer == "hang");
            if hangs { Ok(()) } else { Err(format!("{kind}: {} requests\n{}", asked.len(), daemon.log())) }
        })
        .await;
        assert_documented(kind, &environment.keys().cloned().collect(), &[]);
        let leaked = environment
            .iter()
            .find(|(_, value)| ["sk-test-key-of-", "must-not-leak"].iter().any(|secret| value.contains(secret)));
        assert_eq!(leaked, None, "{kind}");
        // A program opens files of its own; of the household's it holds none but those of its workspace.
        let (data, work) = (household.data(), household.data().join("work"));
        for target in held(&process) {
            let path = Path::new(&target);
            assert!(!path.starts_with(&data) || path.starts_with(&work), "{kind} holds {target}");
        }
        reaches_no_database(&process);
        let sessions = daemon.mcp(kind).ok("sessions_list", json!({})).await;
        let id = sessions[0]["id"].as_str().expect("an id").to_owned();
        let (code, out, err) = household.cli(&["sessions", "cancel", &id]);
        assert_eq!(code, 0, "{kind}: {out}{err}");
        let ended = trigger.await.expect("an answer").result();
        assert_eq!(ended["error_class"], "cancelled", "{kind}: {ended}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stored_secret_is_a_variable_of_its_butler_and_goes_before_the_environment() {
    let declared = "[butler.env]\nrequired = [\"FEED_KEY\"]\noptional = [\"HOUSE_COLOUR\"]\n\n[modules.probe]\n\n\
                    [modules.webhook.endpoints.door]\nurl = \"http://127.0.0.1:9/\"\nsecret = \"DOOR_SECRET\"\n";
    let household = Household::new()
        .with_fake()
        .replace("faker/butler.toml", "[modules.probe]", declared)
        .env("ANTHROPIC_API_KEY", "sk-secret-of-the-owner")
        .env("HOUSE_COLOUR", "teal-of-the-environment");
    let daemon = household.start().await;
    let parked = daemon.butler(FAKE).await;
    assert_eq!((&parked["state"], &parked["failed_phase"]), (&json!("parked"), &json!("environment")), "{parked}");
    let error = parked["error"].as_str().expect("a reason");
    assert!(error.contains("butlerd secret set FEED_KEY"), "{error}");

    let (code, out, err) = household.cli_with_input(&["secret", "set", "FEED_KEY"], "the-key-of-the-feed\n");
    assert!(code == 0 && err.contains("`butlerd reload` starts it"), "{out}{err}");
    assert_eq!(household.cli_with_input(&["secret", "set", "HOUSE_COLOUR"], "stored-orange\n").0, 0);
    assert_eq!(household.cli(&["reload"]).0, 0);
    let up = daemon.butler(FAKE).await;
    assert_eq!(
        (&up["state"], &up["modules"]["webhook"]["failure_phase"]),
        (&json!("up"), &json!("credentials")),
        "{up}"
    );

    // A module that was started without its secret, or with another one, gets it at the next reload.
    let (code, out, err) = household.cli_with_input(&["secret", "set", "DOOR_SECRET"], "the-secret-of-the-door\n");
    assert!(code == 0 && err.contains(&format!("Modules of {FAKE} read it when they start")), "{out}{err}");
    let change = || {
        let (code, out, err) = household.cli(&["reload", "--json"]);
        let done: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {code} {out}{err}"));
        let butlers = done["butlers"].as_array().cloned().unwrap_or_default();
        butlers.into_iter().find(|b| b["name"] == FAKE).unwrap_or_else(|| panic!("{done}"))["change"].clone()
    };
    assert_eq!(change(), "changed");
    assert_eq!(daemon.butler(FAKE).await["modules"]["webhook"]["health"], "active");
    assert_eq!(change(), "unchanged", "nothing is left to take up");

    let (code, out, err) = household.cli(&["trigger", FAKE, "do start\ndo dump\ndo finish-turned", "--json"]);
    assert_eq!(code, 0, "{out}{err}\n{}", daemon.log());
    let done: Value = serde_json::from_str(&out).expect("JSON");
    let report: Value = serde_json::from_str(&turned(done["output"].as_str().expect("a report"))).expect("JSON");
    let env = &report["steps"][0]["found"]["env"];
    assert_eq!((&env["FEED_KEY"], &env["HOUSE_COLOUR"]), (&json!("the-key-of-the-feed"), &json!("stored-orange")));
    assert!(!daemon.log().contains("the-key-of-the-feed"));
}
