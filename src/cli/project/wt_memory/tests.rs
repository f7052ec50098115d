//! Each command of the original, with what it prints and its exit code.

use std::cell::RefCell;

use super::super::developer::Exchange;
use super::*;
use project::wire::{Identity, Refusal};
use serde_json::json;

/// A daemon that answers as it is told, and remembers what it was asked.
struct Scripted {
    place: ProjectPlace,
    answer: Result<Value, &'static str>,
    input: String,
    asked: RefCell<Vec<(String, Value)>>,
}

impl World for &Scripted {
    fn ask(&self, op: &str, args: Value) -> Result<Value, ConnectionError> {
        let Value::Object(args) = args else { panic!("{args}") };
        let args = args.into_iter().filter(|(_, value)| !value.is_null()).collect();
        self.asked.borrow_mut().push((op.to_owned(), Value::Object(args)));
        match &self.answer {
            Ok(answer) => Ok(answer.clone()),
            Err("away") => Err(ConnectionError::Away { tried: vec!["/run/butlerd/project.sock".into()] }),
            Err(code) => {
                let (code, message) = ((*code).to_owned(), "it holds a secret".to_owned());
                Err(ConnectionError::Refused(Refusal { code, message }))
            }
        }
    }

    fn place(&self) -> &ProjectPlace {
        &self.place
    }

    fn input(&self) -> Result<String, ProjectError> {
        Ok(self.input.clone())
    }

    fn import(&self, export: project::record::Export, dry_run: bool) -> Result<Value, ProjectError> {
        Ok(json!({"imported": export.records.len(), "dry_run": dry_run}))
    }

    fn exchange(&self, what: Exchange<'_>, force: bool) -> Result<SyncReport, ProjectError> {
        Ok(SyncReport { lines: vec![format!("{what:?} {force}")], ..SyncReport::default() })
    }

    fn sync_status(&self) -> Result<SyncStatus, ProjectError> {
        Err(project::sync::SyncError::NoRepository { path: "/x".into() }.into())
    }
}

fn scripted(top: &str, answer: Result<Value, &'static str>, input: &str) -> Scripted {
    let identity = Identity { name: "api".to_owned(), ..Identity::default() };
    let place = ProjectPlace { top: top.into(), common_dir: None, identity, branch: None };
    Scripted { place, answer, input: input.to_owned(), asked: RefCell::default() }
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').filter(|word| !word.is_empty()).map(|word| word.replace('_', " ")).collect()
}

/// Runs a line; blanks inside a word are written `_`.
fn ran(world: &Scripted, line: &str) -> Reply {
    run(&words(line), |_| Ok(world))
}

fn answered(line: &str, answer: Value, input: &str) -> (Reply, Vec<(String, Value)>) {
    let world = scripted("/x", Ok(answer), input);
    let reply = ran(&world, line);
    (reply, world.asked.into_inner())
}

