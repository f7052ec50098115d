//! Anthropic's Messages API.

use http::Method;
use serde_json::{Value, json};

use crate::api::{Api, Endpoint, Purpose, is_model};
use crate::reading::Reading;
use crate::usage::{Usage, count};

pub fn endpoint(method: &Method, path: &str) -> Option<Endpoint> {
    let purpose = match (method.as_str(), path) {
        ("POST", "/v1/messages") => Purpose::Call(Api::Messages),
        ("POST", "/v1/messages/count_tokens") => Purpose::CountTokens,
        ("GET", "/v1/models") => Purpose::Models,
        ("GET", _) if path.strip_prefix("/v1/models/").is_some_and(is_model) => Purpose::Models,
        _ => return None,
    };
    Some(Endpoint { purpose, path: path.to_owned(), model: None })
}

pub fn error(status: u16, message: &str) -> Value {
    let kind = match status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    };
    json!({"type": "error", "error": {"type": kind, "message": message}})
}

pub fn usage(usage: &Usage) -> Value {
    json!({"input_tokens": usage.input.unwrap_or(0), "output_tokens": usage.output.unwrap_or(0),
        "cache_read_input_tokens": usage.cache_read.unwrap_or(0),
        "cache_creation_input_tokens": usage.cache_write.unwrap_or(0)})
}

/// An event of a stream, or the whole message.
pub fn read(data: &Value, said: &mut Reading) {
    match data["type"].as_str().unwrap_or_default() {
        "message_start" => {
            said.named(&data["message"]["model"]);
            take(&data["message"]["usage"], &mut said.usage);
        }
        // Its counts are sums over the whole message, not additions.
        "message_delta" => take(&data["usage"], &mut said.usage),
        "message_stop" => said.done(),
        kind if kind == "message" || data["content"].is_array() => {
            said.named(&data["model"]);
            take(&data["usage"], &mut said.usage);
            said.whole = true;
        }
        _ => {}
    }
}

/// Takes the counts that are there.
fn take(from: &Value, usage: &mut Usage) {
    let take = |slot: &mut Option<u64>, key| *slot = count(from, key).or(*slot);
    take(&mut usage.input, "input_tokens");
    take(&mut usage.output, "output_tokens");
    take(&mut usage.cache_read, "cache_read_input_tokens");
    take(&mut usage.cache_write, "cache_creation_input_tokens");
}
