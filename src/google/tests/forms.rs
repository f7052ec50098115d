//! What Google has of an event as iCalendar, and back.

use serde_json::{Value, json};

use crate::calendar::forms::{changed, shown};

fn event(fields: Value) -> Value {
    let mut event = json!({"id": "e1", "iCalUID": "e1@google.com", "etag": "\"1\"", "status": "confirmed", "sequence": 2,
        "updated": "2027-01-02T00:00:00.000Z", "summary": "Tea, with; milk\nand more",
        "organizer": {"email": "ada@example.org", "self": true}, "creator": {"email": "ada@example.org", "self": true},
        "start": {"dateTime": "2027-03-10T09:00:00+01:00", "timeZone": "Europe/Berlin"},
        "end": {"dateTime": "2027-03-10T10:00:00+01:00", "timeZone": "Europe/Berlin"}});
    for (name, value) in fields.as_object().unwrap() {
        event[name] = value.clone();
    }
    event
}

#[test]
fn each_form_of_an_event_goes_there_and_back_unchanged() {
    let attendees = json!([{"email": "ada@example.org", "self": true, "organizer": true, "responseStatus": "accepted"},
        {"email": "bea@example.org", "displayName": "Bea, of \"here\"", "optional": true, "responseStatus": "needsAction"}]);
    for (fields, lines) in [
        (
            json!({}),
            vec!["DTSTART;TZID=Europe/Berlin:20270310T090000", "SUMMARY:Tea\\, with\\; milk\\nand more", "SEQUENCE:2"],
        ),
        (
            json!({"start": {"date": "2027-03-10"}, "end": {"date": "2027-03-12"}}),
            vec!["DTSTART;VALUE=DATE:20270310", "DTEND;VALUE=DATE:20270312"],
        ),
        (
            json!({"status": "tentative", "transparency": "transparent", "visibility": "private", "location": "Hall"}),
            vec!["STATUS:TENTATIVE", "TRANSP:TRANSPARENT", "CLASS:PRIVATE", "LOCATION:Hall"],
        ),
        (
            json!({"recurrence": ["RRULE:FREQ=WEEKLY;COUNT=5", "EXDATE;TZID=Europe/Berlin:20270317T090000"]}),
            vec!["RRULE:FREQ=WEEKLY;COUNT=5", "EXDATE;TZID=Europe/Berlin:20270317T090000"],
        ),
        (json!({"colorId": "7"}), vec!["COLOR:skyblue"]),
        (json!({"colorId": "12"}), vec!["STATUS:CONFIRMED"]),
        (
            json!({"attendees": attendees}),
            vec![
                "ORGANIZER:mailto:ada@example.org",
                "ATTENDEE;PARTSTAT=ACCEPTED:mailto:ada@example.org",
                "ATTENDEE;CN=\"Bea, of here\";ROLE=OPT-PARTICIPANT;PARTSTAT=NEEDS-ACTION:mailto:bea@example.org",
            ],
        ),
        (
            json!({"reminders": {"useDefault": false, "overrides": [{"method": "popup", "minutes": 10},
                                                                    {"method": "email", "minutes": 60}]}}),
            vec!["TRIGGER:-PT10M"],
        ),
    ] {
        let event = event(fields);
        let text = shown(&event, &[]).unwrap();
        let unfolded = text.replace("\r\n ", "");
        for line in lines {
            assert!(unfolded.lines().any(|one| one == line), "{line}: {unfolded}");
        }
        assert_eq!(changed(&event, &text).unwrap(), json!({}), "{text}");
    }
}