#[test]
fn what_is_typed_is_asked_of_the_daemon() {
    let cases = [
        (
            "recall a_b --limit 3 --mode semantic --min-importance 0.5",
            "recall",
            json!({"query": "a b", "limit": 3, "mode": "semantic", "min_importance": 0.5}),
        ),
        ("recall q --tags a,b --other x", "recall", json!({"query": "q", "limit": 5, "tags": "a,b"})),
        ("recall --tags a --tags-only", "recall", json!({"query": "", "limit": 5, "tags": "a", "tags_only": true})),
        ("recall q --since 2026-01-01", "recall_by_date", json!({"since": "2026-01-01", "limit": 5})),
        ("proactive text --limit 2", "proactive_context", json!({"context": "text", "limit": 2})),
        ("list", "list_memories", json!({})),
        ("list --type event --limit 2", "list_memories", json!({"type": "Context", "limit": 2})),
        ("get 12", "get_memory", json!({"id": "12"})),
        ("inspect 12", "get_memory", json!({"id": "12"})),
        ("forget 12", "forget", json!({"id": "12"})),
        ("forget --all --confirm", "forget_matching", json!({"all": true})),
        ("forget --older-than 30", "forget_matching", json!({"older_than_days": 30})),
        ("forget --tags a,b", "forget_by_tags", json!({"tags": "a,b"})),
        ("forget --pattern ^wip", "forget_matching", json!({"pattern": "^wip"})),
        ("forget --until 2026-01-01 --confirm", "forget_matching", json!({"until": "2026-01-01"})),
        ("context auth", "context_summary", json!({"topic": "auth"})),
        ("brain", "brain", json!({})),
        ("stats --json", "memory_stats", json!({})),
        ("status --json", "status", json!({})),
        ("audit --threshold 0.9 --json", "audit", json!({"threshold": 0.9})),
        ("dedup --dry-run", "dedup", json!({"threshold": 0.75, "dry_run": true})),
        ("dedup -i", "dedup", json!({"threshold": 0.75, "dry_run": true})),
        ("cleanup --min-length 5", "cleanup", json!({"threshold": 0.2, "min_length": 5, "dry_run": false})),
        ("undo", "undo", json!({})),
        ("export", "export_memories", json!({})),
        ("verify", "verify_index", json!({})),
        ("graph-stats", "graph_stats", json!({})),
        ("consolidation --since 2026-01-01 --events", "consolidation_report", json!({"since": "2026-01-01"})),
        ("todo list --json", "list_todos", json!({})),
        ("metrics --since 7d --json", "metrics", json!({"since_days": 7})),
    ];
    for (line, op, args) in cases {
        let (reply, asked) = answered(line, json!({"x": [1]}), "");
        assert_eq!(asked, [(op.to_owned(), args)], "{line}");
        assert_eq!(reply.code, 0, "{line}: {reply:?}");
        let printed: Value = serde_json::from_str(&reply.stdout).unwrap();
        assert_eq!(printed, json!({"x": [1]}), "{line}");
    }
}

#[test]
fn remember_prints_the_id_alone() {
    let stored = || json!({"id": "0190-1", "status": "stored"});
    let line = "remember --type Decision --tags a,b --metadata {\"k\":1,\"l\":\"m\"} --failure --anomaly";
    let (reply, asked) = answered(line, stored(), "use tabs\nalways\n\n");
    assert_eq!((reply.stdout.as_str(), reply.stderr.as_str(), reply.code), ("0190-1\n", "", 0));
    let args = json!({"content": "use tabs\nalways", "type": "Decision", "tags": "a,b", "failure": true, "anomaly": true,
                      "metadata": {"k": "1", "l": "m"}});
    assert_eq!(asked, [("remember".to_owned(), args)]);
    for (name, kind) in [("Observation", "Learning"), ("event", "Context"), ("Weather", "Context")] {
        let (reply, asked) = answered(&format!("remember --type {name}"), stored(), "x");
        assert!(reply.stderr.contains(&format!("'{name}' mapped to '{kind}'")) && reply.code == 0, "{reply:?}");
        assert_eq!(asked[0].1["type"], kind);
    }
    let (reply, asked) = answered("remember --type Learning", stored(), "\n");
    assert_eq!((reply, asked), (Reply::default(), Vec::new()), "nothing is nothing, and no failure");
}

#[test]
fn what_makes_no_sense_is_refused_with_its_reason() {
    for (line, why) in [
        ("remember", "--type is required"),
        ("remember --type Learning --metadata [1]", "JSON object"),
        ("recall --tags-only", "--tags-only requires --tags"),
        ("recall q --limit many", "--limit takes a number"),
        ("recall q --limit", "--limit needs a value"),
        ("get", "memory ID required"),
        ("forget", "give a memory ID"),
        ("forget --all", "--confirm"),
        ("forget --since 2026-01-01", "--confirm"),
        ("forget --everything", "Unknown option '--everything'"),
        ("import", "file path required"),
        ("import /no/such/file", "file not found"),
        ("import x --force", "Unknown option"),
        ("sync everything", "unknown sync subcommand"),
        ("sync status", "not a git repository"),
        ("todo", "usage"),
        ("todo add", "No todo text"),
        ("todo done", "todo ID"),
        ("todo clear", "--confirm"),
        ("todo shelve", "Unknown todo"),
        ("rules add text", "--topics required"),
        ("rules add --topics a", "content required"),
        ("rules remove", "rule id required"),
        ("seed --file /no/such/file", "seed file not found"),
        ("metrics --since soon", "number of days"),
        ("tui", "left out"),
        ("dashboard", "left out"),
        ("--project", "--project needs a value"),
        ("weather", "Unknown command 'weather'"),
    ] {
        let (reply, asked) = answered(line, json!([]), "");
        assert!(reply.stderr.contains(why), "{line}: {reply:?}");
        assert_eq!((reply.code, reply.stdout.as_str(), asked), (1, "", Vec::new()), "{line}");
    }
}

