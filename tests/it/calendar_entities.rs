//! Which of the household's people, organisations and things an event is about.

use serde_json::{Value, json};

use crate::calendar::with_calendar;
use crate::support::{Household, Mcp};

async fn entity(butler: &Mcp, name: &str) -> Value {
    let made = json!({"canonical_name": name, "entity_type": "person"});
    butler.ok("memory_entity_create", made).await["entity_id"].clone()
}

/// What an event is said to be about; null: nothing is said of that.
async fn about(butler: &Mcp, event: &Value) -> Value {
    butler.ok("calendar_get_event", json!({"event_id": event})).await["entity_ids"].clone()
}

async fn links(household: &Household) -> i64 {
    let sql = "SELECT count(*) FROM shared.calendar_entities";
    household.owner().await.query_one(sql, &[]).await.expect("a count").get(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_is_about_entities_of_the_household() {
    let household = with_calendar(Household::new(), "");
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    let (ada, addy) = (entity(&butler, "Ada Lovelace").await, entity(&butler, "Addy").await);
    let tea = json!({"title": "Tea", "start_at": "2027-03-10T09:00", "entity_ids": [addy], "request_id": "tea"});
    let made = butler.ok("calendar_create_event", tea.clone()).await;
    assert_eq!(butler.ok("calendar_create_event", tea).await, made);
    let tea = made["event_id"].clone();
    butler.ok("calendar_create_event", json!({"title": "Walk", "start_at": "2027-03-11T09:00"})).await;
    let listed = butler.ok("calendar_list_events", json!({"start_at": "2027-03-10", "end_at": "2027-03-12"})).await;
    let (first, second) = (&listed["events"][0], &listed["events"][1]);
    assert_eq!((&first["entity_ids"], second.get("entity_ids")), (&json!([addy]), None), "{listed}");
    // Of one that is merged the one that it is now, until that is taken back.
    let both = json!({"source_entity_id": addy, "target_entity_id": ada});
    let merged = butler.ok("memory_entity_merge", both).await;
    assert_eq!(about(&butler, &tea).await, json!([ada]));
    let back = butler.ok("memory_undo", json!({"event": merged["event"]})).await;
    assert_eq!((&back["undone"], about(&butler, &tea).await), (&json!(true), json!([addy])), "{back}");
    // What says nothing of them leaves them, and what names others takes their place.
    butler.ok("calendar_update_event", json!({"event_id": tea, "title": "Green tea"})).await;
    assert_eq!(about(&butler, &tea).await, json!([addy]));
    let other = butler.ok("calendar_update_event", json!({"event_id": tea, "entity_ids": [ada]})).await;
    assert_eq!((&other["status"], about(&butler, &tea).await), (&json!("updated"), json!([ada])), "{other}");
    butler.ok("calendar_update_event", json!({"event_id": tea, "clear_entity_ids": true})).await;
    assert_eq!((about(&butler, &tea).await, links(&household).await), (Value::Null, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_series_keeps_what_it_is_about_when_it_is_split() {
    let household = with_calendar(Household::new(), "");
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    let ada = entity(&butler, "Ada Lovelace").await;
    let run = json!({"title": "Run", "start_at": "2027-03-10T09:00", "recurrence_rule": "FREQ=DAILY;COUNT=5",
                     "entity_ids": [ada]});
    let run = butler.ok("calendar_create_event", run).await["event_id"].clone();
    let at = |scope: &str| json!({"event_id": run, "recurrence_scope": scope, "instance_start_at": "2027-03-12T09:00"});
    let mut one = at("this");
    one["entity_ids"] = json!([]);
    let refused = butler.ok("calendar_update_event", one).await;
    assert_eq!(refused["code"], "invalid_arguments", "{refused}");
    let mut rest = at("following");
    rest["title"] = json!("Long run");
    let rest = butler.ok("calendar_update_event", rest).await["event_id"].clone();
    assert_eq!((about(&butler, &run).await, about(&butler, &rest).await), (json!([ada]), json!([ada])));
    assert_eq!(links(&household).await, 2);
    butler.ok("calendar_delete_event", json!({"event_id": run})).await;
    assert_eq!((about(&butler, &rest).await, links(&household).await), (json!([ada]), 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_names_an_entity_that_another_tenant_has() {
    let household = with_calendar(Household::new(), "");
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    let ada = entity(&butler, "Ada Lovelace").await;
    let (code, out, err) = tokio::task::block_in_place(|| {
        household.cli(&["token", "new", "--tenant", "neighbour", "--scope", "tools", "--json"])
    });
    assert_eq!(code, 0, "{err}");
    let token: Value = serde_json::from_str(&out).expect("JSON");
    let neighbour = daemon.mcp("general").with_token(token["token"].as_str());
    let tea = |id: &Value| json!({"title": "Tea", "start_at": "2027-03-10T09:00", "entity_ids": [id]});
    let nobody = json!("00000000-0000-7000-8000-000000000000");
    for (who, id) in [(&neighbour, &ada), (&butler, &nobody)] {
        let refused = who.ok("calendar_create_event", tea(id)).await;
        assert_eq!(refused["code"], "not_found", "{refused}");
        let listed = who.ok("calendar_list_events", json!({"start_at": "2027-03-10", "end_at": "2027-03-11"})).await;
        assert_eq!(listed["events"], json!([]), "nothing of it was done: {listed}");
    }
    assert_eq!(butler.ok("calendar_create_event", tea(&ada)).await["status"], "created");
}
