//! The model gateway: one loopback port on which children reach their models, so that no child holds a model's key.
//!
//! A child sends its session token where the key would stand. The gateway looks the session's route up, asks the
//! session's meter, judges what the request asks, puts the real key in the token's place, and passes the answer along as
//! it comes. What the
//! answer says of tokens, of the model's name and of failures is read in passing.
//!
//! What never happens here: a request to an address or path that nobody configured, a request for more than an answer of
//! the model (`llm_api::request`) unless the runtime's settings grant it, a key in an answer, a call past a limit, a token
//! that outlives its session.

mod headers;
pub mod login;
mod relay;
mod routes;
mod server;
mod tally;
mod types;
mod upstream;

pub use login::Login;
pub use routes::Link;
pub use server::Gateway;
pub use types::{ModelCall, Upstream};

#[cfg(test)]
mod tests;
