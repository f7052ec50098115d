//! What a route leads to, and what is told of each call on it.

use std::time::Duration;

use llm_api::{Failure, Family, Usage, VendorTool};
use serde::{Deserialize, Serialize};

use super::login::Login;

/// Where one session's model is, and as whom it is asked.
#[derive(Clone, Debug)]
pub struct Upstream {
    pub family: Family,
    /// As configured: `https://api.example.com` or with a path, without the API's own paths.
    pub endpoint: String,
    pub login: Login,
    /// What the vendor may do for the session besides answering.
    pub granted: Vec<VendorTool>,
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
    /// It asked for something that a session may not ask, and was not passed on.
    #[serde(default)]
    pub not_allowed: bool,
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
