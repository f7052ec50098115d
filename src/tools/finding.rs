//! `tool_find` and `tool_call`: the way to tools that a session was not shown.

use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value, json};

use super::call::{ToolCall, ToolError};
use super::definition::{Definition, Effect, Meta};
use super::finder::{TOOL_CALL, TOOL_FIND, as_told};
use super::offered::{Offered, OfferedTools};
use super::tool::{Tool, handler};
use access::Detail;

/// So many of the tools that fit best are told whole.
const WHOLE: usize = 5;
/// So many that come next are told with a sentence. All others are named.
const BRIEF: usize = 30;

/// The two tools.
pub fn finding_tools(offered: &Offered) -> Vec<Tool> {
    static DEFS: OnceLock<[Arc<Definition>; 2]> = OnceLock::new();
    let [find_def, call_def] = DEFS.get_or_init(definitions);
    let offered = offered.clone();
    vec![
        Tool::new(find_def, handler(move |call| find(call, offered.now()))),
        Tool::new(call_def, handler(|call| async move { Err(no_such_tool(&call)) })),
    ]
}

fn definitions() -> [Arc<Definition>; 2] {
    let define = Definition::built_in;
    // Schemas are public: what they show is in the program and the roster's files.
    let public = Meta { reads_private: false, ..Meta::read() };
    [
        define(
            TOOL_FIND,
            "Find tools that are not shown here, by what you want to do or by name: you have many more, so look before you say that you can't.",
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
            // The call that it stands for has the rights and effects of its own; one that stands for none does nothing.
            Meta { effect: Some(Effect::Once), ..public }.labelled(),
        ),
    ]
}

async fn find(call: ToolCall, offered: Arc<OfferedTools>) -> Result<Value, ToolError> {
    let (grant, told) = (&call.caller.grant, call.caller.grant.shown().chosen());
    let knows = |name: &str| told.as_ref().is_some_and(|told| told.iter().any(|(known, _)| known == name));
    // All of one that it knows little of, if it says so.
    let may = |name: &str, named: bool| grant.allows(name) && (named || !knows(name));
    let found = offered.finder.find(&may, call.text("query").unwrap_or_default());
    let found = found.map_err(|e| ToolError::Internal(e.to_string()))?;
    grant.shown().add(found.iter().take(WHOLE).map(|tool| tool.name.clone()));
    Ok(answer(&found))
}

/// What is told of tools, the best first. No question is so far from its tool's words that the answer would not have it.
fn answer(found: &[&Arc<Definition>]) -> Value {
    let (best, others) = found.split_at(found.len().min(WHOLE));
    let (fitting, rest) = others.split_at(others.len().min(BRIEF));
    let best: Vec<Value> = best.iter().map(|tool| as_told(tool, Detail::Whole)).collect();
    let line = |tool: &&Arc<Definition>| format!("{}: {}", tool.name, tool.told_description(Detail::Terse));
    let fitting: Vec<String> = fitting.iter().map(line).collect();
    let rest: Vec<&str> = rest.iter().map(|tool| tool.name.as_str()).collect();
    json!({
        "tools": best,
        "more": fitting,
        "others": rest.join(" "),
        "how": "Call any with tool_call(name, arguments). tool_find with a tool's name tells its arguments.",
    })
}

/// What a call of [`TOOL_CALL`] stands for; any other call stands for itself, and so does one that names no tool which `may`
/// be called, or whose arguments are no object: the tool refuses it, so that it is counted and on record.
pub fn meant(name: String, args: Map<String, Value>, may: impl Fn(&str) -> bool) -> (String, Map<String, Value>) {
    let inner = || {
        let named = args.get("name").and_then(Value::as_str).filter(|name| *name != TOOL_CALL && may(name))?;
        let inner = match args.get("arguments") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(inner)) => inner.clone(),
            // Some models write the object as text.
            Some(Value::String(text)) => serde_json::from_str(text).ok()?,
            Some(_) => return None,
        };
        Some((named.to_owned(), inner))
    };
    let inner = if name == TOOL_CALL { inner() } else { None };
    inner.unwrap_or((name, args))
}

fn no_such_tool(call: &ToolCall) -> ToolError {
    let name = call.text("name").unwrap_or_default();
    ToolError::refused("no_such_tool", format!("There is no tool named `{name}`. tool_find tells which there are."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tool_is_in_the_answer_the_best_of_them_whole() {
        let tool = |n: usize| {
            let schema = json!({"type": "object", "properties": {}});
            Arc::new(Definition::new(&format!("tool_{n}"), "Does it. It does more.", schema, Meta::read()).unwrap())
        };
        let all: Vec<_> = (0..40).map(tool).collect();
        let told = answer(&all.iter().collect::<Vec<_>>());
        assert_eq!(told["tools"].as_array().map(Vec::len), Some(WHOLE));
        assert_eq!(
            (&told["more"][0], &told["others"]),
            (&json!("tool_5: Does it."), &json!("tool_35 tool_36 tool_37 tool_38 tool_39"))
        );
        assert_eq!(answer(&[&all[0]])["more"], json!([]));
    }

    #[test]
    fn a_call_stands_for_the_tool_that_it_names() {
        let of = |args: Value| {
            let (name, args) =
                meant(TOOL_CALL.to_owned(), args.as_object().cloned().unwrap_or_default(), |name| name == "log");
            (name, Value::from(args))
        };
        assert_eq!(of(json!({"name": "log", "arguments": {"n": 1}})), ("log".to_owned(), json!({"n": 1})));
        assert_eq!(of(json!({"name": "log", "arguments": "{\"n\": 1}"})), ("log".to_owned(), json!({"n": 1})));
        assert_eq!(of(json!({"name": "log"})), ("log".to_owned(), json!({})));
        for itself in [
            json!({}),
            json!({"name": 1}),
            json!({"name": "purge", "arguments": {}}),
            json!({"name": TOOL_CALL, "arguments": {"name": "log"}}),
            json!({"name": "log", "arguments": [1]}),
            json!({"name": "log", "arguments": "no object"}),
        ] {
            assert_eq!(of(itself.clone()), (TOOL_CALL.to_owned(), itself));
        }
        let other = meant("log".to_owned(), Map::new(), |_| false);
        assert_eq!(other.0, "log", "others are not looked at");
    }
}
