//! What others write stays text on every page of the dashboard, whichever field it comes in.

use std::path::Path;

use serde_json::json;
use testkit::model::ScriptedModel;

use crate::approvals::{household as with_a_vault, says};
use crate::dashboard_made::prepare;
use crate::inbound::{ended, ingest, message};
use crate::mcp_servers::{has, say, visiting};
use crate::support::pages::{PLACES, Page};
use crate::support::{Daemon, Household, model};

/// What would run if it were taken for markup: twenty ways, each made its own by a number.
pub fn evil(n: usize) -> String {
    let ways = [
        "<script>alert({n})</script>",
        "\"><img src=x onerror=alert({n})>",
        "'><svg onload=alert({n})>",
        "</textarea><script>alert({n})</script>",
        "</title><script>alert({n})</script>",
        "<iframe srcdoc='<b id={n}>'>",
        "<a href=\"javascript:alert({n})\">x</a>",
        "<body onload=alert({n})>",
        "<details open ontoggle=alert({n})>",
        "<math><mi xlink:href=\"data:x,{n}\">",
        "\" autofocus onfocus=alert({n}) x=\"",
        "' style='x:{n}' onclick='alert({n})",
        "<style>@import '//evil.example/{n}'</style>",
        "<meta http-equiv=refresh content='0;url=//evil.example/{n}'>",
        "<base href=//evil.example/{n}>",
        "<form action=//evil.example/{n}><button>",
        "<link rel=stylesheet href=//evil.example/{n}>",
        "<template><b id={n}></template>",
        "]]><script>alert({n})</script>",
        "<!--{n}--><script>alert({n})//",
    ];
    ways[n % ways.len()].replace("{n}", &n.to_string())
}

