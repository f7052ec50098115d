//! Jobs that a butler has without anybody having declared them: the house's own tidying, and what its modules do.

use std::time::Duration;

/// A schedule that a butler has without anybody having declared it. It runs a job, without a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltInSchedule {
    pub name: String,
    pub times: BuiltInTimes,
    /// Under what names `butler.toml` may have the job, which then takes its place; the first is scheduled.
    pub job: &'static [&'static str],
    /// 1 goes before all else, 3 after it.
    pub priority: u8,
    /// Waits until its butler is idle.
    pub require_idle: bool,
    /// Lists show it as they show those of `butler.toml`, and it runs at its exact times. Others are upkeep: lists leave
    /// them out, and each butler has them at a time of its own.
    pub listed: bool,
}

/// When a [`BuiltInSchedule`] is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuiltInTimes {
    /// By cron, in the owner's zone.
    Cron(String),
    /// Every so often, counted from when the butler first had it.
    Every(Duration),
}

impl BuiltInSchedule {
    /// Upkeep at cron times: not listed, and it waits for nobody.
    pub fn upkeep(name: &str, cron: impl Into<String>, job: &'static [&'static str], priority: u8) -> Self {
        let times = BuiltInTimes::Cron(cron.into());
        Self { name: name.to_owned(), times, job, priority, require_idle: false, listed: false }
    }
}

/// What every butler does by itself.
pub(super) fn of_every_butler() -> BuiltInSchedule {
    BuiltInSchedule::upkeep("house-tidy", "0 4 * * *", &[TIDY], 3)
}

/// The job that deletes what is only kept for looking back: transcripts, the runs of schedules, and the rows before for
/// `undo`.
const TIDY: &str = "tidy";

/// Whether there is a built-in job of this name.
pub fn is_built_in(name: &str) -> bool {
    name == TIDY
}
