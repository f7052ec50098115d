//! The database goes away under messages: nobody crashes, whoever hands in is told to come again, and all goes on.
//!
//! `CUT_SECONDS` makes the cut longer: `just soak`.

use std::time::{Duration, Instant};

use crate::soak::proc;
use crate::support::tally::{counting_model, envelope, hand_in, insist, rule};
use crate::support::{Household, http};

fn cut() -> Duration {
    Duration::from_secs(std::env::var("CUT_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3))
}

/// The server's first process.
pub(crate) fn postmaster(household: &Household) -> i32 {
    let pid = std::fs::read_to_string(household.data().join("postgres/postmaster.pid")).expect("the pid file");
    pid.lines().next().and_then(|l| l.parse().ok()).expect("a pid")
}

/// All of the server.
pub(crate) fn server(postmaster: i32) -> Vec<i32> {
    let own = proc::processes().filter(|p| p.pid == postmaster || p.parent == postmaster);
    own.map(|p| p.pid).collect()
}

pub(crate) fn signal(pids: &[i32], signal: i32) {
    for pid in pids {
        unsafe { libc::kill(*pid, signal) };
    }
}

/// A message that must be refused for now.
async fn refused(household: &Household, id: &str) {
    let message = envelope(id, id, &format!("count: {id}"), "interactive");
    let (status, after, answer) = hand_in(&household.data(), &http(), &message).await.expect("an answer");
    assert_eq!((status, after.as_deref()), (503, Some("2")), "{answer}");
    assert_eq!(answer["code"], "unavailable", "{answer}");
}

/// Every message is at its end, and was counted once; or not at all, if a call of its session met the cut, so that its
/// model was told. Those of these marks came when the database was back: nothing met them.
async fn ended_once(household: &Household, what: &str, messages: usize, later: &[&str]) {
    household.at_rest(what).await;
    let client = household.owner().await;
    let sql = "SELECT m.external_event_id, m.state, m.last_error,
                      (SELECT count(*) FROM tally.counted c WHERE c.mark = m.external_event_id),
                      EXISTS (SELECT 1 FROM tally.sessions s JOIN tally.tool_calls c ON c.session_id = s.id
                              WHERE s.request_id = m.request_id AND c.outcome <> 'ok')
               FROM switchboard.message_inbox m ORDER BY m.seq";
    let rows = client.query(sql, &[]).await.expect("the messages");
    assert_eq!(rows.len(), messages, "{what}");
    for row in rows {
        let (mark, state, error): (String, String, Option<String>) = (row.get(0), row.get(1), row.get(2));
        let (counted, failed): (i64, bool) = (row.get(3), row.get(4));
        let met = !later.contains(&mark.as_str());
        let well = match (state.as_str(), counted) {
            ("done", 1) => true,
            ("done", 0) => met && failed,
            ("dead", 0 | 1) => met && error.is_some(),
            _ => false,
        };
        assert!(well, "{what}: {mark} is {state}, counted {counted} times, a failed call: {failed}, {error:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_says_nothing_is_waited_for() {
    let model = counting_model(0).await;
    let household = Household::few_with_model(&model).with_tally(2);
    let mut daemon = household.start().await;
    rule(&household.owner().await, "count: ", "tally").await;
    for n in 0..6 {
        let text = format!("count: before-{n}");
        insist(&household.data(), &envelope(&format!("before-{n}"), "chat", &text, "interactive")).await;
    }
    let begun = Instant::now();
    let stopped = server(postmaster(&household));
    signal(&stopped, libc::SIGSTOP);
    // Handed in meanwhile, and told to come again; when it does it is known, or taken.
    refused(&household, "meanwhile").await;
    while begun.elapsed() < cut() {
        refused(&household, "meanwhile").await;
    }
    signal(&stopped, libc::SIGCONT);
    let back = Instant::now();
    let message = envelope("meanwhile", "meanwhile", "count: meanwhile", "interactive");
    insist(&household.data(), &message).await;
    assert!(back.elapsed() < Duration::from_secs(15), "taken only {:?} after its return", back.elapsed());
    ended_once(&household, "after the silence", 7, &["meanwhile"]).await;
    assert!(!daemon.ended());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_gone_is_waited_for() {
    let model = counting_model(0).await;
    let household = Household::few_with_model(&model).with_tally(2);
    let mut daemon = household.start().await;
    rule(&household.owner().await, "count: ", "tally").await;
    for n in 0..6 {
        let text = format!("count: before-{n}");
        insist(&household.data(), &envelope(&format!("before-{n}"), "chat", &text, "interactive")).await;
    }
    // Without this file the server does not start.
    let control = household.data().join("postgres/global/pg_control");
    let aside = control.with_extension("aside");
    let begun = Instant::now();
    std::fs::rename(&control, &aside).expect("the file");
    signal(&[postmaster(&household)], libc::SIGKILL);
    daemon.logged(&["the embedded database is down"], 1).await;
    refused(&household, "meanwhile").await;
    while begun.elapsed() < cut() {
        refused(&household, "meanwhile").await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    std::fs::rename(&aside, &control).expect("the file");
    daemon.logged(&["the embedded database is up again"], 1).await;
    let back = Instant::now();
    for n in 0..6 {
        let text = format!("count: after-{n}");
        insist(&household.data(), &envelope(&format!("after-{n}"), "chat", &text, "interactive")).await;
    }
    assert!(back.elapsed() < Duration::from_secs(15), "taken only {:?} after its return", back.elapsed());
    let later = ["after-0", "after-1", "after-2", "after-3", "after-4", "after-5"];
    ended_once(&household, "after the cut", 12, &later).await;
    assert!(!daemon.ended());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_are_cut_again_and_again_lose_nothing() {
    let model = counting_model(0).await;
    let household = Household::few_with_model(&model).with_tally(2);
    let mut daemon = household.start().await;
    let client = household.owner().await;
    rule(&client, "count: ", "tally").await;
    let sending: Vec<_> = (0..4)
        .map(|sender| {
            let data = household.data();
            tokio::spawn(async move {
                for n in (sender..24).step_by(4) {
                    let (mark, thread) = (format!("s{n}"), format!("chat-{sender}"));
                    insist(&data, &envelope(&mark, &thread, &format!("count: {mark}"), "interactive")).await;
                }
            })
        })
        .collect();
    let begun = Instant::now();
    let storm = cut().max(Duration::from_secs(5));
    let mut cuts = 0u64;
    while begun.elapsed() < storm {
        let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                   WHERE backend_type = 'client backend' AND application_name LIKE 'butlerd%'";
        cuts += client.query_one(sql, &[]).await.expect("the storm").get::<_, i64>(0).unsigned_abs();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for sender in sending {
        sender.await.expect("a sender");
    }
    assert!(cuts > 10, "only {cuts} connections were cut");
    ended_once(&household, "after the storm", 24, &[]).await;
    assert!(!daemon.ended());
}
