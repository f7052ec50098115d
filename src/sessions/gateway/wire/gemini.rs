//! Gemini's `generateContent`, in one piece and streamed.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{AnswerSoFar, Api, ApiPath, count, is_model};

pub fn known(method: &Method, path: &str) -> Option<ApiPath> {
    let below = path.strip_prefix("/v1beta/models")?;
    let plain =
        |model: Option<&str>, api| Some(ApiPath { api, path: path.to_owned(), model: model.map(str::to_owned) });
    match (method.as_str(), below) {
        ("GET", "") => plain(None, None),
        ("GET", _) => plain(None, None).filter(|_| below.strip_prefix('/').is_some_and(is_plain)),
        ("POST", _) => {
            let (model, action) = below.strip_prefix('/')?.rsplit_once(':')?;
            let api = match action {
                "generateContent" | "streamGenerateContent" => Some(Api::Generate),
                "countTokens" => None,
                _ => return None,
            };
            if is_plain(model) { plain(Some(model), api) } else { None }
        }
        _ => None,
    }
}

pub fn error(status: StatusCode, message: &str) -> Value {
    let name = match status.as_u16() {
        400 | 413 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        402 => "FAILED_PRECONDITION",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        502..=504 => "UNAVAILABLE",
        _ => "INTERNAL",
    };
    json!({"error": {"code": status.as_u16(), "message": message, "status": name}})
}

/// One answer, or one of those that a stream consists of. The last that counts counts for the whole stream.
pub fn read(data: &Value, said: &mut AnswerSoFar) {
    said.named(&data["modelVersion"]);
    let usage = &data["usageMetadata"];
    if let Some(prompt) = count(usage, "promptTokenCount") {
        let cached = count(usage, "cachedContentTokenCount");
        let tools = count(usage, "toolUsePromptTokenCount").unwrap_or(0);
        said.usage.input = Some(prompt.saturating_sub(cached.unwrap_or(0)).saturating_add(tools));
        said.usage.cache_read = cached;
    }
    // What it thought is written, and paid for, like what it said.
    let written = [count(usage, "candidatesTokenCount"), count(usage, "thoughtsTokenCount")];
    if let Some(sum) = written.into_iter().flatten().reduce(u64::saturating_add) {
        said.usage.output = Some(sum);
    }
    let candidates = data.get("candidates").and_then(Value::as_array);
    let finished = |c: &Value| c.get("finishReason").is_some_and(|f| !f.is_null());
    if candidates.into_iter().flatten().any(finished) || data.pointer("/promptFeedback/blockReason").is_some() {
        said.whole = true;
    }
}

/// The action stands behind a colon.
fn is_plain(name: &str) -> bool {
    is_model(name) && !name.contains(':')
}
