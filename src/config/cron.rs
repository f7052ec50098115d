//! Cron expressions: five fields, seconds optional in front, names and nicknames allowed.
//!
//! Whether a day fits depends on three things alone: its number, its weekday and how long its month is. So 28 tables, one
//! for each shape that a month can have, say everything about all days of all years. They decide whether an expression
//! ever comes, and they bound the search for the next time: it looks at months, and never at more than [`MOST_MONTHS`].

use std::time::Duration;

use croner::parser::{CronParser, Seconds, Year};
use croner::{CronPattern, Weekday};
use jiff::SignedDuration;
use jiff::civil::{Date, DateTime, Time};

/// The calendar's rarest day, 29 February on a given weekday, comes back within 40 years. What doesn't come within this
/// many months never does.
const MOST_MONTHS: u32 = 41 * 12;

/// A day, in seconds.
const DAY: u64 = 86_400;

/// Why a text is no cron expression, without a full stop.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CronExpressionError {
    #[error("{count} field{}", if *.count == 1 { "" } else { "s" })]
    Fields { count: usize },
    #[error("{0}")]
    Field(String),
    #[error("a date that never comes")]
    Never,
}

/// The local times that a cron expression means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronExpression {
    /// Bits of the values that each field allows.
    seconds: u64,
    minutes: u64,
    hours: u64,
    months: u64,
    /// The days that fit, as bits, by the month's length (from 28) and the weekday of its first day (Sunday is 0).
    days: [[u64; 7]; 4],
    names_hours: bool,
}

impl CronExpression {
    /// Reads an expression.
    pub fn parse(text: &str) -> Result<Self, CronExpressionError> {
        let fields = text.split_whitespace().count();
        // Nicknames are one field; anything else with a wrong count gets no better reason from the parser.
        if fields != 5 && fields != 6 && !text.trim_start().starts_with('@') {
            return Err(CronExpressionError::Fields { count: fields });
        }
        let reason =
            |e: croner::errors::CronError| CronExpressionError::Field(e.to_string().trim_end_matches('.').to_owned());
        let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
        let pattern = parser.parse(text).map_err(reason)?.pattern;
        let read = Self {
            seconds: bits(0..60, |n| pattern.second_match(n)).map_err(reason)?,
            minutes: bits(0..60, |n| pattern.minute_match(n)).map_err(reason)?,
            hours: bits(0..24, |n| pattern.hour_match(n)).map_err(reason)?,
            months: bits(1..13, |n| pattern.month_match(n)).map_err(reason)?,
            days: days(&pattern).map_err(reason)?,
            names_hours: names_hours(text),
        };
        if read.comes() { Ok(read) } else { Err(CronExpressionError::Never) }
    }

    /// The first time from `from` on.
    pub fn next(&self, from: DateTime) -> Option<DateTime> {
        self.next_counted(from, &mut 0)
    }

    /// The same, and adds to `months` how many of them were looked at.
    pub fn next_counted(&self, from: DateTime, months: &mut u32) -> Option<DateTime> {
        let from = match from.subsec_nanosecond() {
            0 => from,
            _ => from.with().subsec_nanosecond(0).build().ok()?.checked_add(SignedDuration::from_secs(1)).ok()?,
        };
        *months += 1;
        let today = from.date();
        if self.has_month(today.month())
            && has(self.days_of(today), number(today.day()))
            && let Some(time) = self.time_from(from.time())
        {
            return Some(today.to_datetime(time));
        }
        let day = self.day_from(today.tomorrow().ok()?, months)?;
        Some(day.to_datetime(self.time_from(Time::midnight())?))
    }

    /// No two of its local times are closer together than this.
    pub fn shortest_gap(&self) -> Duration {
        let (first, last) = (self.seconds.trailing_zeros(), highest(self.seconds));
        let seconds = u64::from(last - first);
        let minutes = 60 * u64::from(highest(self.minutes) - self.minutes.trailing_zeros()) + seconds;
        let hours = 3600 * u64::from(highest(self.hours) - self.hours.trailing_zeros()) + minutes;
        // From the last time of one minute, hour or day to the first of the next one that has any.
        let gaps = [
            closest(self.seconds),
            closest(self.minutes).map(|between| 60 * between - seconds),
            closest(self.hours).map(|between| 3600 * between - minutes),
            Some(if self.has_neighbours() { DAY - hours } else { 2 * DAY - hours }),
        ];
        Duration::from_secs(gaps.into_iter().flatten().min().unwrap_or(DAY))
    }

