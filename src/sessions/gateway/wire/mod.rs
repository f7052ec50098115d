//! The APIs: their paths, the shapes of their errors, and where their answers say what was used.
//!
//! Each family is a vendor's set of APIs, served at one endpoint. Only this directory of the gateway names vendors.

pub mod account;
mod anthropic;
mod gemini;
mod openai;
#[cfg(test)]
mod tests;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde_json::Value;

use super::types::{Failure, Login};
use crate::adapters::{ErrorClass, Usage};
use base::model_words::{says_no_money, says_too_long, words};
use base::{SseEvent, text};
use config::{Api as ConfiguredApi, RuntimeKind};

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

/// What a path stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApiPath {
    /// The API of a model call; `None` for what asks no model: lists, the counting of tokens.
    pub api: Option<Api>,
    /// Under the upstream's endpoint.
    pub path: String,
    /// Where the path names the model.
    pub model: Option<String>,
}

impl Family {
    /// The family that a runtime speaks.
    pub fn of(kind: RuntimeKind, api: ConfiguredApi) -> Self {
        match (kind, api) {
            (RuntimeKind::ClaudeCode, _) | (RuntimeKind::Native, ConfiguredApi::Anthropic) => Family::Anthropic,
            (RuntimeKind::Codex, _) | (RuntimeKind::Native, ConfiguredApi::Openai) => Family::OpenAi,
            (RuntimeKind::Gemini, _) => Family::Gemini,
        }
    }

    /// The family whose client sent this, for the shape of an error where no route says it.
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

    /// The base address of the child's client, where the gateway is at `origin` (`http://127.0.0.1:PORT`).
    pub fn base_url(self, origin: &str) -> String {
        match self {
            Family::Anthropic | Family::Gemini => origin.to_owned(),
            Family::OpenAi => format!("{origin}/v1"),
        }
    }

    /// What this path means, if it is one of those that are served.
    pub fn known(self, method: &Method, path: &str) -> Option<ApiPath> {
        match self {
            Family::Anthropic => anthropic::known(method, path),
            Family::OpenAi => openai::known(method, path),
            Family::Gemini => gemini::known(method, path),
        }
    }

    /// The kind of login that a credential of this name is; the names are those of the clients' variables.
    pub fn login(self, name: &str, value: base::Secret<String>) -> Login {
        if name == account::NAME {
            return Login::File(std::sync::Arc::new(value));
        }
        let bearer = ["ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"].contains(&name);
        let value = std::sync::Arc::new(value);
        if bearer || self == Family::OpenAi { Login::Bearer(value) } else { Login::Key(value) }
    }

    /// The headers that a login stands in. An error: its text can't stand in a header.
    pub fn proof(self, login: &Login) -> Result<HeaderMap, http::header::InvalidHeaderValue> {
        let mut headers = HeaderMap::new();
        let (name, text) = match (login, self) {
            (Login::Nobody | Login::File(_), _) => return Ok(headers),
            (Login::Key(key), Family::Anthropic) => ("x-api-key", key.expose().clone()),
            (Login::Key(key), Family::Gemini) => ("x-goog-api-key", key.expose().clone()),
            (Login::Key(key) | Login::Bearer(key), _) => ("authorization", format!("Bearer {}", key.expose())),
            (Login::Account { token, account }, _) => {
                headers.insert("chatgpt-account-id", HeaderValue::from_str(account)?);
                ("authorization", format!("Bearer {}", token.expose()))
            }
        };
        let mut value = HeaderValue::from_str(text.trim_end())?;
        value.set_sensitive(true);
        headers.insert(HeaderName::from_static(name), value);
        Ok(headers)
    }

    /// An error of the gateway's own, in the family's shape.
    pub fn error(self, status: StatusCode, message: &str) -> Value {
        match self {
            Family::Anthropic => anthropic::error(status, message),
            Family::OpenAi => openai::error(status, message, None),
            Family::Gemini => gemini::error(status, message),
        }
    }
}

