//! The short way of a plain `tools/call`: nearly every request of a running session is one, and the protocol library
//! builds a peer, channels and three tasks for each. Taken only by a request that is exactly what it looks like;
//! anything else (another method, a batch, a newer protocol's headers, a member unknown here) goes to the library,
//! which answers a plain call with the same bytes.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::http::Body;
use super::result::{Structured, structured};
use tools::Reply;

/// Protocol versions in which a call needs nothing beside its body.
const PLAIN: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];
/// Headers of protocol versions, or of ways, in which there is more to a call.
const MORE: [&str; 4] = ["mcp-session-id", "mcp-method", "mcp-name", "last-event-id"];
/// What a newer protocol puts into each request begins so.
const PROTOCOL_META: &str = "io.modelcontextprotocol/";

/// One call.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    jsonrpc: String,
    id: Id,
    method: String,
    params: Params,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    name: String,
    #[serde(default)]
    arguments: Option<Map<String, Value>>,
    #[serde(default, rename = "_meta")]
    meta: Option<Map<String, Value>>,
}

#[derive(Deserialize, Serialize)]
#[serde(untagged)]
pub(super) enum Id {
    Number(i64),
    Text(String),
}

/// A call that can go the short way.
pub(super) struct Call {
    pub id: Id,
    pub tool: String,
    pub arguments: Map<String, Value>,
    pub traceparent: Option<String>,
}

/// Reads the request, if it is such a call.
pub(super) fn read(parts: &Parts, body: &[u8]) -> Option<Call> {
    let text = |name: &str| parts.headers.get(name).map(|v| v.to_str().unwrap_or("?"));
    let accept = text(ACCEPT.as_str())?;
    let plain = parts.method == Method::POST
        && text(CONTENT_TYPE.as_str()) == Some("application/json")
        && accept.contains("application/json")
        && accept.contains("text/event-stream")
        && text("mcp-protocol-version").is_none_or(|version| PLAIN.contains(&version))
        && MORE.iter().all(|name| !parts.headers.contains_key(*name));
    if !plain {
        return None;
    }
    let Message { jsonrpc, id, method, params } = serde_json::from_slice(body).ok()?;
    let meta = params.meta.unwrap_or_default();
    if jsonrpc != "2.0" || method != "tools/call" || meta.keys().any(|key| key.starts_with(PROTOCOL_META)) {
        return None;
    }
    let traceparent = meta.get("traceparent").and_then(Value::as_str).map(str::to_owned);
    Some(Call { id, tool: params.name, arguments: params.arguments.unwrap_or_default(), traceparent })
}

#[derive(Serialize)]
struct Answer<'a> {
    jsonrpc: &'static str,
    id: &'a Id,
    result: Done<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Done<'a> {
    content: [Text<'a>; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_content: Option<Structured<'a>>,
    is_error: bool,
}

#[derive(Serialize)]
struct Text<'a> {
    r#type: &'static str,
    text: &'a str,
}

/// The answer to a call that has a result.
pub(super) fn answer(id: &Id, reply: &Reply) -> Response<Body> {
    let content = [Text { r#type: "text", text: &reply.text }];
    let structured_content = structured(&reply.json, reply.structured);
    let done = Done { content, structured_content, is_error: reply.is_error };
    let answer = Answer { jsonrpc: "2.0", id, result: done };
    // What was just made of text and JSON can be written.
    let body = serde_json::to_vec(&answer).unwrap_or_default();
    let mut response = Response::new(Full::new(Bytes::from(body)).boxed_unsync());
    *response.status_mut() = StatusCode::OK;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(headers: &[(&str, &str)], body: &str) -> Option<Call> {
        let mut request = http::Request::post("/mcp")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        read(&request.body(()).unwrap().into_parts().0, body.as_bytes())
    }

    #[test]
    fn only_a_plain_call_goes_the_short_way() {
        let plain = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t","arguments":{"a":1},"_meta":{"progressToken":3,"traceparent":"00-x"}}}"#;
        let call = reading(&[("mcp-protocol-version", "2025-11-25")], plain).unwrap();
        assert_eq!((call.tool.as_str(), call.traceparent.as_deref()), ("t", Some("00-x")));
        for headers in [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-session-id", "x")] {
            assert!(reading(&[headers], plain).is_none(), "{headers:?}");
        }
        for other in [
            r#"[{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t"}}]"#,
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#,
            r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"t"}}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"t"}}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t","task":{}}}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t","arguments":[]}}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
        ] {
            assert!(reading(&[], other).is_none(), "{other}");
        }
    }
}
