//! The dashboard in a real browser: every page, what it shows, and what is done there by mouse and by keyboard.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::approvals::household as with_a_vault;
use crate::dashboard_walk::{addresses, answers, crawl, kind, walked};
use crate::support::browser::{Browser, login_link};
use crate::support::pages::{PLACES, Page};
use crate::support::{Daemon, Household, eventually, model};
use testkit::model::ScriptedModel;

/// A model that understands a few sentences, one of them a call that waits for a person.
async fn butler() -> ScriptedModel {
    model(json!([
        {"when": "A call of `[a-z_]+` that you had made", "steps": [{"say": "I know."}]},
        {"when": "keep ([a-z0-9-]+) ([a-z0-9-]+)", "steps": [
            {"call": {"tool": "vault_put", "arguments": {"name": "{{match.1}}", "pin": "{{match.2}}"}}}, {"say": "Kept."}]},
        {"when": "wait here", "steps": [{"hang": true}]},
        {"when": "tell a story", "steps": [
            {"call": {"tool": "measurement_latest", "arguments": {"kind": "weight"}}},
            {"stall": true}, {"say": "Once upon a time there was a butler. ".repeat(20)}]},
        {"when": "I weigh ([0-9]+)", "steps": [
            {"call": {"tool": "measurement_log", "arguments": {"kind": "weight", "value": {"kg": 82}}}},
            {"say": "Noted, in the book of weights."}]},
    ]))
    .await
}

/// The database as health's role sees it for the owner.
async fn owners_role(household: &Household) -> tokio_postgres::Client {
    let db = household.role("health").await;
    db.batch_execute("SET butlerd.tenant = 'owner'").await.expect("the tenant");
    db
}

