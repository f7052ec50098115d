//! Who may settle what waits in a queue: a worker that stood still while another node took its row over writes nothing,
//! and the row comes to its end once. `inbound_claims` has messages and their parts; here are the other queues.

use std::collections::BTreeSet;

use serde_json::json;
use tokio_postgres::Client;

use crate::delivery_storm::try_notify;
use crate::support::council::{chairman, member, with_council};
use crate::support::graphiti::Graphiti;
use crate::support::tally::{TALLY, counting_model, envelope, insist, rule, standing_at, stands_still};
use crate::support::{Daemon, Household, Receiver, eventually, model};

/// The claim of a node that is none of these.
const OTHERS: &str = "00000000-0000-4000-8000-000000000001";

/// Starts a daemon that stands still between a try of this queue and what is written of it.
async fn start(household: &Household, queue: &str) -> Daemon {
    standing_at(household, &format!("{queue}.tried")).await
}

/// The row in the other node's hands, with all that it has.
async fn row(client: &Client, table: &str) -> String {
    let sql = format!("SELECT to_jsonb(t)::text FROM {table} t WHERE claim_id = '{OTHERS}'");
    client.query_one(&sql, &[]).await.expect("the row in the other's hands").get(0)
}

/// Takes the one row in hand away from the daemon that stands still, as another node does once the lease is over, and
/// looks that the daemon settles nothing when it goes on.
async fn taken_away(household: &Household, daemon: &Daemon, queue: &str, table: &str) -> Client {
    stands_still(daemon, &format!("{queue}.tried")).await;
    let client = household.owner().await;
    client.batch_execute("SET butlerd.house = 'on'").await.expect("a setting");
    let sql = format!(
        "UPDATE {table} SET claim_id = '{OTHERS}', claimed_by = 'another:node',
                lease_until = clock_timestamp() + interval '1 hour' WHERE claim_id IS NOT NULL"
    );
    assert_eq!(client.execute(&sql, &[]).await.expect("an update"), 1, "{queue}: one row is in hand");
    let taken = row(&client, table).await;
    daemon.signal(libc::SIGCONT);
    let queue = format!("queue=\"{queue}\"");
    daemon.logged(&["another claim holds this row", &queue], 1).await;
    assert_eq!(row(&client, table).await, taken, "{queue}: it settled nothing");
    client
}

