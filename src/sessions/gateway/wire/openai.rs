//! OpenAI's Responses and chat completions, as many other servers speak them too.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{AnswerSoFar, Api, ApiPath, count, failure, is_model};

/// The endpoint has the `/v1` in itself.
pub fn known(method: &Method, path: &str) -> Option<ApiPath> {
    let below = path.strip_prefix("/v1")?;
    let api = match (method.as_str(), below) {
        ("POST", "/responses") => Some(Api::Responses),
        ("POST", "/chat/completions") => Some(Api::Chat),
        ("GET", "/models") => None,
        ("GET", _) if below.strip_prefix("/models/").is_some_and(is_model) => None,
        _ => return None,
    };
    Some(ApiPath { api, path: below.to_owned(), model: None })
}

pub fn error(status: StatusCode, message: &str, code: Option<&str>) -> Value {
    let kind = match (status.as_u16(), code) {
        (_, Some("insufficient_quota")) => "insufficient_quota",
        (401 | 403, _) => "authentication_error",
        (429, _) => "rate_limit_error",
        (400..=499, _) => "invalid_request_error",
        _ => "server_error",
    };
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}

/// An event of a Responses stream, or the whole response.
pub fn read_response(data: &Value, said: &mut AnswerSoFar) {
    let kind = data["type"].as_str().unwrap_or_default();
    let response = if data["object"] == "response" { data } else { &data["response"] };
    said.named(&response["model"]);
    if let Some(input) = count(&response["usage"], "input_tokens") {
        let details = &response["usage"]["input_tokens_details"];
        split(said, input, count(details, "cached_tokens"), count(details, "cache_write_tokens"));
        said.usage.output = count(&response["usage"], "output_tokens");
    }
    match kind {
        "response.completed" | "response.incomplete" => (said.whole, said.over) = (true, true),
        "response.failed" => {
            (said.whole, said.over) = (true, true);
            said.failure = Some(failure(None, response));
        }
        "error" => said.failure = Some(failure(None, data)),
        "" if data["object"] == "response" => said.whole = true,
        _ => {}
    }
}

/// A chunk of a chat's stream, or the whole completion.
pub fn read_chat(data: &Value, said: &mut AnswerSoFar) {
    said.named(&data["model"]);
    // Some servers send usage with every chunk; the last one counts.
    if let Some(input) = count(&data["usage"], "prompt_tokens") {
        let details = &data["usage"]["prompt_tokens_details"];
        split(said, input, count(details, "cached_tokens"), count(details, "cache_write_tokens"));
        said.usage.output = count(&data["usage"], "completion_tokens");
    }
    let choices = data.get("choices").and_then(Value::as_array);
    if choices.into_iter().flatten().any(|c| c.get("finish_reason").is_some_and(|f| !f.is_null())) {
        said.whole = true;
    }
}

/// Cached input is counted within the input here.
fn split(said: &mut AnswerSoFar, input: u64, read: Option<u64>, written: Option<u64>) {
    let cached = read.unwrap_or(0).saturating_add(written.unwrap_or(0));
    said.usage.input = Some(input.saturating_sub(cached));
    (said.usage.cache_read, said.usage.cache_write) = (read, written);
}