#[test]
fn only_what_differs_is_written() {
    let event =
        event(json!({"attendees": [{"email": "bea@example.org", "comment": "late", "responseStatus": "accepted"},
        {"id": "hidden", "self": false}],
        "reminders": {"useDefault": false, "overrides": [{"method": "email", "minutes": 60}]}}));
    let text = shown(&event, &[]).unwrap();
    let title = text.replace("SUMMARY:Tea", "SUMMARY:Green tea");
    assert_eq!(changed(&event, &title).unwrap(), json!({"summary": "Green tea, with; milk\nand more"}));
    let red = text.replace("END:VEVENT", "COLOR:crimson\r\nEND:VEVENT");
    assert_eq!(changed(&event, &red).unwrap(), json!({"colorId": "11"}));
    let mut colored = event.clone();
    colored["colorId"] = json!("11");
    assert_eq!(changed(&colored, &text).unwrap(), json!({"colorId": null}));
    let day = text.replace(";TZID=Europe/Berlin:20270310T090000", ";VALUE=DATE:20270310");
    let day = day.replace(";TZID=Europe/Berlin:20270310T100000", ";VALUE=DATE:20270311");
    let cleared = |day: &str| json!({"date": day, "dateTime": null, "timeZone": null});
    assert_eq!(changed(&event, &day).unwrap(), json!({"start": cleared("2027-03-10"), "end": cleared("2027-03-11")}));
    let more = text.replace("END:VEVENT", "ATTENDEE:mailto:cy@example.org\r\nEND:VEVENT");
    let attendees = changed(&event, &more).unwrap()["attendees"].clone();
    assert_eq!((&attendees[0]["comment"], &attendees[1]["email"]), (&json!("late"), &json!("cy@example.org")));
    assert_eq!(attendees[2], json!({"id": "hidden"}));
    let alarm = "BEGIN:VALARM\r\nACTION:DISPLAY\r\nTRIGGER:-PT5M\r\nEND:VALARM\r\nEND:VEVENT";
    let alarmed = changed(&event, &text.replace("END:VEVENT", alarm)).unwrap();
    assert_eq!(
        alarmed["reminders"]["overrides"],
        json!([{"method": "email", "minutes": 60}, {"method": "popup", "minutes": 5}])
    );
    assert!(
        changed(&event, &text.replace("STATUS:CONFIRMED", "STATUS:CANCELLED"))
            .unwrap_err()
            .to_string()
            .contains("delete it")
    );
    let floating = text.replace(";TZID=Europe/Berlin", "");
    assert!(changed(&event, &floating).unwrap_err().to_string().contains("give the event a zone"));
}

#[test]
fn whoever_invites_is_named() {
    let line = |fields: Value| {
        let text = shown(&event(fields), &[]).unwrap();
        text.lines().find(|line| line.starts_with("ORGANIZER")).map(|line| line["ORGANIZER:mailto:".len()..].to_owned())
    };
    let me = json!([{"email": "ada@example.org", "self": true, "responseStatus": "needsAction"}]);
    let eve = "eve@evil.example";
    assert_eq!(line(json!({})), None);
    assert_eq!(line(json!({"organizer": {"email": eve}})).as_deref(), Some(eve));
    assert_eq!(line(json!({"organizer": {"email": eve}, "attendees": me})).as_deref(), Some(eve));
    let nobody = Some("unknownorganizer@calendar.google.com");
    for strange in [
        json!({"organizer": {"displayName": "ada@example.org"}, "attendees": me}),
        json!({"organizer": {}, "attendees": me}),
        json!({"organizer": null, "attendees": me}),
        json!({"eventType": "fromGmail"}),
    ] {
        assert_eq!(line(strange.clone()).as_deref(), nobody, "{strange}");
    }
    // A second calendar of hers is its own organizer.
    let group = json!({"organizer": {"email": "x@group.calendar.google.com", "self": true}, "attendees": me});
    assert_eq!(line(group).as_deref(), Some("ada@example.org"));
    // No text of theirs becomes a line of its own.
    let forged = json!({"organizer": {"email": "eve@evil.example\r\nX-A:1"}, "summary": "a\r\nORGANIZER:mailto:b@c",
                        "location": "x\r\nSTATUS:y", "attendees": [{"email": "a@b\r\nX-B:1", "displayName": "\"\r\nX-C:1"}]});
    let text = shown(&event(forged), &[]).unwrap();
    let unfolded = text.replace("\r\n ", "");
    assert!(!unfolded.lines().any(|line| line.starts_with("X-") || line == "ORGANIZER:mailto:b@c"), "{unfolded}");
}

#[test]
fn a_series_has_its_special_instances() {
    let series = event(json!({"recurrence": ["RRULE:FREQ=DAILY;COUNT=5"]}));
    let at = |day: u8| json!({"dateTime": format!("2027-03-{day}T09:00:00+01:00"), "timeZone": "Europe/Berlin"});
    let gone = json!({"id": "e1_20270311T080000Z", "recurringEventId": "e1", "status": "cancelled",
                      "originalStartTime": at(11)});
    let mut late = event(json!({"summary": "Late", "originalStartTime": at(12), "recurringEventId": "e1"}));
    late["start"]["dateTime"] = json!("2027-03-12T15:00:00+01:00");
    late["end"]["dateTime"] = json!("2027-03-12T16:00:00+01:00");
    let text = shown(&series, &[gone, late]).unwrap();
    for line in [
        "EXDATE;TZID=Europe/Berlin:20270311T090000",
        "RECURRENCE-ID;TZID=Europe/Berlin:20270312T090000",
        "DTSTART;TZID=Europe/Berlin:20270312T150000",
        "SUMMARY:Late",
    ] {
        assert!(text.lines().any(|one| one == line), "{line}: {text}");
    }
    let object = calendar::Object::read(text.as_bytes()).unwrap();
    assert_eq!((object.events.len(), object.uid()), (2, "e1@google.com"));
}
