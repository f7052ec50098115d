//! `kill -9` between every step of an approval and the next, of the daemon or of its database as well: it is taken up as
//! soon as the next daemon is there, one call is made, and its butler is told once.

use serde_json::json;
use testkit::model::ScriptedModel;

use crate::crash::kill_postgres;
use crate::support::tally::{TALLY, died, envelope, insist, rule};
use crate::support::{Household, eventually, model};

async fn butler() -> ScriptedModel {
    model(json!([
        {"when": "A call of `tally_add` that you had made", "steps": [{"say": "I know."}]},
        // The last one: what stands before it is what was said before.
        {"when": "(?s).*count: ([a-z0-9-]+)", "steps": [
            {"call": {"tool": "tally_add", "arguments": {"mark": "{{match.1}}"}}}, {"say": "It waits."}]},
    ]))
    .await
}

/// Dies at each of these points, starts again, and looks.
async fn killed_at(points: &[&str]) {
    let model = butler().await;
    let gate = format!("[modules.{TALLY}]\n\n[modules.approvals.gated_tools.tally_add]");
    let household = Household::few_with_model(&model).with_tally(1).replace(
        "tally/butler.toml",
        &format!("[modules.{TALLY}]"),
        &gate,
    );
    for (n, point) in points.iter().enumerate() {
        let mark = point.replace(['.', '_'], "-");
        let dying = Household::again(&household, "BUTLERD_CRASH_POINT", point);
        let mut daemon = dying.start().await;
        let db = household.owner().await;
        if n == 0 {
            rule(&db, "count", TALLY).await;
        }
        let data = household.data();
        let message = envelope(&mark, "4711", &format!("count: {mark}"), "default");
        let request = insist(&data, &message).await;
        let waiting = "SELECT id::text, status FROM shared.pending_actions WHERE tool_args LIKE $1 ORDER BY seq";
        let like = format!("%\"{mark}\"%");
        // It dies of being asked, or of the approval.
        while !daemon.ended() {
            let Ok(rows) = db.query(waiting, &[&like]).await else { break };
            if let Some(row) = rows.first().filter(|row| row.get::<_, &str>(1) == "pending")
                && !point.contains("park")
                && !point.contains("announc")
            {
                let (household, id) = (Household::again(&household, "X", "x"), row.get::<_, String>(0));
                let decide = move || household.cli(&["approvals", "approve", &id]);
                tokio::task::spawn_blocking(decide).await.expect("the command's end");
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        died(&mut daemon, point).await;
        if n.is_multiple_of(2) {
            kill_postgres(&household);
        }
        drop(daemon);
        drop(db);
        let daemon = household.start_again(point).await;
        let db = household.owner().await;
        let id: String = eventually(&format!("{point}: it waits or was let through"), || async {
            let rows = db.query(waiting, &[&like]).await.map_err(|e| e.to_string())?;
            match &rows[..] {
                [one] => Ok(one.get(0)),
                rows => Err(format!("{} rows", rows.len())),
            }
        })
        .await;
        // That its message is over says that no other try of it is to come.
        crate::inbound::ended(&daemon, &request).await;
        let (code, out, err) = household.cli(&["approvals", "approve", &id]);
        assert!(code == 0 || (out.clone() + &err).contains("already"), "{point}: {out}{err}");
        eventually(&format!("{point}: it was made and told"), || async {
            let sql = "SELECT a.status, a.handed_back_at IS NOT NULL, a.announced_at IS NOT NULL,
                              (SELECT count(*) FROM tally.route_inbox r
                               WHERE r.route #>> '{input,context,action_id}' = a.id::text)
                       FROM shared.pending_actions a WHERE tool_args LIKE $1";
            let rows = db.query(sql, &[&like]).await.map_err(|e| e.to_string())?;
            let seen: Vec<(String, bool, i64)> = rows.iter().map(|r| (r.get(0), r.get(1), r.get(3))).collect();
            if seen == [("executed".to_owned(), true, 1)] { Ok(()) } else { Err(format!("{seen:?}")) }
        })
        .await;
        household.at_rest(point).await;
        assert_eq!(household.counted(&mark).await, 1, "{point}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_a_call_is_parked() {
    killed_at(&["approval.parking", "approval.parked", "approval.announcing", "approval.announced"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_between_approval_and_call() {
    killed_at(&["approval.approved", "approval.claimed", "approval.calling", "approval.called", "approval.tried"])
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_the_outcome_is_told() {
    killed_at(&["approval.settling", "approval.settled", "approval.handing_back", "approval.handed_back"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_after_a_refusal() {
    let model = butler().await;
    let gate = format!("[modules.{TALLY}]\n\n[modules.approvals.gated_tools.tally_add]");
    let household = Household::few_with_model(&model).with_tally(1).replace(
        "tally/butler.toml",
        &format!("[modules.{TALLY}]"),
        &gate,
    );
    let mut daemon = Household::again(&household, "BUTLERD_CRASH_POINT", "approval.rejected").start().await;
    let db = household.owner().await;
    rule(&db, "count", TALLY).await;
    insist(&household.data(), &envelope("no", "4711", "count: no", "default")).await;
    let id: String = eventually("it waits", || async {
        let sql = "SELECT id::text FROM shared.pending_actions WHERE status = 'pending'";
        let row = db.query_opt(sql, &[]).await.map_err(|e| e.to_string())?;
        row.map(|row| row.get(0)).ok_or_else(|| "not yet".to_owned())
    })
    .await;
    drop(db);
    let (code, ..) = tokio::task::block_in_place(|| household.cli(&["approvals", "reject", &id, "--reason", "no"]));
    assert_ne!(code, 0, "the daemon died before it answered");
    died(&mut daemon, "approval.rejected").await;
    drop(daemon);
    let _daemon = household.start().await;
    let db = household.owner().await;
    eventually("its butler is told, once", || async {
        let sql = "SELECT a.status, a.decision_reason, (SELECT count(*) FROM tally.route_inbox r
                    WHERE r.route #>> '{input,context,action_id}' = a.id::text AND r.state = 'done')
                   FROM shared.pending_actions a";
        let row = db.query_one(sql, &[]).await.map_err(|e| e.to_string())?;
        let seen: (String, Option<String>, i64) = (row.get(0), row.get(1), row.get(2));
        if seen == ("rejected".to_owned(), Some("no".to_owned()), 1) { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await;
    let (code, out, err) = household.cli(&["approvals", "approve", &id]);
    assert!(code == 1 && err.contains("rejected already"), "{out}{err}");
    household.at_rest("after the refusal").await;
    assert_eq!(household.counted("no").await, 0);
}
