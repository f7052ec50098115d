//! What clients sent, for those who want to check it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use http::request::Parts;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::watch;

/// One request. No header or query value that may be a key is kept; see [`Self::has_key`].
#[derive(Debug, Clone)]
pub struct LoggedRequest {
    pub method: String,
    pub path: String,
    pub query: String,
    /// In lower case. Those that carry keys have the value `sha256:<64 hex digits>`.
    pub headers: BTreeMap<String, String>,
    /// `null` where there was none or it was not valid JSON.
    pub body: Value,
    /// What the script did: `say`, `call NAME`, `fail 529`, `hang`, `cut`, `side` (no tools where the script wants
    /// some), `schema`, `thought`, `fallback`, `lost` (400), `fixed` (models and the like), `unknown` (404).
    pub answer: String,
}

/// Headers whose values are keys.
const KEYS: [&str; 5] = ["authorization", "x-api-key", "x-goog-api-key", "api-key", "cookie"];

fn fingerprint(value: &str) -> String {
    format!("sha256:{}", base::text::hex(&Sha256::digest(value.as_bytes())))
}

impl LoggedRequest {
    pub(super) fn new(parts: &Parts, body: Value, answer: String) -> Self {
        let headers = parts.headers.iter().map(|(name, value)| {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            let value = if KEYS.contains(&name.as_str()) { fingerprint(&value) } else { value };
            (name.as_str().to_owned(), value)
        });
        let hide = |pair: &str| match pair.split_once('=') {
            Some((name @ ("key" | "api_key" | "access_token"), value)) => format!("{name}={}", fingerprint(value)),
            _ => pair.to_owned(),
        };
        Self {
            method: parts.method.to_string(),
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().unwrap_or_default().split('&').map(hide).collect::<Vec<_>>().join("&"),
            headers: headers.collect(),
            body,
            answer,
        }
    }

    /// Whether the header came with exactly this value, `Bearer ` included where it belongs to it.
    pub fn has_key(&self, header: &str, value: &str) -> bool {
        self.headers.get(header).is_some_and(|seen| *seen == fingerprint(value))
    }
}

/// The requests so far, shared between server and handle.
#[derive(Debug, Clone, Default)]
pub struct Log {
    entries: Arc<Mutex<Vec<LoggedRequest>>>,
    count: watch::Sender<usize>,
}

impl Log {
    pub fn push(&self, request: LoggedRequest) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.push(request);
        self.count.send_replace(entries.len());
    }

    pub fn all(&self) -> Vec<LoggedRequest> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until `enough` says so of the requests so far.
    pub async fn wait(&self, mut enough: impl FnMut(&[LoggedRequest]) -> bool) -> Vec<LoggedRequest> {
        let mut count = self.count.subscribe();
        loop {
            count.borrow_and_update();
            let entries = self.all();
            if enough(&entries) {
                return entries;
            }
            // The sender lives in `self`, so there is no end to wait past.
            let _ = count.changed().await;
        }
    }
}
