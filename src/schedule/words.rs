//! Times in words, as people write them: `tomorrow 9:00`, `monday at 6pm`, `in 2 days`, `10 seconds`. Small and strict:
//! what is not understood is refused. Pure: the present is an argument.

use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::fmt::friendly::SpanParser;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp, ToSpan};

use base::HumanDuration;
use config::Moment;

/// The longest that `in` and `every` may be: a hundred years.
const LONGEST_HOURS: i64 = 100 * 366 * 24;

/// Why a time is not understood. Each says how one could be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimeWordsError {
    #[error("`{0}` is not a moment; write it as `tomorrow 9:00`, `monday 18:30` or `2026-12-24 18:00`")]
    Moment(String),
    #[error("`{0}` has no time of day; write it as `tomorrow 9:00`, `monday 18:30` or `2026-12-24 18:00`")]
    NoTimeOfDay(String),
    #[error("`{0}` is not a length of time; write it as `10 seconds`, `4 hours` or `2 days`")]
    Length(String),
    #[error("`{0}` has months or years, which differ in length; write weeks or days, or use cron such as `0 9 1 * *`")]
    Uneven(String),
    #[error("from a second to a hundred years are possible")]
    Bounds,
}

/// A moment: ISO, a day and a time of day in the zone, or `in` and a length of time. A time of day alone is the next such;
/// a weekday is the first one whose time is still to come.
pub fn moment(text: &str, now: Timestamp, zone: &TimeZone) -> Result<Timestamp, TimeWordsError> {
    let unknown = || TimeWordsError::Moment(text.to_owned());
    if let Some(moment) = Moment::parse(text.trim()) {
        return moment.in_zone(zone).ok_or_else(unknown);
    }
    let words = words(text);
    if words.first().is_some_and(|first| first == "in") {
        return after(text, now, zone);
    }
    let said = Said::read(&words).ok_or_else(unknown)?;
    let Some(time) = said.time else { return Err(TimeWordsError::NoTimeOfDay(text.to_owned())) };
    said.day.at(time, now, zone).ok_or_else(unknown)
}

/// The time of day that a moment names where it has no offset. On some day the clock may skip it.
pub fn clock(text: &str) -> Option<Time> {
    match Moment::parse(text.trim()) {
        Some(Moment::Exact(_)) => None,
        Some(Moment::Local(local)) => Some(local.time()),
        None => Said::read(&words(text))?.time,
    }
}

/// The moment that comes this length of time after `now`. Days and longer units keep the time of day.
pub fn after(text: &str, now: Timestamp, zone: &TimeZone) -> Result<Timestamp, TimeWordsError> {
    let then = match (span(text, "in"), HumanDuration::parse(text)) {
        (Some(span), _) => now.to_zoned(zone.clone()).checked_add(span).map(|then| then.timestamp()),
        (None, Ok(exact)) => now.checked_add(exact.0),
        (None, Err(_)) => return Err(TimeWordsError::Length(text.to_owned())),
    };
    let then = then.map_err(|_| TimeWordsError::Bounds)?;
    bounded(then.duration_since(now)).map(|_| then)
}

/// A length of time that is the same at any time: a day has 24 hours.
pub fn length(text: &str) -> Result<SignedDuration, TimeWordsError> {
    let exact = HumanDuration::parse(text).ok().and_then(|exact| SignedDuration::try_from(exact.0).ok());
    let length = match (exact, span(text, "every")) {
        (Some(exact), _) => exact,
        (None, Some(span)) => span
            .to_duration(SpanRelativeTo::days_are_24_hours())
            .map_err(|_| TimeWordsError::Uneven(text.to_owned()))?,
        (None, None) => return Err(TimeWordsError::Length(text.to_owned())),
    };
    bounded(length)
}

fn bounded(length: SignedDuration) -> Result<SignedDuration, TimeWordsError> {
    let fits = length.as_secs() >= 1 && length.as_hours() <= LONGEST_HOURS;
    fits.then_some(length).ok_or(TimeWordsError::Bounds)
}

fn words(text: &str) -> Vec<String> {
    text.to_lowercase().replace(',', " ").split_whitespace().map(str::to_owned).collect()
}

/// A number of units, after the word `lead` or without it: `2 hours 30 minutes`, `an hour`, `every day`.
fn span(text: &str, lead: &str) -> Option<Span> {
    let mut words = words(text);
    if words.first().is_some_and(|first| first == lead) {
        words.remove(0);
    }
    if let ([unit], "every") = (words.as_slice(), lead)
        && unit.chars().all(|c| c.is_ascii_alphabetic())
    {
        words.insert(0, "1".to_owned());
    }
    let plain = words.iter().filter(|word| *word != "and").map(|word| match word.as_str() {
        "a" | "an" | "one" => "1",
        word => word,
    });
    let text = plain.collect::<Vec<_>>().join(" ");
    let signed = text.starts_with(['-', '+']) || text.ends_with("ago");
    SpanParser::new().parse_span(text).ok().filter(|span| span.is_positive() && !signed)
}

/// A day, as it was said.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Day {
    /// The first on which the time is still to come.
    Any,
    /// So many days from today.
    In(i64),
    /// The first such one whose time is still to come; `next`: after today.
    Week {
        day: Weekday,
        next: bool,
    },
    /// Of this year, or of the next one where it is over.
    Year {
        month: i8,
        day: i8,
    },
    Exact(Date),
}

/// What a text says of a moment.
#[derive(Debug)]
struct Said {
    day: Day,
    time: Option<Time>,
}

