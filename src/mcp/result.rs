//! What a call gave, as clients get it: JSON as text, in every version of the protocol.

use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;
use serde_json::Value;

/// Structured content of a result.
///
/// The Gemini CLI takes a text that is JSON for structured content where there is none, and then refuses all but an
/// object. So what is not one goes along inside of one; an object needs no second copy, but for clients of tools in another
/// program's shape, which read it there.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Structured<'a> {
    Inside { result: &'a Value },
    Itself(&'a Value),
}

/// The structured content that must go along with a result. `always`: the tool's result has it whatever it is.
pub(super) fn structured(result: &Value, always: bool) -> Option<Structured<'_>> {
    match result {
        Value::Object(_) => always.then_some(Structured::Itself(result)),
        _ => Some(Structured::Inside { result }),
    }
}

/// The answer to a call. `always`: its tool's results are structured content, whatever they are.
///
/// ```
/// # use serde_json::json;
/// let answer = serde_json::to_value(mcp::tool_result(&json!(["a", "b"]), false, false))?;
/// assert_eq!(answer["content"], json!([{"type": "text", "text": "[\"a\",\"b\"]"}]));
/// assert_eq!(answer["structuredContent"], json!({"result": ["a", "b"]}));
/// let answer = serde_json::to_value(mcp::tool_result(&json!({"key": "a"}), false, false))?;
/// assert_eq!(answer.get("structuredContent"), None);
/// let answer = serde_json::to_value(mcp::tool_result(&json!({"key": "a"}), false, true))?;
/// assert_eq!(answer["structuredContent"], json!({"key": "a"}));
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn tool_result(result: &Value, is_error: bool, always: bool) -> CallToolResult {
    let content = vec![ContentBlock::text(result.to_string())];
    let mut answer = if is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    answer.structured_content = structured(result, always).and_then(|content| serde_json::to_value(content).ok());
    answer
}
