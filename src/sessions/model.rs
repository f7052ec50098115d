//! Which model a butler's sessions talk to, and with which key.

use super::gateway::Upstream;
use super::gateway::login::{Login, family_of};
use super::types::SessionOptions;
use access::credentials::{CredentialError, Credentials};
use base::{Secret, TenantId, is_local_network};
use config::{ButlerConfig, EndpointsConfig, RuntimeKind, SpawnerConfig};
use llm_api::VendorTool;

/// What the adapter needs to reach the model.
pub struct ModelAccess {
    pub model: Option<String>,
    /// `None` is the vendor's own.
    pub base_url: Option<String>,
    /// Environment variables for the child.
    pub keys: Vec<(String, Secret<String>)>,
    /// The variable that the runtime expects its key in.
    pub key_name: String,
    /// Where the gateway finds the model.
    pub upstream: Upstream,
}

impl ModelAccess {
    /// What a child behind the gateway is told of its model: the gateway's address, and its own token in the place of
    /// the key, under the key's name.
    pub fn put_behind(&mut self, base_url: &str, token: Secret<String>) {
        self.base_url = Some(base_url.to_owned());
        self.keys = vec![(self.key_name.clone(), token)];
    }
}

/// Why there is no model: a sentence that says what to set.
#[derive(Debug, thiserror::Error)]
pub enum NoModel {
    #[error("{0}")]
    Missing(String),
    #[error(transparent)]
    Credentials(#[from] CredentialError),
}

fn key_names(config: &ButlerConfig, kind: RuntimeKind) -> &'static [&'static str] {
    super::adapters::key_names(kind, config.runtime.api)
}

/// The model for a runtime. The butler's own model is for its own runtime, and for a fallback that asks for the same key;
/// its small one, if `small` asks for it, is for its own runtime alone.
fn model(config: &ButlerConfig, kind: RuntimeKind, small: bool) -> Option<String> {
    if small
        && kind == config.runtime.kind
        && let Some(model) = &config.runtime.tiers.small
    {
        return Some(model.clone());
    }
    let like_own = key_names(config, kind).first() == key_names(config, config.runtime.kind).first();
    let own = || config.sessions.model.clone().filter(|_| like_own);
    config.runtime.models.get(&kind).cloned().or_else(own)
}

/// The endpoint and whether it is a server of the owner's own, which may need no key.
fn endpoint(config: &ButlerConfig, kind: RuntimeKind, settings: &SpawnerConfig) -> (String, bool) {
    let configured = settings.endpoints.of(kind, config.runtime.api);
    let meant = config.runtime.endpoint.as_ref().filter(|_| kind == config.runtime.kind || kind == RuntimeKind::Native);
    let url = meant.map_or(configured, String::as_str).to_owned();
    let own = EndpointsConfig::is_own(&url);
    (url, own)
}

/// Whether a butler's model server for this runtime is on the owner's own network, where no vendor's prices hold.
pub(super) fn is_local(
    config: &ButlerConfig,
    kind: RuntimeKind,
    settings: &SpawnerConfig,
    options: &SessionOptions,
) -> bool {
    match &options.server {
        Some(server) => is_local_network(&server.url),
        None => is_local_network(&endpoint(config, kind, settings).0),
    }
}

/// What the vendor may do besides answering: what the settings name, and what a built-in tool that they name has it do.
fn granted(config: &ButlerConfig) -> Vec<VendorTool> {
    let named = config.runtime.vendor_tools.iter().map(|tool| match tool {
        config::VendorTool::WebSearch => VendorTool::WebSearch,
        config::VendorTool::WebFetch => VendorTool::WebFetch,
        config::VendorTool::CodeExecution => VendorTool::CodeExecution,
    });
    let searches = |tool: &String| ["WebSearch", "web_search", "google_web_search"].contains(&tool.as_str());
    named.chain(config.runtime.tools.iter().find(|tool| searches(tool)).map(|_| VendorTool::WebSearch)).collect()
}

/// The variables that may hold the key without which this butler has no model, best first; empty if it needs none.
pub fn wanted_keys(config: &ButlerConfig, settings: &SpawnerConfig) -> &'static [&'static str] {
    let kind = config.runtime.kind;
    let (_, own) = endpoint(config, kind, settings);
    if own && kind == RuntimeKind::Native { &[] } else { key_names(config, kind) }
}

