//! Edits of events that came from elsewhere.

use calendar::{Change, Object, Scope, When, Window, Zone, remove, update};
use jiff::Timestamp;
use jiff::tz::TimeZone;

const SERIES: &str = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nX-WR-CALNAME;X-ODD=\"a;b\":Work\r\nBEGIN:VTIMEZONE\r\nTZID:Mitteleuropa\r\n\
X-LIC-LOCATION:Europe/Berlin\r\nEND:VTIMEZONE\r\nBEGIN:VEVENT\r\nUID:1@elsewhere\r\nDTSTART;TZID=Mitteleuropa:20260326T090000\r\n\
DURATION:PT1H\r\nSUMMARY:Stand\\, up\r\nRRULE:FREQ=DAILY;COUNT=6\r\nX-THEIRS;P=1:keep \r\n me\r\nEXDATE;TZID=Mitteleuropa:20260327T090000\r\n\
BEGIN:VALARM\r\nTRIGGER:-PT10M\r\nACTION:AUDIO\r\nEND:VALARM\r\nEND:VEVENT\r\nBEGIN:VEVENT\r\nUID:1@elsewhere\r\n\
RECURRENCE-ID;TZID=Mitteleuropa:20260330T090000\r\nDTSTART;TZID=Mitteleuropa:20260330T150000\r\nDURATION:PT2H\r\nSUMMARY:Later\r\n\
END:VEVENT\r\nEND:VCALENDAR\r\n";

fn home() -> TimeZone {
    TimeZone::get("Europe/Berlin").expect("a zone")
}

fn now() -> Timestamp {
    "2026-03-01T00:00:00Z".parse().expect("a time")
}

fn at(day: &str) -> When {
    let berlin = Zone::named("Europe/Berlin").expect("a zone");
    When::Zoned(format!("{day}T09:00").parse().expect("a time"), berlin)
}

fn starts(object: &Object) -> Vec<String> {
    let window = Window::new(now(), "2026-06-01T00:00:00Z".parse().expect("a time")).expect("a window");
    let all = object.instances(window, &home()).expect("instances");
    all.iter().map(|one| one.start.shown(&home())[5..16].to_owned()).collect()
}

fn changed(object: &Object, scope: Scope, instance: Option<&When>, change: &Change) -> calendar::Edited {
    update(object, scope, instance, change, (now(), &home(), "2@here")).expect("an edit")
}

#[test]
fn what_an_edit_does_not_touch_stays_byte_for_byte() {
    let object = Object::read(SERIES.as_bytes()).expect("an event");
    assert_eq!(object.write(), SERIES.as_bytes());
    assert_eq!(object.main().title, "Stand, up");
    assert_eq!(starts(&object), ["03-26T09:00", "03-28T09:00", "03-29T09:00", "03-30T15:00", "03-31T09:00"]);
    let change = Change { title: Some("Sit; down".to_owned()), ..Change::default() };
    let edited = changed(&object, Scope::Series, None, &change).object.expect("it is there");
    let text = String::from_utf8(edited.write()).expect("UTF-8");
    for kept in [
        "X-WR-CALNAME;X-ODD=\"a;b\":Work\r\n",
        "X-THEIRS;P=1:keep \r\n me\r\n",
        "TRIGGER:-PT10M\r\nACTION:AUDIO\r\n",
        "TZID:Mitteleuropa\r\n",
    ] {
        assert!(text.contains(kept), "{kept}: {text}");
    }
    assert!(text.contains("SUMMARY:Sit\\; down\r\n") && text.contains("SUMMARY:Later\r\n"), "{text}");
    assert_eq!(starts(&edited), starts(&object));
}

