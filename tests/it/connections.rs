//! Connections to the database: all butlers share what the server has, and where that is little, who has nothing to do has none.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use crate::support::{Household, eventually};

const BUTLERS: [&str; 7] = ["switchboard", "messenger", "general", "health", "relationship", "finance", "travel"];
/// Callers of each butler: together they ask for four times as many connections as there are.
const CALLERS: usize = 12;
/// What butlers get of a server that accepts 40 connections.
const SHARED: i64 = 13;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn butlers_share_the_connections_of_the_server_and_keep_none() {
    let household = Household::whole().env("BUTLERD_DATABASE__MAX_CONNECTIONS", "40");
    let daemon = household.start().await;
    let client = household.owner().await;
    let open = async |which: &str| {
        let sql = format!("SELECT count(*) FROM pg_stat_activity WHERE usename LIKE 'butler\\_%' AND {which}");
        client.query_one(&sql, &[]).await.map(|row| row.get::<_, i64>(0)).map_err(|e| e.to_string())
    };
    eventually("butlers at rest have no connection", async || match open("true").await? {
        0 => Ok(()),
        n => Err(format!("{n} are open")),
    })
    .await;

    let mut calls = Vec::new();
    for butler in BUTLERS {
        let mcp = daemon.mcp(butler);
        for caller in 0..CALLERS {
            let (mcp, key) = (mcp.clone(), format!("caller-{caller}"));
            calls.push(async move {
                for value in 0..10 {
                    mcp.ok("state_set", json!({"key": key, "value": value})).await;
                }
                assert_eq!(mcp.ok("state_get", json!({"key": key})).await["value"], 9);
            });
        }
    }
    let over = AtomicBool::new(false);
    let calling = async {
        futures_util::future::join_all(calls).await;
        over.store(true, Ordering::Relaxed);
    };
    let watching = async {
        let mut most: i64 = 0;
        while !over.load(Ordering::Relaxed) {
            // A connection that was closed for another is idle for as long as its process takes to end.
            most = most.max(open("state <> 'idle'").await.expect("the server answers"));
        }
        most
    };
    let ((), most) = tokio::join!(calling, watching);
    // The server shows one process after the other: work that goes from one to the next may be seen in both.
    assert!((1..=2 * SHARED).contains(&most), "{most} connections at work");
    assert_eq!(daemon.get("/readyz").await.0, 200);
}
