//! Cron expressions in a time zone: five fields, seconds optional, names allowed.
//!
//! Across a change to summer time a local time that does not exist fires once, right after the gap; in the repeated
//! hour of a change back, a fixed time fires once.

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// What is wrong with a schedule's time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CronError {
    #[error(
        "`{expression}` is no cron expression ({problem}); an example: `0 8 * * 1-5` is 8:00 from Monday to Friday"
    )]
    Expression { expression: String, problem: String },
    #[error("`{0}` is no time zone; use an IANA name such as `Europe/Berlin`, or `UTC`")]
    Zone(String),
}

/// The times at which a schedule is due.
#[derive(Debug, Clone)]
pub struct CronTimes {
    cron: Cron,
    zone: TimeZone,
}

impl CronTimes {
    /// Reads an expression and the name of its time zone.
    pub fn parse(expression: &str, zone: &str) -> Result<Self, CronError> {
        let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
        let cron = parser
            .parse(expression)
            .map_err(|e| CronError::Expression { expression: expression.to_owned(), problem: e.to_string() })?;
        let zone = TimeZone::get(zone).map_err(|_| CronError::Zone(zone.to_owned()))?;
        Ok(Self { cron, zone })
    }

    /// The first due time after `after`; `None` when there is none.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let from = after.to_zoned(self.zone.clone());
        self.cron.find_next_occurrence(&from, false).ok().map(|z| z.timestamp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(expression: &str, zone: &str, after: &str) -> String {
        CronTimes::parse(expression, zone).unwrap().next(after.parse().unwrap()).unwrap().to_string()
    }

    #[test]
    fn times_are_local() {
        assert_eq!(next("0 8 * * *", "Europe/Berlin", "2026-11-21T06:00:00Z"), "2026-11-21T07:00:00Z");
        assert_eq!(next("0 8 * * *", "Europe/Berlin", "2026-11-21T07:00:00Z"), "2026-11-22T07:00:00Z");
        assert_eq!(next("0 9 * * MON", "UTC", "2026-11-21T00:00:00Z"), "2026-11-23T09:00:00Z");
        assert_eq!(next("30 0 8 * * *", "UTC", "2026-11-21T00:00:00Z"), "2026-11-21T08:00:30Z");
    }

    #[test]
    fn a_fixed_time_fires_once_on_days_with_a_time_change() {
        // Berlin skips 02:00 to 03:00 on 2026-03-29 and repeats it on 2026-10-25.
        let times = CronTimes::parse("30 2 * * *", "Europe/Berlin").unwrap();
        for (from, to) in
            [("2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z"), ("2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z")]
        {
            let (mut at, end): (Timestamp, Timestamp) = (from.parse().unwrap(), to.parse().unwrap());
            let mut fired = Vec::new();
            while let Some(t) = times.next(at).filter(|t| *t < end) {
                fired.push(t);
                at = t;
            }
            assert_eq!(fired.len(), 1, "{fired:?}");
        }
    }

    #[test]
    fn mistakes_are_told() {
        for bad in ["", "* * *", "61 * * * *", "0 0 8 * * * 2026 1", "every day"] {
            assert!(CronTimes::parse(bad, "UTC").is_err(), "{bad}");
        }
        assert!(matches!(CronTimes::parse("* * * * *", "Mars/Base"), Err(CronError::Zone(_))));
    }
}
