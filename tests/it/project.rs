//! A project's memory, as a developer and their coding assistant meet it: commands, hooks, the server over standard input
//! and output, and the name wt-memory, all in real repositories.

use serde_json::{Value, json};

use crate::support::developer::{Developer, McpServer, git, with_workshop};
use crate::support::pages::Page;
use crate::support::{Household, butlerd};

/// Specification 003, "Memory saved via hook, recalled via MCP", "Memory saved via MCP, surfaced via hook", "LLM can use
/// memory tools".
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_saved_by_one_way_is_found_by_the_others_and_told_once() {
    let household = with_workshop();
    let _daemon = household.start().await;
    let api = Developer::in_repository(&household, "work/api");
    let mut server = McpServer::start(&api);
    let listed = server.ask("tools/list", &json!({}));
    let tools: Vec<&str> =
        listed["result"]["tools"].as_array().unwrap().iter().filter_map(|t| t["name"].as_str()).collect();
    for name in [
        "remember",
        "recall",
        "proactive_context",
        "forget",
        "health",
        "audit",
        "dedup",
        "sync_push",
        "import_memories",
    ] {
        assert!(tools.contains(&name), "{name}: {tools:?}");
    }
    let fact = "The deploy script fails when REGION is unset, because terraform falls back to us-east-1";
    let (failed, text) = server.call("remember", &json!({"content": fact, "type": "Learning", "tags": "deploy"}));
    assert!(!failed, "{text}");

    let told = api.prompt("s1", "Why does the deploy script fail with the terraform region?");
    assert!(told.contains("falls back to us-east-1") && told.contains("PROJECT MEMORY"), "{told:?}");
    assert_eq!(api.prompt("s1", "And why does the deploy script fail with terraform's region?"), "", "it was told");
    assert!(api.prompt("s2", "Why does the deploy script fail with terraform's region?").contains("us-east-1"));
    assert_eq!(api.prompt("s3", "Write a haiku about the sea in spring"), "", "nothing bears on it");
    // After compaction once more.
    let compact = json!({"session_id": "s1", "cwd": api.at.display().to_string(), "hook_event_name": "PreCompact", "trigger": "manual"});
    assert_eq!(api.hook("PreCompact", &compact), "");
    assert!(api.prompt("s1", "Why does the deploy script fail with terraform's region?").contains("us-east-1"));

    // The Stop hook's memories are found by MCP.
    let transcript = api.at.join("transcript.jsonl");
    let said =
        "The root cause was that the session cache keys did not include the tenant, so two tenants shared one entry.";
    let line =
        json!({"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": said}]}});
    std::fs::write(&transcript, format!("{line}\n")).unwrap();
    let stop = json!({"session_id": "s1", "cwd": api.at.display().to_string(), "hook_event_name": "Stop",
                      "stop_hook_active": false, "transcript_path": transcript});
    assert_eq!(api.hook("Stop", &stop), "");
    let (failed, text) = server.call("recall", &json!({"query": "session cache keys tenant"}));
    assert!(!failed && text.contains("did not include the tenant"), "{text}");
    // By the workshop's own port as well, where the project is named.
    let found = _daemon.mcp("workshop").ok("recall", json!({"query": "deploy script region", "project": "api"})).await;
    assert!(found.to_string().contains("us-east-1"), "{found}");
}

/// Namesakes don't share, worktrees and branches do, and a branch's memory comes first where it fits as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_project_is_its_repository_and_not_its_name() {
    let household = with_workshop();
    let _daemon = household.start().await;
    let one = Developer::in_repository(&household, "a/api");
    let two = Developer::in_repository(&household, "b/api");
    one.remember("Decision", "", "We chose PostgreSQL over SQLite because two daemons write");
    two.remember("Decision", "", "We chose SQLite over PostgreSQL because there is one writer");
    let (found, other) =
        (one.recalled("PostgreSQL or SQLite for the database"), two.recalled("PostgreSQL or SQLite for the database"));
    assert_eq!((found.len(), other.len()), (1, 1), "{found:?} {other:?}");
    assert!(found[0].contains("two daemons") && other[0].contains("one writer"), "{found:?} {other:?}");

    git(&one.at, &["worktree", "add", "-q", "-b", "feature-x", "../tree"]);
    let tree = Developer::at(&household, household.path().join("a/tree"));
    assert_eq!(tree.recalled("PostgreSQL or SQLite for the database"), found);
    tree.remember("Learning", "", "The migration tool locks the table orders for a minute");
    let listed = one.project(&["list"]);
    let tags = |content: &str| {
        let all = listed.as_array().unwrap();
        all.iter().find(|r| r["content"].as_str().is_some_and(|c| c.contains(content))).unwrap()["tags"].clone()
    };
    assert_eq!(tags("two daemons"), json!(["branch:main"]));
    assert_eq!(tags("locks the table"), json!(["branch:feature-x"]));
    // Outside of any repository there is one memory for all.
    let outside = household.path().join("elsewhere");
    std::fs::create_dir_all(&outside).unwrap();
    let nowhere = Developer::at(&household, outside);
    assert!(nowhere.recalled("PostgreSQL or SQLite for the database").is_empty());
    nowhere.remember("Context", "", "The office printer speaks IPP on its second address");
    assert_eq!(nowhere.project(&["list"])[0]["tags"], json!([]), "there is no branch");
    let projects = one.project(&["projects"]);
    let names: Vec<&str> = projects.as_array().unwrap().iter().filter_map(|p| p["name"].as_str()).collect();
    assert_eq!(names, ["_global", "api", "api"], "{projects}");
    // A history that is rewritten leaves the memory where it was.
    git(&one.at, &["commit", "-q", "--amend", "--allow-empty", "-m", "another beginning"]);
    assert_eq!(one.project(&["list"]).as_array().unwrap().len(), 2);
}

