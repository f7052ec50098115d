//! Where the models are, each place asked once, with the key that sessions would use.

use std::time::Duration;

use super::daemon::Daemon;
use super::{DELIVERS, Finding};
use admin::api::ModelsApiClient;
use admin::{Client, ClientError, ModelKeys, TrialOutcome, TriedModel, model_key_names, try_models};
use base::Secret;
use config::{ButlerConfig, Config};

const TOPIC: &str = "models";

/// A local server may load its model first.
const PATIENCE: Duration = Duration::from_secs(70);

/// The daemon asks, who has the stored keys; without one, this process with those of its environment.
pub(super) async fn findings(config: &Config, butlers: &[ButlerConfig], daemon: &Daemon) -> Vec<Finding> {
    if daemon.status().is_some() {
        return match tokio::time::timeout(PATIENCE, by_daemon(config)).await {
            Ok(Ok(tried)) => tried.into_iter().map(judge).collect(),
            Ok(Err(e)) => vec![Finding::warning(TOPIC, format!("the daemon could not try them: {e}"))],
            Err(_) => vec![Finding::warning(TOPIC, "the daemon tries them, and is not done yet")],
        };
    }
    let sessions: Vec<&ButlerConfig> = butlers.iter().filter(|b| b.name.as_str() != DELIVERS).collect();
    let of_environment = |name: &'static str| {
        let value = std::env::var(name).ok().filter(|value| !value.is_empty())?;
        Some((name, Secret::new(value)))
    };
    let names = model_key_names(&sessions, &config.spawner);
    let keys: ModelKeys = names.into_iter().filter_map(of_environment).collect();
    try_models(&sessions, &config.spawner, &keys).await.into_iter().map(judge).collect()
}

async fn by_daemon(config: &Config) -> Result<Vec<TriedModel>, ClientError> {
    let client = Client::find(&config.daemon.data_dir)?;
    client.patient()?.models_try().await.map_err(|e| client.error(e))
}

fn judge(tried: TriedModel) -> Finding {
    let TriedModel { url, model, butlers, outcome } = tried;
    let (what, who) = (model.map_or_else(|| url.clone(), |model| format!("{model} at {url}")), butlers.join(", "));
    match outcome {
        TrialOutcome::Answered { ms } => {
            Finding::ok(TOPIC, format!("{what} answered in {:.1} s, for {who}", ms as f64 / 1000.0))
        }
        TrialOutcome::Failed { why } => Finding::problem(TOPIC, format!("{what} did not answer: {why}; for {who}"))
            .so("Start the server, or correct [runtime] endpoint and model in butlerd.toml, or the key: butlerd secret set."),
        TrialOutcome::Subscription => {
            Finding::ok(TOPIC, format!("{what} is a subscription: a running butlerd tries it by a session; for {who}"))
        }
        TrialOutcome::Untried { why } => Finding::ok(TOPIC, format!("{what} was not tried, because {why}; for {who}")),
    }
}
