//! Why Google did not do what it was asked, in as many kinds as callers must tell apart.

use std::time::Duration;

use base::text::plain;
use serde_json::Value;

/// What is kept of Google's own words, in characters.
const MOST_SAID: usize = 200;

/// Why a request came to nothing. `host` is the server's name, `path` what was asked for. Nothing here holds a token, and
/// what Google said is cut and cleaned.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GoogleError {
    /// The address in the settings can't be used. It is not repeated: a mistyped one may hold a password.
    #[error("the address in the settings {why}; leave `url` out to reach Google itself")]
    Address { why: &'static str },
    /// There is no token, and only the owner can mend that; the sentence says how.
    #[error("{0}")]
    NoToken(String),
    /// 401, also with a renewed token.
    #[error("{host} does not accept the access that was given")]
    Unauthorized { host: String },
    /// 403: the account may, but the access that was given does not reach so far.
    #[error("the access that was given to {host} does not include {path}")]
    NotGranted { host: String, path: String },
    /// 403.
    #[error("{host} does not let this account reach {path}{said}; ask its owner for the right, or leave it out")]
    Forbidden { host: String, path: String, said: String },
    /// 404.
    #[error("{host} has nothing at {path}; look there whether it was deleted")]
    Missing { host: String, path: String },
    /// 410: what is named was deleted, or the sync token is too old and all is to be listed again.
    #[error("{host} does not know any more what was asked of {path}; list all of it again")]
    Gone { host: String, path: String },
    /// 412, or People's failed precondition: it was changed since it was read.
    #[error("{path} at {host} was changed by somebody else meanwhile; sync again")]
    Changed { host: String, path: String },
    /// 409.
    #[error("{host} has something of this name at {path} already; sync again")]
    Exists { host: String, path: String },
    /// It passes by itself: no network, too many requests, a server that is broken, no token yet. A request that changes
    /// something may have been carried out. After `after`, if Google said so.
    #[error("{host}: {why}")]
    Later { host: String, why: String, after: Option<Duration> },
    /// Google refuses this very request, and will again.
    #[error("{host} refuses {path} (HTTP {status}{said}); change what was to be written there")]
    Refused { host: String, path: String, status: u16, said: String },
    /// The answer is larger than what is read.
    #[error("{host} answers with more than {limit} MiB to {path}; delete what is large there")]
    TooLarge { host: String, path: String, limit: usize },
    /// The other side does not answer as Google does.
    #[error("{host} does not answer {path} as Google does: {why}; check `url`")]
    Protocol { host: String, path: String, why: String },
}

/// What the body of an error says.
#[derive(Default)]
pub(crate) struct Said {
    /// Its reasons and its status, of both of Google's forms.
    reasons: Vec<String>,
    message: String,
}

impl Said {
    pub fn read(body: &[u8]) -> Self {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let error = &body["error"];
        let listed = |list: &'static str| error[list].as_array().into_iter().flatten().map(|one| &one["reason"]);
        let reasons = listed("errors").chain(listed("details")).chain([&error["status"]]);
        let reasons = reasons.filter_map(Value::as_str).map(ToOwned::to_owned).collect();
        Self { reasons, message: plain(error["message"].as_str().unwrap_or_default(), MOST_SAID) }
    }

    fn any(&self, of: &[&str]) -> bool {
        self.reasons.iter().any(|reason| of.contains(&reason.as_str()))
    }
}

/// Too much was asked at once, or in a day: it passes.
const LIMITS: [&str; 7] = [
    "rateLimitExceeded",
    "userRateLimitExceeded",
    "quotaExceeded",
    "dailyLimitExceeded",
    "calendarUsageLimitsExceeded",
    "RATE_LIMIT_EXCEEDED",
    "RESOURCE_EXHAUSTED",
];