/// Where wt-memory lost the survivor: two notes that say the same with different tags become one with both, by one run
/// that can be taken back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_is_kept_in_runs_that_can_be_taken_back() {
    let household = with_workshop();
    let _daemon = household.start().await;
    let api = Developer::in_repository(&household, "api");
    let first =
        api.remember("Learning", "queue", "The retry limit of the queue is five because the vendor counts calls");
    api.remember(
        "Learning",
        "vendor",
        "The retry limit of the queue is five because the vendor counts each call and bills it",
    );
    api.remember("Learning", "", "The retry limit of the mailer is 6 because nobody counts there");
    api.remember("Learning", "", "Uses tabs");
    // The same once more is no second memory.
    let again = api.project(&[
        "remember",
        "--type",
        "Learning",
        "the retry limit of the queue is five because the vendor counts calls",
    ]);
    assert_eq!((again["id"].as_str(), again["status"].as_str()), (Some(&*first), Some("confirmed")), "{again}");
    let audit = api.project(&["audit"]);
    assert_eq!(
        (&audit["total"], &audit["clusters"], &audit["redundant"]),
        (&json!(4), &json!(1), &json!(1)),
        "{audit}"
    );
    let would = api.project(&["dedup", "--dry-run"]);
    assert_eq!(would["would_delete"], 1, "{would}");
    let done = api.project(&["dedup"]);
    assert_eq!((&done["deleted_count"], &done["merged_count"]), (&json!(1), &json!(1)), "{done}");
    let all = api.project(&["list"]);
    let survivor = all
        .as_array()
        .unwrap()
        .iter()
        .find(|r| r["content"].as_str().is_some_and(|c| c.contains("bills it")))
        .unwrap_or_else(|| panic!("lost: {all}"));
    let tags = survivor["tags"].as_array().unwrap();
    assert!(tags.contains(&json!("queue")) && tags.contains(&json!("vendor")), "{survivor}");
    assert_eq!(all.as_array().unwrap().len(), 3);
    let cleaned = api.project(&["cleanup"]);
    assert_eq!((&cleaned["deleted_count"], &cleaned["garbage"]), (&json!(1), &json!(1)), "{cleaned}");
    for (left, _) in [(3, "cleanup"), (4, "dedup")] {
        api.project(&["undo"]);
        assert_eq!(api.project(&["list"]).as_array().unwrap().len(), left);
    }
    // What is forgotten stays so, until somebody says it again.
    assert_eq!(api.project(&["forget", &first[..18]])["deleted"], true);
    let export = household.path().join("export.json");
    std::fs::write(&export, api.project(&["export"]).to_string()).unwrap();
    assert!(!api.recalled("retry limit of the queue vendor").iter().any(|c| c.ends_with("the vendor counts calls")));
    let back = api.project(&[
        "remember",
        "--type",
        "Learning",
        "The retry limit of the queue is five because the vendor counts calls",
    ]);
    assert_eq!(back["status"], "stored", "{back}");
    assert_ne!(back["id"], json!(first), "elsewhere that id is known as forgotten");
    // Into another project once, under ids of its own: these are taken in this household.
    let other = Developer::in_repository(&household, "other");
    let file = export.display().to_string();
    let took = other.project(&["import", &file]);
    assert_eq!((&took["imported"], &took["errors"]), (&json!(3), &json!(0)), "{took}");
    let again = other.project(&["import", &file]);
    assert_eq!((&again["imported"], &again["skipped"]), (&json!(0), &json!(3)), "{again}");
    assert_eq!(api.project(&["list"]).as_array().unwrap().len(), 4, "what another project has stays its own");
}

