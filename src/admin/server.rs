//! The admin listener: health, readiness, metrics, and the calls on `/rpc`.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_SECURITY_POLICY, HeaderValue, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use jsonrpsee::server::{
    BatchRequestConfig, Methods, PingConfig, Server, ServerConfig, StopHandle, TowerServiceBuilder, stop_channel,
};
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tower::Service;

use super::failure::Failure;
use super::inbound::{Inbound, said};
use super::methods;
use super::module_routes;
use super::ready::{readiness, starting};
use super::rpc::Rpc;
use super::visitor::Visitor;
use access::{Edge, Grant, Holder, Refusal};
use mcp::{BODY_TIMEOUT, Body, accept_loop, json_body, prove, refusal_response, text_body, whole_body};
use modules::{Found, RouteProof};
use supervisor::{AdminDoor, Supervisor};

/// Calls and WebSockets that are open at once.
const MAX_CALLS: u32 = 100;
/// The largest answer: a page of long sessions.
const MAX_ANSWER: u32 = 64 << 20;
const MAX_BATCH: u32 = 32;
const MAX_SUBSCRIPTIONS: u32 = 16;
/// Events that wait for a slow subscriber before it misses some.
const BUFFERED: u32 = 256;
/// WebSockets have this long to close once the daemon stops.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How a path is asked that only tells something.
const LOOKS: [Method; 2] = [Method::GET, Method::HEAD];

/// The format that the metrics are written in; Prometheus reads it, and so does OpenMetrics.
const METRICS_FORMAT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Builder = TowerServiceBuilder<tower::layer::util::Identity, tower::layer::util::Identity>;

/// What answers on this port besides, from a crate above: the dashboard, the API for other programs.
#[async_trait]
pub trait Site: Send + Sync {
    /// Whether a path is one of its own. All others are nobody's.
    fn has(&self, path: &str) -> bool;

    /// Answers a request for such a path. Nothing was checked before.
    async fn answer(&self, request: Request<Incoming>) -> Response<Body>;
}

/// What a site is made of.
pub struct SiteParts {
    pub calls: Rpc,
    pub edge: Edge,
    /// Cancelled as the port closes: streams end then.
    pub closing: CancellationToken,
    /// The port really bound.
    pub port: u16,
}

/// Makes the site of a port.
pub type MakeSite = fn(SiteParts) -> Arc<dyn Site>;

/// One way in.
#[derive(Clone)]
struct AdminPort {
    sites: Arc<[Arc<dyn Site>]>,
    supervisor: Supervisor,
    edge: Edge,
    methods: Methods,
    builder: Builder,
    stop: StopHandle,
    closing: CancellationToken,
}

/// The port from its first moment on: one loop accepts for the household that starts and for the one that stands, so
/// that no connection falls between the two.
#[derive(Clone)]
struct FirstPort {
    edge: Edge,
    doing: watch::Receiver<&'static str>,
    opened: watch::Receiver<Option<AdminPort>>,
}

impl FirstPort {
    /// What probes ask is answered at once; all else waits until the household stands.
    async fn answer(mut self, request: Request<Incoming>) -> Response<Body> {
        let route = Route::of(request.uri().path());
        if self.opened.borrow().is_none() && matches!(route, Route::Health | Route::Ready) {
            return match self.edge.check(request.uri(), request.headers()) {
                Err(refusal) => refusal_response(&refusal),
                Ok(()) if !LOOKS.contains(request.method()) => module_routes::only(&LOOKS),
                Ok(()) if route == Route::Health => json_body(StatusCode::OK, &json!({"status": "ok"})),
                Ok(()) => json_body(StatusCode::SERVICE_UNAVAILABLE, &starting(&self.doing.borrow())),
            };
        }
        let opened = self.opened.wait_for(Option::is_some).await.ok().and_then(|port| port.clone());
        match opened {
            Some(port) => port.answer(request).await,
            None => refusal_response(&NOT_STARTED),
        }
    }
}

