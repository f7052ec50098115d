//! A table has one owner: the one crate that has SQL on it. Others call the owner's functions and hand them the
//! transaction.

use std::collections::BTreeMap;
use std::fs;

use super::baseline::{Finding, demand_no_more};
use super::crates::{crate_of, is_test, sources};
use super::source::{Literal, Source};
use super::sql::{Access, is_statement, uses};
use super::{demand_nothing, root};

/// Which crate owns which tables. A new table of `sql/` gets its line here.
const OWNERS: &[(&str, &[&str])] = &[
    ("store", &["table_sizes", "nodes", "butler_roles", "schema_migrations"]),
    ("access", &["tokens", "secrets"]),
    ("conversation", &["conversation", "conversation_readers"]),
    ("tools", &["tool_calls", "state", "notes_to_self", "row_changes", "blobs", "call_undos"]),
    ("schedule", &["scheduled_tasks", "schedule_runs"]),
    ("sessions", &["sessions", "session_events", "session_days", "system_prompts"]),
    (
        "inbox",
        &[
            "message_inbox",
            "refused_senders",
            "route_segments",
            "triage_rules",
            "thread_affinity",
            "butler_registry",
            "butler_registry_eligibility_log",
            "connector_registry",
            "connector_refusals",
            "backfill_jobs",
            "request_actions",
            "mail",
            "extraction_log",
            "replies",
            "contacts",
            "contact_identities",
            "pairings",
        ],
    ),
    ("outbox", &["channels", "outbox", "outbox_attempts", "outbox_files", "notices"]),
    ("approvals", &["approval_rules", "pending_actions", "approval_events", "approval_pages"]),
    (
        "memory",
        &[
            "entities",
            "memory_catalog",
            "memory_episodes",
            "memory_facts",
            "memory_rules",
            "memory_links",
            "memory_events",
            "memory_history",
            "memory_predicates",
            "memory_policies",
        ],
    ),
    (
        "modules",
        &[
            "council_questions",
            "council_steps",
            "council_episodes",
            "journal_changes",
            "journal_sections",
            "journal_moves",
            "journal_checkpoints",
            "journal_syncs",
            "journal_drafts",
            "mcp_servers",
            "contact_sources",
            "contact_source_readers",
            "contact_cards",
            "contact_card_conflicts",
            "contact_links",
            "contact_proposals",
            "contact_decisions",
            "calendar_sources",
            "calendar_readers",
            "calendar_events",
            "calendar_instances",
            "calendar_cursors",
            "calendar_actions",
            "calendar_items",
            "calendar_conflicts",
            "calendar_entities",
            "projects",
            "project_identities",
            "project_injections",
            "project_tombstones",
            "project_exchanges",
        ],
    ),
    ("butler", &["route_inbox", "asks"]),
];

fn owner_of(table: &str) -> Option<&'static str> {
    OWNERS.iter().find(|(_, tables)| tables.contains(&table)).map(|(owner, _)| *owner)
}

/// The tables that the house's migrations make, with the file of each.
fn tables() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for folder in fs::read_dir(root().join("sql")).unwrap().map(|entry| entry.unwrap().path()).filter(|p| p.is_dir()) {
        for file in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = file.strip_prefix(root()).unwrap().display().to_string();
            for line in fs::read_to_string(&file).unwrap().lines() {
                let Some(rest) = line.strip_prefix("CREATE TABLE ").or(line.strip_prefix("CREATE UNLOGGED TABLE "))
                else {
                    continue;
                };
                let table = rest.trim_start_matches("IF NOT EXISTS ").trim_start_matches("shared.");
                let table = table.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
                found.insert(table.to_owned(), name.clone());
            }
        }
    }
    found
}

