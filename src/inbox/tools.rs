//! The switchboard's own tools: the way in, and the one that its classifying sessions have.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use super::handle::{HandedInBy, Inbox};
use super::sql::segments::{self, Draft};
use super::types::{FALLBACK, ROUTE_TO_BUTLER};
use tools::{Definition, Effect, Meta, Tool, ToolCall, ToolError, handler};

/// Parts of one message at most.
const MAX_PARTS: i64 = 8;

/// The tools of the switchboard.
pub fn switchboard_tools(inbox: &Inbox) -> Vec<Tool> {
    let on_desk = inbox.clone();
    let routing = inbox.clone();
    let mut tools = vec![
        Tool::new(super::envelope::definition(), handler(move |call| ingest(call, on_desk.clone()))),
        Tool::new(route_to_butler(), handler(move |call| route(call, routing.clone()))),
    ];
    tools.extend(super::triage::tools(inbox));
    tools.extend(super::contacts::tools(inbox));
    tools.extend(super::connectors::tools());
    tools.extend(super::backfill::tools());
    tools.extend(super::mail::tools(inbox));
    tools.extend(super::extractions::tools());
    tools.extend(super::requests::tools(inbox));
    tools
}

fn route_to_butler() -> &'static Arc<Definition> {
    static DEFINITION: OnceLock<Arc<Definition>> = OnceLock::new();
    DEFINITION.get_or_init(|| {
        let schema = json!({"type": "object", "additionalProperties": false, "required": ["butler", "prompt"],
            "properties": {
                "butler": {"type": "string", "minLength": 1, "description": "Name of the butler whose work it is"},
                "prompt": {"type": "string", "minLength": 1, "maxLength": 131_072,
                           "description": "What that butler shall deal with, in the person's own words"},
                "context": {"type": "string", "maxLength": 16384,
                            "description": "What it must know of the conversation to understand that"}}});
        let description = "Hand the message, or one part of it, to the butler whose work it is.";
        let meta = Meta::write(Effect::Idempotent).labelled();
        Arc::new(Definition::new(ROUTE_TO_BUTLER, description, schema, meta).expect("a schema in the source is right"))
    })
}

async fn ingest(call: ToolCall, inbox: Inbox) -> Result<Value, ToolError> {
    if call.session().is_some() {
        return Err(ToolError::refused("forbidden", "Messages come in from outside, not out of a session."));
    }
    let by = HandedInBy::Token(&call.caller.grant);
    match inbox.ingest(&call.context().tenant_id, (*call.args).clone(), by).await {
        Ok(accepted) => Ok(json!(accepted)),
        Err(e) if e.retry_after().is_none() => Err(ToolError::refused(e.code(), e.to_string())),
        Err(e) => {
            let mut refusal = json!({"status": "error", "error": e.to_string(), "code": e.code()});
            refusal["retry_after_s"] = json!(e.retry_after());
            Ok(refusal)
        }
    }
}

/// Drafts a part. Which message it is, the session's context says.
async fn route(call: ToolCall, inbox: Inbox) -> Result<Value, ToolError> {
    let Some(session) = call.session() else {
        return Err(ToolError::refused("forbidden", "Only a session that classifies a message routes it."));
    };
    let butler = call.text("butler").unwrap_or_default();
    if let Some(names) = inbox.butlers().others_than(butler) {
        let message = format!(
            "There is no butler `{butler}` to route to; there are: {}. In doubt take {FALLBACK}.",
            names.join(", ")
        );
        return Err(ToolError::refused("unknown_butler", message));
    }
    let request = call.context().request_id.0;
    let (prompt, context) = (call.text("prompt").unwrap_or_default(), call.args.get("context"));
    let draft = Draft { session: session.0, butler, prompt, context, most: MAX_PARTS };
    if segments::draft(&call, request, draft).await? {
        return Ok(json!({"status": "ok", "butler": butler}));
    }
    Err(ToolError::refused(
        "nothing_to_route",
        format!("There is no message to route here, or this part is routed already, or it has {MAX_PARTS} parts."),
    ))
}