    /// Whether the hours of a day are named, rather than every hour or every so many.
    pub fn names_hours(&self) -> bool {
        self.names_hours
    }

    fn has_month(&self, month: i8) -> bool {
        has(self.months, number(month))
    }

    /// The bits of the days of the month that this day is in, whether or not the month itself fits.
    fn days_of(&self, day: Date) -> u64 {
        let length = usize::from(day.days_in_month().unsigned_abs()).clamp(28, 31);
        let weekday = usize::from(day.first_of_month().weekday().to_sunday_zero_offset().unsigned_abs());
        self.days[length - 28][weekday]
    }

    /// The first day from this one on.
    fn day_from(&self, from: Date, months: &mut u32) -> Option<Date> {
        let mut at = from;
        for _ in 0..=MOST_MONTHS {
            *months += 1;
            if self.has_month(at.month())
                && let Some(day) = at_least(self.days_of(at), number(at.day()))
            {
                return at.with().day(i8::try_from(day).ok()?).build().ok();
            }
            at = at.last_of_month().tomorrow().ok()?;
        }
        None
    }

    /// The first time of a day that fits, from this one on.
    fn time_from(&self, from: Time) -> Option<Time> {
        let (hour, minute, second) = (number(from.hour()), number(from.minute()), number(from.second()));
        let (first_minute, first_second) = (self.minutes.trailing_zeros(), self.seconds.trailing_zeros());
        if has(self.hours, hour) {
            if has(self.minutes, minute)
                && let Some(second) = at_least(self.seconds, second)
            {
                return time(hour, minute, second);
            }
            if let Some(minute) = at_least(self.minutes, minute + 1) {
                return time(hour, minute, first_second);
            }
        }
        time(at_least(self.hours, hour + 1)?, first_minute, first_second)
    }

    /// Each month that fits, with the tables of the lengths that it can have.
    fn tables(&self) -> impl Iterator<Item = (i8, &[[u64; 7]])> {
        let lengths = |month| match month {
            2 => &self.days[..2],
            4 | 6 | 9 | 11 => &self.days[2..3],
            _ => &self.days[3..],
        };
        (1i8..=12).filter(|month| self.has_month(*month)).map(move |month| (month, lengths(month)))
    }

    /// Whether any day fits. Each month begins on each weekday in some year, February in leap years too.
    fn comes(&self) -> bool {
        let timed = self.seconds != 0 && self.minutes != 0 && self.hours != 0;
        timed && self.tables().any(|(_, tables)| tables.as_flattened().iter().any(|days| *days != 0))
    }

    /// Whether two days in a row may fit.
    fn has_neighbours(&self) -> bool {
        let inside = self.tables().any(|(_, tables)| tables.as_flattened().iter().any(|days| days & (days >> 1) != 0));
        let begins = |month: i8| {
            self.tables().any(|(m, tables)| m == month && tables.as_flattened().iter().any(|days| has(*days, 1)))
        };
        let ends = |month: i8| {
            let days = if month == 2 { 28..=29 } else { 30..=31 };
            self.tables().any(|(m, tables)| {
                m == month && tables.as_flattened().iter().any(|bits| days.clone().any(|day| has(*bits, day)))
            })
        };
        inside || (1i8..=12).any(|month| ends(month) && begins(month % 12 + 1))
    }
}

