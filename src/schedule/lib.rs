//! When a butler acts by itself: the times of schedules, the rows of their runs, the loop that lets them run.
//!
//! What never happens here: a due time fired twice, a due time passed without a row.

mod actor;
mod calendar;
mod cron;
mod dispatch;
mod due;
mod edit;
mod fields;
mod idle;
mod jobs;
mod people;
mod rrule;
mod show;
mod sql;
mod sync;
mod target;
mod times;
mod timing;
mod tools;
mod words;

pub use actor::{Scheduler, SchedulerParts};
pub use calendar::{CALENDAR_EVENT_TOOLS, butler_events, calendar_event_tools};
pub use cron::{CronError, CronTimes};
pub use dispatch::{Begun, Dispatch, Earlier, Ended, Firing, How, Reply};
pub use due::{Cause, Decision, Due, Plan, STANDS_FOR_IT, due};
pub use edit::once;
pub use idle::{MOST_WAIT, QUIET};
pub use jobs::{BuiltInSchedule, BuiltInTimes, is_built_in};
pub use sql::{OLD_RUNS, RequestedRun, SessionPieces, notices, request_run, request_run_of_house};
pub use sync::{SyncError, sync};
pub use times::{Rule, Times};
pub use tools::schedule_tools;
