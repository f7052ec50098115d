//! What runs the sessions: the household's `[runtime]`, and what a butler takes over from it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

use super::schema::keys;
use super::values::{Api, RuntimeKind};

/// The model of sessions in `native` that speak Anthropic's protocol, where neither the butler nor the household names one.
const DEFAULT_MODEL: &str = "claude-sonnet-4-5";

/// What runs the sessions of all butlers that don't say otherwise in `[runtime]` and `[butler.runtime] model`. A butler
/// whose `type` or `api` is another one takes nothing from here that belongs to this one.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct HouseholdRuntime {
    /// `native` is butlerd's own small agent; the others are vendors' command-line programs.
    #[serde(rename = "type")]
    #[schemars(extend("default" = "native"))]
    pub kind: RuntimeKind,
    /// The protocol that `native` speaks to the model: Anthropic's, or that of OpenAI, which Ollama, vLLM and llama.cpp
    /// speak as well.
    #[schemars(extend("default" = "anthropic"))]
    pub api: Api,
    /// Where `native` finds the model; if not set, `[spawner.endpoints]` for the protocol.
    #[schemars(extend("format" = "url", "examples" = ["http://127.0.0.1:11434/v1"]))]
    pub endpoint: Option<String>,
    /// The model. If not set: `claude-sonnet-4-5` with Anthropic's protocol, or what the vendor's program chooses.
    #[schemars(length(min = 1), extend("examples" = ["qwen3:8b"]))]
    pub model: Option<String>,
    /// Runtimes to try, in this order, where the first can't start a session.
    #[schemars(extend("default" = []))]
    pub fallback: Vec<RuntimeKind>,
    /// The models of the runtimes that are not to use `model`: fallbacks of other vendors, mostly.
    #[serde(default)]
    #[schemars(
        with = "BTreeMap<String, String>",
        extend("additionalProperties" = {"type": "string", "minLength": 1}, "propertyNames" = {"format": "runtime"}, "examples" = [{ "codex": "gpt-5" }])
    )]
    pub models: BTreeMap<RuntimeKind, String>,
    /// Models of other sizes than `model`.
    pub tiers: ModelTiers,
}

/// The models of one runtime by their size. What is not set is `model`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
pub struct ModelTiers {
    /// The model of butlers with `[butler.runtime] tier = "small"`, and of what the house asks for itself in all others:
    /// whom a message is for, what of a conversation is worth keeping, a question about a text that is not trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), extend("examples" = ["claude-haiku-4-5"]))]
    pub small: Option<String>,
    /// The model of butlers with `[butler.runtime] tier = "large"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), extend("examples" = ["claude-opus-4-1"]))]
    pub large: Option<String>,
}

impl HouseholdRuntime {
    /// What is wrong with the keys taken together: the key, what was found, and what was expected.
    pub(super) fn mistakes(&self) -> Vec<(&'static str, String, &'static str)> {
        let mut wrong = Vec::new();
        let all: Vec<RuntimeKind> = [self.kind].into_iter().chain(self.fallback.iter().copied()).collect();
        if let Some((_, twice)) = all.iter().enumerate().find(|(n, kind)| all[..*n].contains(kind)) {
            wrong.push(("runtime.fallback", format!("found \"{twice}\" for the second time"), "each runtime once"));
        }
        if !all.contains(&RuntimeKind::Native) {
            let found = || format!("found with type \"{}\"", self.kind);
            let expected = "it only where \"native\" is the type or a fallback";
            if self.api != Api::Anthropic {
                wrong.push(("runtime.api", found(), expected));
            }
            if self.endpoint.is_some() {
                wrong.push(("runtime.endpoint", found(), expected));
            }
        }
        wrong
    }

    /// Puts into a butler's file what it leaves to the household. What belongs together is taken together: a butler with
    /// another runtime, or another protocol, keeps off this one's address and models.
    pub(super) fn hand_on(&self, file: &mut Map<String, Json>) {
        let Some(own) = table(file, "runtime") else { return };
        let same_type = own.get("type").is_none_or(|kind| *kind == json!(self.kind));
        let same_api = own.get("api").is_none_or(|api| *api == json!(self.api));
        let mut leave = |key: &str, value: Json| {
            own.entry(key.to_owned()).or_insert(value);
        };
        leave("type", json!(self.kind));
        leave("api", json!(if same_type { self.api } else { Api::Anthropic }));
        leave("fallback", if same_type { json!(self.fallback) } else { json!([]) });
        if same_type {
            leave("models", json!(self.models));
        }
        let (same, endpoint) = (same_type && same_api, self.endpoint.as_ref());
        if let (true, Some(endpoint)) = (same, endpoint) {
            leave("endpoint", json!(endpoint));
        }
        let anthropic = own["type"] == json!(RuntimeKind::Native)
            && own["api"] == json!(Api::Anthropic)
            && !own.contains_key("endpoint");
        let mut tiers = json!(if same { self.tiers.clone() } else { ModelTiers::default() });
        if let (Some(all), Some(named)) = (tiers.as_object_mut(), own.get("tiers").and_then(Json::as_object)) {
            all.extend(named.clone());
        }
        own.insert("tiers".to_owned(), tiers.clone());
        let model = self.model.as_deref().filter(|_| same).or(anthropic.then_some(DEFAULT_MODEL));
        let Some(sessions) = table(file, "butler").and_then(|butler| table(butler, "runtime")) else { return };
        let of_tier = sessions.get("tier").and_then(Json::as_str).map_or(&Json::Null, |tier| &tiers[tier]);
        let model = of_tier.as_str().or(model);
        if let Some(model) = model {
            sessions.entry("model").or_insert_with(|| json!(model));
        }
    }
}

/// The table of that name in another, made where it is not there; `None` if something else is.
fn table<'a>(of: &'a mut Map<String, Json>, name: &str) -> Option<&'a mut Map<String, Json>> {
    of.entry(name).or_insert_with(|| Json::Object(Map::new())).as_object_mut()
}
