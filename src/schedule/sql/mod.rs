//! The SQL on `scheduled_tasks` and `schedule_runs`: as the owner role with the schema's name, as a butler's role
//! without.

mod declared;
mod edit;
mod manual;
mod pause;
mod plan;
mod runs;
mod shown;
mod task;

pub(super) use declared::{store_declared, stored, switch_off_others};
pub(super) use edit::{change, delete, insert, locked, name_is_taken, names_like, source_of, switch};
pub(super) use manual::{Marked, mark_done};
pub use manual::{RequestedRun, request_run, request_run_of_house};
pub(super) use pause::{pause, resume};
pub(super) use runs::{Run, RunRows, TRIES};
pub(super) use shown::{IDS, costs, listed, marks, open_runs, runs_of, source_of_sessions, traced, with_last_runs};
pub use shown::{SessionPieces, notices};
pub(super) use task::TaskRow;

use store::Aged;

/// Runs that are kept for looking back.
pub const OLD_RUNS: Aged = Aged { table: "schedule_runs", old: "finished_at < $1" };
