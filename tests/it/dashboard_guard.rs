//! What the dashboard's answers say about themselves, who gets in by a link or by a proxy, how a browser is shut out, and
//! what no answer holds.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::canary::Canaries;
use crate::dashboard_doors::{admin_port, bare, style};
use crate::doors::raw;
use crate::mcp_servers::visiting;
use crate::support::browser::login_link;
use crate::support::markup::tags;
use crate::support::pages::{PLACES, Page};
use crate::support::{Daemon, Household, http, model};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_forbids_frames_and_foreign_scripts() {
    let household = Household::with_model(&model(json!([])).await);
    let daemon = household.start().await;
    let page = Page::of(&daemon).await;
    let (style, cookie) = (style(&page).await, page.cookie.clone());
    let none = "/sessions/0190a0a0-0000-7000-8000-000000000001";
    let at = format!("http://{}", daemon.admin());
    let cases = [
        ("a page", "GET", "/settings", true, 200),
        ("a page's head", "HEAD", "/settings", true, 200),
        ("a style", "GET", style.as_str(), false, 200),
        ("no such asset", "GET", "/assets/nothing.js", false, 404),
        ("a link's page", "GET", "/login/nothing", false, 200),
        ("a wrong link", "POST", "/login/nothing", false, 403),
        ("nobody's page", "GET", "/", false, 401),
        ("a thing that there is not", "GET", none, true, 404),
        ("a page that there is not", "GET", "/nowhere", true, 404),
        ("another method", "DELETE", "/settings", true, 405),
        ("a form without its mark", "POST", "/settings/reload", true, 403),
        ("no form", "PUT", "/settings/reload", true, 405),
        ("a stream", "GET", "/live/house", true, 200),
        ("a piece", "GET", "/find?q=he&piece=1", true, 200),
        ("a butler's own page", "GET", "/api/butlers/health/nothing", true, 401),
        ("the API's page", "GET", "/api/v1/", false, 200),
        ("the API", "GET", "/api/v1/butlers", true, 401),
    ];
    for (what, method, path, signed_in, status) in cases {
        let request = bare().request(method.parse().expect("a method"), format!("{at}{path}"));
        let request = if signed_in { request.header("cookie", &cookie) } else { request };
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let answer = request.send().await.expect("an answer");
        assert_eq!(answer.status().as_u16(), status, "{what}");
        let header =
            |name: &str| answer.headers().get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
        // What is plain JSON to everybody can be shown nowhere as a page.
        if path.starts_with("/api/") && header("content-type").contains("json") {
            continue;
        }
        let policy = header("content-security-policy");
        assert!(policy.contains("frame-ancestors 'none'") && policy.contains("default-src 'none'"), "{what}: {policy}");
        assert!(!policy.contains("unsafe") && !policy.contains("http") && !policy.contains('*'), "{what}: {policy}");
        assert_eq!(header("x-content-type-options"), "nosniff", "{what}");
        if !path.starts_with("/api/") {
            assert_eq!(header("x-frame-options"), "DENY", "{what}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_for_a_phone_signs_in_once() {
    let household = Household::new();
    let daemon = household.start().await;
    let link = tokio::task::block_in_place(|| login_link(&household, &["login-link", "--for", "10m"]));
    assert!(link.starts_with(&format!("http://{}/login/", daemon.admin())), "{link}");
    let (_, out, err) = tokio::task::block_in_place(|| household.cli(&["login-link", "--for", "10m"]));
    let told = format!("{out}{err}");
    assert!(told.contains("once, until") && told.contains("public_url"), "{told}");
    assert_eq!(bare().get(&link).send().await.expect("an answer").status(), 200);
    let first = bare().post(&link).send().await.expect("an answer");
    assert_eq!(first.status(), 303);
    let cookie = first.headers()["set-cookie"].to_str().expect("text").split(';').next().expect("a pair").to_owned();
    let home = bare().get(format!("http://{}/", daemon.admin())).header("cookie", &cookie).send().await;
    assert_eq!(home.expect("an answer").status(), 200);
    let second = bare().post(&link).send().await.expect("an answer");
    assert!(second.status() == 403 && !second.headers().contains_key("set-cookie"), "twice");
    // One that may only look does no more, and nobody opens one for longer than a day or for no time.
    let looks = tokio::task::block_in_place(|| login_link(&household, &["login-link", "--for", "10m", "--only-look"]));
    let looks = bare().post(&looks).send().await.expect("an answer");
    let cookie = looks.headers()["set-cookie"].to_str().expect("text").split(';').next().expect("a pair").to_owned();
    let settings = bare().get(format!("http://{}/settings", daemon.admin())).header("cookie", &cookie).send().await;
    let settings = settings.expect("an answer").text().await.expect("a page");
    assert!(!settings.contains("Revoke") && !settings.contains("Read the roster again"), "{settings}");
    for wrong in ["0s", "25h", "soon"] {
        let (code, out, err) = tokio::task::block_in_place(|| household.cli(&["login-link", "--for", wrong]));
        assert!(code != 0 && !out.contains("/login/"), "{wrong}: {out}{err}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_world_s_name_opens_pages_and_nothing_else() {
    let household = Household::new()
        .env("BUTLERD_ADMIN__PUBLIC_URL", "https://home.example")
        .env("BUTLERD_ADMIN__TRUSTED_PROXIES", "127.0.0.1");
    let daemon = household.start().await;
    let link = tokio::task::block_in_place(|| login_link(&household, &["login-link", "--for", "10m"]));
    let path = link.strip_prefix("https://home.example").expect("the world's name").to_owned();
    let at = format!("http://{}", daemon.admin());
    // As the proxy hands it on.
    let ask = |method: reqwest::Method, path: &str| {
        let request = bare().request(method, format!("{at}{path}")).header("host", "home.example");
        request.header("x-forwarded-proto", "https")
    };
    let form = |path: &str| {
        let request = ask(reqwest::Method::POST, path).header("origin", "https://home.example");
        request.header("content-type", "application/x-www-form-urlencoded")
    };
    let signed = form(&path).body("").send().await.expect("an answer");
    assert_eq!(signed.status(), 303);
    let cookie = signed.headers()["set-cookie"].to_str().expect("text").split(';').next().expect("a pair").to_owned();
    for place in ["/", "/settings", "/butlers/health"] {
        let shown = ask(reqwest::Method::GET, place).header("cookie", &cookie).send().await.expect("an answer");
        assert_eq!(shown.status(), 200, "{place}");
    }
    let settings = ask(reqwest::Method::GET, "/settings").header("cookie", &cookie).send().await.expect("an answer");
    let settings = settings.text().await.expect("a page");
    let all = tags(&settings);
    let proof = all.iter().find(|tag| tag.value("name") == Some("form")).and_then(|tag| tag.value("value"));
    let body = format!("form={}", proof.expect("a form's mark"));
    let done = form("/settings/reload").header("cookie", &cookie).body(body.clone()).send().await.expect("an answer");
    assert_eq!(done.status(), 303, "a form of its own pages");
    // A page of somebody else's can't send it, nor one that came without TLS.
    for origin in ["https://evil.example", "http://home.example", "https://home.example.evil.example", "null"] {
        let request = ask(reqwest::Method::POST, "/settings/reload").header("origin", origin).header("cookie", &cookie);
        let request = request.header("content-type", "application/x-www-form-urlencoded").body(body.clone());
        assert_eq!(request.send().await.expect("an answer").status(), 403, "{origin}");
    }
    let plain = bare().get(format!("{at}/")).header("host", "home.example").header("cookie", &cookie).send().await;
    assert_eq!(plain.expect("an answer").status(), 401, "a cookie of TLS alone");
    // All that takes tokens answers to this machine's names alone.
    let health = daemon.port("health");
    for (port, method, path) in [
        (admin_port(&daemon), "POST", "/rpc"),
        (admin_port(&daemon), "GET", "/api/v1/butlers"),
        (admin_port(&daemon), "GET", "/api/v1/"),
        (admin_port(&daemon), "POST", "/api/chat"),
        (admin_port(&daemon), "POST", "/api/ingest"),
        (admin_port(&daemon), "GET", "/api/butlers/health/measurements"),
        (admin_port(&daemon), "GET", "/metrics"),
        (admin_port(&daemon), "GET", "/readyz"),
        (admin_port(&daemon), "GET", "/nowhere"),
        (health, "POST", "/mcp"),
    ] {
        for host in ["home.example", "home.example:443"] {
            let head = format!(
                "{method} {path} HTTP/1.1\r\nHost: {host}\r\nX-Forwarded-Proto: https\r\nCookie: {cookie}\r\n\
                 Authorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: 0\r\n\r\n",
                daemon.token()
            );
            assert_eq!(raw(port, &head).await, 403, "{method} {path} by {host}");
        }
    }
}

/// The addresses of the buttons that end browsers, and whether each is the one that looks.
fn browsers(settings: &str) -> Vec<(String, bool)> {
    let rows = settings.split("<tr>").map(|row| row.split("</tr>").next().unwrap_or_default());
    let rows = rows.filter(|row| row.contains("<td>browser"));
    let action =
        |row: &str| tags(row).iter().find(|tag| tag.name == "form").and_then(|f| f.value("action").map(str::to_owned));
    rows.map(|row| (action(row).unwrap_or_else(|| panic!("no button: {row}")), row.contains("this one"))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_is_shut_out_on_the_settings_page() {
    let household = Household::with_model(&model(json!([])).await);
    let daemon = household.start().await;
    let (owner, other) = (Page::of(&daemon).await, Page::of(&daemon).await);
    let mut live = other.answer("/live/house", None).await;
    assert!(live.chunk().await.expect("a chunk").is_some());
    let listed = browsers(&owner.get("/settings").await);
    assert_eq!(listed.len(), 2, "{listed:?}");
    let (end, _) = listed.iter().find(|(_, own)| !own).expect("the other one");
    assert_eq!(owner.send("/settings", end, &[]).await.split('?').next(), Some("/settings"));
    assert_eq!(other.status("/").await, 401);
    assert_eq!(other.post("/settings/reload", &[]).await.status(), 401);
    // Whatever happens next ends its stream.
    daemon.mcp("health").ok("measurement_log", json!({"kind": "weight", "value": {"kg": 82}})).await;
    let _ = daemon.mcp("health").call("trigger", json!({"prompt": "x"})).await;
    while let Ok(Some(_)) = live.chunk().await {}
    assert_eq!(owner.status("/").await, 200);
    // The one that looks can end itself as well.
    let listed = browsers(&owner.get("/settings").await);
    assert!(listed.len() == 1 && listed[0].1, "{listed:?}");
    owner.send("/settings", &listed[0].0, &[]).await;
    assert_eq!(owner.status("/").await, 401);
    let db = household.owner().await;
    let sql = "SELECT count(*) FROM shared.tokens WHERE browser AND revoked_at IS NULL";
    let open: i64 = db.query_one(sql, &[]).await.expect("a count").get(0);
    assert_eq!(open, 0);
}

/// What pages ask the daemon for, and programs can as well.
const READS: [&str; 22] = [
    "status",
    "settings",
    "secret_list",
    "token_list",
    "costs",
    "budgets",
    "sessions_list",
    "sessions_page",
    "sessions_get",
    "sessions_events",
    "inbox_list",
    "deliveries_list",
    "conversations_list",
    "notes_list",
    "audit_list",
    "approvals_list",
    "approvals_rules",
    "schedule_list",
    "undo_list",
    "tool_list",
    "ids",
    "timeline",
];

async fn answers_of_rpc(daemon: &Daemon, session: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for method in READS {
        let params = match method {
            "costs" => json!({"days": 7}),
            "sessions_get" | "sessions_events" => json!({"session_id": session, "id": session, "butler": "health"}),
            "approvals_rules" => json!({"all": true}),
            "tool_list" => json!({"butler": "health"}),
            _ => json!({}),
        };
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": format!("butlerd.{method}"), "params": params});
        let request = http().post(format!("http://{}/rpc", daemon.admin())).bearer_auth(daemon.token()).json(&body);
        all.push((method.to_owned(), request.send().await.expect("an answer").text().await.expect("text")));
    }
    all
}

/// What the API answers to everything that can be read by it.
async fn answers_of_the_api(daemon: &Daemon) -> Vec<(String, u16, String)> {
    let get = async |path: &str| {
        let request = http().get(format!("http://{}/api/v1{path}", daemon.admin())).bearer_auth(daemon.token());
        let answer = request.send().await.expect("an answer");
        (answer.status().as_u16(), answer.text().await.expect("text"))
    };
    let document: Value = serde_json::from_str(&get("/openapi.json").await.1).expect("the document");
    let paths = document["paths"].as_object().expect("paths");
    let all: BTreeSet<String> =
        paths.iter().filter(|(_, path)| path["get"].is_object()).map(|(p, _)| p.clone()).collect();
    let (mut told, mut lists) = (Vec::new(), Vec::new());
    for path in &all {
        let own = path.strip_prefix("/api/v1").unwrap_or(path).replace("{butler}", "health");
        if own.contains('{') {
            lists.push(own);
            continue;
        }
        let (status, text) = get(&own).await;
        told.push((own, status, text));
    }
    // Of what lists name, one by one.
    for path in lists {
        let (list, rest) = path.split_once("/{").unwrap_or((path.as_str(), ""));
        let rest = rest.split_once('}').map_or("", |(_, rest)| rest).to_owned();
        let listed = told.iter().find(|(at, ..)| at == list).map(|(.., text)| text.clone()).unwrap_or_default();
        let items: Value = serde_json::from_str(&listed).unwrap_or_default();
        for item in items["items"].as_array().into_iter().flatten().take(3) {
            let id = ["id", "request_id", "name"].iter().find_map(|key| item[*key].as_str());
            if let Some(id) = id.filter(|_| !rest.contains('{')) {
                let one = format!("{list}/{id}{rest}");
                let (status, text) = get(&one).await;
                told.push((one, status, text));
            }
        }
    }
    told
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_answer_holds_a_secret() {
    let (first, second) = ("kitchen-door-7319-combination", "stored-by-rpc-2840-passphrase");
    let quoted = format!("The door opens with {first}.");
    let model = model(json!([{"when": "", "steps": [
        {"call": {"tool": "measurement_latest", "arguments": {"kind": first}}}, {"say": quoted}]}]))
    .await;
    let key = "sk-test-key-of-the-scripted-model";
    let (household, _control) = visiting(Household::with_model(&model), "");
    let daemon = household.start().await;
    let page = Page::of(&daemon).await;
    page.send("/secrets", "/secrets", &[("name", "DOOR"), ("value", first)]).await;
    daemon.rpc("secret_set", json!({"name": "OTHER", "value": second})).await;
    let (code, made, err) =
        tokio::task::block_in_place(|| household.cli(&["token", "new", "--json", "--scope", "read"]));
    assert_eq!(code, 0, "{err}");
    let made: Value = serde_json::from_str(&made).expect("JSON");
    let (code, login, err) =
        tokio::task::block_in_place(|| household.cli(&["db", "url", "--butler", "health", "--json"]));
    assert_eq!(code, 0, "{err}");
    let login: Value = serde_json::from_str(&login).expect("JSON");
    let mut canaries = Canaries::default();
    canaries.add("a secret of the page", first);
    canaries.add("a secret of the command line", second);
    canaries.add("the model's key", key);
    canaries.add("a server's secret", "cheese-token-that-nobody-may-see");
    canaries.add("the operator's token", daemon.token());
    canaries.add("another token", made["token"].as_str().expect("a token"));
    canaries.add("a role's password", login["password"].as_str().expect("a password"));
    canaries.add("the browser's session", page.cookie.split_once('=').expect("a value").1);
    canaries.add("the master key", std::fs::read(household.data().join("master.key")).expect("the key"));
    let search = canaries.search();
    // Somebody says one of them, the model uses and repeats it.
    let prompt = format!("Remember the door: {first}");
    let done = daemon.mcp("health").ok("trigger", json!({"prompt": prompt})).await;
    let session = done["session_id"].as_str().expect("a session").to_owned();

    let mut from: Vec<String> = PLACES.iter().map(|place| (*place).to_owned()).collect();
    from.extend(
        ["/settings?all=1", "/find?q=door", "/find?piece=1&q=kitchen", "/find?q=7319", "/audit?butler=health"]
            .map(str::to_owned),
    );
    from.extend([format!("/sessions/{session}"), format!("/trace/{session}"), "/butlers/visitor".to_owned()]);
    from.extend(["/connectors/mcp/visitor/fake", "/butlers/health/tools/measurement_latest"].map(str::to_owned));
    let pages = page.walk(&from).await;
    assert!(pages.len() > 60, "{:?}", pages.keys());
    assert!(pages["/secrets"].contains("DOOR") && pages["/secrets"].contains("OTHER"), "{}", pages["/secrets"]);
    assert!(pages["/settings?all=1"].contains("may hold a password"), "{}", pages["/settings?all=1"]);
    let told = &pages[&format!("/sessions/{session}")];
    assert!(told.contains("Remember the door:") && told.contains("measurement_latest"), "{told}");
    for (path, html) in &pages {
        search.none(path, html);
    }
    for (method, text) in answers_of_rpc(&daemon, &session).await {
        search.none(&method, text);
    }
    let api = answers_of_the_api(&daemon).await;
    let well = api.iter().filter(|(_, status, _)| *status == 200).count();
    assert!(well > 15, "{:?}", api.iter().map(|(path, status, _)| (path, status)).collect::<Vec<_>>());
    for (path, _, text) in &api {
        search.none(path, text);
    }
    search.none("the log", daemon.log());
}
