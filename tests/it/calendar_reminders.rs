//! The household rings for events of its own calendar.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::support::{Household, eventually, owners_zone};

async fn told(household: &Household) -> Vec<(String, i64)> {
    let sql = "SELECT message, count(*) FROM shared.outbox WHERE subject = 'Reminder' GROUP BY 1 ORDER BY 1";
    let rows = household.owner().await.query(sql, &[]).await.expect("the outbox");
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_owner_is_reminded_once_of_what_is_not_over() {
    let household = Household::new().with_module("general", "calendar", "\n[modules.calendar]\nprovider = \"local\"\n");
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    let at = |minutes: i64| (Timestamp::now() + SignedDuration::from_mins(minutes)).to_string();
    let add = |title: &str, minutes: i64, before: u32| {
        json!({"title": title, "start_at": at(minutes), "end_at": at(minutes + 30), "location": "High Street 1",
               "reminder_minutes": before, "conflict_policy": "allow_overlap"})
    };
    for (title, minutes, before) in [("Over", -60, 10), ("Later", 240, 60), ("Dentist", 20, 30)] {
        butler.ok("calendar_create_event", add(title, minutes, before)).await;
    }
    let first = eventually("the reminder", || async {
        let told = told(&household).await;
        if told.is_empty() { Err("nothing".to_owned()) } else { Ok(told) }
    })
    .await;
    assert!(
        first.len() == 1 && first[0].0.starts_with("Dentist: ") && first[0].0.ends_with(", High Street 1"),
        "{first:?}"
    );
    // Neither another round nor another start says it again.
    drop(daemon);
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    butler.ok("calendar_create_event", add("Bus", 5, 30)).await;
    eventually("the next one", || async {
        let told = told(&household).await;
        match told.iter().any(|(text, _)| text.starts_with("Bus: ")) {
            true => Ok(()),
            false => Err(format!("{told:?}")),
        }
    })
    .await;
    let all = told(&household).await;
    assert!(all.len() == 2 && all.iter().all(|(_, times)| *times == 1), "{all:?}");
}

/// The labels of what the owner was reminded of, once each of these titles was told of.
async fn labels(household: &Household, titles: &[&str]) -> Vec<String> {
    let db = household.owner().await;
    eventually("the reminders", || async {
        let sql = "SELECT split_part(message, ':', 1) || ' ' || trust FROM shared.outbox WHERE subject = 'Reminder' ORDER BY 1";
        let rows = db.query(sql, &[]).await.map_err(|e| e.to_string())?;
        let told: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        let all = titles.iter().all(|title| told.iter().any(|one| one.starts_with(title)));
        if all { Ok(told) } else { Err(format!("{told:?}")) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reminder_of_a_strangers_event_is_a_strangers_word() {
    let household = Household::new().with_module("general", "calendar", "\n[modules.calendar]\nprovider = \"local\"\n");
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    let at = |minutes: i64| (Timestamp::now() + SignedDuration::from_mins(minutes)).to_string();
    let add = |title: &str, minutes: i64| {
        json!({"title": title, "start_at": at(minutes), "reminder_minutes": 10,
               "conflict_policy": "allow_overlap"})
    };
    let theirs = butler.ok("calendar_create_event", add("Win a car", 600)).await["event_id"].clone();
    // As if a stranger had put it there, shortly before it begins.
    let db = household.owner().await;
    let lower = "UPDATE shared.calendar_events SET trust = 'stranger' WHERE id::text = $1";
    assert_eq!(db.execute(lower, &[&theirs.as_str()]).await.expect("the event"), 1);
    let due =
        "UPDATE shared.calendar_instances SET trust = 'stranger', starts_at = clock_timestamp() + interval '5 minutes',
               ends_at = clock_timestamp() + interval '35 minutes', remind_at = clock_timestamp() - interval '5 minutes'
               WHERE event::text = $1";
    assert_eq!(db.execute(due, &[&theirs.as_str()]).await.expect("its time"), 1);
    butler.ok("calendar_create_event", add("Dentist", 8)).await;
    let told = labels(&household, &["Dentist", "Win a car"]).await;
    assert!(told.len() == 2 && told[0] != "Dentist stranger" && told[1] == "Win a car stranger", "{told:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reminder_of_a_whole_day_names_the_day() {
    let household = Household::new().with_module("general", "calendar", "\n[modules.calendar]\nprovider = \"local\"\n");
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    // Where the household lives it is eleven, or a little later.
    let home = jiff::tz::TimeZone::get(owners_zone()).expect("the owner's zone");
    let today = Timestamp::now().to_zoned(home).date();
    let tomorrow = today.tomorrow().expect("a day");
    // A day begins at its midnight here, and until it ends it is reminded of.
    for (title, day, before) in [("Fair", today, 10), ("Bins", tomorrow, 14 * 60), ("Later", tomorrow, 60)] {
        let event = json!({"title": title, "start_at": day.to_string(), "reminder_minutes": before,
                           "conflict_policy": "allow_overlap"});
        assert_eq!(butler.ok("calendar_create_event", event).await["status"], "created", "{title}");
    }
    labels(&household, &["Bins", "Fair"]).await;
    let all = [(format!("Bins: {tomorrow}"), 1_i64), (format!("Fair: {today}"), 1)];
    assert_eq!(told(&household).await, all);
}
