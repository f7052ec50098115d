//! A reload gives back what the butler that it ends has held, its memory index above all.

use std::path::Path;

use serde_json::{Value, json};

use crate::reload::mcp;
use crate::soak::proc;
use crate::support::memory::remembering;
use crate::support::tally::TALLY;
use crate::support::{Daemon, Household, eventually};

/// What the daemon may hold more at the end than after the tenth reload, in KiB.
const MORE: u64 = 10 * 1024;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Waits until the butler has all of its memories in its index.
async fn indexed(daemon: &Daemon, memories: u64) {
    let tools = mcp(daemon, TALLY).await;
    eventually("the index is there", || async {
        let told = tools.ok("memory_stats", json!({})).await;
        match told["index"]["memories"].as_u64() {
            Some(n) if n >= memories => Ok(()),
            _ => Err(told.to_string()),
        }
    })
    .await;
}

/// Reloads with another prompt of the butler.
fn change(household: &Household, file: &Path, turn: u64) {
    std::fs::write(file, format!("@../shared/AGENTS.md\n\n# A butler for tests, version {turn}\n\n# Notes to self\n"))
        .expect("the prompt");
    let (code, out, err) = household.cli(&["reload", "--json"]);
    let done: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {code} {out}{err}"));
    let changed = done["butlers"].as_array().into_iter().flatten().find(|b| b["name"] == TALLY);
    assert_eq!((code, changed.map(|b| &b["change"])), (0, Some(&json!("changed"))), "{done}{err}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reloads_of_a_butler_that_remembers_hold_nothing_back() {
    let (reloads, memories) = (number("RELOADS", 25), number("MEMORIES", 5000));
    let household = remembering(Household::few(), "");
    let daemon = household.start().await;
    let db = household.role(TALLY).await;
    db.batch_execute("SET butlerd.tenant = 'owner'; SET butlerd.trust = 'owner'").await.expect("settings");
    let put = "SELECT memory_put('episode', jsonb_build_object('id', gen_random_uuid(), 'butler', 'tally', 'content_hash',
                   n::text, 'content', 'On day ' || n || ' the kitchen had ' || n * 7 || ' plums, jar ' || md5(n::text)))
               FROM generate_series(1, $1::bigint) n";
    db.execute(put, &[&i64::try_from(memories).expect("a number")]).await.expect("they are put");
    let file = household.roster().join(TALLY).join("AGENTS.md");
    let mut tenth = 0;
    for turn in 1..=reloads {
        tokio::task::block_in_place(|| change(&household, &file, turn));
        indexed(&daemon, memories).await;
        let now = proc::memory(daemon.pid(), "VmRSS");
        if turn == 10 {
            tenth = now;
        }
        if turn % 10 == 0 {
            println!("after {turn} reloads: {now} KiB");
        }
    }
    // Of what was freed last, some may not be back yet.
    eventually("memory at rest", || async {
        let now = proc::memory(daemon.pid(), "VmRSS");
        if now <= tenth + MORE { Ok(()) } else { Err(format!("{now} KiB after {reloads} reloads, {tenth} after ten")) }
    })
    .await;
}