/// The days that fit, for each length and first weekday of a month.
fn days(pattern: &CronPattern) -> Result<[[u64; 7]; 4], croner::errors::CronError> {
    const WEEKDAYS: [Weekday; 7] = [
        Weekday::Sunday,
        Weekday::Monday,
        Weekday::Tuesday,
        Weekday::Wednesday,
        Weekday::Thursday,
        Weekday::Friday,
        Weekday::Saturday,
    ];
    // Of the year and the month the pattern asks for the length alone.
    const OF_LENGTH: [(i32, u32); 4] = [(2023, 2), (2024, 2), (2024, 4), (2024, 1)];
    let mut tables = [[0; 7]; 4];
    for ((table, (year, month)), length) in tables.iter_mut().zip(OF_LENGTH).zip(28u32..) {
        for (first, cell) in table.iter_mut().enumerate() {
            let weekday = |day: u32| WEEKDAYS.into_iter().cycle().nth(first + (day as usize - 1) % 7);
            *cell = bits(1..length + 1, |day| match weekday(day) {
                Some(weekday) => pattern.day_match(year, month, day, weekday),
                None => Ok(false),
            })?;
        }
    }
    Ok(tables)
}

fn names_hours(expression: &str) -> bool {
    let fields: Vec<&str> = expression.split_whitespace().collect();
    match fields.as_slice() {
        [nickname] => !nickname.eq_ignore_ascii_case("@hourly"),
        [_, hour, _, _, _] | [_, _, hour, _, _, _] => !hour.starts_with(['*', '?']),
        _ => true,
    }
}

/// The bits of those numbers that match.
fn bits<E>(numbers: std::ops::Range<u32>, matches: impl Fn(u32) -> Result<bool, E>) -> Result<u64, E> {
    numbers.into_iter().try_fold(0, |bits, n| Ok(if matches(n)? { bits | 1 << n } else { bits }))
}

fn has(bits: u64, n: u32) -> bool {
    bits.checked_shr(n).is_some_and(|rest| rest & 1 == 1)
}

/// The lowest bit from the `n`th on.
fn at_least(bits: u64, n: u32) -> Option<u32> {
    let rest = bits & u64::MAX.checked_shl(n)?;
    (rest != 0).then(|| rest.trailing_zeros())
}

/// The highest bit of a field, none of which is empty.
fn highest(bits: u64) -> u32 {
    bits.checked_ilog2().unwrap_or(0)
}

/// The distance of the two bits that are closest together.
fn closest(bits: u64) -> Option<u64> {
    (1u32..64).find(|distance| bits & (bits >> distance) != 0).map(u64::from)
}

fn number(part: i8) -> u32 {
    u32::from(part.unsigned_abs())
}

