//! A day of messages under a clock that is moved: tables, files and memory grow as `butlerd db usage` foretold in the
//! evening.
//!
//! `DAY_MESSAGES` (else 240) makes more of it; `just soak` has 50,000.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::soak::proc;
use crate::support::tally::{counting_model, envelope, insist, rule};
use crate::support::{Daemon, Household};

/// Messages come evenly; after so many hours it is foretold what the others bring. Growth is told after eighteen.
const HOURS: usize = 24;
const TOLD_AFTER: usize = 20;
/// How many people write at a time.
const PEOPLE: usize = 4;
/// Memory may grow so much in the last hours, in KiB: what sessions of the moment hold.
const MEMORY: u64 = 24 * 1024;

/// What there is at one time.
#[derive(Debug)]
struct Sizes {
    /// Bytes of all tables.
    tables: f64,
    /// What they grow by a day, as far as it is known.
    grows: Option<f64>,
    /// The tables of which that is not known.
    unknown: Vec<String>,
    /// Bytes of all other files.
    files: f64,
    /// KiB that the daemon holds.
    memory: u64,
}

fn sizes(household: &Household, daemon: &Daemon) -> Sizes {
    let (code, out, err) = household.cli(&["db", "usage", "--json"]);
    assert_eq!(code, 0, "{out}{err}");
    let usage: Value = serde_json::from_str(&out).expect("JSON");
    let sum = |list: &Value| -> f64 {
        let list = list.as_array().expect("a list").iter();
        list.filter(|d| !is_of_tables(d)).filter_map(|d| d["bytes"].as_f64()).sum()
    };
    let tables = usage["tables"].as_array().expect("a list").iter();
    Sizes {
        tables: sum(&usage["tables"]),
        grows: usage["grows"].as_f64(),
        unknown: tables.filter(|table| table["grows"].is_null()).map(|table| table["name"].to_string()).collect(),
        files: sum(&usage["directories"]),
        memory: proc::memory(daemon.pid(), "VmRSS"),
    }
}

/// The directory of the tables, which are counted apart, and the log before the tables, whose size the server bounds.
fn is_of_tables(directory: &Value) -> bool {
    let path = directory["path"].as_str().unwrap_or_default();
    path.ends_with("/postgres") || path.ends_with("/pg_wal")
}

/// Messages of one hour, each person's in turn.
async fn hour(data: &Path, hour: usize, messages: usize) {
    let data: Arc<Path> = data.into();
    let people = (0..PEOPLE).map(|person| {
        let data = data.clone();
        tokio::spawn(async move {
            for n in (person..messages).step_by(PEOPLE) {
                let mark = format!("h{hour}-{n}");
                let text = format!("count: {mark}");
                let mut message = envelope(&mark, &format!("chat-{person}"), &text, "interactive");
                // The owner: a stranger may not send so many.
                message["sender"]["identity"] = "4711".into();
                insist(&data, &message).await;
            }
        })
    });
    for person in people.collect::<Vec<_>>() {
        person.await.expect("a person");
    }
}

/// Waits until the hour's messages are at their end, however many they are.
async fn drained(household: &Household) {
    let client = household.owner().await;
    let open = "SELECT count(*) FROM switchboard.message_inbox WHERE state IN ('accepted', 'processing')";
    while client.query_one(open, &[]).await.expect("the messages").get::<_, i64>(0) > 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The clock moves on by an hour at once: what the server would have cleared in it, it clears now.
async fn cleared(household: &Household) {
    household.owner().await.batch_execute("VACUUM").await.expect("the tables are cleared");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_grows_as_it_was_foretold() {
    let messages: usize = std::env::var("DAY_MESSAGES").ok().and_then(|n| n.parse().ok()).unwrap_or(240);
    let model = counting_model(0).await;
    let clock = |household: &Household, at: jiff::Timestamp| household.set_clock(&at.to_string());
    let household = Household::few_with_model(&model).with_tally(2);
    let file = household.path().join("clock").to_string_lossy().into_owned();
    let household = household.env("BUTLERD_CLOCK_FILE", &file);
    let start = jiff::Timestamp::now();
    clock(&household, start);
    let daemon = household.start().await;
    rule(&household.owner().await, "count: ", "tally").await;
    let mut told = None;
    for n in 0..HOURS {
        let seconds = i64::try_from(n * 3600).expect("a number");
        clock(&household, start + jiff::SignedDuration::from_secs(seconds));
        if n == TOLD_AFTER {
            household.at_rest("in the evening").await;
            told = Some(tokio::task::block_in_place(|| sizes(&household, &daemon)));
            println!("after {n} hours: {told:?}");
        }
        hour(&household.data(), n, messages / HOURS).await;
        drained(&household).await;
        cleared(&household).await;
    }
    clock(&household, start + jiff::SignedDuration::from_hours(24));
    household.at_rest("at the end").await;
    let (told, end) = (told.expect("it was told"), tokio::task::block_in_place(|| sizes(&household, &daemon)));
    println!("after the day with {messages} messages: {end:?}");
    assert_eq!(told.unknown, [""; 0], "a butler's first day is in it, though others were there before");
    let grows = told.grows.expect("so many hours are enough to tell");
    let (foretold, grown) = (grows * (HOURS - TOLD_AFTER) as f64 / HOURS as f64, end.tables - told.tables);
    // A table grows by pages, and a small one by what the server did not clear yet.
    let room = foretold * 0.2 + 5e5;
    println!("tables: {grown} bytes more, foretold were {foretold}; files: {} more", end.files - told.files);
    assert!((grown - foretold).abs() < room, "{grown} bytes more, foretold were {foretold}");
    assert!(end.files < told.files * 1.4 + 1e6, "files: {told:?} {end:?}");
    assert!(end.memory < told.memory + MEMORY, "memory: {told:?} {end:?}");
    let done = "SELECT count(*) FROM switchboard.message_inbox WHERE state = 'done'";
    let done: i64 = household.owner().await.query_one(done, &[]).await.expect("the messages").get(0);
    assert_eq!(usize::try_from(done), Ok(messages / HOURS * HOURS));
}