/// Where the sessions of a butler find their model.
#[derive(Clone, Debug)]
pub struct ModelPlace {
    pub url: String,
    /// A server of the owner's own, which may need no key.
    pub own: bool,
    /// `None`: the runtime's own choice.
    pub model: Option<String>,
    /// The variables that may hold its key, best first.
    pub keys: &'static [&'static str],
}

/// Where this butler's own runtime finds its model, and the small one where that is another.
pub fn model_places(config: &ButlerConfig, settings: &SpawnerConfig) -> Vec<ModelPlace> {
    let kind = config.runtime.kind;
    let (url, own) = endpoint(config, kind, settings);
    let mut models = vec![model(config, kind, false), model(config, kind, true)];
    models.dedup();
    let place = |model| ModelPlace { url: url.clone(), own, model, keys: key_names(config, kind) };
    models.into_iter().map(place).collect()
}

/// The key that a session has, under the name that its program looks for.
async fn keys(
    config: &ButlerConfig,
    kind: RuntimeKind,
    credentials: &Credentials,
    options: &SessionOptions,
) -> Result<Vec<(String, Secret<String>)>, NoModel> {
    let names = key_names(config, kind);
    if let Some(server) = &options.server {
        // The butler's own key is its vendor's, and nobody else's.
        let Some(name) = &server.key else { return Ok(Vec::new()) };
        let key = credentials.get(&TenantId::owner(), name).await?;
        let key = key.ok_or_else(|| {
            let why = format!("{} is asked with the key {name}, which is not stored", server.url);
            NoModel::Missing(format!("{why}: run `butlerd secret set {name}`"))
        })?;
        return Ok(names.first().map(|name| ((*name).to_owned(), key.0)).into_iter().collect());
    }
    for name in names {
        if let Some((value, _)) = credentials.get(&TenantId::owner(), name).await? {
            return Ok(vec![((*name).to_owned(), value)]);
        }
    }
    Ok(Vec::new())
}

/// Looks up what a session of this butler in this runtime with these options needs.
pub async fn resolve(
    config: &ButlerConfig,
    kind: RuntimeKind,
    settings: &SpawnerConfig,
    credentials: &Credentials,
    options: &SessionOptions,
) -> Result<ModelAccess, NoModel> {
    let (url, own) = match &options.server {
        Some(server) => (server.url.clone(), true),
        None => endpoint(config, kind, settings),
    };
    let keys = keys(config, kind, credentials, options).await?;
    let native = kind == RuntimeKind::Native;
    if keys.is_empty() && !(native && own) {
        let named = options.server.as_ref().and_then(|server| server.key.as_deref());
        let first = named.or(key_names(config, kind).first().copied()).unwrap_or_default();
        return Err(NoModel::Missing(format!(
            "{} has no model: run `butlerd secret set {first}`{}",
            config.name,
            if native { ", or set [runtime] endpoint in butlerd.toml to a model server of your own" } else { "" }
        )));
    }
    // What the house asks for itself is asked in one round.
    let model = options.model.clone().or_else(|| model(config, kind, options.one_round));
    if native && model.is_none() {
        return Err(NoModel::Missing(format!(
            "{} has no model: set [runtime] {} in butlerd.toml, or for it alone {} in {}",
            config.name,
            if kind == config.runtime.kind { "model" } else { "models.native" },
            if kind == config.runtime.kind { "[butler.runtime] model" } else { "[runtime] models.native" },
            config.file.display()
        )));
    }
    let family = family_of(kind, config.runtime.api);
    let login = keys.first().map_or(Login::Nobody, |(name, key)| Login::of(family, name, key.clone()));
    // A login that only the gateway can use: it is served elsewhere, and the program is given a key like any other.
    let by_file = matches!(login, Login::File(_));
    if by_file && !settings.gateway {
        let name = keys.first().map(|(name, _)| name.as_str()).unwrap_or_default();
        return Err(NoModel::Missing(format!(
            "{} has a login ({name}) that needs [spawner] gateway = true",
            config.name
        )));
    }
    let key_name = match keys.first() {
        Some((name, _)) if !by_file => name.clone(),
        _ => key_names(config, kind).first().map(|name| (*name).to_owned()).unwrap_or_default(),
    };
    let endpoint = if by_file && !own { settings.endpoints.chatgpt.clone() } else { url.clone() };
    let upstream = Upstream { family, endpoint, login, granted: granted(config) };
    Ok(ModelAccess { model, base_url: own.then_some(url), keys, key_name, upstream })
}
