//! Whom an event names from its first line on, what an answer says of one instance, and zones that only a calendar knows.

use serde_json::{Value, json};

use crate::approvals::json_of;
use crate::calendar::with_calendar;
use crate::calendar_caldav::synced;
use crate::support::radicale::{CALENDAR, Radicale};
use crate::support::{Household, eventually, model};

/// The text of the event with this title at the server.
async fn there(server: &Radicale, title: &str) -> String {
    for href in server.hrefs().await {
        let text = server.send("GET", &href, String::new()).await;
        if text.contains(&format!("SUMMARY:{title}\r\n")) {
            return text;
        }
    }
    panic!("{title} is not there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_names_who_is_to_come_as_it_is_made_and_changed() {
    let Some(server) = Radicale::start("calendar_parts::attendees").await else { return };
    let household = Household::new().with_caldav("general", &server, "private = [\"cal\"]\n");
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    let party = |people: Value| json!({"title": "Party", "start_at": "2027-03-12T19:00", "attendees": people});
    let wrong = butler.ok("calendar_create_event", party(json!(["Bea"]))).await;
    assert_eq!(wrong["code"], "invalid_value", "{wrong}");
    let made = butler.ok("calendar_create_event", party(json!(["bea@example.org", "carl@example.org"]))).await;
    assert_eq!(made["status"], "created", "{made}");
    synced(&butler).await;
    let text = there(&server, "Party").await;
    assert!(text.contains("bea@example.org") && text.contains("carl@example.org"), "{text}");
    assert!(text.contains("ORGANIZER:mailto:ada@example.org"), "a server mails invitations in this name: {text}");
    // What somebody answered stays with whoever stays.
    server.edit("mailto:carl@example.org", "mailto:dora@example.org").await;
    server.edit("ATTENDEE;", "ATTENDEE;CN=Bea;").await;
    synced(&butler).await;
    let change = json!({"event_id": made["event_id"], "attendees": ["BEA@example.org", "emil@example.org"]});
    assert_eq!(butler.ok("calendar_update_event", change).await["status"], "updated");
    synced(&butler).await;
    let text = there(&server, "Party").await;
    assert!(text.contains("CN=Bea") && text.contains("emil@example.org") && !text.contains("dora@"), "{text}");
    // Nobody at all comes.
    let nobody = json!({"event_id": made["event_id"], "attendees": []});
    assert_eq!(butler.ok("calendar_update_event", nobody).await["status"], "updated");
    synced(&butler).await;
    assert!(!there(&server, "Party").await.contains("ATTENDEE"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_is_of_the_instance_that_was_changed() {
    let household = Household::new().with_module("general", "calendar", "\n[modules.calendar]\nprovider = \"local\"\n");
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    let walk = json!({"title": "Walk", "start_at": "2027-03-10T09:00", "recurrence_rule": "FREQ=DAILY;COUNT=4"});
    let id = butler.ok("calendar_create_event", walk).await["event_id"].clone();
    let change = json!({"event_id": id, "recurrence_scope": "this", "instance_start_at": "2027-03-12T09:00",
                        "title": "Late walk", "start_at": "2027-03-12T17:00"});
    let done = butler.ok("calendar_update_event", change).await;
    let start = done["start_at"].as_str().expect("a time");
    assert!(done["title"] == "Late walk" && start.starts_with("2027-03-12T17:00"), "{done}");
    let following = json!({"event_id": id, "recurrence_scope": "following", "instance_start_at": "2027-03-13T09:00",
                           "title": "Run"});
    let done = butler.ok("calendar_update_event", following).await;
    let start = done["start_at"].as_str().expect("a time");
    assert!(done["title"] == "Run" && start.starts_with("2027-03-13T09:00"), "{done}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_zone_that_nobody_knows_is_said_of_its_event() {
    let Some(server) = Radicale::start("calendar_parts::zone").await else { return };
    let event = |uid: &str, (name, zone): (&str, &str)| {
        format!(
            "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//t//t//EN\r\n{zone}BEGIN:VEVENT\r\nUID:{uid}\r\nDTSTAMP:20270101T000000Z\r\n\
             DTSTART;TZID={name}:20270310T090000\r\nDTEND;TZID={name}:20270310T100000\r\nSUMMARY:{uid}\r\n\
             END:VEVENT\r\nEND:VCALENDAR\r\n"
        )
    };
    let rules = "BEGIN:VTIMEZONE\r\nTZID:Our own time\r\nBEGIN:STANDARD\r\nDTSTART:19700101T000000\r\nTZOFFSETFROM:-0330\r\n\
                 TZOFFSETTO:-0330\r\nEND:STANDARD\r\nEND:VTIMEZONE\r\n";
    server.send("PUT", &format!("{CALENDAR}ruled.ics"), event("ruled", ("Our own time", rules))).await;
    server.send("PUT", &format!("{CALENDAR}odd.ics"), event("odd", ("Their own time", ""))).await;
    let household = Household::new().with_caldav("general", &server, "private = [\"cal\"]\n");
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    synced(&butler).await;
    let listed = butler.ok("calendar_list_events", json!({"start_at": "2027-03-10", "end_at": "2027-03-11"})).await;
    let events = listed["events"].as_array().expect("events");
    let of = |title: &str| events.iter().find(|event| event["title"] == title).unwrap_or_else(|| panic!("{listed}"));
    let ruled = of("ruled")["start_at"].as_str().expect("a time").parse::<jiff::Timestamp>().expect("a time");
    assert_eq!((ruled.to_string().as_str(), &of("ruled")["unknown_timezone"]), ("2027-03-10T12:30:00Z", &Value::Null));
    assert_eq!(of("odd")["unknown_timezone"], "Their own time", "{listed}");
    let odd = butler.ok("calendar_get_event", json!({"event_id": of("odd")["event_id"]})).await;
    assert_eq!(odd["unknown_timezone"], "Their own time", "{odd}");
    // An end that is before its start by its zone's clock alone is none.
    let id = of("ruled")["event_id"].clone();
    let change = json!({"event_id": id, "title": "ruled", "recurrence_rule": "FREQ=DAILY;UNTIL=20270312T123000Z"});
    let done = butler.ok("calendar_update_event", change).await;
    assert_eq!(done["status"], "updated", "{done}");
    let days = json!({"start_at": "2027-03-10", "end_at": "2027-03-20"});
    let listed = butler.ok("calendar_list_events", days).await;
    let ruled = listed["events"].as_array().expect("events").iter().filter(|event| event["title"] == "ruled");
    assert_eq!(ruled.count(), 3, "{listed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_stays_in_the_zone_of_its_event() {
    let household = with_calendar(Household::new(), "");
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    let weekly = json!({"title": "Call", "start_at": "2027-03-08T09:00", "timezone": "America/New_York",
                        "recurrence_rule": "FREQ=WEEKLY;BYDAY=MO;COUNT=3"});
    let id = butler.ok("calendar_create_event", weekly).await["event_id"].clone();
    for start in ["2027-03-08T10:00", "2027-03-08T15:30:00Z"] {
        let moved = butler.ok("calendar_update_event", json!({"event_id": id, "start_at": start})).await;
        assert_eq!(moved["status"], "updated", "{moved}");
    }
    let listed = butler.ok("calendar_list_events", json!({"start_at": "2027-03-01", "end_at": "2027-04-01"})).await;
    let starts: Vec<_> =
        listed["events"].as_array().expect("events").iter().map(|one| one["start_at"].clone()).collect();
    // The clock changes there on the 14th, two weeks before it does in Europe.
    let all = ["2027-03-08T10:30:00-05:00", "2027-03-15T10:30:00-04:00", "2027-03-22T10:30:00-04:00"];
    assert_eq!(json!(starts), json!(all), "{listed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn where_a_person_decides_on_overlaps_no_session_does() {
    let lunch = |title: &str| {
        json!({"title": title, "start_at": "2027-03-10T12:00", "end_at": "2027-03-10T13:00",
               "conflict_policy": "allow_overlap"})
    };
    let call = json!({"call": {"tool": "calendar_create_event", "arguments": lunch("Second lunch")}});
    let model =
        model(json!([{"when": "put it beside lunch", "steps": [call, {"say": "It says: {{result.0}}"}]}])).await;
    let section = "\n[modules.calendar]\nprovider = \"local\"\n[modules.calendar.conflicts]\nrequire_approval = true\n";
    let household = Household::with_model(&model).with_module("general", "calendar", section);
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    assert_eq!(butler.ok("calendar_create_event", lunch("Lunch")).await["status"], "created");
    let end = butler.ok("trigger", json!({"prompt": "put it beside lunch"})).await;
    assert!(end["success"] == true && end.to_string().contains("pending_approval"), "{end}");
    let day = json!({"start_at": "2027-03-10", "end_at": "2027-03-11"});
    let listed = butler.ok("calendar_list_events", day.clone()).await;
    assert_eq!(listed["events"].as_array().map(Vec::len), Some(1), "{listed}");
    // People do, by a call of their own or by approving the session's.
    let made = butler.ok("calendar_create_event", lunch("Third lunch")).await;
    assert_eq!((&made["status"], &made["overlaps"][0]["title"]), (&json!("created"), &json!("Lunch")), "{made}");
    let waiting = &json_of(&household, &["approvals", "list"])["items"];
    let id = waiting[0]["id"].as_str().unwrap_or_else(|| panic!("nothing waits: {waiting}")).to_owned();
    json_of(&household, &["approvals", "approve", &id]);
    eventually("what was approved is done", || async {
        let listed = butler.ok("calendar_list_events", day.clone()).await;
        let titles: Vec<_> = listed["events"].as_array().into_iter().flatten().map(|one| &one["title"]).collect();
        if titles.contains(&&json!("Second lunch")) { Ok(()) } else { Err(listed.to_string()) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arguments_are_taken_by_the_names_that_others_have_for_them() {
    let household = with_calendar(Household::new(), "");
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    let dentist = json!({"title": "Dentist", "start_at": "2027-03-10T09:00", "body": "Bring the card", "notes": null,
                         "notification": 30, "request_id": "dentist"});
    let made = butler.ok("calendar_create_event", dentist.clone()).await;
    let got = async || butler.ok("calendar_get_event", json!({"event_id": made["event_id"]})).await;
    assert_eq!(got().await["description"], "Bring the card");
    // By its own names it is the same call.
    let same = json!({"title": "Dentist", "start_at": "2027-03-10T09:00", "description": "Bring the card",
                      "reminder_minutes": 30, "request_id": "dentist"});
    assert_eq!(butler.ok("calendar_create_event", same).await, made);
    let noted = json!({"event_id": made["event_id"], "notes": "Bring the letter"});
    assert_eq!(butler.ok("calendar_update_event", noted).await["status"], "updated");
    assert_eq!(got().await["description"], "Bring the letter");
    // One argument has one value, and what there is nothing for is refused by its name.
    for (more, named) in [("description", "body"), ("send_updates", "send_updates")] {
        let mut call = dentist.clone();
        call[more] = json!("x");
        let refused = butler.call("calendar_create_event", call).await.text();
        assert_eq!(refused["code"], "invalid_arguments", "{refused}");
        assert!(refused["error"].as_str().is_some_and(|why| why.contains(named)), "{refused}");
    }
    let told = butler.ok("tool_find", json!({"query": "calendar_create_event"})).await["tools"][0].clone();
    assert!(told["name"] == "calendar_create_event" && !told.to_string().contains("notification"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_has_a_colour_by_its_name_or_googles_id() {
    let household = with_calendar(Household::new(), "");
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    let run = json!({"title": "Run", "start_at": "2027-03-10T09:00", "color_id": "11"});
    let id = butler.ok("calendar_create_event", run).await["event_id"].clone();
    let mut now = json!("crimson");
    for (set, then) in [("", Value::Null), ("Teal", json!("teal")), ("7", json!("skyblue"))] {
        assert_eq!(butler.ok("calendar_get_event", json!({"event_id": id})).await["color_id"], now);
        butler.ok("calendar_update_event", json!({"event_id": id, "color_id": set})).await;
        now = then;
    }
    let refused = butler.ok("calendar_update_event", json!({"event_id": id, "color_id": "#ff0000"})).await;
    assert_eq!(refused["code"], "invalid_value", "{refused}");
    butler.ok("calendar_update_event", json!({"event_id": id, "title": "Long run"})).await;
    assert_eq!(butler.ok("calendar_get_event", json!({"event_id": id})).await["color_id"], now);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_repeated_says_what_its_event_overlaps_now() {
    let household = with_calendar(Household::new(), "");
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    let first = json!({"title": "First", "start_at": "2027-03-10T09:00"});
    let first = butler.ok("calendar_create_event", first).await["event_id"].clone();
    let over = json!({"title": "Second", "start_at": "2027-03-10T09:30", "conflict_policy": "allow_overlap",
                      "request_id": "second"});
    let made = butler.ok("calendar_create_event", over.clone()).await;
    assert_eq!(made["overlaps"][0]["title"], "First", "{made}");
    assert_eq!(butler.ok("calendar_create_event", over.clone()).await, made);
    // A series goes on from its second time where something else is; its first half is not in its way.
    let daily = json!({"title": "Walk", "start_at": "2027-03-09T20:00", "recurrence_rule": "FREQ=DAILY;COUNT=3"});
    let walk = butler.ok("calendar_create_event", daily).await["event_id"].clone();
    let split = json!({"event_id": walk, "recurrence_scope": "following", "instance_start_at": "2027-03-10T20:00",
                       "start_at": "2027-03-10T09:15", "conflict_policy": "allow_overlap", "request_id": "split"});
    let changed = butler.ok("calendar_update_event", split.clone()).await;
    assert_eq!(changed["overlaps"].as_array().map(Vec::len), Some(2), "{changed}");
    assert_eq!(butler.ok("calendar_update_event", split).await, changed);
    // What is no longer there is not named.
    butler.ok("calendar_delete_event", json!({"event_id": first})).await;
    let again = butler.ok("calendar_create_event", over.clone()).await;
    let titles: Vec<_> = again["overlaps"].as_array().expect("a list").iter().map(|one| &one["title"]).collect();
    assert_eq!(titles, ["Walk"], "{again}");
    // Of an event that is gone itself nobody knows.
    butler.ok("calendar_delete_event", json!({"event_id": made["event_id"]})).await;
    let again = butler.ok("calendar_create_event", over).await;
    assert_eq!((&again["event_id"], &again["overlaps"]), (&made["event_id"], &Value::Null), "{again}");
    // What overlapped nothing says nothing of it.
    let free = json!({"title": "Third", "start_at": "2027-03-20T09:00", "request_id": "third"});
    let made = butler.ok("calendar_create_event", free.clone()).await;
    assert!(made.get("overlaps").is_none(), "{made}");
    assert_eq!(butler.ok("calendar_create_event", free).await, made);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_butlers_own_event_repeats_by_a_rule_that_cron_has_words_for() {
    let household = with_calendar(Household::new(), "");
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    let plants = json!({"title": "Plants", "action": "water the plants", "start_at": "2099-03-09T09:00", "timezone": "Europe/Berlin",
                        "recurrence_rule": "RRULE:FREQ=WEEKLY;BYDAY=MO,TH;UNTIL=20990319", "location": "Garden",
                        "description": "All but the cactus"});
    // For whom it is may be said, of the butler itself.
    let mut others = plants.clone();
    others["butler_name"] = json!("health");
    let refused = butler.ok("calendar_create_butler_event", others).await;
    let says = |why: &str| why.contains("call health's own tool");
    assert!(refused["code"] == "invalid_arguments" && refused["error"].as_str().is_some_and(says), "{refused}");
    let mut plants = plants;
    plants["butler_name"] = json!("general");
    let made = butler.ok("calendar_create_butler_event", plants).await;
    assert_eq!((&made["status"], &made["cron"]), (&json!("created"), &json!("0 9 * * 1,4")), "{made}");
    let listed = async || {
        let month = json!({"start_at": "2099-03-01", "end_at": "2099-04-01"});
        let listed = butler.ok("calendar_list_events", month).await;
        listed["butler_events"].as_array().cloned().unwrap_or_default()
    };
    let at =
        |one: &Value| one["start_at"].as_str().expect("a time").parse::<jiff::Timestamp>().expect("a time").to_string();
    let (all, clock) = (listed().await, |day: u8| format!("2099-03-{day:02}T08:00:00Z"));
    assert_eq!(all.iter().map(at).collect::<Vec<_>>(), [9, 12, 16, 19].map(clock), "{all:?}");
    assert_eq!(made["description"], "All but the cactus", "{made}");
    assert!(all.iter().all(|one| one["location"] == "Garden" && one.get("description").is_none()), "{all:?}");
    let schedule = butler.ok("schedule_list", json!({})).await.to_string();
    assert!(schedule.contains("water the plants") && schedule.contains("All but the cactus"), "{schedule}");
    // Each by itself; what is not given stays.
    let change = json!({"event_id": made["event_id"], "body": "All of them"});
    let changed = butler.ok("calendar_update_butler_event", change).await;
    assert_eq!((&changed["location"], &changed["description"]), (&json!("Garden"), &json!("All of them")), "{changed}");

    let once =
        json!({"title": "Bins", "prompt": "remind of the bins", "start_at": "2099-03-09T09:00", "timezone": "UTC"});
    let made = butler.ok("calendar_create_butler_event", once).await;
    assert!(made["cron"].is_null() && made.get("location").is_none(), "{made}");
    let rule = async |rule: &str| {
        let change = json!({"event_id": made["event_id"], "recurrence_rule": rule});
        butler.ok("calendar_update_butler_event", change).await
    };
    // The ninth is a Monday, and stays the first time.
    for (given, cron) in [
        ("FREQ=DAILY", "0 9 * * *"),
        ("FREQ=WEEKLY;INTERVAL=1;WKST=SU", "0 9 * * 1"),
        ("FREQ=MONTHLY", "0 9 9 * *"),
        ("FREQ=YEARLY", "0 9 9 3 *"),
        ("FREQ=MONTHLY;BYMONTHDAY=9,23", "0 9 9,23 * *"),
        ("FREQ=MONTHLY;BYDAY=2MO", "0 9 * * 1#2"),
        ("rrule:freq=daily;byday=mo,tu,we,th,fr", "0 9 * * 1,2,3,4,5"),
    ] {
        let changed = rule(given).await;
        assert_eq!((&changed["cron"], at(&changed)), (&json!(cron), "2099-03-09T09:00:00Z".to_owned()), "{changed}");
    }
    for none in [
        "FREQ=DAILY;INTERVAL=2",
        "FREQ=DAILY;COUNT=3",
        "FREQ=HOURLY",
        "FREQ=WEEKLY;BYDAY=1MO",
        "FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13",
        "FREQ=YEARLY;BYDAY=MO",
        "FREQ=YEARLY;BYMONTH=3;BYDAY=MO",
        "FREQ=YEARLY;BYMONTH=3;BYDAY=2MO",
        "FREQ=DAILY;BYDAY=XX",
        "FREQ=DAILY;UNTIL=soon",
    ] {
        let refused = rule(none).await;
        assert_eq!(refused["code"], "invalid_arguments", "{none}: {refused}");
        assert!(refused["error"].as_str().is_some_and(|why| why.contains("Give cron instead")), "{refused}");
    }
    let unbegun = json!({"title": "Windows", "prompt": "clean them", "recurrence_rule": "FREQ=DAILY"});
    let unbegun = butler.ok("calendar_create_butler_event", unbegun).await;
    assert!(unbegun["error"].as_str().is_some_and(|why| why.contains("start_at is missing")), "{unbegun}");
    // The last Friday, and at another time.
    let last = json!({"event_id": made["event_id"], "recurrence_rule": "FREQ=MONTHLY;BYDAY=-1FR", "start_at": "2099-03-20T07:30"});
    let last = butler.ok("calendar_update_butler_event", last).await;
    assert_eq!((&last["cron"], at(&last)), (&json!("30 7 * * 5#L"), "2099-03-27T07:30:00Z".to_owned()), "{last}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_butlers_own_event_by_a_rule_comes_first_when_it_begins() {
    let household = with_calendar(Household::new(), "");
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    let before = jiff::Timestamp::now();
    let soon = json!({"title": "Soon", "prompt": "look", "start_at": "in 2 hours", "timezone": "UTC",
                      "recurrence_rule": "FREQ=DAILY"});
    let made = butler.ok("calendar_create_butler_event", soon).await;
    let first: jiff::Timestamp = made["start_at"].as_str().expect("a time").parse().expect("a time");
    let ahead = first.duration_since(before).as_secs();
    // Less up to a minute, more by what the call took.
    assert!((7200 - 60..7200 + 60).contains(&ahead), "a day late: {made}");
    assert_eq!(first.as_second() % 60, 0, "{made}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_rule_of_a_butlers_own_event_has_its_own_end() {
    let household = with_calendar(Household::new(), "");
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    let ends =
        |one: &Value| one["until_at"].as_str().map(|at| at.parse::<jiff::Timestamp>().expect("a time").to_string());
    let event = json!({"title": "Plants", "prompt": "water the plants", "start_at": "2099-03-09T09:00", "timezone": "UTC",
                       "recurrence_rule": "FREQ=DAILY;UNTIL=20990320T090000Z", "until_at": "2099-04-01T00:00:00Z"});
    let made = butler.ok("calendar_create_butler_event", event).await;
    assert_eq!(ends(&made).as_deref(), Some("2099-03-20T09:00:00Z"), "the earlier of both: {made}");
    let change = async |mut what: Value| {
        what["event_id"] = made["event_id"].clone();
        butler.ok("calendar_update_butler_event", what).await
    };
    let later = change(json!({"recurrence_rule": "FREQ=DAILY;UNTIL=20990325T090000Z"})).await;
    assert_eq!(ends(&later).as_deref(), Some("2099-03-25T09:00:00Z"), "{later}");
    let sooner = json!({"recurrence_rule": "FREQ=DAILY;UNTIL=20990325T090000Z", "until_at": "2099-03-15T12:00:00Z"});
    let sooner = change(sooner).await;
    assert_eq!(ends(&sooner).as_deref(), Some("2099-03-15T12:00:00Z"), "{sooner}");
    // A change of anything else leaves the end, also one of the cron.
    for kept in [json!({"title": "All plants"}), json!({"cron": "0 10 * * *"})] {
        let kept = change(kept).await;
        assert_eq!(ends(&kept).as_deref(), Some("2099-03-15T12:00:00Z"), "{kept}");
    }
    let endless = change(json!({"recurrence_rule": "FREQ=WEEKLY"})).await;
    assert!(endless.get("until_at").is_none(), "{endless}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_rule_of_a_butlers_own_event_keeps_its_time_of_day() {
    let household = with_calendar(Household::new(), "");
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    let event = json!({"title": "Plants", "prompt": "water the plants", "start_at": "2099-03-09T09:00", "timezone": "UTC",
                       "cron": "30 9 * * *"});
    let id = butler.ok("calendar_create_butler_event", event).await["event_id"].clone();
    let change = async |mut what: Value| {
        what["event_id"] = id.clone();
        butler.ok("calendar_update_butler_event", what).await
    };
    // Only the next run is moved, not what it comes by.
    assert_eq!(change(json!({"start_at": "2099-03-11T17:45"})).await["cron"], "30 9 * * *");
    assert_eq!(change(json!({"recurrence_rule": "FREQ=WEEKLY"})).await["cron"], "30 9 * * 1");
    // The ninth of March is a Monday, and no run was missed.
    let next = change(json!({"title": "All"})).await;
    let at: jiff::Timestamp = next["start_at"].as_str().expect("a time").parse().expect("a time");
    assert_eq!(at.to_string(), "2099-03-09T09:30:00Z", "{next}");
    for several in ["0 9,17 * * *", "*/30 9 * * *", "15 0 9 * * *", "@daily"] {
        assert_eq!(change(json!({"cron": several})).await["cron"], several);
        let refused = change(json!({"recurrence_rule": "FREQ=WEEKLY"})).await;
        assert!(refused["error"].as_str().is_some_and(|why| why.contains("Give start_at")), "{several}: {refused}");
    }
    // The clock goes forward from two to three on that day, and the rule would stay an hour late.
    let gap = json!({"recurrence_rule": "FREQ=DAILY", "start_at": "2027-03-28T02:30", "timezone": "Europe/Berlin"});
    let refused = change(gap).await;
    assert!(
        refused["error"].as_str().is_some_and(|why| why.contains("2027-03-28") && why.contains("02:30")),
        "{refused}"
    );
    let given = change(json!({"recurrence_rule": "FREQ=WEEKLY", "start_at": "2099-03-10T08:00"})).await;
    assert_eq!(given["cron"], "0 8 * * 2", "{given}");
    // Once at a time: that time is the first.
    let once = json!({"title": "Bins", "prompt": "look", "start_at": "2099-03-09T07:00", "timezone": "UTC"});
    let once = butler.ok("calendar_create_butler_event", once).await["event_id"].clone();
    let again = json!({"event_id": once, "recurrence_rule": "FREQ=DAILY"});
    assert_eq!(butler.ok("calendar_update_butler_event", again).await["cron"], "0 7 * * *");
}
