//! The API's edge: Host, Origin and size first, then the token, then the endpoint.

use access::{Edge, Holder};
use admin::{Rpc, Site, SiteParts, Visitor};
use async_trait::async_trait;
use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use mcp::{BODY_TIMEOUT, Body, prove, whole_body};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::document::DOCUMENT;
use super::endpoint::Endpoint;
use super::page::PAGE;
use super::problem::Problem;
use super::table::{self, Found};
use super::visit::Visit;

/// Where the API is.
const ROOT: &str = "/api/v1";
/// The channel under which its callers' calls are on record.
const CHANNEL: &str = "api";
const LOOKS: &str = "GET, HEAD";
/// What may be answered where no endpoint is.
const ELSEWHERE: &[StatusCode] = &[
    StatusCode::UNAUTHORIZED,
    StatusCode::FORBIDDEN,
    StatusCode::NOT_FOUND,
    StatusCode::METHOD_NOT_ALLOWED,
    StatusCode::PAYLOAD_TOO_LARGE,
    StatusCode::INTERNAL_SERVER_ERROR,
    StatusCode::SERVICE_UNAVAILABLE,
];
/// The page loads nothing and runs nothing.
const POLICY: &str = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// The API of one admin port.
pub(crate) struct Api {
    calls: Rpc,
    edge: Edge,
}

impl Api {
    pub fn new(parts: SiteParts) -> Self {
        Self { calls: parts.calls.over(CHANNEL), edge: parts.edge }
    }

    /// An answer, or a refusal of a status that the document has.
    async fn reply(&self, request: Request<Incoming>) -> Response<Body> {
        let path = request.uri().path().strip_prefix(ROOT).unwrap_or_default().to_owned();
        let found = table::find(request.method(), &path);
        let documented = match &found {
            Found::Endpoint(endpoint, _) => endpoint.statuses(),
            Found::Methods(_) | Found::Nothing => ELSEWHERE.to_vec(),
        };
        let done = self.reply_at(&path, found, request).await;
        done.unwrap_or_else(|problem| problem.within(&documented).response())
    }

    async fn reply_at(&self, path: &str, found: Found, request: Request<Incoming>) -> Result<Response<Body>, Problem> {
        self.edge.check(request.uri(), request.headers()).map_err(|refusal| Problem::from(&refusal))?;
        // What the API is, is no secret: it is the same in every household.
        let shown: Option<(&'static str, &'static Bytes)> = match path {
            "" | "/" => Some(("text/html; charset=utf-8", &PAGE)),
            "/openapi.json" => Some(("application/json", &DOCUMENT)),
            _ => None,
        };
        if let Some((media_type, bytes)) = shown {
            return match looks(request.method()) {
                true => Ok(answer(StatusCode::OK, media_type, bytes.clone(), request.headers())),
                false => Err(Problem::other_method(LOOKS)),
            };
        }
        let grant = self.edge.authenticate(request.headers()).map_err(|refusal| Problem::from(&refusal))?;
        if matches!(grant.holder, Holder::Session { .. }) {
            let sentence = "A session's token opens its butler's own port only.";
            return Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", sentence));
        }
        prove(request.extensions(), &grant).map_err(|refusal| Problem::from(&refusal))?;
        match found {
            Found::Endpoint(endpoint, words) => self.run(endpoint, words, request).await,
            Found::Methods(methods) => Err(Problem::other_method(methods)),
            Found::Nothing => {
                let sentence = "There is no such endpoint. See /api/v1/ for those that there are.";
                Err(Problem::new(StatusCode::NOT_FOUND, "not_found", sentence))
            }
        }
    }

