//! Quiet hours: when what is not urgent waits, and until when.

use jiff::Timestamp;
use jiff::civil::Time;
use jiff::tz::TimeZone;

use config::QuietHours;

/// Until when it is quiet, if it is now. A time that the clock skips that day is the moment after the gap.
pub fn until(now: Timestamp, hours: Option<QuietHours>, zone: &TimeZone) -> Option<Timestamp> {
    let hours = hours?;
    let local = now.to_zoned(zone.clone());
    if !hours.contains(local.time()) {
        return None;
    }
    let mut day = local.date();
    let end: Time = hours.to;
    for _ in 0..3 {
        if let Ok(at) = day.to_datetime(end).to_zoned(zone.clone())
            && at.timestamp() > now
        {
            return Some(at.timestamp());
        }
        day = day.tomorrow().ok()?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn quiet_hours_end_in_the_morning_of_the_owners_zone() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let night = QuietHours::parse("22:00-07:00");
        for (now, end) in [
            ("2026-11-22T22:30:00+01:00", Some("2026-11-23T07:00:00+01:00")),
            ("2026-11-23T06:59:59+01:00", Some("2026-11-23T07:00:00+01:00")),
            ("2026-11-23T07:00:00+01:00", None),
            ("2026-11-23T12:00:00+01:00", None),
            // The night in which clocks go forward, and the one in which they go back.
            ("2026-03-28T23:00:00+01:00", Some("2026-03-29T07:00:00+02:00")),
            ("2026-10-24T23:00:00+02:00", Some("2026-10-25T07:00:00+01:00")),
        ] {
            assert_eq!(until(at(now), night, &zone), end.map(at), "{now}");
        }
        assert_eq!(until(at("2026-11-22T22:30:00+01:00"), None, &zone), None);
    }

    #[test]
    fn an_end_that_the_clock_skips_or_has_twice_is_after_now() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let early = QuietHours::parse("22:00-02:30");
        // 02:30 does not exist in this night.
        let end = until(at("2026-03-29T00:30:00+01:00"), early, &zone).unwrap();
        assert!(end > at("2026-03-29T00:30:00+01:00") && end <= at("2026-03-29T03:30:00+02:00"), "{end}");
        // In this one it is there twice; past the first, the local time is still quiet in its second hour.
        let now = at("2026-10-25T02:10:00+01:00");
        assert!(until(now, early, &zone).is_some_and(|end| end > now));
    }
}
