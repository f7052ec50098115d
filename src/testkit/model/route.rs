//! Which of the four APIs a path belongs to.

use http::Method;
use llm_api::{Api, Endpoint, Family, Purpose};
use serde_json::{Value, json};

use super::dialog::Dialog;
use super::play::TurnReply;
use super::script::Script;
use super::{anthropic, chat, gemini, responses};

/// What a request is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    Call(Api),
    /// Gemini's path tells the model, and how it streams: not at all, as events, or as the JSON list that the API
    /// streams without `alt=sse`.
    Generate {
        model: String,
        stream: Option<Stream>,
    },
    CountTokens(Family),
    Models(Family),
    /// Asked only to see whether somebody is there.
    Hello,
    Unknown,
}

/// How an answer of Gemini's is streamed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Events,
    List,
}

impl Route {
    pub fn of(method: &Method, path: &str, query: &str) -> Self {
        let path = path.trim_end_matches('/');
        let method = if *method == Method::HEAD { &Method::GET } else { method };
        if *method == Method::GET && matches!(path, "" | "/api/hello") {
            return Route::Hello;
        }
        // Clients of OpenAI's APIs may have the `/v1` in their base address or not.
        let full = if path.starts_with("/v1") { path.to_owned() } else { format!("/v1{path}") };
        let found = Family::ALL.iter().find_map(|family| Some((*family, family.endpoint(method, &full)?)));
        let Some((family, Endpoint { purpose, model, .. })) = found else { return Route::Unknown };
        match purpose {
            Purpose::CountTokens => Route::CountTokens(family),
            Purpose::Models => Route::Models(family),
            Purpose::Call(Api::Generate) => {
                let how = if query.contains("alt=sse") { Stream::Events } else { Stream::List };
                let stream = full.ends_with(":streamGenerateContent").then_some(how);
                Route::Generate { model: model.unwrap_or_default(), stream }
            }
            Purpose::Call(api) => Route::Call(api),
        }
    }

    /// The conversation in the body; `None` where the route has none.
    pub fn dialog(&self, body: &Value) -> Option<Dialog> {
        match self {
            Route::Call(Api::Responses) => Some(responses::dialog(body)),
            Route::Call(Api::Chat) => Some(chat::dialog(body)),
            Route::Call(_) => Some(anthropic::dialog(body)),
            Route::Generate { model, stream } => Some(gemini::dialog(body, model, stream.is_some())),
            _ => None,
        }
    }

    /// The answer in one piece.
    pub fn document(&self, turn: &TurnReply, dialog: &Dialog) -> Value {
        match self {
            Route::Call(Api::Responses) => responses::document(turn, dialog),
            Route::Call(Api::Chat) => chat::document(turn, dialog),
            Route::Generate { stream: Some(Stream::List), .. } => gemini::chunks(turn, dialog).into(),
            Route::Generate { .. } => gemini::document(turn, dialog),
            _ => anthropic::document(turn, dialog),
        }
    }

    /// The answer as server-sent events, if that is what the client wants.
    pub fn events(&self, turn: &TurnReply, dialog: &Dialog) -> Option<Vec<String>> {
        match self {
            _ if !dialog.stream => None,
            Route::Call(Api::Responses) => Some(responses::events(turn, dialog)),
            Route::Call(Api::Chat) => Some(chat::events(turn, dialog)),
            Route::Call(_) => Some(anthropic::events(turn, dialog)),
            Route::Generate { stream: Some(Stream::Events), .. } => Some(gemini::events(turn, dialog)),
            _ => None,
        }
    }

    /// An error in the form of the API.
    pub fn error(&self, status: u16, message: &str) -> Value {
        let family = match self {
            Route::Call(api) => api.family(),
            Route::Generate { .. } => Family::Gemini,
            Route::CountTokens(family) => *family,
            _ => Family::Anthropic,
        };
        family.error(status, message, None)
    }

    /// The answer of a route without a conversation.
    pub fn fixed(&self, script: &Script) -> Option<Value> {
        match self {
            Route::CountTokens(Family::Gemini) => Some(json!({"totalTokens": script.usage.input_tokens})),
            Route::CountTokens(_) => Some(json!({"input_tokens": script.usage.input_tokens})),
            Route::Models(Family::Gemini) => {
                let model = |name: &String| {
                    json!({"name": format!("models/{name}"), "displayName": name,
                        "supportedGenerationMethods": ["generateContent", "countTokens"]})
                };
                Some(json!({"models": script.models.iter().map(model).collect::<Vec<_>>()}))
            }
            Route::Models(_) => {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_their_apis() {
        let of = |method: Method, path: &str, query: &str| Route::of(&method, path, query);
        assert_eq!(of(Method::POST, "/v1/messages", "beta=true"), Route::Call(Api::Messages));
        assert_eq!(of(Method::POST, "/v1/responses", ""), Route::Call(Api::Responses));
        assert_eq!(of(Method::POST, "/chat/completions", ""), Route::Call(Api::Chat));
        assert_eq!(of(Method::POST, "/v1/messages/count_tokens", ""), Route::CountTokens(Family::Anthropic));
        let gemini = "/v1beta/models/gemini-2.5-pro:streamGenerateContent";
        let route = |stream| Route::Generate { model: "gemini-2.5-pro".to_owned(), stream: Some(stream) };
        assert_eq!(of(Method::POST, gemini, "alt=sse"), route(Stream::Events));
        assert_eq!(of(Method::POST, gemini, ""), route(Stream::List));
        assert_eq!(of(Method::GET, "/v1/models/scripted-1", ""), Route::Models(Family::Anthropic));
        assert_eq!(of(Method::HEAD, "/", ""), Route::Hello);
        assert_eq!(of(Method::POST, "/v1/embeddings", ""), Route::Unknown);
    }
}
