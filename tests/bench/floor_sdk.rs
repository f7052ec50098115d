//! Floor a: the bare protocol library with one tool that does nothing, served as butlerd serves its tools (stateless,
//! JSON answers), without identity, audit or database.

use std::convert::Infallible;
use std::sync::Arc;

use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rmcp::ErrorData;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use base::task;

use crate::Failed;

#[derive(Clone)]
struct Nothing(Arc<Tool>);

impl ServerHandler for Nothing {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("floor", "0"))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        (name == "noop").then(|| (*self.0).clone())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(vec![(*self.0).clone()]))
    }

    async fn call_tool(
        &self,
        _: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        Ok(CallToolResult::success(vec![ContentBlock::text("{\"status\":\"ok\"}")]).into())
    }
}

/// Says its port and serves until its input is closed.
pub async fn run() -> Result<(), Failed> {
    let schema = serde_json::json!({"type": "object", "properties": {"key": {"type": "string"}}});
    let serde_json::Value::Object(schema) = schema else { return Err("a schema is an object".into()) };
    let nothing = Nothing(Arc::new(Tool::new("noop", "Does nothing.", Arc::new(schema))));
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .disable_allowed_hosts();
    let manager = Arc::new(NeverSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(nothing.clone()), manager, config);
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    println!("{}", listener.local_addr()?.port());
    let mut input = tokio::io::stdin();
    let mut byte = [0u8; 1];
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted?.0,
            _ = input.read(&mut byte) => return Ok(()),
        };
        stream.set_nodelay(true)?;
        let service = service.clone();
        let answer = service_fn(move |request| {
            let service = service.clone();
            async move { Ok::<_, Infallible>(service.handle(request).await) }
        });
        let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
        task::spawn(task::Kind::Request, "floor", async move {
            // A client that goes away is no error here.
            let _ = connection.await;
        });
    }
}
