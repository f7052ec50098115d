//! `kill -9` of the database between every step of a message, a delivery, an approval and a schedule's run and the next,
//! while the daemon lives: it waits the outage out, and each comes to its good end, once.

use serde_json::{Value, json};

use crate::delivery_storm::try_notify;
use crate::inbound_database::{postmaster, server, signal};
use crate::soak::proc::Process;
use crate::support::tally::{TALLY, counting_model, envelope, insist, rule, standing_at, stands_still};
use crate::support::{Daemon, Household, Receiver, eventually, model};

/// Kills all of the database at the very moment at which the daemon passes the point, lets that go on, and waits until
/// the database is back.
async fn killed_under(household: &Household, daemon: &mut Daemon, point: &str) {
    stands_still(daemon, point).await;
    let processes = server(postmaster(household));
    assert!(processes.len() > 1, "{point}: {processes:?}");
    signal(&processes, libc::SIGKILL);
    eventually(&format!("{point}: the database is dead"), || {
        let left: Vec<&i32> = processes.iter().filter(|pid| Process::of(**pid).is_some_and(|p| !p.dead)).collect();
        std::future::ready(if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) })
    })
    .await;
    daemon.signal(libc::SIGCONT);
    daemon.logged(&["the embedded database is up again"], 1).await;
    assert!(!daemon.ended(), "{point}: the daemon has ended\n{}", daemon.log());
}

/// A point's name as a mark.
fn mark_of(point: &str) -> String {
    point.replace(['.', ':', '_'], "-")
}

