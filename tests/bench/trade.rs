//! How soon a new butler serves, and a tool of the roster in SQL beside its own statement, prepared on a connection of
//! the same role with the same tenant: what the house adds to a statement between the call's arrival and its answer.

use std::time::Instant;

use serde_json::json;

use crate::daemon::Daemon;
use crate::household::Household;
use crate::memory::Caller;
use crate::table::{self, Verdict, median};
use crate::{Failed, Plan};

/// Of the bare statement's median.
const TARGET: f64 = 1.3;
/// From `reload` until a new butler serves, in milliseconds.
const NEW_MS: f64 = 2000.0;
const BUTLER: &str = "health";
const TOOL: &str = "measurement_latest";
const READINGS: usize = 1000;
/// Calls of one side before the other has its turn.
const TURN: usize = 50;

pub async fn measure(plan: &Plan) -> Result<(), Failed> {
    println!("\nA roster's tool in SQL ({BUTLER}.{TOOL})");
    let household = Household::new(0)?;
    let daemon = Daemon::start(&household, &[]).await?;
    let caller = Caller::of(&household, daemon.ready.ports[BUTLER], None)?;
    for n in 0..READINGS {
        let at = format!("2025-{:02}-{:02}T{:02}:00:00Z", 1 + n / 24 / 28 % 12, 1 + n / 24 % 28, n % 24);
        let reading = json!({"kind": "weight", "value": {"kg": 70 + n % 20}, "measured_at": at});
        caller.call("measurement_log", reading).await?;
    }
    household.butlerd(&["new", "butler", "orchard"])?;
    let reloaded = household.butlerd(&["reload"])?;
    let orchard = reloaded["butlers"].as_array().into_iter().flatten().find(|b| b["name"] == "orchard");
    let took = orchard.and_then(|b| b["ms"].as_f64()).ok_or_else(|| format!("no new butler: {reloaded}"))?;
    table::note(&format!(
        "a new butler serves {took:.0} ms after reload   {}",
        Verdict::at_most("trade.new_butler", took, NEW_MS, "ms")
    ));
    let statement = statement()?;
    let login = household.butlerd(&["db", "url", "--butler", BUTLER])?;
    let url = login["url"].as_str().ok_or("no login")?;
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
    base::task::spawn(base::task::Kind::Job, "bench", connection);
    let prepared = client.prepare(&statement).await?;
    let turns = if plan.is_quick() { 6 } else { 40 };
    let mut bare = Vec::new();
    for _ in 0..turns {
        for _ in 0..TURN {
            let begun = Instant::now();
            client.query(&prepared, &[&"weight"]).await?;
            bare.push(begun.elapsed().as_secs_f64() * 1000.0);
        }
        for _ in 0..TURN {
            caller.call(TOOL, json!({"kind": "weight"})).await?;
        }
    }
    // The audit rows are written within 50 ms.
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    let sql =
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY duration_us) / 1000.0 FROM tool_calls WHERE tool = $1";
    let ours: f64 = client.query_one(sql, &[&TOOL]).await?.get(0);
    let bare = median(&bare);
    let ratio = ours / bare;
    table::note(&format!(
        "p50 {ours:.3} ms inside the daemon, its bare statement {bare:.3} ms: {ratio:.2} times   {}",
        Verdict::at_most("trade.tool", ratio, TARGET, "times")
    ));
    drop(client);
    daemon.stop().await
}

/// The tool's statement as the server is given it.
fn statement() -> Result<String, Failed> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/roster/health/tools/measurement_latest.sql");
    let text = std::fs::read_to_string(file)?;
    let (_, sql) = text.split_once("---*/").ok_or("the tool has no header")?;
    Ok(sql.trim().trim_end_matches(';').replace(":kind", "$1"))
}
