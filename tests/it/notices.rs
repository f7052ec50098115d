//! The owner is told of each thing that failed, once, in groups, and never of a notice's own trouble.

use serde_json::{Value, json};

use crate::support::tally::{TALLY, envelope, insist};
use crate::support::{Daemon, Household, Receiver, eventually, model};

/// Its first session uses up its day.
const MISER: &str = "[butler]\nname = \"miser\"\nport = 40196\ndescription = \"Spends.\"\n\n[butler.runtime]\n\
    model = \"m\"\n\n[butler.budgets]\nday_tokens = 1\n\n[butler.switchboard]\nadvertise = true\n";

/// What the chat shows of notices.
async fn shown(daemon: &Daemon) -> Vec<Value> {
    let (_, notes) = daemon.get("/api/chat/notes?wait=1").await;
    let notes: Value = serde_json::from_str(&notes).expect("JSON");
    notes["notes"].as_array().cloned().unwrap_or_default()
}

/// Waits until there is a notice of each of these kinds, and no other.
async fn noticed(client: &tokio_postgres::Client, wanted: &[&str]) {
    eventually("a notice of each", || async {
        let sql = "SELECT array_agg(kind ORDER BY kind) FROM shared.notices";
        let kinds: Vec<String> = client.query_one(sql, &[]).await.map_err(|e| e.to_string())?.get(0);
        if kinds == wanted { Ok(()) } else { Err(format!("{kinds:?}")) }
    })
    .await;
}

/// Has a butler work, and looks how that ends.
fn works(household: &Household, (butler, prompt): (&str, &str), ends: &str) {
    let (_, out, err) = tokio::task::block_in_place(|| household.cli(&["trigger", butler, prompt, "--json"]));
    let done: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("no JSON: {out}{err}"));
    assert!(done["state"] == ends || done["code"] == ends, "{done}");
}

