//! Connectors and their backfills, and the registry of butlers.

use serde_json::{Value, json};

use crate::support::{Household, eventually};

fn heartbeat(endpoint: &str, instance: &str, state: &str) -> Value {
    json!({"schema_version": "connector.heartbeat.v1",
           "connector": {"connector_type": "gmail", "endpoint_identity": endpoint, "instance_id": instance},
           "status": {"state": state, "uptime_s": 60},
           "counters": {"messages_ingested": 3, "messages_failed": 0, "source_api_calls": 9, "checkpoint_saves": 1,
                        "dedupe_accepted": 0},
           "checkpoint": {"cursor": "h-17", "updated_at": "2026-11-01T08:00:00Z"},
           "sent_at": "2026-11-01T08:00:00Z"})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connectors_register_by_their_heartbeat_and_backfills_keep_to_their_limits() {
    // A backfill's rows are counted by the hour, which is not to end meanwhile: the clock shows the first half of one.
    let late = jiff::Timestamp::now().as_second() / 60 % 60 >= 30;
    let household = Household::new().env("BUTLERD_CLOCK_OFFSET", if late { "30m" } else { "0s" });
    let daemon = household.start().await;
    let switchboard = daemon.mcp("switchboard");
    let refused = async |tool: &str, args: Value, code: &str| {
        let answer = switchboard.call(tool, args).await;
        assert_eq!(answer.text()["code"], code, "{tool}: {answer:?}");
    };
    let accepted = switchboard.ok("connector.heartbeat", heartbeat("home", "a", "healthy")).await;
    assert_eq!(accepted["status"], "accepted", "{accepted}");
    let mut next = heartbeat("home", "b", "degraded");
    next.as_object_mut().expect("an object").remove("checkpoint");
    switchboard.ok("connector.heartbeat", next).await;
    let list = switchboard.ok("connector_list", json!({})).await;
    assert_eq!(list.as_array().map(Vec::len), Some(1), "one for each endpoint: {list}");
    assert_eq!((&list[0]["liveness"], &list[0]["state"]), (&json!("online"), &json!("degraded")), "{list}");
    assert_eq!(list[0]["checkpoint"]["cursor"], "h-17", "what it did not tell again is kept: {list}");
    let mut wrong = heartbeat("home", "b", "fine");
    refused("connector.heartbeat", wrong.clone(), "invalid_arguments").await;
    wrong = heartbeat("home", "b", "healthy");
    wrong["counters"]["messages_ingested"] = json!(-1);
    refused("connector.heartbeat", wrong, "invalid_arguments").await;
    let gmail = json!({"connector_type": "gmail", "endpoint_identity": "home"});
    switchboard.ok("connector_disconnect", gmail.clone()).await;
    let list = switchboard.ok("connector_list", json!({})).await;
    assert_eq!(list[0]["liveness"], "disconnected", "{list}");
    switchboard.ok("connector.heartbeat", heartbeat("home", "b", "healthy")).await;
    let list = switchboard.ok("connector_list", json!({})).await;
    assert_eq!(list[0]["liveness"], "online", "it is back: {list}");
    refused("connector_disconnect", json!({"connector_type": "gmail", "endpoint_identity": "x"}), "not_found").await;

    let with = |more: Value| {
        let mut args = gmail.clone();
        for (key, value) in more.as_object().expect("an object") {
            args[key] = value.clone();
        }
        args
    };
    assert_eq!(switchboard.ok("backfill.poll", gmail.clone()).await["job"], Value::Null);
    let days = json!({"target_categories": ["inbox"], "date_from": "2026-01-01", "date_to": "2026-01-31"});
    let mut turned = with(days.clone());
    turned["date_to"] = json!("2025-12-31");
    refused("create_backfill_job", turned, "wrong_days").await;
    let mut wish = with(days);
    wish["rate_limit_per_hour"] = json!(10);
    wish["daily_cost_cap_cents"] = json!(50);
    let job = switchboard.ok("create_backfill_job", wish.clone()).await;
    assert_eq!((&job["status"], &job["date_to"]), (&json!("pending"), &json!("2026-01-31")), "{job}");
    let id = job["job_id"].clone();
    let polled = switchboard.ok("backfill.poll", gmail.clone()).await;
    assert_eq!((&polled["job"]["job_id"], &polled["job"]["status"]), (&id, &json!("active")), "{polled}");
    assert_eq!(polled["job"]["rows_left_this_hour"], 10, "{polled}");
    let report = |rows: i64, cents: i64, more: Value| {
        let mut args = with(json!({"job_id": id, "rows_processed": rows, "rows_skipped": 0,
                                   "cost_spent_cents_delta": cents, "cursor": {"page": rows}}));
        for (key, value) in more.as_object().expect("an object") {
            args[key] = value.clone();
        }
        args
    };
    let told = switchboard.ok("backfill.progress", report(4, 10, json!({}))).await;
    assert_eq!((&told["continue"], &told["rows_left_this_hour"]), (&json!(true), &json!(6)), "{told}");
    let told = switchboard.ok("backfill.progress", report(6, 10, json!({}))).await;
    assert_eq!(told["continue"], false, "the hour's rows are used up: {told}");
    assert!(told["retry_after_s"].as_i64().is_some_and(|s| (1..=3600).contains(&s)), "{told}");
    let polled = switchboard.ok("backfill.poll", gmail.clone()).await;
    assert!(polled["job"].is_null() && polled["retry_after_s"].is_i64(), "{polled}");
    let told = switchboard.ok("backfill.progress", report(0, 30, json!({}))).await;
    assert_eq!((&told["job_status"], &told["continue"]), (&json!("cost_capped"), &json!(false)), "{told}");
    assert_eq!(switchboard.ok("backfill.poll", gmail.clone()).await["job"], Value::Null);
    // Neither does pausing and resuming get it past the day's money; the next day does, in the next hour.
    switchboard.ok("backfill_pause", json!({"job_id": id})).await;
    switchboard.ok("backfill_resume", json!({"job_id": id})).await;
    assert_eq!(switchboard.ok("backfill.poll", gmail.clone()).await, json!({"job": null}));
    let role = household.role("switchboard").await;
    role.batch_execute("SET butlerd.tenant = 'owner'").await.expect("a setting");
    let sql = "UPDATE backfill_jobs SET day = day - 1, hour = hour - interval '1 hour'";
    assert_eq!(role.execute(sql, &[]).await.expect("an update"), 1);
    let polled = switchboard.ok("backfill.poll", gmail.clone()).await;
    assert_eq!((&polled["job"]["rows_left_this_hour"], &polled["job"]["cents_left_today"]), (&json!(10), &json!(50)));
    assert_eq!(polled["job"]["cursor"], json!({"page": 0}), "{polled}");
    switchboard.ok("backfill_pause", json!({"job_id": id})).await;
    assert_eq!(switchboard.ok("backfill.poll", gmail.clone()).await["job"], Value::Null);
    let told = switchboard.ok("backfill.progress", report(1, 0, json!({}))).await;
    assert_eq!((&told["job_status"], &told["continue"]), (&json!("paused"), &json!(false)), "{told}");
    let mut elsewhere = report(1, 0, json!({}));
    elsewhere["endpoint_identity"] = json!("other");
    refused("backfill.progress", elsewhere, "not_found").await;
    switchboard.ok("backfill_resume", json!({"job_id": id})).await;
    let told = switchboard.ok("backfill.progress", report(1, 0, json!({"status": "completed"}))).await;
    assert_eq!(told["job_status"], "completed", "{told}");
    refused("backfill.progress", report(1, 0, json!({})), "not_found").await;
    refused("backfill_cancel", json!({"job_id": id}), "wrong_state").await;
    let second = switchboard.ok("create_backfill_job", wish).await;
    let gone = switchboard.ok("backfill_cancel", json!({"job_id": second["job_id"]})).await;
    assert_eq!(gone["status"], "cancelled", "{gone}");
    refused("backfill_resume", json!({"job_id": second["job_id"]}), "wrong_state").await;
    refused("backfill_pause", json!({"job_id": "01890000-0000-7000-8000-000000000000"}), "not_found").await;
    let done = switchboard.ok("backfill_list", json!({"status": "completed"})).await;
    assert_eq!((&done[0]["rows_processed"], &done[0]["cost_spent_cents"]), (&json!(12), &json!(50)), "{done}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn butlers_are_registered_while_they_live_and_nothing_goes_to_others() {
    let household = Household::whole()
        .replace("general/butler.toml", "liveness_ttl = \"5m\"", "liveness_ttl = \"2s\"")
        .replace("travel/butler.toml", "route_contract_min = 1", "route_contract_min = 2")
        .replace("travel/butler.toml", "route_contract_max = 1", "route_contract_max = 3");
    let daemon = household.start().await;
    let role = household.role("switchboard").await;
    role.batch_execute("SET butlerd.tenant = 'owner'").await.expect("a setting");
    let ghost = "INSERT INTO butler_registry (name, endpoint_url, description, modules, route_contract_min,
                     route_contract_max, liveness_ttl_s, last_seen_at)
                 VALUES ('ghost', 'http://127.0.0.1:1/mcp', 'Somewhere else', '{}', 1, 1, 6, clock_timestamp())";
    role.batch_execute(ghost).await.expect("a row");
    let states = async |name: &str| {
        let sql = "SELECT coalesce(from_state || '>', '') || to_state FROM butler_registry_eligibility_log
                   WHERE name = $1 ORDER BY id";
        let rows = role.query(sql, &[&name]).await.expect("the log");
        rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>()
    };
    let wait = async |name: &str, expected: &[&str]| {
        eventually("a butler's states", || async {
            let seen = states(name).await;
            if seen == expected { Ok(()) } else { Err(format!("{name}: {seen:?}")) }
        })
        .await;
    };
    let general = eventually("general is there", || async {
        let seen = states("general").await;
        if seen.last().is_some_and(|s| s.ends_with("active")) { Ok(seen) } else { Err(format!("{seen:?}")) }
    })
    .await;
    wait("ghost", &["active", "active>stale", "stale>quarantined"]).await;
    let list = daemon.mcp("health").ok("list_butlers", json!({})).await;
    let of = |name: &str| {
        let found = list.as_array().into_iter().flatten().find(|butler| butler["name"] == name);
        found.cloned().unwrap_or_else(|| panic!("no {name} in {list}"))
    };
    assert_eq!((&of("ghost")["eligibility"], &of("ghost")["routable"]), (&json!("quarantined"), &json!(false)));
    assert_eq!((&of("health")["eligibility"], &of("health")["you"]), (&json!("active"), &json!(true)));
    assert_eq!(of("general")["routable"], true, "it is renewed in time: {list}");
    assert_eq!((&of("travel")["eligibility"], &of("travel")["routable"]), (&json!("active"), &json!(false)));
    let routable = daemon.mcp("health").ok("list_butlers", json!({"routable_only": true})).await;
    let names: Vec<&str> = routable.as_array().into_iter().flatten().filter_map(|b| b["name"].as_str()).collect();
    assert_eq!(names, ["finance", "general", "health", "relationship"]);
    let answer = daemon
        .mcp("switchboard")
        .call("triage_rule_add", json!({"kind": "substring", "pattern": "x", "action": "route_to", "butler": "travel"}))
        .await;
    assert_eq!(answer.text()["code"], "unknown_butler", "{answer:?}");
    role.batch_execute(
        "UPDATE butler_registry SET last_seen_at = clock_timestamp() + interval '1 hour' WHERE name = 'ghost'",
    )
    .await
    .expect("a sign of life");
    wait("ghost", &["active", "active>stale", "stale>quarantined", "quarantined>active"]).await;
    assert_eq!(states("general").await, general, "{}", daemon.log());
}
