//! What is done with a grant: tokens for a code, new tokens for old ones, and its end.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::error::{Named, OauthError};
use super::http::{self, Answer};
use super::login::Code;
use super::provider::Provider;
use super::tokens::Tokens;
use base::Secret;

/// Why a request that a client signs gave nothing.
pub(crate) enum Failure {
    /// The server named an error.
    Named(Named),
    Other(OauthError),
}

impl Failure {
    pub fn at(self, host: &str) -> OauthError {
        match self {
            Self::Named(named) => named.at(host),
            Self::Other(error) => error,
        }
    }
}

impl Provider {
    /// Tokens for the code with which a browser came back (RFC 6749 4.1.3). A code is good once, also if this fails.
    ///
    /// # Errors
    ///
    /// [`OauthError::Revoked`] when the code is too old or was used.
    pub async fn exchange(&self, code: Code) -> Result<Tokens, OauthError> {
        let form = [
            ("grant_type", "authorization_code"),
            ("code", code.code.expose()),
            ("code_verifier", code.verifier.expose()),
            ("redirect_uri", &code.return_to),
        ];
        self.tokens(&form, None).await
    }

    /// New tokens for a refresh token (RFC 6749 6). Store those that come before they are used: a provider may have
    /// replaced the refresh token, and then ends the grant when it sees the old one again. So one grant is refreshed by one
    /// caller at a time.
    ///
    /// # Errors
    ///
    /// [`OauthError::Revoked`]: the person must give access again.
    pub async fn refresh(&self, refresh: &Secret<String>) -> Result<Tokens, OauthError> {
        let form = [("grant_type", "refresh_token"), ("refresh_token", refresh.expose().as_str())];
        self.tokens(&form, Some(refresh)).await
    }

    /// Gives a grant back (RFC 7009); `token` is its refresh token, or its access token where there is none. Also well when
    /// the provider does not know the token any more. `false`: the provider has no call for that, and the person takes the
    /// access away in the account's settings.
    ///
    /// # Errors
    ///
    /// Never [`OauthError::Revoked`].
    pub async fn revoke(&self, token: &Secret<String>) -> Result<bool, OauthError> {
        let Some(url) = &self.about.revocation else { return Ok(false) };
        match self.ask(url, &[("token", token.expose())]).await {
            Ok(_) => Ok(true),
            // Google's words.
            Err(Failure::Named(named)) if matches!(named.name.as_str(), "invalid_token" | "invalid_grant") => Ok(true),
            Err(failure) => Err(failure.at(&http::host(url))),
        }
    }

    async fn tokens(&self, form: &[(&str, &str)], old: Option<&Secret<String>>) -> Result<Tokens, OauthError> {
        let host = self.host();
        let answer = self.ask(&self.about.token, form).await.map_err(|failure| failure.at(&host))?;
        Tokens::read(self, answer.json(&host)?, old)
    }

    /// Sends a form as the client that this is, and gives a good answer.
    pub(crate) async fn ask(&self, url: &str, form: &[(&str, &str)]) -> Result<Answer, Failure> {
        let (id, mut form) = (self.about.client_id.as_str(), form.to_vec());
        let mut basic = None;
        match &self.secret {
            Some(secret) if self.about.basic => {
                // Encoded by itself each, so that a colon in the id is none between the two (RFC 6749 2.3.1).
                let part = |text: &str| http::encoded(&[("", text)]).trim_start_matches('=').to_owned();
                let both = STANDARD.encode(format!("{}:{}", part(id), part(secret.expose())));
                basic = Some(Secret::new(format!("Basic {both}")));
            }
            Some(secret) => form.extend([("client_id", id), ("client_secret", secret.expose())]),
            None => form.push(("client_id", id)),
        }
        let answer = http::post(url, &form, basic.as_ref()).await.map_err(Failure::Other)?;
        // A server may repeat what it does not like.
        let kept = ["grant_type", "client_id", "redirect_uri", "scope"];
        let sent = form.iter().filter(|(name, _)| !kept.contains(name)).map(|(_, value)| *value);
        let secrets: Vec<&str> = sent.chain(self.secret.as_ref().map(|secret| secret.expose().as_str())).collect();
        if let Some(named) = answer.error(&secrets) {
            return Err(Failure::Named(named));
        }
        if !answer.status.is_success() {
            let why = format!("it refuses without saying why (HTTP {})", answer.status.as_u16());
            return Err(Failure::Other(OauthError::protocol(&http::host(url), why)));
        }
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Reply, Server, nobody};
    use serde_json::json;
    use std::time::Duration;

