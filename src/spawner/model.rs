//! Which model a butler's sessions talk to, and with which key.

use crate::base::{Secret, TenantId};
use crate::config::{ButlerConfig, EndpointsConfig, RuntimeKind, SpawnerConfig};
use crate::credentials::{CredentialError, Credentials};

/// What the adapter needs to reach the model.
pub struct ModelAccess {
    pub model: Option<String>,
    /// `None` is the vendor's own.
    pub base_url: Option<String>,
    /// Environment variables for the child.
    pub keys: Vec<(String, Secret<String>)>,
}

/// Why there is no model: a sentence that says what to set.
#[derive(Debug, thiserror::Error)]
pub enum NoModel {
    #[error("{0}")]
    Missing(String),
    #[error(transparent)]
    Credentials(#[from] CredentialError),
}

fn key_names(config: &ButlerConfig) -> &'static [&'static str] {
    super::adapters::key_names(config.runtime.kind, config.runtime.api)
}

/// The endpoint and whether it is a server of the owner's own, which may need no key.
fn endpoint(config: &ButlerConfig, settings: &SpawnerConfig) -> (String, bool) {
    let configured = settings.endpoints.of(config.runtime.kind, config.runtime.api);
    let url = config.runtime.endpoint.as_ref().map_or(configured, String::as_str).to_owned();
    let own = EndpointsConfig::is_own(&url);
    (url, own)
}

/// The variables that may hold the key without which this butler has no model, best first; empty if it needs none.
pub fn wanted_keys(config: &ButlerConfig, settings: &SpawnerConfig) -> &'static [&'static str] {
    let (_, own) = endpoint(config, settings);
    if own && config.runtime.kind == RuntimeKind::Native { &[] } else { key_names(config) }
}

/// Looks up what a session of this butler needs.
pub async fn resolve(
    config: &ButlerConfig,
    settings: &SpawnerConfig,
    credentials: &Credentials,
) -> Result<ModelAccess, NoModel> {
    let (url, own) = endpoint(config, settings);
    let mut keys = Vec::new();
    for name in key_names(config) {
        if let Some((value, _)) = credentials.get(&TenantId::owner(), name).await? {
            keys.push(((*name).to_owned(), value));
            break;
        }
    }
    let native = config.runtime.kind == RuntimeKind::Native;
    if keys.is_empty() && !(native && own) {
        let first = key_names(config).first().copied().unwrap_or_default();
        return Err(NoModel::Missing(format!(
            "{} has no model: run `butlerd secret set {first}`{}",
            config.name,
            if native { ", or set [runtime] endpoint to a model server of your own" } else { "" }
        )));
    }
    if native && config.sessions.model.is_none() {
        return Err(NoModel::Missing(format!(
            "{} has no model: set [butler.runtime] model in {}",
            config.name,
            config.file.display()
        )));
    }
    Ok(ModelAccess { model: config.sessions.model.clone(), base_url: own.then_some(url), keys })
}
