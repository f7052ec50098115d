//! The dashboard's week: what is in the calendars stands beside what schedules do.

use serde_json::json;

use crate::api_v1::read;
use crate::support::pages::Page;
use crate::support::{Household, model};

const SECTION: &str = "\n[modules.calendar]\nprovider = \"local\"\ntime_zone = \"Europe/Berlin\"\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_week_shows_what_is_in_the_calendars() {
    let household = Household::with_model(&model(json!([])).await).env("BUTLERD_OWNER__TIME_ZONE", "Europe/Berlin");
    let household = household.with_module("general", "calendar", SECTION).with_module("health", "calendar", SECTION);
    let daemon = household.start().await;
    let (general, health) = (daemon.mcp("general"), daemon.mcp("health"));
    let page = Page::of(&daemon).await;
    let week = |day: &str| format!("/schedules?week={day}");
    assert!(page.get(&week("2027-03-10")).await.contains("Nothing is in the calendars this week."));
    for event in [
        json!({"title": "Dentist <b>now</b>", "start_at": "2027-03-10T09:00", "location": "High Street 1"}),
        json!({"title": "Holiday", "start_at": "2027-03-12", "end_at": "2027-03-15"}),
        json!({"title": "Choir", "start_at": "2027-03-01T19:00", "recurrence_rule": "FREQ=WEEKLY"}),
        json!({"title": "Another week's", "start_at": "2027-03-20T09:00"}),
    ] {
        let made = general.ok("calendar_create_event", event).await;
        assert_eq!(made["status"], "created", "{made}");
    }
    // Two butlers see this calendar, and it is shown once.
    let seen = health.ok("calendar_list_events", json!({"start_at": "2027-03-08", "end_at": "2027-03-15"})).await;
    assert_eq!(seen["events"].as_array().map(Vec::len), Some(3), "{seen}");
    let shown = page.get(&week("2027-03-10")).await;
    let (_, list) = shown.split_once("In the calendars").unwrap_or_else(|| panic!("no events: {shown}"));
    for (text, times) in [
        ("Dentist &lt;b&gt;now&lt;/b&gt;", 1),
        ("Wed 10 Mar, 09:00–10:00", 1),
        ("High Street 1", 1),
        ("Fri 12 Mar to Sun 14 Mar", 1),
        ("Mon 8 Mar, 19:00–20:00", 1),
        ("Another week", 0),
        ("badge warn\">stranger", 0),
    ] {
        assert_eq!(list.matches(text).count(), times, "{text}: {list}");
    }
    assert!(shown.contains("href=\"#event-0\"") && shown.contains("id=\"event-0\""), "{shown}");
    // Years ahead, for which nothing was laid out yet.
    assert!(page.get(&week("2031-06-02")).await.contains("Choir"));
    let db = household.owner().await;
    db.batch_execute("UPDATE shared.calendar_instances SET trust = 'stranger' WHERE shown ->> 'title' = 'Choir'")
        .await
        .expect("a label");
    assert!(page.get(&week("2027-03-10")).await.contains("badge warn\">stranger"));
    let span = "from=2027-03-08T00:00:00Z&to=2027-03-15T00:00:00Z";
    let events = read(&daemon, &format!("/calendar/events?{span}")).await;
    let titles = events["data"].as_array().expect("events").iter().map(|event| event["title"].as_str());
    let titles: Vec<_> = titles.collect();
    assert_eq!(titles, [Some("Choir"), Some("Dentist <b>now</b>"), Some("Holiday")], "{events}");
    assert_eq!(events["data"][0]["trust"], "stranger", "{events}");
}
