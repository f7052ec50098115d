//! Butlers can't read each other: the server refuses, by qualified name, whatever the search path.

use serde_json::Value;

use crate::support::Household;

/// What every butler may read as far as it is its concern, and none may write.
const OPEN: [&str; 13] = [
    "entities",
    "contacts",
    "contact_identities",
    "memory_catalog",
    "conversation",
    "conversation_readers",
    "calendar_sources",
    "calendar_readers",
    "calendar_events",
    "calendar_instances",
    "calendar_cursors",
    "calendar_actions",
    "calendar_entities",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_role_reaches_another_schema_or_the_daemons_own_tables() {
    let household = Household::whole();
    let _daemon = household.start().await;
    let butlers = ["switchboard", "messenger", "general", "relationship", "health", "finance", "travel"];
    let mut refused = 0;
    for butler in butlers {
        let client = household.role(butler).await;
        let tables = client
            .query(
                "SELECT n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                 WHERE c.relkind IN ('r', 'p', 'v') AND n.nspname NOT LIKE 'pg\\_%'
                   AND n.nspname NOT IN ('information_schema', $1)",
                &[&butler],
            )
            .await
            .expect("the catalogue");
        assert!(tables.len() > 6 * 6, "{butler} sees only {} tables in the catalogue", tables.len());
        for row in tables {
            let (schema, table): (String, String) = (row.get(0), row.get(1));
            let open = schema == "shared" && OPEN.contains(&table.as_str());
            if open {
                let sql = format!("SELECT * FROM shared.{table}");
                assert!(
                    client.query(&sql, &[]).await.expect("a table that all may read").is_empty(),
                    "no tenant, no row"
                );
            }
            for sql in [
                format!("SELECT * FROM \"{schema}\".\"{table}\" LIMIT 1"),
                format!("INSERT INTO \"{schema}\".\"{table}\" DEFAULT VALUES"),
                format!("DELETE FROM \"{schema}\".\"{table}\""),
                format!("DROP TABLE \"{schema}\".\"{table}\""),
            ] {
                if open && sql.starts_with("SELECT") {
                    continue;
                }
                let e = client.batch_execute(&sql).await.expect_err(&sql);
                let code = e.code().map(|c| c.code().to_owned());
                assert_eq!(code.as_deref(), Some("42501"), "{butler}: {sql}: {e}");
                refused += 1;
            }
        }
        for sql in [
            "CREATE TABLE public.mine (x int)",
            "CREATE TABLE mine (x int)",
            "CREATE SCHEMA mine",
            "ALTER TABLE state DISABLE ROW LEVEL SECURITY",
            "SET ROLE butlerd",
            "ALTER ROLE CURRENT_USER BYPASSRLS",
            "COPY (SELECT 1) TO PROGRAM 'true'",
            "SELECT pg_read_file('postgresql.conf')",
            "DELETE FROM tool_calls",
            "UPDATE schema_migrations SET name = 'x'",
        ] {
            assert!(client.batch_execute(sql).await.is_err(), "{butler}: {sql} went through");
        }
    }
    assert!(refused > 1000, "only {refused} refusals");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_tenant_there_are_no_rows_and_another_tenant_sees_none() {
    let household = Household::new();
    let daemon = household.start().await;
    let general = daemon.mcp("general");
    general.ok("state_set", serde_json::json!({"key": "k", "value": 1})).await;
    let client = household.role("general").await;
    let count = "SELECT count(*) FROM state";
    assert_eq!(client.query_one(count, &[]).await.expect("a count").get::<_, i64>(0), 0);
    assert!(client.batch_execute("INSERT INTO state (key, value) VALUES ('x', '1')").await.is_err());
    client.batch_execute("SET butlerd.tenant = 'other'").await.expect("a setting");
    assert_eq!(client.query_one(count, &[]).await.expect("a count").get::<_, i64>(0), 0);
    client.batch_execute("SET butlerd.tenant = 'owner'").await.expect("a setting");
    assert_eq!(client.query_one(count, &[]).await.expect("a count").get::<_, i64>(0), 1);
    // Through the front door: a token of another tenant.
    let (code, out, err) = household.cli(&["token", "new", "--tenant", "other", "--scope", "tools", "--json"]);
    assert_eq!(code, 0, "{err}");
    let token: Value = serde_json::from_str(&out).expect("JSON");
    let other = general.with_token(token["token"].as_str());
    assert_eq!(other.ok("state_get", serde_json::json!({"key": "k"})).await["value"], Value::Null);
    other.ok("state_set", serde_json::json!({"key": "k", "value": 2})).await;
    assert_eq!(general.ok("state_get", serde_json::json!({"key": "k"})).await["value"], 1);
    assert_eq!(other.ok("state_list", serde_json::json!({})).await, serde_json::json!(["k"]));
}
