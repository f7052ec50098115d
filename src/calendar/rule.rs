//! Rules of repetition (`RRULE`), read strictly.
//!
//! `calcard` reads rules, too, and leaves out what it doesn't understand. A rule without one of its parts repeats at
//! other times than its author wrote, so here such a rule is refused with the part's name instead.

use std::str::FromStr;

use jiff::civil::Weekday;
use jiff::tz::TimeZone;

use crate::{CalendarError, When};

const MAX_INTERVAL: i32 = 1_000;
pub(crate) const MAX_COUNT: u32 = 10_000;
const MAX_TEXT: usize = 1_000;
/// Hourly at the most often, by whatever parts: what a period is made of bounds what a walk through it costs.
const MAX_A_DAY: usize = 24;

/// How often a rule begins anew.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Frequency {
    Hourly,
    Daily,
    Weekly,
    Monthly,
    Yearly,
}

/// A rule of repetition.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// As it was written.
    pub text: String,
    pub frequency: Frequency,
    /// Every so many periods.
    pub interval: i32,
    pub count: Option<u32>,
    /// The last time at which it may repeat: a day, a UTC time or a floating one.
    pub until: Option<When>,
    pub(crate) seconds: Vec<i32>,
    pub(crate) minutes: Vec<i32>,
    pub(crate) hours: Vec<i32>,
    /// With the number within the month or year, 0 for each.
    pub(crate) days: Vec<(i32, Weekday)>,
    pub(crate) month_days: Vec<i32>,
    pub(crate) year_days: Vec<i32>,
    pub(crate) weeks: Vec<i32>,
    pub(crate) months: Vec<i32>,
    pub(crate) positions: Vec<i32>,
    pub(crate) week_start: Weekday,
}

impl FromStr for Rule {
    type Err = CalendarError;

    fn from_str(text: &str) -> Result<Self, CalendarError> {
        let text = text.trim();
        let text = text.strip_prefix("RRULE:").unwrap_or(text);
        let fail = |why: String| CalendarError::rule(&text.chars().take(200).collect::<String>(), why);
        if text.len() > MAX_TEXT {
            return Err(fail(format!("it has more than {MAX_TEXT} characters")));
        }
        let mut parts: Vec<(String, &str)> = Vec::new();
        for part in text.split(';').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').ok_or_else(|| fail(format!("`{part}` is not NAME=VALUE")))?;
            let name = name.trim().to_ascii_uppercase();
            if parts.iter().any(|(known, _)| *known == name) {
                return Err(fail(format!("{name} is there twice")));
            }
            parts.push((name, value.trim()));
        }
        let frequency = parts.iter().find(|(name, _)| name == "FREQ").map(|(_, value)| *value);
        let frequency = frequency_of(frequency.unwrap_or_default()).map_err(&fail)?;
        let mut rule = Self::every(text, frequency);
        for (name, value) in &parts {
            rule.take(name, value).map_err(&fail)?;
        }
        rule.check().map_err(fail)?;
        Ok(rule)
    }
}

fn frequency_of(text: &str) -> Result<Frequency, String> {
    Ok(match text.to_ascii_uppercase().as_str() {
        "HOURLY" => Frequency::Hourly,
        "DAILY" => Frequency::Daily,
        "WEEKLY" => Frequency::Weekly,
        "MONTHLY" => Frequency::Monthly,
        "YEARLY" => Frequency::Yearly,
        "SECONDLY" | "MINUTELY" => return Err("events repeat hourly at the most often".to_owned()),
        "" => return Err("it has no FREQ, such as FREQ=WEEKLY".to_owned()),
        other => return Err(format!("`{other}` is no frequency; write DAILY, WEEKLY, MONTHLY, YEARLY or HOURLY")),
    })
}

impl Rule {
    fn every(text: &str, frequency: Frequency) -> Self {
        Self {
            text: text.to_owned(),
            frequency,
            interval: 1,
            count: None,
            until: None,
            seconds: Vec::new(),
            minutes: Vec::new(),
            hours: Vec::new(),
            days: Vec::new(),
            month_days: Vec::new(),
            year_days: Vec::new(),
            weeks: Vec::new(),
            months: Vec::new(),
            positions: Vec::new(),
            week_start: Weekday::Monday,
        }
    }

    fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "FREQ" => {}
            "INTERVAL" => self.interval = number(name, value, 1, MAX_INTERVAL)?,
            "COUNT" => self.count = Some(number(name, value, 1, MAX_COUNT as i32)?.unsigned_abs()),
            "UNTIL" => self.until = Some(When::read("UNTIL", value, None).map_err(|e| e.to_string())?),
            "BYSECOND" => self.seconds = numbers(name, value, 0, 59)?,
            "BYMINUTE" => self.minutes = numbers(name, value, 0, 59)?,
            "BYHOUR" => self.hours = numbers(name, value, 0, 23)?,
            "BYDAY" => self.days = value.split(',').map(day_of).collect::<Result<_, _>>()?,
            "BYMONTHDAY" => self.month_days = signed(name, value, 31)?,
            "BYYEARDAY" => self.year_days = signed(name, value, 366)?,
            "BYWEEKNO" => self.weeks = signed(name, value, 53)?,
            "BYMONTH" => self.months = numbers(name, value, 1, 12)?,
            "BYSETPOS" => self.positions = signed(name, value, 366)?,
            "WKST" => match day_of(value)? {
                (0, day) => self.week_start = day,
                _ => return Err(format!("WKST={value} is no weekday")),
            },
            // RSCALE and SKIP (RFC 7529) are other calendars' rules; anything else is a mistake.
            _ => return Err(format!("{name} is no part that is understood here")),
        }
        Ok(())
    }

    /// What RFC 5545 (3.3.10) forbids together.
    fn check(&self) -> Result<(), String> {
        let forbid = |wrong: bool, why: &str| if wrong { Err(why.to_owned()) } else { Ok(()) };
        use Frequency::{Daily, Monthly, Weekly, Yearly};
        let numbered = self.days.iter().any(|(nth, _)| *nth != 0);
        let by = self.seconds.len() + self.minutes.len() + self.hours.len() + self.days.len() + self.month_days.len();
        let by = by + self.year_days.len() + self.weeks.len() + self.months.len();
        let times = |all: &Vec<i32>| all.len().max(1);
        let within_hour = times(&self.minutes) * times(&self.seconds);
        let a_day = within_hour * if self.frequency == Frequency::Hourly { 24 } else { times(&self.hours) };
        forbid(a_day > MAX_A_DAY, "events repeat at most 24 times a day")?;
        forbid(self.count.is_some() && self.until.is_some(), "COUNT and UNTIL can't stand together")?;
        forbid(numbered && !matches!(self.frequency, Monthly | Yearly), "a numbered BYDAY needs MONTHLY or YEARLY")?;
        forbid(numbered && !self.weeks.is_empty(), "a numbered BYDAY can't stand with BYWEEKNO")?;
        forbid(!self.weeks.is_empty() && self.frequency != Yearly, "BYWEEKNO needs FREQ=YEARLY")?;
        forbid(!self.month_days.is_empty() && self.frequency == Weekly, "BYMONTHDAY can't stand with FREQ=WEEKLY")?;
        let days = matches!(self.frequency, Daily | Weekly | Monthly);
        forbid(!self.year_days.is_empty() && days, "BYYEARDAY needs FREQ=YEARLY or HOURLY")?;
        forbid(!self.positions.is_empty() && by == 0, "BYSETPOS needs another BY part")?;
        let nth = if self.frequency == Monthly { 5 } else { 53 };
        forbid(self.days.iter().any(|(n, _)| n.abs() > nth), "the number of a BYDAY is out of range")
    }

    /// The rule for a new event: a day as its end means that whole day, which iCalendar has no form for where the event
    /// has a time of day.
    pub fn for_start(&self, start: &When, home: &TimeZone) -> Result<Self, CalendarError> {
        if start.is_date() && self.frequency == Frequency::Hourly {
            return Err(CalendarError::rule(&self.text, "an all-day event can't repeat hourly"));
        }
        let end = match (&self.until, start) {
            (None, _) => return Ok(self.clone()),
            (Some(until), When::Date(_)) => When::Date(until.local().date()),
            (Some(When::Date(day)), When::Floating(_)) => When::Floating(day.at(23, 59, 59, 0)),
            (Some(until @ When::Floating(_)), When::Floating(_)) => until.clone(),
            (Some(until), _) => {
                let local = if until.is_date() { until.local().date().at(23, 59, 59, 0) } else { until.local() };
                let zone = if matches!(until, When::Utc(_)) { TimeZone::UTC } else { start.zone(home) };
                let at = zone.to_timestamp(local).map_err(|_| CalendarError::OutOfRange(until.to_string()))?;
                When::Utc(at.to_zoned(TimeZone::UTC).datetime())
            }
        };
        Ok(self.ending(None, Some(end)))
    }

    /// The rule with another end.
    pub fn ending(&self, count: Option<u32>, until: Option<When>) -> Self {
        let stays = |part: &&str| {
            let name = part.split('=').next().unwrap_or_default().trim();
            !part.is_empty() && !name.eq_ignore_ascii_case("COUNT") && !name.eq_ignore_ascii_case("UNTIL")
        };
        let mut text = self.text.split(';').filter(stays).collect::<Vec<_>>().join(";");
        if let Some(count) = count {
            text.push_str(&format!(";COUNT={count}"));
        }
        if let Some(until) = &until {
            text.push_str(&format!(";UNTIL={}", until.value()));
        }
        Self { text, count, until, ..self.clone() }
    }
}

