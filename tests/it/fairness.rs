//! What strangers send costs them their own time and money, and not the owner's.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use tokio_postgres::Client;
use uuid::Uuid;

use crate::inbound::{ended, ingest, message};
use crate::support::{Daemon, Household, eventually, http, model};

/// A message of somebody whom nobody knows, in a thread of its own.
fn strangers(sender: &str, id: &str, text: &str) -> Value {
    let mut envelope = message(id, &format!("thread {id}"), text);
    envelope["sender"]["identity"] = json!(sender);
    envelope["control"]["policy_tier"] = json!("high_priority");
    envelope
}

fn pinned(mut envelope: Value, butler: &str) -> Value {
    envelope["control"]["pinned_target"] = json!(butler);
    envelope
}

async fn taken(daemon: &Daemon, envelope: &Value) -> Uuid {
    let (status, accepted) = ingest(daemon, envelope).await;
    assert_eq!(status, 202, "{accepted}");
    accepted["request_id"].as_str().and_then(|id| id.parse().ok()).expect("an id")
}

async fn count(db: &Client, sql: &str) -> i64 {
    db.query_one(sql, &[]).await.expect("a count").get(0)
}

/// Waits until it is so many, for as long as it goes on.
async fn counted(db: &Client, what: &str, sql: &str, wanted: i64) {
    let mut seen = -1;
    while seen != wanted {
        seen = eventually(what, || async {
            match count(db, sql).await {
                n if n != seen || n == wanted => Ok(n),
                n => Err(format!("{n}, not {wanted}")),
            }
        })
        .await;
    }
}

/// A household that takes many messages of a stranger.
pub fn patient(household: Household) -> Household {
    let more = "worker_count = 3\nstranger_per_hour = 10000\nstranger_per_day = 10000";
    household.replace("switchboard/butler.toml", "worker_count = 3", more)
}

const WAITING: &str = "SELECT count(*) FROM health.route_inbox WHERE state <> 'done'";
const RUNNING: &str = "SELECT count(*) FROM health.sessions WHERE state = 'running'";
const BEGUN: &str =
    "SELECT count(*) FROM health.sessions WHERE started_at IS NOT NULL AND context #>> '{request,trust}' = 'stranger'";

