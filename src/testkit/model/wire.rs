//! What the four APIs have in common, and which of them a path belongs to.

use http::Method;
use serde_json::{Value, json};

use super::dialog::Dialog;
use super::play::TurnReply;
use super::script::{Script, StepUsage};
use super::{anthropic, chat, gemini, responses};

/// What a request is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    Messages,
    Responses,
    Chat,
    /// With the model's name. `stream` is `None` where one document is wanted, `Some(true)` for events and
    /// `Some(false)` for the JSON list that the API streams without `alt=sse`.
    Gemini {
        model: String,
        stream: Option<bool>,
    },
    CountTokens {
        gemini: bool,
    },
    Models {
        gemini: bool,
    },
    /// Asked only to see whether somebody is there.
    Hello,
    Unknown,
}

impl Route {
    pub fn of(method: &Method, path: &str, query: &str) -> Self {
        let path = path.trim_end_matches('/');
        if matches!(*method, Method::GET | Method::HEAD) {
            let in_v1beta = path.starts_with("/v1beta");
            return match path {
                "" | "/api/hello" => Route::Hello,
                _ if path.contains("/models") => Route::Models { gemini: in_v1beta },
                _ => Route::Unknown,
            };
        }
        if *method != Method::POST {
            return Route::Unknown;
        }
        if let Some((_, call)) = path.split_once("/models/")
            && let Some((model, action)) = call.split_once(':')
        {
            let model = model.to_owned();
            return match action {
                "generateContent" => Route::Gemini { model, stream: None },
                "streamGenerateContent" => Route::Gemini { model, stream: Some(query.contains("alt=sse")) },
                "countTokens" => Route::CountTokens { gemini: true },
                _ => Route::Unknown,
            };
        }
        match path.strip_prefix("/v1").unwrap_or(path) {
            "/messages" => Route::Messages,
            "/messages/count_tokens" => Route::CountTokens { gemini: false },
            "/responses" => Route::Responses,
            "/chat/completions" => Route::Chat,
            _ => Route::Unknown,
        }
    }

    /// The conversation in the body; `None` where the route has none.
    pub fn dialog(&self, body: &Value) -> Option<Dialog> {
        match self {
            Route::Messages => Some(anthropic::dialog(body)),
            Route::Responses => Some(responses::dialog(body)),
            Route::Chat => Some(chat::dialog(body)),
            Route::Gemini { model, stream } => Some(gemini::dialog(body, model, stream.is_some())),
            _ => None,
        }
    }

    /// The answer in one piece.
    pub fn document(&self, turn: &TurnReply, dialog: &Dialog) -> Value {
        match self {
            Route::Responses => responses::document(turn, dialog),
            Route::Chat => chat::document(turn, dialog),
            Route::Gemini { stream: Some(false), .. } => gemini::chunks(turn, dialog).into(),
            Route::Gemini { .. } => gemini::document(turn, dialog),
            _ => anthropic::document(turn, dialog),
        }
    }

    /// The answer as server-sent events, if that is what the client wants.
    pub fn events(&self, turn: &TurnReply, dialog: &Dialog) -> Option<Vec<String>> {
        match self {
            _ if !dialog.stream => None,
            Route::Messages => Some(anthropic::events(turn, dialog)),
            Route::Responses => Some(responses::events(turn, dialog)),
            Route::Chat => Some(chat::events(turn, dialog)),
            Route::Gemini { stream: Some(true), .. } => Some(gemini::events(turn, dialog)),
            _ => None,
        }
    }

    /// An error in the form of the API.
    pub fn error(&self, status: u16, message: &str) -> Value {
        match self {
            Route::Responses | Route::Chat => chat::error(status, message),
            Route::Gemini { .. } | Route::CountTokens { gemini: true } => gemini::error(status, message),
            _ => anthropic::error(status, message),
        }
    }

    /// The answer of a route without a conversation.
    pub fn fixed(&self, script: &Script) -> Option<Value> {
        match self {
            Route::CountTokens { gemini: true } => Some(json!({"totalTokens": script.usage.input_tokens})),
            Route::CountTokens { gemini: false } => Some(json!({"input_tokens": script.usage.input_tokens})),
            Route::Models { gemini: true } => {
                let model = |name: &String| {
                    json!({"name": format!("models/{name}"), "displayName": name,
                        "supportedGenerationMethods": ["generateContent", "countTokens"]})
                };
                Some(json!({"models": script.models.iter().map(model).collect::<Vec<_>>()}))
            }
            Route::Models { gemini: false } => {
                // Both the fields of Anthropic's list and those of OpenAI's.
                let model = |name: &String| {
                    json!({"id": name, "type": "model", "display_name": name, "created_at": "1970-01-01T00:00:00Z",
                        "object": "model", "created": 0, "owned_by": "scripted"})
                };
                let data: Vec<Value> = script.models.iter().map(model).collect();
                Some(json!({"object": "list", "data": data, "has_more": false}))
            }
            Route::Hello => Some(json!({"message": "hello"})),
            _ => None,
        }
    }
}

/// What all bodies but Gemini's carry alike.
pub fn common(body: &Value) -> Dialog {
    Dialog {
        stream: body.get("stream").and_then(Value::as_bool).unwrap_or(false),
        model: body.get("model").and_then(Value::as_str).unwrap_or_default().to_owned(),
        ..Dialog::default()
    }
}

/// Input with what came from or went to a cache, and the sum with the output: OpenAI and Gemini count so.
pub fn openai_tokens(usage: &StepUsage) -> (u64, u64) {
    let input = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens;
    (input, input + usage.output_tokens)
}

/// Cuts a text in two, so that clients have to put it together again. No pieces of an empty text.
pub fn halves(text: &str) -> Vec<&str> {
    let mut middle = text.len() / 2;
    while !text.is_char_boundary(middle) {
        middle += 1;
    }
    let (first, second) = text.split_at(middle);
    [first, second].into_iter().filter(|piece| !piece.is_empty()).collect()
}

/// An event whose name is its `type`.
pub fn sse_named(event: &Value) -> String {
    format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
}

/// An event without a name.
pub fn sse_data(event: &Value) -> String {
    format!("data: {event}\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_their_apis() {
        let of = |method: Method, path: &str, query: &str| Route::of(&method, path, query);
        assert_eq!(of(Method::POST, "/v1/messages", "beta=true"), Route::Messages);
        assert_eq!(of(Method::POST, "/v1/responses", ""), Route::Responses);
        assert_eq!(of(Method::POST, "/v1/chat/completions", ""), Route::Chat);
        assert_eq!(of(Method::POST, "/v1/messages/count_tokens", ""), Route::CountTokens { gemini: false });
        let gemini = "/v1beta/models/gemini-2.5-pro:streamGenerateContent";
        let model = "gemini-2.5-pro".to_owned();
        assert_eq!(of(Method::POST, gemini, "alt=sse"), Route::Gemini { model: model.clone(), stream: Some(true) });
        assert_eq!(of(Method::POST, gemini, ""), Route::Gemini { model, stream: Some(false) });
        assert_eq!(of(Method::GET, "/v1/models/scripted-1", ""), Route::Models { gemini: false });
        assert_eq!(of(Method::HEAD, "/", ""), Route::Hello);
        assert_eq!(of(Method::POST, "/v1/embeddings", ""), Route::Unknown);
    }

    #[test]
    fn halves_are_whole_characters() {
        assert_eq!(halves("äöü"), ["äö", "ü"]);
        assert_eq!(halves("a"), ["a"]);
        assert!(halves("").is_empty());
    }
}
