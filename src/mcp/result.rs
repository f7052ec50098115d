//! What a call gave, as clients get it: JSON as text, in every version of the protocol.

use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;
use serde_json::Value;

/// Structured content of a result that is not an object.
///
/// The Gemini CLI takes a text that is JSON for structured content where there is none, and then refuses all but an
/// object. So what is not one goes along inside of one; an object needs no second copy.
#[derive(Serialize)]
pub(super) struct Wrapped<'a> {
    result: &'a Value,
}

/// The structured content that must go along with a result.
pub(super) fn wrapped(result: &Value) -> Option<Wrapped<'_>> {
    (!result.is_object()).then_some(Wrapped { result })
}

/// The answer to a call.
///
/// ```
/// # use serde_json::json;
/// let answer = serde_json::to_value(mcp::tool_result(&json!(["a", "b"]), false))?;
/// assert_eq!(answer["content"], json!([{"type": "text", "text": "[\"a\",\"b\"]"}]));
/// assert_eq!(answer["structuredContent"], json!({"result": ["a", "b"]}));
/// let answer = serde_json::to_value(mcp::tool_result(&json!({"key": "a"}), false))?;
/// assert_eq!(answer.get("structuredContent"), None);
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn tool_result(result: &Value, is_error: bool) -> CallToolResult {
    let content = vec![ContentBlock::text(result.to_string())];
    let mut answer = if is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    answer.structured_content = wrapped(result).and_then(|wrapped| serde_json::to_value(wrapped).ok());
    answer
}
