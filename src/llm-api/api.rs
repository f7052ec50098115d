//! Which APIs there are, and which path belongs to which.

use http::HeaderMap;

/// The APIs of one vendor, or of a server that speaks like it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// Messages.
    Anthropic,
    /// Responses and chat completions.
    OpenAi,
    /// `generateContent`.
    Gemini,
}

/// How the answers of one path are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Api {
    Messages,
    Responses,
    Chat,
    Generate,
}

/// What a path is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// A model call.
    Call(Api),
    /// How many tokens a request would have.
    CountTokens,
    /// The models that there are, or one of them.
    Models,
}

/// What a path stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Endpoint {
    pub purpose: Purpose,
    /// Below the base address of the API.
    pub path: String,
    /// Where the path names the model.
    pub model: Option<String>,
}

impl Endpoint {
    /// The API of a model call; `None` for what asks no model.
    pub fn api(&self) -> Option<Api> {
        match self.purpose {
            Purpose::Call(api) => Some(api),
            Purpose::CountTokens | Purpose::Models => None,
        }
    }
}

impl Family {
    pub const ALL: [Family; 3] = [Family::Anthropic, Family::OpenAi, Family::Gemini];

    /// The family whose client sent this, for the shape of an error where nothing else says it.
    pub fn guess(path: &str, headers: &HeaderMap) -> Self {
        if path.starts_with("/v1beta") || headers.contains_key("x-goog-api-key") {
            Family::Gemini
        } else if path.starts_with("/v1/messages")
            || headers.contains_key("x-api-key")
            || headers.contains_key("anthropic-version")
        {
            Family::Anthropic
        } else {
            Family::OpenAi
        }
    }

    /// The base address of a client, where a server of all families is at `origin` (`http://127.0.0.1:PORT`).
    pub fn base_url(self, origin: &str) -> String {
        match self {
            Family::Anthropic | Family::Gemini => origin.to_owned(),
            Family::OpenAi => format!("{origin}/v1"),
        }
    }
}

impl Api {
    /// The vendor's family.
    pub fn family(self) -> Family {
        match self {
            Api::Messages => Family::Anthropic,
            Api::Responses | Api::Chat => Family::OpenAi,
            Api::Generate => Family::Gemini,
        }
    }
}

/// A model's id in a path: one segment, and no way out of it.
pub(crate) fn is_model(name: &str) -> bool {
    let known = |b: u8| b.is_ascii_alphanumeric() || b"-._@:".contains(&b);
    !name.is_empty() && name.len() <= 200 && name.bytes().all(known) && !name.starts_with('.')
}