async fn under_messages(points: &[&str]) {
    let model = counting_model(0).await;
    let household = Household::few_with_model(&model).with_tally(1);
    for point in points {
        let mark = mark_of(point);
        let message = envelope(&mark, &mark, &format!("count: {mark}"), "interactive");
        let mut daemon = standing_at(&household, point).await;
        let (data, sent) = (household.data(), message.clone());
        let handing_in = tokio::spawn(async move { insist(&data, &sent).await });
        killed_under(&household, &mut daemon, point).await;
        let id = handing_in.await.expect("it is taken");
        household.at_rest(point).await;
        let (_, entry) = daemon.get(&format!("/api/inbox/{id}")).await;
        let entry: Value = serde_json::from_str(&entry).expect("JSON");
        let replies = entry["replies"].as_array().expect("replies").len();
        assert_eq!((household.counted(&mark).await, replies), (1, 1), "{point}: {entry}");
        assert_eq!((entry["state"].as_str(), &entry["replies"][0]["kind"]), (Some("done"), &json!("reply")), "{entry}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_under_a_message_that_is_accepted_and_classified() {
    under_messages(&[
        "accept.before",
        "accept.committed",
        "message.claimed",
        "session.opened",
        "session.running",
        "classify.begun",
        "session.before_close",
        "classify.before",
        "classify.committed",
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_under_a_message_that_is_handed_on() {
    under_messages(&[
        "route.before",
        "route.committed",
        "route.accepted",
        "route.before_release",
        "route.released",
        "message.tried",
        "message.settled",
        "routed.claimed",
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_under_a_butler_that_works_on_a_message_and_ends_it() {
    under_messages(&[
        "session.opened:2",
        "session.running:2",
        "session.spawned:2",
        "session.final_event:2",
        "session.before_close:2",
        "routed.tried",
        "routed.settled",
        "settle.replied",
        "settle.before",
        "settle.committed",
    ])
    .await;
}

/// Whoever has sent it lives, and knows what became of it: nothing is `unknown`, and nothing goes out again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_under_a_delivery() {
    let receiver = Receiver::start().await;
    // With a model nothing needs attention, of which the owner would be told by a delivery that this is not about.
    let model = counting_model(0).await;
    let household = Household::few_with_model(&model).with_tally(1).with_webhook(&receiver, "");
    for (point, endpoint) in [
        ("notify.committed", "door"),
        ("outbox.claimed", "wise"),
        ("outbox.claimed", "door"),
        ("outbox.sending", "door"),
        ("outbox.sent", "door"),
        ("outbox.sent", "wise"),
        ("outbox.tried", "door"),
        ("outbox.tried", "wise"),
        ("outbox.settled", "door"),
        ("outbox.before_followed", "chat"),
        ("outbox.followed", "chat"),
    ] {
        let message = format!("{endpoint} {point}");
        let mut daemon = standing_at(&household, point).await;
        let arguments = match endpoint {
            "chat" => json!({"intent": "send", "message": message}),
            _ => json!({"intent": "send", "channel": "webhook", "recipient": endpoint, "message": message}),
        };
        let data = household.data();
        let sending = tokio::spawn(async move { try_notify(&data, TALLY, &arguments).await });
        killed_under(&household, &mut daemon, point).await;
        // Its answer may be that the database was away.
        let _ = sending.await.expect("the call ends");
        household.all_delivered(point).await;
        household.invariants(point).await;
        let client = household.owner().await;
        let sql = "SELECT state, followed_at IS NOT NULL FROM shared.outbox WHERE message = $1";
        eventually(&format!("{point}, {endpoint}: it is sent, and all that follows is done"), || async {
            let rows = client.query(sql, &[&message]).await.map_err(|e| e.to_string())?;
            let rows: Vec<(String, bool)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
            if rows == [("sent".to_owned(), true)] { Ok(()) } else { Err(format!("{rows:?}")) }
        })
        .await;
        assert_eq!(receiver.of(&message).len(), usize::from(endpoint != "chat"), "{point}, {endpoint}");
    }
}

/// Approves the call, and again while the database is away.
async fn approve(household: &Household, id: &str) {
    eventually("it is approved", || async {
        let (code, out, err) = tokio::task::block_in_place(|| household.cli(&["approvals", "approve", id]));
        let said = out + &err;
        if code == 0 || said.contains("already") { Ok(()) } else { Err(said) }
    })
    .await;
}

async fn under_approvals(points: &[&str]) {
    let model = model(json!([
        {"when": "A call of `tally_add` that you had made", "steps": [{"say": "I know."}]},
        // The last one: what stands before it is what was said before.
        {"when": "(?s).*count: ([a-z0-9-]+)", "steps": [
            {"call": {"tool": "tally_add", "arguments": {"mark": "{{match.1}}"}}}, {"say": "It waits."}]},
    ]))
    .await;
    let gate = format!("[modules.{TALLY}]\n\n[modules.approvals.gated_tools.tally_add]");
    let household = Household::few_with_model(&model).with_tally(1).replace(
        "tally/butler.toml",
        &format!("[modules.{TALLY}]"),
        &gate,
    );
    for (n, point) in points.iter().enumerate() {
        let mark = mark_of(point);
        let mut daemon = standing_at(&household, point).await;
        let db = household.owner().await;
        if n == 0 {
            rule(&db, "count", TALLY).await;
        }
        let (data, message) = (household.data(), envelope(&mark, "4711", &format!("count: {mark}"), "default"));
        let handing_in = tokio::spawn(async move { insist(&data, &message).await });
        let waiting = "SELECT id::text FROM shared.pending_actions WHERE tool_args LIKE $1";
        let like = format!("%\"{mark}\"%");
        // It passes the point as it is asked, or of the approval, whose answer then waits for what stands still.
        let approving = if point.contains("park") || point.contains("announc") {
            None
        } else {
            let id: String = eventually(&format!("{point}: it waits"), || async {
                let row = db.query_opt(waiting, &[&like]).await.map_err(|e| e.to_string())?;
                row.map(|row| row.get(0)).ok_or_else(|| "not yet".to_owned())
            })
            .await;
            let household = Household::again(&household, "X", "x");
            Some(tokio::task::spawn_blocking(move || household.cli(&["approvals", "approve", &id])))
        };
        killed_under(&household, &mut daemon, point).await;
        drop(db);
        let request = handing_in.await.expect("it is taken");
        if let Some(approving) = approving {
            approving.await.expect("the command's end");
        }
        let db = household.owner().await;
        crate::inbound::ended(&daemon, &request).await;
        let id: String = db.query_one(waiting, &[&like]).await.expect("one that was asked for").get(0);
        approve(&household, &id).await;
        eventually(&format!("{point}: it was made and told"), || async {
            let sql = "SELECT a.status, a.handed_back_at IS NOT NULL,
                              (SELECT count(*) FROM tally.route_inbox r
                               WHERE r.route #>> '{input,context,action_id}' = a.id::text)
                       FROM shared.pending_actions a WHERE tool_args LIKE $1";
            let rows = db.query(sql, &[&like]).await.map_err(|e| e.to_string())?;
            let seen: Vec<(String, bool, i64)> = rows.iter().map(|r| (r.get(0), r.get(1), r.get(2))).collect();
            if seen == [("executed".to_owned(), true, 1)] { Ok(()) } else { Err(format!("{seen:?}")) }
        })
        .await;
        household.at_rest(point).await;
        assert_eq!(household.counted(&mark).await, 1, "{point}");
    }
}

// Before `approval.parked` nothing waits yet, and the session is told that its call failed: that is no good end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_under_a_call_that_is_parked_and_approved() {
    under_approvals(&[
        "approval.parked",
        "approval.announcing",
        "approval.announced",
        "approval.approved",
        "approval.claimed",
        "approval.calling",
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_under_a_call_that_is_made_and_told() {
    under_approvals(&[
        "approval.called",
        "approval.tried",
        "approval.settling",
        "approval.settled",
        "approval.handing_back",
        "approval.handed_back",
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_under_a_schedules_run() {
    let model = counting_model(0).await;
    let household = Household::few_with_model(&model).with_tally(1);
    for point in ["schedule.due", "schedule.claimed", "schedule.dispatched", "schedule.tried", "schedule.settled"] {
        let mark = mark_of(point);
        let mut daemon = standing_at(&household, point).await;
        // Late enough for the answer to be there before the database goes.
        let (tally, made) = (daemon.mcp(TALLY), json!({"name": mark, "in": "5s", "prompt": format!("count: {mark}")}));
        let making = tokio::spawn(async move { tally.ok("schedule_create", made).await });
        killed_under(&household, &mut daemon, point).await;
        making.await.expect("it is made");
        let client = household.owner().await;
        eventually(&format!("{point}: the run is done"), || async {
            let sql =
                "SELECT r.state, r.reason FROM tally.schedule_runs r JOIN tally.scheduled_tasks t ON t.id = r.task_id
                 WHERE t.name = $1";
            let rows = client.query(sql, &[&mark]).await.map_err(|e| e.to_string())?;
            let states: Vec<(String, Option<String>)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
            match states.as_slice() {
                [(state, _)] if state == "done" => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        household.at_rest(point).await;
        assert_eq!(household.counted(&mark).await, 1, "{point}");
    }
}
