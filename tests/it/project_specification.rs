//! Specification 003 scenario by scenario: each tool of the server over standard input and output does what the command
//! of the name `wt-memory` does. Registration and instructions are shown by `project::init…`, the scenarios across hooks
//! and server by `project::what_is_saved…` and, with the real program, by `project_clients`.

use serde_json::{Value, json};

use crate::support::developer::{Developer, McpServer, git, with_workshop};
use crate::support::{Household, butlerd, eventually};

/// The command line under its other name, in one repository.
struct WtMemory<'a> {
    developer: &'a Developer<'a>,
    program: std::path::PathBuf,
}

impl<'a> WtMemory<'a> {
    fn of(household: &Household, developer: &'a Developer<'a>) -> Self {
        let program = household.path().join("wt-memory");
        if !program.exists() {
            std::os::unix::fs::symlink(butlerd(), &program).expect("the link");
        }
        Self { developer, program }
    }

    /// What it prints.
    fn text(&self, args: &[&str], input: &str) -> String {
        let out = self.developer.run(&self.program, args, input);
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).trim().to_owned()
    }

    fn json(&self, args: &[&str]) -> Value {
        let text = self.text(args, "");
        still(serde_json::from_str(&text).unwrap_or_else(|e| panic!("{args:?}: {e}: {text}")))
    }
}

/// Without what changes with each look: how often and when a memory was used.
fn still(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.retain(|name, _| name != "access_count" && name != "last_accessed");
            fields.values_mut().for_each(|inner| *inner = still(inner.take()));
        }
        Value::Array(list) => list.iter_mut().for_each(|inner| *inner = still(inner.take())),
        _ => {}
    }
    value
}

/// What a tool answers as JSON.
fn call(server: &mut McpServer, tool: &str, arguments: &Value) -> Value {
    let (failed, text) = server.call(tool, arguments);
    assert!(!failed, "{tool}: {text}");
    still(serde_json::from_str(&text).unwrap_or_else(|e| panic!("{tool}: {e}: {text}")))
}

fn ids(records: &Value) -> Vec<&str> {
    let records = records.as_array().unwrap_or_else(|| panic!("no list: {records}"));
    records.iter().filter_map(|record| record["id"].as_str()).collect()
}

/// Scenarios "remember tool", "recall tool", "proactive_context tool", "list_memories tool", "get_memory tool",
/// "context_summary tool", "brain tool", "memory_stats tool", "forget tool", "forget_by_tags tool".
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn core_tools_do_what_the_commands_do() {
    let household = with_workshop();
    let _daemon = household.start().await;
    let api = Developer::in_repository(&household, "api");
    let (wt, mut server) = (WtMemory::of(&household, &api), McpServer::start(&api));
    let invoices = "Invoices are numbered without gaps, because the tax office asks for each number";
    let kept = call(&mut server, "remember", &json!({"content": invoices, "type": "Decision", "tags": "invoice,tax"}));
    let id = kept["id"].as_str().expect("an id").to_owned();
    wt.text(&["remember", "--type", "Learning", "--tags", "mail"], "The mail relay refuses more than 50 recipients");
    wt.text(&["remember", "--type", "Context", "--tags", "mail"], "Mail goes out through the relay of the data centre");
    let (failed, why) = server.call("remember", &json!({"content": "x y z", "type": "Opinion"}));
    assert!(failed && why.contains("Decision, Learning or Context"), "{why}");

    for query in ["how are invoices numbered", "recipients of a mail"] {
        let by_tool = call(&mut server, "recall", &json!({"query": query, "limit": 2}));
        assert_eq!(by_tool, wt.json(&["recall", query, "--limit", "2"]), "{query}");
        let by_tool = call(&mut server, "proactive_context", &json!({"context": query, "limit": 2}));
        assert_eq!(by_tool, wt.json(&["proactive", query, "--limit", "2"]), "{query}");
        let relevance = by_tool[0]["relevance_score"].as_f64().unwrap_or_default();
        assert!(relevance > 0.3 && relevance <= 1.0, "{by_tool}");
    }
    let of_mail = call(&mut server, "recall", &json!({"query": "numbers of recipients", "tags": "invoice"}));
    assert!(ids(&of_mail).iter().all(|found| *found == id), "another tag: {of_mail}");
    let listed = call(&mut server, "list_memories", &json!({"type": "Decision", "limit": 5}));
    assert_eq!((ids(&listed), &listed), (vec![&*id], &wt.json(&["list", "--type", "Decision", "--limit", "5"])));
    let one = call(&mut server, "get_memory", &json!({"id": id}));
    assert_eq!((&one["content"], &one), (&json!(invoices), &wt.json(&["get", &id])));
    let summary = call(&mut server, "context_summary", &json!({"topic": "invoice numbers"}));
    assert_eq!(summary["decisions"][0]["id"], json!(id), "{summary}");
    assert_eq!(summary, wt.json(&["context", "invoice numbers"]));
    // What was recalled was used, which is noted behind the answer.
    eventually("a recall is counted", || async {
        let used = api.project(&["get", &id])["access_count"].as_u64();
        if used > Some(0) { Ok(()) } else { Err(format!("{used:?}")) }
    })
    .await;
    let brain = call(&mut server, "brain", &json!({}));
    assert_eq!(brain["stats"]["total"], 3, "{brain}");
    let stats = call(&mut server, "memory_stats", &json!({}));
    assert_eq!((&stats["total"], &stats), (&json!(3), &wt.json(&["stats", "--json"])));

    assert_eq!(call(&mut server, "forget", &json!({"id": id[..8]}))["deleted"], true, "{id}");
    assert_eq!(wt.text(&["get", &id], ""), "{}");
    assert_eq!(call(&mut server, "forget_by_tags", &json!({"tags": "mail,none"}))["deleted_count"], 2);
    assert_eq!(wt.json(&["list"]), json!([]));
}

