//! What a daemon that was killed held on a database that others use as well: it is taken up, by another daemon, by itself as
//! it is back, or after all of them and the database were killed, and comes to its end once.

use std::time::{Duration, Instant};

use serde_json::json;
use store::cluster::{Cluster, ClusterState};
use testkit::model::ScriptedModel;
use tokio_postgres::Client;

use crate::support::tally::{TALLY, envelope, insist, rule, taken_up_within, times};
use crate::support::{Daemon, Household, Receiver, eventually, model};
use crate::two_daemons::{Shared, beats, begin, counting, no_run_has_counted_twice, number, running};

/// What a daemon is made to hold: one row of each queue, and of the route inbox one whose session has changed something
/// as well. With each the claim on it.
const HELD: [(&str, &str); 6] = [
    ("message", "SELECT claim_id::text FROM switchboard.message_inbox WHERE body = 'think: held'"),
    ("routed", "SELECT claim_id::text FROM tally.route_inbox WHERE route #>> '{input,prompt}' LIKE '%pause: row%'"),
    (
        "routed, cut",
        "SELECT claim_id::text FROM tally.route_inbox WHERE route #>> '{input,prompt}' LIKE '%twice: cut%'",
    ),
    (
        "schedule",
        "SELECT r.claim_id::text FROM tally.schedule_runs r JOIN tally.scheduled_tasks t ON t.id = r.task_id
         WHERE t.name = 'held'",
    ),
    ("outbox", "SELECT claim_id::text FROM shared.outbox WHERE message = '[stall] held'"),
    ("approval", "SELECT claim_id::text FROM shared.pending_actions WHERE tool_name = 'probe_echo'"),
];

