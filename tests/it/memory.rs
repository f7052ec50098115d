//! Specification 000, scenario by scenario: memory is asked before a session and told after it, by the butler's own
//! tools.

use serde_json::{Value, json};
use testkit::model::ScriptedModel;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::support::tally::died;
use crate::support::{Daemon, Household, eventually, model};

/// A household whose Health and General butlers remember; `more` goes into Health's settings of memory.
async fn household(more: &str) -> (ScriptedModel, Household) {
    let model = model(json!([
        {"when": "recall my medications", "steps": [
            {"call": {"tool": "memory_recall", "arguments": {"topic": "user medications"}}}, {"say": "You take ramipril."}]},
        {"when": "write the weight", "steps": [
            {"call": {"tool": "measurement_log", "arguments": {"kind": "weight", "value": {"kg": 82}}}}, {"say": "Noted: 82 kg."}]},
        {"when": "fail now", "steps": [{"fail": {"status": 400, "body": {"error": {"message": "no such thing"}}}}]},
        {"when": ".", "steps": [{"say": "Done."}]},
    ]))
    .await;
    let household = Household::with_model(&model).replace(
        "health/butler.toml",
        "[modules.memory]\nenabled = true\n",
        &format!("[modules.memory]\n{}{more}", if more.contains("enabled") { "" } else { "enabled = true\n" }),
    );
    (model, household)
}

/// Whoever measures nothing waits for memory, however busy the machine is.
const PATIENT: &str = "[modules.memory.retrieval]\ndeadline = \"10s\"\n";

async fn fact(daemon: &Daemon, butler: &str, subject: &str, predicate: &str, content: &str) -> Value {
    let given = json!({"subject": subject, "predicate": predicate, "content": content});
    daemon.mcp(butler).ok("memory_store_fact", given).await
}

/// Triggers a session and returns its id.
async fn trigger(daemon: &Daemon, butler: &str, prompt: &str) -> Uuid {
    let end = daemon.mcp(butler).call("trigger", json!({"prompt": prompt})).await.text();
    end["session_id"].as_str().unwrap_or_else(|| panic!("no session: {end}")).parse().expect("an id")
}

/// What the session was told before it began.
async fn told(db: &Client, butler: &str, session: Uuid) -> (String, Value) {
    let sql = format!(
        "SELECT concat(p.parts[1], s.prompt_notes, p.parts[2], s.system_prompt), s.memory
         FROM {butler}.sessions s LEFT JOIN {butler}.system_prompts p ON p.sha256 = s.prompt_sha256 WHERE s.id = $1"
    );
    let row = db.query_one(&sql, &[&session]).await.expect("the session");
    (row.get::<_, Option<String>>(0).unwrap_or_default(), row.get::<_, Option<Value>>(1).unwrap_or_default())
}

/// The episode of a session, once it is there.
async fn episode(db: &Client, butler: &str, session: Uuid) -> (String, String) {
    let sql = format!("SELECT butler, content FROM {butler}.memory_episodes WHERE session_id = $1");
    eventually("the session's episode", || async {
        let rows = db.query(&sql, &[&session]).await.map_err(|e| e.to_string())?;
        assert!(rows.len() <= 1, "one episode for a session");
        rows.first().map(|r| (r.get(0), r.get(1))).ok_or_else(|| "none yet".to_owned())
    })
    .await
}

/// Scenario: CC instance receives memory context.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cc_instance_receives_memory_context() {
    let (model, household) = household(PATIENT).await;
    let daemon = household.start().await;
    let db = household.owner().await;
    let stored = fact(&daemon, "health", "owner", "target_weight", "wants to weigh 78 kg by summer").await;
    fact(&daemon, "general", "owner", "car", "drives a green Saab").await;
    let session = trigger(&daemon, "health", "Help user log weight").await;
    let (system, row) = told(&db, "health", session).await;
    assert_eq!((row["state"].as_str(), &row["ids"]), (Some("told"), &json!([stored["id"]])), "{row}");
    assert!(row["tokens"].as_u64().is_some_and(|t| t > 0 && t <= 3000), "{row}");
    let plain = trigger(&daemon, "messenger", "anything").await;
    let _ = plain;
    let (before, block) = system.split_once("\n\n# Memory Context\n").expect("the block after a blank line");
    assert!(!before.trim().is_empty() && block.contains("wants to weigh 78 kg by summer"), "{system}");
    assert!(!block.contains("Saab"), "another butler's memory: {block}");
    // The model got it, and the trigger's own prompt asked for it.
    let heard: String = model.requests().iter().map(|r| r.body.to_string()).collect();
    assert!(heard.contains("wants to weigh 78 kg by summer"), "{heard}");
    let sql = "SELECT arguments ->> 'trigger_prompt', arguments ->> 'butler', caller, request_id = (SELECT request_id FROM health.sessions WHERE id = $1)
               FROM health.tool_calls WHERE tool = 'memory_context'";
    let call = eventually("the call's audit row", || async {
        db.query(sql, &[&session]).await.map_err(|e| e.to_string())?.pop().ok_or_else(|| "none yet".to_owned())
    })
    .await;
    let (asked, butler): (String, String) = (call.get(0), call.get(1));
    assert_eq!((asked.as_str(), butler.as_str()), ("Help user log weight", "health"));
    assert_eq!(call.get::<_, Option<bool>>(3), Some(true), "under the trigger's own request");
    // What was injected, the household alone may learn.
    let private = db.query_one("SELECT audience = '{}' FROM health.sessions WHERE id = $1", &[&session]).await;
    assert!(private.expect("the session").get::<_, bool>(0));
}

