//! What others write stays text on every page of the dashboard, whichever field it comes in.

use serde_json::json;

use crate::inbound::{ended, ingest, message};
use crate::support::pages::{PLACES, Page};
use crate::support::{Household, model};

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_stranger_writes_stays_text_on_every_page() {
    let model = model(json!([{"when": "", "steps": [
        {"call": {"tool": "measurement_latest", "arguments": {"kind": "<svg onload=alert(900)>"}}},
        {"say": "<script>alert(901)</script>"}]}]))
    .await;
    let household = Household::with_model(&model).env("BUTLERD_SPAWNER__MAX_SESSIONS", "2");
    let daemon = household.start().await;
    let page = Page::of(&daemon).await;
    let mut ids = Vec::new();
    let mut written = vec!["<svg onload=alert(900)>".to_owned(), "<script>alert(901)</script>".to_owned()];
    for n in 0..40 {
        let fields: Vec<String> = (0..5).map(|field| evil(n * 5 + field)).collect();
        let mut envelope = message(&format!("x{n}"), &format!("x{n}"), &fields[0]);
        envelope["sender"]["identity"] = json!(fields[1]);
        envelope["sender"]["display_name"] = json!(fields[2]);
        envelope["event"]["external_thread_id"] = json!(fields[3]);
        envelope["payload"]["attachments"] =
            json!([{"media_type": "text/plain", "filename": fields[4], "content_base64": "eA==", "size_bytes": 1}]);
        envelope["control"]["pinned_target"] = json!("health");
        let (status, accepted) = ingest(&daemon, &envelope).await;
        assert_eq!(status, 202, "{accepted}");
        ids.push(accepted["request_id"].as_str().expect("an id").to_owned());
        written.extend(fields);
    }
    assert!(written.len() >= 200, "{}", written.len());
    for id in ids.iter().take(3) {
        ended(&daemon, id).await;
    }
    let mut paths: Vec<String> = PLACES.iter().map(|place| (*place).to_owned()).collect();
    paths.extend(ids.iter().map(|id| format!("/inbox/{id}")));
    let sessions = daemon.rpc("sessions_list", json!({"limit": 20})).await;
    let sessions = sessions["sessions"].as_array().cloned().unwrap_or_default();
    paths.extend(sessions.iter().filter_map(|s| s["id"].as_str()).map(|id| format!("/sessions/{id}")));
    paths.push("/find?q=%3Cscript%3Ealert(1)%3C/script%3E".to_owned());
    paths.push("/conversations?q=%22%3E%3Cimg%20src=x%20onerror=alert(1)%3E".to_owned());
    paths.push("/audit?tool=%22%3E%3Cimg%20src=x%20onerror=alert(1)%3E".to_owned());
    paths.push("/?did=%3Cscript%3Ealert(1)%3C/script%3E".to_owned());
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
}