/// Scenarios "health tool", "audit tool", "cleanup tool", "dedup tool".
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn maintenance_tools_do_what_the_commands_do() {
    let household = with_workshop();
    let _daemon = household.start().await;
    let api = Developer::in_repository(&household, "api");
    let (wt, mut server) = (WtMemory::of(&household, &api), McpServer::start(&api));
    let same = [
        "The cache keeps a session for an hour at most",
        "The cache keeps a session for an hour at most, then drops it",
    ];
    let ids = same.map(|text| wt.text(&["remember", "--type", "Learning"], text));
    wt.text(&["remember", "--type", "Learning"], "The cache never keeps a session for an hour at most");
    wt.text(&["remember", "--type", "Context"], "Tabs, two");
    assert_eq!(call(&mut server, "health", &json!({}))["status"], "ok");
    assert_eq!(wt.text(&["health"], ""), "ok");
    let audit = call(&mut server, "audit", &json!({"threshold": 0.75}));
    assert_eq!((&audit["clusters"], &audit["redundant"]), (&json!(1), &json!(1)), "{audit}");
    assert_eq!(audit, wt.json(&["audit", "--threshold", "0.75", "--json"]));

    let would = call(&mut server, "dedup", &json!({"threshold": 0.75, "dry_run": true}));
    assert_eq!((&would["would_delete"], wt.json(&["list"]).as_array().unwrap().len()), (&json!(1), 4), "{would}");
    let done = call(&mut server, "dedup", &json!({"threshold": 0.75}));
    assert_eq!(done["deleted_count"], 1, "{done}");
    let left = wt.json(&["list"]);
    assert!(left.as_array().unwrap().iter().any(|r| ids.iter().any(|id| r["id"] == **id)), "the survivor: {left}");
    assert_eq!(call(&mut server, "dedup", &json!({"threshold": 0.75}))["deleted_count"], 0);
    let would = call(&mut server, "cleanup", &json!({"threshold": 0.2, "dry_run": true}));
    assert_eq!(would["would_delete"], 1, "{would}");
    assert_eq!(call(&mut server, "cleanup", &json!({"threshold": 0.2}))["garbage"], 1);
    assert_eq!(wt.json(&["list"]).as_array().unwrap().len(), 2);
}

