//! `tool_find` and `tool_call`: the way to tools that a session was not shown.

use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value, json};

use super::call::{ToolCall, ToolError};
use super::definition::{Definition, Effect, Meta};
use super::finder::{Finder, TOOL_CALL, TOOL_FIND, as_told};
use super::tool::{Tool, handler};
use access::Detail;

/// So many tools are shown for one question.
const MOST: usize = 8;

/// The two tools. `finder` is there once all of the butler's tools are known.
pub fn finding_tools(finder: &Arc<OnceLock<Arc<Finder>>>) -> Vec<Tool> {
    static DEFS: OnceLock<[Arc<Definition>; 2]> = OnceLock::new();
    let [find_def, call_def] = DEFS.get_or_init(definitions);
    let finder = finder.clone();
    vec![
        Tool::new(find_def, handler(move |call| find(call, finder.clone()))),
        Tool::new(call_def, handler(|_| async { Err(unnamed()) })),
    ]
}

fn definitions() -> [Arc<Definition>; 2] {
    let define = |name: &str, description: &str, properties: Value, required: Value, meta: Meta| {
        let schema =
            json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
        Arc::new(Definition::new(name, description, schema, meta).expect("a schema in the source is right"))
    };
    // Schemas are public: what they show is in the program and the roster's files.
    let public = Meta { reads_private: false, ..Meta::read() };
    [
        define(
            TOOL_FIND,
            "Find tools that are not shown here, by what you want to do: you have many more, so look before you say that you can't.",
            json!({"query": {"type": "string", "minLength": 1, "maxLength": 500, "description": "What you want to do, in a few words"}}),
            json!(["query"]),
            public.clone(),
        ),
        define(
            TOOL_CALL,
            "Call a tool that tool_find told of.",
            json!({"name": {"type": "string", "description": "Its name"},
                   "arguments": {"type": "object", "description": "Its arguments, as its inputSchema says"}}),
            json!(["name"]),
            // The call that it stands for has the rights and effects of its own.
            Meta { effect: Some(Effect::Once), ..public },
        ),
    ]
}

async fn find(call: ToolCall, finder: Arc<OnceLock<Arc<Finder>>>) -> Result<Value, ToolError> {
    let finder = finder.get().ok_or_else(|| ToolError::Internal("the butler's tools are not known yet".into()))?;
    let (grant, told) = (&call.caller.grant, call.caller.grant.shown().chosen());
    let knows = |name: &str| told.as_ref().is_some_and(|told| told.contains_key(name));
    // All of one that it knows little of, if it says so.
    let may = |name: &str, named: bool| grant.allows(name) && (named || !knows(name));
    let found = finder.find(&may, call.text("query").unwrap_or_default(), MOST);
    let found = found.map_err(|e| ToolError::Internal(e.to_string()))?;
    grant.shown().add(found.iter().map(|tool| tool.name.clone()));
    let tools: Vec<Value> = found.into_iter().map(|tool| as_told(tool, Detail::Whole)).collect();
    Ok(json!({"tools": tools, "how": "Call one with tool_call(name, arguments)."}))
}

/// What a call of [`TOOL_CALL`] stands for; any other call stands for itself. `may`: whether the caller may call a tool.
///
/// # Errors
/// It names no tool that may be called, or its arguments are no object: what the caller is told.
pub fn meant(
    name: String,
    args: Map<String, Value>,
    may: impl Fn(&str) -> bool,
) -> Result<(String, Map<String, Value>), ToolError> {
    if name != TOOL_CALL {
        return Ok((name, args));
    }
    let named = args.get("name").and_then(Value::as_str).filter(|name| *name != TOOL_CALL).ok_or_else(unnamed)?;
    if !may(named) {
        let why = format!("There is no tool named `{named}`. tool_find tells which there are.");
        return Err(ToolError::refused("no_such_tool", why));
    }
    let inner = match args.get("arguments") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(inner)) => inner.clone(),
        // Some models write the object as text.
        Some(Value::String(text)) => serde_json::from_str(text).map_err(|_| not_an_object())?,
        Some(_) => return Err(not_an_object()),
    };
    Ok((named.to_owned(), inner))
}

fn unnamed() -> ToolError {
    ToolError::refused(
        "invalid_arguments",
        "tool_call needs the name of a tool, as tool_find tells it, and its arguments.",
    )
}

fn not_an_object() -> ToolError {
    ToolError::refused("invalid_arguments", "The arguments of tool_call are an object, as the tool's inputSchema says.")
}