    fn old() -> Secret<String> {
        Secret::new("refresh-of-old".to_owned())
    }

    /// What a refresh comes to when it is answered so.
    async fn refreshed(reply: Reply) -> Result<Tokens, OauthError> {
        let server = Server::start(move |_, _| reply.clone()).await;
        let result = server.provider().refresh(&old()).await;
        let said = format!("{result:?}{}", result.as_ref().err().map(ToString::to_string).unwrap_or_default());
        for secret in ["refresh-of", "access-of", "hush", "/token"] {
            assert!(!said.contains(secret), "{said}");
        }
        result
    }

    #[tokio::test]
    async fn a_refresh_token_stays_until_it_is_replaced() {
        let plain = json!({"access_token": "access-of-new", "token_type": "Bearer", "expires_in": 60});
        let tokens = refreshed(Reply::json(200, &plain)).await.unwrap();
        assert_eq!(tokens.refresh.unwrap().expose(), "refresh-of-old");
        let mut rotated = plain;
        rotated["refresh_token"] = "refresh-of-new".into();
        let tokens = refreshed(Reply::json(200, &rotated)).await.unwrap();
        assert_eq!(
            (tokens.refresh.unwrap().expose().as_str(), tokens.access.expose().as_str()),
            ("refresh-of-new", "access-of-new")
        );
    }

    #[tokio::test]
    async fn a_client_is_who_it_says_in_the_way_that_the_provider_takes() {
        let seen = Server::start(|_, _| Reply::json(400, &json!({"error": "invalid_client"}))).await;
        let mut provider = seen.provider();
        for (secret, basic) in [(None, true), (Some("hush: hush"), false), (Some("hush: hush"), true)] {
            provider.about.basic = basic;
            provider.about.client_id = "a:b".to_owned();
            provider.secret = secret.map(|secret| Secret::new(secret.to_owned()));
            assert!(matches!(provider.refresh(&old()).await, Err(OauthError::Client { .. })));
        }
        let asked = seen.asked();
        let form = |at: usize, name: &str| asked[at].form.get(name).cloned();
        assert_eq!((form(0, "client_id"), form(0, "client_secret")), (Some("a:b".into()), None));
        assert_eq!((form(1, "client_id"), form(1, "client_secret")), (Some("a:b".into()), Some("hush: hush".into())));
        assert_eq!((form(2, "client_id"), form(2, "client_secret")), (None, None));
        assert_eq!(asked[2].authorization, format!("Basic {}", STANDARD.encode("a%3Ab:hush%3A+hush")));
    }

    #[tokio::test]
    async fn failures_are_told_apart() {
        let named = |status, error: &str| Reply::json(status, &json!({"error": error, "error_description": "why"}));
        let revoked = refreshed(named(400, "invalid_grant")).await.unwrap_err();
        let want =
            "127.0.0.1 does not accept the access that was given (invalid_grant: why); connect the account again";
        assert_eq!(revoked.to_string(), want);
        assert!(matches!(revoked, OauthError::Revoked { .. }));
        // Some servers say it with a good status.
        assert!(matches!(refreshed(named(200, "invalid_grant")).await.unwrap_err(), OauthError::Revoked { .. }));
        assert!(matches!(refreshed(named(401, "invalid_client")).await.unwrap_err(), OauthError::Client { .. }));
        // A server that is broken does not know what it says: nobody has to connect again because of that.
        let broken = refreshed(named(500, "invalid_grant")).await.unwrap_err();
        assert!(matches!(broken, OauthError::Later { after: None, .. }), "{broken}");
        let busy = Reply::raw("HTTP/1.1 429 Slow\r\nretry-after: 7\r\ncontent-length: 0\r\n\r\n");
        let after =
            |error| matches!(error, OauthError::Later { after: Some(after), .. } if after == Duration::from_secs(7));
        assert!(after(refreshed(busy).await.unwrap_err()));
        let mut provider = Server::start(|_, _| Reply::Endless).await.provider();
        provider.about.token = nobody().await;
        let gone = provider.refresh(&old()).await.unwrap_err();
        assert!(matches!(&gone, OauthError::Later { why, .. } if why.contains("no connection (")), "{gone}");
    }

