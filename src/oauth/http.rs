//! One request and its answer: bounded in time and size, and never led elsewhere.

use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, DATE, HeaderMap, RETRY_AFTER};
use reqwest::{Method, Request, StatusCode, Url};

use super::error::{Named, OauthError};
use base::{LONGEST_WAIT, Secret, body_within, http_client, innermost, no_answer};

/// An answer comes within this, all of it.
const PATIENCE: Duration = Duration::from_secs(15);
/// The largest answer that is read, in bytes.
const LARGEST: usize = 256 * 1024;

/// What came back, where it is neither a redirect nor a failure that passes.
pub(crate) struct Answer {
    pub status: StatusCode,
    pub body: Vec<u8>,
}

/// The host that a URL names, for people.
pub(crate) fn host(url: &str) -> String {
    let host = Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned));
    host.unwrap_or_else(|| "the provider".to_owned())
}

/// As [`base::url_for_secrets`], of an endpoint.
///
/// # Errors
///
/// With the reason, as the end of a sentence that begins with the URL's purpose.
pub(crate) fn check(url: &str) -> Result<Url, &'static str> {
    let url = base::url_for_secrets(url)?;
    if url.fragment().is_some() { Err("has a fragment") } else { Ok(url) }
}

/// Asks for a document.
pub(crate) async fn get(url: &Url) -> Result<Answer, OauthError> {
    send(Request::new(Method::GET, url.clone())).await
}

/// Sends a form. `basic` is the value of the header `Authorization`.
pub(crate) async fn post(
    url: &str,
    form: &[(&str, &str)],
    basic: Option<&Secret<String>>,
) -> Result<Answer, OauthError> {
    let host = host(url);
    let url = check(url).map_err(|why| OauthError::client(&host, format!("its address {why}")))?;
    let mut request = Request::new(Method::POST, url);
    if let Some(basic) = basic.and_then(|basic| basic.expose().parse().ok()) {
        let mut basic: reqwest::header::HeaderValue = basic;
        basic.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, basic);
    }
    let kind = reqwest::header::HeaderValue::from_static("application/x-www-form-urlencoded");
    request.headers_mut().insert(CONTENT_TYPE, kind);
    *request.body_mut() = Some(encoded(form).into());
    send(request).await
}

/// `application/x-www-form-urlencoded`.
pub(crate) fn encoded(form: &[(&str, &str)]) -> String {
    // The library lends its writer of forms to queries only.
    let Ok(mut url) = Url::parse("http://form/") else { return String::new() };
    url.query_pairs_mut().extend_pairs(form);
    url.query().unwrap_or_default().to_owned()
}

async fn send(mut request: Request) -> Result<Answer, OauthError> {
    let at = request.url().as_str().to_owned();
    let host = host(&at);
    request.headers_mut().insert("accept", reqwest::header::HeaderValue::from_static("application/json"));
    let client = http_client(&at).timeout(PATIENCE).build();
    let client = client.map_err(|e| OauthError::protocol(&host, format!("no HTTP client: {}", innermost(&e))))?;
    let response = client.execute(request).await.map_err(|e| of_transport(&host, e))?;
    let status = response.status();
    // Later is later, whatever stands in the body.
    if status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429) {
        let why = format!("it can't answer now (HTTP {})", status.as_u16());
        return Err(OauthError::Later { host, why, after: retry_after(response.headers()) });
    }
    if status.is_redirection() {
        let why = format!("it redirects (HTTP {}), which is not followed", status.as_u16());
        return Err(OauthError::Protocol { host, why });
    }
    match body_within(response, LARGEST).await.map_err(|e| of_transport(&host, e))? {
        Some(body) => Ok(Answer { status, body }),
        None => Err(OauthError::protocol(&host, format!("its answer is larger than {} KiB", LARGEST / 1024))),
    }
}

impl Answer {
    /// The answer as an object of JSON.
    pub fn json(&self, host: &str) -> Result<serde_json::Map<String, serde_json::Value>, OauthError> {
        // What the reader says of a mistake may repeat a token.
        let why = || format!("its answer (HTTP {}) is not a JSON object", self.status.as_u16());
        serde_json::from_slice(&self.body).map_err(|_| OauthError::protocol(host, why()))
    }

    /// The error that it names, if it does; some servers do so with status 200.
    pub fn error(&self, secrets: &[&str]) -> Option<Named> {
        let body: serde_json::Value = serde_json::from_slice(&self.body).ok()?;
        let said = body["error_description"].as_str().unwrap_or_default();
        Some(Named::new(body["error"].as_str()?, said, secrets))
    }
}

fn of_transport(host: &str, e: reqwest::Error) -> OauthError {
    OauthError::later(host, no_answer(e, PATIENCE))
}

/// Seconds, or a date: by the server's own clock, which stands beside it.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let by_date = || {
        let moment = |name| Some(jiff::fmt::rfc2822::parse(headers.get(name)?.to_str().ok()?.trim()).ok()?.timestamp());
        let after = moment(RETRY_AFTER)?.duration_since(moment(DATE)?);
        Some(after.try_into().unwrap_or(Duration::ZERO).min(LONGEST_WAIT))
    };
    base::retry_after(headers).or_else(by_date)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_go_by_tls_or_stay_on_this_machine() {
        for good in ["https://id.example/token?p=1", "http://127.0.0.1:1/", "http://[::1]:2/", "http://localhost/"] {
            assert!(check(good).is_ok(), "{good}");
        }
        for bad in [
            "http://id.example/token",
            "http://127.0.0.1.id.example/",
            "https://ada:pw@id.example/",
            "https://id.example/#x",
            "ftp://127.0.0.1/",
            "file:///etc/passwd",
            "/token",
            "",
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
        assert_eq!(host("https://id.example:444/token?code=x"), "id.example");
    }

    #[test]
    fn a_form_holds_nothing_but_its_values() {
        assert_eq!(encoded(&[("a", "1&b=2"), ("c", "ä +/\n")]), "a=1%26b%3D2&c=%C3%A4+%2B%2F%0A");
    }

    #[test]
    fn waits_are_seconds_or_dates_and_end() {
        let of = |value: &str, date: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, value.parse().unwrap());
            headers.insert(DATE, date.parse().unwrap());
            retry_after(&headers).map(|after| after.as_secs())
        };
        let date = "Sun, 22 Nov 2026 03:00:00 GMT";
        assert_eq!(of("7", ""), Some(7));
        assert_eq!(of("Sun, 22 Nov 2026 03:01:00 GMT", date), Some(60));
        assert_eq!(of("Sun, 22 Nov 2026 02:00:00 GMT", date), Some(0));
        assert_eq!(of("4000000000", ""), Some(24 * 3600));
        assert_eq!((of("soon", date), of("-1", date), of("Sun, 22 Nov 2026 03:01:00 GMT", "")), (None, None, None));
    }
}
