//! A model's endpoint tried once, before anything depends on it.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::config::{AgentConfig, Api};

use super::model::{ModelClient, ModelError, ModelKey, http_client};
use base::{HumanDuration, Secret, innermost};
use llm_api::ErrorClass;

/// What a model has to say to show that it is there. A model that thinks before it speaks is cut short, which shows as
/// much.
const ENOUGH_TOKENS: u32 = 16;
/// A local server may load the model first.
const PATIENCE: HumanDuration = HumanDuration::from_secs(60);
/// A list of models is made of nothing but what the server has.
const PATIENCE_FOR_A_LIST: Duration = Duration::from_secs(5);

/// Where a model is served.
#[derive(Debug, Clone)]
pub struct Endpoint {
    pub api: Api,
    /// As in [`AgentConfig`].
    pub base_url: String,
    /// The variable that a session has the key from, and the key.
    pub key: Option<(String, Secret<String>)>,
}

impl Endpoint {
    fn client(&self, config: &AgentConfig) -> Result<ModelClient, ModelError> {
        let key = self.key.as_ref().map(|(variable, key)| ModelKey { variable: variable.clone(), key: key.clone() });
        ModelClient::new(config, key.as_ref())
    }
}

/// Asks the model for a word, as a session would, once. Returns how long the answer took.
///
/// `Err` is a sentence with the endpoint's address: no connection, a key or a model that is refused, no answer in a
/// minute.
pub async fn probe(endpoint: &Endpoint, model: &str) -> Result<Duration, ProbeError> {
    let mut config = AgentConfig::new(endpoint.api, &endpoint.base_url, model, "Say: ready");
    config.max_output_tokens = ENOUGH_TOKENS;
    config.max_retries = 0;
    config.request_timeout = PATIENCE;
    let client = endpoint.client(&config)?;
    let body = config.api.request(&config, &[], &config.api.opening(&config));
    let started = Instant::now();
    match client.turn::<ModelError>(&body, async |_| Ok(())).await {
        Ok(_) => Ok(started.elapsed()),
        Err(e) if e.class() == ErrorClass::OutputLimit => Ok(started.elapsed()),
        Err(e) => Err(e.into()),
    }
}

/// Why an endpoint can't be used: a sentence.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error("no list of models from {url}: {reason}")]
    List { url: String, reason: String },
}

/// Whether the Gemini API takes this key: it is asked for the beginning of its list of models, which costs nothing.
pub async fn takes_key(base_url: &str, key: &Secret<String>) -> Result<(), ProbeError> {
    let url = format!("{}/v1beta/models?pageSize=1", base_url.trim_end_matches('/'));
    let failed = |e: reqwest::Error| ProbeError::List { url: url.clone(), reason: innermost(&e.without_url()) };
    let request = http_client(&url).map_err(failed)?.get(&url);
    let request = request.timeout(PATIENCE_FOR_A_LIST).header("x-goog-api-key", key.expose());
    request.send().await.and_then(reqwest::Response::error_for_status).map_err(failed).map(drop)
}

/// The models that a server says it has, in its order.
pub async fn served_models(endpoint: &Endpoint) -> Result<Vec<String>, ProbeError> {
    let base = endpoint.base_url.trim_end_matches('/');
    let url = match endpoint.api {
        Api::Anthropic => format!("{}/v1/models", base.strip_suffix("/v1").unwrap_or(base)),
        Api::Openai => format!("{base}/models"),
    };
    let failed = |e: reqwest::Error| ProbeError::List { url: url.clone(), reason: innermost(&e.without_url()) };
    let mut request = http_client(&url).map_err(failed)?.get(&url).timeout(PATIENCE_FOR_A_LIST);
    for (name, value) in endpoint.api.headers() {
        request = request.header(*name, *value);
    }
    if let Some((variable, key)) = &endpoint.key {
        let (name, value) = endpoint.api.key_header(variable, key.expose());
        request = request.header(name, value);
    }
    let answer = request.send().await.and_then(reqwest::Response::error_for_status).map_err(failed)?;
    let list: Value = answer.json().await.map_err(failed)?;
    let names = list["data"].as_array().into_iter().flatten().filter_map(|model| model["id"].as_str());
    Ok(names.map(str::to_owned).collect())
}
