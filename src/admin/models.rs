//! Where models are, each place asked once: whether it answers, to the key that sessions would use.

use std::collections::{BTreeMap, BTreeSet};

use agent::{Api, Endpoint, ProbeError, gemini_takes, probe, served_models};
use async_trait::async_trait;
use futures_util::future::join_all;
use jsonrpsee::Extensions;
use jsonrpsee::proc_macros::rpc;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::failure::Failure;
use super::rights::Need;
use super::rpc::{Rpc, may};
use base::{Secret, TenantId};
use config::{ButlerConfig, SpawnerConfig};
use outbox::MESSENGER;
use sessions::{ModelPlace, api_of, model_place};

/// The places of models.
#[rpc(server, client, namespace = "butlerd", namespace_separator = ".")]
pub trait ModelsApi {
    /// Asks each place where butlers' models are once, with the key that sessions use: a server of one's own for a word, a
    /// vendor for its list of models, which costs nothing. Scope `admin`.
    #[method(name = "models_try", param_kind = map, with_extensions)]
    async fn models_try(&self) -> Result<Vec<TriedModel>, Failure>;
}

/// A place that was asked, and for whom.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TriedModel {
    pub url: String,
    pub model: Option<String>,
    pub butlers: Vec<String>,
    #[serde(flatten)]
    pub outcome: TrialOutcome,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum TrialOutcome {
    Answered {
        ms: u64,
    },
    Failed {
        why: String,
    },
    /// There is nothing to ask with: a key is missing, or only the vendor's program knows how to ask.
    Untried {
        why: String,
    },
}

/// Keys of models by the variables that hold them.
pub type ModelKeys = BTreeMap<&'static str, Secret<String>>;

/// The variables that may hold these butlers' keys.
pub fn model_key_names(butlers: &[&ButlerConfig], settings: &SpawnerConfig) -> BTreeSet<&'static str> {
    butlers.iter().flat_map(|butler| model_place(butler, settings).keys.iter().copied()).collect()
}

/// Tries the places of these butlers' models, each once and all at the same time.
pub async fn try_models(butlers: &[&ButlerConfig], settings: &SpawnerConfig, keys: &ModelKeys) -> Vec<TriedModel> {
    type Shared<'a> = (ModelPlace, &'a ButlerConfig, Vec<String>);
    let mut places = BTreeMap::<_, Shared<'_>>::new();
    for butler in butlers {
        let place = model_place(butler, settings);
        let of_place = places.entry((place.url.clone(), place.keys));
        of_place.or_insert_with(|| (place, butler, Vec::new())).2.push(butler.name.to_string());
    }
    let trials = places.into_values().map(|(place, butler, butlers)| async move {
        let outcome = one(&place, butler, keys).await;
        TriedModel { url: place.url, model: place.model, butlers, outcome }
    });
    join_all(trials).await
}

async fn one(place: &ModelPlace, butler: &ButlerConfig, keys: &ModelKeys) -> TrialOutcome {
    let untried = |why: &str| TrialOutcome::Untried { why: why.to_owned() };
    let found = place.keys.iter().find_map(|name| Some(((*name).to_owned(), keys.get(name)?.clone())));
    if found.is_none() && !place.own {
        return untried("there is no key for it");
    }
    if found.as_ref().is_some_and(|(name, _)| !name.ends_with("_API_KEY")) {
        return untried("a subscription is tried by the first session");
    }
    let began = Instant::now();
    let endpoint = |api| Endpoint { api, base_url: place.url.clone(), key: found.clone() };
    let answered: Result<(), ProbeError> = match api_of(butler.runtime.kind, butler.runtime.api) {
        Some(config::Api::Anthropic) => answers(&endpoint(Api::Anthropic), place).await,
        Some(config::Api::Openai) => answers(&endpoint(Api::Openai), place).await,
        // The Gemini CLI's: it speaks neither.
        None => match &found {
            Some((_, key)) => gemini_takes(&place.url, key).await,
            None => return untried("only its own program asks there"),
        },
    };
    match answered {
        Ok(()) => TrialOutcome::Answered { ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX) },
        Err(e) => TrialOutcome::Failed { why: e.to_string() },
    }
}

/// A server of the owner's is asked for a word; a vendor, where that costs, for its list of models.
async fn answers(endpoint: &Endpoint, place: &ModelPlace) -> Result<(), ProbeError> {
    match &place.model {
        Some(model) if place.own => probe(endpoint, model).await.map(drop),
        _ => served_models(endpoint).await.map(drop),
    }
}

#[async_trait]
impl ModelsApiServer for Rpc {
    async fn models_try(&self, ext: &Extensions) -> Result<Vec<TriedModel>, Failure> {
        may(ext, Need::Household)?;
        let services = self.supervisor.services();
        let butlers = self.supervisor.configs();
        let configs: Vec<&ButlerConfig> =
            butlers.iter().map(AsRef::as_ref).filter(|b: &&ButlerConfig| b.name.as_str() != MESSENGER).collect();
        let mut keys = ModelKeys::new();
        for name in model_key_names(&configs, &services.config.spawner) {
            // A key that can't be read is none here; `status` says why it can't.
            let found = services.credentials.get(&TenantId::owner(), name).await.ok().flatten();
            keys.extend(found.map(|(value, _)| (name, value)));
        }
        Ok(try_models(&configs, &services.config.spawner, &keys).await)
    }
}
