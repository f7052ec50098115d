//! Days and times as Google writes them.

use calendar::{When, Zone};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::unfit::Unfit;

/// `start`, `end` or `originalStartTime`. Google writes a time with the offset of the calendar, which says nothing of the
/// event: that has a zone of its own.
pub(super) fn read(time: &Value) -> Option<When> {
    if let Some(day) = time["date"].as_str() {
        return When::read("DTSTART", &day.replace('-', ""), None).ok().filter(When::is_date);
    }
    let at: Timestamp = time["dateTime"].as_str()?.parse().ok()?;
    let in_utc = || When::Utc(at.to_zoned(TimeZone::UTC).datetime());
    match time["timeZone"].as_str() {
        None | Some("UTC" | "Etc/UTC" | "GMT") => Some(in_utc()),
        Some(zone) => match Zone::named(zone) {
            Ok(zone) => Some(When::Zoned(at.to_zoned(zone.tz.clone()).datetime(), zone)),
            Err(_) => Some(in_utc()),
        },
    }
}

/// As Google wants it.
pub(super) fn written(when: &When) -> Result<Value, Unfit> {
    let zone = match when {
        When::Date(day) => return Ok(json!({"date": day.to_string()})),
        When::Utc(_) => "UTC".to_owned(),
        When::Zoned(_, zone) => zone.tz.iana_name().unwrap_or(&zone.id).to_owned(),
        When::Floating(_) => {
            return Err("Google keeps no time without a zone; give the event a zone".into());
        }
    };
    Ok(json!({"dateTime": when.shown(&TimeZone::UTC), "timeZone": zone}))
}

/// The same instant, or the same day.
pub(super) fn same(a: &When, b: &When) -> bool {
    match (a, b) {
        (When::Date(a), When::Date(b)) => a == b,
        (When::Date(_), _) | (_, When::Date(_)) => false,
        (a, b) => a.instant(&TimeZone::UTC).ok() == b.instant(&TimeZone::UTC).ok(),
    }
}

/// The same instant, as a series that begins so has it.
pub(super) fn like(start: &When, at: &When) -> When {
    match (start.is_date() || at.is_date(), at.instant(&TimeZone::UTC)) {
        (false, Ok(instant)) => start.of_instant(instant, &TimeZone::UTC),
        _ => at.clone(),
    }
}

/// A stamp such as `updated`, in UTC.
pub(super) fn stamp(text: &Value) -> Option<When> {
    let at: Timestamp = text.as_str()?.parse().ok()?;
    Some(When::Utc(at.to_zoned(TimeZone::UTC).datetime()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_go_there_and_back() {
        for (time, line) in [
            (json!({"date": "2027-03-10"}), "DTSTART;VALUE=DATE:20270310"),
            (json!({"dateTime": "2027-03-10T09:00:00Z", "timeZone": "UTC"}), "DTSTART:20270310T090000Z"),
            (
                json!({"dateTime": "2027-07-10T03:00:00-04:00", "timeZone": "Europe/Berlin"}),
                "DTSTART;TZID=Europe/Berlin:20270710T090000",
            ),
            (json!({"dateTime": "2027-07-10T03:00:00-04:00"}), "DTSTART:20270710T070000Z"),
        ] {
            let when = read(&time).unwrap();
            let shown = when.line("DTSTART");
            assert_eq!(format!("{}{}:{}", shown.name, shown.params, shown.value), line);
            assert!(same(&read(&written(&when).unwrap()).unwrap(), &when));
        }
        let floating = When::read("DTSTART", "20270310T090000", None).unwrap();
        assert!(written(&floating).unwrap_err().to_string().contains("give the event a zone"));
        assert_eq!((read(&json!({})), read(&json!({"date": "soon"}))), (None, None));
    }
}
