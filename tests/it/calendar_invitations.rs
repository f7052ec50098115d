//! Invitations: nobody answers one but the owner, and an answer changes nothing else of it.

use serde_json::{Value, json};
use testkit::model::ScriptedModel;

use crate::calendar_caldav::{event, id_of, synced};
use crate::support::radicale::Radicale;
use crate::support::tally::died;
use crate::support::{Daemon, Household, Mcp, eventually, model};

const PRIVATE: &str = "private = [\"cal\"]\n";
/// Eve invites Ada and Bea.
pub const INVITED: &str = "ORGANIZER;CN=Ada:mailto:eve@evil.example\r\nATTENDEE;CN=Bea;PARTSTAT=ACCEPTED:mailto:bea@example.org\r\n\
                           ATTENDEE;CN=\"Ada\";PARTSTAT=NEEDS-ACTION;RSVP=TRUE:mailto:ada@example.org\r\n";

/// A model that calls what it is told, with the id that the prompt names.
async fn obeys(words: &str, tool: &str, mut args: Value) -> ScriptedModel {
    args["event_id"] = json!("{{match.1}}");
    let steps = json!([{"call": {"tool": tool, "arguments": args}}, {"say": "I did what I could."}]);
    model(json!([
        {"when": "A call of `", "steps": [{"say": "I know."}]},
        {"when": format!("(?s).*{words} event ([a-f0-9-]+)"), "steps": steps},
    ]))
    .await
}

async fn told(butler: &Mcp, prompt: &str) {
    butler.ok("trigger", json!({"prompt": prompt})).await;
}

/// The calls of sessions by their state: `tool state cause`.
async fn calls(household: &Household) -> Vec<String> {
    let sql = "SELECT tool_name || ' ' || status || ' ' || cause FROM shared.pending_actions ORDER BY seq";
    household.owner().await.query(sql, &[]).await.expect("rows").iter().map(|row| row.get(0)).collect()
}

async fn last_call(household: &Household) -> String {
    let sql = "SELECT id::text FROM shared.pending_actions ORDER BY seq DESC LIMIT 1";
    household.owner().await.query_one(sql, &[]).await.expect("a call").get(0)
}

fn cli(household: &Household, words: &[&str]) -> String {
    let (code, out, err) = tokio::task::block_in_place(|| household.cli(words));
    assert_eq!(code, 0, "{words:?}: {out}{err}");
    out
}

/// What differs between two texts of an event.
fn changed(before: &str, after: &str) -> String {
    let plain = |text: &str| text.replace("\r\n ", "");
    let (before, after) = (plain(before), plain(after));
    after
        .lines()
        .filter(|line| !before.lines().any(|old| old == *line))
        .map(str::trim_end)
        .collect::<Vec<_>>()
        .join("\n")
}

async fn item(server: &Radicale, name: &str) -> String {
    server.send("GET", &format!("/ada/cal/{name}.ics"), String::new()).await
}

