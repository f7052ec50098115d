//! Calls the model's endpoint: one request, one streamed answer, and the retries between them.

use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use super::config::{AgentConfig, Api, ConfigError};
use super::wire::{AnswerReader, BadAnswer, Turn};
use base::{Backoff, HumanDuration, Secret, SseReader, body_within, innermost};
use llm_api::{ErrorClass, Failure};

/// The key of the model's endpoint and the name of the variable that it came from.
#[derive(Debug)]
pub struct ModelKey {
    pub variable: String,
    pub key: Secret<String>,
}

/// A model call that failed.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    #[error("cannot build an HTTP client for the model's endpoint: {0}")]
    Client(String),
    #[error("no answer from the model at {url}: {reason}")]
    Unreachable { url: String, reason: String },
    #[error("the answer of the model at {url} broke off: {reason}")]
    Cut { url: String, reason: String },
    #[error("the model at {url} did not answer completely within {limit}")]
    TimedOut { url: String, limit: HumanDuration },
    #[error("the model at {url} answered {status}: {failure}")]
    Refused { url: String, status: u16, failure: Failure },
    #[error("the model at {url} reported an error in its answer: {failure}")]
    InStream { url: String, failure: Failure },
    #[error("the model at {url}: {0}", url = .1)]
    BadAnswer(String, String),
    #[error("the model at {url}: {0} (max_output_tokens)", url = .1)]
    Endless(String, String),
    #[error("{error}; it asks to wait {asked}, longer than this run waits")]
    TooLong { error: Box<ModelError>, asked: HumanDuration },
}

impl ModelError {
    pub fn class(&self) -> ErrorClass {
        match self {
            ModelError::Client(_) => ErrorClass::InvalidRequest,
            ModelError::Unreachable { .. } | ModelError::Cut { .. } => ErrorClass::ModelUnreachable,
            ModelError::TimedOut { .. } => ErrorClass::TimedOut,
            ModelError::Refused { failure, .. } | ModelError::InStream { failure, .. } => failure.class,
            ModelError::BadAnswer(..) => ErrorClass::Crashed,
            ModelError::Endless(..) => ErrorClass::OutputLimit,
            ModelError::TooLong { error, .. } => error.class(),
        }
    }

    /// The HTTP status, where there was one other than success.
    pub fn status(&self) -> Option<u16> {
        match self {
            ModelError::Refused { status, .. } => Some(*status),
            ModelError::TooLong { error, .. } => error.status(),
            _ => None,
        }
    }

    /// [`Failure::may_be_of_pictures`]
    pub fn may_be_of_pictures(&self) -> bool {
        let ModelError::Refused { status, failure, .. } = self else { return false };
        matches!(*status, 400 | 404 | 415 | 422 | 500) && failure.may_be_of_pictures()
    }

    fn passing(&self) -> bool {
        match self {
            ModelError::Unreachable { .. } | ModelError::Cut { .. } => true,
            ModelError::Refused { failure, .. } | ModelError::InStream { failure, .. } => failure.is_passing(),
            _ => false,
        }
    }
}

/// A retry that is about to happen.
#[derive(Debug)]
pub struct Retry {
    pub class: ErrorClass,
    pub attempt: u32,
    pub delay: Duration,
    pub status: Option<u16>,
    /// What went wrong.
    pub message: String,
}

/// What happens while the model is asked.
#[derive(Debug)]
pub enum Progress {
    Retry(Retry),
    /// A piece of the answer's first text. `start`: where in it, in bytes.
    Text {
        start: usize,
        text: String,
    },
}

/// Why a try has no answer.
enum Failed<E> {
    /// With the delay that the server asked for.
    Model(ModelError, Option<Duration>),
    /// Whoever hears of it does not want to go on.
    Listener(E),
}

impl<E> From<ModelError> for Failed<E> {
    fn from(error: ModelError) -> Self {
        Failed::Model(error, None)
    }
}

/// Longer than this nobody waits inside a run: the supervisor can start another one later.
const LONGEST_WAIT: Duration = Duration::from_secs(120);
const LONGEST_DELAY: Duration = Duration::from_secs(30);
/// Text that is being written is told at most so often.
const BETWEEN: Duration = Duration::from_millis(40);
/// Of an answer that is not streamed, and of an error's text.
const LARGEST_DOCUMENT: usize = 16 * 1024 * 1024;

