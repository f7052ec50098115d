//! One request and its answer: bounded in time and size, and never led elsewhere.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base::{Secret, body_within, http_client, no_answer, retry_after};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, IF_MATCH};
use reqwest::{Method, Response, StatusCode, Url};
use serde_json::Value;

use crate::error::{GoogleError, refusal};

/// An answer comes within this, all of it.
const PATIENCE: Duration = Duration::from_secs(60);
/// The largest answer that is read, in MiB.
const LARGEST: usize = 32;
/// What is read of the answer that goes with an error, in bytes.
const LARGEST_ERROR: usize = 64 * 1024;

/// Why there is no token to show.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TokenError {
    /// Only the owner can mend it; the sentence says how.
    #[error("{0}")]
    Owner(String),
    /// It passes by itself.
    #[error("{0}")]
    Later(String),
}

/// Where access tokens come from. Whoever implements it renews them.
#[async_trait]
pub trait AccessToken: Send + Sync {
    /// One that is good for the next minute.
    async fn token(&self) -> Result<Secret<String>, TokenError>;
    /// Google did not take this token. Whether another one may help.
    async fn was_refused(&self, token: &Secret<String>) -> bool;
}

/// A token that nobody renews.
#[async_trait]
impl AccessToken for Secret<String> {
    async fn token(&self) -> Result<Secret<String>, TokenError> {
        Ok(self.clone())
    }
    async fn was_refused(&self, _: &Secret<String>) -> bool {
        false
    }
}

/// What stands behind the question mark: names and values, as they are before they are written for a URL.
pub type Query<'a> = &'a [(&'a str, &'a str)];

/// One of Google's services, for one account. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    base: Url,
    host: String,
    tokens: Arc<dyn AccessToken>,
    http: reqwest::Client,
}

impl Client {
    /// Of the service at this origin, such as `https://www.googleapis.com` or `https://people.googleapis.com`. Plain HTTP only
    /// to this machine.
    ///
    /// # Errors
    ///
    /// [`GoogleError::Address`] if no token may go there.
    pub fn new(url: &str, tokens: Arc<dyn AccessToken>) -> Result<Self, GoogleError> {
        let base = check(url)?;
        let host = base.host_str().unwrap_or("the server").to_owned();
        let built = http_client(base.as_str()).timeout(PATIENCE).build();
        let http = built.map_err(|_| GoogleError::Address { why: "has no HTTP client" })?;
        Ok(Self { base, host, tokens, http })
    }

    /// Whether a service may be at this address.
    ///
    /// # Errors
    ///
    /// [`GoogleError::Address`] says what is wrong with it.
    pub fn check(url: &str) -> Result<(), GoogleError> {
        check(url).map(|_| ())
    }

    /// The server's name.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Makes one request. `path` is in its parts, which may hold any characters: `["calendar", "v3", "calendars", id]`. A
    /// token that is refused is renewed once: a request that was refused for it was not carried out. An answer without a body
    /// is `null`.
    ///
    /// # Errors
    ///
    /// The kinds of [`GoogleError`]. After [`GoogleError::Later`] nobody knows whether a change was made.
    pub async fn call(
        &self,
        method: Method,
        path: &[&str],
        query: Query<'_>,
        body: Option<&Value>,
        if_match: Option<&str>,
    ) -> Result<Value, GoogleError> {
        let at = self.address(path, query)?;
        let mut token = self.token().await?;
        for last in [false, true] {
            let request = self.request(&method, &at, &token, body, if_match)?;
            let response = self.http.execute(request).await.map_err(|e| self.of_transport(e))?;
            if response.status() == StatusCode::UNAUTHORIZED && !last && self.tokens.was_refused(&token).await {
                token = self.token().await?;
                continue;
            }
            return self.finish(at.path(), response, &token).await;
        }
        Err(GoogleError::Unauthorized { host: self.host.clone() })
    }

    async fn token(&self) -> Result<Secret<String>, GoogleError> {
        self.tokens.token().await.map_err(|e| match e {
            TokenError::Owner(why) => GoogleError::NoToken(why),
            TokenError::Later(why) => self.later(why, None),
        })
    }

    fn address(&self, path: &[&str], query: Query<'_>) -> Result<Url, GoogleError> {
        let mut at = self.base.clone();
        if path.is_empty() || path.iter().any(|part| matches!(*part, "" | "." | "..") || part.len() > 2048) {
            return Err(self.protocol("a request", "a part of its path can't be asked for"));
        }
        if let Ok(mut parts) = at.path_segments_mut() {
            parts.clear().extend(path);
        }
        if !query.is_empty() {
            at.query_pairs_mut().extend_pairs(query);
        }
        Ok(at)
    }