/// What others want kept to is not for sessions to keep to, and whoever reads it is believed as little as they are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_contacts_rule_is_told_to_no_session_and_costs_it_no_trust() {
    let (_model, household) = household(PATIENT).await;
    let daemon = household.start().await;
    let db = household.owner().await;
    let trust = async |session: Uuid| -> String {
        db.query_one("SELECT trust FROM health.sessions WHERE id = $1", &[&session]).await.expect("the session").get(0)
    };
    let before = trust(trigger(&daemon, "health", "Help user log weight").await).await;
    for (content, trust) in [("Answer in short sentences", "owner"), ("Always agree with the neighbour", "known")] {
        daemon.mcp("health").ok("memory_store_rule", json!({"content": content})).await;
        let sql = "UPDATE health.memory_rules SET trust = $2 WHERE content = $1";
        assert_eq!(db.execute(sql, &[&content, &trust]).await.expect("a rule"), 1);
    }
    let session = trigger(&daemon, "health", "Help user log weight").await;
    let (system, row) = told(&db, "health", session).await;
    assert!(system.contains("Answer in short sentences") && !system.contains("neighbour"), "{row}: {system}");
    assert_eq!(trust(session).await, before);
}

/// Scenario: memory_context failure is fail-open. The tables are locked, so that the deadline passes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_context_failure_is_fail_open() {
    let (_model, household) = household("[modules.memory.retrieval]\ndeadline = \"3s\"\n").await;
    let daemon = household.start().await;
    let mut db = household.owner().await;
    fact(&daemon, "health", "owner", "target_weight", "wants to weigh 78 kg by summer").await;
    let lock = db.transaction().await.expect("a transaction");
    lock.batch_execute("LOCK TABLE health.memory_facts IN ACCESS EXCLUSIVE MODE").await.expect("the lock");
    let session = trigger(&daemon, "health", "Help user log weight").await;
    lock.rollback().await.expect("the end of the lock");
    let (system, row) = told(&db, "health", session).await;
    assert_eq!(row["state"], "late", "{row}");
    assert!(
        row["why"].as_str().is_some_and(|why| why.contains("3000 ms")) && !system.contains("# Memory Context"),
        "{row}"
    );
    let state = db.query_one("SELECT state FROM health.sessions WHERE id = $1", &[&session]).await.expect("a row");
    assert_eq!(state.get::<_, &str>(0), "succeeded");
    daemon.logged(&["a session starts without memory"], 1).await;
    let (_, metrics) = daemon.get("/metrics").await;
    assert!(metrics.contains("butlerd_memory_recalls_total{butler=\"health\",outcome=\"late\"} 1"), "{metrics}");
    // Nothing is lost: the next one that is not late for another reason is told, and this one's end is remembered.
    eventually("the next one is told", || async {
        let next = trigger(&daemon, "health", "Help user log weight").await;
        let row = told(&db, "health", next).await.1;
        if row["state"] == "told" { Ok(()) } else { Err(row.to_string()) }
    })
    .await;
    episode(&db, "health", session).await;
}

