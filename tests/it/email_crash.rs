//! `kill -9` between every step of a letter and the next, in and out: nothing is lost, nothing is there twice.

use std::collections::BTreeMap;

use crate::support::mail_server::MailServer;
use crate::support::mailbox::{ADA, HOUSEHOLD, field, proven};
use crate::support::tally::{TALLY, counting_model, died, random, rule, times};
use crate::support::{Daemon, Household, eventually};

/// How often an answer with this subject lies in the owner's inbox.
async fn arrived(server: &MailServer, subject: &str) -> usize {
    let wanted = format!("Re: {subject}");
    let letters = server.folder(ADA, "INBOX").await;
    letters.iter().filter(|raw| field(raw, "Subject").as_deref() == Some(&wanted)).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_between_any_two_steps_of_a_letter() {
    let Some(server) = MailServer::start().await else { return };
    let model = counting_model(1).await;
    let household = Household::few_with_model(&model).with_tally(2).with_email(&server, "backfill = \"7d\"");
    let daemon = household.start().await;
    rule(&household.owner().await, "count:", TALLY).await;
    drop(daemon);
    let points = [
        "connector.fetched",
        "accept.before",
        "accept.committed",
        "connector.accepted",
        "connector.checkpointing",
        "connector.checkpointed",
        "outbox.claimed",
        "outbox.sending",
        "email.submitted",
        "outbox.sent",
        "outbox.tried",
        "outbox.settled",
    ];
    for (n, point) in points.into_iter().enumerate() {
        let (mark, subject) = (format!("m{n}"), format!("S{n}"));
        let id = format!("{n}@example.org");
        server.deliver(HOUSEHOLD, &proven(ADA, &id, &subject, "", &format!("count: {mark}"))).await;
        // It may die before it is ready.
        let mut daemon = Daemon::spawn(&Household::again(&household, "BUTLERD_CRASH_POINT", point));
        died(&mut daemon, point).await;
        drop(daemon);
        let _daemon = household.start().await;
        let client = household.owner().await;
        eventually(&format!("{point}: it is dealt with"), || async {
            let sql = "SELECT count(*) FILTER (WHERE state <> 'done'), count(*) FROM switchboard.message_inbox";
            let row = client.query_one(sql, &[]).await.map_err(|e| e.to_string())?;
            let (open, all): (i64, i64) = (row.get(0), row.get(1));
            if open == 0 && all == n as i64 + 1 { Ok(()) } else { Err(format!("{open} of {all} are open")) }
        })
        .await;
        household.all_delivered(point).await;
        household.invariants(point).await;
        let sql = "SELECT o.state FROM shared.outbox o JOIN switchboard.message_inbox m USING (request_id)
                   WHERE m.body LIKE $1 AND o.intent = 'reply'";
        let rows = client.query(sql, &[&format!("%count: {mark}")]).await.expect("the answer");
        let states: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        // An answer may be lost from sight, and then the row says so; it is never there twice.
        match (states.as_slice(), arrived(&server, &subject).await) {
            ([state], 1) if state == "sent" || state == "unknown" => {}
            ([state], 0) if state == "unknown" && point == "outbox.sending" => {}
            other => panic!("{point}: {other:?}"),
        }
        assert_eq!(household.counted(&mark).await, 1, "{point}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_again_and_again_under_a_load_of_letters() {
    let Some(server) = MailServer::start().await else { return };
    let model = counting_model(1).await;
    let household = Household::few_with_model(&model)
        .with_tally(4)
        .with_email(&server, "backfill = \"7d\"")
        .replace("switchboard/butler.toml", "worker_count = 3", "worker_count = 3\nconnector_per_minute = 100000")
        .env("BUTLERD_LANE_PER_MINUTE", "100000");
    let daemon = household.start().await;
    rule(&household.owner().await, "count:", TALLY).await;
    drop(daemon);
    let seed = random(0x7e1f);
    println!("seed {seed}");
    let (rounds, each) = (times("CHANNEL_ROUNDS", 3), times("CHANNEL_MESSAGES", 15));
    for round in 0..rounds {
        for n in 0..each {
            let (id, subject) = (format!("{round}-{n}@example.org"), format!("r{round}-{n}"));
            server.deliver(HOUSEHOLD, &proven(ADA, &id, &subject, "", &format!("count: r{round}-{n}"))).await;
        }
        let mut daemon = household.start().await;
        let wanted = 1 + random(seed + round) % each;
        let client = household.owner().await;
        eventually("some of them came in", || async {
            let sql = "SELECT count(*) FROM switchboard.message_inbox";
            let count: i64 = client.query_one(sql, &[]).await.map_err(|e| e.to_string())?.get(0);
            if count as u64 >= round * each + wanted { Ok(()) } else { Err(count.to_string()) }
        })
        .await;
        daemon.kill();
    }
    let _daemon = household.start().await;
    household.worked_off(rounds * each).await;
    household.invariants("under load").await;
    let mut arrived: BTreeMap<String, usize> = BTreeMap::new();
    for raw in server.folder(ADA, "INBOX").await {
        *arrived.entry(field(&raw, "Subject").unwrap_or_default()).or_default() += 1;
    }
    let marks: Vec<String> = (0..rounds).flat_map(|round| (0..each).map(move |n| format!("r{round}-{n}"))).collect();
    household.each_once(&marks, |mark| arrived.get(&format!("Re: {mark}")).copied().unwrap_or(0)).await;
}
