//! One butler: its boot, the handle that others hold, the task that owns its state.

mod boot;
mod dispatcher;
mod handle;
mod memory_hooks;
mod names;
mod outbound;
mod quarantine;
mod routed;
mod services;
mod session_start;
mod sql;
mod status;
mod tidy;
mod tools;

pub use boot::{BootError, BootedButler, boot, core_chains};
pub use handle::Butler;
pub use names::own_tools;
pub use services::HouseholdServices;
pub use sql::{COST_PIECES, HandedRows, NOTICE_SOURCES, SESSION_PIECES};
pub use status::{BackupStatus, ButlerState, ButlerStatus, DatabaseStatus, HouseholdStatus, PhaseTime, Trouble};
