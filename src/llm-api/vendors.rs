//! Which vendor answers which question.

use base::SseEvent;
use http::Method;
use serde_json::Value;

use crate::api::{Api, Endpoint, Family};
use crate::failure::Failure;
use crate::reading::Reading;
use crate::usage::Usage;
use crate::{anthropic, gemini, openai};

impl Family {
    /// What this path means, if it is one of this family's own.
    pub fn endpoint(self, method: &Method, path: &str) -> Option<Endpoint> {
        match self {
            Family::Anthropic => anthropic::endpoint(method, path),
            Family::OpenAi => openai::endpoint(method, path),
            Family::Gemini => gemini::endpoint(method, path),
        }
    }

    /// The document of an error. `code`: a word of the vendor's for it, where the family has a place for one.
    pub fn error(self, status: u16, message: &str, code: Option<&str>) -> Value {
        match self {
            Family::Anthropic => anthropic::error(status, message),
            Family::OpenAi => openai::error(status, message, code),
            Family::Gemini => gemini::error(status, message),
        }
    }
}

impl Api {
    /// Tokens as an answer of this API tells them; a kind that is unknown counts as 0.
    pub fn usage(self, usage: &Usage) -> Value {
        match self {
            Api::Messages => anthropic::usage(usage),
            Api::Responses => openai::response_usage(usage),
            Api::Chat => openai::chat_usage(usage),
            Api::Generate => gemini::usage(usage),
        }
    }
}

impl Reading {
    /// Takes one event of a stream.
    pub fn event(&mut self, api: Api, event: &SseEvent) {
        if event.data == "[DONE]" {
            self.done();
            return;
        }
        // Most events are pieces of text, and not worth reading.
        let telling = self.model.is_none()
            || ["usage", "\"error\"", "finish", "_stop\""].iter().any(|w| event.data.contains(w))
            || event.name.starts_with("response.") && !event.name.ends_with(".delta");
        if telling && let Ok(data) = serde_json::from_str::<Value>(&event.data) {
            self.document(api, &data);
        }
    }

    /// Takes an event's document, or an answer that came in one piece; one API streams a list of them.
    pub fn document(&mut self, api: Api, data: &Value) {
        if let Some(list) = data.as_array() {
            return list.iter().for_each(|one| self.document(api, one));
        }
        match api {
            Api::Messages => anthropic::read(data, self),
            Api::Responses => openai::read_response(data, self),
            Api::Chat => openai::read_chat(data, self),
            Api::Generate => gemini::read(data, self),
        }
        if self.failure.is_none() {
            self.failure = Failure::inside(data);
        }
    }
}
