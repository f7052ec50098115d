//! Pages over what can't be read just now: they say so in words, and never show it as nothing.

use serde_json::json;

use crate::support::pages::Page;
use crate::support::{Household, model};

/// A table that is away, and pages that show what is in it, each with what it says where nothing is in it.
const AWAY: &[(&str, &[(&str, &str)])] = &[
    ("health.sessions", &[("/sessions", "No session yet."), ("/", "No session yet.")]),
    (
        "health.tool_calls",
        &[
            ("/audit?butler=health", "No call like this is on record."),
            ("/undo", "Nothing that was changed can be taken back."),
        ],
    ),
    (
        "health.scheduled_tasks",
        &[("/schedules", "Nothing is done by itself."), ("/butlers/health", "It does nothing by itself.")],
    ),
    ("health.memory_facts", &[("/memory?butler=health&q=tea", "No memory matches.")]),
    ("health.memory_events", &[("/memory?butler=health", "Nothing is on record yet.")]),
    ("general.journal_sections", &[("/journal/general", "It has no files yet.")]),
    ("switchboard.message_inbox", &[("/inbox", "Inbox is empty.")]),
    ("switchboard.triage_rules", &[("/rules", "There is no rule yet.")]),
    ("health.session_days", &[("/costs", "No session in these days.")]),
    ("shared.conversation", &[("/conversations", "Nobody has said anything yet.")]),
    (
        "shared.outbox",
        &[("/deliveries", "Nothing was sent yet."), ("/notes", "The household has told you nothing yet.")],
    ),
    ("shared.pending_actions", &[("/approvals", "Nothing waits for you."), ("/", "Nothing waits for you.")]),
    ("shared.contacts", &[("/people", "The household knows nobody")]),
    ("shared.calendar_instances", &[("/schedules", "Nothing is in the calendars this week.")]),
    ("shared.secrets", &[("/secrets", "No secret is stored yet.")]),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_not_be_read_is_told_and_never_shown_as_nothing() {
    // Else a page could not be found to say it.
    let pages = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/dashboard/pages");
    let files = std::fs::read_dir(pages).expect("the pages").flatten();
    let sources: String = files.map(|file| std::fs::read_to_string(file.path()).expect("a page")).collect();
    for (_, pages) in AWAY {
        for (path, nothing) in *pages {
            assert!(sources.contains(nothing), "no page says {nothing:?}, as {path} is to where nothing is in it");
        }
    }
    let household = Household::with_model(&model(json!([])).await);
    let daemon = household.start().await;
    household.journal_begun().await;
    let db = household.owner().await;
    let page = Page::of(&daemon).await;
    let mut wrong = Vec::new();
    for (table, pages) in AWAY {
        let name = table.split('.').nth(1).unwrap_or(table);
        let away = format!("ALTER TABLE {table} RENAME TO {name}_away");
        let back = format!("ALTER TABLE {table}_away RENAME TO {name}");
        db.batch_execute(&away).await.unwrap_or_else(|e| panic!("{away}: {e:?}"));
        for (path, nothing) in *pages {
            let answer = page.answer(path, None).await;
            let status = answer.status().as_u16();
            let html = answer.text().await.expect("a page");
            let main = html.split_once("<main").map_or("", |(_, main)| main);
            let told = ["class=\"note warn\"", "class=\"note bad\""].iter().any(|note| main.contains(note));
            if !told || main.contains(nothing) {
                wrong.push(format!("{path} without {table}: {status}: {main}"));
            }
        }
        db.batch_execute(&back).await.unwrap_or_else(|e| panic!("{back}: {e:?}"));
    }
    assert!(wrong.is_empty(), "{} pages:\n{}", wrong.len(), wrong.join("\n"));
}
