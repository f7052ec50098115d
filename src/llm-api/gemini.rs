//! Gemini's `generateContent`, in one piece and streamed.

use http::Method;
use serde_json::{Value, json};

use crate::api::{Api, Endpoint, Purpose, is_model};
use crate::reading::Reading;
use crate::usage::{Usage, count};

pub fn endpoint(method: &Method, path: &str) -> Option<Endpoint> {
    let below = path.strip_prefix("/v1beta/models")?;
    let (purpose, model) = match (method.as_str(), below) {
        ("GET", "") => (Purpose::Models, None),
        ("GET", _) if below.strip_prefix('/').is_some_and(is_plain) => (Purpose::Models, None),
        ("POST", _) => {
            let (model, action) = below.strip_prefix('/')?.rsplit_once(':')?;
            let purpose = match action {
                "generateContent" | "streamGenerateContent" => Purpose::Call(Api::Generate),
                "countTokens" => Purpose::CountTokens,
                _ => return None,
            };
            (purpose, Some(Some(model).filter(|model| is_plain(model))?.to_owned()))
        }
        _ => return None,
    };
    Some(Endpoint { purpose, path: path.to_owned(), model })
}

pub fn error(status: u16, message: &str) -> Value {
    let name = match status {
        400 | 413 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        402 => "FAILED_PRECONDITION",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        502..=504 => "UNAVAILABLE",
        _ => "INTERNAL",
    };
    json!({"error": {"code": status, "message": message, "status": name}})
}

pub fn usage(usage: &Usage) -> Value {
    let (input, output) = (usage.all_input(), usage.output.unwrap_or(0));
    json!({"promptTokenCount": input, "candidatesTokenCount": output, "totalTokenCount": input + output,
        "cachedContentTokenCount": usage.cache_read.unwrap_or(0)})
}

/// One answer, or one of those that a stream consists of. The last that counts counts for the whole stream.
pub fn read(data: &Value, said: &mut Reading) {
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