/// Answers on the admin port until the door's `stop`; then no more connections, requests under way are finished,
/// WebSockets closed. Done when all of them are gone.
pub(super) async fn serve(door: AdminDoor, sites: &[MakeSite]) {
    let AdminDoor { listener, edge, stop, doing, supervisor } = door;
    let addr = listener.addr();
    tracing::info!(%addr, "admin port open");
    let (open, opened) = watch::channel(None);
    let first = FirstPort { edge: edge.clone(), doing, opened };
    let serving = accept_loop(listener, stop.clone(), move |request| first.clone().answer(request));
    let opening = async move {
        let supervisor = supervisor.await.ok()?;
        let (rpc_stop, rpc) = stop_channel();
        let calls = Rpc::new(supervisor.clone());
        let methods = methods::all(&calls);
        let methods = methods.inspect_err(|e| tracing::error!(error = %e, "an admin method is declared twice")).ok()?;
        let parts = || SiteParts { calls: calls.clone(), edge: edge.clone(), closing: stop.clone(), port: addr.port() };
        let sites = sites.iter().map(|make| make(parts())).collect();
        let builder = Server::builder().set_config(settings(&edge)).to_service_builder();
        let closing = stop.clone();
        open.send_replace(Some(AdminPort { sites, supervisor, edge, methods, builder, stop: rpc_stop, closing }));
        stop.cancelled().await;
        // An error means that it was stopped before.
        let _ = rpc.stop();
        Some(rpc)
    };
    let ((), rpc) = tokio::join!(serving, opening);
    let Some(rpc) = rpc else { return };
    if tokio::time::timeout(LAST_WORDS, rpc.stopped()).await.is_err() {
        tracing::debug!("a WebSocket did not close in time");
    }
}

fn settings(edge: &Edge) -> ServerConfig {
    ServerConfig::builder()
        .max_request_body_size(u32::try_from(edge.max_body()).unwrap_or(u32::MAX))
        .max_response_body_size(MAX_ANSWER)
        .max_connections(MAX_CALLS)
        .max_subscriptions_per_connection(MAX_SUBSCRIPTIONS)
        .set_message_buffer_capacity(BUFFERED)
        .set_batch_request_config(BatchRequestConfig::Limit(MAX_BATCH))
        .enable_ws_ping(PingConfig::default())
        .build()
}

/// A path of this port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    Health,
    Ready,
    Metrics,
    Rpc,
    Api,
    Hooks,
    Unknown,
}

impl Route {
    fn of(path: &str) -> Self {
        match path {
            "/healthz" => Route::Health,
            "/readyz" => Route::Ready,
            "/metrics" => Route::Metrics,
            "/rpc" => Route::Rpc,
            _ if path.starts_with("/api/") => Route::Api,
            _ if path.starts_with("/hooks/") => Route::Hooks,
            _ => Route::Unknown,
        }
    }
}

impl AdminPort {
    async fn answer(self, request: Request<Incoming>) -> Response<Body> {
        let route = Route::of(request.uri().path());
        if route == Route::Hooks
            && let Found::Route(matched) =
                self.supervisor.services().routes.find(request.method(), request.uri().path())
            && matched.proof() == RouteProof::Own
        {
            return match self.edge.check_open(request.uri(), request.headers()) {
                Ok(()) => module_routes::open(matched, &self.edge, request).await,
                Err(refusal) => refusal_response(&refusal),
            };
        }
        // Nobody takes what is this port's own.
        if matches!(route, Route::Unknown | Route::Api)
            && let Some(site) = self.sites.iter().find(|site| site.has(request.uri().path()))
        {
            return site.answer(request).await;
        }
        if let Err(refusal) = self.edge.check(request.uri(), request.headers()) {
            return refusal_response(&refusal);
        }
        let looks = [Route::Health, Route::Ready, Route::Metrics].contains(&route);
        if looks && !LOOKS.contains(request.method()) {
            return module_routes::only(&LOOKS);
        }
        match route {
            Route::Health => json_body(StatusCode::OK, &json!({"status": "ok"})),
            Route::Ready => {
                let (code, shown) = readiness(&self.supervisor.status().await);
                json_body(code, &shown)
            }
            Route::Metrics => text_body(StatusCode::OK, METRICS_FORMAT, self.supervisor.services().metrics.render()),
            Route::Rpc => self.rpc(request).await,
            Route::Api | Route::Hooks => self.api(request).await,
            Route::Unknown => {
                let paths = "This path does not exist; there are /healthz, /readyz, /metrics, /rpc, /api and /hooks.";
                nothing_to_see(said(StatusCode::NOT_FOUND, "not_found", paths))
            }
        }
    }

