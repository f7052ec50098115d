//! Who is let in: tokens, butlers, tool lists, Host, Origin, size.

use serde_json::{Value, json};

use crate::support::Household;

async fn new_token(household: &Household, args: &[&str]) -> String {
    let mut all = vec!["token", "new"];
    all.extend(args);
    all.push("--json");
    let (code, out, err) = household.cli(&all);
    assert_eq!(code, 0, "{out}{err}");
    let shown: Value = serde_json::from_str(&out).expect("JSON");
    shown["token"].as_str().expect("a token").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_tool_of_one_butler_refuses_another_butlers_token() {
    let household = Household::whole();
    let daemon = household.start().await;
    let health_token = new_token(&household, &["--butler", "health", "--scope", "tools"]).await;
    let health = daemon.mcp("health").with_token(Some(&health_token));
    assert!(health.tools().await.contains(&"measurement_log".to_owned()));
    for butler in ["general", "finance", "switchboard"] {
        let all = daemon.mcp(butler).tools().await;
        assert!(all.len() > 15, "{all:?}");
        let other = daemon.mcp(butler).with_token(Some(&health_token));
        let nobody = daemon.mcp(butler).with_token(None);
        let wrong = daemon.mcp(butler).with_token(Some("wrong"));
        for tool in all {
            assert_eq!(other.call(&tool, json!({})).await.status, 403, "{butler} {tool}");
            assert_eq!(nobody.call(&tool, json!({})).await.status, 401, "{butler} {tool}");
            assert_eq!(wrong.call(&tool, json!({})).await.status, 401, "{butler} {tool}");
        }
        assert_eq!(other.request("tools/list", json!({})).await.status, 403);
        assert_eq!(nobody.request("initialize", json!({})).await.status, 401);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_or_expired_token_is_no_token() {
    let household = Household::new();
    let daemon = household.start().await;
    let token = new_token(&household, &["--scope", "tools"]).await;
    let client = daemon.mcp("general").with_token(Some(&token));
    assert_eq!(client.call("status", json!({})).await.status, 200);
    let (code, out, _) = household.cli(&["token", "list", "--json"]);
    assert_eq!(code, 0);
    assert!(!out.contains(&token), "the list shows a token");
    let list: Value = serde_json::from_str(&out).expect("JSON");
    let id = list["items"][0]["id"].as_str().expect("an id").to_owned();
    let (code, out, err) = household.cli(&["token", "revoke", &id]);
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(client.call("status", json!({})).await.status, 401);
    // A token made before a restart still works after it.
    let kept = new_token(&household, &["--scope", "tools"]).await;
    drop(daemon);
    let daemon = household.start().await;
    assert_eq!(daemon.mcp("general").with_token(Some(&kept)).call("status", json!({})).await.status, 200);
    assert_eq!(daemon.mcp("general").with_token(Some(&token)).call("status", json!({})).await.status, 401);
}

/// Requests as a browser or an attacker would shape them, sent as raw bytes so that no client repairs them.
pub async fn raw(port: u16, head: &str) -> u16 {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.expect("a connection");
    stream.write_all(head.as_bytes()).await.expect("sent");
    let mut answer = Vec::new();
    let mut chunk = [0u8; 512];
    while !answer.contains(&b'\n') {
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => break,
            Ok(n) => answer.extend_from_slice(&chunk[..n]),
        }
    }
    let text = String::from_utf8_lossy(&answer);
    text.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or_else(|| panic!("no status in {text:?} for {head:?}"))
}

pub const BAD_HOSTS: [&str; 22] = [
    "evil.example",
    "evil.example:{port}",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "evil-localhost",
    "localhost@evil.example",
    "localhost:",
    "localhost:0",
    "localhost:99999",
    "localhost:abc",
    "localhost:{port}:1",
    "0.0.0.0:{port}",
    "127.0.0.2:{port}",
    "127.1:{port}",
    "2130706433:{port}",
    "[::ffff:127.0.0.1]:{port}",
    "[::1",
    "[::2]:{port}",
    "local host",
    "localhost,evil.example",
    "192.168.0.1:{port}",
    "rebind.network:{port}",
];

pub const BAD_ORIGINS: [&str; 18] = [
    "http://evil.example",
    "https://evil.example",
    "http://localhost.evil.example",
    "http://evil.example:80",
    "null",
    "NULL",
    "file://",
    "chrome-extension://abcdef",
    "http://127.0.0.1.evil.example",
    "http://localhost",
    "http://localhost:{port}",
    "http://127.0.0.1:{port}",
    "https://localhost:{port}",
    "http://[::1]:{port}",
    "http://localhost:{port}@evil.example",
    "ws://localhost:{port}",
    "*",
    "localhost",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_hosts_and_origins_get_403_at_every_door_before_the_body() {
    let household = Household::new();
    let daemon = household.start().await;
    let admin: u16 = daemon.admin().rsplit(':').next().and_then(|p| p.parse().ok()).expect("the admin port");
    let doors = [(daemon.port("health"), "/mcp"), (admin, "/rpc")];
    let token = daemon.token();
    let mut combinations = 0;
    for (port, path) in doors {
        let fill = |s: &str| s.replace("{port}", &port.to_string());
        // A body is promised and never sent: an answer shows that it was not waited for.
        let head = |host: &str, origin: &str| {
            format!(
                "POST {path} HTTP/1.1\r\nHost: {host}\r\n{origin}Authorization: Bearer {token}\r\n\
                 Content-Type: application/json\r\nContent-Length: 100\r\n\r\n"
            )
        };
        for host in BAD_HOSTS {
            assert_eq!(raw(port, &head(&fill(host), "")).await, 403, "{path} Host: {host}");
            combinations += 1;
        }
        for origin in BAD_ORIGINS {
            let host = format!("localhost:{port}");
            let line = format!("Origin: {}\r\n", fill(origin));
            assert_eq!(raw(port, &head(&host, &line)).await, 403, "{path} Origin: {origin}");
            combinations += 1;
        }
        // Nothing, twice, and a target that contradicts the header.
        let no_host = format!("POST {path} HTTP/1.1\r\nContent-Length: 2\r\n\r\n{{}}");
        assert!([400, 403].contains(&raw(port, &no_host).await));
        let twice =
            format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nContent-Length: 2\r\n\r\n");
        assert!([400, 403].contains(&raw(port, &twice).await));
        let absolute =
            format!("POST http://evil.example{path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n");
        assert_eq!(raw(port, &absolute).await, 403);
        // Too much is refused by its announcement.
        let big = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost:{port}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: 99999999\r\n\r\n"
        );
        assert_eq!(raw(port, &big).await, 413);
    }
    assert_eq!(combinations, 2 * 40);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configured_host_and_origin_pass() {
    let household = Household::new()
        .env("BUTLERD_ADMIN__ALLOWED_HOSTS", "butler.lan")
        .env("BUTLERD_ADMIN__ALLOWED_ORIGINS", "https://butler.lan");
    let daemon = household.start().await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let health = daemon.mcp("health");
    let good = health.post(list.clone(), &[("host", "butler.lan"), ("origin", "https://butler.lan")]).await;
    assert_eq!(good.status, 200, "{good:?}");
    let bad = health.post(list, &[("origin", "https://butler.lan.evil.example")]).await;
    assert_eq!(bad.status, 403, "{bad:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_contradicting_session_in_the_address_is_refused() {
    let household = Household::new();
    let daemon = household.start().await;
    // An operator may correlate as they like; a body that is no JSON-RPC is a plain error.
    let health = daemon.mcp("health");
    let correlated = health.with_url(format!("{}?runtime_session_id=abc", health.url));
    assert_eq!(correlated.call("status", json!({})).await.status, 200);
    assert_eq!(health.with_url(health.url.replace("/mcp", "/sse")).call("status", json!({})).await.status, 404);
    let nonsense = health.post(json!("what"), &[]).await;
    assert!(nonsense.status >= 400 && nonsense.status < 500, "{nonsense:?}");
}
