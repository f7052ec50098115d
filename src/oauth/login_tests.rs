//! Browsers that come back, and what else comes to the port.

use super::*;
use crate::testing::{Reply, Server, get, id_token, parameters, send};
use serde_json::json;
use tokio::io::AsyncReadExt;

const MOST: Duration = Duration::from_secs(60);

/// A provider that gives tokens for the code `code-1` to whoever knows the verifier of this challenge.
async fn provider(challenged: std::sync::Arc<std::sync::Mutex<String>>) -> Server {
    Server::start(move |asked, base| {
        let verifier = Secret::new(asked.form["code_verifier"].clone());
        let good = asked.form["code"] == "code-1" && challenge(&verifier) == *challenged.lock().unwrap();
        let id_token = id_token(&json!({"iss": base, "aud": "home", "email": "ada@example.org"}));
        match good {
            true => Reply::json(200, &json!({"access_token": "acc-1", "token_type": "Bearer", "id_token": id_token})),
            false => Reply::json(400, &json!({"error": "invalid_grant"})),
        }
    })
    .await
}

async fn begin(server: &Server) -> (Login, String) {
    let login = Login::begin(&server.provider()).await.unwrap();
    let state = parameters(login.url())["state"].clone();
    (login, state)
}

/// Who waits does so in a task.
fn _waits_in_a_task(login: &'static Login, device: &'static mut crate::Device) -> [Box<dyn Send>; 2] {
    [Box::new(login.wait(MOST)), Box::new(device.wait(MOST))]
}

