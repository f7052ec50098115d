//! How often schedules may come, and that what never comes costs nothing.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Household, eventually, model};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_date_that_never_comes_is_refused_as_no_expression() {
    let household = Household::few().with_tally(1);
    let daemon = household.start().await;
    let tally = daemon.mcp("tally");
    for cron in ["* * 30 2 *", "* * * 31 2,4,6,9,11 *", "* * 31 4 +1"] {
        let wish = json!({"name": "never", "cron": cron, "prompt": "x"});
        let made = tally.ok("schedule_create", wish).await;
        assert_eq!(made["code"], "invalid_cron", "{cron}: {made}");
        assert!(made["error"].as_str().is_some_and(|e| e.contains("a date that never comes")), "{cron}: {made}");
    }
    let leap = json!({"name": "leap", "cron": "0 9 29 2 +0", "prompt": "x"});
    assert_eq!(tally.ok("schedule_create", leap).await["status"], "created");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_makes_a_schedule_that_comes_too_often() {
    let household = Household::few().with_tally(1);
    let daemon = household.start().await;
    let tally = daemon.mcp("tally");
    let create = |more: Value| {
        let mut wish = json!({"name": more.to_string(), "prompt": "x"});
        wish.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        let tally = &tally;
        async move { tally.ok("schedule_create", wish).await }
    };
    for often in ["* * * * * *", "*/59 * * * * *", "0,30 0 8 1 1 *"] {
        let refused = create(json!({"cron": often})).await;
        assert_eq!(refused["code"], "too_often", "{often}: {refused}");
        assert!(refused["error"].as_str().is_some_and(|e| e.contains("min_interval is 1m")), "{refused}");
    }
    assert_eq!(create(json!({"every": "59s"})).await["code"], "too_often");
    let made = create(json!({"every": "1m"})).await;
    assert_eq!(made["status"], "created", "{made}");
    let changed = tally.ok("schedule_update", json!({"id": made["id"], "every": "1s"})).await;
    assert_eq!(changed["code"], "too_often", "{changed}");
    let changed = tally.ok("schedule_update", json!({"id": made["id"], "cron": "* * * * * *"})).await;
    assert_eq!(changed["code"], "too_often", "{changed}");
}

/// A schedule from before the limit was raised comes as often as the limit says, and can be switched off.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_from_before_the_limit_is_slowed_down() {
    let model = model(json!([{"when": "water", "steps": [{"say": "watered"}]}])).await;
    let household = Household::few_with_model(&model).with_tally(1).env("BUTLERD_SCHEDULES__MIN_INTERVAL", "1s");
    let mut daemon = household.start().await;
    let wish = json!({"name": "plants", "cron": "* * * * * *", "prompt": "water the plants"});
    let made = daemon.mcp("tally").ok("schedule_create", wish).await;
    assert_eq!(made["status"], "created", "{made}");
    assert_eq!(daemon.stop_blocking(), 0);

    let household = Household::again(&household, "BUTLERD_SCHEDULES__MIN_INTERVAL", "1h");
    let daemon = household.start().await;
    let tally = daemon.mcp("tally");
    let plants = || async {
        let list = tally.ok("schedule_list", json!({})).await;
        list.as_array().into_iter().flatten().find(|s| s["name"] == "plants").cloned().unwrap_or_default()
    };
    let moment = |row: &Value, key: &str| row[key].as_str().and_then(|at| at.parse::<jiff::Timestamp>().ok());
    eventually("its next time is an hour after its last one", || async {
        let row = plants().await;
        match (moment(&row, "last_run_at"), moment(&row, "next_run_at")) {
            (Some(last), Some(next)) if next.duration_since(last).unsigned_abs() > Duration::from_secs(3000) => Ok(()),
            _ => Err(row.to_string()),
        }
    })
    .await;
    let paused = tally.ok("schedule_update", json!({"id": made["id"], "enabled": false})).await;
    assert_eq!(paused["status"], "updated", "{paused}");
}
