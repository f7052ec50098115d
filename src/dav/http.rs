//! One request and its answer: bounded in time and size, and never led to another origin.

use std::time::Duration;

use base::{Secret, body_within, http_client, innermost, no_answer, retry_after};
use base64::Engine as _;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Method, StatusCode, Url};

use crate::address;
use crate::error::{DavError, plain};
use crate::xml;

/// An answer comes within this, all of it: a server may need long to list a large collection.
const PATIENCE: Duration = Duration::from_secs(60);
/// The largest answer that is read, in MiB.
pub(crate) const LARGEST: usize = 32;
/// What is read of the answer that goes with an error, in bytes.
const LARGEST_ERROR: usize = 64 * 1024;
/// Redirects that are followed for one request.
const MOST_REDIRECTS: usize = 5;

/// How the account proves who it is.
#[derive(Clone, Debug)]
pub enum Credentials {
    /// A user name and a password, which may be one for apps.
    Basic { user: String, password: Secret<String> },
    /// An access token of OAuth.
    Bearer(Secret<String>),
}

impl Credentials {
    fn header(&self) -> Option<HeaderValue> {
        let text = match self {
            Self::Basic { user, password } => {
                let both = Secret::new(format!("{user}:{}", password.expose()));
                format!("Basic {}", base64::prelude::BASE64_STANDARD.encode(both.expose()))
            }
            Self::Bearer(token) => format!("Bearer {}", token.expose()),
        };
        let mut value = HeaderValue::from_str(Secret::new(text).expose()).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    fn what(&self) -> &'static str {
        match self {
            Self::Basic { .. } => "the user name or the password",
            Self::Bearer(_) => "the access that was given",
        }
    }
}

/// What is asked for.
pub(crate) struct Ask<'a> {
    pub method: &'static str,
    pub path: &'a str,
    /// What it does, for people: "read", "write".
    pub doing: &'static str,
    pub headers: Vec<(HeaderName, String)>,
    pub body: Option<(&'static str, Vec<u8>)>,
}

impl<'a> Ask<'a> {
    pub fn new(method: &'static str, path: &'a str, doing: &'static str) -> Self {
        Self { method, path, doing, headers: Vec::new(), body: None }
    }

    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((HeaderName::from_static(name), value.into()));
        self
    }

    pub fn xml(mut self, document: String) -> Self {
        self.body = Some(("application/xml; charset=utf-8", document.into_bytes()));
        self
    }
}

/// An answer with a status of success.
pub(crate) struct Answer {
    /// Where it came from, behind all redirects.
    pub at: Url,
    pub body: Vec<u8>,
    pub etag: Option<String>,
}

/// One server with one account's credentials.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub base: Url,
    pub host: String,
    credentials: Credentials,
    client: reqwest::Client,
}

impl Server {
    pub fn new(url: &str, credentials: Credentials) -> Result<Self, DavError> {
        let base = address::check(url)?;
        let host = address::host(&base);
        let built = http_client(base.as_str()).timeout(PATIENCE).build();
        let client = built.map_err(|e| DavError::Protocol {
            host: host.clone(),
            path: base.path().to_owned(),
            why: format!("there is no HTTP client ({})", innermost(&e)),
        })?;
        Ok(Self { base, host, credentials, client })
    }

