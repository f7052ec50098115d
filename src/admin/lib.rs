//! The admin port: health, readiness, metrics, and the typed calls that the command line and other programs make.
//!
//! It decides nothing by itself: a call asks the supervisor, a butler or one of its tools, with the caller's identity.
//! What never happens here: a body read before Host, Origin, size and token were looked at; a secret in an address, a
//! log line or an answer to anybody but its owner; a session's token accepted.

mod api;
mod approvals;
mod chat;
mod client;
mod deliveries;
mod failure;
mod inbound;
mod live;
mod messages;
mod notes;
mod place;
mod ready;
mod rights;
mod rpc;
#[cfg(debug_assertions)]
#[doc(hidden)]
pub mod sample;
mod schedules;
mod sealed;
mod server;
mod sessions;
mod timeline;
mod tokens;
mod undo;

pub use api::{
    ApiClient, Cancelled, DbLogin, LiveEvent, MadeToken, Revoked, SchedulePage, SecretName, SessionPage, Started,
    Timeline, ToolAnswer, ToolInfo, Unavailable,
};
pub use approvals::{ActionPage, RuleRequest};
pub use client::{Client, ClientError};
pub use failure::Failure;
pub use place::{DaemonFile, PlaceError};
pub use sealed::Sealed;
pub use server::serve;

/// Starts the admin server as a task: what the supervisor is handed for it.
pub fn spawn(supervisor: supervisor::Supervisor, door: supervisor::AdminDoor) -> tokio::task::JoinHandle<()> {
    let serving = serve(supervisor, door.listener, door.edge, door.stop);
    base::task::spawn(base::task::Kind::Actor, "admin", serving)
}
