//! The household rings for events of its own calendar.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::support::{Household, eventually};

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
