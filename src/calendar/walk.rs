//! The walk over a rule's repetitions, by the clock on the wall.
//!
//! `calcard`'s own walk takes a number of instances, not a window, begins at the first instance whatever the window is,
//! and drops those that fall into the hour that a clock skips. So the walk is ours: it begins at the window.

use jiff::civil::{Date, DateTime, Weekday};
use jiff::{ToSpan as _, civil};

use crate::CalendarError;
use crate::rule::{Frequency, Rule};

/// Periods that one walk looks at.
const MAX_STEPS: usize = 200_000;
const LAST_YEAR: i16 = 2200;

/// The repetitions of a rule from `from` to before `to`, in order. `may` says whether the rule's end allows one; the
/// start itself is none of them unless the rule hits it.
pub(crate) fn walk(
    rule: &Rule,
    start: DateTime,
    from: DateTime,
    to: DateTime,
    may: &dyn Fn(DateTime) -> bool,
    limit: usize,
) -> Result<Vec<DateTime>, CalendarError> {
    let mut found = Vec::new();
    let mut counted = 0;
    // A rule with a count must be counted from its start.
    let mut step = if rule.count.is_some() { 0 } else { first_step(rule, start, from) };
    for _ in 0..MAX_STEPS {
        let Some(begin) = period(rule, start, step) else { return Ok(found) };
        if begin >= to || begin.year() > LAST_YEAR {
            return Ok(found);
        }
        for at in instances(rule, start, begin) {
            if at < start {
                continue;
            }
            if at >= to || !may(at) {
                return Ok(found);
            }
            counted += 1;
            if at >= from {
                if found.len() == limit {
                    return Err(CalendarError::TooMany { limit });
                }
                found.push(at);
            }
            if rule.count == Some(counted) {
                return Ok(found);
            }
        }
        step += 1;
    }
    Err(CalendarError::rule(&rule.text, "it has to be counted too far"))
}

/// The last period that surely begins before the window, in steps from the first.
fn first_step(rule: &Rule, start: DateTime, from: DateTime) -> i64 {
    let days = i64::from((from.date() - start.date()).get_days());
    let interval = i64::from(rule.interval);
    let periods = match rule.frequency {
        Frequency::Hourly => days.saturating_mul(24),
        Frequency::Daily => days,
        Frequency::Weekly => days / 7,
        Frequency::Monthly => months(from.date()) - months(start.date()),
        Frequency::Yearly => i64::from(from.year()) - i64::from(start.year()),
    };
    // Two less: the first period may have begun before the start, and a day has hours.
    ((periods / interval) - 2 - if rule.frequency == Frequency::Hourly { 24 } else { 0 }).max(0)
}

fn months(day: Date) -> i64 {
    i64::from(day.year()) * 12 + i64::from(day.month()) - 1
}

/// When the period of this step begins.
fn period(rule: &Rule, start: DateTime, step: i64) -> Option<DateTime> {
    let n = step.checked_mul(i64::from(rule.interval))?;
    let day = start.date();
    match rule.frequency {
        Frequency::Hourly => day.at(start.hour(), 0, 0, 0).checked_add(jiff::SignedDuration::from_hours(n)).ok(),
        Frequency::Daily => Some(day.checked_add(n.days()).ok()?.to_datetime(civil::Time::midnight())),
        Frequency::Weekly => {
            let first = week_begin(day, rule.week_start)?;
            Some(first.checked_add(n.checked_mul(7)?.days()).ok()?.to_datetime(civil::Time::midnight()))
        }
        Frequency::Monthly => {
            let month = months(day).checked_add(n)?;
            let year = i16::try_from(month.div_euclid(12)).ok()?;
            let month = i8::try_from(month.rem_euclid(12) + 1).ok()?;
            Some(Date::new(year, month, 1).ok()?.to_datetime(civil::Time::midnight()))
        }
        Frequency::Yearly => {
            let year = i16::try_from(i64::from(day.year()).checked_add(n)?).ok()?;
            Some(Date::new(year, 1, 1).ok()?.to_datetime(civil::Time::midnight()))
        }
    }
}

fn week_begin(day: Date, first: Weekday) -> Option<Date> {
    let behind = i64::from(day.weekday().since(first));
    day.checked_sub(behind.days()).ok()
}

