//! The Bot API, as far as it is used: one method a request, JSON both ways.
//!
//! Source: <https://core.telegram.org/bots/api>, version 10.3.

use std::time::Duration;

use reqwest::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

use super::types::{FileInfo, User};
use crate::contract::ModuleError;
use base::{Secret, body_within, http_client, innermost, text};
use outbox::OutFile;

/// An answer that is not waited for on purpose comes within this.
const PATIENCE: Duration = Duration::from_secs(20);
/// A file of the largest size takes a while on a slow line.
const UPLOAD_WITHIN: Duration = Duration::from_secs(120);
/// The largest file that the public Bot API hands out.
pub const LARGEST_FILE: u64 = 20 * 1024 * 1024;

/// Why a method did nothing, or nobody knows whether it did.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ApiError {
    /// The token is none, or not any more.
    #[error("Telegram does not know this bot's token; make a new one with @BotFather and run: butlerd secret set {0}")]
    Token(String),
    /// Another program polls with the same token, or a webhook is set.
    #[error("another program takes this bot's messages away ({0}); a bot belongs to one household")]
    Conflict(String),
    #[error("Telegram asks to wait {} s", .0.as_secs())]
    TooMany(Duration),
    /// The person blocked the bot, or it is not in the chat.
    #[error("Telegram does not let the bot write there: {0}")]
    Forbidden(String),
    /// The group became a supergroup.
    #[error("the group has moved to {0}")]
    Moved(i64),
    /// The request as such is wrong.
    #[error("Telegram refused it: {0}")]
    Refused(String),
    /// It surely did nothing.
    #[error("{0}")]
    Unreachable(String),
    /// It may have done what it was asked for.
    #[error("{0}")]
    Unknown(String),
}

/// A bot. Cheap to clone.
#[derive(Clone)]
pub struct Api {
    client: reqwest::Client,
    url: String,
    token: Secret<String>,
    /// What the owner calls the token.
    secret: String,
}

#[derive(Deserialize)]
struct Answer {
    ok: bool,
    #[serde(default)]
    result: Value,
    #[serde(default)]
    description: String,
    #[serde(default)]
    parameters: Parameters,
}

#[derive(Default, Deserialize)]
struct Parameters {
    retry_after: Option<u64>,
    migrate_to_chat_id: Option<i64>,
}

impl Api {
    /// `url`: of a Bot API server, without the token. `secret`: the name under which the token is stored.
    ///
    /// # Errors
    /// The token is not made like one, or no client can be made.
    pub fn new(url: &str, token: &Secret<String>, secret: &str) -> Result<Self, ModuleError> {
        if bot_id(token).is_none() {
            return Err(format!("{secret} is not a bot's token: @BotFather gives one like 123456789:AA…").into());
        }
        // The longest wait is told with each request.
        let client =
            http_client(url).build().map_err(|e| format!("no client can be made: {}", innermost(&e.without_url())))?;
        let url = url.trim_end_matches('/').to_owned();
        Ok(Self { client, url, token: token.clone(), secret: secret.to_owned() })
    }

    /// The bot's number, which is the first part of its token.
    pub fn bot_id(&self) -> i64 {
        bot_id(&self.token).unwrap_or_default()
    }

    pub async fn me(&self) -> Result<User, ApiError> {
        self.call("getMe", &Value::Null).await
    }

    /// Calls a method.
    pub async fn call<T: DeserializeOwned>(&self, method: &str, arguments: &Value) -> Result<T, ApiError> {
        self.call_within(method, arguments, PATIENCE).await
    }

    /// Calls a method that may take its time.
    pub async fn call_within<T: DeserializeOwned>(
        &self,
        method: &str,
        arguments: &Value,
        within: Duration,
    ) -> Result<T, ApiError> {
        let mut request = self.request(method).timeout(within);
        if !arguments.is_null() {
            request = request.json(arguments);
        }
        self.answer(method, request).await
    }

    /// Calls a method that takes a file, in this field, beside its arguments.
    pub async fn upload<T: DeserializeOwned>(
        &self,
        method: &str,
        arguments: &Value,
        (field, file): (&str, &OutFile),
    ) -> Result<T, ApiError> {
        let boundary = Uuid::new_v4().simple().to_string();
        let body = form(&boundary, arguments, (field, file));
        let request = self.request(method).timeout(UPLOAD_WITHIN);
        let request = request.header("content-type", format!("multipart/form-data; boundary={boundary}")).body(body);
        self.answer(method, request).await
    }

