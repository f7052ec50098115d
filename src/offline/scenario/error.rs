//! What can go wrong with scenarios: with all of them, or at one step.

use config::Refused;
use store::{StoreError, describe};
use supervisor::EmbeddedError;
use telemetry::LogError;

/// Why no scenario was played.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    #[error("the scratch directory: {0}")]
    Scratch(std::io::Error),
    #[error(transparent)]
    Config(#[from] Refused),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("{butler} is parked: {mistakes}")]
    Parked { butler: String, mistakes: String },
    #[error("there is no butler `{butler}`; there are: {there}")]
    Unknown { butler: String, there: String },
    /// The household did not start, or did not stop.
    #[error(transparent)]
    Household(#[from] EmbeddedError),
}

/// Why a step is not as its scenario says.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    #[error("nothing was kept as `{0}`")]
    NotKept(String),
    /// Something else than the scenario expects, in a sentence.
    #[error("{0}")]
    Unexpected(String),
    #[error("{what}: {}", describe(.source))]
    Sql { what: &'static str, source: tokio_postgres::Error },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl StepError {
    pub fn unexpected<T>(why: impl Into<String>) -> Result<T, Self> {
        Err(Self::Unexpected(why.into()))
    }
}
