//! Whole days are the same days for whoever reads them, in whatever zone.

use serde_json::{Value, json};

use crate::support::{Household, Mcp};

/// What a butler has on the days from the ninth to the twelfth of a March, each with its titles; and on which of them it
/// finds an hour free.
async fn seen(butler: &Mcp) -> (Vec<Vec<String>>, Vec<bool>) {
    let (mut titles, mut free) = (Vec::new(), Vec::new());
    for day in 9..=12 {
        let asked =
            json!({"start_at": format!("2027-03-{day:02}"), "end_at": format!("2027-03-{:02}", day + 1), "limit": 500});
        let listed = butler.ok("calendar_list_events", asked.clone()).await;
        let of = |event: &Value| event["title"].as_str().unwrap_or_default().to_owned();
        titles.push(listed["events"].as_array().unwrap_or_else(|| panic!("{listed}")).iter().map(of).collect());
        let [from, to] = ["start_at", "end_at"].map(|key| asked[key].clone());
        let hour = json!({"search_start": from, "search_end": to, "duration_minutes": 60, "limit": 1});
        let found = butler.ok("calendar_find_free_slots", hour).await;
        free.push(found["slots"][0].is_object());
    }
    (titles, free)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_day_is_that_day_in_each_zone() {
    let in_zone = |zone: &str| format!("\n[modules.calendar]\nprovider = \"local\"\ntime_zone = \"{zone}\"\n");
    let household = Household::new().with_module("general", "calendar", &in_zone("America/Los_Angeles")).with_module(
        "health",
        "calendar",
        &in_zone("Pacific/Auckland"),
    );
    let daemon = household.start().await;
    let (west, east) = (daemon.mcp("general"), daemon.mcp("health"));
    let event = |title: &str, more: Value| {
        let mut event =
            json!({"title": title, "start_at": "2027-03-10", "busy": true, "conflict_policy": "allow_overlap"});
        event.as_object_mut().expect("an event").extend(more.as_object().expect("fields").clone());
        event
    };
    west.ok("calendar_create_event", event("Fair", json!({"reminder_minutes": 30}))).await;
    east.ok("calendar_create_event", event("Bins", json!({"recurrence_rule": "FREQ=DAILY;INTERVAL=2;COUNT=3"}))).await;
    let named = |titles: &[&str]| titles.iter().map(|title| (*title).to_owned()).collect::<Vec<_>>();
    let all =
        (vec![named(&[]), named(&["Bins", "Fair"]), named(&[]), named(&["Bins"])], vec![true, false, true, false]);
    let sorted = |(mut titles, free): (Vec<Vec<String>>, Vec<bool>)| {
        titles.iter_mut().for_each(|titles| titles.sort());
        (titles, free)
    };
    for butler in [&west, &east] {
        assert_eq!(sorted(seen(butler).await), all);
    }
    drop(daemon);
    // Where the household moved meanwhile.
    let household = household.with_module("general", "calendar", &in_zone("Asia/Tokyo"));
    let daemon = household.start().await;
    assert_eq!(sorted(seen(&daemon.mcp("general")).await), all);
}