impl Api {
    /// The answer to a call past a limit: what ends each client at once, without another try.
    pub fn over_limit(self, message: &str) -> (StatusCode, Value) {
        match self {
            Api::Messages => (StatusCode::PAYMENT_REQUIRED, anthropic::error(StatusCode::PAYMENT_REQUIRED, message)),
            // At 402 its client would try five times more; the code is all that it shows.
            Api::Responses => {
                let status = StatusCode::BAD_REQUEST;
                (status, openai::error(status, message, Some("budget_reached")))
            }
            Api::Chat => {
                let status = StatusCode::PAYMENT_REQUIRED;
                (status, openai::error(status, message, Some("insufficient_quota")))
            }
            Api::Generate => (StatusCode::PAYMENT_REQUIRED, gemini::error(StatusCode::PAYMENT_REQUIRED, message)),
        }
    }

    fn read(self, data: &Value, said: &mut AnswerSoFar) {
        match self {
            Api::Messages => anthropic::read(data, said),
            Api::Responses => openai::read_response(data, said),
            Api::Chat => openai::read_chat(data, said),
            Api::Generate => gemini::read(data, said),
        }
    }
}

/// What an answer has said so far.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct AnswerSoFar {
    pub model: Option<String>,
    pub usage: Usage,
    /// An error inside of an answer that began well.
    pub failure: Option<Failure>,
    /// The answer is whole: what was meant to come has come.
    pub whole: bool,
    /// Its client needs nothing that may follow, and may go on.
    pub over: bool,
}

impl AnswerSoFar {
    /// Takes one event of a stream.
    pub fn event(&mut self, api: Api, event: &SseEvent) {
        if event.data == "[DONE]" {
            (self.whole, self.over) = (true, true);
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

    /// Takes an answer that came in one piece; one API streams a list of them.
    pub fn document(&mut self, api: Api, data: &Value) {
        match data.as_array() {
            Some(list) => list.iter().for_each(|one| self.document(api, one)),
            None => {
                api.read(data, self);
                if self.failure.is_none() && data.get("error").is_some_and(|e| !e.is_null()) {
                    self.failure = Some(failure(None, data));
                }
            }
        }
    }

    fn named(&mut self, model: &Value) {
        if let Some(name) = model.as_str().filter(|name| !name.is_empty()) {
            self.model = Some(text::truncate(&text::clean(name), 200));
        }
    }
}

/// The longest words of an upstream that are kept, in bytes.
const LONGEST: usize = 1000;

/// What an error's document means. `status`: of the answer, or unknown in the middle of a stream.
pub fn failure(status: Option<StatusCode>, body: &Value) -> Failure {
    let (kind, sentence) = words(body);
    let inner = || body.get("error").and_then(|e| ["code", "status"].iter().find_map(|k| e.get(*k)?.as_u64()));
    let number = status.map(|s| u64::from(s.as_u16())).or_else(inner);
    let class = if says_no_money(&kind, &sentence) {
        ErrorClass::Budget
    } else if says_too_long(&kind, &sentence) {
        ErrorClass::ContextTooLong
    } else {
        number.and_then(ErrorClass::of_status).unwrap_or_else(|| of_kind(&kind))
    };
    let sentence = text::clean(&sentence);
    let sentence = match sentence.trim() {
        "" => "no explanation given",
        some => some,
    };
    Failure { class, message: text::truncate(sentence, LONGEST) }
}

/// In the middle of a stream only the kind tells; an error without a name is the server's own trouble.
fn of_kind(kind: &str) -> ErrorClass {
    let has = |part: &str| kind.to_lowercase().contains(part);
    if has("rate_limit") {
        ErrorClass::RateLimited
    } else if has("authentication") || has("permission") {
        ErrorClass::Auth
    } else if has("invalid_request") || has("not_found") {
        ErrorClass::InvalidRequest
    } else {
        ErrorClass::Overloaded
    }
}

/// A model's id in a path: one segment, and no way out of it.
fn is_model(name: &str) -> bool {
    let known = |b: u8| b.is_ascii_alphanumeric() || b"-._@:".contains(&b);
    !name.is_empty() && name.len() <= 200 && name.bytes().all(known) && !name.starts_with('.')
}

/// A count that is there.
fn count(value: &Value, key: &str) -> Option<u64> {
    value.get(key)?.as_u64()
}

/// Takes a count where there is one.
fn take(slot: &mut Option<u64>, value: &Value, key: &str) {
    if let Some(n) = count(value, key) {
        *slot = Some(n);
    }
}
