//! Moments and lengths of time as people read them.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};
use maud::{Markup, html};

/// What a page knows of time: the present, and the zone of whoever looks.
#[derive(Clone, Debug)]
pub(super) struct Now {
    pub at: Timestamp,
    pub zone: TimeZone,
}

impl Now {
    /// A moment in the owner's zone.
    pub fn zoned(&self, at: Timestamp) -> Zoned {
        at.to_zoned(self.zone.clone())
    }

    /// A moment in words, exact as one points at it.
    pub fn when(&self, at: Timestamp) -> Markup {
        let exact = self.zoned(at).strftime("%Y-%m-%d %H:%M:%S %Z").to_string();
        html! { time datetime=(at) title=(exact) { (self.words(at)) } }
    }

    /// The same, where there may be none.
    pub fn maybe(&self, at: Option<Timestamp>) -> Markup {
        html! { @if let Some(at) = at { (self.when(at)) } @else { span.dim { "–" } } }
    }

    /// A moment in words: the time of today's, the day of others'.
    pub fn words(&self, at: Timestamp) -> String {
        let (there, here) = (self.zoned(at), self.zoned(self.at));
        let days = i64::from((there.date() - here.date()).get_days());
        let clock = there.strftime("%H:%M");
        match days {
            0 => clock.to_string(),
            1 => format!("tomorrow {clock}"),
            -1 => format!("yesterday {clock}"),
            2..=6 | -6..=-2 => format!("{} {clock}", there.strftime("%a")),
            _ if there.year() == here.year() => there.strftime("%-d %b %H:%M").to_string(),
            _ => there.strftime("%-d %b %Y").to_string(),
        }
    }

    /// How long ago something was, roughly.
    pub fn ago(&self, at: Timestamp) -> String {
        format!("{} ago", length(self.at.duration_since(at).max(SignedDuration::ZERO)))
    }
}

/// A length of time in one or two units.
pub(super) fn length(span: SignedDuration) -> String {
    let (ms, seconds) = (span.as_millis().max(0), span.as_secs().max(0));
    match seconds {
        0 => format!("{ms} ms"),
        1..=9 => format!("{}.{} s", seconds, (ms % 1000) / 100),
        10..=59 => format!("{seconds} s"),
        60..=3599 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..=86_399 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_told_from_where_one_stands() {
        let zone = TimeZone::get("Europe/Vienna").unwrap();
        let now = Now { at: "2026-11-27T12:00:00Z".parse().unwrap(), zone };
        let words = |at: &str| now.words(at.parse().unwrap());
        assert_eq!(words("2026-11-27T08:05:00Z"), "09:05");
        // Eleven in the evening in UTC is tomorrow there.
        assert_eq!(words("2026-11-27T23:30:00Z"), "tomorrow 00:30");
        assert_eq!(words("2026-11-26T10:00:00Z"), "yesterday 11:00");
        assert_eq!(words("2026-11-23T10:00:00Z"), "Mon 11:00");
        assert_eq!(words("2026-03-01T10:00:00Z"), "1 Mar 11:00");
        assert_eq!(words("2024-03-01T10:00:00Z"), "1 Mar 2024");
        let shown = now.when("2026-11-27T08:05:00Z".parse().unwrap()).into_string();
        assert!(shown.contains("title=\"2026-11-27 09:05:00 CET\""), "{shown}");
    }

    #[test]
    fn lengths_have_the_units_that_matter() {
        let of = |ms| length(SignedDuration::from_millis(ms));
        assert_eq!([of(0), of(999), of(1_200), of(59_999)], ["0 ms", "999 ms", "1.2 s", "59 s"]);
        assert_eq!([of(61_000), of(7_260_000), of(90_000_000)], ["1 min 1 s", "2 h 1 min", "1 d 1 h"]);
    }
}
