//! Who gets to the dashboard's pages, and what they may do there.

use serde_json::{Value, json};

use crate::doors::{BAD_HOSTS, BAD_ORIGINS, raw};
use crate::support::pages::{PLACES, Page};
use crate::support::{Daemon, Household, http, markup, model};

pub fn admin_port(daemon: &Daemon) -> u16 {
    daemon.admin().rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
}

pub fn bare() -> reqwest::Client {
    reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().expect("a client")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_sees_a_page_without_a_session_of_their_own() {
    let household = Household::new();
    let daemon = household.start().await;
    let at = format!("http://{}", daemon.admin());
    let page = Page::of(&daemon).await;
    for place in PLACES {
        let nobody = bare().get(format!("{at}{place}")).send().await.expect("an answer");
        assert_eq!(nobody.status(), 401, "{place}");
        let headers = nobody.headers().clone();
        assert_eq!(headers["x-frame-options"], "DENY", "{place}");
        let policy = headers["content-security-policy"].to_str().expect("text");
        assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{place}: {policy}");
        assert_eq!(headers["cache-control"], "no-store");
        assert!([200, 303].contains(&page.status(place).await), "{place}");
        // A program's token is no cookie.
        let name = page.cookie.split('=').next().expect("a name");
        let bearer = bare().get(format!("{at}{place}")).header("cookie", format!("{name}={}", daemon.token()));
        assert_eq!(bearer.send().await.expect("an answer").status(), 401, "{place}");
        let bearer = bare().get(format!("{at}{place}")).bearer_auth(daemon.token());
        assert_eq!(bearer.send().await.expect("an answer").status(), 401, "{place}");
    }
    // And a cookie is no program's token.
    let value = page.cookie.split_once('=').expect("a value").1.to_owned();
    let status = json!({"jsonrpc": "2.0", "id": 1, "method": "butlerd.status", "params": {}});
    for path in ["/rpc", "/api/chat"] {
        let request = http().post(format!("{at}{path}")).bearer_auth(&value).json(&status);
        assert_eq!(request.send().await.expect("an answer").status(), 401, "{path}");
        let request = http().post(format!("{at}{path}")).header("cookie", &page.cookie).json(&status);
        assert_eq!(request.send().await.expect("an answer").status(), 401, "{path}");
    }
    for nowhere in ["/nowhere", "/sessions/", "/assets/style.css", "/butlers/health/x", "/council?butler=health"] {
        assert_eq!(page.status(nowhere).await, 404, "{nowhere}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_signs_in_once_and_a_session_ends_at_once() {
    let household = Household::new();
    let daemon = household.start().await;
    let (code, link, err) = household.cli(&["open", "--print"]);
    assert_eq!(code, 0, "{err}");
    let link = link.trim().to_owned();
    // What looks ahead uses nothing up.
    for _ in 0..3 {
        let seen = bare().get(&link).send().await.expect("an answer");
        assert_eq!(seen.status(), 200);
    }
    let first = bare().post(&link).send().await.expect("an answer");
    assert_eq!(first.status(), 303);
    let cookie = first.headers()["set-cookie"].to_str().expect("text").to_owned();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let second = bare().post(&link).send().await.expect("an answer");
    assert_eq!(second.status(), 403, "twice");
    daemon.logged(&["a link that opens nothing"], 1).await;
    // The database knows the session by a hash alone, and the command line can end it.
    let tokens = daemon.rpc("token_list", json!({})).await;
    let browser =
        tokens.as_array().expect("a list").iter().find(|t| t["browser"] == true).expect("the session").clone();
    let pair = cookie.split(';').next().expect("a pair").to_owned();
    let page = || bare().get(format!("http://{}/", daemon.admin())).header("cookie", &pair).send();
    assert_eq!(page().await.expect("an answer").status(), 200);
    let live = bare().get(format!("http://{}/live/house", daemon.admin())).header("cookie", &pair).send().await;
    let mut live = live.expect("a stream");
    assert_eq!(live.status(), 200);
    assert!(live.chunk().await.expect("a chunk").is_some());
    let (code, _, err) = household.cli(&["token", "revoke", browser["id"].as_str().expect("an id")]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(page().await.expect("an answer").status(), 401);
    // Whatever happens next ends its stream.
    daemon.mcp("health").ok("status", json!({})).await;
    let _ = daemon.mcp("health").call("trigger", json!({"prompt": "x"})).await;
    while let Ok(Some(_)) = live.chunk().await {}
    // Guessing is slowed down.
    let mut codes = Vec::new();
    for n in 0..12 {
        let guess = format!("http://{}/login/guess{n}", daemon.admin());
        codes.push(bare().post(guess).send().await.expect("an answer").status().as_u16());
    }
    assert!(codes.contains(&429), "{codes:?}");
    // A right one opens all the same.
    Page::of(&daemon).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_needs_the_right_and_a_form_of_this_very_session() {
    let household = Household::new();
    let daemon = household.start().await;
    let (owner, other) = (Page::of(&daemon).await, Page::of(&daemon).await);
    let looks = Page::with(&daemon, json!({"only_look": true})).await;
    let id = "00000000-0000-7000-8000-000000000000";
    let changes: Vec<(String, Vec<(&str, &str)>)> = vec![
        ("/settings/reload".into(), vec![]),
        ("/secrets".into(), vec![("name", "A_SECRET"), ("value", "x")]),
        ("/secrets/A_SECRET/remove".into(), vec![]),
        (format!("/settings/tokens/{id}/revoke"), vec![]),
        (format!("/approvals/{id}/approve"), vec![("seen", "x")]),
        (format!("/approvals/{id}/reject"), vec![]),
        (format!("/approvals/rules/{id}/end"), vec![]),
        (format!("/sessions/{id}/cancel"), vec![]),
        ("/undo/health/1".into(), vec![]),
        (format!("/undo-session/{id}"), vec![]),
        (format!("/inbox/{id}/retry"), vec![]),
        (format!("/inbox/{id}/reroute"), vec![("butler", "health")]),
        (format!("/deliveries/{id}/retry"), vec![]),
        (format!("/deliveries/{id}/cancel"), vec![]),
    ];
    let (own, foreign) = (owner.proof("/settings").await, other.proof("/settings").await);
    let looking = looks.proof("/").await;
    for (to, fields) in &changes {
        let with = |proof: &str| {
            let mut all: Vec<(String, String)> =
                fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            all.push(("form".to_owned(), proof.to_owned()));
            all
        };
        for proof in ["", "x", &foreign, &looking] {
            let all = with(proof);
            let all: Vec<(&str, &str)> = all.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            assert_eq!(owner.post(to, &all).await.status(), 403, "{to} with the form {proof:?}");
        }
        let all = with(&looking);
        let all: Vec<(&str, &str)> = all.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(looks.post(to, &all).await.status(), 403, "{to} by who may only look");
        let nobody = bare().post(format!("http://{}{to}", daemon.admin())).body("").send().await.expect("an answer");
        assert_eq!(nobody.status(), 401, "{to} by nobody");
    }
    // With its own form the owner's does something.
    let stored = owner.post("/secrets", &[("name", "A_SECRET"), ("value", "the-very-value"), ("form", &own)]).await;
    assert_eq!(stored.status(), 303);
    for place in PLACES {
        assert!(!owner.get(place).await.contains("the-very-value"), "{place}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_and_origins_of_others_get_nowhere() {
    let household = Household::new();
    let daemon = household.start().await;
    let page = Page::of(&daemon).await;
    let port = admin_port(&daemon);
    let style = style(&page).await;
    let mut many = 0;
    for (method, path) in [
        ("GET", "/"),
        ("POST", "/settings/reload"),
        ("GET", "/live/house"),
        ("GET", "/login/x"),
        ("POST", "/login/x"),
        ("GET", "/sessions/x"),
        ("GET", style.as_str()),
        ("GET", "/assets/nothing.js"),
        ("GET", "/live/chat/0190a0a0-0000-7000-8000-000000000001"),
        ("GET", "/api/butlers/health/measurements"),
        ("GET", "/api/v1/butlers"),
        ("GET", "/nowhere"),
    ] {
        let fill = |text: &str| text.replace("{port}", &port.to_string());
        let head = |host: &str, more: &str| {
            format!(
                "{method} {path} HTTP/1.1\r\nHost: {host}\r\n{more}Cookie: {}\r\nContent-Length: 0\r\n\r\n",
                page.cookie
            )
        };
        for host in BAD_HOSTS {
            assert_eq!(raw(port, &head(&fill(host), "")).await, 403, "{method} {path} Host: {host}");
            many += 1;
        }
        for origin in BAD_ORIGINS {
            let own = fill(origin) == format!("http://localhost:{port}");
            let line = format!("Origin: {}\r\n", fill(origin));
            let answer = raw(port, &head(&format!("localhost:{port}"), &line)).await;
            // The pages' own origin is theirs; a form without its proof is refused all the same.
            assert!(answer == 403 || own, "{method} {path} Origin: {origin}: {answer}");
            many += 1;
        }
    }
    assert_eq!(many, 12 * 40);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_proxy_that_is_trusted_the_world_s_name_counts() {
    let with = |proxies: &str| {
        Household::new()
            .env("BUTLERD_ADMIN__PUBLIC_URL", "https://home.example")
            .env("BUTLERD_ADMIN__TRUSTED_PROXIES", proxies)
    };
    let login = |port: u16, more: &str| {
        let head = format!("GET /login/x HTTP/1.1\r\nHost: home.example\r\n{more}Content-Length: 0\r\n\r\n");
        async move { raw(port, &head).await }
    };
    let household = with("10.0.0.0/8");
    let daemon = household.start().await;
    assert_eq!(login(admin_port(&daemon), "X-Forwarded-Proto: https\r\n").await, 403, "nobody trusts it");
    drop(daemon);
    let household = with("127.0.0.1");
    let daemon = household.start().await;
    assert_eq!(login(admin_port(&daemon), "X-Forwarded-Proto: https\r\n").await, 200);
    let link = daemon.rpc("login_link", json!({"wanted": {}})).await;
    let public = link["public_url"].as_str().expect("a link").to_owned();
    let path = public.strip_prefix("https://home.example").expect("its path");
    let request = bare().post(format!("http://{}{path}", daemon.admin()));
    let request = request.header("host", "home.example").header("x-forwarded-proto", "https");
    let answer = request.header("origin", "https://home.example").send().await.expect("an answer");
    assert_eq!(answer.status(), 303);
    let cookie = answer.headers()["set-cookie"].to_str().expect("text");
    assert!(cookie.starts_with("__Host-butlerd_") && cookie.ends_with("; Secure"), "{cookie}");
}

/// The address of the pages' style.
pub async fn style(page: &Page) -> String {
    let home = page.get("/").await;
    let tags = markup::tags(&home);
    let style = tags.iter().find(|tag| tag.value("rel") == Some("stylesheet")).and_then(|tag| tag.value("href"));
    style.expect("a style").to_owned()
}
/// Whoever is of another tenant, or of one butler, sees what is theirs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_sees_what_its_maker_s_token_sees() {
    let household = Household::new();
    let daemon = household.start().await;
    let (code, out, err) = household.cli(&["token", "new", "--butler", "health", "--scope", "read", "--json"]);
    assert_eq!(code, 0, "{err}");
    let token: Value = serde_json::from_str(&out).expect("JSON");
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "butlerd.login_link", "params": {"wanted": {}}});
    let request = http().post(format!("http://{}/rpc", daemon.admin()));
    let request = request.bearer_auth(token["token"].as_str().expect("a token")).json(&body);
    let link: Value = request.send().await.expect("an answer").json().await.expect("JSON");
    let url = link["result"]["url"].as_str().expect("a link").to_owned();
    let signed = bare().post(&url).send().await.expect("an answer");
    let cookie = signed.headers()["set-cookie"].to_str().expect("text").split(';').next().expect("a pair").to_owned();
    let get = |path: &str| {
        let request = bare().get(format!("http://{}{path}", daemon.admin())).header("cookie", &cookie);
        async move {
            let answer = request.send().await.expect("an answer");
            (answer.status().as_u16(), answer.text().await.expect("a page"))
        }
    };
    // What another butler remembers is not to be had by naming one's own.
    let ask = json!({"jsonrpc": "2.0", "id": 2, "method": "butlerd.project_list", "params": {"butler": "health"}});
    let request = http().post(format!("http://{}/rpc", daemon.admin()));
    let request = request.bearer_auth(token["token"].as_str().expect("a token")).json(&ask);
    let refused: Value = request.send().await.expect("an answer").json().await.expect("JSON");
    assert_eq!(refused["error"]["data"]["code"], "not_found", "{refused}");
    assert_eq!(get("/live/butler/finance").await.0, 404);
    let (status, home) = get("/").await;
    assert!(status == 200 && home.contains("/butlers/health") && !home.contains("/butlers/finance"), "{home}");
    assert_eq!(get("/butlers/finance").await.0, 404);
    for household_wide in ["/secrets", "/settings"] {
        let (status, page) = get(household_wide).await;
        assert!(status == if household_wide == "/secrets" { 403 } else { 200 }, "{household_wide}: {status}");
        assert!(!page.contains("Revoke") && !page.contains("butlerd.toml"), "{household_wide}: {page}");
    }
    // With the token that let it in the browser's session ends.
    let (code, _, err) = household.cli(&["token", "revoke", token["id"].as_str().expect("an id")]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(get("/").await.0, 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_token_lets_twenty_browsers_in_and_the_oldest_goes() {
    let household = Household::with_model(&model(json!([])).await);
    let daemon = household.start().await;
    let mut all = Vec::new();
    for _ in 0..21 {
        all.push(Page::of(&daemon).await);
    }
    assert_eq!(all[0].status("/").await, 401, "the oldest has ended");
    for (n, page) in all.iter().enumerate().skip(1) {
        assert_eq!(page.status("/").await, 200, "browser {n}");
    }
    let db = household.owner().await;
    let sql = "SELECT count(*) FROM shared.tokens WHERE browser AND revoked_at IS NULL";
    let open: i64 = db.query_one(sql, &[]).await.expect("a count").get(0);
    assert_eq!(open, 20);
}
