//! `kill -9` at every step from a question to its recording, and a stop in the middle of one: one answer, nobody asked twice,
//! each episode told once, and what is known of whose words it has outlives the daemon.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokio_postgres::Client;

use crate::inbound::{ended, ingest, message};
use crate::support::council::{JUDGED, chairman, member, with_council};
use crate::support::graphiti::Graphiti;
use crate::support::tally::died;
use crate::support::{Daemon, Household, eventually, http, model};

/// The council's rows, as the owner's tenant has them.
async fn rows_of(household: &Household) -> Client {
    let db = household.role("council").await;
    db.batch_execute("SET butlerd.tenant = 'owner'").await.unwrap();
    db
}

/// Waits until the one question has this answer.
async fn answered(db: &Client, when: &str, expected: &str) {
    eventually(&format!("{when}: the answer"), || async {
        let rows = db.query("SELECT answer, failure FROM council_questions", &[]).await.map_err(|e| e.to_string())?;
        let found: Vec<(Option<String>, Option<String>)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        match found.as_slice() {
            [(Some(answer), None)] if answer.starts_with(expected) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

/// Asks by the chat, whose stream breaks off with the daemon.
fn asks(daemon: &Daemon, body: &Value) {
    let asked = http().post(format!("http://{}/api/chat", daemon.admin())).bearer_auth(daemon.token()).json(body);
    tokio::spawn(async move { asked.send().await?.text().await });
}

/// The same message again: how many replies it has.
async fn replies(daemon: &Daemon, body: &Value) -> usize {
    let again = http().post(format!("http://{}/api/chat", daemon.admin())).bearer_auth(daemon.token()).json(body);
    again.send().await.unwrap().text().await.unwrap().matches("\"event\":\"reply\"").count()
}

/// How far the rows of a table are believed, each once.
async fn trusts(db: &Client, table: &str) -> Vec<String> {
    let rows = db.query(&format!("SELECT DISTINCT trust FROM {table} ORDER BY trust"), &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_step_there_is_one_answer_and_each_episode_is_told_once() {
    let points = [
        "council.asked",
        "council.step",
        "council.step:3",
        "council.step:5",
        "council.ended",
        "council.sending",
        "council.sending:3",
        "council.sent",
        "council.sent:2",
        "episode.claimed",
        "episode.tried",
        "episode.settled",
    ];
    for point in points {
        let Some(graphiti) = Graphiti::plain().await else { return };
        let (one, two) = (member("Rent.", "1. Response A").await, member("Buy.", "1. Response A").await);
        let own = chairman("Rent for now.", "?").await;
        let graph = format!("\n[modules.council.graphiti]\nurl = \"{}\"\n", graphiti.url);
        let household = with_council(&own, &[("one", "model-a", &one), ("two", "model-b", &two)], &graph);
        let mut daemon = Household::again(&household, "BUTLERD_CRASH_POINT", point).start().await;
        let body = json!({"text": "Rent or buy?", "butler": "council", "thread": "t", "id": "q-1"});
        asks(&daemon, &body);
        died(&mut daemon, point).await;
        drop(daemon);
        let daemon = household.start().await;
        let db = rows_of(&household).await;
        answered(&db, point, "Rent for now.").await;
        assert_eq!(replies(&daemon, &body).await, 1, "{point}");
        let episodes = graphiti.has("llm_council", 4).await;
        let mut times: BTreeMap<String, usize> = BTreeMap::new();
        for episode in &episodes {
            *times.entry(episode["source_description"].to_string()).or_default() += 1;
        }
        assert_eq!((episodes.len(), times.len()), (4, 4), "{point}: {times:?}");
        // What was said before the kill is not asked for again.
        let steps = db
            .query("SELECT stage, member, round, count(*) AS n FROM council_steps GROUP BY 1, 2, 3", &[])
            .await
            .unwrap();
        assert!(steps.iter().all(|row| row.get::<_, i64>("n") == 1), "{point}");
        eventually(&format!("{point}: nothing waits"), || async {
            let row = db.query_one("SELECT count(*) FROM council_episodes WHERE state <> 'sent'", &[]).await;
            match row.map_err(|e| e.to_string())?.get::<_, i64>(0) {
                0 => Ok(()),
                n => Err(n.to_string()),
            }
        })
        .await;
        assert_eq!(graphiti.episodes("llm_council").await.len(), 4, "{point}");
    }
}

/// A memory answer is whole or not there at all: killed as it is written, the judge is asked anew, and there is one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_as_memory_answers_there_is_one_answer() {
    let sure = json!({"candidates": [{"answer": "A Vaillant.", "relevance": 1, "completeness": 1, "sources": [1]}]});
    let (one, two) = (member("Rent.", "1. Response A").await, member("Buy.", "1. Response A").await);
    let own = chairman("Rent for now.", &sure.to_string()).await;
    let gate = "\n[modules.council.memory]\nthreshold = 0.1\n";
    let household = with_council(&own, &[("one", "model-a", &one), ("two", "model-b", &two)], gate);
    let mut daemon = Household::again(&household, "BUTLERD_CRASH_POINT", "council.weighed").start().await;
    let fact = json!({"subject": "boiler", "predicate": "make", "content": "The boiler we have is a Vaillant."});
    daemon.mcp("council").ok("memory_store_fact", fact).await;
    let body = json!({"text": "Which boiler do we have?", "butler": "council", "thread": "t", "id": "q-1"});
    asks(&daemon, &body);
    died(&mut daemon, "council.weighed").await;
    drop(daemon);
    let daemon = household.start().await;
    let db = rows_of(&household).await;
    answered(&db, "memory", "A Vaillant.").await;
    assert_eq!(replies(&daemon, &body).await, 1);
    let steps = db.query("SELECT stage, said FROM council_steps", &[]).await.unwrap();
    assert_eq!(steps.len(), 1, "the judge's words of the try that was killed are not there");
    assert_eq!((one.requests().len(), two.requests().len()), (0, 0), "no member is asked");
}

/// A stranger's question stays a stranger's after a kill in the middle of it: his words raise nothing by it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_kill_a_strangers_question_is_believed_no_more() {
    let Some(graphiti) = Graphiti::plain().await else { return };
    let (one, two) = (member("Rent.", "1. Response A").await, member("Buy.", "1. Response A").await);
    let own = chairman("Rent for now.", "?").await;
    let graph = format!("\n[modules.council.graphiti]\nurl = \"{}\"\n", graphiti.url);
    let household = with_council(&own, &[("one", "model-a", &one), ("two", "model-b", &two)], &graph);
    let mut daemon = Household::again(&household, "BUTLERD_CRASH_POINT", "council.step:3").start().await;
    let mut envelope = message("s-1", "t", "Rent or buy?");
    envelope["sender"] = json!({"identity": "999", "authenticated": {"result": "pass", "method": "platform"}});
    envelope["control"]["pinned_target"] = json!("council");
    let (_, accepted) = ingest(&daemon, &envelope).await;
    let id = accepted["request_id"].as_str().expect("an id").to_owned();
    died(&mut daemon, "council.step:3").await;
    drop(daemon);
    let daemon = household.start().await;
    ended(&daemon, &id).await;
    let db = rows_of(&household).await;
    answered(&db, "a stranger's question", "Rent for now.").await;
    for table in ["council_questions", "council_steps", "council_episodes", "sessions"] {
        assert_eq!(trusts(&db, table).await, ["stranger"], "{table}");
    }
    graphiti.has("llm_council_others", 4).await;
    assert!(graphiti.episodes("llm_council").await.is_empty());
}

/// What a question was shown before a kill counts after it, though nothing shows it again: the answer that is built on the
/// rows of the first try is no more the owner's own word than they are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_kill_an_answer_has_the_label_of_what_was_shown_before() {
    let Some(mut graphiti) = Graphiti::plain().await else { return };
    let now = jiff::Timestamp::now().to_string();
    // A search finds what has a word of the question.
    let fact = json!({"uuid": uuid::Uuid::now_v7(), "fact": "The rent rises.", "group_id": "llm_council",
                      "created_at": now, "valid_at": now});
    graphiti.control(json!({"facts": [fact]})).await;
    let (one, two) = (member("Rent.", "1. Response A").await, member("Buy.", "1. Response A").await);
    let own = chairman("Rent for now.", "nothing that could be read").await;
    let graph = format!(
        "\n[modules.council.graphiti]\nurl = \"{}\"\nrecord_user = false\nrecord_council = false\nrecord_chairman = false\n",
        graphiti.url
    );
    let household = with_council(&own, &[("one", "model-a", &one), ("two", "model-b", &two)], &graph);
    let mut daemon = Household::again(&household, "BUTLERD_CRASH_POINT", "council.step:3").start().await;
    let body = json!({"text": "Rent or buy?", "butler": "council", "thread": "t", "id": "q-1"});
    asks(&daemon, &body);
    died(&mut daemon, "council.step:3").await;
    drop(daemon);
    // Nothing is left that could show it anything.
    graphiti.kill().await;
    let daemon = household.start().await;
    let db = rows_of(&household).await;
    let judged = db.query("SELECT trust FROM council_steps WHERE stage = 'confidence'", &[]).await.unwrap();
    assert_eq!(judged.len(), 1, "the first try was shown the fact");
    answered(&db, "a question after a kill", "Rent for now.").await;
    assert_eq!(replies(&daemon, &body).await, 1);
    // Of both tries. The sessions' rows say `owner`: they don't tell the owner from the house.
    assert_eq!(trusts(&db, "council_steps").await, ["system"]);
}

/// Stopped in the middle of a question, as `systemctl stop` does it, the daemon answers it after its start: once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_in_a_question_there_is_one_answer_after_the_start() {
    let one = member("Rent.", "1. Response A").await;
    // It says nothing until the daemon has stopped.
    let two = model(json!([
        {"when": JUDGED, "steps": [{"say": "FINAL RANKING:\n1. Response A"}]},
        {"when": ".", "steps": [{"hang": {"times": 1}}, {"say": "Buy."}]},
    ]))
    .await;
    let own = chairman("Rent for now.", "?").await;
    let household = with_council(&own, &[("one", "model-a", &one), ("two", "model-b", &two)], "").replace(
        "council/butler.toml",
        "[butler.shutdown]\ntimeout = \"60s\"",
        "[butler.shutdown]\ntimeout = \"1s\"",
    );
    let mut daemon = household.start().await;
    let body = json!({"text": "Rent or buy?", "butler": "council", "thread": "t", "id": "q-1"});
    asks(&daemon, &body);
    two.wait_for(|seen| !seen.is_empty()).await;
    let db = rows_of(&household).await;
    eventually("the first member's answer", || async {
        let rows = db.query("SELECT 1 FROM council_steps", &[]).await.map_err(|e| e.to_string())?;
        if rows.is_empty() { Err("none".to_owned()) } else { Ok(()) }
    })
    .await;
    drop(db);
    assert_eq!(tokio::task::block_in_place(|| daemon.stop_blocking()), 0);
    drop(daemon);
    let daemon = household.start().await;
    let db = rows_of(&household).await;
    answered(&db, "after the stop", "Rent for now.").await;
    assert_eq!(replies(&daemon, &body).await, 1);
    let sql = "SELECT stage, member, round, count(*) AS n FROM council_steps GROUP BY 1, 2, 3 HAVING count(*) > 1";
    assert!(db.query(sql, &[]).await.unwrap().is_empty(), "nobody who answered is asked again");
    let asked = one.requests().iter().filter(|request| !request.body.to_string().contains(JUDGED)).count();
    assert_eq!(asked, 1, "the first member's answer was on record");
}
