//! A ChatGPT login: the `auth.json` that `codex login` writes, kept as a secret, in the place of a key.
//!
//! Only the gateway has it. Its access token lasts for days; a new one is fetched before a session whose time could
//! outlast it. The token for that is good for one use, so the household takes turns, and what came back is stored
//! before it is used.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::super::types::Login;
use access::credentials::{CredentialError, Credentials};
use base::redact::household;
use base::{Clock, Secret, TenantId, http_client, innermost, text};
use config::EndpointsConfig;

/// The secret that holds the file's text.
pub const NAME: &str = "CODEX_AUTH_JSON";

/// The public name of the program that the login was made with; tokens are renewed under the same.
const CLIENT: &str = "app_EMoamEEZ73f0CkXaXp7hrann";
/// A token that ends sooner is renewed first: no session lasts longer.
const AHEAD: Duration = Duration::from_secs(24 * 3600);
const PATIENCE: Duration = Duration::from_secs(30);

/// One at a time in the whole household.
static TURN: Mutex<()> = Mutex::const_new(());

/// Why a login can't be used.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    #[error(
        "{NAME} is not the auth.json of a ChatGPT login ({0}): run `butlerd secret set {NAME} < ~/.codex/auth.json`"
    )]
    File(&'static str),
    #[error(
        "the ChatGPT login could not be renewed: {0}; run `codex login`, then `butlerd secret set {NAME} < ~/.codex/auth.json`"
    )]
    Renewal(String),
    #[error(transparent)]
    Credentials(#[from] CredentialError),
}

/// The login of this file, renewed and stored first if its end is near.
pub async fn ready(
    file: &Secret<String>,
    credentials: &Credentials,
    endpoints: &EndpointsConfig,
    clock: &Clock,
) -> Result<Login, AccountError> {
    let first = parse(file)?;
    if !near_end(&first, clock) {
        return login(&first);
    }
    let _turn = TURN.lock().await;
    // Whoever had the turn before may have renewed it.
    let tenant = TenantId::owner();
    let stored = credentials.get(&tenant, NAME).await?.map(|(value, _)| value);
    let mut current = parse(stored.as_ref().unwrap_or(file))?;
    if near_end(&current, clock) {
        let answer = renew(&current, &endpoints.chatgpt_login).await?;
        for name in ["access_token", "refresh_token", "id_token"] {
            if answer[name].is_string() {
                current["tokens"][name] = answer[name].clone();
            }
        }
        current["last_refresh"] = json!(clock.now().to_string());
        credentials.set(&tenant, NAME, &Secret::new(current.to_string())).await?;
        tracing::info!("the ChatGPT login was renewed");
    }
    login(&current)
}

fn parse(file: &Secret<String>) -> Result<Value, AccountError> {
    let value: Value = serde_json::from_str(file.expose()).map_err(|_| AccountError::File("it is no JSON"))?;
    if value["tokens"]["access_token"].is_string() { Ok(value) } else { Err(AccountError::File("it has no tokens")) }
}

fn login(file: &Value) -> Result<Login, AccountError> {
    let tokens = &file["tokens"];
    let claim = |token: &Value| claims(token)?.pointer("/https:~1~1api.openai.com~1auth/chatgpt_account_id").cloned();
    let id = [tokens["account_id"].clone()]
        .into_iter()
        .chain(claim(&tokens["id_token"]))
        .chain(claim(&tokens["access_token"]));
    let id = id.into_iter().find_map(|id| id.as_str().map(str::to_owned));
    for part in ["access_token", "refresh_token", "id_token"] {
        household().hide_bytes(tokens[part].as_str().unwrap_or_default().as_bytes());
    }
    let token = tokens["access_token"].as_str().unwrap_or_default().to_owned();
    let account = id.ok_or(AccountError::File("it names no account"))?;
    Ok(Login::Account { token: Arc::new(Secret::new(token)), account })
}

/// The claims of a token. They are the login's own words to itself: nothing is allowed because of them.
fn claims(token: &Value) -> Option<Value> {
    let payload = token.as_str()?.split('.').nth(1)?;
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()
}

/// A token that does not say when it ends is taken for good; the upstream's 401 says otherwise.
fn near_end(file: &Value, clock: &Clock) -> bool {
    let end = claims(&file["tokens"]["access_token"]).and_then(|c| c["exp"].as_i64());
    let ahead = i64::try_from(AHEAD.as_secs()).unwrap_or(i64::MAX);
    end.is_some_and(|end| end <= clock.now().as_second().saturating_add(ahead))
}

async fn renew(file: &Value, server: &str) -> Result<Value, AccountError> {
    let failed = |why: String| AccountError::Renewal(text::truncate(&text::clean(&why), 300));
    let request = json!({"client_id": CLIENT, "grant_type": "refresh_token", "scope": "openid profile email",
        "refresh_token": file["tokens"]["refresh_token"]});
    let url = format!("{}/oauth/token", server.trim_end_matches('/'));
    let client = http_client(&url).timeout(PATIENCE).build().map_err(|e| failed(innermost(&e.without_url())))?;
    let answer = client.post(url).json(&request).send().await.map_err(|e| failed(innermost(&e.without_url())))?;
    let status = answer.status();
    let body: Value = answer.json().await.unwrap_or_default();
    if !status.is_success() || !body["access_token"].is_string() {
        // Not the body: it may quote what was sent.
        return Err(failed(format!("its server answered {}", status.as_u16())));
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(claims: Value) -> String {
        format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(claims.to_string()))
    }

    fn file(exp: i64) -> Secret<String> {
        let id = token(json!({"https://api.openai.com/auth": {"chatgpt_account_id": "acc-7"}}));
        let tokens = json!({"access_token": token(json!({"exp": exp})), "refresh_token": "r", "id_token": id});
        Secret::new(json!({"OPENAI_API_KEY": null, "tokens": tokens}).to_string())
    }

    #[test]
    fn a_login_is_read_with_its_account_and_its_end() {
        let clock = Clock::default();
        let now = clock.now().as_second();
        for (exp, near) in [(now + 10 * 86_400, false), (now + 3600, true), (now - 1, true)] {
            let file = parse(&file(exp)).unwrap();
            assert_eq!(near_end(&file, &clock), near, "{exp}");
            let Login::Account { token, account } = login(&file).unwrap() else { panic!("another login") };
            assert_eq!((account.as_str(), token.expose().starts_with("e30.")), ("acc-7", true));
        }
    }

    #[test]
    fn what_is_no_login_is_refused_with_what_to_do() {
        for bad in ["", "[]", "{}", r#"{"OPENAI_API_KEY":"sk-x"}"#, r#"{"tokens":{"access_token":7}}"#] {
            let said = parse(&Secret::new(bad.to_owned())).unwrap_err().to_string();
            assert!(said.contains("butlerd secret set CODEX_AUTH_JSON"), "{said}");
        }
        let nameless = json!({"tokens": {"access_token": "a.b.c"}});
        assert!(matches!(login(&nameless), Err(AccountError::File("it names no account"))));
    }
}