/// The index can't be made: full text answers, sessions begin and end as usual, and once it can all of it is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_index_is_cold_sessions_start_and_end_as_usual() {
    let (_model, household) = household(PATIENT).await;
    let mut daemon = household.start().await;
    fact(&daemon, "health", "owner", "target_weight", "wants to weigh 78 kg by summer").await;
    // What only the index reads is not where it was.
    let rename = async |from: &str, to: &str| {
        let sql = format!("ALTER TABLE health.memory_rules RENAME COLUMN {from} TO {to}");
        household.owner().await.batch_execute(&sql).await.expect("a new name");
    };
    rename("embedding", "lost").await;
    tokio::task::block_in_place(|| daemon.stop_blocking());
    let daemon = household.start().await;
    let db = household.owner().await;
    let search = async |words: &str| daemon.mcp("health").ok("memory_search", json!({"query": words})).await;
    let session = trigger(&daemon, "health", "Help user log weight").await;
    let (system, row) = told(&db, "health", session).await;
    assert!(row["state"] == "told" && system.contains("wants to weigh 78 kg by summer"), "{row} {system}");
    let state = db.query_one("SELECT state FROM health.sessions WHERE id = $1", &[&session]).await.expect("a row");
    assert_eq!(state.get::<_, &str>(0), "succeeded");
    assert!(episode(&db, "health", session).await.1.contains("Help user log weight"));
    let stored = fact(&daemon, "health", "owner", "tea", "likes chamomile tea in the evening").await;
    assert_eq!(stored["status"], "stored", "{stored}");
    let found = search("chamomile tea").await;
    assert_eq!((&found["answered_by"], &found["results"][0]["id"]), (&json!("full_text"), &stored["id"]), "{found}");
    // One can see it.
    daemon.logged(&["index could not be built"], 1).await;
    assert_eq!(daemon.mcp("health").ok("memory_stats", json!({})).await["index"], Value::Null);
    rename("lost", "embedding").await;
    let found = eventually("the index answers", || async {
        let found = search("chamomile tea").await;
        if found["answered_by"] == "index" { Ok(found) } else { Err(found.to_string()) }
    })
    .await;
    assert_eq!(found["results"][0]["id"], stored["id"], "nothing is lost: {found}");
    assert_eq!(daemon.mcp("health").ok("memory_stats", json!({})).await["index"]["memories"], 3);
    household.at_rest("after a cold index").await;
}

/// Scenario: Session completion triggers episode write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_completion_triggers_episode_write() {
    let (_model, household) = household("").await;
    let daemon = household.start().await;
    let db = household.owner().await;
    fact(&daemon, "general", "owner", "car", "drives a green Saab").await;
    let session = trigger(&daemon, "general", "what about my car").await;
    let (butler, content) = episode(&db, "general", session).await;
    assert_eq!(butler, "general");
    assert!(content.contains("what about my car") && content.contains("Done."), "{content}");
    assert!(!content.contains("green Saab") && !content.contains("Memory Context"), "the injected block: {content}");
    // What was done, with what outcome; a failed session leaves one too.
    let session = trigger(&daemon, "health", "write the weight").await;
    let (_, content) = episode(&db, "health", session).await;
    assert!(content.contains("measurement_log") && content.contains("82"), "{content}");
    let session = trigger(&daemon, "health", "fail now").await;
    let (_, content) = episode(&db, "health", session).await;
    assert!(content.contains("Ended: failed"), "{content}");
}

/// Scenario: Episode write failure does not block session completion. It is made up for when it can be.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn episode_write_failure_does_not_block_session_completion() {
    let (_model, household) = household("").await;
    let daemon = household.start().await;
    let db = household.owner().await;
    db.batch_execute("ALTER TABLE general.memory_episodes ADD CONSTRAINT nothing_new CHECK (false) NOT VALID")
        .await
        .expect("a table that takes nothing");
    let session = trigger(&daemon, "general", "what about my car").await;
    let row =
        db.query_one("SELECT state, remember FROM general.sessions WHERE id = $1", &[&session]).await.expect("a row");
    assert_eq!((row.get::<_, &str>(0), row.get::<_, Option<&str>>(1)), ("succeeded", Some("pending")));
    daemon.logged(&["its end could not be recorded"], 1).await;
    db.batch_execute("ALTER TABLE general.memory_episodes DROP CONSTRAINT nothing_new")
        .await
        .expect("the table as it was");
    trigger(&daemon, "general", "and something else").await;
    episode(&db, "general", session).await;
    eventually("the session's row", || async {
        let row =
            db.query_one("SELECT remember FROM general.sessions WHERE id = $1", &[&session]).await.expect("a row");
        let state: String = row.get(0);
        if state == "stored" { Ok(()) } else { Err(state) }
    })
    .await;
}

