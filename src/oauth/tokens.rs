//! What a provider gives: tokens, and whose account they open.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::error::OauthError;
use super::provider::Provider;
use base::Secret;

/// Longer than any provider's.
const LONGEST_TOKEN: usize = 32 * 1024;
/// What a mail server takes (RFC 5321 4.5.3.1.3).
const LONGEST_ADDRESS: usize = 254;

/// What opens an account.
#[derive(Clone, Debug)]
pub struct Tokens {
    /// Printable ASCII.
    pub access: Secret<String>,
    /// What gets the next access token. After a refresh it is the one that counts from then on, new or not. `None`: the
    /// access ends with the access token.
    pub refresh: Option<Secret<String>>,
    /// For how long `access` is good, from now on. `None`: the provider does not say.
    pub expires_in: Option<Duration>,
    /// What was really given: people may give less than was asked for, and some providers write it in other words.
    pub scopes: Vec<String>,
    /// The account's address, if the provider says it and does not call it unproven.
    pub email: Option<String>,
}

impl Tokens {
    /// Reads a successful answer of the token endpoint (RFC 6749 5.1). `old` is the refresh token that was shown for it.
    pub(crate) fn read(
        provider: &Provider,
        mut answer: Map<String, Value>,
        old: Option<&Secret<String>>,
    ) -> Result<Self, OauthError> {
        let host = provider.host();
        let wrong = |what: &str| OauthError::protocol(&host, format!("its answer holds no valid {what}"));
        let mut token = |name: &str| match answer.remove(name) {
            Some(Value::String(token)) if is_token(&token) => Ok(Some(Secret::new(token))),
            None | Some(Value::Null) => Ok(None),
            Some(_) => Err(wrong(name)),
        };
        let access = token("access_token")?.ok_or_else(|| wrong("access_token"))?;
        let refresh = token("refresh_token")?.or_else(|| old.cloned());
        let id_token = token("id_token")?;
        if !answer.get("token_type").and_then(Value::as_str).is_some_and(|kind| kind.eq_ignore_ascii_case("bearer")) {
            return Err(wrong("token_type"));
        }
        let expires_in = match answer.get("expires_in") {
            None | Some(Value::Null) => None,
            Some(value) => Some(seconds(value).ok_or_else(|| wrong("expires_in"))?),
        };
        let scopes = match answer.get("scope").and_then(Value::as_str) {
            Some(given) => given.split_whitespace().map(str::to_owned).collect(),
            None => provider.scopes().to_vec(),
        };
        let email = match &id_token {
            Some(token) => {
                email(provider, token).map_err(|why| OauthError::protocol(&host, format!("its id_token {why}")))?
            }
            None => None,
        };
        Ok(Self { access, refresh, expires_in, scopes, email })
    }
}

/// RFC 6749 appendix A.12: nothing that could end a header or a line of a mail server's login.
fn is_token(text: &str) -> bool {
    (1..=LONGEST_TOKEN).contains(&text.len()) && text.bytes().all(|byte| matches!(byte, 0x20..=0x7e))
}

/// A number of seconds, which some servers write as a string.
pub(crate) fn seconds(value: &Value) -> Option<Duration> {
    let number = value.as_u64().or_else(|| value.as_str().and_then(|text| text.trim().parse().ok()));
    number.map(|seconds| Duration::from_secs(seconds.min(u32::MAX.into())))
}

/// The address in an ID token. It came from the token endpoint itself, so that TLS vouches for it instead of its signature
/// (OpenID Connect Core 3.1.3.7, item 6).
///
/// # Errors
///
/// With the reason, as the end of a sentence, when the token is for somebody else or by somebody else.
fn email(provider: &Provider, token: &Secret<String>) -> Result<Option<String>, &'static str> {
    let payload = token.expose().split('.').nth(1).ok_or("can't be read")?;
    let payload = Secret::new(URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).map_err(|_| "can't be read")?);
    let claims: Value = serde_json::from_slice(payload.expose()).map_err(|_| "can't be read")?;
    if !claims["iss"].as_str().is_some_and(|issuer| provider.is_issuer(issuer)) {
        return Err("is of another issuer");
    }
    let own = provider.about.client_id.as_str();
    let for_us = match &claims["aud"] {
        Value::String(client) => client == own,
        Value::Array(clients) => {
            clients.iter().any(|client| client == own) && (clients.len() == 1 || claims["azp"] == own)
        }
        _ => false,
    };
    if !for_us {
        return Err("is for another client");
    }
    if claims["email_verified"] == false || claims["email_verified"] == "false" {
        return Ok(None);
    }
    let said = claims["email"].as_str().map(str::trim).filter(|said| is_address(said));
    Ok(said.map(str::to_owned))
}

