//! The dashboard's door: Host, Origin and session first, then the form's proof, then the page.

use std::net::IpAddr;

use access::{Edge, PageAddress, Peer};
use admin::{Rpc, Site, SiteParts, Visitor};
use async_trait::async_trait;
use bytes::Bytes;
use http::header::{
    ALLOW, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use mcp::{BODY_TIMEOUT, Body, prove, whole_body};
use tokio_util::sync::CancellationToken;

use super::changes::Changes;
use super::form::Form;
use super::reply::{Answer, PageError, Reply};
use super::route::Route;
use super::router::Found;
use super::send::{go, html};
use super::time::Now;
use super::visit::Visit;
use super::{assets, layout, login, packed, router};

/// The largest form: a long message, with room.
const LARGEST_FORM: u64 = 1024 * 1024;

/// Pages load scripts and styles of this daemon alone, run none that stand in the page, send forms to it alone, and show
/// themselves in nobody's frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

const WRONG_FORM: &str = "This form is not one of your session's pages. Go back, reload the page and try again.";
const ONLY_LOOKS: &str = "This browser may look, and nothing more. Sign in with a link of: butlerd open";
const SIGNED_OUT: &str = "You are not signed in here.";

/// The dashboard of one admin port.
pub(super) struct Dashboard {
    calls: Rpc,
    edge: Edge,
    closing: CancellationToken,
    port: u16,
    changes: Changes,
}

impl Dashboard {
    pub fn new(parts: SiteParts) -> Self {
        let changes = Changes::begin(parts.calls.supervisor(), parts.closing.clone());
        let calls = parts.calls.over("dashboard");
        Self { calls, edge: parts.edge, closing: parts.closing, port: parts.port, changes }
    }

    async fn page(&self, request: Request<Incoming>) -> Response<Body> {
        let peer: Option<IpAddr> = request.extensions().get::<Peer>().map(|peer| peer.0);
        let address = match self.edge.check_page(request.uri(), request.headers(), peer) {
            Ok(address) => address,
            Err(refusal) => return outside(&PageError::from(&refusal)),
        };
        let path = request.uri().path();
        if path.starts_with(assets::PREFIX) {
            let known = assets::answer(path, request.headers())
                .filter(|_| [Method::GET, Method::HEAD].contains(request.method()));
            return known.unwrap_or_else(|| outside(&PageError::nothing_here()));
        }
        let door = login::Door { calls: &self.calls, address: &address, port: self.port, peer };
        if let Some(link) = path.strip_prefix("/login/") {
            let link = link.to_owned();
            return match *request.method() {
                Method::GET | Method::HEAD => html(StatusCode::OK, &login::page(&link)),
                Method::POST => login::redeem(&door, &link).await,
                _ => other_method("GET, POST"),
            };
        }
        let Some(session) = self.edge.browser(request.headers(), &address.cookie_name(self.port)) else {
            return html(StatusCode::UNAUTHORIZED, &login::signed_out(SIGNED_OUT));
        };
        if let Err(refusal) = prove(request.extensions(), &session.grant) {
            return outside(&PageError::from(&refusal));
        }
        match router::find(request.method(), path) {
            Found::Route(route, parts) => self.visit(request, route, parts, (session, address)).await,
            Found::OtherMethod => other_method("GET, POST"),
            Found::Nothing => outside(&PageError::nothing_here()),
        }
    }

    async fn visit(
        &self,
        request: Request<Incoming>,
        route: &Route,
        parts: Vec<String>,
        (session, address): (access::BrowserSession, PageAddress),
    ) -> Response<Body> {
        let (head, body) = request.into_parts();
        let form = match self.form(&head.headers, &session, &route.method, body).await {
            Ok(form) => form,
            Err(error) => return outside(&error),
        };
        let services = self.calls.supervisor().services();
        let zone = services.config.owner.time_zone.time_zone().clone();
        let visitor = Visitor::browser(self.edge.clone(), session.clone());
        let visit = Visit {
            calls: self.calls.clone(),
            session,
            ext: visitor.clone().extensions(),
            visitor,
            since: self.changes.now(),
            changes: self.changes.clone(),
            last_event: head.headers.get("last-event-id").and_then(|id| id.to_str().ok()).map(str::to_owned),
            address,
            now: Now { at: services.clock.now(), zone },
            path: head.uri.path().to_owned(),
            parts,
            query: Form::parse(head.uri.query().unwrap_or_default()),
            form,
            closing: self.closing.clone(),
            port: self.port,
        };
        let answer = match route.acts && !visit.may_act() && !visit.may_work() {
            true => Err(PageError::new(StatusCode::FORBIDDEN, ONLY_LOOKS)),
            false => Box::pin((route.run)(&visit)).await,
        };
        respond(&visit, answer).await
    }

    /// What a form sent, once it has proven to be one of this session's pages'.
    async fn form(
        &self,
        headers: &HeaderMap,
        session: &access::BrowserSession,
        method: &Method,
        body: Incoming,
    ) -> Result<Form, PageError> {
        if *method != Method::POST {
            return Ok(Form::default());
        }
        let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !kind.starts_with("application/x-www-form-urlencoded") {
            return Err(PageError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Only forms are answered here."));
        }
        let most = self.edge.max_body().min(LARGEST_FORM);
        let bytes = whole_body(body, most, BODY_TIMEOUT).await.map_err(|refusal| PageError::from(&refusal))?;
        let form = Form::parse(&String::from_utf8_lossy(&bytes));
        match session.sent_form(form.raw("form").unwrap_or_default()) {
            true => Ok(form),
            false => Err(PageError::new(StatusCode::FORBIDDEN, WRONG_FORM)),
        }
    }
}

#[async_trait]
impl Site for Dashboard {
    fn has(&self, path: &str) -> bool {
        path.starts_with(assets::PREFIX)
            || path.starts_with("/login/")
            || !matches!(router::find(&Method::GET, path), Found::Nothing)
            || !matches!(router::find(&Method::POST, path), Found::Nothing)
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let bare = request.method() == Method::HEAD;
        let takes_gzip = packed::takes_gzip(request.headers());
        let mut response = packed::page(self.page(request).await, takes_gzip).await;
        if bare {
            *response.body_mut() = Full::new(Bytes::new()).boxed_unsync();
        }
        shield(response.headers_mut());
        response
    }
}

/// What every answer says to the browser about itself.
fn shield(headers: &mut HeaderMap) {
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_FRAME_OPTIONS, "DENY"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // Nothing of an address goes to others; a form's own origin is still told, by which it is known.
        (REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("permissions-policy"), "camera=(), microphone=(), geolocation=(), payment=()"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

async fn respond(visit: &Visit, answer: Answer) -> Response<Body> {
    match answer {
        Ok(Reply::Page(view)) => html(StatusCode::OK, &layout::page(visit, view)),
        Ok(Reply::Piece(piece)) => html(StatusCode::OK, &piece),
        Ok(Reply::Go { to, did }) => go(&to, did),
        Ok(Reply::Raw(response)) => response,
        Err(error) => html(error.status, &layout::error(visit, &error)),
    }
}

/// A refusal to somebody who is not known to be anybody.
fn outside(error: &PageError) -> Response<Body> {
    html(error.status, &login::refused(error))
}

fn other_method(allowed: &'static str) -> Response<Body> {
    let mut response = outside(&PageError::new(StatusCode::METHOD_NOT_ALLOWED, "This is not done here."));
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}
