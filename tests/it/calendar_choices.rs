//! Where both sides of a sync changed one thing, a person sees what differs and takes the version that is wanted.

use serde_json::{Value, json};

use crate::calendar_caldav::{id_of, synced, titles};
use crate::support::radicale::{PASSWORD, Radicale};
use crate::support::{Household, eventually};

fn cli(household: &Household, words: &[&str]) -> String {
    let (code, out, err) = tokio::task::block_in_place(|| household.cli(words));
    assert_eq!(code, 0, "{words:?}: {out}{err}");
    out
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_meeting_that_was_called_off_there_invites_nobody_anew() {
    let Some(server) = Radicale::start("calendar_choices::meeting").await else { return };
    server.put("tea", "Tea", "ATTENDEE;PARTSTAT=ACCEPTED:mailto:bea@example.org\r\n").await;
    let household = Household::new().with_caldav("general", &server, "private = [\"cal\"]\n");
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    synced(&butler).await;
    let tea = id_of(&butler, "Tea").await;
    server.send("DELETE", "/ada/cal/tea.ics", String::new()).await;
    server.server.stands_still(true);
    assert_eq!(
        butler.ok("calendar_update_event", json!({"event_id": tea, "title": "Late tea"})).await["status"],
        "updated"
    );
    server.server.stands_still(false);
    assert_eq!(synced(&butler).await["conflicts"], 1);
    assert_eq!((titles(&butler).await.len(), server.titles().await.len()), (0, 0));
    // What was edited is on record, and only a person makes it again.
    let conflicts = ["calendar", "conflicts", "--butler", "general"];
    let listed: Value = serde_json::from_str(&cli(&household, &[&conflicts[..], &["--json"]].concat())).expect("JSON");
    let id = listed["conflicts"][0]["conflict_id"].as_str().unwrap_or_else(|| panic!("{listed}"));
    cli(&household, &[&conflicts[..], &[id, "--take", "ours"]].concat());
    synced(&butler).await;
    assert_eq!((titles(&butler).await, server.titles().await), (vec!["Late tea".into()], vec!["Late tea".into()]));
    let trust = household.owner().await.query_one("SELECT trust FROM shared.calendar_events", &[]).await;
    assert_ne!(trust.expect("a label").get::<_, String>(0), "stranger");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_came_to_it_meanwhile_learns_nothing_of_an_edit() {
    let Some(server) = Radicale::start("calendar_choices::merge").await else { return };
    server.put("plan", "Plan", "").await;
    let household = Household::new().with_caldav("general", &server, "private = [\"cal\"]\n");
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    synced(&butler).await;
    let private = json!({"event_id": id_of(&butler, "Plan").await, "description": "the code is 4711"});
    server.edit("SUMMARY:Plan", "ATTENDEE:mailto:eve@evil.example\r\nSUMMARY:Plan").await;
    server.server.stands_still(true);
    assert_eq!(butler.ok("calendar_update_event", private).await["status"], "updated");
    server.server.stands_still(false);
    assert_eq!(synced(&butler).await["conflicts"], 1);
    let text = server.send("GET", "/ada/cal/plan.ics", String::new()).await;
    assert!(text.contains("eve@evil.example") && !text.contains("4711"), "{text}");
    // Where nobody comes, and where who comes knew both, it is merged.
    let kept = json!({"event_id": id_of(&butler, "Plan").await, "description": "bring cake"});
    server.edit("SUMMARY:Plan", "LOCATION:Hall\r\nSUMMARY:Plan").await;
    server.server.stands_still(true);
    assert_eq!(butler.ok("calendar_update_event", kept).await["status"], "updated");
    server.server.stands_still(false);
    assert_eq!(synced(&butler).await["conflicts"], 1);
    let text = server.send("GET", "/ada/cal/plan.ics", String::new()).await;
    assert!(text.contains("bring cake") && text.contains("Hall"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_version_of_an_event_is_an_edit_like_any_other() {
    let Some(server) = Radicale::start("calendar_choices::calendar").await else { return };
    for title in ["Lunch", "Supper"] {
        server.put(title, title, "").await;
    }
    let household = Household::new().with_caldav("general", &server, "private = [\"cal\"]\n");
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    synced(&butler).await;
    for title in ["Lunch", "Supper"] {
        server.edit(&format!("SUMMARY:{title}"), &format!("SUMMARY:{title} with Bea")).await;
    }
    // A sync that the first change begins would take in what the other one is made of.
    server.server.stands_still(true);
    for title in ["Lunch", "Supper"] {
        let alone = json!({"event_id": id_of(&butler, title).await, "title": format!("{title} alone")});
        assert_eq!(butler.ok("calendar_update_event", alone).await["status"], "updated");
    }
    server.server.stands_still(false);
    assert_eq!(synced(&butler).await["conflicts"], 2);
    let conflicts = ["calendar", "conflicts", "--butler", "general"];
    let shown = cli(&household, &conflicts);
    assert!(shown.contains("ours: title Lunch alone") && shown.contains("theirs: title Lunch with Bea"), "{shown}");
    let listed: Value = serde_json::from_str(&cli(&household, &[&conflicts[..], &["--json"]].concat())).expect("JSON");
    let of = |title: &str| {
        let mut all = listed["conflicts"].as_array().expect("conflicts").iter();
        let found = all.find(|one| one["base"]["title"] == title).unwrap_or_else(|| panic!("{listed}"));
        found["conflict_id"].as_str().expect("an id").to_owned()
    };
    // As if a stranger had had a part in it.
    let db = household.owner().await;
    let lower =
        "SET butlerd.tenant = 'owner'; UPDATE shared.calendar_conflicts SET trust = 'stranger' WHERE uid = 'Lunch'";
    db.batch_execute(lower).await.expect("a label");
    let (lunch, supper) = (of("Lunch"), of("Supper"));
    cli(&household, &[&conflicts[..], &[&lunch, "--take", "ours"]].concat());
    cli(&household, &[&conflicts[..], &[&supper, "--take", "seen"]].concat());
    assert_eq!(synced(&butler).await["conflicts"], 0);
    assert_eq!(titles(&butler).await, ["Lunch alone", "Supper with Bea"]);
    eventually("the server has it", || async {
        let titles = server.titles().await;
        if titles == ["Lunch alone", "Supper with Bea"] { Ok(()) } else { Err(format!("{titles:?}")) }
    })
    .await;
    let labels = "SELECT string_agg(uid || ' ' || trust, ',' ORDER BY uid) FROM shared.calendar_events";
    assert_eq!(db.query_one(labels, &[]).await.expect("labels").get::<_, String>(0), "Lunch stranger,Supper owner");
    assert!(cli(&household, &conflicts).contains("No conflicts"));
    // What was chosen can be chosen otherwise.
    cli(&household, &[&conflicts[..], &[&lunch, "--take", "theirs"]].concat());
    synced(&butler).await;
    assert_eq!(server.titles().await, ["Lunch with Bea", "Supper with Bea"]);
    let unknown = butler.ok("calendar_conflicts", json!({"conflict_id": household_id(), "take": "ours"})).await;
    assert_eq!(unknown["code"], "not_found", "{unknown}");
    // A calendar of which nobody knows how it follows is not called well.
    db.batch_execute("SET butlerd.tenant = 'owner'; DELETE FROM shared.calendar_cursors").await.expect("no cursor");
    let state = butler.ok("calendar_sync_status", json!({})).await["calendars"][0].clone();
    let seen = (&state["state"], &state["changes_waiting"], &state["conflicts"]);
    assert_eq!(seen, (&json!("unknown"), &Value::Null, &Value::Null), "{state}");
}

fn household_id() -> String {
    uuid::Uuid::nil().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_version_of_a_card_goes_to_the_address_book_and_to_the_house() {
    let Some(server) = Radicale::start("calendar_choices::contacts").await else { return };
    let body = "<d:mkcol xmlns:d=\"DAV:\" xmlns:a=\"urn:ietf:params:xml:ns:carddav\"><d:set><d:prop><d:resourcetype>\
                <d:collection/><a:addressbook/></d:resourcetype></d:prop></d:set></d:mkcol>";
    server.send("MKCOL", "/ada/people/", body.to_owned()).await;
    let card = |name: &str| {
        format!(
            "BEGIN:VCARD\r\nVERSION:3.0\r\nUID:bea\r\nFN:{name}\r\nN:{name};;;;\r\nEMAIL:bea@example.org\r\nEND:VCARD\r\n"
        )
    };
    server.send("PUT", "/ada/people/bea.vcf", card("Bea")).await;
    let section = format!(
        "\n[modules.contacts]\nprovider = \"carddav\"\nurl = \"{}/ada/people/\"\nuser = \"ada\"\n[modules.contacts.sync]\n\
         interval_minutes = 1440\n",
        server.server.url
    );
    let household = Household::new();
    let before = std::fs::read_to_string(household.roster().join("general/butler.toml")).expect("the file");
    let household = household.write("general/butler.toml", &format!("{before}{section}"));
    let household = household.env("BUTLER_CONTACTS_PASSWORD", PASSWORD);
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    butler.ok("contacts_sync_now", json!({})).await;
    let db = household.owner().await;
    db.execute("SELECT set_config('butlerd.tenant', 'owner', false)", &[]).await.expect("the tenant");
    let note = "INSERT INTO shared.contact_card_conflicts (source, card, kind, uid, base, ours, theirs)
                SELECT source, id, 'both_edited', uid, ours, $1, ours FROM shared.contact_cards";
    db.execute(note, &[&card("Bea King").into_bytes()]).await.expect("a conflict");
    let conflicts = ["contacts", "conflicts", "--butler", "general"];
    let shown = cli(&household, &conflicts);
    assert!(shown.contains("ours: FN:Bea King") && shown.contains("theirs: FN:Bea"), "{shown}");
    assert!(!shown.contains("EMAIL"), "what is the same is left out: {shown}");
    let id: i64 = db.query_one("SELECT id FROM shared.contact_card_conflicts", &[]).await.expect("it").get(0);
    cli(&household, &[&conflicts[..], &[&id.to_string(), "--take", "ours"]].concat());
    butler.ok("contacts_sync_now", json!({})).await;
    assert!(server.send("GET", "/ada/people/bea.vcf", String::new()).await.contains("FN:Bea King"));
    let called = "SELECT name || ' ' || trust FROM shared.contacts";
    assert_eq!(db.query_one(called, &[]).await.expect("Bea").get::<_, String>(0), "Bea King known");
    assert!(cli(&household, &conflicts).contains("No conflicts"));
    let state = butler.ok("contacts_sync_status", json!({})).await;
    assert_eq!(state["sources"][0]["conflicts"], 0, "{state}");
}
