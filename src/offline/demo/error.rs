//! Why the demo did not get to its end.

use config::Refused;
use store::{StoreError, describe};
use supervisor::{ButlerLookupError, EmbeddedError};
use telemetry::LogError;

/// Why the demo did not get to its end.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    #[error("{what}: {source}")]
    Files { what: String, source: std::io::Error },
    /// The runtime that was asked for can't run here, or its session did not succeed.
    #[error("{0}")]
    Runtime(String),
    #[error("the scripted model: {0}")]
    Model(String),
    #[error(transparent)]
    Config(#[from] Refused),
    #[error(transparent)]
    Log(#[from] LogError),
    /// The household did not start, or did not stop.
    #[error(transparent)]
    Household(#[from] EmbeddedError),
    #[error(transparent)]
    Butler(#[from] ButlerLookupError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("reading {what}: {}", describe(.source))]
    Rows { what: &'static str, source: tokio_postgres::Error },
    #[error("no measurement is in the database")]
    NoMeasurement,
}

impl DemoError {
    /// Wraps what a file operation failed at.
    pub(super) fn files(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Files { what, source }
    }
}
