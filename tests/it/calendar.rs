//! The household's calendars, by the tools of the module `calendar`.

use serde_json::{Value, json};

use crate::support::{Daemon, Household, Mcp, model};

const SECTION: &str = "\n[modules.calendar]\nprovider = \"local\"\ntime_zone = \"Europe/Berlin\"\n";

/// `more` goes into the section of general's calendar.
pub fn with_calendar(household: Household, more: &str) -> Household {
    household.with_module("general", "calendar", &format!("{SECTION}{more}"))
}

async fn started(more: &str) -> (Household, Daemon, Mcp) {
    let household = with_calendar(Household::new(), more);
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    (household, daemon, butler)
}

fn starts(listed: &Value) -> Vec<String> {
    let events = listed["events"].as_array().unwrap_or_else(|| panic!("no events: {listed}"));
    events.iter().map(|event| event["start_at"].as_str().unwrap_or_default().to_owned()).collect()
}

async fn list(butler: &Mcp, from: &str, to: &str) -> Value {
    butler.ok("calendar_list_events", json!({"start_at": from, "end_at": to, "limit": 500})).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_made_listed_changed_and_deleted() {
    let (_household, _daemon, butler) = started("").await;
    let calendars = butler.ok("calendar_list_calendars", json!({})).await;
    assert_eq!(calendars["calendars"][0]["calendar_id"], "household", "{calendars}");
    let event =
        json!({"title": "Dentist", "start_at": "2027-03-10T09:00", "location": "High Street 1", "request_id": "k1"});
    let made = butler.ok("calendar_create_event", event.clone()).await;
    assert_eq!(
        (&made["status"], &made["start_at"]),
        (&json!("created"), &json!("2027-03-10T09:00:00+01:00")),
        "{made}"
    );
    // The same again under its key is the first one; another call under it is a mistake.
    assert_eq!(butler.ok("calendar_create_event", event.clone()).await, made);
    let mut other = event.clone();
    other["title"] = json!("Else");
    assert_eq!(butler.ok("calendar_create_event", other).await["code"], "key_used");
    let day = butler
        .ok("calendar_create_event", json!({"title": "Holiday", "start_at": "2027-03-10", "end_at": "2027-03-12"}))
        .await;
    assert_eq!((&day["all_day"], &day["end_at"]), (&json!(true), &json!("2027-03-12")), "{day}");
    let listed = list(&butler, "2027-03-01", "2027-04-01").await;
    assert_eq!(starts(&listed), ["2027-03-10", "2027-03-10T09:00:00+01:00"], "{listed}");
    let id = made["event_id"].clone();
    let moved = json!({"event_id": id, "start_at": "2027-03-11T10:30", "description": "Bring the card"});
    let moved = butler.ok("calendar_update_event", moved).await;
    assert_eq!(moved["end_at"], "2027-03-11T11:30:00+01:00", "{moved}");
    let got = butler.ok("calendar_get_event", json!({"event_id": id})).await;
    assert_eq!((&got["description"], &got["location"]), (&json!("Bring the card"), &json!("High Street 1")), "{got}");
    let asked = json!({"event_id": id, "attendees": ["ada@example.org"]});
    butler.ok("calendar_add_attendees", asked).await;
    let got = butler.ok("calendar_get_event", json!({"event_id": id})).await;
    assert_eq!(got["attendees"][0]["email"], "ada@example.org", "{got}");
    let gone = butler.ok("calendar_delete_event", json!({"event_id": id})).await;
    assert_eq!(gone["status"], "deleted", "{gone}");
    assert_eq!(starts(&list(&butler, "2027-03-01", "2027-04-01").await), ["2027-03-10"]);
    assert_eq!(butler.ok("calendar_get_event", json!({"event_id": id})).await["code"], "not_found");
    for (bad, code) in [
        (json!({"title": "x", "start_at": "soon"}), "no_time"),
        (json!({"title": "x", "start_at": "2027-03-10T09:00", "end_at": "2027-03-10T08:00"}), "invalid_event"),
        (json!({"title": "x", "start_at": "2027-03-10T09:00", "recurrence_rule": "FREQ=SECONDLY"}), "invalid_event"),
        (json!({"title": "x", "start_at": "2027-03-10T09:00", "timezone": "Nowhere/Land"}), "invalid_event"),
        (json!({"title": "x", "start_at": "2027-03-10T09:00", "calendar_id": "work"}), "not_found"),
    ] {
        let refused = butler.ok("calendar_create_event", bad.clone()).await;
        assert_eq!(refused["code"], code, "{bad}: {refused}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_series_is_changed_in_one_place_from_there_on_or_whole() {
    let (_household, _daemon, butler) = started("").await;
    // The clock changes on the 28th.
    let event = json!({"title": "Gym", "start_at": "2027-03-14T07:00", "recurrence_rule": "FREQ=WEEKLY;COUNT=6"});
    let made = butler.ok("calendar_create_event", event).await;
    let id = made["event_id"].clone();
    let whole = [
        "03-14T07:00:00+01:00",
        "03-21T07:00:00+01:00",
        "03-28T07:00:00+02:00",
        "04-04T07:00:00+02:00",
        "04-11T07:00:00+02:00",
        "04-18T07:00:00+02:00",
    ];
    let months = async || {
        let listed = list(&butler, "2027-03-01", "2027-05-01").await;
        starts(&listed).iter().map(|at| at.trim_start_matches("2027-").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(months().await, whole);
    let one = json!({"event_id": id, "recurrence_scope": "this", "instance_start_at": "2027-03-28T07:00:00+02:00",
                     "start_at": "2027-03-28T11:00"});
    butler.ok("calendar_update_event", one).await;
    let skipped = json!({"event_id": id, "recurrence_scope": "this", "instance_start_at": "2027-03-21T07:00"});
    butler.ok("calendar_delete_event", skipped).await;
    assert_eq!(months().await, [whole[0], "03-28T11:00:00+02:00", whole[3], whole[4], whole[5]]);
    let later = json!({"event_id": id, "recurrence_scope": "following", "instance_start_at": "2027-04-11T07:00",
                       "start_at": "2027-04-12T08:00", "title": "Gym at eight"});
    let split = butler.ok("calendar_update_event", later).await;
    assert_eq!(split["split_from"], id, "{split}");
    assert_eq!(
        months().await,
        [whole[0], "03-28T11:00:00+02:00", whole[3], "04-12T08:00:00+02:00", "04-19T08:00:00+02:00"]
    );
    // All of the first part by an hour; its exception keeps its own time.
    butler.ok("calendar_update_event", json!({"event_id": id, "start_at": "2027-03-14T06:00"})).await;
    assert_eq!(months().await[..3], ["03-14T06:00:00+01:00", "03-28T11:00:00+02:00", "04-04T06:00:00+02:00"]);
    let wrong =
        json!({"event_id": id, "recurrence_scope": "this", "instance_start_at": "2027-03-15T06:00", "title": "x"});
    assert_eq!(butler.ok("calendar_update_event", wrong).await["code"], "not_found");
    butler.ok("calendar_delete_event", json!({"event_id": id})).await;
    assert_eq!(months().await.len(), 2);
    // A rule without end is laid out as far as somebody looks.
    let daily =
        json!({"title": "Pills", "start_at": "2027-01-01T20:00", "busy": false, "recurrence_rule": "FREQ=DAILY"});
    butler.ok("calendar_create_event", daily).await;
    assert_eq!(starts(&list(&butler, "2031-06-01", "2031-06-04").await).len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_overlaps_another_is_answered_by_the_policy() {
    let (_household, _daemon, butler) = started("").await;
    let event = |title: &str, at: &str| json!({"title": title, "start_at": at});
    butler.ok("calendar_create_event", event("First", "2027-03-10T09:00")).await;
    let taken = butler.ok("calendar_create_event", event("Second", "2027-03-10T09:30")).await;
    assert_eq!((&taken["status"], &taken["conflicts"][0]["title"]), (&json!("conflict"), &json!("First")), "{taken}");
    let free = taken["suggestions"].as_array().expect("suggestions");
    assert_eq!(free.len(), 3, "{taken}");
    assert_eq!(starts(&list(&butler, "2027-03-01", "2027-04-01").await).len(), 1);
    let mut there = event("Second", free[0]["start_at"].as_str().expect("a time"));
    assert_eq!(butler.ok("calendar_create_event", there.clone()).await["status"], "created");
    there["conflict_policy"] = json!("allow_overlap");
    let both = butler.ok("calendar_create_event", there.clone()).await;
    assert_eq!((&both["status"], &both["overlaps"][0]["title"]), (&json!("created"), &json!("Second")), "{both}");
    there["conflict_policy"] = json!("fail");
    assert_eq!(butler.ok("calendar_create_event", there.clone()).await["code"], "conflict");
    // What is cancelled takes no time, until it is confirmed.
    there["status"] = json!("cancelled");
    let id = butler.ok("calendar_create_event", there).await["event_id"].clone();
    let confirmed = json!({"event_id": id, "status": "confirmed", "conflict_policy": "fail"});
    assert_eq!(butler.ok("calendar_update_event", confirmed).await["code"], "conflict");
    // What only touches is no conflict.
    assert_eq!(butler.ok("calendar_create_event", event("Third", "2027-03-10T12:00")).await["status"], "created");
    let slots = json!({"duration_minutes": 60, "search_start": "2027-03-10", "search_end": "2027-03-11", "day_from": "08:30",
                       "day_to": "13:00", "limit": 20});
    let found = butler.ok("calendar_find_free_slots", slots).await;
    let found: Vec<&str> =
        found["slots"].as_array().expect("slots").iter().filter_map(|slot| slot["start_at"].as_str()).collect();
    assert!(
        !found.is_empty()
            && found.iter().all(|at| !at.starts_with("2027-03-10T09:") && !at.starts_with("2027-03-10T12:")),
        "{found:?}"
    );

    let (_household, _daemon, strict) = started("[modules.calendar.conflicts]\npolicy = \"fail\"\n").await;
    strict.ok("calendar_create_event", event("First", "2027-03-10T09:00")).await;
    let mut loud = event("Second", "2027-03-10T09:30");
    loud["conflict_policy"] = json!("allow_overlap");
    assert_eq!(strict.ok("calendar_create_event", loud).await["code"], "conflict");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_the_settings_let_events_overlap_a_call_may_ask_for_more_care() {
    let (_household, _daemon, butler) = started("[modules.calendar.conflicts]\npolicy = \"allow_overlap\"\n").await;
    let event = |title: &str| json!({"title": title, "start_at": "2027-03-10T09:00"});
    let first = butler.ok("calendar_create_event", event("First")).await;
    assert!(first["status"] == "created" && first.get("overlaps").is_none(), "{first}");
    let second = butler.ok("calendar_create_event", event("Second")).await;
    assert_eq!((&second["status"], &second["overlaps"][0]["title"]), (&json!("created"), &json!("First")), "{second}");
    // So does a change.
    let later = json!({"title": "Third", "start_at": "2027-03-11T09:00"});
    let third = butler.ok("calendar_create_event", later).await["event_id"].clone();
    let moved = json!({"event_id": third, "start_at": "2027-03-10T09:30"});
    let moved = butler.ok("calendar_update_event", moved).await;
    let over = moved["overlaps"].as_array().map(Vec::len);
    assert_eq!((&moved["status"], over), (&json!("updated"), Some(2)), "{moved}");
    let mut careful = event("Fourth");
    careful["conflict_policy"] = json!("suggest");
    let answer = butler.ok("calendar_create_event", careful.clone()).await;
    assert_eq!(
        (&answer["status"], answer["suggestions"].as_array().map(Vec::len)),
        (&json!("conflict"), Some(3)),
        "{answer}"
    );
    careful["conflict_policy"] = json!("fail");
    assert_eq!(butler.ok("calendar_create_event", careful).await["code"], "conflict");
    assert_eq!(starts(&list(&butler, "2027-03-01", "2027-04-01").await).len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn free_time_is_free_in_each_calendar_that_counts() {
    let (_household, _daemon, butler) = started("calendars = [\"household\", \"work\", \"club\"]\n").await;
    for (calendar, at) in
        [("household", "2027-03-10T09:00"), ("work", "2027-03-10T11:00"), ("club", "2027-03-10T10:30")]
    {
        let event =
            json!({"title": calendar, "start_at": at, "calendar_id": calendar, "conflict_policy": "allow_overlap"});
        let made = butler.ok("calendar_create_event", event).await;
        assert_eq!(made["status"], "created", "{made}");
    }
    // Hours from eight to one at which something of an hour may begin, in these calendars.
    let free = async |of: Value| {
        let mut search = json!({"duration_minutes": 60, "search_start": "2027-03-10T08:00", "search_end": "2027-03-10T13:00",
                                "limit": 20});
        if !of.is_null() {
            search["calendar_ids"] = of;
        }
        let found = butler.ok("calendar_find_free_slots", search).await;
        let slots = found["slots"].as_array().unwrap_or_else(|| panic!("no slots: {found}"));
        let at = |slot: &Value| slot["start_at"].as_str().unwrap_or_default()[11..16].to_owned();
        slots.iter().map(at).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(free(json!(["household"])).await, "08:00 10:00 11:00 12:00");
    assert_eq!(free(json!(["work"])).await, "08:00 09:00 10:00 12:00");
    assert_eq!(free(json!(["club"])).await, "08:00 09:00 11:30");
    assert_eq!(free(json!(["household", "work"])).await, "08:00 10:00 12:00");
    assert_eq!(free(json!(["work", "club"])).await, "08:00 09:00 12:00");
    // All of them, if none is named; and an event of any is in the way of a new one in another.
    assert_eq!(free(Value::Null).await, "08:00 12:00");
    let taken = json!({"title": "Visit", "start_at": "2027-03-10T11:15", "calendar_id": "household"});
    let taken = butler.ok("calendar_create_event", taken).await;
    let mut titles: Vec<&str> =
        taken["conflicts"].as_array().into_iter().flatten().filter_map(|one| one["title"].as_str()).collect();
    titles.sort_unstable();
    assert_eq!(titles, ["club", "work"], "{taken}");
    let search = json!({"duration_minutes": 60, "search_start": "2027-03-10", "calendar_ids": ["work", "another"]});
    assert_eq!(butler.ok("calendar_find_free_slots", search).await["code"], "not_found");
}

/// What a stranger put into a calendar is in nobody's way but where it overlaps, and its words reach nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strangers_event_nearby_changes_nothing_of_the_owners() {
    let (household, _daemon, butler) = started("").await;
    let add = |title: &str, at: &str| json!({"title": title, "start_at": at});
    let own = butler.ok("calendar_create_event", add("Bread", "2027-03-10T09:00")).await["event_id"].clone();
    let other = butler.ok("calendar_create_event", add("Win a car", "2027-03-12T09:00")).await["event_id"].clone();
    let db = household.owner().await;
    for table in ["calendar_events WHERE id", "calendar_instances WHERE event"] {
        let (table, by) = table.split_once(" WHERE ").expect("a table");
        let sql = format!("UPDATE shared.{table} SET trust = 'stranger' WHERE {by}::text = $1");
        assert_eq!(db.execute(&sql, &[&other.as_str()]).await.expect("a stranger's"), 1);
    }
    let trust_of = async |id: &Value| {
        let sql = "SELECT trust FROM shared.calendar_events WHERE id::text = $1";
        db.query_one(sql, &[&id.as_str()]).await.expect("the event").get::<_, String>(0)
    };
    let before = trust_of(&own).await;
    let moved = butler.ok("calendar_update_event", json!({"event_id": own, "start_at": "2027-03-10T11:00"})).await;
    assert_eq!(moved["status"], "updated", "{moved}");
    let near = butler.ok("calendar_create_event", add("Milk", "2027-03-11T09:00")).await["event_id"].clone();
    assert_eq!((trust_of(&own).await, trust_of(&near).await), (before.clone(), before.clone()));
    // Over it, if it is meant so.
    let over = json!({"event_id": own, "start_at": "2027-03-12T09:30", "conflict_policy": "allow_overlap"});
    let over = butler.ok("calendar_update_event", over).await;
    assert_eq!((&over["status"], &over["overlaps"][0]["title"]), (&json!("updated"), &json!("Win a car")), "{over}");
    assert_eq!(trust_of(&own).await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_series_all_instances_are_free_at_what_is_suggested() {
    let (_household, _daemon, butler) = started("").await;
    let taken = json!({"title": "Visit", "start_at": "2027-12-03T09:00", "end_at": "2027-12-03T10:00"});
    butler.ok("calendar_create_event", taken).await;
    let series = json!({"title": "Walk", "start_at": "2027-12-01T09:00", "end_at": "2027-12-01T10:00",
                        "recurrence_rule": "FREQ=DAILY;COUNT=10"});
    let answer = butler.ok("calendar_create_event", series.clone()).await;
    assert_eq!(
        (&answer["status"], &answer["conflicts"][0]["title"]),
        (&json!("conflict"), &json!("Visit")),
        "{answer}"
    );
    let suggested = answer["suggestions"].as_array().expect("suggestions").clone();
    assert_eq!(suggested.len(), 3, "{answer}");
    for slot in suggested {
        let mut there = series.clone();
        (there["start_at"], there["end_at"]) = (slot["start_at"].clone(), slot["end_at"].clone());
        let made = butler.ok("calendar_create_event", there).await;
        assert_eq!(made["status"], "created", "{slot}: {made}");
        butler.ok("calendar_delete_event", json!({"event_id": made["event_id"], "recurrence_scope": "series"})).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calendars_are_seen_by_those_whose_settings_name_them() {
    let household = with_calendar(Household::new(), "");
    let own = "[modules.calendar]\nprovider = \"local\"\ncalendars = [\"health\"]\n";
    let household = household.with_module("health", "calendar", own);
    let daemon = household.start().await;
    let (general, health) = (daemon.mcp("general"), daemon.mcp("health"));
    let made = general.ok("calendar_create_event", json!({"title": "Secret", "start_at": "2027-03-10T09:00"})).await;
    assert_eq!(starts(&list(&health, "2027-03-01", "2027-04-01").await), [] as [&str; 0]);
    let got = health.ok("calendar_get_event", json!({"event_id": made["event_id"]})).await;
    assert_eq!(got["code"], "not_found", "{got}");
    // Nor by SQL of its own.
    let role = household.role("health").await;
    role.batch_execute("SET butlerd.tenant = 'owner'; SET butlerd.trust = 'owner'; SET butlerd.audience = '{}'")
        .await
        .expect("settings");
    for table in ["calendar_events", "calendar_instances"] {
        let count = format!("SELECT count(*) FROM shared.{table}");
        assert_eq!(role.query_one(&count, &[]).await.expect("a count").get::<_, i64>(0), 0, "{table}");
    }
    let id: uuid::Uuid = made["event_id"].as_str().expect("an id").parse().expect("an id");
    let e = role.query("SELECT shared.calendar_drop($1, 1)", &[&id]).await.expect_err("another's calendar");
    assert_eq!(e.code().map(|code| code.code()), Some("42501"), "{e}");
    let (code, out, err) = household.cli(&["token", "new", "--tenant", "other", "--scope", "tools", "--json"]);
    assert_eq!(code, 0, "{err}");
    let token: Value = serde_json::from_str(&out).expect("JSON");
    let other = general.with_token(token["token"].as_str());
    assert_eq!(starts(&list(&other, "2027-03-01", "2027-04-01").await), [] as [&str; 0]);
    other.ok("calendar_create_event", json!({"title": "Theirs", "start_at": "2027-03-10T09:00"})).await;
    assert_eq!(starts(&list(&other, "2027-03-01", "2027-04-01").await).len(), 1);
    assert_eq!(starts(&list(&general, "2027-03-01", "2027-04-01").await).len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_butlers_own_event_is_a_schedule_that_runs() {
    let model = model(json!([{"when": "water the plants", "steps": [{"say": "watered"}]}])).await;
    let household = with_calendar(Household::with_model(&model), "");
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    let event = json!({"title": "Plants", "prompt": "water the plants", "start_at": "2099-03-10T09:00:00Z"});
    let made = butler.ok("calendar_create_butler_event", event).await;
    assert_eq!(made["status"], "created", "{made}");
    let id = made["event_id"].clone();
    let schedules = butler.ok("schedule_list", json!({})).await;
    assert!(schedules.as_array().is_some_and(|all| all.iter().any(|one| one["id"] == id)), "{schedules}");
    let listed = list(&butler, "2099-03-01", "2099-04-01").await;
    assert_eq!(listed["butler_events"][0]["title"], "Plants", "{listed}");
    let ran = butler.ok("schedule_trigger", json!({"task_id": id})).await;
    assert_eq!(ran["status"], "triggered", "{ran}");
    let off = butler.ok("calendar_toggle_butler_event", json!({"event_id": id, "enabled": false})).await;
    assert_eq!(off["enabled"], false, "{off}");
    let moved = butler
        .ok("calendar_update_butler_event", json!({"event_id": id, "title": "All plants", "enabled": true}))
        .await;
    assert_eq!((&moved["title"], &moved["enabled"]), (&json!("All plants"), &json!(true)), "{moved}");
    assert_eq!(butler.ok("calendar_delete_butler_event", json!({"event_id": id})).await["status"], "deleted");
    let listed = list(&butler, "2099-03-01", "2099-04-01").await;
    assert_eq!(listed["butler_events"], json!([]), "{listed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_butlers_own_event_loses_one_time_or_all_from_a_time_on() {
    let household = with_calendar(Household::new(), "");
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    let daily = json!({"title": "Plants", "prompt": "water the plants", "cron": "0 9 * * *", "timezone": "UTC",
                       "start_at": "2099-03-10T09:00:00Z", "end_at": "2099-03-10T09:30:00Z", "until_at": "2099-03-16T00:00:00Z"});
    let id = butler.ok("calendar_create_butler_event", daily).await["event_id"].clone();
    let delete = async |scope: &str, at: &str| {
        let args = json!({"event_id": id, "scope": scope, "instance_start_at": at});
        butler.ok("calendar_delete_butler_event", args).await
    };
    let days = async || {
        let listed = list(&butler, "2099-03-01", "2099-04-01").await;
        let all = listed["butler_events"].as_array().cloned().unwrap_or_default();
        let day = |one: &Value| {
            one["start_at"].as_str().expect("a time").parse::<jiff::Timestamp>().expect("a time").to_string()
        };
        all.iter().map(|one| day(one)[8..10].to_owned()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(days().await, "10 11 12 13 14 15");
    let gone = delete("this", "2099-03-12T09:00:00Z").await;
    assert_eq!((&gone["status"], &gone["series_left"]), (&json!("deleted"), &json!(true)), "{gone}");
    // The very next one as well: it comes later then.
    assert_eq!(delete("this", "2099-03-10T09:00:00+00:00").await["status"], "deleted");
    assert_eq!(days().await, "11 13 14 15");
    let next = butler.ok("schedule_list", json!({})).await;
    let next = next.as_array().and_then(|all| all.iter().find(|one| one["id"] == id)).expect("the schedule").clone();
    assert!(next["next_run_at"].as_str().is_some_and(|at| at.starts_with("2099-03-11T09:00")), "{next}");
    for never in ["2099-03-12T09:00:00Z", "2099-03-13T10:00:00Z", "2020-03-13T09:00:00Z"] {
        assert_eq!(delete("this", never).await["code"], "not_found", "{never}");
    }
    // What comes next by itself stays where it was moved to.
    let moved = json!({"id": id, "at": "2098-03-11T10:00:00Z"});
    assert_eq!(butler.ok("schedule_update", moved).await["status"], "updated");
    assert_eq!(delete("following", "2099-03-14T09:00:00Z").await["series_left"], true);
    assert_eq!(days().await, "11 13");
    let listed = list(&butler, "2099-03-01", "2099-04-01").await;
    let ends = listed["butler_events"][1]["end_at"].as_str().expect("its end");
    let end: jiff::Timestamp = ends.parse().expect("a time");
    assert_eq!(end.to_string(), "2099-03-13T09:30:00Z", "{listed}");
    let next = butler.ok("schedule_list", json!({})).await.to_string();
    assert!(next.contains("2098-03-11T10:00"), "{next}");
    // What is changed afterwards stays without them.
    butler.ok("calendar_update_butler_event", json!({"event_id": id, "title": "All plants"})).await;
    assert_eq!(days().await, "11 13");
    let back = json!({"id": id, "cron": "0 9 * * *"});
    assert_eq!(butler.ok("schedule_update", back).await["status"], "updated");
    assert_eq!(delete("this", "2099-03-11T09:00:00Z").await["series_left"], true);
    assert_eq!(delete("this", "2099-03-13T09:00:00Z").await["series_left"], false, "none was left");
    let schedules = butler.ok("schedule_list", json!({})).await;
    assert!(schedules.as_array().is_some_and(|all| all.iter().all(|one| one["id"] != id)), "{schedules}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_says_what_is_out_of_the_ordinary() {
    let household = with_calendar(Household::new(), "");
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    for event in [
        json!({"title": "Plain", "start_at": "2027-03-10T09:00"}),
        json!({"title": "Rich", "start_at": "2027-03-11", "location": "High Street 1", "status": "tentative",
               "recurrence_rule": "FREQ=DAILY;COUNT=1"}),
    ] {
        assert_eq!(butler.ok("calendar_create_event", event).await["status"], "created");
    }
    let listed = list(&butler, "2027-03-01", "2027-04-01").await;
    let said = |n: usize| {
        let event = listed["events"][n].as_object().expect("an event");
        event.keys().map(String::as_str).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(said(0), "calendar_id end_at event_id start_at title", "{listed}");
    let all = "all_day busy calendar_id end_at event_id instance_start_at location recurring start_at status title";
    assert_eq!(said(1), all, "{listed}");
    assert_eq!(listed["events"][1]["busy"], false, "{listed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strangers_text_stays_one_wherever_it_is_read() {
    let read = |tool: &str, args: Value| json!({"call": {"tool": tool, "arguments": args}});
    let window = json!({"start_at": "2027-03-01", "end_at": "2027-04-01"});
    let make = json!({"title": "Because of it", "start_at": "2027-03-20T09:00"});
    let model = model(json!([{"when": "look at march", "steps": [
        read("calendar_list_events", window), read("calendar_create_event", make), {"say": "done"}]}]))
    .await;
    let household = with_calendar(Household::with_model(&model), "");
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    butler.ok("calendar_create_event", json!({"title": "Pay me at once", "start_at": "2027-03-10T09:00"})).await;
    let db = household.owner().await;
    db.batch_execute(
        "UPDATE shared.calendar_events SET trust = 'stranger'; UPDATE shared.calendar_instances SET trust = 'stranger'",
    )
    .await
    .expect("labels");
    // The second half of a stranger's series is a stranger's, and so is what is kept of the call.
    let weekly = json!({"title": "Weekly offer", "start_at": "2028-01-03T09:00", "recurrence_rule": "FREQ=WEEKLY"});
    let series = butler.ok("calendar_create_event", weekly).await["event_id"].clone();
    let id: uuid::Uuid = series.as_str().expect("an id").parse().expect("an id");
    for table in
        ["calendar_events SET trust = 'stranger' WHERE id", "calendar_instances SET trust = 'stranger' WHERE event"]
    {
        db.execute(&format!("UPDATE shared.{table} = $1"), &[&id]).await.expect("labels");
    }
    let split = json!({"event_id": id, "recurrence_scope": "following", "instance_start_at": "2028-02-07T09:00",
                       "location": "Hall", "request_id": "split"});
    let made = butler.ok("calendar_update_event", split).await;
    assert_eq!(made["split_from"], json!(id), "{made}");
    let labels = "SELECT string_agg(DISTINCT trust, ' ') FROM (
        SELECT trust FROM shared.calendar_events UNION ALL SELECT trust FROM shared.calendar_instances
        UNION ALL SELECT trust FROM shared.calendar_actions WHERE key = 'split') rows";
    assert_eq!(db.query_one(labels, &[]).await.expect("labels").get::<_, String>(0), "stranger");
    let ran = butler.ok("trigger", json!({"prompt": "look at march"})).await;
    assert_eq!(ran["success"], true, "{ran}");
    let id: uuid::Uuid = ran["session_id"].as_str().expect("an id").parse().expect("an id");
    let row = db.query_one("SELECT trust FROM general.sessions WHERE id = $1", &[&id]).await.expect("the session");
    assert_eq!(row.get::<_, String>("trust"), "stranger");
    // What it wanted to make because of that text waits for a person.
    assert_eq!(starts(&list(&butler, "2027-03-01", "2027-04-01").await).len(), 1);
    let waits = db
        .query_one("SELECT count(*) FROM shared.pending_actions WHERE tool_name = 'calendar_create_event'", &[])
        .await;
    assert_eq!(waits.expect("a count").get::<_, i64>(0), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_call_after_a_kill_makes_nothing_twice() {
    let household = with_calendar(Household::new(), "");
    let mut daemon = household.start().await;
    let event = json!({"title": "Once", "start_at": "2027-03-10T09:00", "request_id": "once"});
    let first = daemon.mcp("general").ok("calendar_create_event", event.clone()).await;
    daemon.kill();
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    assert_eq!(butler.ok("calendar_create_event", event).await, first);
    assert_eq!(starts(&list(&butler, "2027-03-01", "2027-04-01").await).len(), 1);
}
