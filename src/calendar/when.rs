//! A point in a calendar: a day, a time in a zone, a time in UTC, or a time wherever one is.

use std::str::FromStr as _;

use calcard::common::timezone::Tz;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::CalendarError;
use crate::text::{Line, quote};

/// A time zone, with the name that the calendar gives it.
#[derive(Clone, Debug, PartialEq)]
pub struct Zone {
    pub id: String,
    pub tz: TimeZone,
}

impl Zone {
    /// By an IANA name, or one that other programs write (`W. Europe Standard Time`), which `calcard` knows.
    pub fn named(id: &str) -> Result<Self, CalendarError> {
        let none = || CalendarError::NoZone(id.chars().take(100).collect());
        let tz = match TimeZone::get(id) {
            Ok(tz) => tz,
            Err(_) => match Tz::from_str(id).map_err(|_| none())? {
                Tz::Tz(tz) => TimeZone::get(tz.name()).map_err(|_| none())?,
                Tz::Floating | Tz::Fixed(_) => return Err(none()),
            },
        };
        Ok(Self { id: id.to_owned(), tz })
    }
}

/// When something begins or ends.
#[derive(Clone, Debug, PartialEq)]
pub enum When {
    /// A day, not a midnight: it is the same day in each zone.
    Date(Date),
    /// A time of day in a zone.
    Zoned(DateTime, Zone),
    /// A time in UTC.
    Utc(DateTime),
    /// A time of day in whatever zone the reader is.
    Floating(DateTime),
}