/// Scenarios "sync tool", "sync_push tool", "sync_pull tool", "sync_status tool", "export tool", "import_memories tool".
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exchange_tools_do_what_the_commands_do() {
    let household = with_workshop();
    let _daemon = household.start().await;
    let api = Developer::in_repository(&household, "api");
    git(household.path(), &["init", "-q", "--bare", "origin.git"]);
    git(&api.at, &["remote", "add", "origin", &household.path().join("origin.git").display().to_string()]);
    git(&api.at, &["config", "user.name", "Ada Coder"]);
    git(&api.at, &["config", "user.email", "ada@example.org"]);
    let (wt, mut server) = (WtMemory::of(&household, &api), McpServer::start(&api));
    wt.text(&["remember", "--type", "Learning"], "Nightly builds read their settings from the branch release");
    let (failed, why) = server.call("sync_push", &json!({}));
    assert!(!failed, "{why}");
    let (failed, status) = server.call("sync_status", &json!({}));
    assert!(!failed && status.contains("last_push"), "{status}");
    let (failed, why) = server.call("sync_pull", &json!({"from_source": "nobody/nowhere"}));
    assert!(!failed && why.contains("Nothing comes from nobody/nowhere"), "{why}");
    let (failed, why) = server.call("sync", &json!({}));
    assert!(!failed, "{why}");
    let branch = std::process::Command::new("git")
        .args(["ls-tree", "-r", "--name-only", "wt-memory"])
        .current_dir(household.path().join("origin.git"))
        .output()
        .expect("git runs");
    let files = String::from_utf8_lossy(&branch.stdout).into_owned();
    assert!(files.trim().ends_with("/memories.json") && files.lines().count() == 1, "{files}");

    let export = call(&mut server, "export_memories", &json!({}));
    assert_eq!((&export["version"], &export["format"]), (&json!(1), &json!("wt-memory-export")));
    assert_eq!(export["records"], wt.json(&["export"])["records"]);
    let mut other = export.clone();
    other["records"][0]["id"] = json!("6d3f6b0a-9a51-4b55-8a53-6f3c0e7c1a11");
    other["records"][0]["content"] = json!("Release notes are written before the tag is set");
    std::fs::write(api.at.join("brought.json"), other.to_string()).expect("the file");
    let would = call(&mut server, "import_memories", &json!({"file_path": "brought.json", "dry_run": true}));
    assert_eq!(would["would_import"], 1, "{would}");
    assert_eq!(call(&mut server, "import_memories", &json!({"file_path": "brought.json"}))["imported"], 1);
    assert_eq!(
        wt.json(&["get", "6d3f6b0a-9a51-4b55-8a53-6f3c0e7c1a11"])["created_at"],
        other["records"][0]["created_at"]
    );
}

/// Scenario "Branch boosting works in both paths": a memory of the branch comes before one that fits about as well, by
/// server and command line alike, and not where tags are given.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_branch_counts_the_same_by_both_ways() {
    let household = with_workshop();
    let _daemon = household.start().await;
    let api = Developer::in_repository(&household, "api");
    let (wt, mut server) = (WtMemory::of(&household, &api), McpServer::start(&api));
    wt.text(&["remember", "--type", "Learning"], "The importer reads its batch size from the file limits, key rows");
    git(&api.at, &["checkout", "-q", "-b", "feature-x"]);
    wt.text(
        &["remember", "--type", "Learning"],
        "The importer reads its batch size from the table limits, column rows",
    );
    wt.text(&["remember", "--type", "Learning"], "Buttons are blue");
    let query = "where does the importer read its batch size from";
    let on_branch = call(&mut server, "recall", &json!({"query": query, "limit": 2}));
    assert!(on_branch[0]["content"].as_str().unwrap().contains("table limits"), "{on_branch}");
    assert_eq!(ids(&on_branch).len(), 2, "the weak memory of the branch displaces nothing: {on_branch}");
    assert_eq!(on_branch, wt.json(&["recall", query, "--limit", "2"]));
    let tagged = json!({"query": query, "tags": "branch:main"});
    assert!(call(&mut server, "recall", &tagged)[0]["content"].as_str().unwrap().contains("file limits"));
    git(&api.at, &["checkout", "-q", "main"]);
    let on_main = call(&mut server, "recall", &json!({"query": query, "limit": 2}));
    assert!(on_main[0]["content"].as_str().unwrap().contains("file limits"), "{on_main}");
    assert_eq!(on_main, wt.json(&["recall", query, "--limit", "2"]));
}