    /// Sends it, following redirects within the origin.
    pub async fn send(&self, ask: &Ask<'_>) -> Result<Answer, DavError> {
        let mut path = ask.path.to_owned();
        for _ in 0..=MOST_REDIRECTS {
            let mut at = self.base.clone();
            at.set_path(&path);
            let response = self.once(&at, ask).await?;
            let status = response.status();
            if !matches!(status.as_u16(), 301 | 302 | 307 | 308) {
                return self.finish(at, ask, response).await;
            }
            let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok()).unwrap_or_default();
            path = address::resolve(&at, to)?;
        }
        Err(self.protocol(ask.path, format!("it redirects more than {MOST_REDIRECTS} times")))
    }

    async fn once(&self, at: &Url, ask: &Ask<'_>) -> Result<reqwest::Response, DavError> {
        let method = Method::from_bytes(ask.method.as_bytes());
        let method = method.map_err(|_| self.protocol(ask.path, format!("{} is no method", ask.method)))?;
        let mut request = reqwest::Request::new(method, at.clone());
        let credentials = self
            .credentials
            .header()
            .ok_or_else(|| DavError::Unauthorized { host: self.host.clone(), what: self.credentials.what() })?;
        request.headers_mut().insert(AUTHORIZATION, credentials);
        for (name, value) in &ask.headers {
            let value = HeaderValue::from_str(value);
            let value = value.map_err(|_| self.protocol(ask.path, format!("its {name} can't be sent back")))?;
            request.headers_mut().insert(name, value);
        }
        if let Some((kind, body)) = &ask.body {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
            *request.body_mut() = Some(body.clone().into());
        }
        self.client.execute(request).await.map_err(|e| self.of_transport(e))
    }

    async fn finish(&self, at: Url, ask: &Ask<'_>, response: reqwest::Response) -> Result<Answer, DavError> {
        let (status, headers) = (response.status(), response.headers().clone());
        if !status.is_success() {
            // What can't be read of an error is missed by nobody.
            let body = self.body(response, LARGEST_ERROR, ask.path).await.unwrap_or_default();
            return Err(self.refusal(ask, status, &headers, &String::from_utf8_lossy(&body)));
        }
        let etag = headers.get(ETAG).and_then(|etag| etag.to_str().ok()).and_then(etag);
        let body = self.body(response, LARGEST << 20, ask.path).await?;
        Ok(Answer { at, body, etag })
    }

    async fn body(&self, response: reqwest::Response, most: usize, path: &str) -> Result<Vec<u8>, DavError> {
        let body = body_within(response, most).await.map_err(|e| self.of_transport(e))?;
        let (host, path) = (self.host.clone(), path.to_owned());
        body.ok_or(DavError::TooLarge { host, path, limit: most >> 20 })
    }

    fn refusal(&self, ask: &Ask<'_>, status: StatusCode, headers: &HeaderMap, body: &str) -> DavError {
        let (host, path, doing) = (self.host.clone(), ask.path.to_owned(), ask.doing);
        let conditions = xml::conditions(body);
        let unmet = |name: &str| conditions.iter().any(|condition| condition == name);
        let said = plain(&conditions.join(", "));
        let said = if said.is_empty() { said } else { format!(": {said}") };
        let code = status.as_u16();
        if unmet("valid-sync-token") {
            return DavError::TokenExpired { host, path };
        }
        if unmet("no-uid-conflict") {
            return DavError::SameUid { host, path };
        }
        match code {
            401 => DavError::Unauthorized { host, what: self.credentials.what() },
            403 if conditions.is_empty() || unmet("need-privileges") => DavError::Forbidden { host, path, doing, said },
            // What is gone for a report is the state that its token named.
            410 if ask.method == "REPORT" => DavError::TokenExpired { host, path },
            404 | 410 => DavError::Missing { host, path },
            412 => DavError::Changed { host, path },
            408 | 423 | 425 | 429 | 500 | 502..=506 | 508.. => {
                DavError::Later { host, why: format!("it can't answer now (HTTP {code})"), after: retry_after(headers) }
            }
            _ => DavError::Refused { host, path, doing, status: code, said },
        }
    }

    pub fn protocol(&self, path: &str, why: impl Into<String>) -> DavError {
        DavError::Protocol { host: self.host.clone(), path: path.to_owned(), why: why.into() }
    }

    fn of_transport(&self, e: reqwest::Error) -> DavError {
        DavError::Later { host: self.host.clone(), why: no_answer(e, PATIENCE), after: None }
    }
}

/// An etag as it is kept: without the mark that a compressing proxy puts on it, which would make `If-Match` fail forever.
pub(crate) fn etag(text: &str) -> Option<String> {
    let text = text.trim();
    let text = text.strip_prefix("W/").unwrap_or(text);
    (!text.is_empty() && text.len() <= 1024).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_means_something_to_callers() {
        let password = Secret::new("pw".to_owned());
        let server = Server::new("http://127.0.0.1:1/", Credentials::Basic { user: "ada".into(), password }).unwrap();
        let of = |status: u16, body: &str| {
            let status = StatusCode::from_u16(status).unwrap();
            server.refusal(&Ask::new("PUT", "/a/1.ics", "write"), status, &HeaderMap::new(), body)
        };
        let error = |name: &str| format!("<d:error xmlns:d=\"DAV:\"><d:{name}/></d:error>");
        assert!(matches!(of(401, ""), DavError::Unauthorized { .. }));
        assert!(matches!(of(403, "no"), DavError::Forbidden { .. }));
        assert!(matches!(of(403, &error("valid-sync-token")), DavError::TokenExpired { .. }));
        assert!(matches!(of(409, &error("valid-sync-token")), DavError::TokenExpired { .. }));
        assert!(matches!(of(409, &error("no-uid-conflict")), DavError::SameUid { .. }));
        assert!(matches!(of(403, &error("max-resource-size")), DavError::Refused { .. }));
        assert!(matches!((of(404, ""), of(410, "")), (DavError::Missing { .. }, DavError::Missing { .. })));
        assert!(matches!(of(412, ""), DavError::Changed { .. }));
        assert!(matches!((of(503, ""), of(429, "")), (DavError::Later { .. }, DavError::Later { .. })));
        assert!(matches!((of(507, ""), of(413, "")), (DavError::Refused { .. }, DavError::Refused { .. })));
        assert!(!format!("{server:?}").contains("pw"));
    }

    #[test]
    fn an_etag_loses_its_weakness() {
        assert_eq!(etag(" W/\"1\" ").as_deref(), Some("\"1\""));
        assert_eq!((etag(""), etag("\"a\"").as_deref()), (None, Some("\"a\"")));
    }
}
