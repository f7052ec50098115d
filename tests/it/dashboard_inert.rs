//! What others write stays text on every page: names, subjects and files of messages and deliveries, memories, what tools
//! answer and say of themselves, and what waits for approval.

use std::collections::{BTreeMap, BTreeSet};

use aho_corasick::AhoCorasick;
use serde_json::{Value, json};
use tokio_postgres::Client;
use uuid::Uuid;

use crate::approvals::household as with_a_vault;
use crate::dashboard_made::prepare;
use crate::dashboard_strings::evil;
use crate::inbound::{ingest, message};
use crate::mcp_servers::{has, say, visiting};
use crate::support::markup::{escaped, live};
use crate::support::pages::{PLACES, Page};
use crate::support::{Daemon, eventually, model};

/// So many ways are tried in each field.
const WAYS: usize = 20;

/// Fields that somebody else than the owner can fill.
const FIELDS: [&str; 21] = [
    "subject of a mail",
    "text of a mail",
    "sender's name",
    "file's name",
    "subject of a fact",
    "predicate of a fact",
    "content of a fact",
    "episode",
    "rule",
    "subject of a delivery",
    "text of a delivery",
    "name of a delivered file",
    "what a channel answered",
    "why a delivery failed",
    "receipt of a delivery",
    "tool's arguments and result",
    "last words of a session",
    "tool's own description",
    "description that waits",
    "argument that waits",
    "who asked for it",
];

/// The texts of a field.
fn texts(field: &str) -> Vec<String> {
    let at = FIELDS.iter().position(|name| *name == field).unwrap_or_else(|| panic!("no field {field}"));
    (0..WAYS).map(|way| evil(1000 + at * WAYS + way)).collect()
}

fn all_of(field: &str) -> String {
    texts(field).join("\n")
}

/// Mails of a stranger, which a rule keeps from any model; their pages.
async fn mails(daemon: &Daemon) -> Vec<String> {
    let rule = json!({"kind": "substring", "pattern": "Subject:", "action": "skip"});
    daemon.mcp("switchboard").ok("triage_rule_add", rule).await;
    let mut pages = Vec::new();
    let (subjects, names, files) = (texts("subject of a mail"), texts("sender's name"), texts("file's name"));
    for (n, text) in texts("text of a mail").iter().enumerate() {
        let mut envelope = message(&format!("m{n}"), &format!("m{n}"), &format!("Subject: {}\n\n{text}", subjects[n]));
        envelope["source"] = json!({"channel": "email", "provider": "imap", "endpoint_identity": "me@example.org"});
        envelope["sender"] = json!({"identity": format!("eve{n}@example.org"), "display_name": names[n]});
        envelope["payload"]["raw"] = json!({"subject": subjects[n]});
        envelope["payload"]["attachments"] =
            json!([{"media_type": "text/plain", "filename": files[n], "content_base64": "eA==", "size_bytes": 1}]);
        let (status, accepted) = ingest(daemon, &envelope).await;
        assert_eq!(status, 202, "{accepted}");
        let id = accepted["request_id"].as_str().expect("an id");
        pages.extend([format!("/inbox/{id}"), format!("/conversations/{id}")]);
    }
    pages
}

/// Memories whose words were somebody else's; their pages.
async fn memories(daemon: &Daemon, db: &Client) -> Vec<String> {
    let health = daemon.mcp("health");
    let id = |stored: &Value| -> Uuid {
        stored["id"].as_str().and_then(|id| id.parse().ok()).unwrap_or_else(|| panic!("{stored}"))
    };
    let mut pages = Vec::new();
    let (subjects, predicates) = (texts("subject of a fact"), texts("predicate of a fact"));
    for (n, content) in texts("content of a fact").iter().enumerate() {
        // Which words memory takes in is no matter of pages: the row says what a stranger would have it say.
        let fact =
            json!({"subject": format!("plant {n}"), "predicate": "colour", "content": format!("Plant {n} is green.")});
        let fact = id(&health.ok("memory_store_fact", fact).await);
        let sql = "UPDATE health.memory_facts SET subject = $2, predicate = $3, content = $4 WHERE id = $1";
        db.execute(sql, &[&fact, &subjects[n], &predicates[n], content]).await.expect("a fact");
        let episode = json!({"content": format!("The owner watered plant {n}."), "session_id": format!("s{n}")});
        let episode = id(&health.ok("memory_store_episode", episode).await);
        let sql = "UPDATE health.memory_episodes SET content = $2 WHERE id = $1";
        db.execute(sql, &[&episode, &texts("episode")[n]]).await.expect("an episode");
        pages.extend([format!("/memory/health/fact/{fact}"), format!("/memory/health/episode/{episode}")]);
    }
    let rule = json!({"content": "Ask for the units when somebody reports a weight"});
    let rule = id(&health.ok("memory_store_rule", rule).await);
    let sql = "UPDATE health.memory_rules SET content = $2 WHERE id = $1";
    db.execute(sql, &[&rule, &all_of("rule")]).await.expect("a rule");
    pages.push(format!("/memory/health/rule/{rule}"));
    pages
}

