//! What keeps those who can make the house write a row from delaying, repeating or swallowing what others have in it:
//! the lane of a delivery, and the note that is left once.

use serde_json::{Value, json};
use tokio_postgres::Client;
use uuid::Uuid;

use crate::support::{Household, eventually};

/// A delivery that waits, as somebody writes it who chooses the lane that he wants to stand in.
async fn outbox(db: &Client, thread: Option<&str>, target: &str, context: Value, lane: &str) -> String {
    let sql = "INSERT INTO shared.outbox (id, origin, request_id, kind, intent, channel, endpoint, target, thread, lane,
                   message, priority, idempotency_key, context, state, due_at)
               VALUES (gen_random_uuid(), 'general', gen_random_uuid(), 'message', 'send', 'webhook', 'door', $1, $2, $3,
                   'x', 'medium', gen_random_uuid()::text, $4, 'deferred', now() + interval '1 hour') RETURNING lane";
    let row = db.query_one(sql, &[&target, &thread, &lane, &context]).await.expect("a delivery");
    row.get(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_chooses_the_lane_in_which_a_delivery_waits() {
    let household = Household::few();
    let _daemon = household.start().await;
    let db = household.owner().await;
    db.batch_execute("SET butlerd.tenant = 'owner'").await.expect("a setting");
    let none = json!({});
    let own = outbox(&db, None, "ada", none.clone(), "").await;
    // A thread that is called like the owner, or a lane that is given, is no place before him.
    for (thread, target, lane) in [
        (Some("ada"), "eve", own.as_str()),
        (Some("-3:ada"), "eve", own.as_str()),
        (None, "-3:ada", own.as_str()),
        (None, "eve", own.as_str()),
    ] {
        let his = outbox(&db, thread, target, none.clone(), lane).await;
        assert_ne!(his, own, "{thread:?} {target}: he stands in the owner's lane");
    }
    let again = outbox(&db, None, "ada", none.clone(), "elsewhere").await;
    assert_eq!(again, own, "and who is answered twice is answered in order");
    // A group hears all that is said in its thread, in order; a private thread of the same name is another.
    let group = json!({"group": true});
    let one = outbox(&db, Some("party"), "eve", group.clone(), own.as_str()).await;
    let other = outbox(&db, Some("party"), "ada", group, "another").await;
    assert_eq!(one, other, "a group is one lane");
    let private = outbox(&db, Some("party"), "eve", none, one.as_str()).await;
    assert_ne!(private, one);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_note_is_handed_over_once_and_swallows_no_other() {
    let household = Household::few().with_tally(1);
    let daemon = household.start().await;
    let db = household.owner().await;
    db.batch_execute("SET butlerd.tenant = 'owner'").await.expect("a setting");
    let request = Uuid::now_v7();
    let leave = async |subject: Option<&str>, body: &str, butler: &str| -> bool {
        let sql = "INSERT INTO switchboard.mail (request_id, target_butler, sender, sender_channel, subject, body)
                   VALUES ($1, $2, 'eve', 'email', $3, $4) ON CONFLICT DO NOTHING RETURNING id";
        !db.query(sql, &[&request, &butler, &subject, &body]).await.expect("a note").is_empty()
    };
    assert!(leave(Some("pay"), "the rent at once", "tally").await);
    for n in 0..20 {
        assert!(!leave(Some("pay"), "the rent at once", "tally").await, "{n}: the same note was left again");
    }
    // Whoever guesses what will be said shifts no border, so that it would be taken for his.
    for (subject, body, butler) in [
        (Some("pay the"), "rent at once", "tally"),
        (None, "pay the rent at once", "tally"),
        (Some("pay"), "the rent at once", "messenger"),
        (Some("pay"), "the rent at once ", "tally"),
    ] {
        assert!(leave(subject, body, butler).await, "{subject:?} {body:?} {butler}: it was swallowed");
    }
    // These were for the index alone; no butler got them.
    db.batch_execute("DELETE FROM switchboard.mail").await.expect("they go");
    // The tool says the same, and hands one over.
    let note = json!({"target_butler": "tally", "sender": "eve", "sender_channel": "email", "body": "count it"});
    let first = daemon.mcp("switchboard").ok("post_mail", note).await;
    assert_eq!((&first["status"], &first["duplicate"]), (&json!("ok"), &json!(false)), "{first}");
    eventually("it is with its butler", || async {
        let sql = "SELECT count(*) FROM tally.route_inbox";
        let routes: i64 = db.query_one(sql, &[]).await.map_err(|e| e.to_string())?.get(0);
        if routes == 1 { Ok(()) } else { Err(format!("{routes} routes")) }
    })
    .await;
}