/// The name wt-memory: its commands, its output, its exit codes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_answers_to_its_other_name() {
    let household = with_workshop();
    let daemon = household.start().await;
    let api = Developer::in_repository(&household, "api");
    let name = household.path().join("wt-memory");
    std::os::unix::fs::symlink(butlerd(), &name).unwrap();
    let wt = |args: &[&str], input: &str| {
        let out = api.run(&name, args, input);
        (
            out.status.code().unwrap(),
            String::from_utf8_lossy(&out.stdout).into_owned(),
            String::from_utf8_lossy(&out.stderr).into_owned(),
        )
    };
    assert_eq!(wt(&["health"], ""), (0, "ok\n".to_owned(), String::new()));
    let (code, id, _) = wt(&["remember", "--type", "Decision", "--tags", "a,b"], "We keep money as integers of cents");
    assert!(code == 0 && id.trim().len() == 36, "{id}");
    assert_eq!(wt(&["remember"], "No type is named").0, 1);
    assert_eq!(wt(&["remember", "--type", "Learning"], "").0, 0, "nothing to remember");
    let (code, out, _) = wt(&["recall", "how is money kept", "--limit", "3"], "");
    let records: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}"));
    let record = &records[0];
    assert_eq!(
        (code, &record["experience_type"], &record["tags"]),
        (0, &json!("Decision"), &json!(["a", "b", "branch:main"]))
    );
    for key in "id content experience_type tags entities metadata importance access_count created_at last_accessed compressed is_failure is_anomaly".split(' ') {
        assert!(record.get(key).is_some(), "{key}: {record}");
    }
    let (_, out, _) = wt(&["proactive", "money as integers"], "");
    let near: Value = serde_json::from_str(&out).unwrap();
    assert!(near[0]["relevance_score"].as_f64().is_some_and(|r| r > 0.3 && r <= 1.0), "{near}");
    let (code, out, _) = wt(&["forget", id.trim()], "");
    assert!(code == 0 && out.contains("true"), "{out}");
    assert_eq!(wt(&["get", id.trim()], ""), (0, "{}\n".to_owned(), String::new()));
    assert_eq!(wt(&["forget", "--all"], "").0, 1, "without --confirm");
    assert_eq!(wt(&["nonsense"], "").0, 1);
    // With the daemon away nothing looks like an empty memory, and hooks keep silent.
    drop(daemon);
    let (code, out, err) = wt(&["list"], "");
    assert!(code == 1 && out.is_empty() && !err.is_empty(), "{code} {out} {err}");
    assert_eq!(wt(&["remember", "--type", "Learning"], "This must not vanish in silence").0, 1);
    assert_eq!(api.prompt("s", "how is money kept"), "");
}

/// `butlerd project init` in a household that has no workshop yet: it is switched on, and everything is registered once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn init_switches_the_butler_on_and_registers_once() {
    let household = Household::few();
    let _daemon = household.start().await;
    let api = Developer::in_repository(&household, "api");
    std::fs::create_dir_all(api.at.join(".claude")).unwrap();
    let own = json!({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "./mine.sh"}]}]}, "model": "x"});
    std::fs::write(api.at.join(".claude/settings.json"), own.to_string()).unwrap();
    let data = household.data().display().to_string();
    let roster = household.roster().display().to_string();
    let init = |more: &[&str]| {
        let mut args =
            vec!["project", "init", "--assistant", "claude", "--data-dir", &data, "--roster", &roster, "--json"];
        args.extend(more);
        let mut command = api.command(butlerd(), &args);
        // No assistant of this machine is touched.
        let out = command.env("PATH", "/usr/bin:/bin").envs(household.environment()).output().expect("it runs");
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(out.status.success(), "{text}{}", String::from_utf8_lossy(&out.stderr));
        serde_json::from_str::<Value>(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
    };
    let would = init(&["--dry-run"]);
    assert!(
        would["changes"].as_array().is_some_and(|c| !c.is_empty() && c.iter().all(|c| c["done"] == false)),
        "{would}"
    );
    assert!(!household.roster().join("workshop").exists() && !api.at.join("CLAUDE.md").exists());
    let done = init(&[]);
    assert!(household.roster().join("workshop/butler.toml").is_file(), "{done}");
    api.remember("Decision", "", "The workshop answers as soon as init has ended");
    let settings: Value =
        serde_json::from_str(&std::fs::read_to_string(api.at.join(".claude/settings.json")).unwrap()).unwrap();
    let stop = settings["hooks"]["Stop"].to_string();
    assert!(stop.contains("./mine.sh") && stop.contains("hook Stop") && settings["model"] == "x", "{settings}");
    let instructions = std::fs::read_to_string(api.at.join("CLAUDE.md")).unwrap();
    assert!(
        ["remember", "recall", "proactive_context"].iter().all(|tool| instructions.contains(tool)),
        "{instructions}"
    );
    let again = init(&[]);
    assert_eq!(again["changes"], json!([]), "{again}");
}

