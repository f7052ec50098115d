//! Whom a change of an event is told: nobody, unless it says so, and then as far as a provider does as it is told.

use serde_json::{Value, json};

use crate::calendar_caldav::{id_of, synced};
use crate::google::calendar::ADA;
use crate::support::Household;
use crate::support::google::Account;
use crate::support::radicale::Radicale;

/// Whom Google was to tell of the last call of a method.
fn told(account: &Account, method: &str) -> String {
    let calls = account.google.calls(&format!("calendar.events.{method}"));
    calls.last().and_then(|call| call.parameter("sendUpdates")).unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn google_tells_people_of_those_changes_alone_that_say_so() {
    let Some(account) = Account::start("calendar_tells::google").await else { return };
    let me = json!({"email": ADA, "self": true, "organizer": true, "responseStatus": "accepted"});
    account.put(
        "meet",
        "Meeting",
        json!({"attendees": [me, {"email": "cleo@example.org", "responseStatus": "accepted"}]}),
    );
    account.put("walk1", "Walk", json!({"recurrence": ["RRULE:FREQ=DAILY;COUNT=3"]}));
    let household = Household::few().with_google("switchboard", &account, "[\"Ada\"]", "private = [\"Ada\"]\n");
    let daemon = household.start_with_access().await;
    let butler = daemon.mcp("switchboard");
    synced(&butler).await;
    let id = id_of(&butler, "Meeting").await;
    // The stand-in takes no call that tells anybody until it may.
    butler.ok("calendar_update_event", json!({"event_id": id, "location": "Hall"})).await;
    synced(&butler).await;
    account.there.may_tell();
    let bea = json!({"event_id": id, "attendees": ["bea@example.org"], "send_updates": "all"});
    let added = butler.ok("calendar_add_attendees", bea).await;
    assert!(added["note"].as_str().is_some_and(|note| note.contains("Google mails")), "{added}");
    synced(&butler).await;
    assert_eq!(told(&account, "patch"), "all");
    // It was of that one change.
    butler.ok("calendar_update_event", json!({"event_id": id, "location": "Garden"})).await;
    synced(&butler).await;
    assert_eq!(told(&account, "patch"), "none");
    // What nobody is told of does not go with what they are told of.
    account.google.hold(|call| call.id == "calendar.events.list");
    let noon = json!({"event_id": id, "title": "Meeting at noon", "send_updates": "externalOnly"});
    assert_eq!(butler.ok("calendar_update_event", noon).await["status"], "updated");
    let quiet = json!({"event_id": id, "description": "A surprise for Bea"});
    let refused = butler.ok("calendar_update_event", quiet.clone()).await;
    assert_eq!(refused["code"], "changed", "{refused}");
    account.google.release();
    synced(&butler).await;
    assert_eq!(told(&account, "patch"), "externalOnly");
    assert_eq!(butler.ok("calendar_update_event", quiet).await["status"], "updated");
    synced(&butler).await;
    assert_eq!(told(&account, "patch"), "none");
    // An instance of a series, a new event, and what is deleted.
    let walk = json!({"event_id": id_of(&butler, "Walk").await, "recurrence_scope": "this",
                      "instance_start_at": "2027-03-11T09:00", "send_updates": "all"});
    butler.ok("calendar_delete_event", walk).await;
    synced(&butler).await;
    assert_eq!(told(&account, "delete"), "all");
    let tea = json!({"title": "Tea", "start_at": "2027-03-20T16:00", "attendees": ["bea@example.org"],
                     "send_updates": "all"});
    butler.ok("calendar_create_event", tea).await;
    synced(&butler).await;
    assert_eq!(told(&account, "insert"), "all");
    butler.ok("calendar_delete_event", json!({"event_id": id, "send_updates": "none"})).await;
    synced(&butler).await;
    assert_eq!(told(&account, "delete"), "none");
    let waits = "SELECT count(*) FROM shared.calendar_items WHERE tell IS NOT NULL";
    assert_eq!(household.owner().await.query_one(waits, &[]).await.expect("a count").get::<_, i64>(0), 0);
    assert_eq!(account.google.wrong(), Vec::<String>::new());
}

/// Adds somebody to a new event of the day, and says what is said of it.
async fn noted(butler: &crate::support::Mcp, whom: &str) -> Value {
    let lunch = json!({"title": "Lunch", "start_at": "2027-03-10T12:00", "conflict_policy": "allow_overlap"});
    let id = butler.ok("calendar_create_event", lunch).await["event_id"].clone();
    let bea = json!({"event_id": id, "attendees": ["bea@example.org"], "send_updates": whom});
    let added = butler.ok("calendar_add_attendees", bea).await;
    assert_eq!(added["status"], "updated", "{added}");
    added["note"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_calendar_can_promise_is_said() {
    let local = "\n[modules.calendar]\nprovider = \"local\"\n";
    let household = Household::new().with_module("general", "calendar", local);
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    assert!(noted(&butler, "all").await.as_str().is_some_and(|note| note.contains("Nobody was told")));
    assert_eq!(noted(&butler, "none").await, Value::Null);
    drop((butler, daemon));
    let Some(server) = Radicale::start("calendar_tells::caldav").await else { return };
    let household = Household::new().with_caldav("general", &server, "private = [\"cal\"]\n");
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    synced(&butler).await;
    // The second change would be refused, were the first one's sync to write between its look and its change.
    server.server.stands_still(true);
    assert!(noted(&butler, "none").await.as_str().is_some_and(|note| note.contains("promises nothing")));
    server.server.stands_still(false);
}
