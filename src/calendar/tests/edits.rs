//! Edits of events that came from elsewhere.

use calendar::{Attendee, Change, Object, Scope, When, Window, Zone, remove, update};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

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
    all.iter().map(|one| one.start.shown(&home()).chars().skip(5).take(11).collect()).collect()
}

fn start(at: When) -> Change {
    Change { start: Some(at), ..Change::default() }
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
    let noon = |day: &str| start(at(day).at(format!("{day}T12:00").parse().expect("a time")));
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
fn a_series_that_moves_has_as_many_times_as_before() {
    let until = SERIES.replace("FREQ=DAILY;COUNT=6", "FREQ=DAILY;UNTIL=20260331T070000Z");
    let object = Object::read(until.as_bytes()).expect("an event");
    let moved = |change: &Change| update(&object, Scope::Series, None, change, (now(), &home(), "2@here"));
    // The last of them is at its very end.
    assert_eq!(starts(&object), ["03-26T09:00", "03-28T09:00", "03-29T09:00", "03-30T15:00", "03-31T09:00"]);
    let later = moved(&start(at("2026-03-26").plus(SignedDuration::from_hours(1)).expect("a time")));
    let later = later.expect("a move").object.expect("it is there");
    assert_eq!(starts(&later), ["03-26T10:00", "03-28T10:00", "03-29T10:00", "03-30T15:00", "03-31T10:00"]);
    let days = moved(&start(at("2026-04-20"))).expect("a move").object.expect("it is there");
    assert_eq!(starts(&days), ["03-30T15:00", "04-20T09:00", "04-22T09:00", "04-23T09:00", "04-25T09:00"]);
    // The first part of one that was divided does not grow into the second.
    let rest = changed(&object, Scope::Following, Some(&at("2026-03-29")), &start(at("2026-03-29")));
    let first = rest.object.expect("the first part");
    let earlier = start(at("2026-03-26").plus(SignedDuration::from_hours(-2)).expect("a time"));
    let first = changed(&first, Scope::Series, None, &earlier).object.expect("it is there");
    assert_eq!(starts(&first), ["03-26T07:00", "03-28T07:00"]);
    // One whose new rule ends before it begins is refused.
    let rule = "FREQ=DAILY;UNTIL=20260330T220000Z".parse().ok();
    let refused = moved(&Change { rule: Some(rule), ..start(at("2026-04-20")) });
    let refused = refused.expect_err("a series that never takes place").to_string();
    assert!(refused.contains("end before it begins"), "{refused}");
}

#[test]
fn what_was_taken_away_stays_away_however_it_is_written() {
    let all = "03-26T10:00 03-28T10:00 03-29T10:00 03-30T15:00 03-31T10:00";
    let later = start(at("2026-03-26").plus(SignedDuration::from_hours(1)).expect("a time"));
    for (zoned, other) in [
        ("EXDATE;TZID=Mitteleuropa:20260327T090000", "EXDATE:20260327T080000Z"),
        ("EXDATE;TZID=Mitteleuropa:20260327T090000", "EXDATE;VALUE=DATE:20260327"),
        ("RECURRENCE-ID;TZID=Mitteleuropa:20260330T090000", "RECURRENCE-ID:20260330T070000Z"),
    ] {
        let text = SERIES.replace(zoned, other);
        assert_ne!(text, SERIES, "{other}");
        let object = Object::read(text.as_bytes()).expect("an event");
        let moved = changed(&object, Scope::Series, None, &later).object.expect("it is there");
        assert_eq!(starts(&moved).join(" "), all, "{other}");
        let again = Object::read(&moved.write()).expect("an event");
        assert_eq!(starts(&again).join(" "), all, "{other}, as it is written");
    }
}

#[test]
fn a_further_time_keeps_its_own_length() {
    let text = SERIES.replace("X-THEIRS", "RDATE;VALUE=PERIOD;TZID=Mitteleuropa:20260405T090000/PT3H\r\nX-THEIRS");
    let object = Object::read(text.as_bytes()).expect("an event");
    let later = start(at("2026-03-26").plus(SignedDuration::from_hours(1)).expect("a time"));
    let ends = |object: &Object| {
        let window = Window::new(now(), "2026-06-01T00:00:00Z".parse().expect("a time")).expect("a window");
        let last = object.instances(window, &home()).expect("instances").pop().expect("the last");
        format!("{} {}", last.start.shown(&home()), last.end.shown(&home()))
    };
    assert_eq!(ends(&object), "2026-04-05T09:00:00+02:00 2026-04-05T12:00:00+02:00");
    let moved = changed(&object, Scope::Series, None, &later).object.expect("it is there");
    assert_eq!(ends(&moved), "2026-04-05T10:00:00+02:00 2026-04-05T13:00:00+02:00");
    let rest =
        changed(&object, Scope::Following, Some(&at("2026-03-29")), &Change::default()).following.expect("the rest");
    assert_eq!(ends(&rest), ends(&object));
    // Also where the rest begins with it.
    let last = changed(&object, Scope::Following, Some(&at("2026-04-05")), &Change::default()).following.expect("it");
    assert_eq!(ends(&last), ends(&object));
}

/// A daily series as another program wrote it.
fn daily(start: &str, more: &str) -> Object {
    let text = format!(
        "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\nUID:1@elsewhere\r\nDTSTART{start}\r\nDURATION:PT1H\r\n\
         RRULE:FREQ=DAILY;{more}\r\nSUMMARY:x\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
    );
    Object::read(
        text.replace("DURATION:PT1H\r\n", if start.contains("DATE:") { "" } else { "DURATION:PT1H\r\n" }).as_bytes(),
    )
    .expect("an event")
}

#[test]
fn however_its_end_is_written_a_series_that_moves_is_as_long() {
    let berlin = ";TZID=Europe/Berlin:20260326T";
    let day = |text: &str| When::Date(text.parse().expect("a day"));
    let ten = || at("2026-03-26").plus(SignedDuration::from_hours(1)).expect("a time");
    let floating = When::Floating("2026-03-26T10:00".parse().expect("a time"));
    for (start_at, until, count, to) in [
        (";VALUE=DATE:20260326".to_owned(), "20260330T000000Z", 5, day("2026-03-27")),
        (";VALUE=DATE:20260326".to_owned(), "20260330", 5, at("2026-03-28")),
        (format!("{berlin}090000"), "20260330", 4, ten()),
        (format!("{berlin}090000"), "20260330T070000", 5, ten()),
        (format!("{berlin}090000"), "20260330T070000Z", 5, ten()),
        (format!("{berlin}090000"), "20260330T070000Z", 5, day("2026-03-29")),
        (format!("{berlin}090000"), "20260330T065959Z", 4, day("2026-03-26")),
        (":20260326T090000".to_owned(), "20260330T090000Z", 5, floating),
    ] {
        let object = daily(&start_at, &format!("UNTIL={until}"));
        assert_eq!(starts(&object).len(), count, "{start_at} {until}");
        let moved = changed(&object, Scope::Series, None, &start(to.clone())).object.expect("it is there");
        let again = Object::read(&moved.write()).expect("an event");
        assert_eq!(starts(&again).len(), count, "{start_at} {until} to {to:?}: {:?}", starts(&again));
    }
    // Months are not equally long.
    let monthly = daily(&format!("{berlin}090000"), "UNTIL=20260530T070000Z");
    let monthly = String::from_utf8(monthly.write()).expect("text").replace("FREQ=DAILY", "FREQ=MONTHLY");
    let monthly = Object::read(monthly.as_bytes()).expect("an event");
    let refused = update(&monthly, Scope::Series, None, &start(at("2026-04-26")), (now(), &home(), "2@here"));
    assert!(refused.expect_err("a move").to_string().contains("not equally long"));
    let moved = changed(&monthly, Scope::Series, None, &start(at("2026-03-20"))).object.expect("it is there");
    assert_eq!(starts(&moved), ["03-20T09:00", "04-20T09:00", "05-20T09:00"]);
}

#[test]
fn exceptions_at_odd_hours_stay_exceptions() {
    // The clock skips this hour on the 29th.
    let night = daily(";TZID=Europe/Berlin:20260326T023000", "COUNT=5\r\nEXDATE:20260329T013000Z");
    let later = When::Zoned("2026-03-26T03:30".parse().expect("a time"), Zone::named("Europe/Berlin").expect("a zone"));
    let moved = changed(&night, Scope::Series, None, &start(later)).object.expect("it is there");
    assert_eq!(starts(&moved), ["03-26T03:30", "03-27T03:30", "03-28T03:30", "03-30T03:30"]);
    // A day is the series' own, which is another one at home.
    let evening = daily(";TZID=America/New_York:20260326T230000", "COUNT=7\r\nEXDATE;VALUE=DATE:20260330");
    let new_york = Zone::named("America/New_York").expect("a zone");
    let from = When::Zoned("2026-03-29T23:00".parse().expect("a time"), new_york);
    let rest = changed(&evening, Scope::Following, Some(&from), &Change::default()).following.expect("the rest");
    assert_eq!(starts(&rest), ["03-29T23:00", "03-31T23:00", "04-01T23:00"]);
    // One that goes on for all later ones still does.
    let onward = SERIES.replace("RECURRENCE-ID;TZID", "RECURRENCE-ID;RANGE=THISANDFUTURE;TZID");
    let onward = Object::read(onward.as_bytes()).expect("an event");
    let later = at("2026-03-26").plus(SignedDuration::from_hours(1)).expect("a time");
    let moved = changed(&onward, Scope::Series, None, &start(later)).object.expect("it is there");
    assert_eq!(starts(&moved).last(), starts(&onward).last());
}

#[test]
fn who_stays_keeps_what_other_programs_say_of_them() {
    let room = "ATTENDEE;CUTYPE=ROOM;RSVP=TRUE;PARTSTAT=ACCEPTED;X-ODD=1:MAILTO:room@example.org\r\n";
    let text = SERIES.replacen("X-THEIRS", &format!("{room}ATTENDEE;CN=Bo:mailto:bo@example.org\r\nX-THEIRS"), 1);
    let object = Object::read(text.as_bytes()).expect("an event");
    let mut attendees = object.main().attendees.clone();
    attendees.retain(|one| one.email != "bo@example.org");
    attendees.push(Attendee { email: "cy@example.org".to_owned(), name: None, answer: None, optional: false });
    let change = Change { attendees: Some(attendees), ..Change::default() };
    let edited = changed(&object, Scope::Series, None, &change).object.expect("it is there");
    let text = String::from_utf8(edited.write()).expect("UTF-8");
    assert!(
        text.contains(room) && !text.contains("bo@example.org") && text.contains("mailto:cy@example.org"),
        "{text}"
    );
}

#[test]
fn a_series_that_names_its_days_moves_only_with_its_rule() {
    let weekly = SERIES.replace("FREQ=DAILY;COUNT=6", "FREQ=WEEKLY;BYDAY=TH,FR;COUNT=6");
    let object = Object::read(weekly.as_bytes()).expect("an event");
    let later = Change { start: Some(at("2026-03-28")), ..Change::default() };
    let refused = update(&object, Scope::Series, None, &later, (now(), &home(), "2@here"));
    assert!(refused.expect_err("a move").to_string().contains("give the new rule as well"));
    // On its days it may be at another hour.
    let hour = Change {
        start: Some(at("2026-03-26").plus(SignedDuration::from_hours(1)).expect("a time")),
        ..Change::default()
    };
    let moved = changed(&object, Scope::Series, None, &hour).object.expect("a series");
    assert_eq!(starts(&moved)[..3], ["03-26T10:00", "03-30T15:00", "04-02T10:00"]);
    let with_rule = Change { rule: Some("FREQ=WEEKLY;BYDAY=SA;COUNT=3".parse().ok()), ..later };
    let moved = changed(&object, Scope::Series, None, &with_rule).object.expect("a series");
    assert_eq!(starts(&moved).first().map(String::as_str), Some("03-28T09:00"));
    // A day is no time: what was taken away would be back.
    let daily = Object::read(SERIES.as_bytes()).expect("an event");
    let whole = Change { start: Some(When::Date("2026-03-26".parse().expect("a day"))), ..Change::default() };
    let refused = update(&daily, Scope::Series, None, &whole, (now(), &home(), "2@here"));
    assert!(refused.expect_err("a change of kind").to_string().contains("make a new event"));
}
