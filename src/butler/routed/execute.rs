//! `route.execute`: the one way in which work is handed to a butler, open to the house itself alone.

use std::sync::{Arc, LazyLock};
use std::time::Instant;

use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::sql;
use inbox::{ROUTE_EXECUTE, ROUTE_RESPONSE_SCHEMA, ROUTE_SCHEMA, Route};
use tools::{Definition, Effect, Meta, Tool, ToolCall, ToolError, handler};

/// The tool; `wake` is told that something is there.
pub fn route_execute(wake: Arc<Notify>) -> Tool {
    static DEFINITION: LazyLock<Arc<Definition>> = LazyLock::new(|| {
        let schema = json!({"type": "object",
            "required": ["schema_version", "request_context", "input", "subrequest", "target", "kind"],
            "properties": {"schema_version": {"type": "string", "enum": [ROUTE_SCHEMA]},
                           "request_context": {"type": "object"}, "input": {"type": "object"},
                           "subrequest": {"type": "object"}, "target": {"type": "object"}}});
        let meta = Meta { internal: true, sensitive: vec!["input".into()], ..Meta::write(Effect::Idempotent) };
        let description = "Take over a part of a message (route.v1). Accepted once it is stored.";
        Arc::new(Definition::new(ROUTE_EXECUTE, description, schema, meta).expect("a schema in the source is right"))
    });
    Tool::new(&DEFINITION, handler(move |call| execute(call, wake.clone())))
}

async fn execute(call: ToolCall, wake: Arc<Notify>) -> Result<Value, ToolError> {
    let begun = Instant::now();
    if !call.caller.is_daemon() {
        return Err(ToolError::refused("forbidden", "Only the switchboard hands work over."));
    }
    let route: Route = call.parse()?;
    if route.target.butler != call.butler.as_str() {
        let message = format!("This is for {}, and here is {}.", route.target.butler, call.butler);
        return Err(ToolError::refused("wrong_butler", message));
    }
    let (id, request) = (route.subrequest.segment_id, route.request_context.request_id.0);
    sql::accept_route(&call, &route).await?;
    base::crash::point("route.committed");
    wake.notify_one();
    Ok(
        json!({"schema_version": ROUTE_RESPONSE_SCHEMA, "request_context": {"request_id": request}, "status": "accepted",
              "inbox_id": id, "timing": {"duration_ms": u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX)}}),
    )
}