#[test]
fn nothing_asked_is_an_empty_answer_or_help() {
    for line in ["recall", "recall --limit 3", "proactive"] {
        let (reply, asked) = answered(line, json!(["x"]), "");
        assert_eq!((reply.stdout.as_str(), reply.code, asked), ("[]\n", 0, Vec::new()), "{line}");
    }
    for line in ["", "help", "-h", "--help", "--project api"] {
        let (reply, _) = answered(line, json!([]), "");
        assert!(reply.stdout.starts_with("Usage: wt-memory") && reply.code == 0, "{line}");
    }
    for line in ["repair", "flush", "cleanup-logs", "migrate", "metrics --enable"] {
        let (reply, _) = answered(line, json!([]), "");
        assert_eq!((reply.stdout.as_str(), reply.code), ("", 0), "{line}");
        assert!(reply.stderr.contains("Nothing"), "{line}");
    }
    assert!(answered("migrate --status", json!([]), "").0.stdout.contains("001"));
}

#[test]
fn a_daemon_that_is_away_is_told_and_never_looks_empty() {
    for line in [
        "health",
        "health --index",
        "remember --type Learning",
        "recall q",
        "list",
        "get 1",
        "forget 1",
        "forget --all --confirm",
        "export",
        "stats --json",
        "status --json",
        "projects",
        "todo add",
        "todo list",
        "dedup",
        "audit",
        "context",
        "brain",
        "metrics",
    ] {
        let reply = ran(&scripted("/x", Err("away"), "text"), line);
        assert_eq!((reply.code, reply.stdout.as_str()), (1, ""), "{line}");
        assert!(reply.stderr.contains("/run/butlerd/project.sock") && reply.stderr.contains("systemctl"), "{reply:?}");
    }
    let reply = ran(&scripted("/x", Err("not_remembered"), "password=1"), "remember --type Learning");
    assert_eq!((reply.code, reply.stdout.as_str()), (1, ""));
    assert_eq!(reply.stderr, "Error: it holds a secret.\n");
}

#[test]
fn what_is_not_there_is_nothing() {
    let gone = |line: &str| ran(&scripted("/x", Err("not_found"), ""), line);
    assert_eq!(gone("get 12").stdout, "{}\n");
    let reply = gone("forget 12");
    assert_eq!(
        (serde_json::from_str::<Value>(&reply.stdout).unwrap(), reply.code),
        (json!({"deleted": false, "id": "12"}), 0)
    );
    let (reply, _) = answered("todo done 12", json!({"deleted": false, "id": "12"}), "");
    assert!(reply.code == 1 && reply.stderr.contains("Todo not found: 12"), "{reply:?}");
}