async fn answered(server: &Radicale, name: &str, answer: &str) -> String {
    eventually("the server has the answer", || async {
        let text = item(server, name).await;
        let plain = text.replace("\r\n ", "");
        let own = plain.lines().find(|line| line.contains("mailto:ada@example.org")).unwrap_or_default();
        if own.contains(&format!("PARTSTAT={answer}")) { Ok(text) } else { Err(text) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invitation_is_answered_when_the_owner_approves_it() {
    let Some(server) = Radicale::start("calendar_invitations::approved").await else { return };
    let args = json!({"response": "accepted", "comment": "Gladly"});
    let model = obeys("accept", "calendar_respond_to_invitation", args).await;
    server.put("party", "Party", INVITED).await;
    server.put("mine", "Mine", "").await;
    let before = item(&server, "party").await;
    let household = Household::with_model(&model).with_caldav("general", &server, PRIVATE);
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    synced(&butler).await;
    let (party, mine) = (id_of(&butler, "Party").await, id_of(&butler, "Mine").await);
    told(&butler, &format!("accept event {}", party.as_str().expect("an id"))).await;
    assert_eq!(calls(&household).await, ["calendar_respond_to_invitation pending gated"]);
    let id = last_call(&household).await;
    let shown = cli(&household, &["approvals", "list", "--json"]);
    let invites = "eve@evil.example, who invites to \\\"Party\\\" at 2027-03-10T";
    assert!(shown.contains(invites), "{shown}");
    synced(&butler).await;
    assert_eq!(item(&server, "party").await, before);
    cli(&household, &["approvals", "approve", &id]);
    let after = answered(&server, "party", "ACCEPTED").await;
    let differs = changed(&before, &after);
    let mut lines: Vec<&str> = differs.lines().collect();
    lines.sort_unstable();
    let own =
        lines.len() == 2 && lines[0].contains("PARTSTAT=ACCEPTED") && lines[0].ends_with(":mailto:ada@example.org");
    assert!(
        own && lines[0].contains("RSVP=TRUE") && lines[1].starts_with("COMMENT") && lines[1].ends_with(":Gladly"),
        "{differs}"
    );
    synced(&butler).await;
    // That it was made is noted behind it.
    eventually("the call is at its end", || async {
        let calls = calls(&household).await;
        if calls == ["calendar_respond_to_invitation executed gated"] { Ok(()) } else { Err(format!("{calls:?}")) }
    })
    .await;
    let window = json!({"start_at": "2027-03-10", "end_at": "2027-03-11"});
    let listed = butler.ok("calendar_list_events", window).await;
    let of = |title: &str| {
        let mut all = listed["events"].as_array().expect("events").iter();
        all.find(|event| event["title"] == title).unwrap_or_else(|| panic!("{listed}"))["your_response"].clone()
    };
    assert_eq!((of("Party"), of("Mine")), (json!("accepted"), Value::Null));
    // Nothing is answered that nobody asks.
    let none = butler.ok("calendar_respond_to_invitation", json!({"event_id": mine, "response": "accepted"})).await;
    assert_eq!(none["code"], "not_invited", "{none}");
    // A person answers without being asked, and what they declined takes no time of theirs.
    butler.ok("calendar_delete_event", json!({"event_id": mine})).await;
    let mut lunch = event("Lunch", "2027-03-10T10:00");
    lunch["conflict_policy"] = json!("suggest");
    assert_eq!(butler.ok("calendar_create_event", lunch.clone()).await["status"], "conflict");
    let declined = json!({"event_id": party, "response": "declined"});
    assert_eq!(butler.ok("calendar_respond_to_invitation", declined).await["response"], "declined");
    let free = json!({"duration_minutes": 60, "search_start": "2027-03-10T10:00", "search_end": "2027-03-10T11:00"});
    assert_eq!(butler.ok("calendar_find_free_slots", free).await["slots"].as_array().map(Vec::len), Some(1));
    assert_eq!(butler.ok("calendar_create_event", lunch).await["status"], "created");
    answered(&server, "party", "DECLINED").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_owners_own_session_asks_too_unless_a_rule_of_the_owners_lets_it() {
    let Some(server) = Radicale::start("calendar_invitations::rules").await else { return };
    let model = obeys("decline", "calendar_respond_to_invitation", json!({"response": "declined"})).await;
    server.put("party", "Party", INVITED).await;
    // Only of a tool that the settings gate rules are asked.
    let gated = "\n[modules.approvals.gated_tools.calendar_respond_to_invitation]\nrisk_tier = \"low\"\n";
    let household = Household::with_model(&model).with_caldav("general", &server, &format!("{PRIVATE}{gated}"));
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    synced(&butler).await;
    let party = id_of(&butler, "Party").await;
    // As if the owner had written it, so that nobody else's words are in sight.
    let db = household.owner().await;
    db.batch_execute(
        "SET butlerd.tenant = 'owner'; UPDATE shared.calendar_events SET trust = 'owner';
                      UPDATE shared.calendar_instances SET trust = 'owner'",
    )
    .await
    .expect("labels");
    let prompt = format!("decline event {}", party.as_str().expect("an id"));
    told(&butler, &prompt).await;
    assert_eq!(calls(&household).await, ["calendar_respond_to_invitation pending gated"]);
    let id = last_call(&household).await;
    cli(&household, &["approvals", "rule", &id]);
    cli(&household, &["approvals", "reject", &id]);
    synced(&butler).await;
    assert!(item(&server, "party").await.contains("PARTSTAT=NEEDS-ACTION"), "answered");
    told(&butler, &prompt).await;
    answered(&server, "party", "DECLINED").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_amounts_to_an_answer_waits_as_well() {
    let Some(server) = Radicale::start("calendar_invitations::delete").await else { return };
    // A server tells whoever invites that an attendee took an event away.
    let model = obeys("remove", "calendar_delete_event", json!({})).await;
    server.put("party", "Party", INVITED).await;
    let household = Household::with_model(&model).with_caldav("general", &server, PRIVATE);
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    synced(&butler).await;
    let party = id_of(&butler, "Party").await;
    told(&butler, &format!("remove event {}", party.as_str().expect("an id"))).await;
    synced(&butler).await;
    assert_eq!(server.titles().await, ["Party"]);
    // The owner takes it away by hand, or once it is declined.
    butler.ok("calendar_respond_to_invitation", json!({"event_id": party, "response": "declined"})).await;
    // What is written back from the server between a session's look and its change refuses the change.
    synced(&butler).await;
    told(&butler, &format!("remove event {}", party.as_str().expect("an id"))).await;
    synced(&butler).await;
    assert_eq!(server.titles().await, [] as [&str; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_owners_answer_is_not_taken_along_to_a_new_event() {
    let Some(server) = Radicale::start("calendar_invitations::split").await else { return };
    let rest = json!({"recurrence_scope": "following", "instance_start_at": "2027-03-12T09:00:00Z", "title": "Rest"});
    let model = obeys("split", "calendar_update_event", rest).await;
    server.put("party", "Party", &format!("RRULE:FREQ=DAILY;COUNT=5\r\n{INVITED}")).await;
    let household = Household::with_model(&model).with_caldav("general", &server, PRIVATE);
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    synced(&butler).await;
    let party = id_of(&butler, "Party").await;
    told(&butler, &format!("split event {}", party.as_str().expect("an id"))).await;
    synced(&butler).await;
    assert_eq!(server.titles().await, ["Party"]);
    // Who declined answers nobody by it.
    butler.ok("calendar_respond_to_invitation", json!({"event_id": party, "response": "declined"})).await;
    synced(&butler).await;
    told(&butler, &format!("split event {}", party.as_str().expect("an id"))).await;
    synced(&butler).await;
    assert_eq!(server.titles().await, ["Party", "Rest"]);
}

/// A model that reads what strangers wrote first, so that its change of the event that the prompt names waits.
async fn reads_then_changes() -> ScriptedModel {
    let call = |tool: &str, args: Value| json!({"call": {"tool": tool, "arguments": args}});
    let steps = |change: Value| {
        let read = call("calendar_list_events", json!({"start_at": "2027-03-10", "end_at": "2027-03-11"}));
        json!([read, change, {"say": "It waits."}])
    };
    let note = call("calendar_update_event", json!({"event_id": "{{match.1}}", "description": "the code is 4711"}));
    let remove = call("calendar_delete_event", json!({"event_id": "{{match.1}}"}));
    model(json!([
        {"when": "A call of `", "steps": [{"say": "I know."}]},
        {"when": "(?s).*note it in event ([a-f0-9-]+)", "steps": steps(note)},
        {"when": "(?s).*remove event ([a-f0-9-]+)", "steps": steps(remove)},
    ]))
    .await
}

const BEA: &str = "ATTENDEE;PARTSTAT=ACCEPTED:mailto:bea@example.org\r\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_comes_to_it_after_the_owner_was_asked_learns_nothing() {
    let Some(server) = Radicale::start("calendar_invitations::meanwhile").await else { return };
    let model = reads_then_changes().await;
    server.put("party", "Party", INVITED).await;
    for (name, more) in [("plan", ""), ("talk", BEA), ("same", BEA)] {
        server.put(name, name, more).await;
    }
    let household = Household::with_model(&model).with_caldav("general", &server, PRIVATE);
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    synced(&butler).await;
    let db = household.owner().await;
    for (name, gains, ends) in [("plan", true, "abandoned"), ("talk", true, "abandoned"), ("same", false, "executed")] {
        let event = id_of(&butler, name).await;
        told(&butler, &format!("note it in event {}", event.as_str().expect("an id"))).await;
        let id = last_call(&household).await;
        if gains {
            let title = format!("SUMMARY:{name}");
            server.edit(&title, &format!("ATTENDEE:mailto:eve@evil.example\r\n{title}")).await;
            synced(&butler).await;
        }
        cli(&household, &["approvals", "approve", &id]);
        eventually(&format!("{name}: it is {ends}"), || async {
            let sql = "SELECT status FROM shared.pending_actions WHERE id::text = $1";
            let status: String = db.query_one(sql, &[&id]).await.map_err(|e| e.to_string())?.get(0);
            if status == ends { Ok(()) } else { Err(status) }
        })
        .await;
        synced(&butler).await;
        let sql = "SELECT coalesce(execution_result::text, '') FROM shared.pending_actions WHERE id::text = $1";
        let came: String = db.query_one(sql, &[&id]).await.expect("what came of it").get(0);
        let text = item(&server, name).await;
        assert_eq!(text.contains("4711"), !gains, "{name}: {came}: {text}");
    }
}

/// That somebody else learns of it makes the call wait. Approved, it changes what is the owner's, which is from then on as
/// little believed as whoever wrote to the session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approved_change_of_the_owners_event_is_made_and_is_the_strangers() {
    let Some(server) = Radicale::start("calendar_invitations::owners").await else { return };
    let model = reads_then_changes().await;
    server.put("party", "Party", INVITED).await;
    for (name, title) in [("talk", "Talk"), ("walk", "Walk")] {
        server.put(name, title, BEA).await;
    }
    let household = Household::with_model(&model).with_caldav("general", &server, PRIVATE);
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    synced(&butler).await;
    let db = household.owner().await;
    let labels = || async {
        let sql = "SELECT e.uid || concat_ws(' ', ':', e.trust, i.trust, n.trust) FROM shared.calendar_events e
                   JOIN shared.calendar_items i USING (tenant_id, id)
                   JOIN shared.calendar_instances n ON n.event = e.id WHERE e.uid IN ('talk', 'walk') ORDER BY e.uid";
        let rows = db.query(sql, &[]).await.expect("the events");
        rows.iter().map(|row| row.get(0)).collect::<Vec<String>>()
    };
    assert_eq!(labels().await, ["talk: owner owner owner", "walk: owner owner owner"]);
    for (words, title, tool) in
        [("note it in", "Talk", "calendar_update_event"), ("remove", "Walk", "calendar_delete_event")]
    {
        let event = id_of(&butler, title).await;
        told(&butler, &format!("{words} event {}", event.as_str().expect("an id"))).await;
        let waits = calls(&household).await;
        assert_eq!(waits.last(), Some(&format!("{tool} pending exposure")), "{waits:?}");
        let id = last_call(&household).await;
        cli(&household, &["approvals", "approve", &id]);
        let came = eventually("it is at its end", || async {
            let sql = "SELECT status, execution_result FROM shared.pending_actions WHERE id::text = $1";
            let row = db.query_one(sql, &[&id]).await.map_err(|e| e.to_string())?;
            let (status, came): (String, Option<Value>) = (row.get(0), row.get(1));
            if status == "executed" { came.ok_or(status) } else { Err(status) }
        })
        .await;
        assert_eq!(came["success"], true, "{tool}: {came}");
        synced(&butler).await;
    }
    let text = item(&server, "talk").await;
    assert!(text.contains("4711"), "{text}");
    assert_eq!(labels().await, ["talk: stranger stranger stranger"]);
    assert_eq!(server.titles().await, ["Party", "Talk"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_is_made_once_whatever_kills_it() {
    let Some(server) = Radicale::start("calendar_invitations::killed").await else { return };
    let model = obeys("accept", "calendar_respond_to_invitation", json!({"response": "accepted"})).await;
    let household = Household::with_model(&model).with_caldav("general", &server, PRIVATE);
    let mut revision = None;
    for (n, point) in ["approval.calling", "calendar.changed", "calendar.updated"].into_iter().enumerate() {
        let name = format!("party{n}");
        server.put(&name, &name, INVITED).await;
        let mut dying = Household::again(&household, "BUTLERD_CRASH_POINT", point).start().await;
        let butler = dying.mcp("general");
        synced(&butler).await;
        let party = id_of(&butler, &name).await;
        told(&butler, &format!("accept event {}", party.as_str().expect("an id"))).await;
        let id = last_call(&household).await;
        // It may die before it has answered.
        tokio::task::block_in_place(|| household.cli(&["approvals", "approve", &id]));
        died(&mut dying, point).await;
        drop((butler, dying));
        let daemon: Daemon = household.start().await;
        let db = household.owner().await;
        eventually(&format!("{point}: it is made"), || async {
            let sql = "SELECT status FROM shared.pending_actions WHERE id::text = $1";
            let status: String = db.query_one(sql, &[&id]).await.map_err(|e| e.to_string())?.get(0);
            if status == "executed" { Ok(()) } else { Err(status) }
        })
        .await;
        let text = answered(&server, &name, "ACCEPTED").await;
        assert_eq!(text.matches("mailto:ada@example.org").count(), 1, "{point}: {text}");
        synced(&daemon.mcp("general")).await;
        let sql = "SELECT revision FROM shared.calendar_events WHERE uid = $1";
        let now: i64 = db.query_one(sql, &[&name]).await.expect("the event").get(0);
        // As where it died before the call was made.
        assert_eq!(*revision.get_or_insert(now), now, "{point}");
    }
}
