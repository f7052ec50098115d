//! Jobs that every butler has without a model: the house's own tidying.

/// A schedule that a butler has without anybody having declared it. Each butler has it at a time of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltInSchedule {
    pub name: String,
    /// In the owner's zone.
    pub cron: String,
    /// Under what names `butler.toml` may have the job, which then takes its place; the first is scheduled.
    pub job: &'static [&'static str],
    /// 1 goes before all else, 3 after it.
    pub priority: u8,
}

/// What every butler does by itself.
pub(super) fn of_every_butler() -> BuiltInSchedule {
    BuiltInSchedule { name: "house-tidy".to_owned(), cron: "0 4 * * *".to_owned(), job: &[TIDY], priority: 3 }
}

/// The job that deletes what is only kept for looking back: transcripts, the runs of schedules, and the rows before for
/// `undo`.
const TIDY: &str = "tidy";

/// Whether there is a built-in job of this name.
pub fn is_built_in(name: &str) -> bool {
    name == TIDY
}
