//! When repeating events take place, compared with what Python's recurring-ical-events says of the same events.

use std::process::Command;

use calendar::{Object, When, Window};
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
        // The same events each time, so that nothing depends on luck. Others are asked for by hand.
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