impl Said {
    /// A day and a time of day, in either order; every word must be understood.
    fn read(words: &[String]) -> Option<Self> {
        let mut said = Self { day: Day::Any, time: None };
        let mut rest = words;
        while !rest.is_empty() {
            let at = rest[0] == "at";
            let on = rest[0] == "on";
            if at || on {
                rest = &rest[1..];
            }
            if let Some((day, used)) = day(rest).filter(|_| !at && said.day == Day::Any) {
                said.day = day;
                rest = &rest[used..];
            } else if let Some((time, used)) = time_of_day(rest).filter(|_| !on && said.time.is_none()) {
                said.time = Some(time);
                rest = &rest[used..];
            } else {
                return None;
            }
        }
        (said.time.is_some() || said.day != Day::Any).then_some(said)
    }
}

impl Day {
    fn at(self, time: Time, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let today = now.to_zoned(zone.clone()).date();
        let on = |date: Date| Moment::Local(DateTime::from_parts(date, time)).in_zone(zone);
        let in_days = |days: i64| today.checked_add(days.days()).ok().and_then(on);
        let to_come = |at: &Timestamp| *at > now;
        match self {
            Day::Any => in_days(0).filter(to_come).or_else(|| in_days(1)),
            Day::In(days) => in_days(days),
            Day::Week { day, next } => {
                let ahead = i64::from(day.since(today.weekday()));
                let first = in_days(ahead).filter(|at| to_come(at) && !(next && ahead == 0));
                first.or_else(|| in_days(ahead + 7))
            }
            Day::Year { month, day } => {
                let of = |year: i16| Date::new(year, month, day).ok().and_then(on);
                of(today.year()).filter(to_come).or_else(|| of(today.year() + 1))
            }
            Day::Exact(date) => on(date),
        }
    }
}

/// A day at the beginning, and how many words it takes.
fn day(words: &[String]) -> Option<(Day, usize)> {
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    let found = match (word(0), word(1), word(2)) {
        ("today", ..) => (Day::In(0), 1),
        ("tomorrow", ..) => (Day::In(1), 1),
        ("day", "after", "tomorrow") => (Day::In(2), 3),
        ("next", day, _) => (Day::Week { day: weekday(day)?, next: true }, 2),
        (first, second, third) => match (weekday(first), month(first), number(first), month(second)) {
            (Some(day), ..) => (Day::Week { day, next: false }, 1),
            (None, Some(month), ..) => of_year(month, number(second)?, third)?,
            (None, None, Some(day), Some(month)) => of_year(month, day, third)?,
            _ => (Day::Exact(date(first)?), 1),
        },
    };
    Some(found)
}

/// `24 december` or `december 24`, with a year behind it or without.
fn of_year(month: i8, day: i8, year: &str) -> Option<(Day, usize)> {
    match year.len() == 4 && year.chars().all(|c| c.is_ascii_digit()) {
        true => Some((Day::Exact(Date::new(year.parse().ok()?, month, day).ok()?), 3)),
        false => Some((Day::Year { month, day }, 2)),
    }
}

fn date(word: &str) -> Option<Date> {
    let plain = word.len() == 10 && word.chars().all(|c| c.is_ascii_digit() || c == '-');
    plain.then(|| word.parse().ok()).flatten()
}

/// A day of the month, such as `24` or `24th`.
fn number(word: &str) -> Option<i8> {
    let plain = ["st", "nd", "rd", "th"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word);
    plain.parse().ok().filter(|day| (1..=31).contains(day) && !plain.starts_with('+'))
}

/// The place of `word` among these names, from 1: it is one in full, or its first three letters.
fn named(word: &str, names: &str) -> Option<i8> {
    let place = names.split(' ').position(|name| word == name || (word.len() == 3 && name.starts_with(word)))?;
    i8::try_from(place + 1).ok()
}

fn weekday(word: &str) -> Option<Weekday> {
    let place = named(word, "monday tuesday wednesday thursday friday saturday sunday")?;
    Weekday::from_monday_one_offset(place).ok()
}

fn month(word: &str) -> Option<i8> {
    named(word, "january february march april may june july august september october november december")
}

/// A time of day at the beginning, and how many words it takes: `9:00`, `9:00:30`, `9am`, `9:30 pm`, `noon`, `midnight`.
fn time_of_day(words: &[String]) -> Option<(Time, usize)> {
    let first = words.first()?.as_str();
    match first {
        "noon" => return Some((Time::constant(12, 0, 0, 0), 1)),
        "midnight" => return Some((Time::midnight(), 1)),
        _ => {}
    }
    let joined = ["am", "pm"].into_iter().find_map(|half| Some((first.strip_suffix(half)?, half)));
    let (clock, half, used) = match (joined, words.get(1).map(String::as_str)) {
        (Some((clock, half)), _) => (clock, Some(half), 1),
        (None, Some(half @ ("am" | "pm"))) => (first, Some(half), 2),
        _ => (first, None, 1),
    };
    let mut parts = Vec::new();
    for (place, part) in clock.split(':').enumerate() {
        let right = (1..=2).contains(&part.len()) && part.chars().all(|c| c.is_ascii_digit());
        // Only hours may have a single digit.
        if !right || (place > 0 && part.len() != 2) {
            return None;
        }
        parts.push(part.parse::<i8>().ok()?);
    }
    let (hour, minute, second) = match (parts.as_slice(), half) {
        // A bare number could be anything.
        ([hour], Some(_)) => (*hour, 0, 0),
        ([hour, minute], _) => (*hour, *minute, 0),
        ([hour, minute, second], _) => (*hour, *minute, *second),
        _ => return None,
    };
    let hour = match half {
        None => hour,
        Some(_) if !(1..=12).contains(&hour) => return None,
        Some("am") => hour % 12,
        Some(_) => hour % 12 + 12,
    };
    Some((Time::new(hour, minute, second, 0).ok()?, used))
}

#[cfg(test)]
#[path = "words_tests.rs"]
mod tests;
