//! One call of an HTTP tool: the request, the redirects within what the file allows, the answer within bounds.

use std::error::Error;
use std::fmt::Write;
use std::time::Duration;

use futures_util::StreamExt;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, LOCATION, RETRY_AFTER};
use http::{HeaderValue, Method, StatusCode};
use reqwest::{Client, Response, Url};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout_at};

use super::guard::NotAllowed;
use super::plan::Plan;
use super::template::encoded;
use base::{innermost, text};

/// An answer has at most so many bytes.
const MOST: usize = 4 << 20;
const REDIRECTS: usize = 5;
const TRIES: usize = 3;
/// What can be done about a certificate.
const TRUSTED: &str =
    "; the authorities that are trusted are the system's, or those of the file that SSL_CERT_FILE names";
const FIRST_PAUSE: Duration = Duration::from_millis(300);

/// A request, its places filled.
pub(super) struct Prepared {
    pub url: Url,
    pub headers: Vec<(http::HeaderName, HeaderValue)>,
    pub body: Option<Value>,
}

/// What came back.
pub(super) struct Answer {
    pub body: Vec<u8>,
    pub content_type: String,
}

/// Why nothing did.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SendError {
    /// It was not sent, or refused: a sentence.
    #[error("{0}")]
    Failed(String),
    /// It may have been done.
    #[error("{0}; whether it was done is unknown: look before you try again")]
    Unknown(String),
}

impl Plan {
    /// Asks, and again where that can do no harm. `again`: doing it twice is the same as once.
    pub(super) async fn send(&self, client: &Client, request: &Prepared, again: bool) -> Result<Answer, SendError> {
        let deadline = Instant::now() + self.timeout;
        let late = || {
            let late = format!("{} did not answer within {} s", self.host, self.timeout.as_secs_f32());
            if again { SendError::Failed(late) } else { SendError::Unknown(late) }
        };
        let mut pause = FIRST_PAUSE;
        for tries in 1.. {
            let once = timeout_at(deadline, self.once(client, request)).await.map_err(|_| late())?;
            let (error, wait) = match once {
                Ok(answer) => return Ok(answer),
                Err(Failure { harmless, wait, why, .. }) if (harmless || again && wait.is_some()) && tries < TRIES => {
                    (SendError::Failed(why), wait.unwrap_or_default().max(pause))
                }
                Err(Failure { harmless: false, lost: true, why, .. }) if !again => return Err(SendError::Unknown(why)),
                Err(Failure { why, .. }) => return Err(SendError::Failed(why)),
            };
            if Instant::now() + wait >= deadline {
                return Err(error);
            }
            sleep(wait).await;
            pause *= 3;
        }
        Err(late())
    }

    /// One request with its redirects.
    async fn once(&self, client: &Client, request: &Prepared) -> Result<Answer, Failure> {
        let (mut url, mut method, mut body) = (request.url.clone(), self.method.clone(), request.body.as_ref());
        let origin = request.url.origin();
        for hop in 0..=REDIRECTS {
            let mut asking = client.request(method.clone(), url.clone());
            for (name, value) in &request.headers {
                // What may hold a secret goes to nobody but whom the file gives it.
                if url.origin() == origin {
                    asking = asking.header(name, value);
                }
            }
            if let Some(body) = body {
                asking = self.with_body(asking, body);
            }
            let answer = asking.send().await.map_err(|e| self.failed(&url, &e, hop > 0))?;
            let status = answer.status();
            let location = answer.headers().get(LOCATION).filter(|_| status.is_redirection());
            let Some(location) = location.cloned() else { return self.read(&url, answer).await };
            let next = location.to_str().ok().and_then(|to| url.join(to).ok());
            let next = next.ok_or_else(|| Failure::plain(format!("{} redirects to nowhere", self.host)))?;
            let admitted = self.guard.admits(&next, Some(&url));
            admitted.map_err(|why| Failure::plain(format!("{} redirects elsewhere: {why}", self.host)))?;
            if status == StatusCode::SEE_OTHER || !matches!(status.as_u16(), 307 | 308) && method == Method::POST {
                (method, body) = (if method == Method::HEAD { method } else { Method::GET }, None);
            }
            // As with headers: it may hold a secret.
            if body.is_some() && next.origin() != origin {
                return Err(Failure::plain(format!("{} redirects what was sent to another host", self.host)));
            }
            url = next;
        }
        Err(Failure::plain(format!("{} redirects more than {REDIRECTS} times", self.host)))
    }

