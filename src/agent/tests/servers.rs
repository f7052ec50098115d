//! MCP servers to test against.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use base::task::{self, Kind};

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Query, `Authorization`, `X-Extra` and MCP session id of one request.
type Seen = (String, String, String, String);

#[derive(Default)]
struct State {
    seen: Mutex<Vec<Seen>>,
    calls: Mutex<Vec<(String, Value)>>,
    stored: Mutex<Value>,
    drop_connections: CancellationToken,
}

/// A server on the SDK, with a handful of tools. It stops when this is dropped.
pub struct Tools {
    addr: SocketAddr,
    state: Arc<State>,
    _stop: DropGuard,
}

impl Tools {
    pub async fn start() -> Self {
        let state = Arc::new(State::default());
        let handler = Handler { state: state.clone() };
        let service = StreamableHttpService::new(
            move || Ok(handler.clone()),
            Arc::new(LocalSessionManager::default()),
            Default::default(),
        );
        let (seen, stop) = (state.clone(), state.drop_connections.clone());
        let addr = serve(stop.clone(), move |request: Request<Incoming>| {
            let header = |name: &str| {
                let value = request.headers().get(name).and_then(|value| value.to_str().ok());
                value.unwrap_or_default().to_owned()
            };
            let query = request.uri().query().unwrap_or_default().to_owned();
            let entry = (query.clone(), header("authorization"), header("x-extra"), header("mcp-session-id"));
            seen.seen.lock().unwrap().push(entry);
            let service = service.clone();
            async move {
                if query == "deny=1" {
                    return plain(401, "");
                }
                service.handle(request).await.map(|body| body.boxed_unsync())
            }
        })
        .await;
        Self { addr, state, _stop: stop.drop_guard() }
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp?runtime_session_id=s1", self.addr)
    }

    pub fn calls(&self) -> Vec<(String, Value)> {
        self.state.calls.lock().unwrap().clone()
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.state.seen.lock().unwrap().clone()
    }
}

#[derive(Clone)]
struct Handler {
    state: Arc<State>,
}

const NAMES: [&str; 9] = [
    "state_set",
    "state_get",
    "module.states",
    "refuse",
    "break",
    "hang",
    "drop_me",
    "measurement_log",
    "measurement_trend",
];

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({"type": "object"}).as_object().unwrap().clone();
        let tools = NAMES.iter().map(|name| Tool::new(*name, "a tool", schema.clone())).collect();
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(params.arguments.unwrap_or_default());
        self.state.calls.lock().unwrap().push((params.name.to_string(), arguments.clone()));
        let text = |value: Value| CallToolResult::success(vec![ContentBlock::text(value.to_string())]);
        let result = match params.name.as_ref() {
            "state_set" => {
                *self.state.stored.lock().unwrap() = arguments;
                text(json!({"status": "ok"}))
            }
            "state_get" => text(self.state.stored.lock().unwrap().clone()),
            "module.states" => text(json!({"modules": []})),
            "measurement_log" => text(json!({"id": 7, "value": arguments["value"]})),
            "measurement_trend" => text(json!({"days": 30, "count": 4, "first": 82.6, "last": 81.4, "average": 82.0,
                "change": -1.2, "direction": "falling"})),
            "refuse" => {
                let refusal = "{\"status\":\"error\",\"error\":\"not today\"}";
                CallToolResult::error(vec![ContentBlock::text(refusal)])
            }
            "hang" => std::future::pending().await,
            "drop_me" => {
                self.state.drop_connections.cancel();
                std::future::pending().await
            }
            _ => return Err(ErrorData::internal_error("wires crossed", None)),
        };
        Ok(result.into())
    }
}

/// A server by hand that speaks 2025-06-18 with plain JSON and has one tool, `echo`.
pub struct Plain {
    addr: SocketAddr,
    methods: Arc<Mutex<Vec<String>>>,
    _stop: DropGuard,
}

impl Plain {
    pub async fn start() -> Self {
        let methods: Arc<Mutex<Vec<String>>> = Arc::default();
        let (log, stop) = (methods.clone(), CancellationToken::new());
        let addr = serve(stop.clone(), move |request: Request<Incoming>| {
            let log = log.clone();
            async move {
                if request.method() != http::Method::POST {
                    return plain(405, "");
                }
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let message: Value = serde_json::from_slice(&body).unwrap();
                let method = message["method"].as_str().unwrap_or_default().to_owned();
                log.lock().unwrap().push(method.clone());
                let result = match method.as_str() {
                    "initialize" => json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                        "serverInfo": {"name": "plain", "version": "1"}}),
                    "tools/list" => json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}),
                    "tools/call" => json!({"content":
                        [{"type": "text", "text": message["params"]["arguments"].to_string()}]}),
                    _ if message.get("id").is_none() => return plain(202, ""),
                    _ => {
                        let error = json!({"code": -32601, "message": "no such method"});
                        return plain(200, &json!({"jsonrpc": "2.0", "id": message["id"], "error": error}).to_string());
                    }
                };
                plain(200, &json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string())
            }
        })
        .await;
        Self { addr, methods, _stop: stop.drop_guard() }
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.addr)
    }

    pub fn methods(&self) -> Vec<String> {
        self.methods.lock().unwrap().clone()
    }
}

fn plain(status: u16, text: &str) -> Response<Body> {
    let body = Full::new(Bytes::from(text.to_owned())).boxed_unsync();
    Response::builder().status(status).header("content-type", "application/json").body(body).unwrap()
}

/// Serves `handle` on a free port until `stop`, which also tears off the connections.
async fn serve<F, R>(stop: CancellationToken, handle: F) -> SocketAddr
where
    F: Fn(Request<Incoming>) -> R + Send + Sync + 'static,
    R: Future<Output = Response<Body>> + Send + 'static,
{
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let addr = listener.local_addr().unwrap();
    let handle = Arc::new(handle);
    task::spawn(Kind::Actor, "test server", async move {
        loop {
            let Some(accepted) = stop.run_until_cancelled(listener.accept()).await else { return };
            let (stream, _) = accepted.unwrap();
            stream.set_nodelay(true).unwrap();
            let (handle, stop) = (handle.clone(), stop.clone());
            task::spawn(Kind::Request, "test server", async move {
                let service = service_fn(move |request| {
                    let response = handle(request);
                    async move { Ok::<_, Infallible>(response.await) }
                });
                let builder = hyper::server::conn::http1::Builder::new();
                stop.run_until_cancelled(builder.serve_connection(TokioIo::new(stream), service)).await;
            });
        }
    });
    addr
}
