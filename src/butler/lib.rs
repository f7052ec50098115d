//! One butler: its boot, the handle that others hold, the task that owns its state.

mod boot;
mod clockwork;
mod handle;
mod house;
mod names;
mod outbound;
mod remembering;
mod routed;
mod status;
mod tools;

pub use boot::{BootError, Running, boot, core_chains};
pub use handle::Butler;
pub use house::House;
pub use names::own_tools;
pub use status::{ButlerState, ButlerStatus, DatabaseStatus, HouseStatus, PhaseTime};
