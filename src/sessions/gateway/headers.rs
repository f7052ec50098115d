//! Which headers go through, and which end here.

use http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, FORWARDED, HOST, HeaderMap, HeaderName,
    LOCATION, ORIGIN, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, REFERER, SET_COOKIE, TE, TRAILER, TRANSFER_ENCODING,
    UPGRADE, VIA, WWW_AUTHENTICATE,
};

/// Of one connection only.
const HOP: [HeaderName; 7] =
    [CONNECTION, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];
/// Not in the library's list.
const HOP_NAMES: [&str; 2] = ["keep-alive", "proxy-connection"];

/// Who asks, where from, and how the body is packed: all of that is the gateway's to say. Compressed answers could
/// not be read in passing.
const OWN: [HeaderName; 9] = [HOST, CONTENT_LENGTH, ACCEPT_ENCODING, EXPECT, COOKIE, ORIGIN, REFERER, FORWARDED, VIA];

/// Where keys and accounts stand in requests.
const IDENTITY: [&str; 8] = [
    "x-api-key",
    "x-goog-api-key",
    "api-key",
    "chatgpt-account-id",
    "openai-organization",
    "openai-project",
    "x-goog-user-project",
    "x-forwarded-for",
];

/// The tokens that a request brings, wherever it brings them.
pub fn tokens(headers: &HeaderMap) -> Vec<&str> {
    let text = |name: &str| headers.get_all(name).iter().map(|v| v.to_str().unwrap_or_default()).collect::<Vec<_>>();
    let mut found = [text("x-api-key"), text("x-goog-api-key")].concat();
    // Anything but a bearer's token counts as a wrong one.
    let bearer =
        |value: &'_ str| matches!(value.split_once(' '), Some((scheme, _)) if scheme.eq_ignore_ascii_case("bearer"));
    for value in text(AUTHORIZATION.as_str()) {
        found.push(if bearer(value) { value[7..].trim() } else { "" });
    }
    found
}

/// What of a request goes on to the upstream: nothing that says who asks.
pub fn onward(from: &HeaderMap) -> HeaderMap {
    let named = named_by_connection(from);
    let keeps = |name: &HeaderName| {
        !hop(name, &named)
            && !OWN.contains(name)
            && *name != AUTHORIZATION
            && !IDENTITY.contains(&name.as_str())
            && !name.as_str().starts_with("x-forwarded-")
            && !name.as_str().starts_with("sec-")
    };
    filtered(from, keeps)
}

/// What of an answer goes back to the child. The length of a body that is passed on as it is stays.
pub fn back(from: &HeaderMap) -> HeaderMap {
    let named = named_by_connection(from);
    filtered(from, |name| !hop(name, &named) && ![SET_COOKIE, LOCATION, WWW_AUTHENTICATE].contains(name))
}

fn filtered(from: &HeaderMap, keeps: impl Fn(&HeaderName) -> bool) -> HeaderMap {
    let mut kept = HeaderMap::with_capacity(from.len());
    for (name, value) in from.iter().filter(|(name, _)| keeps(name)) {
        kept.append(name.clone(), value.clone());
    }
    kept
}

fn hop(name: &HeaderName, named: &[String]) -> bool {
    HOP.contains(name) || HOP_NAMES.contains(&name.as_str()) || named.iter().any(|n| n == name.as_str())
}

/// Headers that `Connection` declares to be of this connection only.
fn named_by_connection(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(CONNECTION).iter().filter_map(|v| v.to_str().ok());
    values.flat_map(|v| v.split(',')).map(|name| name.trim().to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in list {
            map.append(*name, value.parse().unwrap());
        }
        map
    }

    #[test]
    fn tokens_are_found_in_all_their_places() {
        let both = headers(&[("x-api-key", "a"), ("authorization", "bearer b"), ("x-goog-api-key", "c")]);
        assert_eq!(tokens(&both), ["a", "c", "b"]);
        assert_eq!(tokens(&headers(&[("authorization", "Basic eA==")])), [""]);
        assert_eq!(tokens(&headers(&[("authorization", "Bearer")])), [""]);
        assert!(tokens(&headers(&[("cookie", "x-api-key=a")])).is_empty());
    }

    #[test]
    fn nothing_that_says_who_asks_goes_on() {
        let from = headers(&[
            ("host", "127.0.0.1:1"),
            ("x-api-key", "t"),
            ("authorization", "Bearer t"),
            ("x-goog-api-key", "t"),
            ("chatgpt-account-id", "a"),
            ("cookie", "c"),
            ("connection", "keep-alive, X-Hop"),
            ("keep-alive", "timeout=5"),
            ("x-hop", "1"),
            ("transfer-encoding", "chunked"),
            ("accept-encoding", "br"),
            ("x-forwarded-host", "h"),
            ("anthropic-beta", "oauth-2025-04-20"),
            ("anthropic-beta", "second"),
            ("content-type", "application/json"),
        ]);
        let kept = onward(&from);
        let names: Vec<&str> = kept.keys().map(HeaderName::as_str).collect();
        assert_eq!(kept.get_all("anthropic-beta").iter().count(), 2);
        assert_eq!(names.len(), 2, "{names:?}");
    }

    #[test]
    fn answers_lose_what_concerns_the_upstream_alone() {
        let from = headers(&[
            ("set-cookie", "c"),
            ("location", "http://elsewhere/"),
            ("connection", "close"),
            ("transfer-encoding", "chunked"),
            ("retry-after", "3"),
            ("content-length", "3"),
        ]);
        let kept = back(&from);
        assert_eq!(kept.len(), 2);
        assert_eq!(kept["retry-after"], "3");
    }
}