async fn asks(daemon: &Daemon, prompt: &str) {
    let end = daemon.mcp("health").ok("trigger", json!({"prompt": prompt})).await;
    assert_eq!(end["success"], true, "{prompt}: {end}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_page_is_whole_at_each_width_in_each_light() {
    let walked = walked().await;
    let Some(mut browser) = Browser::start(&walked.daemon).await else { return };
    browser.sign_in(&walked.household).await;
    let crawled = crawl(&mut browser).await;
    for place in PLACES {
        assert!(crawled.iter().any(|path| kind(path) == place), "{place} is not reached: {crawled:?}");
    }
    let mut wrong = Vec::new();
    let all = addresses(&crawled, &walked.made);
    for (path, name) in &all {
        wrong.extend(looked(&mut browser, name, json!({"path": path}), 200).await);
    }
    let seen: BTreeSet<&str> = all.iter().filter_map(|(path, _)| dashboard::page_of(path)).collect();
    let unseen: Vec<_> = dashboard::pages().filter(|page| !seen.contains(page)).collect();
    assert!(unseen.is_empty(), "the browser was at no page of {unseen:?}");
    for (n, (path, steps, sees)) in answers().into_iter().enumerate() {
        let acts = json!({"path": path, "width": 1440, "keyboard": false, "steps": steps, "sees": sees});
        browser.does("acts", acts).await;
        wrong.extend(looked(&mut browser, &format!("answer_{n}"), json!({}), 200).await);
    }
    let nobody = "/sessions/00000000-0000-7000-8000-000000000000";
    wrong.extend(looked(&mut browser, "not_found", json!({"path": nobody}), 404).await);
    // And what somebody sees who is not signed in.
    browser.open(json!({})).await;
    wrong.extend(looked(&mut browser, "signed_out", json!({"path": "/"}), 401).await);
    let link = login_link(&walked.household, &["open", "--print"]);
    wrong.extend(looked(&mut browser, "sign_in", json!({"path": link}), 200).await);
    assert!(wrong.is_empty(), "{} looks at {} pages went wrong:\n{}", wrong.len(), all.len(), wrong.join("\n"));
    let hosts = browser.does("hosts", json!({})).await;
    assert_eq!(hosts["hosts"], json!([walked.daemon.admin()]), "pages ask nobody else");
}

/// Looks at a page, or at that which is open, at each width in each light: what is wrong with it.
async fn looked(browser: &mut Browser, name: &str, at: Value, status: u16) -> Vec<String> {
    let shots = std::env::var("BUTLERD_TEST_SHOTS").ok();
    let mut wrong = Vec::new();
    for (width, scheme) in [(1440, "light"), (360, "dark"), (1440, "dark"), (360, "light")] {
        let shot = shots.as_ref().map(|dir| format!("{dir}/{name}-{width}-{scheme}.png"));
        let with = json!({"path": at["path"], "width": width, "scheme": scheme, "shot": shot});
        let seen = browser.does("look", with).await;
        let well = (seen["status"] == status || (at["path"].is_null() && seen["status"].is_null()))
            && ["axe", "problems", "over", "on", "spills"].iter().all(|what| seen[*what] == json!([]))
            && seen["wide"].as_i64().is_some_and(|wide| wide <= 0);
        if !well {
            wrong.push(format!("{name} {} {width} {scheme}: {seen}", at["path"]));
        }
    }
    wrong
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_in_the_browser_lets_exactly_that_call_run_once() {
    let model = butler().await;
    let household = with_a_vault(&model);
    let daemon = household.start().await;
    let Some(mut browser) = Browser::start(&daemon).await else { return };
    browser.sign_in(&household).await;
    for (keyboard, name, pin) in [(false, "ada", "one-pin"), (true, "bob", "two-pin")] {
        asks(&daemon, &format!("keep {name} {pin}")).await;
        browser.goto("/approvals").await;
        browser.press(keyboard, "link", "health wants to call vault_put").await;
        browser.sees(name).await;
        assert!(!browser.text().await.contains(pin), "the pin is hidden");
        browser.press(keyboard, "button", "Approve").await;
        browser.sees("Approved. It runs once").await;
        let db = owners_role(&household).await;
        let kept = || async {
            let sql = "SELECT count(*) FROM health.vault WHERE name = $1 AND pin = $2";
            let many: i64 = db.query_one(sql, &[&name, &pin]).await.expect("a row").get(0);
            if many == 1 { Ok(()) } else { Err(many.to_string()) }
        };
        eventually("the call is made", kept).await;
    }
    asks(&daemon, "keep eve three").await;
    browser.goto("/approvals").await;
    browser.press(false, "link", "health wants to call vault_put").await;
    browser.types(false, "Reason, which the butler is told", "Not her.").await;
    browser.press(false, "button", "Refuse").await;
    browser.sees("Refused. It will not run.").await;
    let db = owners_role(&household).await;
    let many: i64 = db.query_one("SELECT count(*) FROM health.vault", &[]).await.expect("a row").get(0);
    assert_eq!(many, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_seen_as_it_happens_and_killed_from_its_page() {
    let model = butler().await;
    let household = Household::with_model(&model);
    let daemon = household.start().await;
    let Some(mut browser) = Browser::start(&daemon).await else { return };
    browser.sign_in(&household).await;
    browser.goto("/").await;
    browser.sees("no session is running").await;
    let started = daemon.mcp("health");
    let ended = tokio::spawn(async move { started.call("trigger", json!({"prompt": "wait here"})).await });
    // The first page tells of it by itself.
    browser.sees("one session is running").await;
    browser.press(false, "link", "wait here").await;
    browser.sees("starts").await;
    browser.press(true, "button", "Kill this session").await;
    browser.sees("Cancelled.").await;
    browser.sees("cancelled").await;
    assert!(ended.await.is_ok());
    let text = browser.text().await;
    let pid = text.split("process ").nth(1).and_then(|rest| rest.split_whitespace().next()).expect("a process");
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "process {pid} is gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_is_seen_while_it_is_written_and_the_end_of_a_long_session() {
    let model = butler().await;
    let household = Household::with_model(&model);
    let daemon = household.start().await;
    let page = Page::of(&daemon).await;
    page.send("/conversations", "/conversations", &[("text", "tell a story"), ("butler", "health")]).await;
    let db = household.owner().await;
    let session = eventually("the story has begun", || async {
        let sql = "SELECT s.id::text FROM health.sessions s JOIN health.session_events e ON e.session_id = s.id
                   WHERE s.state = 'running' AND e.kind = 'tool_result'";
        let rows = db.query(sql, &[]).await.map_err(|e| e.to_string())?;
        rows.first().map(|row| row.get::<_, String>(0)).ok_or_else(|| "it has not".to_owned())
    })
    .await;
    let Some(mut browser) = Browser::start(&daemon).await else { return };
    browser.sign_in(&household).await;
    let at = format!("/sessions/{session}");
    browser.goto(&at).await;
    browser.sees("Once upon a time there was a butler.").await;
    browser.does("marks", json!({})).await;
    // More happened than a page holds: the end is there, and the beginning is a link away.
    let more = "INSERT INTO health.session_events (session_id, seq, at, kind, body, tenant_id)
                SELECT $1::text::uuid, n, now(), 'text', jsonb_build_object('text', 'Line ' || n || ' of it.'), 'owner'
                FROM generate_series(1000, 1700) n";
    db.execute(more, &[&session]).await.expect("more events");
    browser.sees("Line 1700 of it.").await;
    let shown = page.get(&at).await;
    assert!(shown.contains("Line 1700 of it.") && !shown.contains("Line 1100 of it."), "{shown}");
    assert!(shown.contains("?after=0#transcript"), "{shown}");
    let begin = page.get(&format!("{at}?after=0")).await;
    assert!(begin.contains("measurement_latest") && begin.contains("What came after"), "{begin}");
    browser.press(true, "button", "Kill this session").await;
    browser.sees("Cancelled.").await;
    // Whoever comes late to a stream gets all of it, and its end.
    let told = page.get(&format!("/live/session/{session}?after=0")).await;
    assert!(told.contains("Line 1700 of it.") && told.trim_end().ends_with("event: over\ndata:"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_written_in_the_browser_is_answered_there() {
    let model = butler().await;
    let household = Household::with_model(&model);
    let daemon = household.start().await;
    let Some(mut browser) = Browser::start(&daemon).await else { return };
    browser.sign_in(&household).await;
    browser.goto("/conversations").await;
    browser.types(true, "Message", "I weigh 82").await;
    // Something happens meanwhile, and the writer moves on to the next field: what was written stays.
    browser.does("keys", json!({"keys": "Tab"})).await;
    asks(&daemon, "I weigh 81").await;
    browser.does("waits", json!({})).await;
    assert_eq!(browser.does("value", json!({"name": "Message"})).await["value"], "I weigh 82");
    browser.does("choose", json!({"name": "For", "value": "health"})).await;
    browser.press(true, "button", "Send").await;
    browser.sees("Noted, in the book of weights.").await;
    // And without scripts it is there as well.
    let link = login_link(&household, &["open", "--print"]);
    browser.open(json!({"javaScriptEnabled": false})).await;
    browser.goto(&link).await;
    browser.press(false, "button", "Sign in").await;
    browser.press(false, "link", "Conversations").await;
    browser.sees("Noted, in the book of weights.").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_palette_finds_places_and_ids_by_the_keyboard() {
    let model = butler().await;
    let household = Household::with_model(&model);
    let daemon = household.start().await;
    let Some(mut browser) = Browser::start(&daemon).await else { return };
    browser.sign_in(&household).await;
    browser.does("keys", json!({"keys": "Control+k"})).await;
    browser.does("type", json!({"role": "searchbox", "name": "Find", "text": "heal"})).await;
    browser.sees("Butler health").await;
    browser.does("keys", json!({"keys": "ArrowDown"})).await;
    browser.does("keys", json!({"keys": "Enter"})).await;
    browser.sees("Notes to self").await;
    browser.press(true, "link", "Secrets").await;
    browser.sees("Store a secret").await;
    // A secret is stored from here and never shown again.
    browser.types(true, "Name, such as ANTHROPIC_API_KEY", "HOUSE_SECRET").await;
    browser.does("type", json!({"role": "textbox", "name": "Value", "text": "very-secret-value"})).await;
    browser.press(true, "button", "Store").await;
    browser.sees("Stored.").await;
    let page = browser.text().await;
    assert!(page.contains("HOUSE_SECRET") && !page.contains("very-secret-value"), "{page}");
}