    fn with_body(&self, asking: reqwest::RequestBuilder, body: &Value) -> reqwest::RequestBuilder {
        match body {
            Value::Object(fields) if self.is_form => {
                let mut form = String::new();
                for (name, value) in fields {
                    let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    let join = if form.is_empty() { "" } else { "&" };
                    let _ = write!(form, "{join}{}={}", encoded(name), encoded(&value));
                }
                asking.body(form)
            }
            Value::String(text) => asking.body(text.clone()),
            body => {
                let typed = self.headers.iter().any(|(name, _)| *name == CONTENT_TYPE);
                let asking = if typed { asking } else { asking.header(CONTENT_TYPE, "application/json") };
                asking.body(body.to_string())
            }
        }
    }

    /// The body, as far as it may go.
    async fn read(&self, url: &Url, answer: Response) -> Result<Answer, Failure> {
        let (status, headers) = (answer.status(), answer.headers());
        let told = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).unwrap_or_default();
        let content_type = text::truncate(told(CONTENT_TYPE), 100);
        let busy = matches!(status.as_u16(), 429 | 502 | 503 | 504);
        let wait = busy.then(|| Duration::from_secs(told(RETRY_AFTER).parse().unwrap_or(0)));
        if !matches!(told(CONTENT_ENCODING), "" | "identity") {
            let encoding = text::truncate(told(CONTENT_ENCODING), 40);
            return Err(Failure::plain(format!("{} answered packed as {encoding}, which nobody asked for", self.host)));
        }
        let most = if status.is_success() { MOST } else { 64 << 10 };
        let mut body = Vec::new();
        let mut parts = answer.bytes_stream();
        while let Some(part) = parts.next().await {
            let part = part.map_err(|e| self.failed(url, &e, true))?;
            if body.len() + part.len() > most {
                let why = format!("{} answered with more than {} KiB", self.host, most >> 10);
                return Err(Failure { wait, lost: !status.is_client_error(), ..Failure::plain(why) });
            }
            body.extend_from_slice(&part);
        }
        if status.is_success() {
            return Ok(Answer { body, content_type });
        }
        let words = text::truncate(String::from_utf8_lossy(&body).trim(), 300);
        let words = if words.is_empty() { words } else { format!(": {words}") };
        let why = format!("{} answered {status}{words}{}", self.host, self.advice(status));
        // Who is at fault itself says nothing of what it did before.
        Err(Failure { wait, lost: !status.is_client_error(), ..Failure::plain(why) })
    }

    /// What can be done about a refusal.
    fn advice(&self, status: StatusCode) -> String {
        match (status.as_u16(), self.secrets.join(", ")) {
            (429, _) => "; it takes no more requests for now: wait before the next one".to_owned(),
            (401 | 403, secrets) if !secrets.is_empty() => {
                format!(
                    "; whether {secrets} still holds the owner can tell, and stores another with `butlerd secret set`"
                )
            }
            _ => String::new(),
        }
    }

    /// `sent`: somebody has got the request, and may have done what it asks for before redirecting it.
    fn failed(&self, url: &Url, e: &reqwest::Error, sent: bool) -> Failure {
        let host = url.host_str().unwrap_or(&self.host);
        let mut cause = e.source();
        while let Some(inner) = cause {
            if let Some(refused) = inner.downcast_ref::<NotAllowed>() {
                // It stays so.
                return Failure { lost: sent, ..Failure::plain(format!("{host} can't be asked: {refused}")) };
            }
            cause = inner.source();
        }
        // Without the address: secrets may stand in it.
        let why = e.source().map_or_else(|| e.to_string(), innermost);
        let hint = if ["UnknownIssuer", "CaUsedAsEndEntity"].iter().any(|e| why.contains(e)) { TRUSTED } else { "" };
        let why = format!("{host} can't be asked: {}{hint}", text::truncate(&why, 200));
        Failure { harmless: e.is_connect() && !sent, wait: Some(Duration::ZERO), lost: true, why }
    }
}

/// Why a try failed.
struct Failure {
    /// Nothing was sent.
    harmless: bool,
    /// It may be tried again after this; `None`: that makes no difference.
    wait: Option<Duration>,
    /// It was sent, and may have been done.
    lost: bool,
    why: String,
}

impl Failure {
    fn plain(why: String) -> Self {
        Self { harmless: false, wait: None, lost: true, why }
    }
}
