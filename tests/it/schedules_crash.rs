//! `kill -9` between every step of a schedule's run and the next, of the daemon or of its database as well: it is taken
//! up as soon as the next daemon is there, ends all the same, and nothing is done twice.

use serde_json::json;

use crate::crash::kill_postgres;
use crate::support::tally::{counting_model, died};
use crate::support::{Household, eventually};

/// Dies at each of these points with a run on its way, starts again, and looks.
async fn killed_at(points: &[&str]) {
    let model = counting_model(0).await;
    let household = Household::few_with_model(&model).with_tally(1);
    for (n, point) in points.iter().enumerate() {
        let mark = point.replace('.', "-");
        let dying = Household::again(&household, "BUTLERD_CRASH_POINT", point);
        let mut daemon = dying.start().await;
        let schedule = json!({"name": mark, "in": "1s", "prompt": format!("count: {mark}")});
        daemon.mcp("tally").ok("schedule_create", schedule).await;
        died(&mut daemon, point).await;
        if n.is_multiple_of(2) {
            kill_postgres(&household);
        }
        drop(daemon);
        let daemon = household.start_again(point).await;
        let client = household.owner().await;
        let (state, reason) = eventually(&format!("{point}: the run is at its end"), || async {
            let sql =
                "SELECT r.state, r.reason FROM tally.schedule_runs r JOIN tally.scheduled_tasks t ON t.id = r.task_id
                       WHERE t.name = $1";
            let rows = client.query(sql, &[&mark]).await.map_err(|e| e.to_string())?;
            match &rows[..] {
                [one] if one.get::<_, Option<String>>(0).is_some_and(|s| s == "done" || s == "failed") => {
                    Ok((one.get::<_, String>(0), one.get::<_, Option<String>>(1)))
                }
                rows => Err(format!("{:?}", rows.iter().map(|r| r.get::<_, String>(0)).collect::<Vec<_>>())),
            }
        })
        .await;
        household.at_rest(point).await;
        assert_eq!(household.counted(&mark).await, 1, "{point}: {state} {reason:?}");
        if state == "failed" {
            // Its tool had been called and its end was not on record: nobody may try that again.
            let why = reason.unwrap_or_default();
            assert!(*point == "schedule.dispatched" && why.contains("tally_add"), "{point}: {why}");
        }
        let list = daemon.mcp("tally").ok("schedule_list", json!({})).await;
        let entry = list.as_array().expect("a list").iter().find(|s| s["name"] == mark).expect("the schedule").clone();
        assert_eq!((&entry["enabled"], &entry["next_run_at"]), (&json!(false), &json!(null)), "{point}: {entry}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_a_schedule_comes_due() {
    killed_at(&["schedule.due", "schedule.claimed", "schedule.dispatched"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_a_schedules_run_ends() {
    killed_at(&["schedule.tried", "schedule.settled"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_by_hand_that_is_killed_has_failed_and_says_so() {
    let model = counting_model(0).await;
    let household = Household::few_with_model(&model).with_tally(1);
    let mut daemon = Household::again(&household, "BUTLERD_CRASH_POINT", "schedule.claimed").start().await;
    let tally = daemon.mcp("tally");
    let schedule = json!({"name": "by-hand", "cron": "0 0 1 1 *", "prompt": "count: by-hand"});
    let made = tally.ok("schedule_create", schedule).await;
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                      "params": {"name": "schedule_trigger", "arguments": {"id": made["id"]}}});
    let port = daemon.port("tally");
    let request = crate::support::http()
        .post(format!("http://127.0.0.1:{port}/mcp"))
        .bearer_auth(daemon.token())
        .header("accept", "application/json, text/event-stream")
        .json(&body)
        .send();
    assert!(request.await.is_err(), "the daemon died of it");
    died(&mut daemon, "schedule.claimed").await;
    drop(daemon);
    let _daemon = household.start().await;
    let client = household.owner().await;
    let row = client.query_one("SELECT state, reason FROM tally.schedule_runs", &[]).await.expect("one run");
    let (state, reason): (String, String) = (row.get(0), row.get(1));
    assert!(state == "failed" && reason.contains("butlerd stopped"), "{state} {reason}");
    assert_eq!(household.counted("by-hand").await, 0);
}