/// All of one period, in order, after `BYSETPOS`.
fn instances(rule: &Rule, start: DateTime, begin: DateTime) -> Vec<DateTime> {
    let day = begin.date();
    let length = match rule.frequency {
        Frequency::Hourly | Frequency::Daily => 1,
        Frequency::Weekly => 7,
        Frequency::Monthly => i64::from(day.days_in_month()),
        Frequency::Yearly => i64::from(day.days_in_year()),
    };
    let days = (0..length).filter_map(|n| day.checked_add(n.days()).ok()).filter(|day| fits(rule, start.date(), *day));
    let hours: Vec<i32> = match rule.frequency {
        Frequency::Hourly => {
            let hour = i32::from(begin.hour());
            if rule.hours.is_empty() || rule.hours.contains(&hour) { vec![hour] } else { Vec::new() }
        }
        _ => or_else(&rule.hours, start.hour()),
    };
    let (minutes, seconds) = (or_else(&rule.minutes, start.minute()), or_else(&rule.seconds, start.second()));
    let mut all = Vec::new();
    for day in days {
        for hour in &hours {
            for minute in &minutes {
                for second in &seconds {
                    // Each fits: they were checked when the rule was read.
                    let part = |n: &i32| i8::try_from(*n).unwrap_or_default();
                    all.push(day.at(part(hour), part(minute), part(second), 0));
                }
            }
        }
    }
    if rule.positions.is_empty() {
        return all;
    }
    let size = all.len() as i64;
    let place = |n: &i32| if *n > 0 { i64::from(*n) - 1 } else { size + i64::from(*n) };
    let mut places: Vec<i64> = rule.positions.iter().map(place).filter(|n| (0..size).contains(n)).collect();
    places.sort_unstable();
    places.dedup();
    places.into_iter().filter_map(|n| all.get(usize::try_from(n).ok()?).copied()).collect()
}

fn or_else(given: &[i32], of_start: i8) -> Vec<i32> {
    if given.is_empty() { vec![i32::from(of_start)] } else { given.to_vec() }
}

/// Whether a day passes all parts of the rule that speak of days, and what they leave open the start says.
fn fits(rule: &Rule, start: Date, day: Date) -> bool {
    let any = |list: &[i32], n: i32, size: i32| list.is_empty() || list.contains(&n) || list.contains(&(n - size - 1));
    let named =
        !(rule.weeks.is_empty() && rule.year_days.is_empty() && rule.month_days.is_empty() && rule.days.is_empty());
    let (nth, month_size) = (i32::from(day.day()), i32::from(day.days_in_month()));
    let in_month = match rule.frequency {
        Frequency::Yearly | Frequency::Monthly if !named => day.day() == start.day(),
        _ => any(&rule.month_days, nth, month_size),
    };
    let month = match rule.frequency {
        Frequency::Yearly if !named && rule.months.is_empty() => day.month() == start.month(),
        _ => rule.months.is_empty() || rule.months.contains(&i32::from(day.month())),
    };
    let weekday = match rule.frequency {
        Frequency::Weekly if rule.days.is_empty() => day.weekday() == start.weekday(),
        // A week alone is no day (RFC 5545: what is missing comes from DTSTART).
        Frequency::Yearly if !rule.weeks.is_empty() && rule.days.is_empty() && rule.year_days.is_empty() => {
            !rule.month_days.is_empty() || day.weekday() == start.weekday()
        }
        _ => rule.days.is_empty() || rule.days.iter().any(|(n, weekday)| is_nth(rule, day, *n, *weekday)),
    };
    month
        && in_month
        && weekday
        && any(&rule.year_days, i32::from(day.day_of_year()), i32::from(day.days_in_year()))
        && in_weeks(rule, day)
}

fn is_nth(rule: &Rule, day: Date, nth: i32, weekday: Weekday) -> bool {
    if day.weekday() != weekday {
        return false;
    }
    let of_month = rule.frequency == Frequency::Monthly || !rule.months.is_empty();
    let (at, size) = match of_month {
        true => (i32::from(day.day()), i32::from(day.days_in_month())),
        false => (i32::from(day.day_of_year()), i32::from(day.days_in_year())),
    };
    nth == 0 || (at - 1) / 7 + 1 == nth || (size - at) / 7 + 1 == -nth
}