    #[tokio::test]
    async fn what_is_no_answer_of_a_provider_is_told_and_goes_no_further() {
        let echo = format!("\u{1b}[2J\r\nno {} here\u{202e} {}", old().expose(), "x".repeat(9000));
        let said = refreshed(Reply::json(400, &json!({"error": "what", "error_description": echo}))).await.unwrap_err();
        let OauthError::Protocol { why, .. } = &said else { panic!("{said}") };
        assert!(why.starts_with("it refuses (what: [2Jno [hidden] here xxx") && why.len() < 250, "{why}");
        assert!(!why.contains(char::is_control), "{why:?}");
        let protocol = |error: OauthError| matches!(error, OauthError::Protocol { .. });
        let html = refreshed(Reply::html(200)).await.unwrap_err();
        assert_eq!(html.to_string(), "127.0.0.1: its answer (HTTP 200) is not a JSON object");
        assert!(protocol(refreshed(Reply::html(403)).await.unwrap_err()));
        assert!(protocol(refreshed(Reply::json(200, &json!("access-of-new"))).await.unwrap_err()));
        assert!(protocol(refreshed(Reply::json(200, &json!({"access_token": ["access-of-new"]}))).await.unwrap_err()));
        let endless = refreshed(Reply::Endless).await.unwrap_err();
        assert_eq!(endless.to_string(), "127.0.0.1: its answer is larger than 256 KiB");
        let moved = Reply::raw("HTTP/1.1 307 Away\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n");
        assert!(protocol(refreshed(moved).await.unwrap_err()));
        let cut = Reply::raw("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"access_token\": \"access-of-");
        assert!(matches!(refreshed(cut).await.unwrap_err(), OauthError::Later { .. }));
        let deep = Reply::raw(&format!("HTTP/1.1 200 OK\r\n\r\n{}", "[".repeat(200_000)));
        assert!(protocol(refreshed(deep).await.unwrap_err()));
    }

    #[tokio::test]
    async fn a_server_that_was_busy_is_asked_again_with_the_same_token() {
        let server = Server::start(|asked, _| match asked.nth {
            0 => Reply::json(503, &json!({})),
            _ => Reply::json(200, &json!({"access_token": "a", "token_type": "Bearer"})),
        });
        let provider = server.await.provider();
        assert!(matches!(provider.refresh(&old()).await, Err(OauthError::Later { .. })));
        assert_eq!(provider.refresh(&old()).await.unwrap().access.expose(), "a");
    }

    #[tokio::test]
    async fn a_grant_is_given_back() {
        for (status, body, good) in [
            (200, json!(null), true),
            (400, json!({"error": "invalid_token"}), true),
            (400, json!({"error": "unsupported_token_type"}), false),
            (503, json!({}), false),
        ] {
            let server = Server::start(move |_, _| Reply::json(status, &body)).await;
            let revoked = server.provider().revoke(&old()).await;
            assert_eq!(revoked.is_ok_and(|done| done), good, "{status}");
            assert_eq!(server.asked()[0].form["token"], "refresh-of-old");
        }
        let mut provider = Server::start(|_, _| Reply::Endless).await.provider();
        provider.about.revocation = None;
        assert_eq!(provider.revoke(&old()).await, Ok(false));
    }
}
