//! What Home says, and what the palette finds.

use serde_json::json;

use crate::support::pages::{PLACES, Page};
use crate::support::{Household, eventually, model};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn home_tells_what_waits_what_was_said_and_what_it_cost() {
    let model = model(json!([{"when": "how are", "steps": [{"say": "All is well."}]}])).await;
    let household = Household::with_model(&model).env("BUTLERD_SPAWNER__BUDGETS__BUTLER_DAY_USD", "2");
    let daemon = household.start().await;
    let page = Page::of(&daemon).await;
    let home = page.get("/").await;
    for empty in ["Nothing waits for you.", "Nobody has said anything yet.", "No session yet."] {
        assert!(home.contains(empty), "{empty}: {home}");
    }
    assert!(home.contains("nothing yet") && home.contains("$2.00 of $2.00 left"), "of today, of the budget: {home}");
    page.send("/conversations", "/conversations", &[("text", "how are you?"), ("butler", "health")]).await;
    daemon
        .mcp("health")
        .ok(
            "notify",
            json!({"intent": "send", "channel": "chat", "message": "The filter is <old>.", "subject": "Filter"}),
        )
        .await;
    let home = eventually("the day's things are on Home", async || {
        let home = page.get("/").await;
        let all = ["how are you?", "/conversations/", "/notes#note-", "Filter"].iter().all(|part| home.contains(part));
        if all && home.contains("All is well.") { Ok(home) } else { Err(home) }
    })
    .await;
    assert!(!home.contains("Nothing waits for you.") && !home.contains("<old>"), "{home}");
}

/// As a browser gets it that has been nowhere yet; with years of rows, `just bench` weighs it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_load_is_packed_and_small() {
    let household = Household::with_model(&model(json!([])).await);
    let daemon = household.start().await;
    daemon.mcp("health").ok("trigger", json!({"prompt": "Look."})).await;
    let page = Page::of(&daemon).await;
    // The journal's place leads on to that of a butler.
    for place in PLACES.map(|place| if place == "/journal" { "/journal/general" } else { place }) {
        let html = page.get(place).await;
        let (packed, by) = page.packed(place).await;
        assert_eq!(by, "gzip", "{place}");
        assert!(packed < html.len() / 2, "{place}: {packed} of {} bytes", html.len());
        let loads = ["href=\"", "src=\""].into_iter().flat_map(|name| html.split(name).skip(1));
        let assets = loads.filter_map(|rest| rest.split('"').next()).filter(|to| to.starts_with("/assets/"));
        let mut weight = packed;
        for asset in assets {
            weight += page.packed(asset).await.0;
        }
        assert!(weight <= 120 * 1024, "{place}: {weight} bytes");
    }
    let stream = page.get("/").await;
    let stream = stream.split("data-live=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a stream");
    assert_eq!(page.packs(stream).await.headers().get("content-encoding"), None, "each event is there at once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_palette_finds_people_tools_schedules_and_ids() {
    let household = Household::with_model(&model(json!([])).await);
    let daemon = household.start().await;
    let page = Page::of(&daemon).await;
    page.send("/people", "/people", &[("name", "Ada <b>"), ("channel", "email"), ("identity", "ada@example.org")])
        .await;
    let end = daemon.mcp("health").ok("trigger", json!({"prompt": "Look."})).await;
    let session = end["session_id"].as_str().expect("a session").to_owned();
    for (wanted, found) in [
        ("ada", "Person Ada &lt;b&gt;"),
        ("measurement_lo", "/butlers/health/tools/measurement_log"),
        (&session[..30], &format!("/sessions/{session}")),
        (&session[..30], &format!("/trace/{session}")),
        ("audit", "href=\"/audit\""),
        ("nothing is called so", "Nothing is called so"),
    ] {
        let wanted = wanted.replace(' ', "%20");
        let shown = page.get(&format!("/find?piece=yes&q={wanted}")).await;
        assert!(shown.contains(found), "{wanted}: {shown}");
    }
}