/// Enough to show it, and to compare it with what the owner wrote.
fn is_address(text: &str) -> bool {
    let odd = |c: char| c.is_whitespace() || c.is_control() || "<>\"(),:;\\".contains(c);
    let parts = text.rsplit_once('@');
    text.len() <= LONGEST_ADDRESS && !text.contains(odd) && parts.is_some_and(|(a, b)| !a.is_empty() && !b.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Client;
    use crate::testing::id_token;
    use serde_json::json;

    fn google() -> Provider {
        Provider::google(Client { id: "home".to_owned(), secret: None })
    }

    fn read(more: Value) -> Result<Tokens, OauthError> {
        let mut answer = json!({"access_token": "acc-1", "token_type": "Bearer"});
        for (key, value) in more.as_object().unwrap() {
            answer[key] = value.clone();
        }
        Tokens::read(&google(), answer.as_object().unwrap().clone(), Some(&Secret::new("old-1".to_owned())))
    }

    #[test]
    fn an_answer_is_read_as_servers_write_it() {
        let tokens = read(json!({"expires_in": "3599", "scope": "a  b", "token_type": "bearer"})).unwrap();
        assert_eq!((tokens.expires_in, tokens.scopes), (Some(Duration::from_secs(3599)), vec!["a".into(), "b".into()]));
        assert_eq!(tokens.refresh.unwrap().expose(), "old-1");
        let tokens = read(json!({"refresh_token": "new-1", "expires_in": u64::MAX})).unwrap();
        assert_eq!(tokens.refresh.as_ref().unwrap().expose(), "new-1");
        assert_eq!((&tokens.scopes[..], tokens.email.as_ref()), (google().scopes(), None));
        assert!(tokens.expires_in.is_some_and(|most| most <= Duration::from_secs(u32::MAX.into())));
        let shown = format!("{tokens:?}");
        assert!(!shown.contains("acc-1") && !shown.contains("new-1"), "{shown}");
    }

    #[test]
    fn what_could_do_harm_is_no_token() {
        for bad in [
            json!({"access_token": "a\u{1}\u{1}user=eve@example.org"}),
            json!({"access_token": ""}),
            json!({"access_token": 5}),
            json!({"access_token": null}),
            json!({"access_token": "x".repeat(LONGEST_TOKEN + 1)}),
            json!({"refresh_token": "sec-2\r\n"}),
            json!({"refresh_token": ["sec-2"]}),
            json!({"token_type": "mac"}),
            json!({"token_type": null}),
            json!({"expires_in": -1}),
            json!({"expires_in": "soon"}),
            json!({"id_token": "sec-3"}),
        ] {
            let error = read(bad.clone()).unwrap_err();
            assert!(matches!(error, OauthError::Protocol { .. }), "{bad}: {error}");
            assert!(!format!("{error:?}").contains("sec-"), "{error:?}");
        }
    }

    #[test]
    fn the_address_is_of_a_token_for_us() {
        let good = json!({"iss": "https://accounts.google.com", "aud": "home", "email": "ada@example.org"});
        let with = |key: &str, value: Value| {
            let mut claims = good.clone();
            claims[key] = value;
            read(json!({"id_token": id_token(&claims)})).map(|tokens| tokens.email)
        };
        let ada = Some("ada@example.org".to_owned());
        assert_eq!(with("email_verified", true.into()).unwrap(), ada);
        assert_eq!(with("aud", json!(["home"])).unwrap(), ada);
        assert_eq!(with("email_verified", false.into()).unwrap(), None);
        for odd in ["ada", "a b@example.org", "ada@example.org\u{1b}[2J", "<ada@example.org>", "@", ""] {
            assert_eq!(with("email", odd.into()).unwrap(), None, "{odd}");
        }
        for (key, value) in [
            ("iss", json!("https://evil.example")),
            ("iss", json!(null)),
            ("aud", json!("other")),
            ("aud", json!(["home", "other"])),
            ("aud", json!({"home": true})),
        ] {
            let error = with(key, value.clone()).unwrap_err().to_string();
            assert!(error.contains("id_token is"), "{key} {value}: {error}");
        }
    }
}