#[test]
fn one_instance_the_rest_or_all_is_changed() {
    let object = Object::read(SERIES.as_bytes()).expect("an event");
    let noon = |day: &str| Change {
        start: Some(at(day).at(format!("{day}T12:00").parse().expect("a time"))),
        ..Change::default()
    };
    let one = changed(&object, Scope::This, Some(&at("2026-03-29")), &noon("2026-03-29")).object.expect("it is there");
    assert_eq!(starts(&one), ["03-26T09:00", "03-28T09:00", "03-29T12:00", "03-30T15:00", "03-31T09:00"]);
    let again = changed(&one, Scope::This, Some(&at("2026-03-29")), &noon("2026-04-29")).object.expect("it is there");
    assert_eq!(starts(&again), ["03-26T09:00", "03-28T09:00", "03-30T15:00", "03-31T09:00", "04-29T12:00"]);
    let rest = changed(&object, Scope::Following, Some(&at("2026-03-29")), &noon("2026-03-29"));
    assert_eq!(starts(&rest.object.expect("the first part")), ["03-26T09:00", "03-28T09:00"]);
    let following = rest.following.expect("the rest");
    assert_eq!(following.uid(), "2@here");
    assert_eq!(starts(&following), ["03-29T12:00", "03-30T15:00", "03-31T12:00"]);
    // Exceptions go along: the day that was left out and the one that was moved.
    let all = changed(&object, Scope::Series, None, &noon("2026-03-26")).object.expect("it is there");
    assert_eq!(starts(&all), ["03-26T12:00", "03-28T12:00", "03-29T12:00", "03-30T15:00", "03-31T12:00"]);
    // From the first on is all of it.
    let first = changed(&object, Scope::Following, Some(&at("2026-03-26")), &noon("2026-03-26"));
    assert!(first.following.is_none());
    assert!(update(&object, Scope::This, Some(&at("2026-03-27")), &noon("2026-03-27"), (now(), &home(), "x")).is_err());
    assert!(update(&object, Scope::This, None, &noon("2026-03-27"), (now(), &home(), "x")).is_err());
}

#[test]
fn one_instance_the_rest_or_all_is_removed() {
    let object = Object::read(SERIES.as_bytes()).expect("an event");
    let gone = |scope, day: Option<&str>| {
        remove(&object, scope, day.map(at).as_ref(), now(), &home()).expect("an edit").object
    };
    assert!(gone(Scope::Series, None).is_none());
    let one = gone(Scope::This, Some("2026-03-30")).expect("it is there");
    assert_eq!(starts(&one), ["03-26T09:00", "03-28T09:00", "03-29T09:00", "03-31T09:00"]);
    let rest = gone(Scope::Following, Some("2026-03-29")).expect("it is there");
    assert_eq!(starts(&rest), ["03-26T09:00", "03-28T09:00"]);
}

#[test]
fn a_new_rule_leaves_no_exceptions_of_the_old_one_behind() {
    let object = Object::read(SERIES.as_bytes()).expect("an event");
    let rule = "FREQ=WEEKLY;COUNT=2".parse().expect("a rule");
    let edited = changed(&object, Scope::Series, None, &Change { rule: Some(Some(rule)), ..Change::default() });
    assert_eq!(starts(&edited.object.expect("it is there")), ["03-26T09:00", "04-02T09:00"]);
}

#[test]
fn a_series_does_not_move_behind_its_end() {
    let until = SERIES.replace("FREQ=DAILY;COUNT=6", "FREQ=DAILY;UNTIL=20260330T220000Z");
    let object = Object::read(until.as_bytes()).expect("an event");
    let moved = |day: &str| {
        let later = Change { start: Some(at(day)), ..Change::default() };
        update(&object, Scope::Series, None, &later, (now(), &home(), "2@here"))
    };
    assert!(moved("2026-03-28").is_ok());
    let refused = moved("2026-04-20").expect_err("a series that never takes place").to_string();
    assert!(refused.contains("end before it begins"), "{refused}");
}

#[test]
fn a_series_that_names_its_days_moves_only_with_its_rule() {
    let weekly = SERIES.replace("FREQ=DAILY;COUNT=6", "FREQ=WEEKLY;BYDAY=TH,FR;COUNT=6");
    let object = Object::read(weekly.as_bytes()).expect("an event");
    let later = Change { start: Some(at("2026-03-28")), ..Change::default() };
    let refused = update(&object, Scope::Series, None, &later, (now(), &home(), "2@here"));
    assert!(refused.expect_err("a move").to_string().contains("give the new rule as well"));
    let with_rule = Change { rule: Some("FREQ=WEEKLY;BYDAY=SA;COUNT=3".parse().ok()), ..later };
    let moved = changed(&object, Scope::Series, None, &with_rule).object.expect("a series");
    assert_eq!(starts(&moved).first().map(String::as_str), Some("03-28T09:00"));
    // A day is no time: what was taken away would be back.
    let daily = Object::read(SERIES.as_bytes()).expect("an event");
    let whole = Change { start: Some(When::Date("2026-03-26".parse().expect("a day"))), ..Change::default() };
    let refused = update(&daily, Scope::Series, None, &whole, (now(), &home(), "2@here"));
    assert!(refused.expect_err("a change of kind").to_string().contains("make a new event"));
}
