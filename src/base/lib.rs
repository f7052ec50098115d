//! What every room may use: identities, time, the request context, secrets and their hiding, sizes, text limits,
//! server-sent events, the task wrapper.
//!
//! This room knows nothing of butlers' work and imports no other room.

pub mod access_list;
mod backoff;
mod clock;
mod context;
pub mod crash;
mod disk;
mod http_client;
mod ids;
mod label;
pub mod local;
mod machine;
pub mod memory;
mod money;
mod named;
mod priority;
pub mod redact;
mod scratch;
mod secret;
mod sse;
pub mod task;
pub mod text;
pub mod tls;
mod units;

pub use backoff::Backoff;
pub use clock::Clock;
pub use context::{Lineage, MAX_LINEAGE_DEPTH, RequestContext};
pub use disk::DiskSpace;
pub use http_client::{
    LONGEST_WAIT, body_within, http_client, innermost, is_local_network, is_loopback, no_answer, retry_after,
    url_for_secrets,
};
pub use ids::{ButlerName, IdBeginning, InvalidName, NoId, RequestId, SessionId, TenantId, TraceContext};
pub use label::{Audience, Label, Principal, Seen, Trust};
pub use machine::{ActiveFault, Fault, Machine};
pub use money::Money;
pub use priority::Priority;
pub use scratch::Scratch;
pub use secret::Secret;
pub use sse::{EventTooLarge, SseEvent, SseReader};
pub use units::{ByteSize, HumanDuration, UnitError};
