//! A schedule's times as its row has them.

use std::time::Duration;

use jiff::Timestamp;

use super::cron::{CronError, CronTimes};
use super::times::{Rule, Times};

/// When a schedule is due: one of `cron`, `every` and `at`, and what bounds it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Timing {
    pub cron: Option<String>,
    pub every_ms: Option<i64>,
    /// Of `every`: where its slots are counted from.
    pub anchor_at: Option<Timestamp>,
    pub run_at: Option<Timestamp>,
    pub timezone: String,
    pub start_at: Option<Timestamp>,
    pub until_at: Option<Timestamp>,
    pub stagger_s: i32,
    /// Times that were taken out of it.
    pub except_at: Vec<Timestamp>,
}

/// Why a schedule has no times.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimingError {
    #[error(transparent)]
    Cron(#[from] CronError),
    #[error("a schedule has one of cron, every and at")]
    Kind,
}

impl Timing {
    /// The times, no two of them closer together than `spacing`; `Err` says what is wrong with them.
    pub fn times(&self, spacing: Duration) -> Result<Times, TimingError> {
        let rule = match (&self.cron, self.every_ms, self.run_at) {
            (Some(cron), None, None) => Rule::Cron(Box::new(CronTimes::parse(cron, &self.timezone)?)),
            (None, Some(ms), None) => {
                let anchor = self.anchor_at.or(self.start_at).ok_or(TimingError::Kind)?;
                Rule::Every { period: Duration::from_millis(ms.max(1000).unsigned_abs()), anchor }
            }
            (None, None, Some(at)) => Rule::Once(at),
            _ => return Err(TimingError::Kind),
        };
        let stagger = Duration::from_secs(u64::try_from(self.stagger_s).unwrap_or(0));
        let except = self.except_at.clone();
        Ok(Times { rule, start_at: self.start_at, until_at: self.until_at, stagger, spacing, except })
    }

    /// Its kind, as tools name it.
    pub fn kind(&self) -> &'static str {
        match (&self.cron, self.every_ms) {
            (Some(_), _) => "cron",
            (None, Some(_)) => "every",
            (None, None) => "once",
        }
    }

    /// Whether the due times are the same, though the anchor may have been set anew.
    pub fn same_as(&self, other: &Self) -> bool {
        Self { anchor_at: None, ..self.clone() } == Self { anchor_at: None, ..other.clone() }
    }
}