    fn request(&self, method: &str) -> reqwest::RequestBuilder {
        self.client.post(format!("{}/bot{}/{method}", self.url, self.token.expose()))
    }

    async fn answer<T: DeserializeOwned>(&self, method: &str, request: reqwest::RequestBuilder) -> Result<T, ApiError> {
        let response = request.send().await.map_err(of_transport)?;
        let status = response.status();
        let body = response.bytes().await.map_err(of_transport)?;
        let Ok(answer) = serde_json::from_slice::<Answer>(&body) else {
            return Err(match status.is_server_error() {
                // From somebody between, who may have passed it on.
                true => ApiError::Unknown(format!("Telegram answered {status}")),
                false => ApiError::Refused(format!("an answer that is not the Bot API's ({status})")),
            });
        };
        if !answer.ok {
            return Err(self.of_answer(status, answer));
        }
        serde_json::from_value(answer.result)
            .map_err(|e| ApiError::Unknown(format!("an answer to {method} that makes no sense: {e}")))
    }

    fn of_answer(&self, status: StatusCode, answer: Answer) -> ApiError {
        let why = text::truncate(&answer.description, 300);
        if let Some(chat) = answer.parameters.migrate_to_chat_id {
            return ApiError::Moved(chat);
        }
        match status.as_u16() {
            // A token that was never one is answered with 404.
            401 | 404 => ApiError::Token(self.secret.clone()),
            403 => ApiError::Forbidden(why),
            409 => ApiError::Conflict(why),
            429 => ApiError::TooMany(Duration::from_secs(answer.parameters.retry_after.unwrap_or(5))),
            500..=599 => ApiError::Unknown(format!("Telegram answered {status}: {why}")),
            _ => ApiError::Refused(why),
        }
    }

    /// The content of a file that is no larger than this.
    pub async fn file(&self, id: &str, most: u64) -> Result<Vec<u8>, ApiError> {
        let info: FileInfo = self.call("getFile", &serde_json::json!({"file_id": id})).await?;
        let path = info.file_path.ok_or_else(|| ApiError::Refused("the file can't be fetched".to_owned()))?;
        let url = format!("{}/file/bot{}/{path}", self.url, self.token.expose());
        let response = self.client.get(url).timeout(PATIENCE).send().await.map_err(of_transport)?;
        if !response.status().is_success() {
            return Err(ApiError::Refused(format!("the file was answered with {}", response.status())));
        }
        let content = body_within(response, usize::try_from(most).unwrap_or(usize::MAX)).await.map_err(of_transport)?;
        content.ok_or_else(|| ApiError::Refused(format!("the file is larger than {most} bytes")))
    }
}

/// The arguments and a file as a form of several parts (RFC 7578): texts as they are, all else as JSON.
fn form(boundary: &str, arguments: &Value, (field, file): (&str, &OutFile)) -> Vec<u8> {
    let mut body = Vec::with_capacity(file.content.len() + 1024);
    for (name, value) in arguments.as_object().into_iter().flatten() {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let head = format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n");
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(value.as_bytes());
        body.extend_from_slice(b"\r\n");
    }
    let OutFile { name, media_type, content } = file;
    let head = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"{field}\"; filename=\"{name}\"\r\n\
         Content-Type: {media_type}\r\n\r\n"
    );
    body.extend_from_slice(head.as_bytes());
    body.extend_from_slice(content);
    body.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    body
}

/// The number in front of a token's colon.
fn bot_id(token: &Secret<String>) -> Option<i64> {
    let (id, rest) = token.expose().split_once(':')?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (!rest.is_empty() && rest.chars().all(plain)).then(|| id.parse().ok()).flatten()
}

/// The words never hold the address: the token stands in it.
fn of_transport(e: reqwest::Error) -> ApiError {
    let e = e.without_url();
    match (e.is_connect() || e.is_builder(), e.is_timeout()) {
        (true, _) => ApiError::Unreachable(format!("Telegram can't be reached: {}", innermost(&e))),
        (false, true) => ApiError::Unknown("Telegram did not answer in time".to_owned()),
        (false, false) => ApiError::Unknown(format!("no answer of Telegram: {}", innermost(&e))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_a_number_and_a_secret() {
        let id = |token: &str| bot_id(&Secret::new(token.to_owned()));
        assert_eq!(id("123456:AAE-x_9"), Some(123_456));
        for wrong in ["", "AAE", "abc:AAE", "123456:", "123456:a/../getMe"] {
            assert_eq!(id(wrong), None, "{wrong}");
        }
    }
}