/// What an answer that is no success means.
pub(crate) fn refusal((host, path): (&str, &str), status: u16, after: Option<Duration>, body: &[u8]) -> GoogleError {
    let said = Said::read(body);
    let (host, path) = (host.to_owned(), path.to_owned());
    let words = if said.message.is_empty() { String::new() } else { format!(": {}", said.message) };
    let later = |why: String| GoogleError::Later { host: host.clone(), why, after };
    match status {
        401 => GoogleError::Unauthorized { host },
        403 | 429 if status == 429 || said.any(&LIMITS) => later(format!("it was asked too often (HTTP {status})")),
        403 if said.any(&["insufficientPermissions", "ACCESS_TOKEN_SCOPE_INSUFFICIENT"]) => {
            GoogleError::NotGranted { host, path }
        }
        403 => GoogleError::Forbidden { host, path, said: words },
        404 => GoogleError::Missing { host, path },
        410 => GoogleError::Gone { host, path },
        400 if said.any(&["EXPIRED_SYNC_TOKEN"]) => GoogleError::Gone { host, path },
        412 => GoogleError::Changed { host, path },
        400 if said.any(&["FAILED_PRECONDITION", "failedPrecondition"]) => GoogleError::Changed { host, path },
        // Two of our own requests at once, not two things of one name.
        409 if said.any(&["ABORTED", "conflict"]) => later("it is busy with another change (HTTP 409)".to_owned()),
        409 => GoogleError::Exists { host, path },
        408 | 500.. => later(format!("it can't answer now (HTTP {status})")),
        _ => GoogleError::Refused { host, path, status, said: words },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(status: u16, body: Value) -> GoogleError {
        refusal(("www.googleapis.com", "/calendar/v3/x"), status, None, body.to_string().as_bytes())
    }

    #[test]
    fn each_refusal_means_something_to_callers() {
        let old = |reason: &str| json!({"error": {"code": 1, "message": "m", "errors": [{"reason": reason}]}});
        let new = |status: &str, reason: &str| json!({"error": {"status": status, "details": [{"reason": reason}]}});
        assert!(matches!(of(401, json!(null)), GoogleError::Unauthorized { .. }));
        for limit in [of(403, old("rateLimitExceeded")), of(403, old("quotaExceeded")), of(429, json!({}))] {
            assert!(matches!(limit, GoogleError::Later { .. }), "{limit}");
        }
        assert!(matches!(of(403, old("forbiddenForNonOrganizer")), GoogleError::Forbidden { .. }));
        assert!(matches!(of(403, old("insufficientPermissions")), GoogleError::NotGranted { .. }));
        let scope = new("PERMISSION_DENIED", "ACCESS_TOKEN_SCOPE_INSUFFICIENT");
        assert!(matches!(of(403, scope), GoogleError::NotGranted { .. }));
        assert!(matches!(of(404, json!({})), GoogleError::Missing { .. }));
        assert!(matches!(of(410, old("fullSyncRequired")), GoogleError::Gone { .. }));
        assert!(matches!(of(400, new("FAILED_PRECONDITION", "EXPIRED_SYNC_TOKEN")), GoogleError::Gone { .. }));
        assert!(matches!(of(400, new("FAILED_PRECONDITION", "")), GoogleError::Changed { .. }));
        assert!(matches!(of(412, json!({})), GoogleError::Changed { .. }));
        assert!(matches!(of(409, old("duplicate")), GoogleError::Exists { .. }));
        assert!(matches!(of(409, new("ABORTED", "")), GoogleError::Later { .. }));
        assert!(matches!(of(503, json!("not JSON of Google's")), GoogleError::Later { .. }));
        assert!(matches!(of(400, old("required")), GoogleError::Refused { .. }));
    }

    #[test]
    fn a_sentence_says_what_where_and_what_to_do() {
        let said = of(403, json!({"error": {"message": "no\u{1b}[31m\nway"}})).to_string();
        let meant = "www.googleapis.com does not let this account reach /calendar/v3/x: no[31mway; ask its owner for the \
                     right, or leave it out";
        assert_eq!(said, meant);
        assert!(of(400, json!({"error": {"message": "x".repeat(100_000)}})).to_string().len() < 400);
    }
}