/// The model's endpoint.
pub struct ModelClient {
    http: reqwest::Client,
    api: Api,
    url: String,
    headers: HeaderMap,
    max_output_tokens: u32,
    request_timeout: HumanDuration,
    max_retries: u32,
    retry_delay: Duration,
    stream_text: bool,
}

/// An HTTP client for `url`, under the agent's name.
pub fn http_client(url: &str) -> Result<reqwest::Client, reqwest::Error> {
    base::http_client(url).user_agent(concat!("butlerd-agent/", env!("CARGO_PKG_VERSION"))).build()
}

impl ModelClient {
    pub fn new(config: &AgentConfig, key: Option<&ModelKey>) -> Result<Self, ModelError> {
        let url = config.api.url(&config.base_url);
        let http = http_client(&url).map_err(|error| ModelError::Client(reason(error)))?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in config.api.headers() {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        if let Some(key) = key {
            let (name, value) = config.api.key_header(&key.variable, key.key.expose());
            // The key's form was checked when it was read, so this only fails if that check is wrong.
            let mut value = HeaderValue::from_str(&value)
                .map_err(|_| ModelError::Client(ConfigError::KeyForm(key.variable.clone()).to_string()))?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_static(name), value);
        }
        Ok(Self {
            http,
            api: config.api,
            url,
            headers,
            max_output_tokens: config.max_output_tokens,
            request_timeout: config.request_timeout,
            max_retries: config.max_retries,
            retry_delay: config.retry_delay.0,
            stream_text: config.stream_text,
        })
    }

    /// Asks until there is an answer, an error that stays, or no retry left. `heard` hears of each retry before its
    /// delay, and of text as it is written; an error of its own ends the call.
    pub async fn turn<E: From<ModelError>>(
        &self,
        body: &serde_json::Value,
        mut heard: impl AsyncFnMut(Progress) -> Result<(), E>,
    ) -> Result<Turn, E> {
        let body = Bytes::from(body.to_string());
        let mut backoff = Backoff::new(self.retry_delay, LONGEST_DELAY);
        let mut attempt = 0;
        loop {
            attempt += 1;
            let (error, asked) = match self.attempt(body.clone(), &mut heard).await {
                Ok(turn) => return Ok(turn),
                Err(Failed::Listener(error)) => return Err(error),
                Err(Failed::Model(error, asked)) => (error, asked),
            };
            if !error.passing() || attempt > self.max_retries {
                return Err(error.into());
            }
            if let Some(asked) = asked.filter(|asked| *asked > LONGEST_WAIT) {
                return Err(ModelError::TooLong { error: Box::new(error), asked: HumanDuration(asked) }.into());
            }
            let delay = asked.unwrap_or_else(|| backoff.next_delay());
            let message = match &error {
                ModelError::Refused { failure, .. } | ModelError::InStream { failure, .. } => failure.to_string(),
                other => other.to_string(),
            };
            let (class, status) = (error.class(), error.status());
            heard(Progress::Retry(Retry { class, attempt, delay, status, message })).await?;
            tokio::time::sleep(delay).await;
        }
    }

    /// One request.
    async fn attempt<E>(
        &self,
        body: Bytes,
        heard: &mut impl AsyncFnMut(Progress) -> Result<(), E>,
    ) -> Result<Turn, Failed<E>> {
        let limit = self.request_timeout;
        match tokio::time::timeout(limit.0, self.exchange(body, heard)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(ModelError::TimedOut { url: self.url.clone(), limit }.into()),
        }
    }

    async fn exchange<E>(
        &self,
        body: Bytes,
        heard: &mut impl AsyncFnMut(Progress) -> Result<(), E>,
    ) -> Result<Turn, Failed<E>> {
        let url = || self.url.clone();
        let request = self.http.post(&self.url).headers(self.headers.clone()).body(body);
        let response =
            request.send().await.map_err(|error| ModelError::Unreachable { url: url(), reason: reason(error) })?;
        let status = response.status().as_u16();
        let asked = retry_after(response.headers());
        if !response.status().is_success() {
            let text = read_all(response).await.unwrap_or_default();
            let failure = Failure::of_answer(status, &text);
            return Err(Failed::Model(ModelError::Refused { url: url(), status, failure }, asked));
        }
        let kind = response.headers().get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
        if kind.starts_with("application/json") {
            Ok(self.document(response).await?)
        } else {
            self.stream(response, heard).await
        }
    }

