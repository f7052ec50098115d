//! `kill -9` between every step of a Telegram message and the next, in and out: nothing is lost, nothing is there twice.

use std::collections::BTreeMap;

use serde_json::json;

use crate::support::bot_api::{ADA, BotApi};
use crate::support::tally::{counting_model, died, random, times};
use crate::support::{Daemon, Household, eventually};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_between_any_two_steps_of_a_message() {
    let (api, model) = (BotApi::start().await, counting_model(1).await);
    let household = Household::few_with_model(&model).with_tally(2).with_telegram(&api, "");
    let points = [
        "connector.fetched",
        "accept.before",
        "accept.committed",
        "connector.accepted",
        "connector.checkpointing",
        "connector.checkpointed",
        "outbox.claimed",
        "outbox.sending",
        "outbox.sent",
        "outbox.tried",
        "outbox.settled",
    ];
    for (n, point) in points.into_iter().enumerate() {
        let mark = format!("m{n}");
        api.writes(ADA, &format!("count: {mark}"));
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
        // An answer may be lost from sight, and then the row says so; it is never there twice.
        let sql = "SELECT o.state FROM shared.outbox o JOIN switchboard.message_inbox m USING (request_id)
                   WHERE m.body = $1 AND o.intent = 'reply'";
        let rows = client.query(sql, &[&format!("count: {mark}")]).await.expect("the answer");
        let states: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        let arrived = api.said_to(ADA).iter().filter(|text| **text == format!("counted {mark}")).count();
        match (states.as_slice(), arrived) {
            ([state], 1) if state == "sent" || state == "unknown" => {}
            ([state], 0) if state == "unknown" && point == "outbox.sending" => {}
            other => panic!("{point}: {other:?}"),
        }
        assert_eq!(household.counted(&mark).await, 1, "{point}");
        eventually(&format!("{point}: Telegram may forget it"), || async {
            if api.waiting() == 0 { Ok(()) } else { Err(format!("{} wait", api.waiting())) }
        })
        .await;
    }
    api.judge("telegram_crash::killed_between_any_two_steps_of_a_message");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_again_and_again_under_a_load_of_messages() {
    let (api, model) = (BotApi::start().await, counting_model(1).await);
    let household = Household::few_with_model(&model)
        .with_tally(4)
        .with_telegram(&api, "reactions = false")
        .replace("switchboard/butler.toml", "worker_count = 3", "worker_count = 3\nconnector_per_minute = 100000")
        .env("BUTLERD_LANE_PER_MINUTE", "100000");
    let seed = random(0x7e1e);
    println!("seed {seed}");
    let (rounds, each) = (times("CHANNEL_ROUNDS", 3), times("CHANNEL_MESSAGES", 20));
    for round in 0..rounds {
        for n in 0..each {
            api.message(
                ADA,
                json!({"chat": {"id": ADA, "type": "private", "first_name": "Ada"},
                                    "text": format!("count: r{round}-{n}")}),
            );
        }
        let mut daemon = household.start().await;
        // At some moment of the work.
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
    api.said_to(ADA).into_iter().for_each(|text| *arrived.entry(text).or_default() += 1);
    let marks: Vec<String> = (0..rounds).flat_map(|round| (0..each).map(move |n| format!("r{round}-{n}"))).collect();
    household.each_once(&marks, |mark| arrived.get(&format!("counted {mark}")).copied().unwrap_or(0)).await;
}
