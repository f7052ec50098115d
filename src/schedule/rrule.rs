//! Rules of repetition (`RRULE`) as cron, where cron has the same times.

use config::Moment;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// The cron of a rule that begins at this time, and the rule's end. `None`: no cron has its times.
pub(super) fn cron(rule: &str, start: DateTime, zone: &TimeZone) -> Option<(String, Option<Timestamp>)> {
    let rule = rule.to_ascii_uppercase();
    let (mut freq, mut by, mut until) = ("", [None, None, None], None);
    for part in rule.trim().trim_start_matches("RRULE:").split(';').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=')?;
        let each = |of: fn(&str) -> Option<String>| value.split(',').map(of).collect::<Option<Vec<String>>>();
        match (name, value) {
            ("FREQ", _) => freq = value,
            ("BYMONTHDAY", _) => by[0] = Some(each(number)?.join(",")),
            ("BYMONTH", _) => by[1] = Some(each(number)?.join(",")),
            ("BYDAY", _) => by[2] = Some(each(weekday)?.join(",")),
            ("UNTIL", _) => {
                let of_day = if value.contains('T') { "" } else { "T235959" };
                until = Some(Moment::parse(&format!("{value}{of_day}"))?.in_zone(zone)?);
            }
            ("INTERVAL", "1") | ("WKST", _) => {}
            _ => return None,
        }
    }
    let numbered = by[2].as_ref().is_some_and(|days| days.contains('#'));
    // Whether day, month and weekday are those of the start, where the rule names none. Of a day and a weekday cron takes either.
    let starts = match (freq, by.each_ref().map(Option::is_some)) {
        ("DAILY", [false, _, _]) if !numbered => [false, false, false],
        ("WEEKLY", [false, _, _]) if !numbered => [false, false, true],
        ("MONTHLY", [false, _, true]) => [false, false, false],
        ("MONTHLY", [_, _, false]) => [true, false, false],
        ("YEARLY", [false, false, false] | [_, true, false]) => [true, true, false],
        _ => return None,
    };
    let mut own = [start.day(), start.month(), start.weekday().to_sunday_zero_offset()].into_iter().zip(starts);
    let [day, month, weekday] = by.map(|given| {
        let own = own.next().filter(|(_, starts)| *starts).map(|(own, _)| own.to_string());
        given.or(own).unwrap_or_else(|| "*".to_owned())
    });
    Some((format!("{} {} {day} {month} {weekday}", start.minute(), start.hour()), until))
}

fn number(text: &str) -> Option<String> {
    text.parse::<u8>().ok().map(|number| number.to_string())
}

/// One of the week, or of the month by its number.
fn weekday(text: &str) -> Option<String> {
    let (nth, day) = text.split_at_checked(text.len().checked_sub(2)?)?;
    let day = ["SU", "MO", "TU", "WE", "TH", "FR", "SA"].iter().position(|known| *known == day)?;
    let nth = ["", "1", "2", "3", "4", "5", "-1"].iter().position(|known| *known == nth)?;
    Some(format!("{day}{}", ["", "#1", "#2", "#3", "#4", "#5", "#L"][nth]))
}
