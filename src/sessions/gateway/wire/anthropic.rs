//! Anthropic's Messages API.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{AnswerSoFar, Api, ApiPath, is_model, take};

pub fn known(method: &Method, path: &str) -> Option<ApiPath> {
    let api = match (method.as_str(), path) {
        ("POST", "/v1/messages") => Some(Api::Messages),
        ("POST", "/v1/messages/count_tokens") | ("GET", "/v1/models") => None,
        ("GET", _) if path.strip_prefix("/v1/models/").is_some_and(is_model) => None,
        _ => return None,
    };
    Some(ApiPath { api, path: path.to_owned(), model: None })
}

pub fn error(status: StatusCode, message: &str) -> Value {
    let kind = match status.as_u16() {
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

/// An event of a stream, or the whole message.
pub fn read(data: &Value, said: &mut AnswerSoFar) {
    match data["type"].as_str().unwrap_or_default() {
        "message_start" => {
            said.named(&data["message"]["model"]);
            usage(&data["message"]["usage"], said);
        }
        // Its counts are sums over the whole message, not additions.
        "message_delta" => usage(&data["usage"], said),
        "message_stop" => (said.whole, said.over) = (true, true),
        "message" => {
            said.named(&data["model"]);
            usage(&data["usage"], said);
            said.whole = true;
        }
        _ => {}
    }
}

fn usage(from: &Value, said: &mut AnswerSoFar) {
    take(&mut said.usage.input, from, "input_tokens");
    take(&mut said.usage.output, from, "output_tokens");
    take(&mut said.usage.cache_read, from, "cache_read_input_tokens");
    take(&mut said.usage.cache_write, from, "cache_creation_input_tokens");
}
