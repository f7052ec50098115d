//! Cron expressions in a time zone: five fields, seconds optional, names allowed.
//!
//! On days with a change of the clock: where the hours are named (`30 2 * * *`, `0 8-20/2 * * *`), each local time fires
//! once, a time that does not exist right after the gap and a repeated one in its first pass. Where the hours are not
//! named (`*/15 * * * *`), real time counts: nothing in a gap, and both passes of a repeated hour.

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

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
    cron: Cron,
    zone: TimeZone,
    /// The hours are named, so that each local time is meant once.
    named: bool,
}

/// So many changes of the clock are looked past: over a hundred years of summer times. No expression is rarer.
const MOST_STRETCHES: usize = 400;

impl CronTimes {
    /// Reads an expression and the name of its time zone.
    pub fn parse(expression: &str, zone: &str) -> Result<Self, CronError> {
        let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
        let cron = parser
            .parse(expression)
            .map_err(|e| CronError::Expression { expression: expression.to_owned(), problem: e.to_string() })?;
        let zone = TimeZone::get(zone).map_err(|_| CronError::Zone(zone.to_owned()))?;
        Ok(Self { cron, zone, named: names_hours(expression) })
    }

    /// The first due time after `after`; `None` when there is none.
    ///
    /// Between two changes of the zone's offset local time runs evenly, so each such stretch is searched by itself.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let mut from =
            Timestamp::from_second(after.as_second()).ok()?.checked_add(SignedDuration::from_secs(1)).ok()?;
        if after < Timestamp::from_second(after.as_second()).ok()? {
            // Seconds are cut towards zero, which is forward before 1970.
            from = Timestamp::from_second(after.as_second()).ok()?;
        }
        for _ in 0..MOST_STRETCHES {
            let offset = self.zone.to_offset(from);
            let change = self.zone.following(from).next().map(|t| t.timestamp());
            let begin = if self.named { self.past_repetition(from, offset) } else { from };
            // Beyond the next change there is no need to look on here.
            if change.is_none_or(|c| begin < c)
                && let Some(found) = self.in_local(offset.to_datetime(begin))
                && let Ok(at) = offset.to_timestamp(found)
                && change.is_none_or(|c| at < c)
            {
                return Some(at);
            }
            let change = change?;
            let old = offset.to_datetime(change);
            let new = self.zone.to_offset(change).to_datetime(change);
            if self.named && old < new && self.in_local(old).is_some_and(|found| found < new) {
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

    /// The first local time from `from` on that the expression means, without regard to the zone.
    fn in_local(&self, from: DateTime) -> Option<DateTime> {
        let from = from.to_zoned(TimeZone::UTC).ok()?;
        self.cron.find_next_occurrence(&from, true).ok().map(|z| z.datetime())
    }
}

/// Whether the hours of a day are named, rather than every hour or every so many.
fn names_hours(expression: &str) -> bool {
    let fields: Vec<&str> = expression.split_whitespace().collect();
    match fields.as_slice() {
        [nickname] => !nickname.eq_ignore_ascii_case("@hourly"),
        [_, hour, _, _, _] | [_, _, hour, _, _, _] => !hour.starts_with(['*', '?']),
        _ => true,
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
