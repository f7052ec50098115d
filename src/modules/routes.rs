//! HTTP routes of modules: declared with the scope that a token needs, served by the admin port while their butler is
//! up.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use serde_json::{Value, json};
use tokio_util::task::TaskTracker;

use access::GrantScope;
use base::redact::household;
use base::{TenantId, task};
use tools::Gate;

/// Requests that are being answered when a butler stops get this long.
const LAST_REQUESTS: Duration = Duration::from_secs(2);

/// The admin port's own paths below `/api`; a module has none that begins like one of them.
const RESERVED: [&str; 4] = ["/api/ingest", "/api/inbox", "/api/chat", "/api/butlers"];

/// A route as a module's manifest declares it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RouteSpec {
    pub method: Method,
    /// Below `/hooks/<module>/` or `/api/`, such as `/api/journal/{day}`; a part in braces fits any one part of a path.
    pub path: String,
    pub proof: RouteProof,
}

/// What shows that a request may be answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RouteProof {
    /// A token that is good for this.
    Token(GrantScope),
    /// The handler asks for one that the channel knows, such as a signature, before it does anything else. Below `/hooks`
    /// alone; the request is the household's owner's, and comes from anywhere.
    Own,
}

impl RouteSpec {
    pub fn new(method: Method, path: impl Into<String>, scope: GrantScope) -> Self {
        Self { method, path: path.into(), proof: RouteProof::Token(scope) }
    }

    /// One whose requests bring a proof that the handler asks for.
    pub fn open(method: Method, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), proof: RouteProof::Own }
    }

    /// What is wrong with it as a route of this module.
    fn check(&self, module: &str) -> Result<(), RouteError> {
        let path = &self.path;
        let below = |prefix: &str| path.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty());
        // What stands first below `/api` is plain, so that no route fits the port's own paths.
        let open = self.proof == RouteProof::Own;
        let own = below(&format!("/hooks/{module}/")) || below("/api/") && !path.starts_with("/api/{") && !open;
        let whole = path
            .split('/')
            .skip(1)
            .all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.{}".contains(&b)));
        if !own || !whole {
            return Err(RouteError::Path { module: module.to_owned(), path: path.clone() });
        }
        if RESERVED.iter().any(|own| path == own || path.starts_with(&format!("{own}/"))) {
            return Err(RouteError::Taken { path: path.clone(), owner: "butlerd's core".to_owned() });
        }
        Ok(())
    }

    /// The parts in braces, where the path fits.
    fn fit(&self, path: &str) -> Option<BTreeMap<String, String>> {
        let (mut own, mut given) = (self.path.split('/'), path.split('/'));
        let mut found = BTreeMap::new();
        loop {
            match (own.next(), given.next()) {
                (None, None) => return Some(found),
                (Some(own), Some(given)) => match own.strip_prefix('{').and_then(|own| own.strip_suffix('}')) {
                    Some(name) if !given.is_empty() => {
                        found.insert(name.to_owned(), given.to_owned());
                    }
                    _ if own == given => {}
                    _ => return None,
                },
                _ => return None,
            }
        }
    }

    /// Whether one path could be both.
    fn meets(&self, other: &Self) -> bool {
        let open = |part: &str| part.starts_with('{');
        let (own, others) = (self.path.split('/'), other.path.split('/'));
        self.method == other.method
            && own.clone().count() == others.clone().count()
            && own.zip(others).all(|(a, b)| a == b || open(a) || open(b))
    }
}

/// Why a module's routes can't be served.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    #[error("the route {path} is neither below /hooks/{module}/ nor below /api/, or it is not a plain path")]
    Path { module: String, path: String },
    #[error("the route {path} belongs to {owner}")]
    Taken { path: String, owner: String },
    #[error("it brings the route {method} {path}, which its manifest does not declare")]
    Undeclared { method: Method, path: String },
}

/// A request that may be answered: its token was good for the route's scope and reaches the butler, or the route is open and
/// its handler looks for a proof.
#[derive(Clone, Debug)]
pub struct RouteRequest {
    pub method: Method,
    pub path: String,
    /// The parts in braces of the route's path, as they were sent.
    pub parts: BTreeMap<String, String>,
    pub query: Option<String>,
    /// Without the token.
    pub headers: HeaderMap,
    pub body: Bytes,
    /// The token's tenant, or the owner: on whose behalf the request is.
    pub tenant: TenantId,
}

/// What a module answers.
#[derive(Clone, Debug)]
pub struct RouteAnswer {
    pub status: StatusCode,
    pub content_type: &'static str,
    pub body: Bytes,
    /// After how many seconds another try makes sense.
    pub retry_after: Option<u32>,
}

impl RouteAnswer {
    /// JSON, in which secrets of the household are covered.
    pub fn json(status: StatusCode, value: &Value) -> Self {
        let mut value = value.clone();
        household().clean_json(&mut value);
        Self { status, content_type: "application/json", body: Bytes::from(value.to_string()), retry_after: None }
    }

