//! `kill -9` between every step of a delivery and the next, of the daemon or of its database as well: it is taken up as
//! soon as the next daemon is there, ends all the same, and nothing arrives twice where that can't be seen.

use serde_json::{Value, json};

use crate::crash::kill_postgres;
use crate::delivery_storm::try_notify;
use crate::support::tally::{TALLY, died, dying_at};
use crate::support::{Household, Receiver, eventually};

/// Has something sent that dies at the point, with the database or without, and starts again. Its row's state, and how
/// often it arrived.
async fn killed_at(
    household: &Household,
    receiver: &Receiver,
    (point, with_database): (&str, bool),
    endpoint: &str,
) -> (String, usize) {
    let message = format!("{endpoint} {point}");
    let mut daemon = dying_at(household, point).await;
    let arguments = match endpoint {
        "chat" => json!({"intent": "send", "message": message}),
        _ => json!({"intent": "send", "channel": "webhook", "recipient": endpoint, "message": message}),
    };
    // Its answer may come before the end or not at all.
    let _ = try_notify(&household.data(), TALLY, &arguments).await;
    died(&mut daemon, point).await;
    if with_database {
        kill_postgres(household);
    }
    drop(daemon);
    let _daemon = household.start_again(point).await;
    household.all_delivered(point).await;
    household.invariants(point).await;
    household.each_has_a_notice(point).await;
    let client = household.owner().await;
    let sql = "SELECT state, followed_at IS NOT NULL FROM shared.outbox WHERE message = $1";
    let rows = client.query(sql, &[&message]).await.expect("the row");
    assert_eq!(rows.len(), 1, "{point}: {message} is posted {} times", rows.len());
    eventually(&format!("{point}: all that follows is done"), || async {
        let row = client.query_one(sql, &[&message]).await.map_err(|e| e.to_string())?;
        if row.get(1) { Ok(()) } else { Err("it is not".to_owned()) }
    })
    .await;
    let hooks = receiver.of(&message);
    let keys: std::collections::BTreeSet<_> =
        hooks.iter().map(|hook| hook.headers["idempotency-key"].clone()).collect();
    assert!(keys.len() <= 1, "{point}: {keys:?}");
    (rows[0].get(0), hooks.len())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_between_any_two_steps_of_a_delivery() {
    let receiver = Receiver::start().await;
    let household = Household::few().with_tally(1).with_webhook(&receiver, "");
    let points = [
        ("notify.committed", ("sent", 1), ("sent", 1)),
        ("outbox.claimed", ("sent", 1), ("sent", 1)),
        // Nothing has left, which nobody can know.
        ("outbox.sending", ("unknown", 0), ("sent", 1)),
        ("outbox.sent", ("unknown", 1), ("sent", 2)),
        ("outbox.tried", ("unknown", 1), ("sent", 2)),
        ("outbox.settled", ("sent", 1), ("sent", 1)),
    ];
    for (n, (point, door, wise)) in points.into_iter().enumerate() {
        for (m, (endpoint, (state, arrived))) in [("door", door), ("wise", wise)].into_iter().enumerate() {
            let found = killed_at(&household, &receiver, (point, (n + m).is_multiple_of(2)), endpoint).await;
            assert_eq!(found, (state.to_owned(), arrived), "{point}, {endpoint}");
        }
    }
    for point in ["outbox.sending", "outbox.sent", "outbox.before_followed", "outbox.followed"] {
        let found = killed_at(&household, &receiver, (point, true), "chat").await;
        assert_eq!(found, ("sent".to_owned(), 0), "{point}, chat");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_the_owner_is_told() {
    let receiver = Receiver::start().await;
    let household = Household::few().with_tally(1).with_webhook(&receiver, "");
    for (n, point) in ["notice.before", "notice.committed"].into_iter().enumerate() {
        let mut daemon = dying_at(&household, point).await;
        let arguments =
            json!({"intent": "send", "channel": "webhook", "recipient": "door", "message": format!("[no] {n}")});
        let _ = try_notify(&household.data(), TALLY, &arguments).await;
        died(&mut daemon, point).await;
        drop(daemon);
        let daemon = household.start().await;
        household.each_has_a_notice(point).await;
        household.all_delivered(point).await;
        household.invariants(point).await;
        let (_, notes) = daemon.get("/api/chat/notes").await;
        let notes: Value = serde_json::from_str(&notes).expect("JSON");
        let told = notes["notes"].as_array().expect("notes");
        assert_eq!(told.len(), n + 1, "{point}: {notes}");
        assert!(told[n]["message"].as_str().is_some_and(|m| m.contains("404")), "{point}: {notes}");
    }
}