/// Two machines with a daemon each, over one bare origin: nothing is lost, and what one forgets the other forgets.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_machines_exchange_memories_by_git() {
    let (here, there) = (with_workshop(), with_workshop());
    let (one, two) = (here.start().await, there.start().await);
    let origin = here.path().join("origin.git");
    let first = Developer::in_repository(&here, "api");
    git(&first.at, &["clone", "-q", "--bare", ".", &origin.display().to_string()]);
    git(&first.at, &["remote", "add", "origin", &origin.display().to_string()]);
    git(&first.at, &["config", "user.name", "Ada Coder"]);
    git(there.path(), &["clone", "-q", &origin.display().to_string(), "api"]);
    let second = Developer::at(&there, there.path().join("api"));
    git(&second.at, &["config", "user.name", "Bob Coder"]);
    let kept = first.remember("Decision", "", "Releases are cut on Tuesdays so that somebody is there on Wednesday");
    let pushed = first.project(&["sync", "push"]);
    assert_eq!(pushed["pushed"], true, "{pushed}");
    let pulled = second.project(&["sync", "pull"]);
    assert_eq!(pulled["imported"], 1, "{pulled}");
    let record = second.project(&["get", &kept]);
    assert_eq!(record["created_at"], first.project(&["get", &kept])["created_at"], "its id and its time are kept");
    second.remember("Learning", "", "The staging cluster has no swap, so the tests need eight gigabytes");
    second.project(&["sync"]);
    let synced = first.project(&["sync"]);
    assert_eq!(synced["imported"], 1, "{synced}");
    first.project(&["forget", &kept]);
    first.project(&["sync"]);
    let pulled = second.project(&["sync"]);
    assert_eq!(pulled["deleted"], 1, "{pulled}");
    assert!(second.is_gone(&kept), "it is forgotten there, too");
    second.project(&["sync"]);
    first.project(&["sync"]);
    assert!(first.is_gone(&kept), "and does not come back");
    let count = |developer: &Developer<'_>| developer.project(&["list"]).as_array().unwrap().len();
    assert_eq!(count(&first), 1);
    // What would take nearly all away is taken only by force.
    for what in ["linter", "deploy script", "message queue", "login page", "price list", "backup job", "search index"] {
        first.remember("Context", "", &format!("The {what} belongs to the team of the {what}"));
    }
    first.project(&["sync"]);
    second.project(&["sync"]);
    assert_eq!(count(&second), 8);
    first.project(&["forget", "--all", "--confirm"]);
    first.project(&["sync", "push"]);
    let pulled = second.project(&["sync", "pull"]);
    assert_eq!((&pulled["deleted"], &pulled["kept"]), (&json!(0), &json!(8)), "{pulled}");
    assert!(pulled["lines"].to_string().contains("forgets 8 of the 8 memories here"), "{pulled}");
    assert_eq!(count(&second), 8);
    assert_eq!(second.project(&["sync", "pull", "--force"])["deleted"], 8);
    assert_eq!(count(&second), 0);
    // The owner sees how each machine's exchange stands, and why the last one failed.
    git(&second.at, &["remote", "set-url", "origin", "/nowhere/at/all.git"]);
    let tried = second.run(butlerd(), &["project", "sync", "push", "--force"], "");
    assert!(!tried.status.success(), "there is no such repository: {tried:?}");
    for (daemon, user, fails) in [(&one, "ada-coder/", false), (&two, "bob-coder/", true)] {
        let (_, listed) = daemon.get("/api/v1/butlers/workshop/projects").await;
        let listed: Value = serde_json::from_str(&listed).expect("JSON");
        // Besides it there is what is of no project.
        let of_it = listed["data"].as_array().into_iter().flatten().find(|project| project["name"] == "api");
        let id = of_it.and_then(|project| project["id"].as_str()).unwrap_or_else(|| panic!("{listed}")).to_owned();
        let (_, shown) = daemon.get(&format!("/api/v1/butlers/workshop/projects/{id}")).await;
        let shown: Value = serde_json::from_str(&shown).expect("JSON");
        let exchange = &shown["exchanges"][0];
        assert!(exchange["identity"].as_str().is_some_and(|identity| identity.starts_with(user)), "{shown}");
        assert!(exchange["pushed_at"].is_string() && exchange["pulled_at"].is_string(), "{exchange}");
        assert_eq!(exchange["error"].is_string(), fails, "{exchange}");
        let page = Page::of(daemon).await.get(&format!("/projects/workshop/{id}")).await;
        assert!(page.contains(exchange["identity"].as_str().expect("one")), "{page}");
    }
}
