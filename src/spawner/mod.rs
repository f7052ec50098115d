//! Sessions: a trigger is admitted, a prompt is composed, a child process is given a workspace and started, its output
//! is read as it comes, and every run ends with exactly one outcome and no process left.
//!
//! What never happens here: a child without a row, a row without an end, a child that outlives its session.

pub mod adapters;
mod admission;
mod attempts;
pub mod budget;
pub mod child;
mod core;
mod drive;
pub mod gateway;
mod log;
mod model;
mod model_calls;
pub mod prompt;
mod session;
mod skills;
mod tools;
mod types;
pub mod workspace;

pub use admission::{Floor, HOUSEKEEPING, SCHEDULE};
pub use core::{Spawner, SpawnerParts};
pub use model::wanted_keys;
pub use tools::session_tools;
pub use types::{EventKind, MAX_PROMPT, ModelState, SessionEvent, SessionResult, SessionState, Trigger, TriggerError};