    async fn api(self, request: Request<Incoming>) -> Response<Body> {
        let grant = match admitted(&self.edge, &request) {
            Ok(grant) => grant,
            Err(refusal) => return refusal_response(&refusal),
        };
        let (supervisor, edge, closing) = (&self.supervisor, &self.edge, &self.closing);
        match supervisor.services().routes.find(request.method(), request.uri().path()) {
            Found::Route(matched) => return module_routes::answer(matched, edge, &grant, request).await,
            Found::Methods(methods) => return module_routes::only(&methods),
            Found::Nothing => {}
        }
        Inbound { supervisor, edge, grant: &grant, closing }.answer(request).await
    }

    async fn rpc(self, mut request: Request<Incoming>) -> Response<Body> {
        if let Err(refusal) = admitted(&self.edge, &request) {
            return refusal_response(&refusal);
        }
        // Taken out of the request, so that no log of the libraries below can ever show it.
        let mut headers = HeaderMap::new();
        if let Some(token) = request.headers_mut().remove(AUTHORIZATION) {
            headers.insert(AUTHORIZATION, token);
        }
        request.extensions_mut().insert(Visitor::bearer(self.edge.clone(), headers));
        // Read here: the library below has no limit of time, and calls a chunked body over the limit malformed. An
        // upgrade's body is empty.
        let (parts, body) = request.into_parts();
        let request = match whole_body(body, self.edge.max_body(), BODY_TIMEOUT).await {
            Ok(bytes) => Request::from_parts(parts, Full::<Bytes>::new(bytes)),
            Err(refusal) => return refusal_response(&refusal),
        };
        let mut service = self.builder.build(self.methods, self.stop);
        match service.call(request).await {
            Ok(response) => whole(response).await,
            Err(e) => {
                let failure = Failure::internal("The call", &e);
                said(StatusCode::INTERNAL_SERVER_ERROR, &failure.code, &failure.message)
            }
        }
    }
}

const NOT_STARTED: Refusal =
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", "The household did not start; its log says why.");
const SESSION_TOKEN: Refusal =
    Refusal::new(StatusCode::FORBIDDEN, "forbidden", "A session's token opens its butler's own port only.");

/// What the caller may. A session's token opens nothing here; any other valid one keeps its connection open.
fn admitted(edge: &Edge, request: &Request<Incoming>) -> Result<Arc<Grant>, Refusal> {
    let grant = edge.authenticate(request.headers())?;
    if matches!(grant.holder, Holder::Session { .. }) {
        return Err(SESSION_TOKEN);
    }
    prove(request.extensions(), &grant)?;
    Ok(grant)
}

/// Says to a browser that this is no page, to be shown in no frame.
fn nothing_to_see(mut response: Response<Body>) -> Response<Body> {
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
        (X_FRAME_OPTIONS, "DENY"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The answer with a body that can't fail. Answers are whole in memory anyway; an upgrade's is empty.
async fn whole(response: Response<jsonrpsee::server::HttpBody>) -> Response<Body> {
    let (parts, body) = response.into_parts();
    match body.collect().await {
        Ok(collected) => Response::from_parts(parts, Full::<Bytes>::new(collected.to_bytes()).boxed_unsync()),
        Err(e) => {
            let failure = Failure::internal("The answer", &e);
            said(StatusCode::INTERNAL_SERVER_ERROR, &failure.code, &failure.message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_exact() {
        assert_eq!(Route::of("/rpc"), Route::Rpc);
        assert_eq!(Route::of("/readyz"), Route::Ready);
        for other in ["/", "/rpc/", "/RPC", "/api", "/metrics/x", ""] {
            assert_eq!(Route::of(other), Route::Unknown, "{other}");
        }
    }
}
