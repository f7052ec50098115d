//! The owner is told of each thing that failed, once, in groups, and never of a notice's own trouble.

use serde_json::{Value, json};

use crate::support::tally::{TALLY, counting_model, envelope, insist};
use crate::support::{Household, Receiver, eventually};

const BUDGET: &str = "[butler]\nname = \"miser\"\nport = 40196\ndescription = \"Spends.\"\n\n[butler.runtime]\n\
    model = \"m\"\n\n[butler.switchboard]\nadvertise = true\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_way_to_fail_has_its_notice_once_and_they_come_together() {
    let model = counting_model(0).await;
    let receiver = Receiver::start().await;
    let household = Household::few_with_model(&model)
        .with_tally(1)
        .with_webhook(&receiver, "")
        .env("BUTLERD_NOTICE_SECONDS", "3600")
        .butler("miser", BUDGET)
        .write("broken/butler.toml", "[butler]\nname = \"broken\"\nport = \"none\"\n");
    let daemon = household.start().await;
    let client = household.owner().await;
    let shown = || async {
        let (_, notes) = daemon.get("/api/chat/notes?wait=1").await;
        let notes: Value = serde_json::from_str(&notes).expect("JSON");
        notes["notes"].as_array().cloned().unwrap_or_default()
    };
    eventually("the first: a butler that is parked", || async {
        let notes = shown().await;
        match notes.as_slice() {
            [one] if one["message"].as_str().is_some_and(|m| m.contains("broken is parked")) => Ok(()),
            _ => Err(format!("{notes:?}")),
        }
    })
    .await;
    // A message that nobody can deal with, a delivery that is refused, a schedule that failed, and one that was missed,
    // and a day's money that is spent.
    let mut message = envelope("1", "t", "nobody knows this one", "interactive");
    message["control"]["pinned_target"] = json!("tally");
    insist(&household.data(), &message).await;
    let refused = json!({"intent": "send", "channel": "webhook", "recipient": "door", "message": "[no]"});
    daemon.mcp(TALLY).call("notify", refused).await;
    client.batch_execute("SET butlerd.tenant = 'owner'").await.expect("a setting");
    client.batch_execute(&schedule_rows()).await.expect("runs of schedules");
    client.batch_execute(SPENT).await.expect("a session that was refused");
    let wanted = [
        "budget_spent",
        "butler_parked",
        "channel_missing",
        "delivery_failed",
        "message_dead",
        "schedule_failed",
        "schedule_missed",
    ];
    eventually("a notice of each", || async {
        let sql = "SELECT array_agg(kind ORDER BY kind) FROM shared.notices";
        let kinds: Vec<String> = client.query_one(sql, &[]).await.map_err(|e| e.to_string())?.get(0);
        if kinds == wanted { Ok(()) } else { Err(format!("{kinds:?}")) }
    })
    .await;
    assert_eq!(shown().await.len(), 1, "they wait for one message");
    drop(daemon);
    // The hour is over.
    let daemon = Household::again(&household, "BUTLERD_NOTICE_SECONDS", "0").start().await;
    let text = eventually("the second", || async {
        let (_, notes) = daemon.get("/api/chat/notes?wait=1").await;
        let notes: Value = serde_json::from_str(&notes).expect("JSON");
        let list = notes["notes"].as_array().cloned().unwrap_or_default();
        match list.as_slice() {
            [_, two] => Ok(two["message"].as_str().unwrap_or_default().to_owned()),
            _ => Err(format!("{notes}")),
        }
    })
    .await;
    assert!(text.starts_with("6 things need your attention"), "{text}");
    for part in [
        "came to nothing",
        "could not be delivered over webhook",
        "over telegram is not sent",
        "the schedule rounds failed",
        "was left out",
        "miser",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let sql = "SELECT count(*), count(DISTINCT (kind, subject, happened_at)) FROM shared.notices";
    let row = household.owner().await.query_one(sql, &[]).await.expect("a count");
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (7, 7), "a second start finds nothing new");
}

fn schedule_rows() -> String {
    let run = |at: &str, cause: &str, state: &str, reason: &str| {
        format!(
            "INSERT INTO tally.schedule_runs (id, task_id, fire_at, cause, state, reason, trust, created_at, finished_at)
             SELECT gen_random_uuid(), id, now() - interval '{at}', '{cause}', '{state}', '{reason}', 'owner', now(), now() FROM tally.scheduled_tasks
             WHERE name = 'rounds';"
        )
    };
    format!(
        "INSERT INTO tally.scheduled_tasks (id, name, cron, prompt, dispatch_mode, timezone, source, trust, enabled)
         VALUES (gen_random_uuid(), 'rounds', '0 4 1 1 *', 'go', 'prompt', 'UTC', 'db', 'owner', false);{}{}",
        run("1 hour", "slot", "failed", "it broke"),
        run("2 hours", "missed", "skipped", "butlerd was not running")
    )
}

const SPENT: &str =
    "INSERT INTO miser.sessions (id, request_id, trigger_source, state, context, trust, prompt, runtime,
        error_class, error, trace_id, queued_at, completed_at)
    VALUES (gen_random_uuid(), gen_random_uuid(), 'trigger', 'failed', '{}', 'owner', 'p', 'native', 'budget',
            'all is spent', 't', now(), now()),
           (gen_random_uuid(), gen_random_uuid(), 'trigger', 'failed', '{}', 'owner', 'p', 'native', 'budget',
            'all is spent', 't', now(), now());";

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
