//! What the memory does by itself: episodes become facts, what nobody confirms fades, old episodes go.

use serde_json::{Value, json};
use tokio_postgres::Client;
use uuid::Uuid;

use crate::support::Household;
use crate::support::tally::TALLY;

/// A household whose butler `tally` remembers. `more` is added to its `butler.toml`.
fn remembering(household: Household, more: &str) -> Household {
    let household = household.with_tally(1);
    let path = household.roster().join("tally/butler.toml");
    let toml = std::fs::read_to_string(path).expect("the file");
    household.write("tally/butler.toml", &format!("{toml}\n[modules.memory]\n{more}"))
}

/// Runs one of tally's schedules and returns what is told of it.
fn run(household: &Household, schedule: &str) -> Value {
    let (_, out, err) = household.cli(&["schedule", "run", schedule, "--butler", TALLY, "--json"]);
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"))
}

fn said(ran: &Value) -> &str {
    ran["result"].as_str().or(ran["error"].as_str()).unwrap_or_else(|| panic!("nothing is said: {ran}"))
}

/// Puts a memory into tally's tables, as its tenant's, believed so far.
async fn put(client: &Client, kind: &str, tenant: &str, trust: &str, more: Value) -> Uuid {
    let id = Uuid::now_v7();
    let mut given = json!({"id": id, "content_hash": id, "topic_hash": id, "subject": "s", "predicate": "p", "content": "c",
                           "source_butler": TALLY, "butler": TALLY});
    given.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    let sql = "SELECT set_config('butlerd.tenant', $1, false), set_config('butlerd.trust', $2, false)";
    client.query(sql, &[&tenant, &trust]).await.expect("settings");
    client.query("SELECT tally.memory_put($1, $2)", &[&kind, &given]).await.expect("it is put");
    id
}

async fn validity(client: &Client, id: Uuid) -> String {
    let sql = "SELECT validity FROM tally.memory_facts WHERE id = $1
               UNION ALL SELECT validity FROM tally.memory_rules WHERE id = $1";
    client.query_one(sql, &[&id]).await.expect("a row").get(0)
}

