//! Routes of modules, below `/hooks` and `/api`: the port checks the token, the module answers.

use http::header::{ALLOW, AUTHORIZATION, CONTENT_TYPE, COOKIE, HeaderValue, RETRY_AFTER};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;

use super::inbound::{forbidden, said};
use super::rights::{self, Need};
use access::{Edge, Grant, GrantScope};
use base::TenantId;
use mcp::{BODY_TIMEOUT, Body, refusal_response, whole_body};
use modules::{Matched, RouteProof, RouteRequest};

/// The largest body of a request without a token.
const OPEN_BODY: u64 = 1024 * 1024;

/// Has the module answer, if the token is good for the route's scope and reaches its butler.
pub(super) async fn answer(matched: Matched, edge: &Edge, grant: &Grant, request: Request<Incoming>) -> Response<Body> {
    let need = match matched.proof() {
        RouteProof::Token(GrantScope::Read) => Need::Look,
        RouteProof::Token(GrantScope::Ingest) => Need::HandIn,
        RouteProof::Token(GrantScope::Tools) => Need::Work,
        RouteProof::Token(GrantScope::Admin) => Need::Manage,
        RouteProof::Own => return open(matched, edge, request).await,
    };
    let allowed = rights::check(grant, need).and_then(|()| rights::check_butler(grant, matched.butler()));
    if let Err(refused) = allowed {
        return forbidden(&refused);
    }
    handed(matched, edge.max_body(), grant.tenant.clone(), request).await
}

/// Has the module answer a request that brings a proof of its own.
pub(super) async fn open(matched: Matched, edge: &Edge, request: Request<Incoming>) -> Response<Body> {
    if !matched.may_prove(request.headers()) {
        return said(StatusCode::UNAUTHORIZED, "unauthorized", "This is for the channel alone, which proves itself.");
    }
    handed(matched, edge.max_body().min(OPEN_BODY), TenantId::owner(), request).await
}

/// Has the module answer.
async fn handed(matched: Matched, most: u64, tenant: TenantId, request: Request<Incoming>) -> Response<Body> {
    let open = matched.proof() == RouteProof::Own;
    let (parts, body) = request.into_parts();
    let body = match whole_body(body, most, BODY_TIMEOUT).await {
        Ok(body) => body,
        Err(refusal) => return refusal_response(&refusal),
    };
    let mut headers = parts.headers;
    if !open {
        headers.remove(AUTHORIZATION);
    }
    headers.remove(COOKIE);
    let request = RouteRequest {
        method: parts.method,
        path: parts.uri.path().to_owned(),
        parts: Default::default(),
        query: parts.uri.query().map(str::to_owned),
        headers,
        body,
        tenant,
    };
    let answer = matched.answer(request).await;
    let mut response = Response::new(Full::new(answer.body).boxed_unsync());
    *response.status_mut() = answer.status;
    if let Ok(kind) = HeaderValue::from_str(answer.content_type) {
        response.headers_mut().insert(CONTENT_TYPE, kind);
    }
    if let Some(seconds) = answer.retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// The path is there, but not for this method.
pub(super) fn only(methods: &[Method]) -> Response<Body> {
    let names: Vec<&str> = methods.iter().map(Method::as_str).collect();
    let why = format!("Only {} is answered here.", names.join(" and "));
    let mut response = said(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", &why);
    if let Ok(allowed) = HeaderValue::from_str(&names.join(", ")) {
        response.headers_mut().insert(ALLOW, allowed);
    }
    response
}
