use super::*;
use crate::times::at;

/// A Wednesday noon in Berlin.
const NOW: &str = "2026-11-25T12:00:00+01:00";

fn berlin() -> TimeZone {
    TimeZone::get("Europe/Berlin").unwrap()
}

#[test]
fn moments_in_words_and_by_numbers() {
    for (said, expected) in [
        ("tomorrow 9:00", "2026-11-26T09:00:00+01:00"),
        ("tomorrow at 9am", "2026-11-26T09:00:00+01:00"),
        ("Tomorrow at 9 AM", "2026-11-26T09:00:00+01:00"),
        ("9am tomorrow", "2026-11-26T09:00:00+01:00"),
        ("at 9:30 pm tomorrow", "2026-11-26T21:30:00+01:00"),
        ("today 18:00", "2026-11-25T18:00:00+01:00"),
        ("today, 18:00:30", "2026-11-25T18:00:30+01:00"),
        ("day after tomorrow 7:05", "2026-11-27T07:05:00+01:00"),
        ("monday 18:30", "2026-11-30T18:30:00+01:00"),
        ("on Monday at 6:30pm", "2026-11-30T18:30:00+01:00"),
        ("mon 18:30", "2026-11-30T18:30:00+01:00"),
        ("wednesday 18:30", "2026-11-25T18:30:00+01:00"),
        ("wednesday 11:00", "2026-12-02T11:00:00+01:00"),
        ("wednesday 12:00", "2026-12-02T12:00:00+01:00"),
        ("next wednesday 18:30", "2026-12-02T18:30:00+01:00"),
        ("next friday noon", "2026-11-27T12:00:00+01:00"),
        ("12am", "2026-11-26T00:00:00+01:00"),
        ("12pm", "2026-11-26T12:00:00+01:00"),
        ("12:30pm", "2026-11-25T12:30:00+01:00"),
        ("midnight", "2026-11-26T00:00:00+01:00"),
        ("at 11:59", "2026-11-26T11:59:00+01:00"),
        ("at 12:01", "2026-11-25T12:01:00+01:00"),
        ("2026-12-24 18:00", "2026-12-24T18:00:00+01:00"),
        ("2026-12-24T18:00", "2026-12-24T18:00:00+01:00"),
        ("2026-12-24T18:00:00Z", "2026-12-24T19:00:00+01:00"),
        ("2026-12-24 at 6pm", "2026-12-24T18:00:00+01:00"),
        ("24 december 18:00", "2026-12-24T18:00:00+01:00"),
        ("december 24th at 6pm", "2026-12-24T18:00:00+01:00"),
        ("Dec 24 2027 18:00", "2027-12-24T18:00:00+01:00"),
        ("1 nov 8:00", "2027-11-01T08:00:00+01:00"),
        ("in 10 seconds", "2026-11-25T12:00:10+01:00"),
        ("in 2 days", "2026-11-27T12:00:00+01:00"),
        ("in an hour and 30 minutes", "2026-11-25T13:30:00+01:00"),
        ("in 2 weeks", "2026-12-09T12:00:00+01:00"),
        ("in a month", "2026-12-25T12:00:00+01:00"),
    ] {
        assert_eq!(moment(said, at(NOW), &berlin()), Ok(at(expected)), "{said}");
    }
}

#[test]
fn what_is_not_understood_is_refused_with_three_examples() {
    for said in [
        "",
        "soon",
        "9",
        "at 9",
        "tomorrow 9",
        "tomorrow 25:00",
        "tomorrow 9:5",
        "tomorrow 13pm",
        "tomorrow 0am",
        "tomorrow 9:00 10:00",
        "tomorrow monday 9:00",
        "tomorrow 9:00 please",
        "monday at",
        "at monday 9:00",
        "on 9:00",
        "in",
        "in 9",
        "in -2 days",
        "in 2 days ago",
        "2 days ago",
        "last monday 9:00",
        "31 february 8:00",
        "2026-02-31 8:00",
        "next 9:00",
        "morgen 9:00",
        "tomorrow +9:00",
        "٣:00",
    ] {
        let refusal = moment(said, at(NOW), &berlin()).expect_err(said).to_string();
        assert!(refusal.contains("write it as `") && refusal.matches('`').count() >= 6, "{said}: {refusal}");
    }
    assert_eq!(moment("tomorrow", at(NOW), &berlin()), Err(TimeWordsError::NoTimeOfDay("tomorrow".to_owned())));
    assert_eq!(moment("in 101 years", at(NOW), &berlin()), Err(TimeWordsError::Bounds));
}