    async fn stream<E>(
        &self,
        mut response: reqwest::Response,
        heard: &mut impl AsyncFnMut(Progress) -> Result<(), E>,
    ) -> Result<Turn, Failed<E>> {
        let mut sse = SseReader::default();
        let mut reader = AnswerReader::new(self.api, self.max_output_tokens);
        let (mut told, mut last) = (0, None::<Instant>);
        loop {
            let fresh = self.stream_text.then(|| reader.text().len()).filter(|length| *length > told);
            let chunk = match fresh {
                None => response.chunk().await,
                // What comes soon goes with it.
                Some(length) => {
                    let wait = last.map_or(Duration::ZERO, |last| BETWEEN.saturating_sub(last.elapsed()));
                    match tokio::time::timeout(wait, response.chunk()).await {
                        Ok(chunk) => chunk,
                        Err(_) => {
                            let text = reader.text()[told..].to_owned();
                            heard(Progress::Text { start: told, text }).await.map_err(Failed::Listener)?;
                            (told, last) = (length, Some(Instant::now()));
                            continue;
                        }
                    }
                }
            };
            let chunk = chunk.map_err(|error| ModelError::Cut { url: self.url.clone(), reason: reason(error) })?;
            let Some(chunk) = chunk else { break };
            let events =
                sse.push(&chunk).map_err(|error| ModelError::BadAnswer(error.to_string(), self.url.clone()))?;
            for event in events {
                reader.event(&event).map_err(|bad| self.judge(bad))?;
            }
        }
        if let Some(event) = sse.finish()
            && reader.event(&event).is_err()
        {
            // Half an event at the very end is a broken-off answer, not a malformed one.
            return Err(self.judge(BadAnswer::Incomplete).into());
        }
        Ok(reader.finish().map_err(|bad| self.judge(bad))?)
    }

    async fn document(&self, response: reqwest::Response) -> Result<Turn, ModelError> {
        let text = read_all(response).await.map_err(|reason| ModelError::Cut { url: self.url.clone(), reason })?;
        let value = serde_json::from_slice(&text)
            .map_err(|error| self.judge(BadAnswer::Malformed(format!("it is not valid JSON ({error})"))))?;
        self.api.whole(&value).map_err(|bad| self.judge(bad))
    }

    fn judge(&self, bad: BadAnswer) -> ModelError {
        let url = self.url.clone();
        match bad {
            BadAnswer::Incomplete => ModelError::Cut { url, reason: "the stream ended too early".to_owned() },
            BadAnswer::Failure(failure) => ModelError::InStream { url, failure },
            BadAnswer::Endless { .. } => ModelError::Endless(bad.to_string(), url),
            BadAnswer::Malformed(_) => ModelError::BadAnswer(bad.to_string(), url),
        }
    }
}

async fn read_all(response: reqwest::Response) -> Result<Vec<u8>, String> {
    let text = body_within(response, LARGEST_DOCUMENT).await.map_err(reason)?;
    text.ok_or_else(|| "it is larger than 16 MiB".to_owned())
}

/// Whole or broken seconds; the form with a date is not in use by model servers and counts as absent.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let seconds = number("retry-after-ms").map(|ms| ms / 1000.0).or_else(|| number("retry-after"))?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// The innermost cause: "Connection refused" instead of three layers of "error sending request". Without the URL,
/// which the message names already and which may carry a password.
fn reason(error: reqwest::Error) -> String {
    innermost(&error.without_url())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_read_in_both_units() {
        let headers = |name: &'static str, value: &'static str| {
            let mut map = HeaderMap::new();
            map.insert(name, HeaderValue::from_static(value));
            map
        };
        assert_eq!(retry_after(&headers("retry-after", "3")), Some(Duration::from_secs(3)));
        assert_eq!(retry_after(&headers("retry-after-ms", "250")), Some(Duration::from_millis(250)));
        for bad in ["-1", "Fri, 23 Oct 2026 12:00:00 GMT", "inf", ""] {
            assert_eq!(retry_after(&headers("retry-after", bad)), None, "{bad}");
        }
    }
}
