//! When repeating events take place, compared with what Python's recurring-ical-events says of the same events.

use std::process::Command;

use calendar::{Attendee, Change, Event, Object, Scope, When, Window, update};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Deserialize;
use what_was_left_out::left_out;

/// As `tests/clients/calendar/recurrence.py` prints it.
#[derive(Deserialize)]
struct Case {
    ics: String,
    from: Timestamp,
    to: Timestamp,
    /// Start and end; no end where the library has none that makes sense.
    instances: Vec<(String, Option<String>)>,
}

const COUNT: &str = "500";

fn shown(at: &When) -> String {
    match at {
        When::Date(day) => day.to_string(),
        at => at.instant(&TimeZone::UTC).expect("an instant").to_string(),
    }
}

fn found(case: &Case) -> Result<Vec<(String, Option<String>)>, calendar::CalendarError> {
    let object = Object::read(case.ics.as_bytes())?;
    let instances = object.instances(Window::new(case.from, case.to)?, &TimeZone::UTC)?;
    let mut found: Vec<_> = instances.iter().map(|one| (shown(&one.start), Some(shown(&one.end)))).collect();
    found.sort();
    Ok(found)
}

#[test]
fn events_take_place_when_recurring_ical_events_says() {
    let Ok(python) = std::env::var("BUTLERD_TEST_CALENDAR") else {
        let why = "BUTLERD_TEST_CALENDAR is not set; `.ci/run clients` says to what";
        left_out("calendar_recurrence::events_take_place_when_recurring_ical_events_says", why);
        return;
    };
    let seed = match std::env::var("BUTLERD_TEST_SEED") {
        Ok(seed) => seed,
        // The same events each time, so that nothing depends on luck. `just soak` has others.
        Err(_) => "6688".to_owned(),
    };
    println!("seed {seed}: BUTLERD_TEST_SEED={seed} makes the same events again");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/calendar/recurrence.py");
    let out = Command::new(python).args([script, &seed, COUNT]).output().expect("python runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).expect("UTF-8");
    let cases: Vec<Case> = text.lines().map(|line| serde_json::from_str(line).expect("a case")).collect();
    assert_eq!(cases.len().to_string(), COUNT);
    let mut wrong = Vec::new();
    for case in &cases {
        let mut ours = found(case);
        let mut theirs = case.instances.clone();
        theirs.sort();
        for (our, their) in ours.iter_mut().flatten().zip(&theirs) {
            if their.1.is_none() {
                our.1 = None;
            }
        }
        if ours.as_ref() != Ok(&theirs) {
            wrong.push(format!("{}\nours   {ours:?}\ntheirs {theirs:?}", case.ics));
        }
    }
    let instances: usize = cases.iter().map(|case| case.instances.len()).sum();
    println!("{} events, {instances} instances", cases.len());
    assert!(instances > 5_000, "the events hardly take place: {instances}");
    assert!(wrong.is_empty(), "seed {seed}: {} of {COUNT} differ\n{}", wrong.len(), wrong.join("\n\n"));
}

#[test]
fn who_is_taken_off_a_series_or_put_on_it_is_so_at_its_exceptions() {
    let asked = |all: &[&str]| all.iter().map(|one| format!("ATTENDEE:mailto:{one}@x.org\r\n")).collect::<String>();
    let event = |more: &str, who: &[&str]| {
        format!("BEGIN:VEVENT\r\nUID:1\r\n{more}\r\nDURATION:PT1H\r\nSUMMARY:x\r\n{}END:VEVENT\r\n", asked(who))
    };
    let series = event("DTSTART:20260326T090000Z\r\nRRULE:FREQ=DAILY;COUNT=6", &["bea", "carl"]);
    let later = event("DTSTART:20260330T150000Z\r\nRECURRENCE-ID:20260330T090000Z", &["bea", "eve"]);
    let text = format!("BEGIN:VCALENDAR\r\nVERSION:2.0\r\n{series}{later}END:VCALENDAR\r\n");
    let object = Object::read(text.as_bytes()).expect("an event");
    let one = |name: &str| Attendee { email: format!("{name}@x.org"), name: None, answer: None, optional: false };
    let lists = |object: &Object| -> Vec<String> {
        let of = |event: &Event| event.attendees.iter().map(|one| one.email.clone()).collect::<Vec<_>>();
        object.events.iter().map(|event| of(event).join(" ").replace("@x.org", "")).collect()
    };
    let changed = |scope: Scope, change: &Change| {
        let third = When::Utc("2026-03-28T09:00:00".parse().expect("a time"));
        let now = "2026-03-01T00:00:00Z".parse().expect("a time");
        update(&object, scope, Some(&third), change, (now, &TimeZone::UTC, "2")).expect("an edit")
    };
    let change = Change { attendees: Some(vec![one("carl"), one("dora")]), ..Change::default() };
    let edited = changed(Scope::Series, &change).object.expect("it is there");
    assert_eq!(lists(&edited), ["carl dora", "eve dora"]);
    let rest = changed(Scope::Following, &change);
    assert_eq!(lists(&rest.object.expect("the first part")), ["bea carl"]);
    assert_eq!(lists(&rest.following.expect("the rest")), ["carl dora", "eve dora"]);
    let same = Some(vec![one("bea"), one("carl")]);
    let change = Change { attendees: same, gone: vec![one("EVE")], ..Change::default() };
    let edited = changed(Scope::Series, &change).object.expect("it is there");
    assert_eq!(lists(&edited), ["bea carl", "bea"]);
}
