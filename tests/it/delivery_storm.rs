//! A thousand messages out of the house while the daemon is killed again and again and the receiver misbehaves: none is
//! lost, none arrives twice, and of each of which nobody knows there is a notice.
//!
//! `NOTIFIES`, `NOTIFY_KILLS` and `STORM_SEED` make it longer, or the same again: `just soak`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::tally::{TALLY, random};
use crate::support::{Daemon, Household, Mcp, Receiver, eventually};

const SENDERS: usize = 6;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// One call of a butler's `notify` by whichever daemon there is; `None`: nobody answered.
pub async fn try_notify(data: &Path, butler: &str, arguments: &Value) -> Option<Value> {
    let info = std::fs::read_to_string(data.join("run/daemon.json")).ok()?;
    let info: Value = serde_json::from_str(&info).ok()?;
    let token = std::fs::read_to_string(data.join("run/operator.token")).ok()?;
    let port = u16::try_from(info["butlers"][butler].as_u64()?).ok()?;
    let mcp = Mcp::new(port, Some(token.trim().to_owned()));
    let answer = mcp.try_call("notify", arguments.clone()).await?;
    let text = answer.body["result"]["content"][0]["text"].as_str()?;
    let answer: Value = serde_json::from_str(text).ok()?;
    answer["delivery_id"].is_string().then_some(answer)
}

/// What the message numbered `n` says: some of them make the receiver misbehave, which ones the seed decides. It drops
/// the answer, resets the connection, hangs, answers 429 or 503 with retry-after, or fails twice.
fn text(seed: u64, n: usize) -> String {
    let how = match random(seed.wrapping_mul(1_000_003) + n as u64) % 100 {
        0..2 => "[drop] ",
        2..4 => "[cut] ",
        4..5 => "[stall] ",
        5..8 => "[later] ",
        8..12 => "[busy] ",
        12..14 => "[broken] ",
        _ => "",
    };
    format!("{how}m{n}")
}

/// What makes a receiver silent where it might have taken something in.
const SILENT: [&str; 3] = ["[drop]", "[cut]", "[stall]"];

fn endpoint(n: usize) -> &'static str {
    if n.is_multiple_of(4) { "wise" } else { "door" }
}

