//! Sessions: a trigger is admitted, a prompt is composed, a child process is given a workspace and started, its output
//! is read as it comes, and every run ends with exactly one outcome and no process left.
//!
//! What never happens here: a child without a row, a row without an end, a child that outlives its session.

pub mod adapters;
mod admission;
mod attempts;
mod bounds;
pub mod budget;
mod budget_guard;
mod budget_row;
mod choice;
mod compose;
mod conduct;
mod conductor;
mod core;
mod drive;
pub mod gateway;
mod history;
mod log;
mod memory;
mod model;
mod model_calls;
mod preview;
pub mod prompt;
mod remedy;
mod session;
mod session_token;
mod shown;
mod skills;
pub mod sql;
mod state;
mod stop_signal;
mod tools;
mod trace;
mod transcript;
mod types;
pub mod workspace;

pub use adapters::{CHILD_PATH, api_of};
pub use admission::{HOUSEKEEPING, SCHEDULE, SessionPermits};
pub use compose::child_limits;
pub use conductor::{Conducted, Conductor};
pub use core::Spawner;
pub use history::{EventPage, TracePart};
pub use memory::{Memory, RECALL_WITHIN, Recalled};
pub use model::{ModelPlace, NoModel, model_places, wanted_keys};
pub use preview::{Preview, Refusal};
pub use remedy::{Remedy, UNAVAILABLE, wait_for};
pub use sql::{EVENTS as OLD_EVENTS, delete_before, delete_unused_prompts};
pub use state::SpawnerParts;
pub use tools::{session_tools, show_end};
pub use transcript::Transcript;
pub use types::{
    EventKind, INSPECT, MAX_PROMPT, ModelServer, ModelState, SessionEvent, SessionOptions, SessionResult, SessionState,
    Trigger, TriggerError,
};
