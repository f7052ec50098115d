//! Ways around the tenant, the trust and the record that a roster or a model might try.

use serde_json::{Value, json};

use crate::support::{Household, eventually, model};

async fn failed_migration(sql: &str) -> String {
    let household = Household::new().migration("health", "more", sql);
    let daemon = household.start().await;
    let failed = daemon.butler("health").await["modules"]["health"].clone();
    assert_eq!(
        (&failed["health"], &failed["failure_phase"]),
        (&json!("failed"), &json!("migration")),
        "{sql}: {failed}"
    );
    failed["failure_error"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn migrations_that_would_show_other_tenants_are_refused() {
    for (sql, words) in [
        ("CREATE VIEW all_of_it AS SELECT * FROM measurements;", ["all_of_it", "security_invoker"]),
        ("CREATE MATERIALIZED VIEW copied AS SELECT * FROM measurements;", ["copied", "policy"]),
        ("CREATE TABLE bare (id int);", ["bare", "tenant_table"]),
        (
            "CREATE FUNCTION sly() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'SELECT 1';",
            ["sly()", "SECURITY DEFINER"],
        ),
        (
            "CREATE FUNCTION hop(t text) RETURNS text LANGUAGE plpgsql AS $$\nBEGIN\n  RETURN set_config('butlerd.tenant', t, false);\nEND $$;",
            ["009_more.sql:3", "set_config"],
        ),
        ("CREATE FUNCTION f() RETURNS timestamptz LANGUAGE sql AS $$ SELECT now() $$;", ["now", "shared.clock()"]),
    ] {
        let error = failed_migration(sql).await;
        assert!(words.iter().all(|w| error.contains(w)), "{sql}: {error}");
    }
    let fine = "CREATE VIEW mine WITH (security_invoker = true) AS SELECT * FROM measurements;";
    let household = Household::new().migration("health", "more", fine);
    let daemon = household.start().await;
    assert_eq!(daemon.butler("health").await["modules"]["health"]["health"], "active");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_that_hide_what_they_do_are_refused_or_held_to_it() {
    let head = "/*---\ndescription: d\nargs:\n  t: {type: string, required: true}\nreturns: value\n---*/\n";
    for (sql, word) in [
        ("SELECT \"set_config\"('butlerd.tenant', :t::text, false)", "set_config"),
        ("SELECT :t::text INTO x", "INTO"),
        ("DO $$ BEGIN PERFORM 1; END $$", "DO"),
    ] {
        let household = Household::new().write("health/tools/sly.sql", &format!("{head}{sql}\n"));
        let daemon = household.start().await;
        let failed = daemon.butler("health").await["modules"]["health"]["failure_error"].clone();
        assert!(failed.as_str().is_some_and(|e| e.contains(word) && e.contains("sly.sql:")), "{sql}: {failed}");
    }
    // A function that says it is stable and writes: the server refuses, because the tool was taken for a read.
    let migration = "CREATE TABLE quiet (t text); SELECT shared.tenant_table('quiet');
        CREATE FUNCTION sly(x text) RETURNS text LANGUAGE plpgsql STABLE AS $$
        BEGIN EXECUTE format('INSERT INTO quiet (t) VALUES (%L)', x); RETURN x; END $$;";
    let household = Household::new()
        .migration("health", "more", migration)
        .write("health/tools/sly.sql", &format!("{head}SELECT sly(:t::text)\n"))
        .write("health/tools/big.sql", &format!("{}INSERT INTO quiet (t) VALUES (:t::text) RETURNING 10::numeric ^ 40 AS n, 'infinity'::timestamptz AS at\n", head.replace("value", "row")))
        .write("health/tools/quiet_list.sql", "/*---\ndescription: d\nreturns: rows\n---*/\nSELECT t FROM quiet\n");
    let daemon = household.start().await;
    let health = daemon.mcp("health");
    let refused = health.call("sly", json!({"t": "x"})).await;
    assert_eq!(refused.body["result"]["isError"], json!(true), "{refused:?}");
    assert_eq!(health.ok("quiet_list", json!({})).await, json!([]));
    // What was done is told, however odd its result.
    let big = health.ok("big", json!({"t": "y\u{0}z"})).await;
    assert!(big["n"].as_str().is_some_and(|n| n.starts_with("1000000")), "{big}");
    assert_eq!(big["at"], "infinity");
    assert_eq!(health.ok("quiet_list", json!({})).await, json!([{"t": "yz"}]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_launders_neither_trust_nor_lineage_and_waits_for_no_slot_of_its_own() {
    let model = model(json!([
        {"when": "outer", "steps": [
            {"call": {"tool": "schedule_create", "arguments": {"name": "s", "cron": "0 0 1 1 *", "prompt": "inner"}}},
            {"call": {"tool": "schedule_trigger", "arguments": {"id": "{{result.0./id}}"}}},
            {"say": "{{last_result}}"}]},
        {"when": "inner", "steps": [{"say": "inner done"}]},
    ]))
    .await;
    let household = Household::with_model(&model);
    let daemon = household.start().await;
    let general = daemon.mcp("general");
    let outer = general.ok("trigger", json!({"prompt": "outer"})).await;
    assert_eq!(outer["success"], true, "{outer}");
    let sessions = general.ok("sessions_list", json!({})).await;
    let sessions = sessions.as_array().expect("a list");
    let inner = sessions.iter().find(|s| s["trigger_source"] == "schedule:s").expect("the inner session");
    assert_eq!(inner["parent_session_id"], outer["session_id"], "{inner}");
    assert_eq!(inner["state"], "succeeded");
    drop(daemon);
    // With a single slot the inner one is refused at once, and the outer one goes on.
    let single = household.replace("general/butler.toml", "max_concurrent_sessions = 3", "max_concurrent_sessions = 1");
    let daemon = single.start().await;
    let general = daemon.mcp("general");
    let schedules = general.ok("schedule_list", json!({})).await;
    let own = schedules.as_array().and_then(|all| all.iter().find(|s| s["name"] == "s")).expect("the schedule");
    general.ok("schedule_delete", json!({"id": own["id"]})).await;
    let outer = general.ok("trigger", json!({"prompt": "outer"})).await;
    assert_eq!(outer["success"], true, "{outer}");
    assert!(outer["output"].as_str().is_some_and(|o| o.contains("no session of general is free")), "{outer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nul_in_an_argument_does_not_stop_the_record() {
    let household = Household::new();
    let daemon = household.start().await;
    let general = daemon.mcp("general");
    general.ok("state_get", json!({"key": "a\u{0}b"})).await;
    general.ok("state_get", json!({"key": "later"})).await;
    let client = household.role("general").await;
    client.batch_execute("SET butlerd.tenant = 'owner'").await.expect("a setting");
    eventually("both calls are on record", || async {
        let sql = "SELECT count(*) FROM tool_calls WHERE tool = 'state_get'";
        let n: i64 = client.query_one(sql, &[]).await.expect("a count").get(0);
        if n == 2 { Ok(()) } else { Err(format!("{n} rows")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_tenants_session_is_closed_and_a_changed_password_is_set_again() {
    let model = model(json!([{"when": "hang", "steps": [{"hang": true}]}])).await;
    let household = Household::with_model(&model);
    let mut daemon = household.start().await;
    let (code, out, err) = household.cli(&["token", "new", "--tenant", "neighbour", "--scope", "tools", "--json"]);
    assert_eq!(code, 0, "{err}");
    let token: Value = serde_json::from_str(&out).expect("JSON");
    let token = token["token"].as_str().expect("a token").to_owned();
    let neighbour = daemon.mcp("general").with_token(Some(&token));
    let refused = neighbour.ok("module.set_enabled", json!({"name": "general", "enabled": false})).await;
    assert_eq!(refused["status"], "error", "{refused}");
    let hanging = neighbour.clone();
    let trigger = tokio::spawn(async move {
        tokio::time::timeout(std::time::Duration::from_secs(60), hanging.call("trigger", json!({"prompt": "hang"})))
            .await
            .ok()
    });
    eventually("the neighbour's session runs", || async {
        let n = daemon.butler("general").await["sessions_running"].as_u64();
        if n == Some(1) { Ok(()) } else { Err(format!("{n:?}")) }
    })
    .await;
    let client = household.role("general").await;
    client.batch_execute("ALTER ROLE butler_general PASSWORD 'mine now'").await.expect("a role may do that");
    daemon.kill();
    trigger.abort();
    let daemon = household.start().await;
    assert_eq!(daemon.butler("general").await["state"], "up");
    let sessions = daemon.mcp("general").with_token(Some(&token)).ok("sessions_list", json!({})).await;
    assert_eq!(sessions[0]["state"], "interrupted", "{sessions}");
}
