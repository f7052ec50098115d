//! Why a request was not done, as RFC 9457 has it: for programs a status and a name, for people a sentence.

use access::Refusal;
use admin::Failure;
use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full};
use mcp::Body;
use schemars::JsonSchema;
use serde::Serialize;

/// What is said of it.
pub(crate) const MEDIA_TYPE: &str = "application/problem+json";
/// When to come again where something is short of something, in seconds.
const AGAIN: u64 = 5;

/// A problem, as RFC 9457 has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Problem {
    /// `about:blank`: the title is the status's own.
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    /// The status of HTTP.
    status: u16,
    /// What happened and what to do, in a sentence.
    detail: String,
    /// Its stable name, for programs.
    code: String,
    /// The methods that the path has, where it lacks the one of the request.
    #[serde(skip)]
    allowed: Option<String>,
}

impl Problem {
    pub fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Self {
        Self {
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or("Unknown"),
            status: status.as_u16(),
            detail: detail.into(),
            code: code.to_owned(),
            allowed: None,
        }
    }

    /// The path does not have this method.
    pub fn other_method(allowed: impl Into<String>) -> Self {
        let allowed = allowed.into();
        let detail = format!("Only {allowed} is answered here.");
        let problem = Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail);
        Self { allowed: Some(allowed), ..problem }
    }

    /// What came in is not as the document has it.
    pub fn malformed(code: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, detail)
    }

    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The same, if its status is one of these. Else something here is wrong, which the log has.
    pub fn within(self, documented: &[StatusCode]) -> Self {
        if documented.contains(&self.status()) {
            return self;
        }
        tracing::error!(status = self.status, code = %self.code, detail = %self.detail, "a status that the API does not document");
        let detail = "The daemon could not say what happened; its log has it.";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
    }

    /// The answer.
    pub fn response(&self) -> Response<Body> {
        let text = serde_json::to_vec(self).unwrap_or_default();
        let mut response = Response::new(Full::new(Bytes::from(text)).boxed_unsync());
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        match self.status() {
            StatusCode::UNAUTHORIZED => drop(headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                headers.insert(RETRY_AFTER, HeaderValue::from(AGAIN));
            }
            _ => {}
        }
        if let Some(allowed) = self.allowed.as_deref().and_then(|allowed| HeaderValue::from_str(allowed).ok()) {
            headers.insert(ALLOW, allowed);
        }
        response
    }
}

impl From<&Refusal> for Problem {
    fn from(refusal: &Refusal) -> Self {
        Self::new(refusal.status, refusal.code, refusal.message)
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        let status = match failure.code.as_str() {
            "unauthorized" => StatusCode::UNAUTHORIZED,
            "forbidden" => StatusCode::FORBIDDEN,
            "not_found" | "unknown_butler" | "unknown_tool" => StatusCode::NOT_FOUND,
            code if code.starts_with("invalid_") => StatusCode::UNPROCESSABLE_ENTITY,
            "too_large" => StatusCode::PAYLOAD_TOO_LARGE,
            "unavailable"
            | "butler_unavailable"
            | "database_unavailable"
            | "stopping"
            | "timeout"
            | "draining"
            | "cancelled" => StatusCode::SERVICE_UNAVAILABLE,
            "internal" | "tool_failed" => StatusCode::INTERNAL_SERVER_ERROR,
            // It can't be done as things stand.
            _ => StatusCode::CONFLICT,
        };
        Self::new(status, &failure.code, failure.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_has_the_status_of_its_kind() {
        for (code, status) in [
            ("invalid_rule", 422),
            ("invalid_cursor", 422),
            ("too_large", 413),
            ("tool_failed", 500),
            ("cancelled", 503),
            ("unknown_butler", 404),
            ("changed", 409),
        ] {
            assert_eq!(Problem::from(Failure::new(code, "x")).status().as_u16(), status, "{code}");
        }
    }

    #[test]
    fn a_status_that_nobody_documented_is_not_answered() {
        let problem = Problem::from(Failure::new("not_now", "It is over."));
        assert_eq!(problem.status(), StatusCode::CONFLICT);
        assert_eq!(problem.clone().within(&[StatusCode::CONFLICT]), problem);
        let hidden = problem.within(&[StatusCode::OK]);
        assert_eq!((hidden.status, hidden.code.as_str()), (500, "internal"));
    }
}