/// The other node is gone: its lease is over.
async fn other_is_gone(client: &Client, table: &str) {
    let sql =
        format!("UPDATE {table} SET lease_until = clock_timestamp() - interval '1 s' WHERE claim_id = '{OTHERS}'");
    assert_eq!(client.execute(&sql, &[]).await.expect("an update"), 1, "{table}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_whose_claim_is_lost_is_not_settled() {
    let receiver = Receiver::start().await;
    let household = Household::few().with_tally(1).with_webhook(&receiver, "");
    let daemon = start(&household, "outbox").await;
    let data = household.data();
    let to = |endpoint: &str, message: &str| json!({"intent": "send", "channel": "webhook", "recipient": endpoint, "message": message});
    let stale = to("door", "stale");
    let sending = tokio::spawn(async move { try_notify(&data, TALLY, &stale).await });
    let client = taken_away(&household, &daemon, "outbox", "shared.outbox").await;
    sending.await.expect("the call ends");
    assert_eq!(receiver.of("stale").len(), 1, "it had left");
    other_is_gone(&client, "shared.outbox").await;
    // Another one wakes the pump.
    daemon.mcp(TALLY).ok("notify", to("wise", "another")).await;
    household.all_delivered("taken over").await;
    household.each_has_a_notice("taken over").await;
    household.invariants("taken over").await;
    let sql = "SELECT message || ' ' || state FROM shared.outbox WHERE channel = 'webhook' ORDER BY seq";
    let states: Vec<String> = client.query(sql, &[]).await.expect("rows").iter().map(|row| row.get(0)).collect();
    // Whoever saw its answer could not write it down, and the door knows no repetition.
    assert_eq!(states, ["stale unknown", "another sent"]);
    assert_eq!((receiver.of("stale").len(), receiver.of("another").len()), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedules_run_whose_claim_is_lost_is_not_settled() {
    let model = counting_model(0).await;
    let household = Household::few_with_model(&model).with_tally(1);
    let daemon = start(&household, "schedule").await;
    let (tally, stale) = (daemon.mcp(TALLY), json!({"name": "stale", "in": "1s", "prompt": "count: stale"}));
    let making = tokio::spawn(async move { tally.ok("schedule_create", stale).await });
    let client = taken_away(&household, &daemon, "schedule", "tally.schedule_runs").await;
    making.await.expect("it is made");
    other_is_gone(&client, "tally.schedule_runs").await;
    // Another one wakes the loop.
    let later = json!({"name": "later", "in": "2h", "prompt": "count: later"});
    daemon.mcp(TALLY).ok("schedule_create", later).await;
    household.at_rest("taken over").await;
    let sql = "SELECT state || ' ' || attempts FROM tally.schedule_runs";
    let states: Vec<String> = client.query(sql, &[]).await.expect("runs").iter().map(|row| row.get(0)).collect();
    assert_eq!(states, ["done 2"]);
    assert_eq!(household.counted("stale").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approved_call_whose_claim_is_lost_is_not_settled() {
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
    let daemon = start(&household, "approval").await;
    let client = household.owner().await;
    rule(&client, "count", TALLY).await;
    // Has one wait; its id.
    let waiting = async |mark: &str| {
        insist(&household.data(), &envelope(mark, "4711", &format!("count: {mark}"), "default")).await;
        eventually("it waits", || async {
            let sql = "SELECT id::text FROM shared.pending_actions WHERE status = 'pending'";
            let row = client.query_opt(sql, &[]).await.map_err(|e| e.to_string())?;
            row.map(|row| row.get::<_, String>(0)).ok_or_else(|| "not yet".to_owned())
        })
        .await
    };
    // The command's answer may come once the daemon goes on.
    let approved = |id: String| {
        let household = Household::again(&household, "X", "x");
        tokio::task::spawn_blocking(move || household.cli(&["approvals", "approve", &id]))
    };
    let stale = approved(waiting("stale").await);
    let taken = taken_away(&household, &daemon, "approval", "shared.pending_actions").await;
    let (code, out, err) = stale.await.expect("the command's end");
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(household.counted("stale").await, 1, "it was made");
    other_is_gone(&taken, "shared.pending_actions").await;
    // Another one wakes the worker.
    let (code, out, err) = approved(waiting("another").await).await.expect("the command's end");
    assert_eq!(code, 0, "{out}{err}");
    eventually("both were made and told", || async {
        let sql = "SELECT a.status, a.handed_back_at IS NOT NULL,
                          (SELECT count(*) FROM tally.route_inbox r
                           WHERE r.route #>> '{input,context,action_id}' = a.id::text)
                   FROM shared.pending_actions a";
        let rows = client.query(sql, &[]).await.map_err(|e| e.to_string())?;
        let seen: Vec<(String, bool, i64)> = rows.iter().map(|r| (r.get(0), r.get(1), r.get(2))).collect();
        let end = ("executed".to_owned(), true, 1);
        if seen == [end.clone(), end] { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await;
    household.at_rest("taken over").await;
    assert_eq!((household.counted("stale").await, household.counted("another").await), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_episode_of_the_council_whose_claim_is_lost_is_not_settled() {
    let Some(graphiti) = Graphiti::plain().await else { return };
    let (one, two) = (member("Rent.", "1. Response A").await, member("Buy.", "1. Response A").await);
    let own = chairman("Rent for now.", "?").await;
    let graph = format!("\n[modules.council.graphiti]\nurl = \"{}\"\n", graphiti.url);
    let household = with_council(&own, &[("one", "model-a", &one), ("two", "model-b", &two)], &graph);
    let daemon = start(&household, "episode").await;
    let asking = Household::again(&household, "X", "x");
    let asked = tokio::task::spawn_blocking(move || asking.asks_council("Rent or buy?"));
    let client = taken_away(&household, &daemon, "episode", "council.council_episodes").await;
    assert_eq!(asked.await.expect("its end")["output"], "Rent for now.");
    assert_eq!(graphiti.episodes("llm_council").await.len(), 1, "it had arrived, and those behind it wait");
    other_is_gone(&client, "council.council_episodes").await;
    eventually("all are told", || async {
        let sql = "SELECT state FROM council.council_episodes ORDER BY seq";
        let rows = client.query(sql, &[]).await.map_err(|e| e.to_string())?;
        let states: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        if states == ["sent"; 4] { Ok(()) } else { Err(format!("{states:?}")) }
    })
    .await;
    let episodes = graphiti.episodes("llm_council").await;
    let told: BTreeSet<String> = episodes.iter().map(|episode| episode["source_description"].to_string()).collect();
    assert_eq!((episodes.len(), told.len()), (4, 4), "{told:?}");
}
