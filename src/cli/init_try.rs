//! `butlerd init`: what was chosen tried once for real, before anything depends on it.

use serde::Serialize;

use super::out::{Out, Tone};
use agent::{Endpoint, probe, served_models, takes_key};
use base::Secret;
use config::{Api, RuntimeKind, SpawnerConfig};
use offline::doctor::version_of;
use offline::setup::{StartRuntime, key_name};

/// What came of it, in words.
#[derive(Debug, Serialize)]
#[serde(tag = "outcome", content = "said", rename_all = "snake_case")]
pub enum Tried {
    Answered(String),
    Failed(String),
    /// Nothing was asked, and why.
    Skipped(String),
}

impl Tried {
    /// Whether it is not as it should be.
    pub fn failed(&self) -> bool {
        matches!(self, Self::Failed(_))
    }

    /// Prints it; `failed`: the word and its tone for what is not as it should be.
    pub fn print(&self, out: &Out, failed: (Tone, &str)) {
        let ((tone, word), said) = match self {
            Self::Answered(said) => ((Tone::Good, "ok:"), said),
            Self::Failed(said) => (failed, said),
            Self::Skipped(said) => ((Tone::Faint, "not tried:"), said),
        };
        out.line(&format!("{} {}", out.paint(tone, word), said.trim_end_matches('.')));
    }
}

impl<E: ToString> From<Result<String, E>> for Tried {
    fn from(tried: Result<String, E>) -> Self {
        match tried {
            Ok(said) => Self::Answered(said),
            Err(e) => Self::Failed(e.to_string()),
        }
    }
}

/// Asks the model or its vendor once, with the key that sessions would use, and a vendor's program for its version.
pub async fn tried(
    settings: &SpawnerConfig,
    runtime: &StartRuntime,
    key: Option<(&str, &Secret<String>)>,
) -> Vec<Tried> {
    let key = key.map(|(name, key)| (name.to_owned(), key.clone())).or_else(|| of_environment(runtime));
    let mut all = Vec::new();
    if runtime.kind != RuntimeKind::Native {
        all.push(version_of(runtime.kind, settings).await.map_err(|e| e.to_string()).into());
    }
    all.push(model(settings, runtime, key).await);
    all
}

/// Sessions take a key of the environment as well.
fn of_environment(runtime: &StartRuntime) -> Option<(String, Secret<String>)> {
    let name = key_name(runtime);
    let value = std::env::var(name).ok().filter(|value| !value.trim().is_empty())?;
    Some((name.to_owned(), Secret::new(value)))
}

async fn model(settings: &SpawnerConfig, runtime: &StartRuntime, key: Option<(String, Secret<String>)>) -> Tried {
    let own = runtime.endpoint.is_some();
    let Some((name, value)) = &key else {
        if own {
            return native(settings, runtime, None).await;
        }
        return Tried::Skipped("there is no key for the model yet".to_owned());
    };
    if !name.ends_with("_API_KEY") {
        return Tried::Skipped(
            "a subscription's login can only be tried by a session; `butlerd doctor` does that while the daemon runs"
                .to_owned(),
        );
    }
    match runtime.kind {
        RuntimeKind::Gemini => {
            let taken = takes_key(&settings.endpoints.gemini, value).await;
            taken.map(|()| format!("{name} is taken by {}", settings.endpoints.gemini)).into()
        }
        _ => native(settings, runtime, key).await,
    }
}

/// Asks as butlerd's agent asks: for a word, or where no model is named, for the list of models.
async fn native(settings: &SpawnerConfig, runtime: &StartRuntime, key: Option<(String, Secret<String>)>) -> Tried {
    let openai = match runtime.kind {
        RuntimeKind::Native => runtime.api == Api::Openai,
        kind => kind == RuntimeKind::Codex,
    };
    let (api, usual) = match openai {
        true => (agent::Api::Openai, &settings.endpoints.openai),
        false => (agent::Api::Anthropic, &settings.endpoints.anthropic),
    };
    let base_url = runtime.endpoint.as_ref().unwrap_or(usual).clone();
    let endpoint = Endpoint { api, base_url, key };
    match &runtime.model {
        Some(model) => {
            let answered = probe(&endpoint, model).await;
            answered.map(|after| format!("{model} answered in {:.1} s", after.as_secs_f64())).into()
        }
        None => {
            let listed = served_models(&endpoint).await;
            listed.map(|_| format!("{} answered", endpoint.base_url)).into()
        }
    }
}
