//! What can go wrong with a backup, said for people.

use std::path::PathBuf;

use super::sealed::SealError;
use access::credentials::MasterKeyError;
use base::text::with_source;
use store::cluster::ClusterError;
use store::{MigrationError, StoreError, describe};

/// Why there is no backup, or nothing was restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("there is no master key at {0}")]
    NoKey(PathBuf),
    #[error(transparent)]
    Key(#[from] MasterKeyError),
    #[error("{given} is not the master key that is there already, {present}")]
    OtherKey { given: PathBuf, present: PathBuf },
    #[error("{file} was not written under the master key {key}, so it can't be read with it; nothing was restored")]
    WrongKey { file: PathBuf, key: PathBuf },
    #[error("{path} can't be {step}: {source}")]
    File { path: PathBuf, step: &'static str, source: std::io::Error },
    #[error("{0} exists already")]
    Exists(PathBuf),
    #[error("another backup is being written to {0} at this moment")]
    Busy(PathBuf),
    #[error("{0} is not a backup of butlerd; nothing was restored")]
    Foreign(PathBuf),
    #[error("{file} was written by butlerd {by} in a form that this one does not know; nothing was restored")]
    Form { file: PathBuf, by: String },
    #[error("{file} {problem}; nothing was restored")]
    Broken { file: PathBuf, problem: SealError },
    #[error("{file} does not say what it should ({problem}); nothing was restored")]
    Content { file: PathBuf, problem: String },
    #[error("there is no household in {0} yet")]
    Nothing(String),
    #[error("{0} holds a household already; nothing was restored")]
    NotEmpty(String),
    #[error("a butlerd runs with the data directory {0}; nothing was restored")]
    Running(PathBuf),
    #[error("the backup and this butlerd don't fit: {0}; nothing was restored")]
    Version(MigrationError),
    #[error("the embedded database: {}", with_source(.0))]
    Cluster(#[from] ClusterError),
    #[error("database.url is not a connection string such as postgres://user@host:5432/butlers")]
    Url,
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{step}: {}", describe(.source))]
    Database { step: String, source: tokio_postgres::Error },
    #[error("no random bytes: {0}")]
    Entropy(getrandom::Error),
}

impl BackupError {
    /// Wraps what the database refused with the step it belonged to.
    pub(super) fn database(step: impl Into<String>) -> impl FnOnce(tokio_postgres::Error) -> Self {
        let step = step.into();
        move |source| Self::Database { step, source }
    }

    /// A stable name, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoKey(_) | Self::Key(_) | Self::OtherKey { .. } => "master_key",
            Self::WrongKey { .. } => "wrong_key",
            Self::File { .. } | Self::Busy(_) => "file",
            Self::Exists(_) => "exists",
            Self::Foreign(_) | Self::Form { .. } | Self::Broken { .. } | Self::Content { .. } => "broken_backup",
            Self::Nothing(_) => "nothing",
            Self::NotEmpty(_) => "not_empty",
            Self::Running(_) => "running",
            Self::Version(_) => "version",
            Self::Cluster(_) | Self::Url | Self::Store(_) | Self::Database { .. } => "database",
            Self::Entropy(_) => "entropy",
        }
    }

    /// What to try next; empty where the sentence says it.
    pub fn next(&self) -> &'static str {
        match self {
            Self::NoKey(_) => "Name it with --key FILE.",
            Self::OtherKey { .. } => "Leave --key out, or name another data directory with --data-dir DIR.",
            Self::WrongKey { .. } => "Name the key that was kept apart for this backup with --key FILE.",
            Self::Exists(_) => "Choose another name, or replace it with --force.",
            Self::Broken { .. } | Self::Content { .. } => "Take another copy of it, or an older backup.",
            Self::Form { .. } | Self::Version(_) => "Restore it with the butlerd that wrote it, then upgrade.",
            Self::Nothing(_) => "Name the household's data directory with --data-dir DIR.",
            Self::NotEmpty(_) => {
                "Restore into an empty place: another --data-dir, or another database in database.url."
            }
            Self::Running(_) => "Stop it first, and restore into an empty data directory.",
            Self::Store(_) | Self::Database { .. } => "`butlerd doctor` examines the database.",
            _ => "",
        }
    }
}
