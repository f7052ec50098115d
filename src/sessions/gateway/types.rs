//! What a route leads to, and what is told of each call on it.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::wire::Family;
use crate::adapters::{ErrorClass, Usage};
use base::Secret;

/// Where one session's model is, and as whom it is asked.
#[derive(Clone, Debug)]
pub struct Upstream {
    pub family: Family,
    /// As configured: `https://api.example.com` or with a path, without the API's own paths.
    pub endpoint: String,
    pub login: Login,
}

/// As whom the model is asked.
#[derive(Clone, Debug)]
pub enum Login {
    /// A server of the owner's own that asks for nothing.
    Nobody,
    /// An account's key, in the header of its API.
    Key(Arc<Secret<String>>),
    /// A subscription's token, always as the bearer's.
    Bearer(Arc<Secret<String>>),
    /// The file of a login that has to be made ready first.
    File(Arc<Secret<String>>),
    /// Such a login, ready: its token and the account that it is for.
    Account { token: Arc<Secret<String>>, account: String },
}

/// One request of a session to its model, as the gateway saw it. Told when its answer has ended.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ModelCall {
    /// From 1 in its session, in the order of the requests.
    pub number: u32,
    /// Of the gateway, without query.
    pub path: String,
    /// As the answer named it, else as the request did.
    pub model: Option<String>,
    /// Of the upstream; `None` if it gave no answer, or was not asked.
    pub status: Option<u16>,
    /// The upstream's own name of the request, for asking its support.
    pub request_id: Option<String>,
    /// From the request's last byte here to the answer's first byte from the upstream, in milliseconds.
    pub first_byte_ms: Option<u64>,
    /// To the answer's end, in milliseconds.
    pub duration_ms: u64,
    /// What the answer said.
    pub usage: Usage,
    /// Why it failed, for people, in the upstream's words where it had some.
    pub failure: Option<Failure>,
}

/// Why a model call failed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Failure {
    pub class: ErrorClass,
    pub message: String,
}

/// How long an upstream may take for what.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// To the head of its answer: for an answer in one piece that is the model's whole work.
    pub head: Duration,
    /// Between two pieces of a streamed answer.
    pub pause: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { head: Duration::from_secs(600), pause: Duration::from_secs(300) }
    }
}
