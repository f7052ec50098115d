//! What every room may use: identities, time, the request context, secrets, sizes, text limits, the task wrapper.
//!
//! This room knows nothing of butlers' work and imports no other room.

mod backoff;
mod clock;
mod context;
pub mod crash;
mod ids;
pub mod memory;
mod secret;
pub mod task;
pub mod text;
mod units;

pub use backoff::Backoff;
pub use clock::Clock;
pub use context::{Lineage, MAX_LINEAGE_DEPTH, RequestContext, Trust};
pub use ids::{ButlerName, InvalidName, RequestId, SessionId, TenantId, TraceContext};
pub use secret::Secret;
pub use units::{ByteSize, HumanDuration, UnitError};
