//! The port: the checks at the door, whose token it is, and which path.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use llm_api::Family;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::headers;
use super::relay::RequestBody;
use super::routes::{Link, Route, Routes};
use super::types::{Patience, Upstream};
use super::upstream::{Body, Clients, IncomingRequest, forward, refusal};
use crate::budget::Meter;
use access::{Edge, Grant, Holder, TokenBook};
use base::{SessionId, task};
use mcp::{BindError, Listener, accept_loop, prove};

/// The largest request: a long conversation with pictures. The vendors take no more either.
const MAX_BODY: u64 = 32 << 20;
/// Requests that are under way when the daemon stops; by then every session has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

const NO_TOKEN: &str =
    "This is not a running session's token. The gateway serves the programs of running sessions only.";
const NO_PATH: &str = "This path is not served here: the gateway passes on calls of the session's own model API only.";

/// The household's gateway. Cheap to clone.
#[derive(Clone)]
pub struct Gateway {
    shared: Arc<Shared>,
}

struct Shared {
    addr: SocketAddr,
    edge: Edge,
    routes: Routes,
    clients: Clients,
    patience: Patience,
    stop: CancellationToken,
    serving: Mutex<Option<JoinHandle<()>>>,
}

impl Gateway {
    /// Opens the gateway on a free port of the loopback; `book` knows the sessions' tokens.
    pub fn start(book: TokenBook) -> Result<Self, BindError> {
        Self::with_patience(book, Patience::default())
    }

    pub(super) fn with_patience(book: TokenBook, patience: Patience) -> Result<Self, BindError> {
        let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let shared = Arc::new(Shared {
            addr: listener.addr(),
            // Children know it by its address alone.
            edge: Edge::new(book, &[], &[], MAX_BODY),
            routes: Routes::default(),
            clients: Clients::default(),
            patience,
            stop: CancellationToken::new(),
            serving: Mutex::default(),
        });
        let answering = shared.clone();
        let serve = move |request| answer(answering.clone(), request);
        let serving = task::spawn(task::Kind::Actor, "gateway", accept_loop(listener, shared.stop.clone(), serve));
        *shared.serving.lock().unwrap_or_else(|e| e.into_inner()) = Some(serving);
        tracing::info!(addr = %shared.addr, "model gateway open");
        Ok(Self { shared })
    }

    /// The one port that children reach their models on.
    pub fn port(&self) -> u16 {
        self.shared.addr.port()
    }

    /// Opens a session's way to its model; it is there as long as the link and the session's token are. An error: no
    /// HTTP client can be made for this endpoint.
    pub fn open(&self, session: SessionId, upstream: Upstream, meter: Meter) -> Result<Link, reqwest::Error> {
        let client = self.shared.clients.of(&upstream.endpoint)?;
        let origin = format!("http://{}", self.shared.addr);
        Ok(self.shared.routes.open(session, upstream, client, meter, &origin))
    }

    /// Closes the port.
    pub async fn stop(&self) {
        self.shared.stop.cancel();
        let serving = self.shared.serving.lock().unwrap_or_else(|e| e.into_inner()).take();
        if let Some(mut serving) = serving
            && tokio::time::timeout(LAST_WORDS, &mut serving).await.is_err()
        {
            serving.abort();
        }
    }
}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Response<Body> {
    let guess = || Family::guess(request.uri().path(), request.headers());
    if let Err(refused) = shared.edge.check(request.uri(), request.headers()) {
        return refusal(guess(), refused.status, refused.message);
    }
    let Some((grant, route)) = shared.route_of(&request) else {
        return refusal(guess(), StatusCode::UNAUTHORIZED, NO_TOKEN);
    };
    let family = route.upstream.family;
    if let Err(refused) = prove(request.extensions(), &grant) {
        return refusal(family, refused.status, refused.message);
    }
    let Some(endpoint) = family.endpoint(request.method(), request.uri().path()) else {
        return refusal(family, StatusCode::NOT_FOUND, NO_PATH);
    };
    let (parts, body) = request.into_parts();
    let asked = IncomingRequest {
        method: parts.method,
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().map(str::to_owned),
        headers: parts.headers,
        body: RequestBody::new(body, shared.edge.max_body()),
    };
    forward(route, endpoint, asked, shared.patience).await
}

impl Shared {
    /// The route of the session whose token this request brings. Brought in several places it must be the same in all.
    fn route_of(&self, request: &Request<Incoming>) -> Option<(Arc<Grant>, Arc<Route>)> {
        let tokens = headers::tokens(request.headers());
        let (first, others) = tokens.split_first()?;
        if others.iter().any(|other| other != first) {
            return None;
        }
        let grant = self.edge.grant_of(first).ok()?;
        let route = match &grant.holder {
            Holder::Session { session, .. } => self.routes.find(*session),
            Holder::Operator { .. } | Holder::Daemon | Holder::Approved { .. } => None,
        };
        Some((grant, route?))
    }
}