/// Weeks are counted from the first that has four days in the year.
fn in_weeks(rule: &Rule, day: Date) -> bool {
    if rule.weeks.is_empty() {
        return true;
    }
    let number = |day: Date| {
        let middle = week_begin(day, rule.week_start)?.checked_add(3.days()).ok()?;
        Some((middle.year(), (i32::from(middle.day_of_year()) - 1) / 7 + 1))
    };
    let Some((year, week)) = number(day) else { return false };
    // The 28th of December is in its year's last week.
    let size = Date::new(year, 12, 28).ok().and_then(number).map_or(52, |(_, week)| week);
    rule.weeks.contains(&week) || rule.weeks.contains(&(week - size - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walked(rule: &str, start: &str, from: &str, to: &str) -> Result<Vec<String>, CalendarError> {
        let time = |text: &str| text.parse::<DateTime>().unwrap();
        let rule: Rule = rule.parse()?;
        let all = walk(&rule, time(start), time(from), time(to), &|_| true, 5_000)?;
        Ok(all.iter().map(|at| at.strftime("%y%m%d-%H").to_string()).collect())
    }

    #[test]
    fn the_parts_of_a_rule_choose_days() {
        let year = |rule: &str| walked(rule, "2026-01-01T09:00", "2026-01-01T00:00", "2027-01-01T00:00").unwrap();
        assert_eq!(year("FREQ=MONTHLY;BYDAY=-1FR;COUNT=3"), ["260130-09", "260227-09", "260327-09"]);
        assert_eq!(year("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;COUNT=2"), ["260130-09", "260227-09"]);
        assert_eq!(year("FREQ=MONTHLY;BYMONTHDAY=31;COUNT=3"), ["260131-09", "260331-09", "260531-09"]);
        assert_eq!(year("FREQ=YEARLY;BYDAY=20MO"), ["260518-09"]);
        assert_eq!(year("FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO"), ["260511-09"]);
        assert_eq!(year("FREQ=YEARLY;BYYEARDAY=-1"), ["261231-09"]);
        assert_eq!(
            year("FREQ=DAILY;INTERVAL=180;BYHOUR=9,17"),
            ["260101-09", "260101-17", "260630-09", "260630-17", "261227-09", "261227-17"]
        );
    }

    #[test]
    fn a_rule_without_end_costs_its_window() {
        // Hours since the year 1: counted, that would be 17 million steps.
        let seen = walked("FREQ=HOURLY", "0001-01-01T00:00", "2026-03-01T00:00", "2026-03-01T03:00").unwrap();
        assert_eq!(seen, ["260301-00", "260301-01", "260301-02"]);
        let never =
            walked("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "2026-01-01T00:00", "2026-01-01T00:00", "9999-01-01T00:00");
        assert_eq!(never.unwrap(), Vec::<String>::new());
        let many = walked("FREQ=HOURLY", "2026-01-01T00:00", "2026-01-01T00:00", "2036-01-01T00:00");
        assert_eq!(many.unwrap_err(), CalendarError::TooMany { limit: 5_000 });
        let far = walked(
            "FREQ=HOURLY;COUNT=2;BYMONTH=1;INTERVAL=999;BYDAY=MO;BYHOUR=3;BYMONTHDAY=29",
            "0001-01-01T00:00",
            "2026-01-01T00:00",
            "2027-01-01T00:00",
        );
        assert!(far.is_ok() || matches!(far, Err(CalendarError::Rule { .. })), "{far:?}");
    }

    #[test]
    fn the_window_never_changes_what_is_in_it() {
        for rule in [
            "FREQ=WEEKLY;INTERVAL=3;BYDAY=SU,MO;WKST=SU",
            "FREQ=MONTHLY;INTERVAL=5;BYMONTHDAY=-1",
            "FREQ=HOURLY;INTERVAL=7",
            "FREQ=YEARLY;INTERVAL=2;BYDAY=1MO",
            "FREQ=DAILY;INTERVAL=11",
        ] {
            let all = walked(rule, "2020-02-29T05:00", "2020-01-01T00:00", "2021-06-01T00:00").unwrap();
            let some = walked(rule, "2020-02-29T05:00", "2020-09-10T00:00", "2021-06-01T00:00").unwrap();
            let later: Vec<_> = all.into_iter().filter(|at| at.as_str() >= "200910").collect();
            assert_eq!(some, later, "{rule}");
        }
    }
}
