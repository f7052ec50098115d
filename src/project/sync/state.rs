//! What is remembered of earlier exchanges, kept beside the repository in `butlerd/sync.json`.

use std::path::PathBuf;

use base::text::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::SyncError;
use super::exchange::Exchange;
use crate::place::file;

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    /// The fingerprint of what was pushed last.
    pub last_push_hash: Option<String>,
    /// RFC 3339.
    pub last_push_at: Option<String>,
    /// The commit of the branch that was taken in last, all of it.
    pub last_pull_commit: Option<String>,
    /// RFC 3339.
    pub last_pull_at: Option<String>,
}

impl State {
    /// A project that was named has a state of its own, because its memories are others.
    fn path(exchange: &Exchange) -> PathBuf {
        let name = &exchange.place.identity.name;
        let file = if exchange.place.is_named() {
            format!("sync-{}.json", hex(&Sha256::digest(name.as_bytes())[..8]))
        } else {
            "sync.json".to_owned()
        };
        exchange.directory.join(file)
    }

    /// An exchange starts from nothing where the file can't be read: it costs time and no memory.
    pub fn read(exchange: &Exchange) -> Self {
        let text = std::fs::read(Self::path(exchange)).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    pub fn write(&self, exchange: &Exchange) -> Result<(), SyncError> {
        let path = Self::path(exchange);
        let written = serde_json::to_vec_pretty(self).map_err(Into::into).and_then(|text| file::replace(&path, &text));
        written.map_err(|source| SyncError::File { path, source })
    }
}