    /// An error as the admin port writes it: a sentence and a stable code.
    pub fn error(status: StatusCode, code: &str, sentence: &str) -> Self {
        Self::json(status, &json!({"status": "error", "error": sentence, "code": code}))
    }

    /// The same, telling when to come again.
    pub fn with_retry_after(self, seconds: Option<u32>) -> Self {
        Self { retry_after: seconds, ..self }
    }
}

/// Answers the requests of a route.
///
/// ```
/// use modules::{RouteAnswer, RouteHandler, RouteRequest};
/// use http::StatusCode;
///
/// struct Hello;
///
/// #[async_trait::async_trait]
/// impl RouteHandler for Hello {
///     async fn answer(&self, request: RouteRequest) -> RouteAnswer {
///         match request.parts.get("name") {
///             Some(name) => RouteAnswer::json(StatusCode::OK, &serde_json::json!({"hello": name})),
///             None => RouteAnswer::error(StatusCode::BAD_REQUEST, "no_name", "Say whom to greet."),
///         }
///     }
/// }
/// ```
#[async_trait]
pub trait RouteHandler: Send + Sync {
    /// Of an open route: whether the headers bring the proof, or it is in the body. Asked before the body is read.
    fn may_prove(&self, _: &HeaderMap) -> bool {
        true
    }
    /// Runs to its end, also when the client goes away. A panic is answered with 500.
    async fn answer(&self, request: RouteRequest) -> RouteAnswer;
}

/// A declared route with what answers it.
#[derive(Clone)]
pub struct Route {
    pub spec: RouteSpec,
    pub handler: Arc<dyn RouteHandler>,
}

/// The routes of all modules of all butlers that are up. Clones share it.
#[derive(Clone, Default)]
pub struct RouteTable {
    served: Arc<RwLock<Vec<Served>>>,
}

#[derive(Clone)]
struct Served {
    butler: String,
    gate: Gate,
    route: Route,
    requests: TaskTracker,
}

/// A route that fits a request.
pub struct Matched {
    served: Served,
    parts: BTreeMap<String, String>,
}

/// What the table has for a path.
pub enum Found {
    Route(Matched),
    /// The path is there, for these methods.
    Methods(Vec<Method>),
    Nothing,
}

impl RouteTable {
    /// Serves a module's routes from now on; all of them, or none.
    pub(super) fn serve(&self, butler: &str, gate: &Gate, routes: Vec<Route>) -> Result<(), RouteError> {
        let module = gate.module.to_string();
        let mut served = self.served.write().unwrap_or_else(|e| e.into_inner());
        for (n, route) in routes.iter().enumerate() {
            route.spec.check(&module)?;
            let taken = |owner: String| RouteError::Taken { path: route.spec.path.clone(), owner };
            if let Some(other) = served.iter().find(|other| other.route.spec.meets(&route.spec)) {
                return Err(taken(format!("the module `{}` of {}", other.gate.module, other.butler)));
            }
            if routes[..n].iter().any(|other| other.spec.meets(&route.spec)) {
                return Err(taken("the same module".to_owned()));
            }
        }
        let requests = TaskTracker::new();
        served.extend(routes.into_iter().map(|route| Served {
            butler: butler.to_owned(),
            gate: gate.clone(),
            route,
            requests: requests.clone(),
        }));
        Ok(())
    }

    /// Serves the butler's routes no more. Requests under way are finished, within 2 s.
    pub async fn withdraw(&self, butler: &str) {
        let gone: Vec<Served> = {
            let mut served = self.served.write().unwrap_or_else(|e| e.into_inner());
            served.extract_if(.., |route| route.butler == butler).collect()
        };
        let ended = async {
            for route in &gone {
                route.requests.close();
                route.requests.wait().await;
            }
        };
        if tokio::time::timeout(LAST_REQUESTS, ended).await.is_err() {
            tracing::warn!(butler, "requests to its modules are still being answered");
        }
    }

    /// The route for a request.
    pub fn find(&self, method: &Method, path: &str) -> Found {
        let served = self.served.read().unwrap_or_else(|e| e.into_inner());
        let fitting = || served.iter().filter_map(|one| Some((one, one.route.spec.fit(path)?)));
        if let Some((one, parts)) = fitting().find(|(one, _)| one.route.spec.method == *method) {
            return Found::Route(Matched { served: one.clone(), parts });
        }
        let methods: Vec<Method> = fitting().map(|(one, _)| one.route.spec.method.clone()).collect();
        if methods.is_empty() { Found::Nothing } else { Found::Methods(methods) }
    }
}

impl Matched {
    /// The butler whose module answers.
    pub fn butler(&self) -> &str {
        &self.served.butler
    }

    /// Whether the headers bring the proof that an open route asks for.
    pub fn may_prove(&self, headers: &HeaderMap) -> bool {
        self.served.route.handler.may_prove(headers)
    }

    pub fn proof(&self) -> RouteProof {
        self.served.route.spec.proof
    }