/// Fails in each way once: a message that nobody can deal with, whose answer no channel takes; deliveries that are
/// refused, lost on their way, and given up; a schedule without its job; a day's money, and what is asked of one who
/// has none left.
async fn fail(household: &Household, daemon: &Daemon) {
    let mut message = envelope("1", "t", "nobody knows this one", "interactive");
    message["control"]["pinned_target"] = json!(TALLY);
    insist(&household.data(), &message).await;
    let tally = daemon.mcp(TALLY);
    for (recipient, message) in [("door", "[no]"), ("door", "[drop]"), ("wise", "[down]")] {
        let send = json!({"intent": "send", "channel": "webhook", "recipient": recipient, "message": message});
        tally.call("notify", send).await;
    }
    let jobless = json!({"name": "rounds", "in": "1s", "dispatch_mode": "job", "job_name": "nobodys"});
    assert_eq!(tally.ok("schedule_create", jobless).await["status"], "created");
    works(household, ("miser", "spend it"), "succeeded");
    for _ in 0..2 {
        works(household, ("miser", "spend it"), "budget");
    }
    works(household, (TALLY, "ask around"), "succeeded");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_way_to_fail_has_its_notice_once_and_they_come_together() {
    let ask = json!({"call": {"tool": "ask_butler", "arguments": {"butler": "miser", "question": "What is left?"}}});
    let model = model(json!([
        {"when": "spend it", "steps": [{"say": "spent"}]},
        {"when": "ask around", "steps": [ask, {"say": "asked"}]},
    ]))
    .await;
    let receiver = Receiver::start().await;
    let household = Household::few_with_model(&model)
        .with_tally(1)
        .with_webhook(&receiver, "")
        .env("BUTLERD_NOTICE_SECONDS", "86400")
        .butler("miser", MISER)
        .write("broken/butler.toml", "[butler]\nname = \"broken\"\nport = \"none\"\n");
    let daemon = household.start().await;
    let client = household.owner().await;
    eventually("the first: a butler that is parked", || async {
        let notes = shown(&daemon).await;
        match notes.as_slice() {
            [one] if one["message"].as_str().is_some_and(|m| m.contains("broken is parked")) => Ok(()),
            _ => Err(format!("{notes:?}")),
        }
    })
    .await;
    let later = json!({"name": "later", "in": "1h", "prompt": "go", "missed": "skip"});
    assert_eq!(daemon.mcp(TALLY).ok("schedule_create", later).await["status"], "created");
    fail(&household, &daemon).await;
    let mut wanted = vec![
        "budget_spent",
        "butler_parked",
        "channel_missing",
        "delivery_dead",
        "delivery_failed",
        "delivery_unknown",
        "message_dead",
        "schedule_failed",
        "work_dead",
    ];
    noticed(&client, &wanted).await;
    // Two are of their day, which began at midnight; these, too, were there before the wait above was over.
    let sql = "SELECT kind || ' ' || (created_at - happened_at) FROM shared.notices
               WHERE kind NOT IN ('budget_spent', 'butler_parked') AND created_at - happened_at > interval '1 minute'";
    let late: Vec<String> = client.query(sql, &[]).await.expect("times").iter().map(|row| row.get(0)).collect();
    assert!(late.is_empty(), "{late:?}");
    assert_eq!(shown(&daemon).await.len(), 1, "they wait for one message");
    drop(daemon);

    // It was away for two hours, and so for the time of one schedule.
    let household = Household::again(&household, "BUTLERD_CLOCK_OFFSET", "2h");
    let daemon = household.start().await;
    let client = household.owner().await;
    wanted.insert(wanted.len() - 1, "schedule_missed");
    noticed(&client, &wanted).await;
    drop(daemon);

    // The day is over.
    let daemon = Household::again(&household, "BUTLERD_NOTICE_SECONDS", "0").start().await;
    let text = eventually("the second", || async {
        let notes = shown(&daemon).await;
        match notes.as_slice() {
            [_, two] => Ok(two["message"].as_str().unwrap_or_default().to_owned()),
            _ => Err(format!("{notes:?}")),
        }
    })
    .await;
    assert!(text.starts_with("9 things need your attention"), "{text}");
    for part in [
        "came to nothing",
        "could not be delivered over webhook",
        "over webhook arrived",
        "over telegram is not sent",
        "the schedule rounds failed: there is no job",
        "the schedule later was left out",
        "miser has used up what it may spend",
        "miser could not do something that another asked of it",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let sql = "SELECT count(*), count(DISTINCT (kind, subject, happened_at)) FROM shared.notices";
    let row = household.owner().await.query_one(sql, &[]).await.expect("a count");
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (10, 10), "a later start finds nothing new");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_notice_that_does_not_get_through_comes_to_the_chat_and_makes_no_other() {
    let receiver = Receiver::start().await;
    let household = Household::new()
        .with_webhook(&receiver, "")
        .env("BUTLERD_OWNER__NOTICE_CHANNEL", "webhook")
        .env("BUTLERD_OWNER__IDENTITIES__WEBHOOK", "door");
    let daemon = household.start().await;
    let client = household.owner().await;
    let no = json!({"intent": "send", "channel": "webhook", "recipient": "wise", "message": "[no] at all"});
    daemon.mcp("general").call("notify", no).await;
    eventually("the notice has arrived at the owner's own endpoint", || async {
        let hooks = receiver.hooks();
        let told = hooks.iter().find(|hook| hook.body["kind"] == "notice");
        told.map(|_| ()).ok_or_else(|| format!("{} requests", hooks.len()))
    })
    .await;
    let (gone, _) = (receiver.addr, drop(receiver));
    let sql = "UPDATE shared.outbox SET failures = 9 WHERE kind = 'notice' AND state = 'pending'";
    let lost = json!({"intent": "send", "channel": "webhook", "recipient": "wise", "message": "b"});
    daemon.mcp("general").call("notify", lost).await;
    eventually(&format!("nobody is at {gone}: the chat shows it"), || async {
        let update =
            "UPDATE shared.outbox SET failures = 9 WHERE state = 'pending' AND claim_id IS NULL AND kind <> 'notice'";
        client.execute(update, &[]).await.map_err(|e| e.to_string())?;
        client.execute(sql, &[]).await.map_err(|e| e.to_string())?;
        let (_, notes) = daemon.get("/api/chat/notes").await;
        if notes.contains("could not be delivered") { Ok(()) } else { Err(notes) }
    })
    .await;
    let sql = "SELECT count(*), count(*) FILTER (WHERE n.subject IN (SELECT id::text FROM shared.outbox WHERE kind = 'notice'))
               FROM shared.notices n";
    let row = client.query_one(sql, &[]).await.expect("a count");
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (2, 0));
}