fn time(hour: u32, minute: u32, second: u32) -> Option<Time> {
    let part = |n: u32| i8::try_from(n).ok();
    Time::new(part(hour)?, part(minute)?, part(second)?, 0).ok()
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;
    use jiff::tz::TimeZone;

    use super::*;

    const START: DateTime = date(2026, 1, 1).at(0, 0, 0, 0);

    /// A small generator, so that a failure comes again.
    struct Random(u64);

    impl Random {
        fn below(&mut self, n: u32) -> u32 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            u32::try_from((self.0 >> 33) % u64::from(n)).unwrap()
        }

        fn field(&mut self, from: u32, to: u32) -> String {
            let mut n = || from + self.below(to - from + 1);
            let (a, b) = (n(), n());
            let (low, high) = (a.min(b), a.max(b));
            match self.below(6) {
                0 | 1 => "*".to_owned(),
                2 => format!("*/{}", a.max(1)),
                3 => format!("{low}-{high}"),
                4 => format!("{a},{b}"),
                _ => a.to_string(),
            }
        }

        fn line(&mut self) -> String {
            let day = match self.below(12) {
                0 => "L".to_owned(),
                1 => format!("{}W", 1 + self.below(31)),
                2 => (29 + self.below(3)).to_string(),
                _ => self.field(1, 31),
            };
            let weekday = match self.below(12) {
                0 => format!("{}#{}", self.below(7), 1 + self.below(5)),
                1 => format!("{}L", self.below(7)),
                2 => format!("+{}", self.below(7)),
                _ => self.field(0, 6),
            };
            let month = if self.below(6) == 0 { "2".to_owned() } else { self.field(1, 12) };
            let (minute, hour) = (self.field(0, 59), self.field(0, 23));
            let line = format!("{minute} {hour} {day} {month} {weekday}");
            if self.below(3) == 0 { format!("{} {line}", self.field(0, 59)) } else { line }
        }
    }

    #[test]
    fn ten_thousand_lines_take_a_bounded_search_each() {
        let (mut read, mut never, mut longest) = (0, 0, 0);
        let mut random = Random(7);
        for n in 0..10_000u32 {
            let line = random.line();
            let cron = match CronExpression::parse(&line) {
                Ok(cron) => cron,
                Err(reason) => {
                    never += u32::from(reason == CronExpressionError::Never);
                    continue;
                }
            };
            read += 1;
            let mut last: Option<DateTime> = None;
            for _ in 0..5 {
                let from = last.map_or(START, |last| last.checked_add(SignedDuration::from_secs(1)).unwrap());
                let mut months = 0;
                let next = cron.next_counted(from, &mut months).unwrap_or_else(|| panic!("{n}: `{line}` ends: {from}"));
                assert!(months <= MOST_MONTHS, "{n}: `{line}` looked at {months} months from {from} on");
                let gap = last.map(|last| next.duration_since(last).unsigned_abs());
                assert!(gap.is_none_or(|gap| gap >= cron.shortest_gap()), "{n}: `{line}` comes {gap:?} before {next}");
                (longest, last) = (longest.max(months), Some(next));
            }
        }
        assert!(
            read > 5000 && never > 50 && longest > 100,
            "{read} read, {never} never come, {longest} months at most"
        );
    }

    #[test]
    fn the_tables_say_what_the_parsers_own_search_says() {
        let mut random = Random(11);
        for _ in 0..2000 {
            let line = random.line();
            let Ok(ours) = CronExpression::parse(&line) else { continue };
            let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
            let theirs = parser.parse(&line).unwrap();
            let mut at = date(2023, 12, 30).at(23, 59, 30, 0);
            for _ in 0..4 {
                let zoned = at.to_zoned(TimeZone::UTC).unwrap();
                let meant = theirs.find_next_occurrence(&zoned, true).unwrap().datetime();
                assert_eq!(ours.next(at), Some(meant), "`{line}` from {at}");
                at = meant.checked_add(SignedDuration::from_secs(1)).unwrap();
            }
        }
    }

    #[test]
    fn the_rarest_day_is_within_the_search() {
        for weekday in 0..7 {
            let cron = CronExpression::parse(&format!("0 0 29 2 +{weekday}")).unwrap();
            let mut at = date(1999, 12, 31).at(0, 0, 0, 0);
            while at.year() < 2420 {
                let next = cron.next(at).unwrap_or_else(|| panic!("weekday {weekday}: none after {at}"));
                assert!(next.year() - at.year() <= 40, "{at} to {next}");
                at = next.checked_add(SignedDuration::from_secs(1)).unwrap();
            }
        }
    }

    #[test]
    fn what_never_comes_is_refused() {
        for never in ["* * 30 2 *", "0 0 31 4,6,9,11 *", "0 0 30-31 2 *", "* * * 30 2 *", "0 0 31 2,4 +1"] {
            assert_eq!(CronExpression::parse(never), Err(CronExpressionError::Never), "{never}");
        }
        // Either the day of the month or the weekday is enough, and a leap year has its day.
        for sometimes in ["0 0 30 2 1", "0 0 29 2 *", "0 0 31 4 5L", "0 0 30,1 2 *", "0 0 31W 2,3 *"] {
            assert!(CronExpression::parse(sometimes).is_ok(), "{sometimes}");
        }
    }

    #[test]
    fn gaps_are_told() {
        for (line, seconds) in [
            ("* * * * * *", 1),
            ("*/7 * * * * *", 4),
            ("* * * * *", 60),
            ("*/25 * * * *", 600),
            ("0 8 * * *", DAY),
            ("0 8 1 * *", 2 * DAY),
            ("0 0,23 * * *", 3600),
            ("59 59 23 * * *", DAY),
            ("0,59 0,59 0,23 * * *", 1),
            ("0,30 0 8 * * 1", 30),
            ("0 0 1 1 *", 2 * DAY),
            ("0 0 31,1 * *", DAY),
        ] {
            assert_eq!(CronExpression::parse(line).unwrap().shortest_gap(), Duration::from_secs(seconds), "{line}");
        }
    }
}
