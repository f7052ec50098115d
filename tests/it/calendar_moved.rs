//! A calendar that is elsewhere at its server from one day to the next: nobody's events are doubled or lost, and its
//! owner hears what to do.

use serde_json::json;

use crate::calendar_caldav::{event, id_of, synced, titles};
use crate::support::front::Front;
use crate::support::radicale::{CALENDAR, Radicale};
use crate::support::{Household, Mcp, eventually};

const NEW: &str = "/ada/moved/";

/// A household that follows a calendar by this name, behind a front that can move it.
async fn behind(server: &Radicale, name: &str) -> (Household, Front) {
    let front = Front::start(&server.server.url).await;
    server.put("dentist", "Dentist", "").await;
    server.put("lunch", "Lunch", "").await;
    let toml = "switchboard/butler.toml";
    let household = Household::few().with_caldav("switchboard", server, "private = [\"cal\"]\n");
    let named = format!("[\"{name}\"]");
    (household.replace(toml, &server.server.url, &front.url).replace(toml, "[\"cal\"]", &named), front)
}

/// Both sides go on after it moved: an event each that the other side does not know of yet.
async fn both_go_on(server: &Radicale, butler: &Mcp) {
    server.edit("SUMMARY:Dentist", "SUMMARY:Dentist at ten").await;
    butler.ok("calendar_create_event", event("Tea", "2027-03-11T16:00")).await;
    let lunch = json!({"event_id": id_of(butler, "Lunch").await, "title": "Late lunch"});
    butler.ok("calendar_update_event", lunch).await;
}

/// Each event once, on both sides, and nothing in doubt.
async fn all_is_there(household: &Household, server: &Radicale, butler: &Mcp) {
    let all = ["Dentist at ten", "Late lunch", "Tea"];
    assert_eq!(titles(butler).await, all);
    assert_eq!(server.titles().await, all);
    let odd = "SELECT (SELECT count(*) FROM shared.calendar_items WHERE pending OR sent IS NOT NULL)
                    + (SELECT count(*) FROM shared.calendar_conflicts)";
    assert_eq!(household.owner().await.query_one(odd, &[]).await.expect("a count").get::<_, i64>(0), 0);
}

async fn notices(household: &Household) -> i64 {
    let sql = "SELECT count(*) FROM shared.outbox WHERE kind = 'notice' AND message LIKE '%has moved to%'";
    household.owner().await.query_one(sql, &[]).await.expect("a count").get(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_calendar_that_is_named_by_its_old_place_waits_for_its_owner() {
    let Some(server) = Radicale::start("calendar_moved::named_by_its_place").await else { return };
    let (household, front) = behind(&server, "cal").await;
    let daemon = household.start().await;
    let butler = daemon.mcp("switchboard");
    synced(&butler).await;
    front.moves(CALENDAR, NEW);
    both_go_on(&server, &butler).await;
    let state = eventually("it stops", || async {
        let state = butler.ok("calendar_force_sync", json!({})).await["calendars"][0].clone();
        if state["state"] == "failed" { Ok(state) } else { Err(state.to_string()) }
    })
    .await;
    let why = "/ada/cal/ at 127.0.0.1 has moved to /ada/moved/; name it by that path in `calendars`";
    assert!(state["error"].as_str().is_some_and(|said| said.contains(why)), "{state}");
    assert_eq!(state["changes_waiting"], 2, "{state}");
    let seen = daemon.butler("switchboard").await["modules"]["calendar"].to_string();
    eventually("she is told once", || async {
        match notices(&household).await {
            1 => Ok(()),
            n => Err(format!("{n} notices; {seen}")),
        }
    })
    .await;
    // Neither side loses anything by it, and neither has more than it had.
    assert_eq!(titles(&butler).await, ["Dentist", "Late lunch", "Tea"]);
    assert_eq!(server.titles().await, ["Dentist at ten", "Lunch"]);
    // By its new path she sees what is there; what waited is kept.
    drop(daemon);
    let by_path = household.replace("switchboard/butler.toml", "[\"cal\"]", "[\"/ada/moved/\"]");
    {
        let daemon = by_path.start().await;
        let butler = daemon.mcp("switchboard");
        synced(&butler).await;
        assert_eq!(titles(&butler).await, ["Dentist at ten", "Lunch"]);
        let waits = "SELECT count(*) FROM shared.calendar_items WHERE pending";
        let client = by_path.owner().await;
        assert_eq!(client.query_one(waits, &[]).await.expect("a count").get::<_, i64>(0), 2);
    }
    // The server takes the move back, and she her setting: it goes on where it stopped.
    front.moves_back();
    let household = by_path.replace("switchboard/butler.toml", "[\"/ada/moved/\"]", "[\"cal\"]");
    let daemon = household.start().await;
    let butler = daemon.mcp("switchboard");
    synced(&butler).await;
    all_is_there(&household, &server, &butler).await;
}