    /// Has the module answer; `request.parts` is filled in here.
    pub async fn answer(self, mut request: RouteRequest) -> RouteAnswer {
        let Served { butler, gate, route, requests } = self.served;
        let module = gate.module.clone();
        let away = |code, sentence: String| RouteAnswer::error(StatusCode::SERVICE_UNAVAILABLE, code, &sentence);
        if gate.failed.get().is_some() {
            return away("module_failed", format!("The module `{module}` of {butler} failed; see: butlerd status"));
        }
        if !gate.enabled.load(std::sync::atomic::Ordering::Acquire) {
            return away("module_disabled", format!("The module `{module}` of {butler} is switched off."));
        }
        request.parts = self.parts;
        let answering = requests.track_future(async move { route.handler.answer(request).await });
        // A task of its own: neither a client that goes away nor a panic takes anything along.
        match task::spawn(task::Kind::Request, "module-route", answering).await {
            Ok(answer) => answer,
            Err(_) => {
                let why = format!("The module `{module}` of {butler} failed to answer; the daemon's log says where.");
                RouteAnswer::error(StatusCode::INTERNAL_SERVER_ERROR, "internal", &why)
            }
        }
    }
}

/// Whether the manifest declares each of the routes.
pub(super) fn check_declared(routes: &[Route], declared: &[RouteSpec]) -> Result<(), RouteError> {
    match routes.iter().find(|route| !declared.contains(&route.spec)) {
        Some(route) => Err(RouteError::Undeclared { method: route.spec.method.clone(), path: route.spec.path.clone() }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    #[async_trait]
    impl RouteHandler for Nothing {
        async fn answer(&self, request: RouteRequest) -> RouteAnswer {
            assert!(request.query.is_none(), "asked to panic");
            RouteAnswer::json(StatusCode::OK, &json!(request.parts))
        }
    }

    fn route(path: &str) -> Route {
        Route { spec: RouteSpec::new(Method::GET, path, GrantScope::Read), handler: Arc::new(Nothing) }
    }

    fn gate(module: &str) -> Gate {
        Gate { module: module.into(), enabled: Arc::new(true.into()), failed: Arc::default() }
    }

    fn request() -> RouteRequest {
        RouteRequest {
            method: Method::GET,
            path: String::new(),
            parts: BTreeMap::new(),
            query: None,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            tenant: TenantId::owner(),
        }
    }

    #[test]
    fn paths_are_a_modules_own_or_nobodys() {
        let table = RouteTable::default();
        for wrong in ["/hooks/other/x", "/hooks/probe/", "/rpc", "/api/", "/api//x", "/api/x/", "/api/a?b", "/api/{x}"]
        {
            let refused = table.serve("tester", &gate("probe"), vec![route(wrong)]);
            assert!(matches!(refused, Err(RouteError::Path { .. })), "{wrong}");
        }
        for taken in ["/api/chat", "/api/chat/{id}", "/api/inbox/x"] {
            let refused = table.serve("tester", &gate("probe"), vec![route(taken)]);
            assert!(matches!(refused, Err(RouteError::Taken { .. })), "{taken}");
        }
        table.serve("tester", &gate("probe"), vec![route("/api/probe/{name}")]).unwrap();
        let refused = table.serve("other", &gate("journal"), vec![route("/api/x"), route("/api/probe/mine")]);
        assert!(refused.unwrap_err().to_string().contains("the module `probe` of tester"));
        assert!(matches!(table.find(&Method::GET, "/api/x"), Found::Nothing), "all routes of a module, or none");
    }

    #[tokio::test]
    async fn a_route_answers_while_it_is_served() {
        let (table, gate) = (RouteTable::default(), gate("probe"));
        table.serve("tester", &gate, vec![route("/api/probe/{name}")]).unwrap();
        let found = |path: &str| match table.find(&Method::GET, path) {
            Found::Route(matched) => Some(matched),
            _ => None,
        };
        let answer = found("/api/probe/rose").unwrap().answer(request()).await;
        assert_eq!((answer.status, &answer.body[..]), (StatusCode::OK, &br#"{"name":"rose"}"#[..]));
        assert!(found("/api/probe").is_none() && found("/api/probe/").is_none() && found("/api/probe/a/b").is_none());
        assert!(matches!(table.find(&Method::POST, "/api/probe/rose"), Found::Methods(m) if m == [Method::GET]));
        let panics = RouteRequest { query: Some("panic".to_owned()), ..request() };
        assert_eq!(found("/api/probe/x").unwrap().answer(panics).await.status, StatusCode::INTERNAL_SERVER_ERROR);
        gate.enabled.store(false, std::sync::atomic::Ordering::Release);
        let off = found("/api/probe/x").unwrap().answer(request()).await;
        assert_eq!(off.status, StatusCode::SERVICE_UNAVAILABLE);
        table.withdraw("tester").await;
        assert!(found("/api/probe/rose").is_none());
    }
}
