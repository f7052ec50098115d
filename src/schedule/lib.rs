//! When a butler acts by itself: the times of schedules, the rows of their runs, the loop that lets them run.
//!
//! What never happens here: a due time fired twice, a due time passed without a row.

mod actor;
mod cron;
mod dispatch;
mod due;
mod edit;
mod jobs;
mod people;
mod rows;
mod show;
mod sync;
mod times;
mod timing;
mod tools;

pub use actor::{ScheduleLoop, Scheduler, SchedulerParts};
pub use cron::{CronError, CronTimes};
pub use dispatch::{Begun, Dispatch, Earlier, Ended, Firing, How};
pub use due::{Cause, Decision, Due, Plan, STANDS_FOR_IT, due};
pub use jobs::{BuiltInSchedule, JobContext, is_built_in, run_built_in};
pub use sync::{SyncError, sync};
pub use times::{Rule, Times};
pub use tools::schedule_tools;
