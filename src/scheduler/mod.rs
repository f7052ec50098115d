//! When a butler acts by itself: cron times, schedule rows, the tick that dispatches what is due.
//!
//! What never happens here: a due time fired twice, a due time passed without a row.

mod cron;
mod dispatch;
mod sync;
mod tools;

pub use cron::{CronError, CronTimes};
pub use dispatch::{Dispatch, Dispatched, Firing, tick};
pub use sync::{Declared, close_open_runs, sync};
pub use tools::schedule_tools;