/// Text as a page has it.
fn on_a_page(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// What one of others wrote, and where it must be seen.
struct Seen {
    path: String,
    text: String,
}

/// A model that looks up and says what would run, and asks for two calls that would let it out.
async fn butler() -> ScriptedModel {
    let leak = |n: usize| json!({"call": {"tool": "leak", "arguments": {"text": format!("both-a-{}", evil(n))}}});
    model(json!([
        {"when": "ask for both", "steps": [leak(200), leak(202), {"say": "Asked."}]},
        {"when": "", "steps": [
            {"call": {"tool": "measurement_latest", "arguments": {"kind": "<svg onload=alert(900)>"}}},
            {"say": "<script>alert(901)</script>"}]},
    ]))
    .await
}

/// Forty strangers write, each five strings: the messages' ids.
async fn strangers_write(daemon: &Daemon, written: &mut Vec<String>) -> Vec<String> {
    let mut ids = Vec::new();
    for n in 0..40 {
        let fields: Vec<String> = (0..5).map(|field| evil(n * 5 + field)).collect();
        let mut envelope = message(&format!("x{n}"), &format!("x{n}"), &fields[0]);
        envelope["sender"]["identity"] = json!(fields[1]);
        envelope["sender"]["display_name"] = json!(fields[2]);
        envelope["event"]["external_thread_id"] = json!(fields[3]);
        envelope["payload"]["attachments"] =
            json!([{"media_type": "text/plain", "filename": fields[4], "content_base64": "eA==", "size_bytes": 1}]);
        envelope["control"]["pinned_target"] = json!("health");
        let (status, accepted) = ingest(daemon, &envelope).await;
        assert_eq!(status, 202, "{accepted}");
        ids.push(accepted["request_id"].as_str().expect("an id").to_owned());
        written.extend(fields);
    }
    for id in ids.iter().take(3) {
        ended(daemon, id).await;
    }
    ids
}

/// What comes by other ways than a message: what a session asks to send, what another's server says of its tools before
/// and after the owner agreed to them, what files are called that are sent, what is remembered.
async fn others_write(household: &Household, daemon: &Daemon, control: &Path) -> Vec<Seen> {
    let db = household.owner().await;
    prepare(&db).await;
    says(daemon, "ask for both").await;
    let sql = "SELECT id::text, proposal::text FROM shared.pending_actions WHERE tool_args LIKE '%alert(200)%'";
    let row = db.query_one(sql, &[]).await.expect("a call that waits");
    let (call, both): (String, String) = (row.get(0), row.get(1));

    let visitor = daemon.mcp("visitor");
    has(&visitor, "repeat", true).await;
    say(control, &json!({"about": evil(204)}));
    visitor.ok("fake_change", json!({})).await;
    has(&visitor, "repeat", false).await;

    // The household leaves out of a file's name what could lead elsewhere; a page does not lean on that.
    let file = json!({"intent": "send", "channel": "chat", "message": "See the file.",
        "files": [{"name": "plan.txt", "text": "x"}]});
    let sent = daemon.mcp("general").ok("notify", file).await;
    let delivery = sent["delivery_id"].as_str().expect("an id");
    let rename = "UPDATE shared.outbox_files SET name = $1, media_type = $2 WHERE outbox_id = $3::text::uuid";
    assert_eq!(db.execute(rename, &[&evil(205), &evil(206), &delivery]).await.expect("another name"), 1);

    // Markup alone is not remembered; words around it are.
    let words = format!("The neighbour says {} of the shed.", evil(208));
    let fact = json!({"subject": evil(200), "predicate": "is", "content": words});
    let stored = daemon.mcp("health").ok("memory_store_fact", fact).await;
    let fact = stored["id"].as_str().unwrap_or_else(|| panic!("{stored}"));
    let seen = |path: String, n: usize| Seen { path, text: evil(n) };
    vec![
        seen(format!("/approvals/{call}"), 200),
        seen(format!("/approvals/proposals/{both}"), 200),
        seen(format!("/approvals/proposals/{both}"), 202),
        seen("/connectors/mcp/visitor/fake".to_owned(), 203),
        seen("/connectors/mcp/visitor/fake".to_owned(), 204),
        seen(format!("/deliveries/{delivery}"), 205),
        seen(format!("/deliveries/{delivery}"), 206),
        seen(format!("/memory/health/fact/{fact}"), 208),
        seen("/memory?butler=health&q=shed".to_owned(), 208),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_stranger_writes_stays_text_on_every_page() {
    let model = butler().await;
    let (household, control) = visiting(with_a_vault(&model).env("BUTLERD_SPAWNER__MAX_SESSIONS", "2"), "");
    say(&control, &json!({"about": evil(203)}));
    let daemon = household.start().await;
    let page = Page::of(&daemon).await;
    let mut written = vec!["<svg onload=alert(900)>".to_owned(), "<script>alert(901)</script>".to_owned()];
    let others = others_write(&household, &daemon, &control).await;
    let ids = strangers_write(&daemon, &mut written).await;
    assert!(written.len() >= 200, "{}", written.len());
    written.extend(others.iter().map(|seen| seen.text.clone()));
    let mut paths: Vec<String> = PLACES.iter().map(|place| (*place).to_owned()).collect();
    paths.extend(ids.iter().map(|id| format!("/inbox/{id}")));
    let sessions = daemon.rpc("sessions_list", json!({"limit": 20})).await;
    let sessions = sessions["sessions"].as_array().cloned().unwrap_or_default();
    paths.extend(sessions.iter().filter_map(|s| s["id"].as_str()).map(|id| format!("/sessions/{id}")));
    paths.push("/find?q=%3Cscript%3Ealert(1)%3C/script%3E".to_owned());
    paths.push("/conversations?q=%22%3E%3Cimg%20src=x%20onerror=alert(1)%3E".to_owned());
    paths.push("/audit?tool=%22%3E%3Cimg%20src=x%20onerror=alert(1)%3E".to_owned());
    paths.push("/?did=%3Cscript%3Ealert(1)%3C/script%3E".to_owned());
    paths.extend(others.iter().map(|seen| seen.path.clone()));
    let mut shown = 0;
    for path in &paths {
        let html = page.get(path).await;
        // An apostrophe alone ends nothing: pages put attributes between double quotes. The browser's walk has one, too.
        for text in written.iter().filter(|text| text.contains(['<', '>', '"'])) {
            assert!(!html.contains(text.as_str()), "{path} holds {text}");
        }
        for start in ["<script>alert", "<img src=x", "<svg onload", "href=\"javascript:", "onerror=alert(1)>"] {
            assert!(!html.contains(start), "{path} holds {start}");
        }
        shown += html.matches("&lt;script&gt;alert").count() + html.matches("&lt;svg onload").count();
    }
    assert!(shown > 20, "the strings were on the pages: {shown}");
    for Seen { path, text } in &others {
        let html = page.get(path).await;
        assert!(html.contains(&on_a_page(text)), "{path} does not show {text}: {html}");
    }
}