#[test]
fn lengths() {
    let seconds = |said: &str| length(said).map(|length| length.as_secs());
    for (said, expected) in [
        ("10 seconds", 10),
        ("10s", 10),
        ("4 hours", 4 * 3600),
        ("90m", 5400),
        ("1h30m", 5400),
        ("1 hour 30 minutes", 5400),
        ("1 hour, 30 minutes", 5400),
        ("an hour and a minute", 3660),
        ("every 4 hours", 4 * 3600),
        ("every day", 86_400),
        ("hour", 3600),
        ("2 days", 2 * 86_400),
        ("1 week", 7 * 86_400),
        ("90", 90),
    ] {
        assert_eq!(seconds(said), Ok(expected), "{said}");
    }
    for said in
        ["", "soon", "every", "every monday", "4", "two", "-4 hours", "+4 hours", "4 hours ago", "4 parsecs", "P1D"]
    {
        if said != "4" {
            assert!(matches!(seconds(said), Err(TimeWordsError::Length(_))), "{said}: {:?}", seconds(said));
        }
    }
    assert_eq!(seconds("2 months"), Err(TimeWordsError::Uneven("2 months".to_owned())));
    assert_eq!(seconds("0 seconds").map_err(|_| ()), Err(()));
    assert_eq!(seconds("500ms"), Err(TimeWordsError::Bounds));
    assert_eq!(seconds("200 years").map_err(|_| ()), Err(()));
}

#[test]
fn the_clocks_change() {
    let moment = |said: &str, now: &str| moment(said, at(now), &berlin()).unwrap();
    // In spring 02:00 to 03:00 is left out: such a time is taken right after the gap.
    assert_eq!(moment("tomorrow 2:30", "2026-03-28T12:00:00+01:00"), at("2026-03-29T03:30:00+02:00"));
    assert_eq!(moment("tomorrow 9:00", "2026-03-28T12:00:00+01:00"), at("2026-03-29T09:00:00+02:00"));
    assert_eq!(clock("tomorrow 2:30"), Some(Time::constant(2, 30, 0, 0)));
    assert_eq!((clock("in 2 days"), clock("2026-03-29T02:30:00+01:00")), (None, None), "no clock skips them");
    // In autumn 02:00 to 03:00 comes twice: the first is meant.
    assert_eq!(moment("sunday 2:30", "2026-10-24T12:00:00+02:00"), at("2026-10-25T02:30:00+02:00"));
    // Between the two passes, the first one is over.
    assert_eq!(moment("2:30", "2026-10-25T02:45:00+02:00"), at("2026-10-26T02:30:00+01:00"));
    // Days keep the time of day, hours don't.
    assert_eq!(moment("in 2 days", "2026-03-28T12:00:00+01:00"), at("2026-03-30T12:00:00+02:00"));
    assert_eq!(moment("in 2d", "2026-03-28T12:00:00+01:00"), at("2026-03-30T12:00:00+02:00"));
    assert_eq!(moment("in 48 hours", "2026-03-28T12:00:00+01:00"), at("2026-03-30T13:00:00+02:00"));
    // The day is the zone's: in Auckland it is tomorrow already.
    let auckland = TimeZone::get("Pacific/Auckland").unwrap();
    let there = super::moment("tomorrow 9:00", at("2026-11-25T12:00:00Z"), &auckland);
    assert_eq!(there, Ok(at("2026-11-27T09:00:00+13:00")));
    // Close to midnight on the day of the change.
    assert_eq!(moment("today 23:59", "2026-10-25T00:10:00+02:00"), at("2026-10-25T23:59:00+01:00"));
}

#[test]
fn nothing_panics_and_no_moment_in_words_lies_before_today() {
    let words = [
        "in",
        "at",
        "on",
        "next",
        "monday",
        "tomorrow",
        "today",
        "9:00",
        "9am",
        "12",
        "december",
        "2 days",
        "noon",
        "00:00",
        "2026-11-30",
        "a",
        "and",
        ",",
    ];
    let mut seed = 7_u64;
    for _ in 0..20_000 {
        let mut said = Vec::new();
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut pick = seed >> 20;
        for _ in 0..=pick % 4 {
            pick /= 5;
            said.push(words[usize::try_from(pick).unwrap_or(0) % words.len()]);
        }
        let said = said.join(" ");
        if let Ok(then) = moment(&said, at(NOW), &berlin()) {
            assert!(then >= at("2026-11-25T00:00:00+01:00"), "{said}: {then}");
        }
        let _ = length(&said);
    }
}