async fn count(client: &Client, sql: &str) -> i64 {
    client.query_one(&format!("SELECT count(*) FROM tally.{sql}"), &[]).await.expect("a count").get(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_confirms_fades_then_expires_and_comes_back_when_confirmed() {
    let household = remembering(Household::new(), "");
    let mut daemon = household.start().await;
    let client = household.owner().await;
    let fact = |more: Value| put(&client, "fact", "owner", "owner", more);
    // A tenth a day: below 0.2 after 17 days, below 0.05 after 30.
    let fast = fact(json!({"decay_rate": 0.1})).await;
    let confirmed = fact(json!({"decay_rate": 0.1})).await;
    let profile = fact(json!({"decay_rate": 0.1, "retention_class": "personal_profile"})).await;
    let slow = fact(json!({"decay_rate": 0.002})).await;
    let stranger = put(&client, "fact", "owner", "stranger", json!({"decay_rate": 0.1})).await;
    let others = put(&client, "fact", "guest", "owner", json!({"decay_rate": 0.1})).await;
    let rule = put(&client, "rule", "owner", "owner", json!({"decay_rate": 0.1, "confidence": 0.5})).await;
    let before = count(&client, "memory_events").await;
    let ran = run(&household, "memory-decay-sweep");
    assert!(said(&ran).starts_with("facts_checked 6, rules_checked 1, facts_fading 0, rules_fading 0"), "{ran}");
    assert_eq!(count(&client, "memory_events").await, before, "nothing changed, and nothing is told");
    daemon.kill();
    let mut daemon = Household::again(&household, "BUTLERD_CLOCK_OFFSET", "480h").start().await;
    let client = household.owner().await;
    let ran = run(&household, "memory-decay-sweep");
    assert!(said(&ran).contains("facts_fading 4, rules_fading 1, facts_expired 0, rules_expired 0"), "{ran}");
    for (id, is) in [(fast, "fading"), (profile, "active"), (slow, "active"), (others, "fading"), (rule, "fading")] {
        assert_eq!(validity(&client, id).await, is, "{id}");
    }
    let sql = "SELECT trust, validity FROM tally.memory_facts WHERE id = $1";
    let row = client.query_one(sql, &[&stranger]).await.expect("a row");
    assert_eq!((row.get::<_, &str>(0), row.get::<_, &str>(1)), ("stranger", "fading"));
    assert_eq!(count(&client, "memory_events WHERE event_type = 'faded'").await, before + 5);
    let again = run(&household, "memory-decay-sweep");
    assert!(said(&again).contains("facts_fading 4"), "{again}");
    assert_eq!(count(&client, "memory_events WHERE event_type = 'faded'").await, before + 5, "told once");
    let sql = "UPDATE tally.memory_facts SET last_confirmed_at = last_confirmed_at + interval '20 days' WHERE id = $1";
    client.execute(sql, &[&confirmed]).await.expect("confirmed");
    daemon.kill();
    let _daemon = Household::again(&household, "BUTLERD_CLOCK_OFFSET", "744h").start().await;
    let client = household.owner().await;
    let ran = run(&household, "memory-decay-sweep");
    assert!(said(&ran).contains("facts_expired 3, rules_expired 1; 1 no longer fading"), "{ran}");
    for (id, is) in [(fast, "expired"), (confirmed, "active"), (profile, "active"), (rule, "expired")] {
        assert_eq!(validity(&client, id).await, is, "{id}");
    }
    let ran = run(&household, "memory-decay-sweep");
    assert!(said(&ran).starts_with("facts_checked 3, rules_checked 0"), "what expired is looked at no more: {ran}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_episodes_go_and_what_was_forgotten_leaves_its_mark() {
    let household = remembering(Household::new(), "\n[modules.memory.episodes]\ncapacity = 3\n");
    let _daemon = household.start().await;
    let client = household.owner().await;
    let now = jiff::Timestamp::now();
    let ago = |days: i64| now.checked_sub(jiff::SignedDuration::from_hours(24 * days)).expect("a moment").to_string();
    let episode = |expired_days: Option<i64>, state: &str| {
        let expires = expired_days.map(ago);
        let state = state.to_owned();
        let client = &client;
        async move { put(client, "episode", "owner", "owner", json!({"expires_at": expires, "consolidation": state})).await }
    };
    let old = episode(Some(1), "consolidated").await;
    let waiting = episode(Some(6), "pending").await;
    let never = episode(Some(8), "pending").await;
    let forgotten = episode(Some(30), "consolidated").await;
    let mut kept = Vec::new();
    for _ in 0..4 {
        kept.push(episode(None, "consolidated").await);
    }
    let archived = put(
        &client,
        "episode",
        "owner",
        "owner",
        json!({"retention_class": "health_log",
        "consolidation": "consolidated", "content": "older than all", "created_at": ago(90)}),
    )
    .await;
    let sql = "UPDATE tally.memory_episodes SET forgotten_at = shared.clock(), content = '' WHERE id = $1";
    client.execute(sql, &[&forgotten]).await.expect("forgotten");
    // The rows as they were before some event.
    for id in [old, forgotten] {
        let sql = "WITH e AS (INSERT INTO tally.memory_events (event_type, memory_type, memory_id, actor, tenant_id)
                              VALUES ('changed', 'episode', $1, 'test', 'owner') RETURNING id)
                   INSERT INTO tally.memory_history (event_id, memory_type, memory_id, change, tenant_id)
                   SELECT id, 'episode', $1, 1, 'owner' FROM e";
        client.execute(sql, &[&id]).await.expect("history");
    }
    let ran = run(&household, "memory-episode-cleanup");
    assert_eq!(
        said(&ran),
        "took away 2 expired episodes and 3 beyond what is kept; 1 of them were never made into facts",
        "{ran}"
    );
    let rows = client.query("SELECT id FROM tally.memory_episodes", &[]).await.expect("rows");
    let left: Vec<Uuid> = rows.iter().map(|r| r.get(0)).collect();
    for (id, there) in [(old, false), (never, false), (waiting, true), (forgotten, true), (archived, true)] {
        assert_eq!(left.contains(&id), there, "{id}");
    }
    assert_eq!(kept.iter().map(|id| left.contains(id)).collect::<Vec<_>>(), [false, false, false, true]);
    assert_eq!(count(&client, "memory_history").await, 1, "what was known of the deleted is gone with it");
    let again = run(&household, "memory-episode-cleanup");
    assert_eq!(said(&again), "took away 0 expired episodes and 0 beyond what is kept");
}