#[test]
fn the_challenge_is_that_of_the_standard() {
    let verifier = Secret::new("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned());
    assert_eq!(challenge(&verifier), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    let (one, other) = (random().unwrap(), random().unwrap());
    assert!(one.expose().len() == 43 && one.expose() != other.expose());
}

#[tokio::test]
async fn a_browser_that_comes_back_ends_with_tokens() {
    let challenged = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let server = provider(challenged.clone()).await;
    let (login, state) = begin(&server).await;
    let asked = parameters(login.url());
    *challenged.lock().unwrap() = asked["code_challenge"].clone();
    let want = [
        ("response_type", "code"),
        ("client_id", "home"),
        ("scope", "mail openid"),
        ("hint", "a b"),
        ("code_challenge_method", "S256"),
        ("redirect_uri", &login.return_to),
    ];
    want.iter().for_each(|(name, value)| assert_eq!(asked[*name], *value));
    let at = login.return_to.clone();
    let browser = async {
        // A connection on which nothing comes, and one that sends no end of a line.
        let silent = tokio::net::TcpStream::connect(at[7..].trim_end_matches('/')).await.unwrap();
        let _endless = send(&at, &format!("GET /?{}", "x".repeat(70_000))).await;
        assert!(get(&at, "/favicon.ico").await.starts_with("HTTP/1.1 404 "));
        for wrong in ["/?code=code-2&state=", "/?code=code-2", "/?error=access_denied&state=x", "/?state=%00", "/"] {
            let page = get(&at, wrong).await;
            assert!(page.starts_with("HTTP/1.1 40") && !page.contains("code-2"), "{page}");
        }
        for post in ["POST", "HEAD", "OPTIONS"] {
            let answer = send(&at, &format!("{post} /?code=code-2&state={state} HTTP/1.1\r\n\r\n")).await;
            assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
        }
        let page = get(&at, &format!("/?code=code-1&state={state}&scope=mail")).await;
        assert!(page.starts_with("HTTP/1.1 200 ") && page.contains("You can close this page."), "{page}");
        drop(silent);
    };
    let (code, ()) = tokio::join!(login.wait(MOST), browser);
    let code = code.unwrap();
    let shown = format!("{login:?} {code:?}");
    for secret in ["code-1", &state, code.verifier.expose(), "hush"] {
        assert!(!shown.contains(secret), "{shown}");
    }
    let tokens = server.provider().exchange(code).await.unwrap();
    assert_eq!(tokens.email.as_deref(), Some("ada@example.org"));
    // There is one code: another with the same state is nobody's.
    let late = login.take_pasted(&format!("{at}?code=code-2&state={state}")).unwrap_err();
    assert_eq!(late.to_string(), "127.0.0.1: this address was used already");
}

#[tokio::test]
async fn a_browser_is_understood_byte_by_byte() {
    let server = provider(std::sync::Arc::default()).await;
    let (login, state) = begin(&server).await;
    let at = login.return_to.clone();
    let browser = async {
        let mut stream = tokio::net::TcpStream::connect(at[7..].trim_end_matches('/')).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let request = format!("GET /?state={state}&code=code-1 HTTP/1.1\r\nhost: here\r\n\r\n");
        for byte in request.as_bytes() {
            tokio::io::AsyncWriteExt::write_all(&mut stream, &[*byte]).await.unwrap();
            tokio::task::yield_now().await;
        }
        let mut page = String::new();
        stream.read_to_string(&mut page).await.unwrap();
        assert!(page.starts_with("HTTP/1.1 200 "), "{page}");
    };
    let (code, ()) = tokio::join!(login.wait(MOST), browser);
    // The provider knows another challenge.
    let error = server.provider().exchange(code.unwrap()).await.unwrap_err();
    assert!(matches!(error, OauthError::Revoked { .. }), "{error}");
}

#[tokio::test]
async fn a_person_may_refuse_or_never_come() {
    let server = provider(std::sync::Arc::default()).await;
    let (login, state) = begin(&server).await;
    let at = login.return_to.clone();
    let path = format!("/?error=access_denied&state={state}");
    let (refused, page) = tokio::join!(login.wait(MOST), get(&at, &path));
    assert!(matches!(refused, Err(OauthError::Refused { .. })));
    assert!(page.contains("not connected"), "{page}");
    let (login, _) = begin(&server).await;
    assert!(matches!(login.wait(Duration::ZERO).await, Err(OauthError::Expired { .. })));
}

#[tokio::test]
async fn an_address_is_pasted_by_hand() {
    let server = provider(std::sync::Arc::default()).await;
    let (login, state) = begin(&server).await;
    let link = login.url().to_owned();
    for (wrong, why) in [
        (link.as_str(), "this is the link to open"),
        ("", "not the address at which"),
        ("http://127.0.0.1:1/?code=code-1&state=x", "another attempt"),
        ("code-1", "not the address at which"),
        (&format!("?code=a&state={state}&state={state}"), "not the address at which"),
        (&format!("?code={}&state={state}", "a".repeat(LONGEST_PASTE)), "not the address at which"),
    ] {
        let error = login.take_pasted(wrong).unwrap_err().to_string();
        assert!(error.contains(why) && !error.contains("code-1") && !error.contains(&state), "{error}");
    }
    let (half, other) = state.split_at(20);
    let code = login.take_pasted(&format!(" <http://127.0.0.1:1/?code=code%2D1&state={half}\n  {other}#x>\n")).unwrap();
    assert_eq!((code.code.expose().as_str(), code.return_to), ("code-1", login.return_to.clone()));
}

#[tokio::test]
async fn what_a_provider_lets_the_browser_say_is_read_with_care() {
    let server = provider(std::sync::Arc::default()).await;
    let of = async |query: &str, tells_issuer: bool| {
        let mut provider = server.provider();
        provider.about.tells_issuer = tells_issuer;
        let login = Login::begin(&provider).await.unwrap();
        login.take_pasted(&format!("?state={}&{query}", login.state.expose()))
    };
    let own = format!("code=code-1&iss={}", server.base);
    assert!(of(&own, true).await.is_ok() && of(&own, false).await.is_ok());
    for (query, tells_issuer) in [
        ("code=code-1", true),
        ("code=code-1&iss=https://evil.example", true),
        ("code=code-1&iss=https://evil.example", false),
        ("code=code-1&code=code-2", false),
        ("code=code-1&error=access_denied", false),
        ("code=", false),
        ("x=y", false),
    ] {
        let error = of(query, tells_issuer).await.unwrap_err();
        assert!(matches!(error, OauthError::Protocol { .. }) && !error.to_string().contains("code-"), "{error}");
    }
    let error = of("error=invalid_scope&error_description=%1B%5B2Jno%0Asuch", false).await.unwrap_err();
    assert!(matches!(&error, OauthError::Client { said, .. } if said == "invalid_scope: [2Jnosuch"), "{error:?}");
    let error = of("error=temporarily_unavailable", false).await.unwrap_err();
    assert!(matches!(error, OauthError::Later { .. }), "{error}");
}
