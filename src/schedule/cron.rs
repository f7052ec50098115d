//! Cron expressions in a time zone: five fields, seconds optional, names allowed.
//!
//! On days with a change of the clock: where the hours are named (`30 2 * * *`, `0 8-20/2 * * *`), each local time
//! fires once, a time that does not exist right after the gap and a repeated one in its first pass. Where the hours are
//! not named (`*/15 * * * *`), real time counts: nothing in a gap, and both passes of a repeated hour.

use std::time::Duration;

use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use config::CronExpression;

/// What is wrong with a schedule's time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CronError {
    #[error(
        "`{expression}` is not a cron expression ({problem}); an example: `0 8 * * 1-5` is 8:00 from Monday to Friday"
    )]
    Expression { expression: String, problem: String },
    #[error("`{0}` is not a time zone; use an IANA name such as `Europe/Berlin`, or `UTC`")]
    Zone(String),
}

/// The times at which a schedule is due.
#[derive(Debug, Clone)]
pub struct CronTimes {
    cron: CronExpression,
    zone: TimeZone,
}

/// So many changes of the clock are looked past. Stretches without a time are skipped, so two or three are the rule.
const MOST_STRETCHES: usize = 400;

/// No clock is further from UTC.
const MOST_OFFSET: SignedDuration = SignedDuration::from_hours(48);

impl CronTimes {
    /// Reads an expression and the name of its time zone.
    pub fn parse(expression: &str, zone: &str) -> Result<Self, CronError> {
        let cron = CronExpression::parse(expression)
            .map_err(|e| CronError::Expression { expression: expression.to_owned(), problem: e.to_string() })?;
        let zone = TimeZone::get(zone).map_err(|_| CronError::Zone(zone.to_owned()))?;
        Ok(Self { cron, zone })
    }

    /// No two of its local times are closer together than this. A change of the clock may bring two closer.
    pub fn shortest_gap(&self) -> Duration {
        self.cron.shortest_gap()
    }

    /// The first due time after `after`; `None` when there is none.
    ///
    /// Between two changes of the zone's offset local time runs evenly, so each such stretch is searched by itself.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        self.next_counted(after, &mut 0)
    }

    /// The same, and adds to `steps` how many months were looked at.
    fn next_counted(&self, after: Timestamp, steps: &mut u32) -> Option<Timestamp> {
        let mut from =
            Timestamp::from_second(after.as_second()).ok()?.checked_add(SignedDuration::from_secs(1)).ok()?;
        if after < Timestamp::from_second(after.as_second()).ok()? {
            // Seconds are cut towards zero, which is forward before 1970.
            from = Timestamp::from_second(after.as_second()).ok()?;
        }
        for _ in 0..MOST_STRETCHES {
            from = self.past_nothing(from, steps)?;
            let offset = self.zone.to_offset(from);
            let change = self.zone.following(from).next().map(|t| t.timestamp());
            let begin = if self.cron.names_hours() { self.past_repetition(from, offset) } else { from };
            // Beyond the next change there is no need to look on here.
            if change.is_none_or(|c| begin < c)
                && let Some(found) = self.cron.next_counted(offset.to_datetime(begin), steps)
                && let Ok(at) = offset.to_timestamp(found)
                && change.is_none_or(|c| at < c)
            {
                return Some(at);
            }
            let change = change?;
            let old = offset.to_datetime(change);
            let new = self.zone.to_offset(change).to_datetime(change);
            let skipped = self.cron.names_hours() && old < new;
            if skipped && self.cron.next_counted(old, steps).is_some_and(|found| found < new) {
                return Some(change);
            }
            from = change;
        }
        None
    }

    /// `from`, or the end of the repeated stretch of local time in whose second pass it stands.
    fn past_repetition(&self, from: Timestamp, offset: Offset) -> Timestamp {
        let just_after = from.checked_add(SignedDuration::from_nanos(1)).unwrap_or(from);
        let Some(change) = self.zone.preceding(just_after).next().map(|t| t.timestamp()) else { return from };
        let Ok(before) = change.checked_sub(SignedDuration::from_secs(1)) else { return from };
        let back = i64::from(self.zone.to_offset(before).seconds()) - i64::from(offset.seconds());
        if back <= 0 {
            return from;
        }
        change.checked_add(SignedDuration::from_secs(back)).map_or(from, |end| from.max(end))
    }

    /// `from`, or a later moment up to which no local time fits, whatever the clock says. `None`: none ever fits again.
    fn past_nothing(&self, from: Timestamp, steps: &mut u32) -> Option<Timestamp> {
        let Ok(earliest) = from.checked_sub(MOST_OFFSET) else { return Some(from) };
        let found = self.cron.next_counted(Offset::UTC.to_datetime(earliest), steps)?;
        let found = Offset::UTC.to_timestamp(found).and_then(|found| found.checked_sub(MOST_OFFSET));
        Some(found.map_or(from, |found| found.max(from)))
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
    fn a_search_in_any_zone_is_bounded() {
        let mut longest = 0;
        for zone in ["UTC", "Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Beirut"]
        {
            for minute in ["*", "30", "*/7"] {
                for (hour, day) in
                    [("*/23", "29 2 +0"), ("2", "29 2 +4"), ("*", "28 2 +3"), ("0", "29 3 *"), ("*", "* * *")]
                {
                    let times = CronTimes::parse(&format!("{minute} {hour} {day}"), zone).unwrap();
                    let mut at: Timestamp = "1996-01-01T00:00:00Z".parse().unwrap();
                    for _ in 0..20 {
                        let mut steps = 0;
                        let next = times.next_counted(at, &mut steps);
                        longest = longest.max(steps);
                        assert!(steps < 5000, "{minute} {hour} {day} in {zone}: {steps} months after {at}");
                        at = next.unwrap_or_else(|| panic!("{minute} {hour} {day} in {zone} ends at {at}"));
                    }
                }
            }
        }
        assert!(longest > 300, "{longest}");
    }

    #[test]
    fn mistakes_are_told() {
        for bad in ["", "* * *", "61 * * * *", "* * 30 2 *", "0 0 8 * * * 2026 1", "every day"] {
            assert!(CronTimes::parse(bad, "UTC").is_err(), "{bad}");
        }
        assert!(matches!(CronTimes::parse("* * * * *", "Mars/Base"), Err(CronError::Zone(_))));
    }
}