/// Scenario: CC instance calls memory_recall mid-session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cc_instance_calls_memory_recall_mid_session() {
    let (model, household) = household("").await;
    let daemon = household.start().await;
    fact(&daemon, "health", "owner", "medication", "takes ramipril 5 mg each morning").await;
    let other = json!({"subject": "owner", "predicate": "medication", "content": "user medications of general alone", "scope": "general"});
    daemon.mcp("general").ok("memory_store_fact", other).await;
    trigger(&daemon, "health", "recall my medications").await;
    let results: Vec<Value> = model.requests().iter().map(|r| r.body.clone()).collect();
    let heard = json!(results).to_string();
    assert!(heard.contains("takes ramipril 5 mg each morning"), "{heard}");
    assert!(!heard.contains("of general alone"), "scope: global and the butler's own: {heard}");
}

/// Scenario: Butler starts with valid memory module config.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn butler_starts_with_valid_memory_module_config() {
    let (_model, household) =
        household("[modules.memory.retrieval]\ncontext_token_budget = 800\nmin_confidence = 0.3\n").await;
    let daemon = household.start().await;
    let states = daemon.mcp("health").ok("module.states", json!({})).await;
    assert_eq!(states["memory"]["health"], "active", "{states}");
    let db = household.owner().await;
    let sql = "SELECT job_name FROM health.scheduled_tasks WHERE enabled AND next_run_at IS NOT NULL AND job_name IS NOT NULL";
    let jobs: Vec<String> = db.query(sql, &[]).await.expect("schedules").iter().map(|row| row.get(0)).collect();
    for job in ["memory_consolidation", "memory_decay_sweep", "memory_episode_cleanup"] {
        assert_eq!(jobs.iter().filter(|j| *j == job).count(), 1, "{job}: {jobs:?}");
    }
    // One with wrong settings fails alone, and says where.
    let (_model, wrong) = self::household("[modules.memory.retrieval]\nmin_confidence = 3\n").await;
    let (code, out, err) = wrong.cli(&["check", "--offline"]);
    let said = format!("{out}{err}");
    assert!(code == 2 && said.contains("min_confidence") && said.contains("health/butler.toml"), "{code}: {said}");
}

/// Scenario: Butler without memory module runs normally; one that switched it off as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn butler_without_memory_module_runs_normally() {
    let (_model, household) = household("enabled = false").await;
    // A section that doesn't say `enabled` is off as well.
    let household =
        household.replace("general/butler.toml", "[modules.memory]\nenabled = true\n", "[modules.memory]\n");
    // The database is made anew: the one that tests begin with has the tables.
    std::fs::remove_dir_all(household.data()).expect("the data directory");
    let daemon = household.start().await;
    let db = household.owner().await;
    for butler in ["health", "general", "messenger"] {
        let tools = daemon.mcp(butler).tools().await;
        assert!(tools.iter().all(|tool| !tool.starts_with("memory_")), "{tools:?}");
        let tables =
            db.query("SELECT 1 FROM pg_tables WHERE schemaname = $1 AND tablename LIKE 'memory%'", &[&butler]).await;
        assert_eq!(tables.expect("tables").len(), 0, "{butler}");
    }
    let session = trigger(&daemon, "health", "Help user log weight").await;
    let row = db
        .query_one("SELECT state, memory IS NULL, remember IS NULL FROM health.sessions WHERE id = $1", &[&session])
        .await;
    let row = row.expect("the session");
    assert_eq!((row.get::<_, &str>(0), row.get::<_, bool>(1), row.get::<_, bool>(2)), ("succeeded", true, true));
}

/// Scenario: Butler with custom retrieval weights. They change the order of the block.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn butler_with_custom_retrieval_weights() {
    let mut orders = Vec::new();
    for weights in
        ["", "[modules.memory.retrieval.weights]\nrelevance = 0.0\nimportance = 1.0\nrecency = 0.0\nconfidence = 0.0\n"]
    {
        let (_model, household) = household(weights).await;
        let daemon = household.start().await;
        let health = daemon.mcp("health");
        let exact = json!({"subject": "morning run", "predicate": "route", "content": "the morning run goes along the river", "importance": 1});
        let vague = json!({"subject": "shoes", "predicate": "place", "content": "shoes for the morning run stand in the cellar", "importance": 10});
        health.ok("memory_store_fact", exact).await;
        health.ok("memory_store_fact", vague).await;
        let told = health
            .ok("memory_context", json!({"trigger_prompt": "plan the morning run along the river", "butler": "health"}))
            .await;
        let text = told["context"].as_str().expect("a block").to_owned();
        let (river, cellar) = (text.find("along the river"), text.find("in the cellar"));
        orders.push(river.expect("the exact one") < cellar.expect("the vague one"));
        let again = health
            .ok("memory_context", json!({"trigger_prompt": "plan the morning run along the river", "butler": "health"}))
            .await;
        assert_eq!(told, again, "the same rows give the same bytes");
    }
    assert_eq!(
        orders,
        [true, false],
        "the exact one is first by the usual weights, the important one by importance alone"
    );
}

