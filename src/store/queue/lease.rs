//! How long a claim holds, and how its end is written while the database is away.

use std::fmt::Display;
use std::sync::OnceLock;
use std::time::Duration;

use crate::error::StoreError;
use base::{Backoff, crash};

/// How long a claim holds without being renewed, in seconds. `BUTLERD_LEASE_SECONDS` says otherwise to builds with
/// test points.
pub fn lease_seconds() -> f64 {
    static SHORTENED: OnceLock<Option<f64>> = OnceLock::new();
    let wanted = || crash::variable("BUTLERD_LEASE_SECONDS")?.parse().ok();
    SHORTENED.get_or_init(wanted).unwrap_or(30.0)
}

/// How often a claim is renewed.
pub fn renew_every() -> Duration {
    Duration::from_secs_f64(lease_seconds() / 3.0)
}

/// Writes how a claimed row ended, again and again while the database is away, about two minutes long. Not for ever:
/// the lease runs out, and whoever takes the row up then goes by what is on record. `None`: it was not written.
pub(super) async fn settle<T, F>(what: &'static str, row: impl Display, mut write: impl FnMut() -> F) -> Option<T>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let mut wait = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));
    for _ in 0..60 {
        match write().await {
            Ok(done) => return Some(done),
            Err(e) => tracing::warn!(%row, error = %e, "{what} is not settled yet"),
        }
        tokio::time::sleep(wait.next_delay()).await;
    }
    None
}
