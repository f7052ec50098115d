//! Where models are, each place asked once: whether it answers, to the key that sessions would use.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use agent::{Api, Endpoint, ProbeError, probe, served_models, takes_key};
use async_trait::async_trait;
use futures_util::future::join_all;
use jsonrpsee::Extensions;
use jsonrpsee::proc_macros::rpc;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout};

use super::failure::Failure;
use super::rights::Need;
use super::rpc::Rpc;
use super::visitor::may;
use base::{RequestContext, Secret, TenantId, Trust};
use config::{ButlerConfig, SpawnerConfig};
use outbox::MESSENGER;
use sessions::budget::Limits;
use sessions::{HOUSEKEEPING, ModelPlace, SessionOptions, SessionState, Trigger, api_of, model_places};

/// What the session that tries one is told and asked.
const TRIAL: [&str; 2] = ["Answer with the one word: ready.", "Are you ready?"];
/// A session is ended by its own limits; the trial of it by this.
const LONGEST_TRIAL: Duration = Duration::from_secs(60);

/// The places of models.
#[rpc(server, client, namespace = "butlerd", namespace_separator = ".")]
pub trait ModelsApi {
    /// Asks each place where butlers' models are once, with the key that sessions use: a server of one's own for a word, a
    /// vendor for its list of models, which costs nothing. A subscription is tried by a session of one model call.
    /// Scope `admin`.
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
    /// A login, which only its program can use: a session tries it.
    Subscription,
}

/// Keys of models by the variables that hold them.
pub type ModelKeys = BTreeMap<&'static str, Secret<String>>;

/// The variables that may hold these butlers' keys.
pub fn model_key_names(butlers: &[&ButlerConfig], settings: &SpawnerConfig) -> BTreeSet<&'static str> {
    let places = butlers.iter().flat_map(|butler| model_places(butler, settings));
    places.flat_map(|place| place.keys.iter().copied()).collect()
}

/// Tries the places of these butlers' models, each once and all at the same time.
pub async fn try_models(butlers: &[&ButlerConfig], settings: &SpawnerConfig, keys: &ModelKeys) -> Vec<TriedModel> {
    type Shared<'a> = (ModelPlace, &'a ButlerConfig, Vec<String>);
    let mut places = BTreeMap::<_, Shared<'_>>::new();
    for butler in butlers {
        for place in model_places(butler, settings) {
            // A vendor is not asked for a word, so one model of its is as good as another.
            let model = place.own.then(|| place.model.clone());
            let of_place = places.entry((place.url.clone(), place.keys, model));
            let butlers = &mut of_place.or_insert_with(|| (place, butler, Vec::new())).2;
            if butlers.last().is_none_or(|last| *last != butler.name.as_str()) {
                butlers.push(butler.name.to_string());
            }
        }
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
        return TrialOutcome::Subscription;
    }
    let began = Instant::now();
    let endpoint = |api| Endpoint { api, base_url: place.url.clone(), key: found.clone() };
    let answered: Result<(), ProbeError> = match api_of(butler.runtime.kind, butler.runtime.api) {
        Some(config::Api::Anthropic) => answers(&endpoint(Api::Anthropic), place).await,
        Some(config::Api::Openai) => answers(&endpoint(Api::Openai), place).await,
        // It speaks neither.
        None => match &found {
            Some((_, key)) => takes_key(&place.url, key).await,
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
        let mut tried = try_models(&configs, &services.config.spawner, &keys).await;
        let by_session = tried.iter_mut().filter(|place| place.outcome == TrialOutcome::Subscription).map(|place| {
            let config = configs.iter().find(|c| place.butlers.first().is_some_and(|b| *b == c.name.as_str()));
            async move {
                if let Some(config) = config {
                    place.outcome = self.by_session(config).await;
                }
            }
        });
        join_all(by_session).await;
        Ok(tried)
    }
}

impl Rpc {
    /// The program asks for a word, in a session like any other, but without tools and memory.
    async fn by_session(&self, config: &ButlerConfig) -> TrialOutcome {
        let butler = match self.supervisor.butler(config.name.as_str()) {
            Ok(butler) => butler,
            Err(why) => return TrialOutcome::Untried { why: why.to_string() },
        };
        let clock = &self.supervisor.services().clock;
        let owner = TenantId::owner();
        let root = RequestContext::root(clock, owner, "cli", config.name.as_str(), "doctor", Trust::System);
        let options = SessionOptions {
            tools: Some(Arc::default()),
            system_prompt: Some(TRIAL[0]),
            apart_from_memory: true,
            runtime: Some(config.runtime.kind),
            limits: Limits { turns: Some(1), ..Limits::default() },
            ..SessionOptions::default()
        };
        let trigger = Trigger { options, ..Trigger::new(TRIAL[1], format!("{HOUSEKEEPING}doctor"), Arc::new(root)) };
        let failed = |why: String| TrialOutcome::Failed { why };
        match timeout(LONGEST_TRIAL, butler.spawner().trigger_from(trigger, None)).await {
            Ok(Ok(done)) if done.state == SessionState::Succeeded => {
                TrialOutcome::Answered { ms: done.duration_ms.unsigned_abs() }
            }
            Ok(Ok(done)) => failed(done.error.unwrap_or_else(|| done.state.as_str().replace('_', " "))),
            Ok(Err(why)) => failed(why.to_string()),
            Err(_) => failed(format!("no answer within {} s", LONGEST_TRIAL.as_secs())),
        }
    }
}