/// What was sent and what was not, with what the other side said to it; their pages.
async fn deliveries(db: &Client) -> Vec<String> {
    let new = "INSERT INTO shared.outbox (id, origin, request_id, kind, intent, channel, target, lane, subject, message, priority,
            idempotency_key, context, state, due_at, trust)
        VALUES ($1, 'general', gen_random_uuid(), 'message', 'send', 'chat', 'owner', $4, $2, $3, 'medium', $4, '{}', 'deferred',
            now() + interval '1 year', 'owner')";
    let file = "INSERT INTO shared.outbox_files (outbox_id, n, name, media_type, size, sha256, content, trust)
        VALUES ($1, 1, $2, 'text/plain', 1, encode(sha256('x'), 'hex'), 'x', 'owner')";
    let attempt = "INSERT INTO shared.outbox_attempts (outbox_id, n, lane, ended_at, outcome, detail, trust)
        VALUES ($1, 1, $1::uuid::text, now(), $2, $3, 'owner')";
    let sent = "UPDATE shared.outbox SET state = 'sent', settled_at = now(), followed_at = now(),
        receipt = jsonb_build_object('answer', $2::text) WHERE id = $1";
    let failed =
        "UPDATE shared.outbox SET state = 'failed', settled_at = now(), followed_at = now(), reason = 'refused',
        last_error = $2 WHERE id = $1";
    let (subjects, files, details) =
        (texts("subject of a delivery"), texts("name of a delivered file"), texts("what a channel answered"));
    let (errors, receipts) = (texts("why a delivery failed"), texts("receipt of a delivery"));
    let mut pages = Vec::new();
    for (n, text) in texts("text of a delivery").iter().enumerate() {
        for (outcome, end, words) in [("sent", sent, &receipts[n]), ("refused", failed, &errors[n])] {
            let id = Uuid::now_v7();
            db.execute(new, &[&id, &subjects[n], text, &id.to_string()]).await.expect("a delivery");
            db.execute(file, &[&id, &files[n]]).await.expect("a file");
            db.execute(attempt, &[&id, &outcome, &details[n]]).await.expect("a try");
            db.execute(end, &[&id, words]).await.expect("its end");
            pages.extend([
                format!("/deliveries/{id}"),
                format!("/conversations/{id}"),
                format!("/deliveries/{id}/files/0"),
            ]);
        }
    }
    pages
}

/// Calls that wait because of what somebody wrote; the page of all of them.
async fn proposal(daemon: &Daemon, db: &Client) -> String {
    let asked = daemon.mcp("health").ok("trigger", json!({"prompt": "let it out"})).await;
    assert_eq!(asked["success"], true, "{asked}");
    let of = "SELECT format_type(atttypid, NULL) FROM pg_attribute
        WHERE attrelid = 'shared.pending_actions'::regclass AND attname = 'sources'";
    let kind: String = db.query_one(of, &[]).await.expect("its type").get(0);
    let proposal = "SELECT proposal::text FROM shared.pending_actions WHERE tool_args LIKE '%both-a-%' LIMIT 1";
    let proposal: String = db.query_one(proposal, &[]).await.expect("a proposal").get(0);
    let source =
        |who: &String| json!({"who": who, "trust": "known", "request_id": proposal, "root_request_id": proposal});
    let sources: Vec<Value> = texts("who asked for it").iter().map(source).collect();
    let sql = format!("UPDATE shared.pending_actions SET sources = $1::text::{kind} WHERE proposal IS NOT NULL");
    db.execute(&sql, &[&json!(sources).to_string()]).await.expect("its sources");
    format!("/approvals/proposals/{proposal}")
}