/// The `.sql` files of crates: each is one string.
fn sql_files() -> Vec<Source> {
    let mut found = Vec::new();
    let mut folders = vec![root().join("src")];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.strip_prefix(root()).unwrap().display().to_string();
            if path.is_dir() && !name.ends_with("/template") {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "sql") && path.is_file() {
                let text = fs::read_to_string(&path).unwrap();
                let literals = vec![Literal { line: 1, text }];
                found.push(Source { literals, ..Source::parse(&name, "") });
            }
        }
    }
    found
}

/// What a rule finds in the SQL of all crates: in strings, and in `.sql` files beside the code.
fn in_all_sql(rule: impl Fn(&Source) -> Vec<Finding>) -> Vec<Finding> {
    let files = sql_files();
    let shipped = sources().iter().filter(|source| !is_test(&source.path));
    shipped.chain(&files).flat_map(rule).collect()
}

/// Each statement on a table of another crate.
fn trespasses(source: &Source, access: Access) -> Vec<Finding> {
    let own = crate_of(&source.path);
    let mut found = Vec::new();
    for literal in &source.literals {
        for used in uses(&literal.text).into_iter().filter(|used| used.access == access) {
            if let Some(owner) = owner_of(&used.table).filter(|owner| *owner != own) {
                let place = format!("{}:{}", source.path, literal.line + used.line);
                let text = format!("{place}: `{own}` must not touch `{}`, a table of `{owner}`", used.table);
                found.push(Finding { counts_as: format!("{own} {owner}.{}", used.table), text });
            }
        }
    }
    found
}

fn outside_of_its_place(source: &Source) -> Vec<Finding> {
    let path = &source.path;
    if path.ends_with("/sql.rs") || path.contains("/sql/") {
        return Vec::new();
    }
    let on_a_table = |text: &str| uses(text).iter().any(|used| owner_of(&used.table).is_some());
    let statements = source.literals.iter().filter(|l| is_statement(&l.text) || on_a_table(&l.text));
    let say = |literal: &Literal| Finding {
        counts_as: crate_of(path),
        text: format!("{path}:{}: SQL stands in the crate's `sql.rs` or `sql/`", literal.line),
    };
    statements.map(say).collect()
}

#[test]
fn every_table_has_an_owner() {
    let tables = tables();
    assert!(tables.len() > 30, "{tables:?}");
    let unowned = tables.iter().filter(|(table, _)| owner_of(table).is_none());
    let mut found: Vec<String> =
        unowned.map(|(table, file)| format!("{file}: say in {} who owns `{table}`", file!())).collect();
    let owned = OWNERS.iter().flat_map(|(_, tables)| *tables);
    let gone = owned.filter(|table| !tables.contains_key(**table) && **table != "schema_migrations");
    found.extend(gone.map(|table| format!("{}: no migration makes `{table}`", file!())));
    demand_nothing(found);
}

#[test]
fn a_crate_writes_its_own_tables_only() {
    demand_no_more("foreign-write", &in_all_sql(|source| trespasses(source, Access::Write)));
}

#[test]
fn a_crate_reads_its_own_tables_only() {
    demand_no_more("foreign-read", &in_all_sql(|source| trespasses(source, Access::Read)));
}

#[test]
fn sql_stands_in_one_place_of_its_crate() {
    demand_no_more("scattered-sql", &in_all_sql(outside_of_its_place));
}

#[test]
fn foreign_tables_are_found() {
    let text = "const A: &str = \"SELECT 1\\\n  FROM sessions\";\nconst B: &str = r#\"UPDATE state SET a = 1\"#;";
    let source = Source::parse("src/tools/a.rs", text);
    let found: Vec<_> = trespasses(&source, Access::Read).into_iter().map(|f| f.text).collect();
    assert_eq!(found, ["src/tools/a.rs:2: `tools` must not touch `sessions`, a table of `sessions`"]);
    assert!(trespasses(&source, Access::Write).is_empty());
    assert_eq!(outside_of_its_place(&source).len(), 2);
    assert!(outside_of_its_place(&Source::parse("src/tools/sql.rs", text)).is_empty());
}