/// How many messages a stranger sends at once.
const FLOOD: i64 = 140;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_a_stranger_keeps_the_owner_waiting_for_nothing_but_what_runs() {
    let model = model(json!([
        {"when": "FLOOD", "steps": [{"hang": true}]},
        {"when": "weigh", "steps": [{"say": "Noted."}]},
    ]))
    .await;
    for most in [3, 1] {
        let household = patient(Household::with_model(&model));
        let household = household.replace("switchboard/butler.toml", "queue_capacity = 100", "queue_capacity = 500");
        let household = household.replace(
            "health/butler.toml",
            "max_concurrent_sessions = 3",
            &format!("max_concurrent_sessions = {most}"),
        );
        let daemon = household.start().await;
        let db = household.owner().await;
        for n in 0..FLOOD {
            taken(&daemon, &pinned(strangers("eve", &n.to_string(), &format!("FLOOD {n}")), "health")).await;
        }
        counted(&db, "all wait for their butler", WAITING, FLOOD).await;
        // One slot stays the owner's, where there is more than one.
        let running = (most - 1).max(1);
        counted(&db, "the stranger's first sessions run", RUNNING, running).await;
        let mut own = pinned(message("own", "chat", "I weigh 82 kg"), "health");
        own["control"]["policy_tier"] = json!("default");
        let own = taken(&daemon, &own).await;
        if most == 1 {
            let waits = "SELECT count(*) FROM health.sessions WHERE state = 'queued' AND trust = 'owner'";
            counted(&db, "the owner is next", waits, 1).await;
            let sql = "SELECT id::text FROM health.sessions WHERE state = 'running'";
            let session: String = db.query_one(sql, &[]).await.expect("a session").get(0);
            assert_eq!(household.cli(&["sessions", "cancel", &session]).0, 0);
        }
        let entry = ended(&daemon, &own.to_string()).await;
        assert_eq!(entry["state"], "done", "{entry}");
        let before = format!(
            "{BEGUN} AND started_at < (SELECT started_at FROM health.sessions WHERE request_id = '{own}' LIMIT 1)"
        );
        assert_eq!(count(&db, &before).await, running, "only what ran already went before the owner");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_that_has_to_be_classified_keeps_a_worker_for_the_owner() {
    let model = model(json!([
        {"when": "(?s)FLOOD.*Route the message in", "steps": [{"hang": true}]},
        {"when": "(?s)weigh.*Route the message in", "steps": [
            {"call": {"tool": "route_to_butler", "arguments": {"butler": "health", "prompt": "I weigh 82 kg"}}}]},
        {"when": "I weigh 82 kg", "steps": [{"say": "Noted."}]},
    ]))
    .await;
    let household = patient(Household::with_model(&model));
    let daemon = household.start().await;
    let db = household.owner().await;
    // More than the buffer holds in memory.
    for n in 0..FLOOD {
        taken(&daemon, &strangers("eve", &n.to_string(), &format!("FLOOD {n}"))).await;
    }
    let held = "SELECT count(*) FROM switchboard.sessions WHERE state = 'running'";
    counted(&db, "three workers are busy", held, 3).await;
    let own = taken(&daemon, &message("own", "chat", "I weigh 82 kg")).await;
    let entry = ended(&daemon, &own.to_string()).await;
    assert_eq!((&entry["state"], &entry["segments"][0]["chosen_by"]), (&json!("done"), &json!("model")), "{entry}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_senders_many_messages_wait_for_others_one() {
    let model = model(json!([
        {"when": "FLOOD", "steps": [{"hang": true}]},
        {"when": "QUESTION", "steps": [{"say": "Hm."}]},
    ]))
    .await;
    let household = patient(Household::with_model(&model)).replace(
        "health/butler.toml",
        "max_concurrent_sessions = 3",
        "max_concurrent_sessions = 1",
    );
    let daemon = household.start().await;
    let db = household.owner().await;
    for n in 0..20 {
        taken(&daemon, &pinned(strangers("eve", &n.to_string(), &format!("FLOOD {n}")), "health")).await;
    }
    counted(&db, "one of them runs", RUNNING, 1).await;
    let other = taken(&daemon, &pinned(strangers("mal", "other", "QUESTION"), "health")).await;
    counted(&db, "all are with their butler", WAITING, 21).await;
    eventually("the other one is heard", || async {
        let (_, entry) = daemon.get(&format!("/api/inbox/{other}")).await;
        let entry: Value = serde_json::from_str(&entry).unwrap_or_default();
        if entry["state"] == "done" {
            return Ok(());
        }
        // Whatever of the first one runs comes to its end.
        let sql = "SELECT id::text FROM health.sessions WHERE state = 'running' AND request_id <> $1";
        for session in db.query(sql, &[&other]).await.expect("sessions") {
            household.cli(&["sessions", "cancel", session.get(0)]);
        }
        Err(entry.to_string())
    })
    .await;
    let before = format!(
        "{BEGUN} AND started_at < (SELECT started_at FROM health.sessions WHERE request_id = '{other}' LIMIT 1)"
    );
    let before = count(&db, &before).await;
    assert!(before <= 2, "{before} of the first one's went before: what ran, and one that was there earlier");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_who_sends_too_much_is_told_and_nobody_else_is() {
    let model = model(json!([{"when": "(?s).*", "steps": [{"say": "Hm."}]}])).await;
    let household = Household::with_model(&model).replace(
        "switchboard/butler.toml",
        "worker_count = 3",
        "worker_count = 3\nstranger_per_hour = 2\nstranger_per_day = 3",
    );
    let mut daemon = household.start().await;
    assert_eq!(household.cli(&["contacts", "add", "Bea", "telegram", "bea"]).0, 0);
    let of = |sender: &str, n: u32| pinned(strangers(sender, &format!("{sender} {n}"), "hello"), "general");
    let first = taken(&daemon, &of("eve", 1)).await;
    taken(&daemon, &of("EVE", 2)).await;
    for restart in [false, true] {
        if restart {
            daemon.kill();
            daemon = household.start().await;
        }
        for sender in ["eve", "Eve <eve>"] {
            let request = http().post(format!("http://{}/api/ingest", daemon.admin())).bearer_auth(daemon.token());
            let answer = request.json(&of(sender, 3)).send().await.expect("an answer");
            let after = answer.headers().get("retry-after").and_then(|v| v.to_str().ok()).map(str::to_owned);
            let (status, said): (u16, Value) = (answer.status().as_u16(), answer.json().await.expect("JSON"));
            assert_eq!((status, &said["code"]), (429, &json!("sender_limit")), "{said}");
            let after: u32 = after.and_then(|after| after.parse().ok()).expect("when to come again");
            assert!((3000..=3600).contains(&after), "{after}");
        }
        // What was taken is known again, and everybody else is heard.
        let (status, again) = ingest(&daemon, &of("eve", 1)).await;
        assert_eq!((status, &again["request_id"]), (202, &json!(first)), "{again}");
        for n in 0..4 {
            let n = if restart { n + 10 } else { n };
            for sender in ["bea", "4711"] {
                taken(&daemon, &of(sender, n)).await;
            }
        }
    }
    taken(&daemon, &of("mal", 1)).await;
    let refused = daemon.mcp("switchboard").ok("list_refused_senders", json!({})).await;
    let told = &refused[0];
    assert_eq!((&told["sender"], &told["refused"]), (&json!("eve"), &json!(4)), "{refused}");
    assert_eq!(told["by_limit"], "stranger_per_hour", "{refused}");
    // The command line goes on with the next.
    let (code, out, err) = household.cli_with_input(&["ingest"], &format!("{}\n{}\n", of("eve", 9), of("bea", 99)));
    assert!(code == 1 && out.contains("line 2: accepted"), "{out}{err}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_files_fill_no_disk_and_everybody_elses_are_kept() {
    let model = model(json!([{"when": "(?s).*", "steps": [{"say": "Hm."}]}])).await;
    let household = Household::with_model(&model).replace(
        "switchboard/butler.toml",
        "worker_count = 3",
        "worker_count = 3\nstranger_files_per_day = \"1 KiB\"",
    );
    let mut daemon = household.start().await;
    // Whether its file is kept, and whether the message says that it is not.
    let kept = async |daemon: &Daemon, sender: &str, n: u8| {
        let mut envelope = pinned(strangers(sender, &format!("{sender} {n}"), "hello"), "general");
        let content = BASE64.encode([n; 600]);
        envelope["payload"]["attachments"] = json!([{"media_type": "application/octet-stream", "filename": "f.bin",
                                                     "size_bytes": 600, "content_base64": content}]);
        let request = taken(daemon, &envelope).await;
        let sql = "SELECT EXISTS (SELECT 1 FROM switchboard.blobs b
                                  WHERE 'blob:sha256:' || b.sha256 = m.attachments #>> '{0,storage_ref}'),
                          m.body LIKE '%1 of its files were not kept%'
                   FROM switchboard.message_inbox m WHERE request_id = $1";
        let row = household.owner().await.query_one(sql, &[&request]).await.expect("the message");
        (row.get::<_, bool>(0), row.get::<_, bool>(1))
    };
    assert_eq!(kept(&daemon, "eve", 1).await, (true, false));
    assert_eq!(kept(&daemon, "mal", 2).await, (false, true));
    assert_eq!(kept(&daemon, "4711", 3).await, (true, false));
    daemon.kill();
    daemon = household.start().await;
    assert_eq!(kept(&daemon, "zoe", 4).await, (false, true));
    let older = "UPDATE switchboard.blobs SET created_at = created_at - interval '25 hours'";
    household.owner().await.execute(older, &[]).await.expect("a day later");
    assert_eq!(kept(&daemon, "zoe", 5).await, (true, false));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_together_spend_what_they_may_and_the_owner_goes_on() {
    let model = model(json!([{"when": "(?s).*", "steps": [{"say": "Hm."}]}])).await;
    let household = Household::moved(&model).env("BUTLERD_SPAWNER__BUDGETS__STRANGER_DAY_TOKENS", "2000");
    let mut daemon = household.start().await;
    // A turn has 1120 tokens.
    for (sender, state) in [("eve", "done"), ("mal", "done"), ("zoe", "dead")] {
        let id = taken(&daemon, &pinned(strangers(sender, sender, "hello"), "general")).await;
        let entry = ended(&daemon, &id.to_string()).await;
        assert_eq!(entry["state"], state, "{sender}: {entry}");
    }
    let mut spent = message("5", "zoe", "hello again");
    spent["sender"]["identity"] = json!("zoe");
    let mut last = None;
    for restart in [false, true] {
        if restart {
            daemon.kill();
            daemon = household.start().await;
        }
        spent["event"]["external_event_id"] = json!(format!("again {restart}"));
        let id = taken(&daemon, &pinned(spent.clone(), "general")).await;
        let entry = ended(&daemon, &id.to_string()).await;
        assert_eq!((&entry["state"], &entry["trust"]), (&json!("dead"), &json!("stranger")), "{entry}");
        let told = entry["replies"][0]["message"].as_str().expect("an answer");
        assert!(told.contains("can't deal with your message today") && !told.contains("spawner"), "{entry}");
        let why = entry["last_error"].as_str().expect("why");
        assert!(why.contains("sessions that strangers started have used 2240 of 2000 tokens"), "{entry}");
        let own = taken(&daemon, &pinned(message(&format!("own {restart}"), "chat", "hello"), "general")).await;
        assert_eq!(ended(&daemon, &own.to_string()).await["state"], "done");
        last = Some(id);
    }
    // It is on record, and the next day has room for it.
    household.set_clock("2027-03-01T08:00:00+01:00");
    let last = last.expect("a message").to_string();
    let (code, out, err) = household.cli(&["inbox", "retry", &last]);
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(ended(&daemon, &last).await["state"], "done");
}
