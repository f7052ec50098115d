//! As whom a model is asked, and what a session past its limits is told. Only this directory of the gateway names vendors.

pub mod account;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use base::Secret;
use config::{Api as ConfiguredApi, RuntimeKind};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use llm_api::{Api, Family};
use serde_json::Value;

/// As whom the model is asked.
#[derive(Clone, Debug)]
pub enum Login {
    /// A server of the owner's own that asks for nothing.
    Nobody,
    /// An account's key, in the header of its API.
    Key(Arc<Secret<String>>),
    /// A subscription's token, always as the bearer's.
    Bearer(Arc<Secret<String>>),
    /// The file of a login that has to be made ready first.
    File(Arc<Secret<String>>),
    /// Such a login, ready: its token and the account that it is for.
    Account { token: Arc<Secret<String>>, account: String },
}

/// The family that a runtime speaks.
pub fn family_of(kind: RuntimeKind, api: ConfiguredApi) -> Family {
    match (kind, api) {
        (RuntimeKind::ClaudeCode, _) | (RuntimeKind::Native, ConfiguredApi::Anthropic) => Family::Anthropic,
        (RuntimeKind::Codex, _) | (RuntimeKind::Native, ConfiguredApi::Openai) => Family::OpenAi,
        (RuntimeKind::Gemini, _) => Family::Gemini,
    }
}

impl Login {
    /// What a credential of this name is good for; the names are those of the clients' variables.
    pub fn of(family: Family, name: &str, value: Secret<String>) -> Self {
        let value = Arc::new(value);
        match name {
            account::NAME => Login::File(value),
            "ANTHROPIC_AUTH_TOKEN" | "CLAUDE_CODE_OAUTH_TOKEN" => Login::Bearer(value),
            _ if family == Family::OpenAi => Login::Bearer(value),
            _ => Login::Key(value),
        }
    }

    /// The headers that it stands in. An error: its text can't stand in a header.
    pub fn headers(&self, family: Family) -> Result<HeaderMap, http::header::InvalidHeaderValue> {
        let mut headers = HeaderMap::new();
        let (name, text) = match (self, family) {
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
}

/// The answer to a call past a limit: what ends each client at once, without another try.
pub fn over_limit(api: Api, message: &str) -> (StatusCode, Value) {
    let (status, code) = match api {
        // At 402 its client would try five times more; the code is all that it shows.
        Api::Responses => (StatusCode::BAD_REQUEST, "budget_reached"),
        Api::Messages | Api::Chat | Api::Generate => (StatusCode::PAYMENT_REQUIRED, "insufficient_quota"),
    };
    (status, api.family().error(status.as_u16(), message, Some(code)))
}