/// Has a message sent, once, whatever dies meanwhile.
async fn send(household: &Household, seed: u64, n: usize) {
    let text = text(seed, n);
    let arguments = json!({"intent": "send", "channel": "webhook", "recipient": endpoint(n), "message": text});
    let begun = Instant::now();
    loop {
        if try_notify(&household.data(), TALLY, &arguments).await.is_some() {
            return;
        }
        // Its answer was lost: only the row says whether it was posted.
        tokio::time::sleep(Duration::from_millis(50)).await;
        if let Some(client) = household.try_owner().await
            && let Ok(row) = client.query_one("SELECT count(*) FROM shared.outbox WHERE message = $1", &[&text]).await
            && row.get::<_, i64>(0) > 0
        {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(300), "nobody posts {n}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_message_leaves_once_while_the_daemon_is_killed() {
    let (messages, kills) = (setting("NOTIFIES", 80) as usize, setting("NOTIFY_KILLS", 3));
    let seed = setting("STORM_SEED", u64::from(std::process::id()));
    let mut receiver = Receiver::start().await;
    let household = std::sync::Arc::new(Household::few().with_tally(1).with_webhook(&receiver, "timeout = \"8s\""));
    let mut daemon: Daemon = household.start().await;
    let begun = Instant::now();
    let senders: Vec<_> = (0..SENDERS)
        .map(|sender| {
            let household = household.clone();
            tokio::spawn(async move {
                for n in (sender..messages).step_by(SENDERS) {
                    send(&household, seed, n).await;
                }
            })
        })
        .collect();
    let (mut killed, mut died, deaths) = (0, 0, kills / 4 + 1);
    while !senders.iter().all(|sender| sender.is_finished()) || killed < kills {
        let seen = receiver.hooks().len() as u64;
        let all_posted = senders.iter().all(|sender| sender.is_finished());
        if killed < kills && (all_posted || seen >= killed * messages as u64 / (kills + 1)) {
            tokio::time::sleep(Duration::from_millis(random(seed + killed) % 400)).await;
            daemon.kill();
            daemon = household.start().await;
            killed += 1;
        }
        if died < deaths && seen >= (2 * died + 1) * messages as u64 / (2 * deaths + 1) {
            // The receiver itself is gone for a while.
            let gone = receiver.die().await;
            tokio::time::sleep(Duration::from_millis(200 + random(seed + died) % 300)).await;
            receiver = Receiver::revive(gone).await;
            died += 1;
        }
        assert!(begun.elapsed() < Duration::from_secs(1800), "it takes too long:\n{}", daemon.log());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for sender in senders {
        sender.await.expect("a sender");
    }
    let what = format!("seed {seed}");
    household.all_delivered(&what).await;
    household.invariants(&what).await;
    let client = household.owner().await;
    let sql = "SELECT message, state, id::text, last_error FROM shared.outbox WHERE origin = 'tally'";
    let mut rows: BTreeMap<String, (String, String, Option<String>)> = BTreeMap::new();
    for row in client.query(sql, &[]).await.expect("the deliveries") {
        let again = rows.insert(row.get(0), (row.get(1), row.get(2), row.get(3)));
        assert!(again.is_none(), "{what}: posted twice: {again:?}");
    }
    let mut arrived: BTreeMap<String, Vec<(u16, String)>> = BTreeMap::new();
    for hook in receiver.hooks() {
        // What was read whole and answered with 200, or not at all, has arrived.
        if [0, 200].contains(&hook.answered) {
            let key = hook.headers["idempotency-key"].clone();
            arrived.entry(hook.message().to_owned()).or_default().push((hook.answered, key));
        }
    }
    let is_silent = |n: &usize| endpoint(*n) == "door" && SILENT.iter().any(|how| text(seed, *n).starts_with(how));
    let silent = (0..messages).filter(is_silent).count() as u64;
    let mut unknown = Vec::new();
    for n in 0..messages {
        let text = text(seed, n);
        let (state, id, error) = rows.get(&text).unwrap_or_else(|| panic!("{what}: {text} is lost"));
        let arrivals = arrived.get(&text).cloned().unwrap_or_default();
        match (state.as_str(), endpoint(n)) {
            ("sent", "door") => assert_eq!(arrivals.len(), 1, "{what}: {text}: {arrivals:?}"),
            ("unknown", "door") => {
                assert!(arrivals.len() <= 1, "{what}: {text}: {arrivals:?}");
                unknown.push(id.clone());
            }
            ("sent", _) => {
                // The receiver knows a repetition by its key, so it has taken it once.
                assert!(
                    !arrivals.is_empty() && arrivals.iter().all(|(_, key)| key == id),
                    "{what}: {text}: {arrivals:?}"
                );
            }
            _ => panic!("{what}: {text} is {state}: {error:?}"),
        }
    }
    eprintln!(
        "{messages} messages, {killed} kills in {:.1} s ({what}): {} unknown, {silent} met with silence, \
         the receiver died {died} times",
        begun.elapsed().as_secs_f64(),
        unknown.len()
    );
    // Of its lane one is under way at a time, so that each death leaves one at most.
    assert!(unknown.len() as u64 <= kills + died + silent, "{what}: {unknown:?}");
    assert_eq!(died, deaths, "{what}");
    household.each_has_a_notice(&what).await;
    assert_eq!(killed, kills);
    eventually("the owner is told of all of them", || async {
        let sql = "SELECT count(*) FROM shared.notices WHERE delivery_id IS NULL";
        let untold: i64 = client.query_one(sql, &[]).await.map_err(|e| e.to_string())?.get(0);
        if untold == 0 { Ok(()) } else { Err(format!("{untold} are untold")) }
    })
    .await;
}
