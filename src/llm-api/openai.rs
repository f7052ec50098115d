//! OpenAI's Responses and chat completions, as many other servers speak them too.

use http::Method;
use serde_json::{Value, json};

use crate::api::{Api, Endpoint, Purpose, is_model};
use crate::failure::Failure;
use crate::reading::Reading;
use crate::usage::{Usage, count};

/// The base address has the `/v1` in itself.
pub fn endpoint(method: &Method, path: &str) -> Option<Endpoint> {
    let below = path.strip_prefix("/v1")?;
    let purpose = match (method.as_str(), below) {
        ("POST", "/responses") => Purpose::Call(Api::Responses),
        ("POST", "/chat/completions") => Purpose::Call(Api::Chat),
        ("GET", "/models") => Purpose::Models,
        ("GET", _) if below.strip_prefix("/models/").is_some_and(is_model) => Purpose::Models,
        _ => return None,
    };
    Some(Endpoint { purpose, path: below.to_owned(), model: None })
}

pub fn error(status: u16, message: &str, code: Option<&str>) -> Value {
    let (kind, code) = match (status, code) {
        (_, Some("insufficient_quota")) => ("insufficient_quota", code),
        (401, None) => ("invalid_request_error", Some("invalid_api_key")),
        (403, _) => ("authentication_error", code),
        (429, None) => ("rate_limit_error", Some("rate_limit_exceeded")),
        (400..=499, _) => ("invalid_request_error", code),
        _ => ("server_error", code),
    };
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}

pub fn response_usage(usage: &Usage) -> Value {
    let (input, output) = (usage.all_input(), usage.output.unwrap_or(0));
    json!({"input_tokens": input, "input_tokens_details": {"cached_tokens": usage.cache_read.unwrap_or(0)},
        "output_tokens": output, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": input + output})
}

pub fn chat_usage(usage: &Usage) -> Value {
    let (input, output) = (usage.all_input(), usage.output.unwrap_or(0));
    json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read.unwrap_or(0)}})
}

/// An event of a Responses stream, or the whole response.
pub fn read_response(data: &Value, said: &mut Reading) {
    let kind = data["type"].as_str().unwrap_or_default();
    let response = if data["object"] == "response" { data } else { &data["response"] };
    said.named(&response["model"]);
    take(&response["usage"], ["input_tokens", "input_tokens_details", "output_tokens"], &mut said.usage);
    match kind {
        "response.completed" | "response.incomplete" => said.done(),
        "response.failed" => {
            said.done();
            said.failure = Some(Failure::of_document(None, response));
        }
        "error" => said.failure = Some(Failure::of_document(None, data)),
        "" if data["object"] == "response" => said.whole = true,
        _ => {}
    }
}

/// A chunk of a chat's stream, or the whole completion. Some servers send usage with every chunk; the last one counts.
pub fn read_chat(data: &Value, said: &mut Reading) {
    said.named(&data["model"]);
    take(&data["usage"], ["prompt_tokens", "prompt_tokens_details", "completion_tokens"], &mut said.usage);
    let choices = data.get("choices").and_then(Value::as_array);
    if choices.into_iter().flatten().any(|c| c.get("finish_reason").is_some_and(|f| !f.is_null())) {
        said.whole = true;
    }
}

/// Cached input is counted within the input here.
fn take(from: &Value, [input, details, output]: [&str; 3], usage: &mut Usage) {
    if let Some(all) = count(from, input) {
        let details = &from[details];
        usage.take_all_input(all, count(details, "cached_tokens"), count(details, "cache_write_tokens"));
        usage.output = count(from, output);
    }
}