fn number(name: &str, value: &str, least: i32, most: i32) -> Result<i32, String> {
    let wrong = || format!("{name}={value} is not between {least} and {most}");
    value.parse::<i32>().ok().filter(|n| (least..=most).contains(n)).ok_or_else(wrong)
}

fn numbers(name: &str, value: &str, least: i32, most: i32) -> Result<Vec<i32>, String> {
    let mut all = value.split(',').map(|one| number(name, one.trim(), least, most)).collect::<Result<Vec<_>, _>>()?;
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// From `-most` to `most` without 0.
fn signed(name: &str, value: &str, most: i32) -> Result<Vec<i32>, String> {
    let all = numbers(name, value, -most, most)?;
    if all.contains(&0) { Err(format!("{name} can't be 0")) } else { Ok(all) }
}

fn day_of(text: &str) -> Result<(i32, Weekday), String> {
    let text = text.trim();
    let wrong = || format!("`{text}` is no weekday such as MO or -1FR");
    let split = text.len().checked_sub(2).filter(|n| text.is_char_boundary(*n)).ok_or_else(wrong)?;
    let day = match text[split..].to_ascii_uppercase().as_str() {
        "MO" => Weekday::Monday,
        "TU" => Weekday::Tuesday,
        "WE" => Weekday::Wednesday,
        "TH" => Weekday::Thursday,
        "FR" => Weekday::Friday,
        "SA" => Weekday::Saturday,
        "SU" => Weekday::Sunday,
        _ => return Err(wrong()),
    };
    match &text[..split] {
        "" => Ok((0, day)),
        nth => Ok((number("BYDAY", nth, -53, 53).ok().filter(|n| *n != 0).ok_or_else(wrong)?, day)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_that_cannot_be_meant_are_refused() {
        for bad in [
            "",
            "FREQ=SECONDLY",
            "FREQ=MINUTELY;COUNT=5",
            "FREQ=DAILY;COUNT=0",
            "FREQ=DAILY;COUNT=10001",
            "FREQ=DAILY;COUNT=3;UNTIL=20260101",
            "FREQ=DAILY;INTERVAL=0",
            "FREQ=DAILY;INTERVAL=99999999999",
            "FREQ=WEEKLY;BYDAY=1MO",
            "FREQ=WEEKLY;BYDAY=XX",
            "FREQ=WEEKLY;BYDAY=é",
            "FREQ=MONTHLY;BYDAY=6MO",
            "FREQ=MONTHLY;BYMONTHDAY=32",
            "FREQ=MONTHLY;BYMONTHDAY=0",
            "FREQ=WEEKLY;BYMONTHDAY=1",
            "FREQ=MONTHLY;BYWEEKNO=3",
            "FREQ=DAILY;BYYEARDAY=3",
            "FREQ=DAILY;BYHOUR=24",
            "FREQ=DAILY;BYSETPOS=1",
            "FREQ=DAILY;FREQ=WEEKLY",
            "FREQ=DAILY;RSCALE=HEBREW",
            "FREQ=DAILY;X",
            "FREQ=DAILY;UNTIL=2026",
            "FREQ=HOURLY;BYMINUTE=0,30",
            "FREQ=DAILY;BYHOUR=0,1,2,3,4;BYMINUTE=0,10,20,30,40",
            "FREQ=YEARLY;BYDAY=MO,TU,WE,TH,FR,SA,SU;BYMINUTE=0,1,2,3,4;BYSECOND=0,1,2,3,4",
        ] {
            let seen = bad.parse::<Rule>();
            assert!(seen.is_err(), "{bad}: {seen:?}");
        }
        let long = format!("FREQ=DAILY;BYHOUR={}", "1,".repeat(600));
        assert!(long.parse::<Rule>().is_err());
    }

    #[test]
    fn a_day_as_the_end_of_a_timed_event_is_the_whole_day() {
        let berlin = crate::Zone::named("Europe/Berlin").unwrap();
        let start = When::read("DTSTART", "20260320T090000", Some(&berlin)).unwrap();
        let rule: Rule = "RRULE:freq=daily;UNTIL=20260330".parse().unwrap();
        let rule = rule.for_start(&start, &TimeZone::UTC).unwrap();
        assert_eq!(rule.text, "freq=daily;UNTIL=20260330T215959Z");
    }
}
