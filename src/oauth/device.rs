//! Access by a short code that the person types elsewhere (RFC 8628): for machines without a browser.

use std::fmt;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::error::OauthError;
use super::grant::Failure;
use super::http;
use super::provider::Provider;
use super::tokens::{Tokens, seconds};
use base::Secret;

/// How long one waits between two questions if the provider does not say, and by how much more when it asks for that.
const INTERVAL: Duration = Duration::from_secs(5);
/// No provider makes people wait longer.
const LONGEST_INTERVAL: Duration = Duration::from_secs(300);
/// A code that a person types is shorter.
const LONGEST_CODE: usize = 64;
/// An address that a person opens is shorter.
const LONGEST_ADDRESS: usize = 500;

/// A device flow that was begun: what the person needs, and what asks for the outcome.
pub struct Device {
    provider: Provider,
    device_code: Secret<String>,
    user_code: String,
    verification_uri: String,
    complete: Option<String>,
    expires_in: Duration,
    interval: Duration,
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("host", &self.provider.host()).finish_non_exhaustive()
    }
}

/// What one question came to.
#[derive(Debug)]
pub enum Poll {
    Given(Tokens),
    /// The person did not decide yet; one asks again after this long.
    Wait(Duration),
}

impl Device {
    /// Asks the provider for a code.
    ///
    /// # Errors
    ///
    /// [`OauthError::Client`] also when the provider has no such flow.
    pub async fn begin(provider: &Provider) -> Result<Self, OauthError> {
        let Some(url) = &provider.about.device else {
            return Err(OauthError::client(&provider.host(), "it has no device flow; use the browser"));
        };
        let host = http::host(url);
        let scopes = provider.scopes().join(" ");
        let answer = provider.ask(url, &[("scope", &scopes)]).await.map_err(|failure| failure.at(&host))?;
        let answer = answer.json(&host)?;
        let wrong = |what: &str| OauthError::protocol(&host, format!("its answer holds no valid {what}"));
        let text = |name: &str, most: usize| {
            let plain =
                |text: &&str| (1..=most).contains(&text.len()) && text.bytes().all(|b| matches!(b, 0x20..=0x7e));
            answer.get(name).and_then(Value::as_str).filter(plain).map(str::to_owned)
        };
        // What the person opens is a page of the web, and not something else that a terminal or a chat makes a link of.
        let page = |name: &str| text(name, LONGEST_ADDRESS).filter(|url| http::check(url).is_ok());
        let interval = answer.get("interval").and_then(seconds).unwrap_or(INTERVAL);
        Ok(Self {
            device_code: text("device_code", 4096).map(Secret::new).ok_or_else(|| wrong("device_code"))?,
            user_code: text("user_code", LONGEST_CODE).ok_or_else(|| wrong("user_code"))?,
            // The second name is Google's.
            verification_uri: page("verification_uri")
                .or_else(|| page("verification_url"))
                .ok_or_else(|| wrong("verification_uri"))?,
            complete: page("verification_uri_complete"),
            expires_in: answer.get("expires_in").and_then(seconds).ok_or_else(|| wrong("expires_in"))?,
            interval: interval.clamp(Duration::from_secs(1), LONGEST_INTERVAL),
            provider: provider.clone(),
        })
    }

    /// What the person types. It is not for the log.
    pub fn user_code(&self) -> &str {
        &self.user_code
    }

    /// Where the person types it.
    pub fn verification_uri(&self) -> &str {
        &self.verification_uri
    }

    /// As [`Device::verification_uri`], with the code in it, for a QR code. Not every provider has it.
    pub fn verification_uri_complete(&self) -> Option<&str> {
        self.complete.as_deref()
    }

    /// For how long the code is good, from its beginning.
    pub fn expires_in(&self) -> Duration {
        self.expires_in
    }

    /// Asks once. Nobody asks more often than the last [`Poll::Wait`] says, and not before [`Device::interval`].
    pub async fn poll(&mut self) -> Result<Poll, OauthError> {
        let host = self.provider.host();
        let form = [
            ("grant_type", "urn:ietf:params:oauth:grant-type:device_code"),
            ("device_code", self.device_code.expose().as_str()),
        ];
        let after = match self.provider.ask(&self.provider.about.token, &form).await {
            Ok(answer) => return Ok(Poll::Given(Tokens::read(&self.provider, answer.json(&host)?, None)?)),
            Err(Failure::Named(named)) if named.name == "authorization_pending" => None,
            Err(Failure::Named(named)) if named.name == "slow_down" => {
                self.slow_down();
                None
            }
            // RFC 8628 3.5: a lost answer makes one ask less often.
            Err(failure) => match failure.at(&host) {
                OauthError::Later { after, .. } => {
                    self.slow_down();
                    after
                }
                error => return Err(error),
            },
        };
        Ok(Poll::Wait(self.interval.max(after.unwrap_or_default())))
    }