/// The texts that no page shows, by their fields.
fn unseen(pages: &BTreeMap<String, String>) -> Vec<(&'static str, String)> {
    let all: Vec<(&'static str, String)> =
        FIELDS.iter().flat_map(|field| texts(field).into_iter().map(|text| (*field, text))).collect();
    // Each as it was written, and as JSON has it.
    let quoted = |text: &str| Value::String(text.to_owned()).to_string();
    let ways = all.iter().flat_map(|(_, text)| {
        let quoted = quoted(text);
        [escaped(text), escaped(&quoted[1..quoted.len() - 1])]
    });
    let find = AhoCorasick::new(ways).expect("a search");
    let seen: BTreeSet<usize> =
        pages.values().flat_map(|html| find.find_overlapping_iter(html).map(|m| m.pattern().as_usize() / 2)).collect();
    all.into_iter().enumerate().filter(|(n, _)| !seen.contains(n)).map(|(_, text)| text).collect()
}

/// What of it a browser would take for more than text.
fn taken_for_markup(pages: &BTreeMap<String, String>) -> Vec<String> {
    // An apostrophe alone ends nothing: pages put attributes between double quotes.
    let raw = FIELDS.iter().flat_map(|field| texts(field)).filter(|text| text.contains(['<', '>', '"']));
    let find = AhoCorasick::new(raw).expect("a search");
    let mut wrong = Vec::new();
    for (path, html) in pages.iter().filter(|(path, _)| !path.contains("/files/")) {
        wrong.extend(live(html).into_iter().map(|what| format!("{path}: {what}")));
        wrong.extend(find.find_iter(html).map(|found| format!("{path} holds {}", &html[found.range()])));
    }
    wrong
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_others_write_is_text_wherever_it_is_shown() {
    let (used, said) = (all_of("tool's arguments and result"), all_of("last words of a session"));
    let leak = |n: usize| json!({"call": {"tool": "leak", "arguments": {"text": format!("both-a-{n} {}", all_of("argument that waits"))}}});
    let model = model(json!([
        {"when": "A call of `[a-z_]+` that you had made", "steps": [{"say": "I know."}]},
        {"when": "say it back", "steps": [{"call": {"tool": "repeat", "arguments": {"text": used}}}, {"say": said}]},
        {"when": "let it out", "steps": [leak(1), leak(2), {"say": "Asked."}]},
        {"when": "", "steps": [{"say": "Done."}]},
    ]))
    .await;
    let (household, control) = visiting(with_a_vault(&model), "");
    say(&control, &json!({"about": all_of("tool's own description")}));
    let daemon = household.start().await;
    let page = Page::of(&daemon).await;
    let db = household.owner().await;
    prepare(&db).await;
    let visitor = daemon.mcp("visitor");
    has(&visitor, "repeat", true).await;
    let ran = visitor.ok("trigger", json!({"prompt": "say it back"})).await;
    assert_eq!(ran["success"], true, "{ran}");
    // What the server says of its tool from now on waits, and is shown beside what it said.
    say(&control, &json!({"about": all_of("description that waits")}));
    visitor.ok("fake_change", json!({})).await;
    has(&visitor, "repeat", false).await;
    let mut from: Vec<String> = PLACES.iter().map(|place| (*place).to_owned()).collect();
    from.push(format!("/sessions/{}", ran["session_id"].as_str().expect("a session")));
    from.extend(["/connectors/mcp/visitor/fake", "/butlers/visitor", "/memory?butler=health"].map(str::to_owned));
    from.extend(mails(&daemon).await);
    from.extend(memories(&daemon, &db).await);
    from.extend(deliveries(&db).await);
    from.push(proposal(&daemon, &db).await);
    let pages = eventually("every text is on a page", async || {
        let pages = page.walk(&from).await;
        let missing = unseen(&pages);
        if missing.is_empty() {
            Ok(pages)
        } else {
            Err(format!("{} of {}: {missing:#?}", missing.len(), FIELDS.len() * WAYS))
        }
    })
    .await;
    assert!(FIELDS.len() * WAYS >= 400);
    let wrong = taken_for_markup(&pages);
    assert!(wrong.is_empty(), "{} on {} pages:\n{}", wrong.len(), pages.len(), wrong.join("\n"));
}
