//! The accounts of channels, tried by the daemon that has their passwords.

use std::time::Duration;

use super::Finding;
use super::daemon::Daemon;
use admin::api::HouseApiClient;
use admin::{Client, ClientError};
use config::Config;
use modules::TriedAccount;

const TOPIC: &str = "accounts";
/// The daemon gives up sooner.
const PATIENCE: Duration = Duration::from_secs(60);

/// Without a daemon nobody has the stored passwords, and nothing is tried.
pub(super) async fn findings(config: &Config, daemon: &Daemon) -> Vec<Finding> {
    if daemon.status().is_none() {
        return Vec::new();
    }
    match tokio::time::timeout(PATIENCE, by_daemon(config)).await {
        Ok(Ok(tried)) => tried.into_iter().map(judge).collect(),
        Ok(Err(e)) => vec![Finding::warning(TOPIC, format!("the daemon could not try them: {e}"))],
        Err(_) => vec![Finding::warning(TOPIC, "the daemon tries them, and is not done yet")],
    }
}

async fn by_daemon(config: &Config) -> Result<Vec<TriedAccount>, ClientError> {
    let client = Client::find(&config.daemon.data_dir)?;
    client.patient()?.accounts_try().await.map_err(|e| client.error(e))
}

fn judge(tried: TriedAccount) -> Finding {
    let TriedAccount { module, account, error, .. } = tried;
    match error {
        None => Finding::ok(TOPIC, format!("{account} lets the household in ({module})")),
        Some(why) => Finding::problem(TOPIC, format!("{account} does not work: {why}")),
    }
}