    fn request(
        &self,
        method: &Method,
        at: &Url,
        token: &Secret<String>,
        body: Option<&Value>,
        if_match: Option<&str>,
    ) -> Result<reqwest::Request, GoogleError> {
        let mut request = reqwest::Request::new(method.clone(), at.clone());
        let bearer = Secret::new(format!("Bearer {}", token.expose()));
        let unsendable = |what: &str| self.protocol(at.path(), format!("{what} can't be sent"));
        let mut proof = HeaderValue::from_str(bearer.expose()).map_err(|_| unsendable("the token that it gave"))?;
        proof.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, proof);
        if let Some(etag) = if_match {
            let etag = HeaderValue::from_str(etag).map_err(|_| unsendable("the version that it named"))?;
            request.headers_mut().insert(IF_MATCH, etag);
        }
        if let Some(body) = body {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            *request.body_mut() = Some(body.to_string().into());
        } else if *method != Method::GET && *method != Method::DELETE {
            // Google wants a length also where there is nothing.
            *request.body_mut() = Some(Vec::new().into());
        }
        Ok(request)
    }

    async fn finish(&self, path: &str, response: Response, token: &Secret<String>) -> Result<Value, GoogleError> {
        let (status, headers) = (response.status(), response.headers().clone());
        if status.is_redirection() {
            return Err(self.protocol(path, "it leads elsewhere, which is not followed"));
        }
        if !status.is_success() {
            // What can't be read of an error is missed by nobody; one that repeats the token is not repeated.
            let body = self.body(response, LARGEST_ERROR, path).await.unwrap_or_default();
            let holds = |token: &[u8]| !token.is_empty() && body.windows(token.len()).any(|part| part == token);
            let body = if holds(token.expose().as_bytes()) { Vec::new() } else { body };
            return Err(refusal((&self.host, path), status.as_u16(), retry_after(&headers), &body));
        }
        let body = self.body(response, LARGEST << 20, path).await?;
        if body.iter().all(u8::is_ascii_whitespace) {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&body).map_err(|_| self.protocol(path, "its answer is not JSON"))
    }

    async fn body(&self, response: Response, most: usize, path: &str) -> Result<Vec<u8>, GoogleError> {
        let body = body_within(response, most).await.map_err(|e| self.of_transport(e))?;
        let (host, path) = (self.host.clone(), path.to_owned());
        body.ok_or(GoogleError::TooLarge { host, path, limit: most >> 20 })
    }

    /// An answer that is not what it should be.
    pub fn protocol(&self, path: &str, why: impl Into<String>) -> GoogleError {
        GoogleError::Protocol { host: self.host.clone(), path: path.to_owned(), why: why.into() }
    }

    fn later(&self, why: String, after: Option<Duration>) -> GoogleError {
        GoogleError::Later { host: self.host.clone(), why, after }
    }

    fn of_transport(&self, e: reqwest::Error) -> GoogleError {
        self.later(no_answer(e, PATIENCE), None)
    }
}

/// Whether tokens may go to this URL, and it is an origin.
fn check(text: &str) -> Result<Url, GoogleError> {
    let bad = |why| GoogleError::Address { why };
    let url = base::url_for_secrets(text).map_err(bad)?;
    if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
        return Err(bad("has something behind its host"));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(url: &str) -> Result<Client, GoogleError> {
        Client::new(url, Arc::new(Secret::new("no-such-token".to_owned())))
    }

    #[test]
    fn tokens_go_nowhere_in_the_clear() {
        for url in ["https://www.googleapis.com", "https://people.googleapis.com/", "http://127.0.0.1:1"] {
            assert!(client(url).is_ok(), "{url}");
        }
        for url in ["http://www.googleapis.com", "https://a:secret@x", "https://x/y", "https://x/?q", "ftp://x", "no"] {
            let said = client(url).err().unwrap().to_string();
            assert!(said.contains("`url`") && !said.contains("secret"), "{url}: {said}");
        }
    }

    #[test]
    fn parts_of_a_path_stay_parts() {
        let client = client("http://127.0.0.1:1").unwrap();
        let at = |path: &[&str], query: Query<'_>| client.address(path, query).map(|at| at.to_string()).ok();
        let calendar = at(&["calendars", "a/b?c#d@group.calendar.google.com", "events"], &[("q", "a&b=c")]);
        let meant = "http://127.0.0.1:1/calendars/a%2Fb%3Fc%23d@group.calendar.google.com/events?q=a%26b%3Dc";
        assert_eq!(calendar.as_deref(), Some(meant));
        assert_eq!((at(&["a", ".."], &[]), at(&["a", ""], &[]), at(&[], &[])), (None, None, None));
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_tried_again() {
        let error = client("http://127.0.0.1:1").unwrap().call(Method::GET, &["x"], &[], None, None).await.unwrap_err();
        assert!(matches!(error, GoogleError::Later { after: None, .. }), "{error}");
        assert!(!error.to_string().contains("no-such-token"));
    }
}