    async fn run(
        &self,
        endpoint: &Endpoint,
        mut words: Vec<(String, String)>,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Problem> {
        let (head, body) = request.into_parts();
        let visitor = Visitor::bearer(self.edge.clone(), head.headers.clone());
        visitor.grant(endpoint.need)?;
        words.extend(queried(head.uri.query().unwrap_or_default())?);
        let params = endpoint.params.typed(words)?;
        endpoint.params.check(&params, "invalid_parameters")?;
        let body = match &endpoint.body {
            Some(input) => {
                let bytes = whole_body(body, self.edge.max_body(), BODY_TIMEOUT).await;
                let value = sent(&head.headers, &bytes.map_err(|refusal| Problem::from(&refusal))?)?;
                input.check(&value, "invalid_body")?;
                value
            }
            None => Value::Null,
        };
        let list = list_of(endpoint.id, &params);
        let visit = Visit { calls: self.calls.clone(), ext: visitor.extensions(), list, params, body };
        let bytes = (endpoint.run)(&visit).await?;
        Ok(match endpoint.looks() {
            true => answer(StatusCode::OK, "application/json", bytes, &head.headers),
            false => plain(endpoint.success, "application/json", bytes),
        })
    }
}

#[async_trait]
impl Site for Api {
    fn has(&self, path: &str) -> bool {
        path.strip_prefix(ROOT).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let bare = request.method() == Method::HEAD;
        let mut response = self.reply(request).await;
        if bare {
            *response.body_mut() = Full::new(Bytes::new()).boxed_unsync();
        }
        response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        response
    }
}

fn looks(method: &Method) -> bool {
    [Method::GET, Method::HEAD].contains(method)
}

/// A list with all that it is filtered by: what its cursors are good for.
fn list_of(id: &str, params: &Value) -> String {
    let mut filters: Map<String, Value> = params.as_object().cloned().unwrap_or_default();
    filters.remove("cursor");
    filters.remove("limit");
    format!("{id} {}", Value::Object(filters))
}

/// Names and words of a query, as forms write them.
fn queried(query: &str) -> Result<Vec<(String, String)>, Problem> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, word) = pair.split_once('=').unwrap_or((pair, ""));
        Some((table::decoded(&name.replace('+', " "))?, table::decoded(&word.replace('+', " "))?))
    });
    let broken = || Problem::malformed("invalid_parameters", "The query is not text in UTF-8 as URLs write it.");
    pairs.collect::<Option<_>>().ok_or_else(broken)
}

/// A body, which is JSON where there is one.
fn sent(headers: &HeaderMap, bytes: &Bytes) -> Result<Value, Problem> {
    if bytes.is_empty() {
        return Ok(json!({}));
    }
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        let sentence = "The body must be JSON, and say so: Content-Type: application/json.";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", sentence));
    }
    serde_json::from_slice(bytes)
        .map_err(|e| Problem::malformed("invalid_body", format!("The body is not valid JSON: {e}.")))
}

/// An answer that is known again by its ETag; 304 to whoever has it already.
fn answer(status: StatusCode, media_type: &'static str, bytes: Bytes, asked: &HeaderMap) -> Response<Body> {
    let tag = tag_of(&bytes);
    let mut response = match has_it(asked, &tag) {
        true => {
            let mut response = Response::new(Full::new(Bytes::new()).boxed_unsync());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
        }
        false => plain(status, media_type, bytes),
    };
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    headers.insert(VARY, HeaderValue::from_static("Authorization"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(ETAG, tag);
    }
    response
}

fn plain(status: StatusCode, media_type: &'static str, bytes: Bytes) -> Response<Body> {
    let length = HeaderValue::from(bytes.len());
    let mut response = Response::new(Full::new(bytes).boxed_unsync());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CONTENT_LENGTH, length);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if media_type.starts_with("text/html") {
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    }
    response
}

/// A strong tag: of these very bytes.
fn tag_of(bytes: &[u8]) -> String {
    let hash: String = Sha256::digest(bytes).iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("\"{hash}\"")
}

/// Whether the caller has what bears this tag. For looking a weak one is as good.
fn has_it(asked: &HeaderMap, tag: &str) -> bool {
    let lists = asked.get_all(IF_NONE_MATCH).iter().filter_map(|list| list.to_str().ok());
    lists.flat_map(|list| list.split(',')).map(str::trim).any(|one| one == "*" || one.trim_start_matches("W/") == tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_found_among_others() {
        let tag = tag_of(b"x");
        let asked = |list: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(IF_NONE_MATCH, HeaderValue::from_str(list).unwrap());
            has_it(&headers, &tag)
        };
        for list in ["*", &tag, &format!("W/{tag}"), &format!("\"y\", {tag}")] {
            assert!(asked(list), "{list}");
        }
        assert!(!asked("\"y\"") && !asked("") && !has_it(&HeaderMap::new(), &tag));
    }

    #[test]
    fn a_query_is_text_or_refused() {
        let found = queried("text=a+b%26c&flag&x=%C3%A4").unwrap();
        let wanted = [("text", "a b&c"), ("flag", ""), ("x", "ä")];
        assert_eq!(found, wanted.map(|(name, word)| (name.to_owned(), word.to_owned())));
        for bad in ["x=%", "x=%zz", "x=%ff"] {
            assert_eq!(queried(bad).unwrap_err().status(), StatusCode::BAD_REQUEST, "{bad}");
        }
    }
}