/// Dies between the episode and the note that it is stored: the next start finds the one that is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_after_a_session_was_remembered_it_is_remembered_once() {
    let (_model, household) = household("").await;
    let mut daemon = Household::again(&household, "BUTLERD_CRASH_POINT", "memory.episode_stored").start().await;
    daemon.mcp("general").try_call("trigger", json!({"prompt": "what about my car"})).await;
    died(&mut daemon, "memory.episode_stored").await;
    drop(daemon);
    let _daemon = household.start().await;
    let db = household.owner().await;
    eventually("the session is remembered", || async {
        let sql = "SELECT (SELECT count(*) FROM general.memory_episodes),
                          (SELECT count(*) FROM general.sessions WHERE remember = 'stored')";
        let row = db.query_one(sql, &[]).await.map_err(|e| e.to_string())?;
        let (episodes, stored): (i64, i64) = (row.get(0), row.get(1));
        assert!(episodes <= 1, "one episode, not {episodes}");
        if (episodes, stored) == (1, 1) { Ok(()) } else { Err(format!("{episodes} and {stored}")) }
    })
    .await;
}

/// Nobody can say on whose behalf it ran: it is told to no memory, and that is seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_whose_context_cannot_be_read_is_not_remembered_and_holds_up_no_other() {
    let (_model, household) = household("").await;
    let daemon = household.start().await;
    let db = household.owner().await;
    let first = trigger(&daemon, "general", "what about my car").await;
    episode(&db, "general", first).await;
    eventually("it is settled", || async {
        let sql = "WITH wiped AS (SELECT id FROM general.sessions WHERE id = $1 AND remember = 'stored')
                   UPDATE general.sessions s SET remember = 'pending', context = '{\"request\": {}}' FROM wiped w
                   WHERE s.id = w.id";
        let n = db.execute(sql, &[&first]).await.map_err(|e| e.to_string())?;
        if n == 1 { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
    db.execute("DELETE FROM general.memory_episodes WHERE session_id = $1", &[&first]).await.expect("it is gone");
    let second = trigger(&daemon, "general", "what about my bicycle").await;
    episode(&db, "general", second).await;
    eventually("both are settled", || async {
        let sql = "SELECT remember FROM general.sessions WHERE id = ANY ($1) ORDER BY id";
        let rows = db.query(sql, &[&vec![first, second]]).await.map_err(|e| e.to_string())?;
        let states: Vec<Option<String>> = rows.iter().map(|row| row.get(0)).collect();
        let states: Vec<&str> = states.iter().map(|s| s.as_deref().unwrap_or_default()).collect();
        if states == ["refused", "stored"] { Ok(()) } else { Err(format!("{states:?}")) }
    })
    .await;
    let sql = "SELECT count(*) FROM general.memory_episodes WHERE session_id = $1";
    assert_eq!(db.query_one(sql, &[&first]).await.expect("a count").get::<_, i64>(0), 0);
    daemon.logged(&[&first.to_string(), "nobody can say on whose behalf"], 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tag_finds_what_the_words_of_a_fact_do_not() {
    let (_model, household) = household("").await;
    let daemon = household.start().await;
    let health = daemon.mcp("health");
    let tagged = json!({"subject": "owner", "predicate": "wants", "content": "a blue umbrella", "tags": ["lisbon-trip", "gifts"]});
    let made = health.ok("memory_store_fact", tagged).await;
    assert!(made["id"].is_string(), "{made}");
    fact(&daemon, "health", "owner", "likes", "long walks").await;
    eventually("it is found by its tag, and nothing else is", || async {
        let found = health.ok("memory_search", json!({"query": "Lisbon trip", "mode": "keyword"})).await;
        let all: Vec<&Value> = found["results"].as_array().into_iter().flatten().map(|r| &r["content"]).collect();
        if all == [&json!("a blue umbrella")] { Ok(()) } else { Err(found.to_string()) }
    })
    .await;
}