    /// How long one waits before the first question.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    fn slow_down(&mut self) {
        self.interval = (self.interval + INTERVAL).min(LONGEST_INTERVAL);
    }

    /// Asks until the person decided, as long as the code is good and no longer than `most`. A server that can't be reached
    /// for a while does not end it.
    ///
    /// # Errors
    ///
    /// [`OauthError::Refused`] and [`OauthError::Expired`] among the others.
    pub async fn wait(&mut self, most: Duration) -> Result<Tokens, OauthError> {
        self.wait_by(most, tokio::time::sleep).await
    }

    /// A question that was begun is never dropped: its answer may be the tokens.
    async fn wait_by(&mut self, most: Duration, sleep: impl AsyncFn(Duration)) -> Result<Tokens, OauthError> {
        let most = most.min(self.expires_in);
        let (begun, mut slept, mut next) = (Instant::now(), Duration::ZERO, self.interval);
        while begun.elapsed().max(slept) + next <= most {
            sleep(next).await;
            slept += next;
            match self.poll().await? {
                Poll::Given(tokens) => return Ok(tokens),
                Poll::Wait(after) => next = after,
            }
        }
        Err(OauthError::Expired { host: self.provider.host() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Reply, Server};
    use serde_json::json;
    use std::sync::Mutex;

    const MOST: Duration = Duration::from_secs(900);

    fn begun(base: &str) -> Value {
        json!({"device_code": "dev-1", "user_code": "ABCD-EFGH", "verification_uri": format!("{base}/device"),
            "expires_in": 600})
    }

    /// A flow in which the token endpoint answers so, one after the other; and the seconds that were waited before each.
    async fn flow(replies: Vec<Reply>, most: Duration) -> (Result<Tokens, OauthError>, Vec<u64>) {
        let server = Server::start(move |asked, base| match asked.path.as_str() {
            "/device" => Reply::json(200, &begun(base)),
            _ => {
                assert_eq!(asked.form["device_code"], "dev-1");
                replies[asked.nth - 1].clone()
            }
        });
        let server = server.await;
        let mut device = Device::begin(&server.provider()).await.unwrap();
        let shown = format!("{device:?}");
        assert!(!shown.contains("dev-1") && !shown.contains("ABCD"), "{shown}");
        let waited = Mutex::new(Vec::new());
        let tokens = device.wait_by(most, async |time: Duration| waited.lock().unwrap().push(time.as_secs())).await;
        (tokens, waited.into_inner().unwrap())
    }

    fn says(error: &str) -> Reply {
        Reply::json(400, &json!({"error": error}))
    }

    #[tokio::test]
    async fn one_asks_until_the_person_decided_and_slower_when_told() {
        let given = Reply::json(200, &json!({"access_token": "a", "refresh_token": "r", "token_type": "Bearer"}));
        let busy = Reply::raw("HTTP/1.1 503 Busy\r\nretry-after: 40\r\ncontent-length: 0\r\n\r\n");
        let pending = says("authorization_pending");
        let replies = vec![pending.clone(), says("slow_down"), pending.clone(), busy, pending, given];
        let (tokens, waited) = flow(replies, MOST).await;
        assert_eq!(tokens.unwrap().refresh.unwrap().expose(), "r");
        assert_eq!(waited, [5, 5, 10, 10, 40, 15]);
    }

    #[tokio::test]
    async fn each_end_is_told_apart() {
        assert!(matches!(flow(vec![says("access_denied")], MOST).await.0, Err(OauthError::Refused { .. })));
        assert!(matches!(flow(vec![says("expired_token")], MOST).await.0, Err(OauthError::Expired { .. })));
        assert!(matches!(flow(vec![says("invalid_grant")], MOST).await.0, Err(OauthError::Revoked { .. })));
        assert!(matches!(flow(vec![Reply::html(200)], MOST).await.0, Err(OauthError::Protocol { .. })));
        // Nobody decides: it ends with the code's life, and earlier if the caller has no more time.
        let (ended, waited) = flow(vec![says("authorization_pending"); 200], Duration::MAX).await;
        assert!(matches!(ended, Err(OauthError::Expired { .. })) && waited.iter().sum::<u64>() <= 600);
        let (ended, waited) = flow(vec![says("slow_down"); 9], Duration::from_secs(29)).await;
        assert!(matches!(ended, Err(OauthError::Expired { .. })));
        assert_eq!(waited, [5, 10]);
    }

    #[tokio::test]
    async fn a_bad_beginning_is_shown_to_nobody() {
        for (key, value) in [
            ("user_code", json!("AB\u{1b}[2JCD")),
            ("user_code", json!("x".repeat(LONGEST_CODE + 1))),
            ("verification_uri", json!("javascript:alert(1)")),
            ("verification_uri", json!("http://evil.example/device")),
            ("device_code", json!(null)),
            ("expires_in", json!("never")),
        ] {
            let server = Server::start(move |_, base| {
                let mut answer = begun(base);
                answer[key] = value.clone();
                Reply::json(200, &answer)
            });
            let error = Device::begin(&server.await.provider()).await.unwrap_err();
            assert_eq!(error.to_string(), format!("127.0.0.1: its answer holds no valid {key}"));
        }
        let google = Provider::google(crate::Client { id: "home".to_owned(), secret: None });
        assert!(matches!(Device::begin(&google).await, Err(OauthError::Client { .. })));
    }
}