#[test]
fn some_commands_print_text() {
    let projects = json!([{"name": "api", "memories": 3, "origin": "github.com/a/api"},
                          {"name": "api", "memories": 1, "origin": "github.com/b/api"}, {"name": "web", "memories": 1}]);
    let text = answered("projects", projects, "").0.stdout;
    assert!(text.contains("  web: 1 memories\n") && text.contains("api: 3 memories (github.com/a/api)"), "{text}");
    let status = json!({"project": "api", "available": true, "count": 2, "storage_path": "/d"});
    assert!(answered("status", status, "").0.stdout.contains("Memories: 2"));
    let stats = json!({"total": 4, "noise_ratio": 0.25, "type_distribution": {"Decision": 4}});
    let text = answered("stats", stats, "").0.stdout;
    assert!(text.contains("Noise ratio: 25%") && text.contains("Decision: 4"), "{text}");
    assert_eq!(answered("health", json!({}), "").0.stdout, "ok\n");
    let (reply, asked) = answered("health --index", json!({"total": 1}), "");
    assert_eq!(asked.len(), 2);
    assert!(reply.stdout.contains("index_health") && reply.stdout.contains("verify"));
    assert_eq!(answered("todo list", json!([]), "").0.stdout, "No open todos.\n");
    let (reply, asked) = answered("todo add --tags x", json!({"id": "77"}), "write it\n");
    assert!(reply.stdout.contains("Todo saved: \"write it\"") && reply.stdout.contains("77"));
    assert_eq!(asked, [("add_todo".to_owned(), json!({"content": "write it", "tags": "x"}))]);
    assert_eq!(answered("todo clear --confirm", json!({"deleted_count": 3}), "").0.stdout, "Cleared 3 todos.\n");
    assert_eq!(answered("sync pull --from a/b", json!(null), "").0.stdout, "Pull { from: Some(\"a/b\") } false\n");
    assert_eq!(answered("sync --force", json!(null), "").0.stdout, "Both true\n");
}

#[test]
fn files_are_read_and_written_here() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).display().to_string();
    let record = json!({"id": "1", "content": "x", "experience_type": "Learning"});
    let export = json!({"version": 1, "format": "wt-memory-export", "project": "api", "exported_at": "", "count": 1,
                        "records": [record]});
    let (reply, _) = answered(&format!("export --output {}", file("a.json")), export, "");
    assert_eq!(reply, Reply::default());
    let (reply, _) = answered(&format!("import {} --dry-run", file("a.json")), json!({}), "");
    assert_eq!(serde_json::from_str::<Value>(&reply.stdout).unwrap(), json!({"imported": 1, "dry_run": true}));
    for (text, why) in [
        ("no json", "Invalid JSON"),
        (r#"{"version": 99, "format": "wt-memory-export", "records": []}"#, "Unsupported version"),
        (r#"{"version": 1, "records": []}"#, "Invalid file"),
    ] {
        std::fs::write(file("b.json"), text).unwrap();
        let (reply, _) = answered(&format!("import {}", file("b.json")), json!({}), "");
        let printed: Value = serde_json::from_str(&reply.stdout).unwrap();
        assert!(printed["error"].as_str().unwrap().contains(why) && reply.code == 1, "{reply:?}");
    }
    std::fs::write(file("seed.yaml"), "seeds:\n- content: use tabs\n  type: Decision\n  tags: [style]\n- content: y\n")
        .unwrap();
    let (reply, asked) =
        answered(&format!("seed --file {}", file("seed.yaml")), json!({"id": "1", "status": "stored"}), "");
    assert_eq!(reply.stdout, "Seeded: 2 imported, 0 known already\n", "{reply:?}");
    assert_eq!(asked[0].1, json!({"content": "use tabs", "type": "Decision", "tags": ["style", "source:seed"]}));
}

#[test]
fn rules_are_a_file_of_the_project() {
    let dir = tempfile::tempdir().unwrap();
    let world = scripted(&dir.path().display().to_string(), Err("away"), "");
    assert_eq!(ran(&world, "rules list").code, 0);
    let reply = ran(&world, "rules add --topics customer,sql Use_customer_ro");
    let id = reply.stdout.lines().next().unwrap().strip_prefix("Rule added: ").unwrap_or_else(|| panic!("{reply:?}"));
    let listed = ran(&world, "rules list").stdout;
    assert!(listed.contains("customer, sql") && listed.contains("Use customer ro"), "{listed}");
    assert_eq!(ran(&world, &format!("rules remove {id}")).stdout, format!("Rule removed: {id}\n"));
    assert_eq!(ran(&world, "rules remove no-such").code, 1);
}
