//! Tool calls: results, refusals, audit rows, cancellation, sizes.

use serde_json::{Value, json};

use crate::support::{Household, eventually};

const PROBE: &str = "[butler]\nname = \"tester\"\nport = 40190\ndescription = \"for tests\"\n\n[modules.probe]\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn core_tools_answer_in_their_known_shapes() {
    let household = Household::new();
    let daemon = household.start().await;
    let general = daemon.mcp("general");
    let tools = general.tools().await;
    for name in [
        "status",
        "trigger",
        "tick",
        "state_get",
        "state_set",
        "state_delete",
        "state_list",
        "schedule_list",
        "schedule_create",
        "schedule_update",
        "schedule_delete",
        "schedule_trigger",
        "schedule_costs",
        "schedule_done",
        "sessions_list",
        "sessions_get",
        "sessions_summary",
        "sessions_daily",
        "top_sessions",
        "module.states",
        "module.set_enabled",
        "get_attachment",
    ] {
        assert!(tools.contains(&name.to_owned()), "{name} is missing in {tools:?}");
    }
    let mut sorted = tools.clone();
    sorted.sort();
    assert_eq!(tools, sorted, "the order is stable");
    assert_eq!(general.ok("state_get", json!({"key": "k"})).await, json!({"key": "k", "value": null}));
    assert_eq!(
        general.ok("state_set", json!({"key": "k", "value": {"a": [1, "ü"]}})).await,
        json!({"key": "k", "status": "ok"})
    );
    assert_eq!(general.ok("state_get", json!({"key": "k"})).await["value"], json!({"a": [1, "ü"]}));
    assert_eq!(
        general.ok("state_list", json!({"prefix": "k", "keys_only": false})).await,
        json!([{"key": "k", "value": {"a": [1, "ü"]}}])
    );
    assert_eq!(general.ok("state_delete", json!({"key": "k"})).await["status"], "deleted");
    assert_eq!(general.ok("state_delete", json!({"key": "k"})).await["status"], "deleted");
    assert_eq!(general.ok("sessions_get", json!({"session_id": uuid::Uuid::nil()})).await, Value::Null);
    assert_eq!(general.ok("sessions_summary", json!({"period": "7d"})).await["total_sessions"], 0);
    assert_eq!(general.ok("tick", json!({})).await, json!({"dispatched": 0}));
    assert_eq!(general.ok("get_attachment", json!({"storage_ref": "nonsense"})).await["status"], "invalid");
    let status = general.ok("status", json!({})).await;
    assert_eq!((&status["name"], &status["health"]), (&json!("general"), &json!("ok")));
    assert_eq!(status["port"], daemon.port("general"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_arguments_name_the_field_and_change_nothing() {
    let household = Household::new();
    let daemon = household.start().await;
    let health = daemon.mcp("health");
    for (args, word) in [
        (json!({"value": {"kg": 81.4}}), "kind"),
        (json!({"kind": "waist", "value": {"cm": 90}}), "blood_pressure"),
        (json!({"kind": "weight", "value": {"kg": 81.4}, "colour": "red"}), "colour"),
        (json!({"kind": "weight", "value": 81.4}), "value"),
    ] {
        let answer = health.call("measurement_log", args.clone()).await;
        assert_eq!(answer.body["result"]["isError"], json!(true), "{args} {answer:?}");
        assert!(answer.text()["error"].as_str().is_some_and(|e| e.contains(word)), "{args} {answer:?}");
    }
    let refused = health.ok("measurement_log", json!({"kind": "weight", "value": {"kg": 8140}})).await;
    assert_eq!(refused["status"], "error", "{refused}");
    assert_eq!(health.ok("measurement_history", json!({})).await, json!([]));
    let unknown = health.call("no_such_tool", json!({})).await;
    assert!(unknown.body["error"]["message"].as_str().is_some_and(|m| m.contains("no_such_tool")), "{unknown:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_leaves_one_audit_row_and_secrets_stay_out_of_it() {
    let household = Household::new().butler("tester", PROBE);
    let daemon = household.start().await;
    let probe = daemon.mcp("tester");
    probe.ok("state_set", json!({"key": "a", "value": 1})).await;
    probe.ok("state_get", json!({"key": "a"})).await;
    probe.call("state_get", json!({})).await;
    probe.ok("probe_echo", json!({"text": "hello", "secret": "hunter2hunter2"})).await;
    probe.ok("module.set_enabled", json!({"name": "nope", "enabled": true})).await;
    let client = household.role("tester").await;
    client.batch_execute("SET butlerd.tenant = 'owner'").await.expect("a setting");
    let rows = eventually("the audit rows", || async {
        let rows = client
            .query(
                "SELECT tool, outcome, effect, arguments::text, duration_us FROM tool_calls ORDER BY called_at, id",
                &[],
            )
            .await
            .expect("rows");
        if rows.len() >= 5 { Ok(rows) } else { Err(format!("{} rows", rows.len())) }
    })
    .await;
    let shown: Vec<(String, String, String)> = rows.iter().map(|r| (r.get(0), r.get(1), r.get(2))).collect();
    let want = [
        ("state_set", "ok", "idempotent"),
        ("state_get", "ok", "none"),
        ("state_get", "refused", "none"),
        ("probe_echo", "ok", "none"),
        ("module.set_enabled", "refused", "idempotent"),
    ];
    assert_eq!(shown, want.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned())));
    let arguments: String = rows[3].get(3);
    assert!(!arguments.contains("hunter2") && arguments.contains("[redacted]"), "{arguments}");
    assert!(rows.iter().all(|r| r.get::<_, i64>(4) >= 0));
    assert!(!daemon.log().contains("hunter2"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_goes_away_cancels_its_read_on_the_server() {
    let household = Household::new().butler("tester", PROBE);
    let daemon = household.start().await;
    let probe = daemon.mcp("tester");
    let client = household.owner().await;
    let sleeping = async |what: &str, wanted: i64| {
        eventually(what, || async {
            let sql = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%pg_sleep%' AND pid <> pg_backend_pid()";
            let n: i64 = client.query_one(sql, &[]).await.expect("a count").get(0);
            if n == wanted { Ok(()) } else { Err(format!("{n} sleep")) }
        })
        .await;
    };
    // It sleeps for five minutes.
    let asking = probe.clone();
    let call = tokio::spawn(async move { asking.call("probe_echo", json!({"ms": 300_000})).await });
    sleeping("the statement sleeps", 1).await;
    call.abort();
    // The statement ends on the server, long before its time, and the butler goes on.
    sleeping("the statement is cancelled", 0).await;
    probe.ok("probe_echo", json!({"text": "still here"})).await;
}

/// The short way of a plain call and the protocol library, which the header forces, answer alike.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_call_is_answered_as_the_library_answers_it() {
    let household = Household::whole();
    let daemon = household.start().await;
    let general = daemon.mcp("general");
    let calls = [
        ("state_get", json!({"key": "k"})),
        ("state_get", json!({})),
        ("state_list", json!({})),
        ("module.set_enabled", json!({"name": "none", "enabled": true})),
        ("no_such_tool", json!({})),
        ("route.execute", json!({})),
    ];
    for (tool, arguments) in calls {
        for id in [json!(7), json!("seven")] {
            let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}});
            let short = general.post(body.clone(), &[]).await;
            let library = general.post(body, &[("mcp-method", "tools/call"), ("mcp-name", tool)]).await;
            assert_eq!((short.status, &short.body), (library.status, &library.body), "{tool}");
        }
    }
}
