//! What nobody can know of a calendar is said, and never taken for free time.

use serde_json::{Value, json};

use crate::calendar_caldav::synced;
use crate::calendar_invitations::INVITED;
use crate::support::radicale::{PASSWORD, Radicale};
use crate::support::{Household, eventually, model};

/// A section without addresses of the owner.
fn section(url: &str) -> String {
    format!(
        "\n[modules.calendar]\nprovider = \"caldav\"\nurl = \"{url}\"\nuser = \"ada\"\ncalendars = [\"cal\"]\n\
         private = [\"cal\"]\ntime_zone = \"Europe/Berlin\"\n"
    )
}

fn printed(household: &Household, words: &[&str]) -> (i32, String) {
    let (code, out, err) = tokio::task::block_in_place(|| household.cli(words));
    (code, format!("{out}{err}"))
}

const DAY: [&str; 2] = ["2027-03-10", "2027-03-11"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_that_nobody_can_lay_out_are_named_wherever_times_are() {
    let Some(server) = Radicale::start("calendar_gaps::unreadable").await else { return };
    server.put("lunch", "Lunch", "").await;
    server.put("odd", "Odd", "RRULE:FREQ=SECONDLY\r\n").await;
    let alarm =
        "BEGIN:VALARM\r\nX-BUTLERD:1\r\nACTION:DISPLAY\r\nDESCRIPTION:x\r\nTRIGGER:-PT4000000000M\r\nEND:VALARM\r\n";
    server.put("dinner", "Dinner", alarm).await;
    let household = Household::new().with_caldav("general", &server, "private = [\"cal\"]\n");
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    let state = butler.ok("calendar_force_sync", json!({})).await["calendars"][0].clone();
    assert_eq!(state["unreadable"], 1, "{state}");
    let names_it = |answer: &Value| {
        let one = &answer["unreadable"][0];
        assert_eq!((&answer["unreadable_count"], &one["calendar_id"]), (&json!(1), &json!("cal")), "{answer}");
        assert!(one["why"].as_str().is_some_and(|why| why.contains("SECONDLY")), "{answer}");
    };
    let listed = butler.ok("calendar_list_events", json!({"start_at": DAY[0], "end_at": DAY[1]})).await;
    assert_eq!(listed["events"].as_array().map(Vec::len), Some(2), "the others are shown: {listed}");
    names_it(&listed);
    let search = json!({"duration_minutes": 60, "search_start": DAY[0], "search_end": DAY[1]});
    names_it(&butler.ok("calendar_find_free_slots", search).await);
    for words in [&["calendar", "list", "--from", DAY[0], "--to", DAY[1]][..], &["calendar", "free", "60"]] {
        let (code, said) = printed(&household, &[words, &["--butler", "general"]].concat());
        let left_out = said.contains("An event of cal is left out, because nobody can say when it is");
        assert!(code == 0 && left_out, "{words:?}: {code} {said}");
    }
    // Once it can be read it is in the list.
    server.edit("RRULE:FREQ=SECONDLY\r\n", "").await;
    let state = butler.ok("calendar_force_sync", json!({})).await["calendars"][0].clone();
    assert_eq!(state["unreadable"], 0, "{state}");
    let listed = butler.ok("calendar_list_events", json!({"start_at": DAY[0], "end_at": DAY[1]})).await;
    assert_eq!((listed["events"].as_array().map(Vec::len), &listed["unreadable"]), (Some(3), &Value::Null), "{listed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_calendar_that_was_never_read_is_neither_empty_nor_free() {
    let household = Household::new()
        .with_module("general", "calendar", &section("http://127.0.0.1:9/"))
        .env("BUTLER_CALENDAR_PASSWORD", PASSWORD);
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    eventually("the sync has failed", || async {
        let state = butler.ok("calendar_sync_status", json!({})).await["calendars"][0].clone();
        if state["state"] == "failed" { Ok(()) } else { Err(state.to_string()) }
    })
    .await;
    for tool in ["calendar_list_events", "calendar_list_calendars"] {
        let answer = butler.ok(tool, json!({})).await;
        let one = &answer["not_current"][0];
        assert_eq!((&one["calendar_id"], &one["synced_at"]), (&json!("cal"), &Value::Null), "{tool}: {answer}");
        assert!(one["error"].is_string(), "{tool}: {answer}");
    }
    let free = butler.ok("calendar_find_free_slots", json!({"duration_minutes": 60})).await;
    assert_eq!(free["code"], "not_synced", "{free}");
    let (code, said) = printed(&household, &["calendar", "list", "--butler", "general"]);
    assert!(code == 0 && said.contains("The calendar cal was never synced: "), "{code} {said}");
}

/// Whether a sync is at work and what the last one came to are told of the same moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sync_that_ends_while_its_state_is_read_is_not_called_failed() {
    let household = Household::new()
        .with_module("general", "calendar", &section("http://127.0.0.1:9/"))
        .env("BUTLER_CALENDAR_PASSWORD", PASSWORD);
    let daemon = household.start().await;
    let (butler, db) = (daemon.mcp("general"), household.owner().await);
    let begun = "UPDATE shared.calendar_cursors SET claim = gen_random_uuid(), error = 'it was away',
                     lease_until = clock_timestamp() + interval '1 hour' WHERE claim IS NULL";
    eventually("a sync is at work after one that failed", || async {
        let calendars = db.execute(begun, &[]).await.map_err(|e| e.to_string())?;
        if calendars == 1 { Ok(()) } else { Err(format!("{calendars} calendars")) }
    })
    .await;
    db.batch_execute("BEGIN; LOCK TABLE shared.calendar_conflicts IN ACCESS EXCLUSIVE MODE").await.expect("the lock");
    let ended = async {
        let waiting = "SELECT count(*) FROM pg_locks
                       WHERE relation = 'shared.calendar_conflicts'::regclass AND NOT granted";
        eventually("conflicts are counted, which comes last", || async {
            let waiting: i64 = db.query_one(waiting, &[]).await.map_err(|e| e.to_string())?.get(0);
            if waiting > 0 { Ok(()) } else { Err("nobody waits".to_owned()) }
        })
        .await;
        let ended = "UPDATE shared.calendar_cursors SET claim = NULL, lease_until = NULL, error = NULL,
                         synced_at = clock_timestamp(), due_at = clock_timestamp() + interval '1 hour';
                     COMMIT";
        db.batch_execute(ended).await.expect("its end");
    };
    let (answer, ()) = tokio::join!(butler.ok("calendar_sync_status", json!({})), ended);
    // The other one where somebody else had counted.
    let state = answer["calendars"][0]["state"].as_str();
    assert!(matches!(state, Some("syncing" | "synced")), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_owner_is_known_by_the_address_that_the_house_knows() {
    let Some(server) = Radicale::start("calendar_gaps::addresses").await else { return };
    server.put("party", "Party", INVITED).await;
    let household = Household::new()
        .with_module("general", "calendar", &section(&server.server.url))
        .env("BUTLER_CALENDAR_PASSWORD", PASSWORD)
        .env("BUTLERD_OWNER__IDENTITIES__EMAIL", "ada@example.org");
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    synced(&butler).await;
    let listed = butler.ok("calendar_list_events", json!({"start_at": DAY[0], "end_at": DAY[1]})).await;
    let party = &listed["events"][0];
    assert_eq!((&party["title"], &party["your_response"]), (&json!("Party"), &json!("needs-action")), "{listed}");
}

/// Why an event can't be read quotes it, so whoever is told why has read what its writer wrote.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_stranger_made_unreadable_is_a_strangers_word() {
    let Some(server) = Radicale::start("calendar_gaps::trust").await else { return };
    server.put("odd", "Odd", &format!("RRULE:FREQ=SECONDLY\r\n{INVITED}")).await;
    let days = json!({"start_at": DAY[0], "end_at": DAY[1]});
    let call = json!({"call": {"tool": "calendar_list_events", "arguments": days}});
    let model = model(json!([{"when": "look at the day", "steps": [call, {"say": "It says: {{result.0}}"}]}])).await;
    let household = Household::with_model(&model).with_caldav("general", &server, "private = [\"cal\"]\n");
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    synced(&butler).await;
    let end = butler.ok("trigger", json!({"prompt": "look at the day"})).await;
    assert!(end["success"] == true && end.to_string().contains("SECONDLY"), "{end}");
    let row = household.owner().await.query_one("SELECT trust FROM general.sessions", &[]).await.expect("a session");
    assert_eq!(row.get::<_, String>(0), "stranger");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn why_a_calendar_does_not_follow_is_a_strangers_word() {
    let Some(server) = Radicale::start("calendar_gaps::error").await else { return };
    // Its name is in its href, and it is too large to be read.
    server.put("obey-eve", "Huge", &format!("DESCRIPTION:{}\r\n", "x".repeat(1 << 20))).await;
    let call = |tool: &str, args: Value| json!({"call": {"tool": tool, "arguments": args}});
    let days = json!({"start_at": DAY[0], "end_at": DAY[1]});
    let model = model(json!([
        {"when": "look at the day", "steps": [call("calendar_list_events", days), {"say": "It says: {{result.0}}"}]},
        {"when": "is all well", "steps": [call("calendar_sync_status", json!({})), {"say": "It says: {{result.0}}"}]},
    ]))
    .await;
    let household = Household::with_model(&model).with_caldav("general", &server, "private = [\"cal\"]\n");
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    eventually("the sync says what it can't read", || async {
        // All is listed: a sync of what changed does not look at it again.
        let state = butler.ok("calendar_force_sync", json!({"full": true})).await["calendars"][0].clone();
        if state["error"].as_str().is_some_and(|why| why.contains("obey-eve")) {
            Ok(())
        } else {
            Err(state.to_string())
        }
    })
    .await;
    let db = household.owner().await;
    for (prompt, named, believed) in [("look at the day", false, "owner"), ("is all well", true, "stranger")] {
        let ran = butler.ok("trigger", json!({"prompt": prompt})).await;
        let session = ran["session_id"].as_str().unwrap_or_else(|| panic!("{ran}"));
        let row = db.query_one("SELECT trust FROM general.sessions WHERE id::text = $1", &[&session]).await;
        assert_eq!(row.expect("a session").get::<_, String>(0), believed, "{ran}");
        assert_eq!(ran.to_string().contains("obey-eve"), named, "{ran}");
        assert!(ran.to_string().contains("failed"), "{ran}");
    }
    // It is written behind the row that says that the sync failed.
    let notice = "SELECT DISTINCT trust FROM shared.outbox WHERE kind = 'notice' AND message LIKE '%obey-eve%'";
    let trusts = eventually("the owner is told", || async {
        let rows = db.query(notice, &[]).await.map_err(|e| e.to_string())?;
        if rows.is_empty() { Err("no notice".to_owned()) } else { Ok(rows) }
    })
    .await;
    assert_eq!(trusts.iter().map(|row| row.get(0)).collect::<Vec<String>>(), ["stranger"]);
}
