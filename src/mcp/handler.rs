//! MCP's methods over a butler's tools.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use rmcp::ErrorData;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, Implementation, ListToolsResult, PaginatedRequestParams, ProtocolVersion,
    ServerCapabilities, ServerConfig, SubscriptionFilter, Tool as McpTool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::result::tool_result;
use access::{Caller, Detail};
use base::task;
use tools::{Definition, Effect, Reply, TOOL_FIND, ToolSet, meant};

/// What all requests to one butler share.
pub(super) struct Face {
    pub tools: ToolSet,
    /// Names of tools that no token opens.
    pub internal: Vec<String>,
    /// Fires when the butler begins to stop: who listens for changes is told that there will be none.
    pub draining: CancellationToken,
}

impl Face {
    pub fn new(tools: ToolSet, draining: CancellationToken) -> Self {
        let internal = tools.definitions().filter(|def| def.meta.internal).map(|def| def.name.clone()).collect();
        Self { tools, internal, draining }
    }
}

/// A tool as a client lists it.
fn listed(def: &Definition, detail: Detail) -> McpTool {
    let hints = ToolAnnotations::new()
        .read_only(def.effect() == Effect::None)
        .idempotent(def.effect() != Effect::Once)
        .destructive(def.meta.destructive)
        .open_world(def.meta.sends_out);
    let description = def.told_description(detail).to_owned();
    McpTool::new(def.name.clone(), description, Arc::new(def.told_schema(detail))).with_annotations(hints)
}

/// One request's view of a butler.
#[derive(Clone)]
pub(super) struct Conn(pub Arc<Face>);

/// Who calls: put into the request by the door.
fn caller(context: &RequestContext<RoleServer>) -> Result<Caller, ErrorData> {
    context
        .extensions
        .get::<http::request::Parts>()
        .and_then(|parts| parts.extensions.get::<Caller>())
        .cloned()
        .ok_or_else(|| ErrorData::internal_error("the request came in without an identity", None))
}

/// How a call ended.
pub(super) enum Ended {
    Replied(Reply),
    /// There is no tool of this name.
    NoTool(String),
    /// It panicked; the log says where.
    Failed,
}

impl Conn {
    /// Makes one call. `cancelled` fires when its client gives it up; so does dropping this.
    pub async fn run(
        &self,
        name: String,
        args: Map<String, Value>,
        caller: Caller,
        cancelled: CancellationToken,
    ) -> Ended {
        let tools = self.0.tools.clone();
        // When the client goes away this future may be dropped, and the token with it.
        let gone = cancelled.clone().drop_guard();
        let reads = tools.effect(&name) == Some(Effect::None);
        let call = async move { tools.call(&name, args, caller, cancelled).await.ok_or(name) };
        let ended = if reads {
            AssertUnwindSafe(call).catch_unwind().await.inspect_err(|_| tracing::error!("a tool panicked")).ok()
        } else {
            // A call with an effect must reach its end whatever becomes of the client, so it runs as a task of its own.
            task::spawn(task::Kind::Request, "tool-call", call).await.ok()
        };
        gone.disarm();
        match ended {
            Some(Ok(reply)) => Ended::Replied(reply),
            Some(Err(name)) => Ended::NoTool(name),
            None => Ended::Failed,
        }
    }
}

impl ServerHandler for Conn {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build())
            .with_server_info(Implementation::new(self.0.tools.butler().as_str(), env!("CARGO_PKG_VERSION")))
    }

    fn get_tool(&self, name: &str) -> Option<McpTool> {
        let found = self.0.tools.definition(name).filter(|def| !def.meta.internal);
        found.map(|def| listed(&def, Detail::Whole))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let caller = caller(&context)?;
        caller.grant.sees_tools();
        let tools = &self.0.tools;
        let may = |def: &Arc<Definition>| !def.meta.internal && caller.grant.allows(&def.name);
        let all = match caller.grant.shown().chosen() {
            None => tools.definitions().filter(may).map(|def| listed(&def, Detail::Whole)).collect(),
            Some(chosen) => {
                let told = |(name, detail): (String, _)| Some((tools.definition(&name)?, detail));
                let told = chosen.into_iter().filter_map(told).filter(|(def, _)| may(def));
                told.map(|(def, detail)| listed(&def, detail)).collect()
            }
        };
        Ok(ListToolsResult::with_all_items(all))
    }

    /// What a client can listen for in the newest protocol; older ones are told along with a call's answer.
    fn accepted_subscription_filter(&self, _: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        (!self.0.draining.is_cancelled()).then(|| SubscriptionFilter::builder().tools_list_changed().build())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        // Kept: what a person is told of never changes, and is listened to until the end all the same.
        let shown = caller(context.request_context())?.grant.shown();
        let mut changes = shown.follow();
        let sink = context.sink();
        let told = async { while changes.changed().await.is_ok() && sink.notify_tool_list_changed().await.is_ok() {} };
        tokio::select! {
            () = told => {}
            () = context.cancelled() => {}
            () = self.0.draining.cancelled() => {}
        }
        Ok(())
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let caller = caller(&context)?.from_span(context.meta.get_traceparent());
        let may = |name: &str| caller.grant.allows(name) && !self.0.tools.is_internal(name);
        // The door turns such a call away with 403; this holds for a body that the door read differently.
        if !may(&params.name) {
            return Err(ErrorData::invalid_params(format!("there is no tool `{}`", params.name), None));
        }
        let known = |name: &str| may(name) && self.0.tools.has(name);
        let (name, args) = meant(params.name.into_owned(), params.arguments.unwrap_or_default(), known);
        let initialized = context.protocol_version().is_none_or(|version: ProtocolVersion| version.has_initialize());
        let shown = (name == TOOL_FIND && initialized).then(|| caller.grant.shown().follow());
        let ended = self.run(name, args, caller, context.ct.clone()).await;
        if shown.is_some_and(|shown| shown.has_changed().unwrap_or(false)) {
            // A client that does not follow it has `tool_call`.
            let _ = context.peer.notify_tool_list_changed().await;
        }
        match ended {
            Ended::Replied(reply) => Ok(tool_result(&reply.json, reply.is_error, reply.structured).into()),
            Ended::NoTool(name) => Err(ErrorData::invalid_params(format!("there is no tool `{name}`"), None)),
            Ended::Failed => Err(ErrorData::internal_error("the tool failed; the daemon's log says why", None)),
        }
    }
}