/// Each of these hangs the first time and goes on the second time.
async fn hanging_once() -> ScriptedModel {
    let once = json!({"hang": {"times": 1}});
    let add = json!({"call": {"tool": "tally_add", "arguments": {"mark": "{{match.1}}"}}});
    let route = json!({"call": {"tool": "route_to_butler", "arguments": {"butler": TALLY, "prompt": "count: held"}}});
    model(json!([
        {"when": r#"(?s)"message":\s*"think: held".*Route the message in"#, "steps": [once.clone(), route]},
        {"when": "dawdle", "steps": [
            {"call": {"tool": "probe_echo", "arguments": {"hang": true}}}, {"say": "It waits."}]},
        {"when": "twice: ([a-z]+)", "steps": [add.clone(), once.clone(), {"say": "It was counted."}]},
        {"when": "pause: row", "steps": [once.clone(), {"say": "I went on."}]},
        {"when": "pause: run", "steps": [once, {"say": "I went on."}]},
        {"when": "count: ([a-z]+)", "steps": [add, {"say": "counted"}]},
    ]))
    .await
}

async fn claim_on(client: &Client, sql: &str) -> Option<String> {
    client.query_opt(sql, &[]).await.expect("a row or none").and_then(|row| row.get(0))
}

/// Has the one daemon that there is hold [`HELD`]. Returns its claims.
async fn hold(
    (household, daemon): (&Household, &Daemon),
    (model, receiver): (&ScriptedModel, &Receiver),
    client: &Client,
) -> Vec<String> {
    assert_eq!(begin(daemon, "health", "dawdle").await.expect("an end")["success"], true);
    let sql = "SELECT id::text FROM shared.pending_actions WHERE status = 'pending'";
    let id: String = client.query_one(sql, &[]).await.expect("one that waits").get(0);
    let (code, out, err) = tokio::task::block_in_place(|| household.cli(&["approvals", "approve", &id]));
    assert_eq!(code, 0, "{out}{err}");
    rule(client, "tally ", TALLY).await;
    for (n, text) in ["think: held", "tally pause: row", "tally twice: cut"].into_iter().enumerate() {
        let from = format!("chat-{n}");
        insist(&household.data(), &envelope(&from, &from, text, "interactive")).await;
    }
    let run = json!({"name": "held", "in": "1s", "prompt": "pause: run"});
    daemon.mcp("tally").ok("schedule_create", run).await;
    let note = json!({"intent": "send", "channel": "webhook", "recipient": "wise", "message": "[stall] held"});
    daemon.mcp("general").ok("notify", note).await;
    eventually("all of it is in hand", || async {
        let hang = model.requests().iter().filter(|request| request.answer == "hang").count();
        let sent = receiver.of("[stall] held").len();
        let mut claims = Vec::new();
        for (_, sql) in HELD {
            claims.extend(claim_on(client, sql).await);
        }
        match (hang, sent, claims.len()) {
            (4, 1, 6) => Ok(claims),
            seen => Err(format!("{seen:?} sessions, deliveries and claims")),
        }
    })
    .await
}

/// Looks that another claim takes each of [`HELD`] within this time.
async fn taken_up(client: &Client, claims: &[String], since: Instant, within: Duration) {
    for ((what, sql), claim) in HELD.iter().zip(claims) {
        let after = eventually(&format!("{what} is taken up"), || async {
            match claim_on(client, sql).await {
                Some(now) if now == *claim => Err(format!("the same claim after {:?}", since.elapsed())),
                _ => Ok(since.elapsed()),
            }
        })
        .await;
        println!("{what}: taken up after {after:?}");
        assert!(after < within, "{what}: after {after:?}; {within:?} are promised");
    }
}

/// Waits until all of [`HELD`] is at its end but the call, which hangs for good, and looks that each was done once.
async fn all_ended_once(client: &Client) {
    let open = "SELECT (SELECT count(*) FROM switchboard.message_inbox WHERE state <> 'done')
                     + (SELECT count(*) FROM tally.route_inbox WHERE state <> 'done')
                     + (SELECT count(*) FROM tally.schedule_runs r JOIN tally.scheduled_tasks t ON t.id = r.task_id
                        WHERE t.name = 'held' AND r.state <> 'done')
                     + (SELECT count(*) FROM shared.outbox WHERE message = '[stall] held' AND state <> 'sent')";
    eventually("all of it is done", || async {
        match number(client, open).await {
            0 => Ok(()),
            n => Err(format!("{n} are not")),
        }
    })
    .await;
    let counted = client.query("SELECT mark FROM tally.counted ORDER BY mark", &[]).await.expect("the marks");
    let counted: Vec<String> = counted.iter().map(|row| row.get(0)).collect();
    assert_eq!(counted, ["cut", "held"], "nothing was done twice");
    for (butler, cut) in [("switchboard", 1), ("tally", 3)] {
        let sql = format!("SELECT count(*) FROM {butler}.sessions WHERE state = 'interrupted'");
        assert_eq!(number(client, &sql).await, cut, "{butler}: what the dead one had open");
        // The one before was closed before the next one began.
        let sql = format!(
            "SELECT count(*) FROM {butler}.sessions a
             JOIN {butler}.sessions b ON (b.route_id = a.route_id OR b.run_id = a.run_id) AND b.queued_at > a.queued_at
             WHERE a.completed_at IS NULL OR a.completed_at > b.queued_at"
        );
        assert_eq!(number(client, &sql).await, 0, "{butler}: two sessions side by side on the same work");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_dead_daemon_held_is_taken_up_by_the_other_as_its_leases_end() {
    // The promise is 35 s with the leases of 30 s that a household has: `RECOVERY_LEASE=30 RECOVERY_SLACK=5`.
    let lease = times("RECOVERY_LEASE", 10);
    let (shared, model, receiver) = (Shared::start().await, hanging_once().await, Receiver::start().await);
    let household = || shared.quiet_household(&model, &receiver, lease);
    let (left, right) = (household(), household());
    let mut one = left.start().await;
    let client = shared.client().await;
    let claims = hold((&left, &one), (&model, &receiver), &client).await;
    let two = right.start().await;
    for ((what, sql), claim) in HELD.iter().zip(&claims) {
        assert_eq!(claim_on(&client, sql).await.as_ref(), Some(claim), "{what}: its daemon lives");
    }
    let killed = Instant::now();
    one.kill();
    taken_up(&client, &claims, killed, Duration::from_secs(lease + times("RECOVERY_SLACK", 10))).await;
    all_ended_once(&client).await;
    drop((one, two, client));
    shared.cluster.stop(Duration::from_secs(20)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_dead_daemon_held_is_taken_up_by_itself_as_it_is_back() {
    let (shared, model, receiver) = (Shared::start().await, hanging_once().await, Receiver::start().await);
    let left = shared.quiet_household(&model, &receiver, 30);
    let mut one = left.start().await;
    let client = shared.client().await;
    let claims = hold((&left, &one), (&model, &receiver), &client).await;
    one.kill();
    let again = left.start().await;
    taken_up(&client, &claims, Instant::now(), taken_up_within()).await;
    all_ended_once(&client).await;
    drop((one, again, client));
    shared.cluster.stop(Duration::from_secs(20)).await;
}

/// Has something sent by the daemon's webhook; nobody waits for the answer.
fn send(daemon: &Daemon, to: &str, message: &str) {
    let said = json!({"intent": "send", "channel": "webhook", "recipient": to, "message": message});
    let mcp = daemon.mcp("general");
    tokio::spawn(async move { mcp.try_call("notify", said).await });
}

/// Waits until the statement's lines are these, in any order.
async fn comes_to(client: &Client, what: &str, sql: &str, expected: &[&str]) {
    eventually(what, || async {
        let rows = client.query(sql, &[]).await.map_err(|e| e.to_string())?;
        let mut lines: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        lines.sort();
        if lines == expected { Ok(()) } else { Err(format!("{lines:?}")) }
    })
    .await;
}

/// Kills the database that is neither's, and waits until it is there again.
async fn kill_database(cluster: &Cluster) {
    let mut state = cluster.state();
    drop(state.borrow_and_update());
    let server = cluster.pid().expect("a server runs");
    unsafe { libc::kill(server, libc::SIGKILL) };
    state.changed().await.expect("its supervisor sees it");
    let up = state.wait_for(|state| *state == ClusterState::Up).await;
    up.expect("its supervisor starts it again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_two_daemons_held_that_were_killed_with_their_database_comes_to_its_end_once() {
    let (shared, model, receiver) = (Shared::start().await, counting().await, Receiver::start().await);
    let (left, right) = (shared.household(&model, &receiver), shared.household(&model, &receiver));
    let (mut one, mut two) = (left.start().await, right.start().await);
    let client = shared.client().await;
    beats(&client, 2).await;
    let stays = [begin(&one, "tally", "stay: here"), begin(&two, "tally", "stay: there")];
    for prompt in ["stay: here", "stay: there"] {
        running(&client, prompt).await;
    }
    for (daemon, mark) in [(&one, "k0"), (&two, "k1"), (&one, "k2")] {
        assert_eq!(begin(daemon, "general", &format!("keep {mark}")).await.expect("an end")["success"], true);
    }
    // The first of each lane is on its way until the end; what follows it to the door waits.
    send(&one, "door", "[stall] door");
    send(&two, "wise", "[stall] wise");
    eventually("both are on their way", || async {
        let arrived = ["[stall] door", "[stall] wise"].map(|message| receiver.of(message).len());
        if arrived == [1, 1] { Ok(()) } else { Err(format!("{arrived:?}")) }
    })
    .await;
    for (daemon, message) in [(&one, "m0"), (&two, "m1"), (&one, "m2"), (&two, "m3")] {
        send(daemon, "door", message);
    }
    let sent = "SELECT message || ' ' || state FROM shared.outbox WHERE channel = 'webhook'";
    let on_their_way =
        ["[stall] door sending", "[stall] wise sending", "m0 pending", "m1 pending", "m2 pending", "m3 pending"];
    comes_to(&client, "all are posted", sent, &on_their_way).await;
    // Some are made by now, one may be under way, and some may wait.
    let asked = "SELECT id::text FROM shared.pending_actions WHERE status = 'pending'";
    for row in client.query(asked, &[]).await.expect("those that wait") {
        let (code, out, err) = tokio::task::block_in_place(|| left.cli(&["approvals", "approve", row.get(0)]));
        assert_eq!(code, 0, "{out}{err}");
    }
    let killed = jiff::Timestamp::now();
    one.signal(libc::SIGKILL);
    two.signal(libc::SIGKILL);
    kill_database(&shared.cluster).await;
    one.kill();
    two.kill();
    stays.iter().for_each(|stay| stay.abort());
    drop(client);
    let (one, two) = (left.start().await, right.start().await);
    let client = shared.client().await;
    let sessions = "SELECT prompt || ' ' || state FROM tally.sessions WHERE prompt LIKE 'stay: %'";
    comes_to(&client, "the sessions", sessions, &["stay: here interrupted", "stay: there interrupted"]).await;
    let over = ["[stall] door unknown", "[stall] wise sent", "m0 sent", "m1 sent", "m2 sent", "m3 sent"];
    comes_to(&client, "all deliveries are at their end", sent, &over).await;
    for message in ["[stall] door", "m0", "m1", "m2", "m3"] {
        assert_eq!(receiver.of(message).len(), 1, "{message}");
    }
    // It knows a repetition, by the one key.
    let keys = receiver.of("[stall] wise").into_iter().map(|hook| hook.headers["idempotency-key"].clone());
    let keys: Vec<String> = keys.collect();
    assert!(keys.len() == 2 && keys[0] == keys[1], "{keys:?}");
    let actions = "SELECT status || ' ' || (handed_back_at IS NOT NULL)::text FROM shared.pending_actions";
    comes_to(&client, "all calls are made and told", actions, &["executed true"; 3]).await;
    let calls = "SELECT count(*) FROM general.tool_calls WHERE tool = 'state_set' AND outcome = 'ok'
                   AND caller LIKE 'approval %'";
    assert_eq!(number(&client, calls).await, 3, "each approved call is made once");
    eventually("the runs of before are at their end", || async {
        let sql = "SELECT count(*) FROM tally.schedule_runs WHERE state IN ('due', 'running') AND fire_at <= $1";
        match client.query_one(sql, &[&killed]).await.map_err(|e| e.to_string())?.get::<_, i64>(0) {
            0 => Ok(()),
            open => Err(format!("{open} are open")),
        }
    })
    .await;
    no_run_has_counted_twice(&client).await;
    let twice = "SELECT count(*) FROM tally.schedule_runs GROUP BY task_id, fire_at HAVING count(*) > 1";
    assert_eq!(client.query(twice, &[]).await.expect("the runs").len(), 0);
    drop((one, two, client));
    shared.cluster.stop(std::time::Duration::from_secs(20)).await;
}