impl When {
    pub fn is_date(&self) -> bool {
        matches!(self, Self::Date(_))
    }
    /// What a clock on the wall of its zone shows; midnight for a day.
    pub fn local(&self) -> DateTime {
        match self {
            Self::Date(day) => day.to_datetime(Time::midnight()),
            Self::Zoned(at, _) | Self::Utc(at) | Self::Floating(at) => *at,
        }
    }
    /// The zone of its clock; `home` for days and floating times.
    pub fn zone(&self, home: &TimeZone) -> TimeZone {
        match self {
            Self::Zoned(_, zone) => zone.tz.clone(),
            Self::Utc(_) => TimeZone::UTC,
            Self::Date(_) | Self::Floating(_) => home.clone(),
        }
    }
    /// The instant. A time that the clock skips is read with the offset before the change, and one that comes twice is
    /// the first of both (RFC 5545, 3.3.5).
    pub fn instant(&self, home: &TimeZone) -> Result<Timestamp, CalendarError> {
        let zone = self.zone(home);
        zone.to_timestamp(self.local()).map_err(|_| CalendarError::OutOfRange(self.to_string()))
    }
    /// The same kind of time at another place of the clock.
    pub fn at(&self, local: DateTime) -> Self {
        match self {
            Self::Date(_) => Self::Date(local.date()),
            Self::Zoned(_, zone) => Self::Zoned(local, zone.clone()),
            Self::Utc(_) => Self::Utc(local),
            Self::Floating(_) => Self::Floating(local),
        }
    }
    /// The instant as a time of this one's kind and zone.
    pub fn of_instant(&self, at: Timestamp, home: &TimeZone) -> Self {
        self.at(at.to_zoned(self.zone(home)).datetime())
    }
    /// Moved by wall-clock time.
    pub fn plus(&self, time: SignedDuration) -> Result<Self, CalendarError> {
        let local = self.local().checked_add(time).map_err(|_| CalendarError::OutOfRange(self.to_string()))?;
        Ok(self.at(local))
    }
    /// Reads a value of `DATE` or `DATE-TIME`.
    pub fn read(property: &str, value: &str, zone: Option<&Zone>) -> Result<Self, CalendarError> {
        let wrong = || CalendarError::invalid(property, value, "write a day as 20260329 or a time as 20260329T090000");
        let (digits, utc) = value.strip_suffix(['Z', 'z']).map_or((value, false), |digits| (digits, true));
        // Exactly these forms: a lenient reader would take `2026032` for a day of some other month.
        if !digits.bytes().enumerate().all(|(n, b)| if n == 8 { b == b'T' || b == b't' } else { b.is_ascii_digit() }) {
            return Err(wrong());
        }
        let number = |from: usize, to: usize| digits.get(from..to).and_then(|part| part.parse::<i8>().ok());
        let year = digits.get(..4).and_then(|year| year.parse::<i16>().ok()).ok_or_else(wrong)?;
        let (month, day) = number(4, 6).zip(number(6, 8)).ok_or_else(wrong)?;
        let day = Date::new(year, month, day).map_err(|_| wrong())?;
        match digits.len() {
            8 if !utc => Ok(Self::Date(day)),
            15 => {
                let (hour, minute) = number(9, 11).zip(number(11, 13)).ok_or_else(wrong)?;
                // A leap second is the second before it here.
                let second = number(13, 15).ok_or_else(wrong)?.min(59);
                let at = day.to_datetime(Time::new(hour, minute, second, 0).map_err(|_| wrong())?);
                Ok(match (utc, zone) {
                    (true, _) => Self::Utc(at),
                    (false, Some(zone)) => Self::Zoned(at, zone.clone()),
                    (false, None) => Self::Floating(at),
                })
            }
            _ => Err(wrong()),
        }
    }
    /// The value as iCalendar writes it, without property and zone.
    pub fn value(&self) -> String {
        match self {
            Self::Date(day) => day.strftime("%Y%m%d").to_string(),
            Self::Zoned(at, _) | Self::Floating(at) => at.strftime("%Y%m%dT%H%M%S").to_string(),
            Self::Utc(at) => at.strftime("%Y%m%dT%H%M%SZ").to_string(),
        }
    }
    /// The property with this value.
    pub fn line(&self, property: &str) -> Line {
        let head = match self {
            Self::Date(_) => format!("{property};VALUE=DATE"),
            // A name with a colon or comma needs quotes, an IANA name must have none for old readers.
            Self::Zoned(_, zone) if zone.id.bytes().all(|b| b.is_ascii_alphanumeric() || b"/_+-".contains(&b)) => {
                format!("{property};TZID={}", zone.id)
            }
            Self::Zoned(_, zone) => format!("{property};TZID={}", quote(&zone.id)),
            Self::Utc(_) | Self::Floating(_) => property.to_owned(),
        };
        Line::new(&head, &self.value())
    }
    /// For people and tools: `2026-03-29`, or RFC 3339 with the offset that the zone has then.
    pub fn shown(&self, home: &TimeZone) -> String {
        match self {
            Self::Date(day) => day.to_string(),
            _ => match self.instant(home) {
                Ok(at) => at.to_zoned(self.zone(home)).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
                Err(_) => self.to_string(),
            },
        }
    }
}

impl std::fmt::Display for When {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Date(day) => day.fmt(f),
            Self::Zoned(at, zone) => write!(f, "{at} ({})", zone.id),
            Self::Utc(at) => write!(f, "{at}Z"),
            Self::Floating(at) => at.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_strictly_and_written_back() {
        let berlin = Zone::named("Europe/Berlin").unwrap();
        for (value, zone) in [("20260329", None), ("20260329T023000", Some(&berlin)), ("20260329T023000Z", None)] {
            assert_eq!(When::read("DTSTART", value, zone).unwrap().value(), value);
        }
        for bad in [
            "2026032",
            "20260230",
            "20260329T",
            "20260329Z",
            "20260329T250000",
            "2026-03-29",
            "20260329T0900",
            "２0260329",
        ] {
            assert!(When::read("DTSTART", bad, None).is_err(), "{bad}");
        }
        // The clock goes from 02:00 to 03:00 that night.
        let skipped = When::read("DTSTART", "20260329T023000", Some(&berlin)).unwrap();
        assert_eq!(skipped.instant(&TimeZone::UTC).unwrap().to_string(), "2026-03-29T01:30:00Z");
        assert_eq!(Zone::named("W. Europe Standard Time").unwrap().tz, berlin.tz);
        assert!(Zone::named("Nowhere/Land").is_err());
    }
}
