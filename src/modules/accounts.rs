//! Accounts of channels, tried for real when somebody asks.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::contract::AccountTrial;

/// A server that says nothing is not waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a trial came to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TriedAccount {
    pub butler: String,
    pub module: String,
    pub account: String,
    /// Why it does not work.
    pub error: Option<String>,
}

/// The accounts that a butler's modules serve just now. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Accounts(Arc<Mutex<Vec<Served>>>);

/// An account, and the module that serves it.
pub(super) type Served = (String, Arc<dyn AccountTrial>);

impl Accounts {
    pub fn set(&self, all: Vec<Served>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = all;
    }

    /// Tries all of them at once.
    pub async fn attempt(&self, butler: &str) -> Vec<TriedAccount> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let tries = all.into_iter().map(async |(module, account)| {
            let tried = timeout(PATIENCE, account.attempt()).await;
            let error = match tried {
                Ok(tried) => tried.err().map(|e| e.to_string()),
                Err(_) => Some(format!("nothing was said within {} s", PATIENCE.as_secs())),
            };
            TriedAccount { butler: butler.to_owned(), module, account: account.name(), error }
        });
        join_all(tries).await
    }
}
