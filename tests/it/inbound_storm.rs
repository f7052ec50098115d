//! Messages over HTTP from many senders while the daemon is killed again and again: each ends, and none is done twice.
//!
//! `STORM_MESSAGES`, `STORM_KILLS` and `STORM_SEED` make it longer, or the same again: `just soak`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::fairness::patient;
use crate::support::tally::{counting_model, envelope, insist, random, rule};
use crate::support::{Daemon, Household};

const SENDERS: usize = 12;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// What a message says: most are routed by a rule, some by the model.
fn text(mark: &str, n: usize) -> String {
    if n.is_multiple_of(8) { format!("think: {mark}") } else { format!("count: {mark}") }
}

type Acknowledged = Arc<Mutex<BTreeMap<String, String>>>;

/// One sender, one thread: hands its messages in one after the other, and some of them twice. It keeps ahead of those
/// that `ended`, but not by all of them, so that each kill meets messages on their way in.
async fn send(
    data: std::path::PathBuf,
    sender: usize,
    messages: usize,
    ended: Arc<AtomicI64>,
    acknowledged: Acknowledged,
) {
    let ahead = (messages / 10).max(30) as i64;
    for n in (sender..messages).step_by(SENDERS) {
        while n as i64 > ended.load(Ordering::Relaxed) + ahead {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let mark = format!("m{n}");
        let message = envelope(&mark, &format!("chat-{sender}"), &text(&mark, n), "interactive");
        let id = insist(&data, &message).await;
        if n % 10 == 3 {
            assert_eq!(insist(&data, &message).await, id, "the same message again");
        }
        acknowledged.lock().expect("the list").insert(mark, id);
    }
}

/// How many messages are at their end; `None` while the database is not there.
async fn ended(client: &mut Option<tokio_postgres::Client>, household: &Household) -> Option<i64> {
    if client.as_ref().is_none_or(tokio_postgres::Client::is_closed) {
        *client = household.try_owner().await;
    }
    let sql = "SELECT count(*) FROM switchboard.message_inbox WHERE state IN ('done', 'dead')";
    Some(client.as_ref()?.query_one(sql, &[]).await.ok()?.get(0))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_acknowledged_message_ends_once_while_the_daemon_is_killed() {
    let (messages, kills) = (setting("STORM_MESSAGES", 60), setting("STORM_KILLS", 4));
    let seed = setting("STORM_SEED", u64::from(std::process::id()));
    let model = counting_model(0).await;
    // One session at a time, so that a kill finds at most one that has acted and is not on record.
    let household = patient(Household::few_with_model(&model).with_tally(1));
    let mut daemon: Daemon = household.start().await;
    rule(&household.owner().await, "count: ", "tally").await;
    let begun = Instant::now();
    let acknowledged = Acknowledged::default();
    let progress: Arc<AtomicI64> = Arc::default();
    let senders: Vec<_> = (0..SENDERS)
        .map(|n| tokio::spawn(send(household.data(), n, messages as usize, progress.clone(), acknowledged.clone())))
        .collect();
    let mut client = None;
    let mut last = (0, Instant::now());
    let mut killed = 0;
    while last.0 < messages as i64 {
        let done = ended(&mut client, &household).await.unwrap_or(last.0);
        if done != last.0 {
            if std::env::var_os("STORM_TELL").is_some() {
                eprintln!("{:7.2} {done}", begun.elapsed().as_secs_f64());
            }
            last = (done, Instant::now());
            progress.store(done, Ordering::Relaxed);
        }
        let stuck = last.1.elapsed();
        assert!(stuck < Duration::from_secs(90), "{done} of {messages} ended, then nothing:\n{}", daemon.log());
        if killed < kills && done as u64 >= killed * messages / (kills + 1) {
            tokio::time::sleep(Duration::from_millis(random(seed + killed) % 700)).await;
            daemon.kill();
            daemon = household.start().await;
            killed += 1;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for sender in senders {
        sender.await.expect("a sender");
    }
    let what = format!("seed {seed}");
    household.at_rest(&what).await;
    let took = begun.elapsed();
    let client = household.owner().await;
    let sql = "SELECT m.request_id::text, m.state, m.last_error, m.body,
                      (SELECT count(*) FROM tally.counted c WHERE c.mark = m.external_event_id)
               FROM switchboard.message_inbox m";
    let rows = client.query(sql, &[]).await.expect("the messages");
    let rows: BTreeMap<String, _> = rows.iter().map(|row| (row.get::<_, String>(0), row)).collect();
    assert_eq!(rows.len() as u64, messages, "{what}: a message is there twice, or one that nobody sent");
    let (mut dead, mut double) = (Vec::new(), Vec::new());
    for (mark, id) in acknowledged.lock().expect("the list").iter() {
        let row = rows.get(id).unwrap_or_else(|| panic!("{what}: {mark} is lost, which was acknowledged as {id}"));
        let (state, error, counted): (String, Option<String>, i64) = (row.get(1), row.get(2), row.get(4));
        match state.as_str() {
            "done" => assert_eq!(counted, 1, "{what}: {mark} is done, and counted {counted} times"),
            _ => dead.push((mark.clone(), error)),
        }
        double.extend((counted > 1).then(|| mark.clone()));
    }
    eprintln!(
        "{messages} messages, {killed} kills, {SENDERS} senders in {:.1} s ({what}): {} dead, {} double, 0 lost",
        took.as_secs_f64(),
        dead.len(),
        double.len()
    );
    assert!(double.is_empty(), "{what}: done twice: {double:?}");
    assert!(dead.len() as u64 <= kills && dead.iter().all(|(_, why)| why.is_some()), "{what}: dead: {dead:?}");
    assert_eq!(killed, kills);
}
