//! A child gets exactly the documented environment, three descriptors and its limits: children that print these prove it.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;

use base64::Engine;
use serde_json::json;

use crate::support::{Household, child_environment, model};

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

/// A stand-in for Claude Code that answers with what it sees of itself.
const DUMP: &str = r#"#!/bin/sh
see() { tr '\0' '\n' < /proc/$$/environ; echo ---; ls -l /proc/$$/fd > "$TMPDIR/fds"; sed 's/.* \([0-9]* -> .*\)/\1/' "$TMPDIR/fds"; echo ---; cat /proc/$$/limits; echo ---; id -u; id -G; echo ---; pwd; tr '\0' ' ' < /proc/$$/cmdline; }
see > "$TMPDIR/dump"
dump=$(base64 -w0 < "$TMPDIR/dump" | tr A-Za-z N-ZA-Mn-za-m)
echo '{"type":"system","subtype":"init","session_id":"s","tools":[],"mcp_servers":[{"name":"butler","status":"connected"}],"model":"m"}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"'$dump'","num_turns":1,"session_id":"s","usage":{"input_tokens":1,"output_tokens":1}}'
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vendors_child_sees_exactly_what_is_documented() {
    let household = Household::new()
        .replace("general/butler.toml", "type = \"native\"", "type = \"claude-code\"")
        .replace("general/butler.toml", "optional = []", "optional = [\"HOUSE_COLOUR\", \"NOT_SET_ANYWHERE\"]")
        .env("ANTHROPIC_API_KEY", "sk-secret-of-the-owner")
        .env("HOUSE_COLOUR", "teal")
        .env("AWS_SECRET_ACCESS_KEY", "must-not-leak")
        .env("LD_PRELOAD_X", "must-not-leak");
    let program = household.path().join("claude");
    std::fs::write(&program, DUMP).expect("the program");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("its mode");
    let household = household.env("BUTLERD_SPAWNER__CLIS__CLAUDE", program.to_str().expect("a path"));
    let daemon = household.start().await;
    let done = daemon.mcp("general").ok("trigger", json!({"prompt": "a private prompt"})).await;
    // It says that it has the tools, and never asked for them: its word does not count.
    assert_eq!(done["error_class"], "mcp_unreachable", "{done}\n{}", daemon.log());
    // Turned once more: in plain base64 its secrets would be found and hidden.
    let turn = |c: char| match c {
        'A'..='M' | 'a'..='m' => (c as u8 + 13) as char,
        'N'..='Z' | 'n'..='z' => (c as u8 - 13) as char,
        other => other,
    };
    let dump: String = done["output"].as_str().expect("a dump").chars().map(turn).collect();
    let dump = base64::engine::general_purpose::STANDARD.decode(dump).expect("base64");
    let dump = String::from_utf8(dump).expect("text");
    let parts: Vec<&str> = dump.split("---\n").collect();

    let env: BTreeMap<&str, &str> = parts[0].lines().filter_map(|l| l.split_once('=')).collect();
    let names: BTreeSet<String> = env.keys().map(|k| (*k).to_owned()).collect();
    assert_documented("claude-code", &names, &["HOUSE_COLOUR"]);
    assert_eq!(env["HOUSE_COLOUR"], "teal");
    let servers: serde_json::Value = serde_json::from_str(env["MCP_SERVERS"]).expect("JSON");
    let servers = servers["mcpServers"].as_object().expect("servers");
    assert_eq!(servers.len(), 1, "only its own butler");
    let url = servers.values().next().and_then(|s| s["url"].as_str()).expect("a URL");
    assert!(url.starts_with(&format!("http://127.0.0.1:{}/mcp?runtime_session_id=", daemon.port("general"))), "{url}");

    // The key's variable holds the session's token; the key itself is nowhere.
    assert_eq!(env["ANTHROPIC_BASE_URL"], format!("http://127.0.0.1:{}", daemon.info["gateway"]), "the gateway's");
    let token = servers.values().next().and_then(|s| s["headers"]["Authorization"].as_str()).expect("a token");
    assert_eq!(format!("Bearer {}", env["ANTHROPIC_API_KEY"]), token);
    assert!(!dump.contains("sk-secret-of-the-owner"), "the owner's key reached a child");

    let fds: Vec<&str> = parts[1].lines().filter(|l| l.contains("->")).collect();
    let numbers: Vec<&str> = fds.iter().filter_map(|l| l.split(' ').next()).collect();
    // The shell keeps its script and its saved output at 10 and above; the native child below has no such excuse.
    let inherited: Vec<&&str> = numbers.iter().filter(|n| n.len() == 1).collect();
    assert_eq!(inherited, [&"0", &"1", &"2"], "{fds:?}");
    assert!(fds.iter().all(|l| !l.contains("/postgres") && !l.contains("socket:")), "{fds:?}");

    let limit = |name: &str| {
        let line = parts[2].lines().find(|l| l.starts_with(name)).unwrap_or_else(|| panic!("no {name}"));
        line[26..].split_whitespace().next().expect("a soft limit").to_owned()
    };
    assert_eq!(limit("Max core file size"), "0");
    assert_eq!(limit("Max open files"), "256");
    assert_eq!(limit("Max file size"), (64 << 20).to_string());
    assert_eq!(limit("Max data size"), (4u64 << 30).to_string());

    let ids: Vec<&str> = parts[3].lines().collect();
    if unsafe { libc::geteuid() } == 0 {
        assert_ne!(ids[0], "0", "a child must not be root");
        assert_eq!(ids[1].split(' ').count(), 1, "no supplementary groups: {ids:?}");
    }
    let command = parts[4];
    assert!(command.contains("/work/") && !command.contains("private prompt"), "{command}");
    assert!(!command.contains("sk-secret") && !command.contains("Bearer"), "{command}");
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
    for entry in std::fs::read_dir(process.join("fd")).expect("descriptors").flatten() {
        let target = std::fs::read_link(entry.path()).map(|t| t.to_string_lossy().into_owned()).unwrap_or_default();
        let own = ["anon_inode:", "socket:", "pipe:", "/dev/null", "/proc/"].iter().any(|p| target.starts_with(p));
        assert!(own || target.is_empty(), "{}: {target}", entry.path().display());
    }
    let unix = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let sockets: Vec<String> = std::fs::read_dir(process.join("fd"))
        .expect("descriptors")
        .flatten()
        .filter_map(|e| std::fs::read_link(e.path()).ok())
        .filter_map(|t| Some(t.to_str()?.strip_prefix("socket:[")?.trim_end_matches(']').to_owned()))
        .collect();
    let postgres = unix.lines().filter(|l| l.contains(".s.PGSQL"));
    for line in postgres {
        assert!(!sockets.iter().any(|inode| line.contains(inode.as_str())), "a connection to the database: {line}");
    }
    let sessions = daemon.mcp("general").ok("sessions_list", json!({})).await;
    let id = sessions[0]["id"].as_str().expect("an id").to_owned();
    let (code, out, err) = household.cli(&["sessions", "cancel", &id]);
    assert_eq!(code, 0, "{out}{err}");
    let ended = trigger.await.expect("an answer").result();
    assert_eq!(ended["error_class"], "cancelled", "{ended}");
}
