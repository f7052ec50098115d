//! Specification 001: what the council tells a knowledge graph, and when what is remembered is the answer.

use serde_json::{Value, json};
use testkit::model::ScriptedModel;

use crate::inbound::{ended, ingest, message};
use crate::support::council::{ABOUT, chairman, member, steps, with_council};
use crate::support::graphiti::{Graphiti, call};
use crate::support::{eventually, model};

pub const QUESTION: &str = "Which boiler do we have?";
pub const GROUP: &str = "llm_council";

/// The settings of the graph at this address, with more lines behind. A graph that is late on a busy machine is no answer, so it
/// has its time.
pub fn graph(url: &str, more: &str) -> String {
    format!("\n[modules.council.graphiti]\nurl = \"{url}\"\ncall_timeout = \"20s\"\nsearch_within = \"30s\"\n{more}")
}

/// Two members and a chairman who deliberate, and say as a judge of memory what `judge` is.
pub async fn models(judge: &str) -> (ScriptedModel, ScriptedModel, ScriptedModel) {
    (
        member("A Vaillant.", "1. Response A").await,
        member("No idea.", "1. Response A").await,
        chairman("Ask the label.", judge).await,
    )
}

pub fn sure(sources: Value) -> String {
    json!({"candidates": [{"answer": "A Vaillant.", "relevance": 1.0, "completeness": 1.0, "sources": sources}]})
        .to_string()
}

pub fn days_ago(days: i64) -> String {
    (jiff::Timestamp::now() - jiff::SignedDuration::from_hours(24 * days)).to_string()
}

pub fn fact(days: i64) -> Value {
    json!({"uuid": uuid::Uuid::now_v7(), "fact": "The boiler is a Vaillant ecoTEC.", "group_id": GROUP,
           "created_at": days_ago(days), "valid_at": days_ago(days)})
}

pub fn described(episodes: &[Value]) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    episodes.iter().map(|one| (text(&one["source_description"]), text(&one["content"]))).collect()
}

/// "User message recording", "Council member response recording", "Chairman synthesis recording": each an episode with its
/// source, in order, and the answer waits for none of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_that_is_said_is_recorded_and_nobody_waits_for_it() {
    let Some(graphiti) = Graphiti::plain().await else { return };
    // Whatever is told last takes so long after the answer, until that is looked at.
    graphiti.control(json!({"slow": 10_000})).await;
    let (one, two, own) = models("?").await;
    let memory = "\n[modules.council.memory]\nenabled = false\n";
    let household = with_council(
        &own,
        &[("one", "model-a", &one), ("two", "model-b", &two)],
        &format!("chairman = {{ model = \"model-c\" }}\n{memory}{}", graph(&graphiti.url, "")),
    );
    let _daemon = household.start().await;
    let end = household.asks_council(QUESTION);
    assert_eq!(end["output"], "Ask the label.");
    let then = graphiti.episodes(GROUP).await.len();
    graphiti.control(json!({"slow": 0})).await;
    assert!(then < 4, "the answer was there before all was recorded: {then}");
    let episodes = described(&graphiti.has(GROUP, 4).await);
    let said = |who: &str, what: &str| (who.to_owned(), what.to_owned());
    assert_eq!(episodes[0], said("user", QUESTION));
    assert_eq!(episodes[3], said("chairman:model-c", "Ask the label."));
    let mut members = episodes[1..3].to_vec();
    members.sort();
    assert_eq!(members, [said("council:model-a", "A Vaillant."), said("council:model-b", "No idea.")]);
    let calls = graphiti.state().await["calls"].clone();
    assert!(calls[0]["name"].as_str().unwrap_or_default().starts_with("llm_council_"), "{calls}");
}

/// "Direct response recording".
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_direct_answer_is_recorded_with_its_question() {
    let Some(graphiti) = Graphiti::plain().await else { return };
    let (one, two, own) = models("direct").await;
    let more = format!(
        "chairman = {{ model = \"model-c\" }}\nrouter = {{ model = \"model-d\" }}\n{}",
        graph(&graphiti.url, "")
    );
    let household = with_council(&own, &[("one", "model-a", &one), ("two", "model-b", &two)], &more);
    let _daemon = household.start().await;
    assert_eq!(household.asks_council(QUESTION)["output"], "Alone: 42.");
    let episodes = described(&graphiti.has(GROUP, 2).await);
    assert_eq!(
        episodes,
        [("user".to_owned(), QUESTION.to_owned()), ("direct:model-c".to_owned(), "Alone: 42.".to_owned())]
    );
}

/// "High confidence memory response": no member is asked, the answer has its sources and dates, and is recorded as well. "Ask
/// again" has the council deliberate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sure_memory_answers_and_ask_again_deliberates() {
    let Some(graphiti) = Graphiti::plain().await else { return };
    let fact = fact(1);
    let day = fact["valid_at"].as_str().expect("a time")[..10].to_owned();
    graphiti.control(json!({"facts": [fact]})).await;
    let (one, two, own) = models(&sure(json!([1]))).await;
    let memory = "\n[modules.council.memory]\nthreshold = 0.5\n";
    let household = with_council(
        &own,
        &[("one", "model-a", &one), ("two", "model-b", &two)],
        &format!("{memory}{}", graph(&graphiti.url, "")),
    );
    let daemon = household.start().await;
    let end = household.asks_council(QUESTION);
    let answer = end["output"].as_str().unwrap_or_default();
    assert!(answer.starts_with("A Vaillant.") && answer.contains("The boiler is a Vaillant ecoTEC."), "{end}");
    assert!(answer.contains(&day), "{answer}");
    assert_eq!((one.requests().len(), two.requests().len()), (0, 0), "the stages are bypassed");
    let question = daemon.newest_question().await;
    assert_eq!(question["way"], "memory", "{question:#}");
    let episodes = described(&graphiti.has(GROUP, 2).await);
    assert_eq!(
        (episodes[0].0.as_str(), episodes[1].0.as_str()),
        ("user", "memory"),
        "a memory answer is recorded, too"
    );
    let end = household.asks_council("Ask again: Which boiler do we have?");
    assert_eq!(end["output"], "Ask the label.", "{end}");
    assert!(!one.requests().is_empty());
}

/// "Low confidence fallback", "Memory recency weighting", "Configurable threshold": a threshold of 0, 0.5 and 1, a fact of 60
/// days, one past the cut-off, and a judge that writes garbage.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unsure_memory_leaves_it_to_the_council() {
    let council = "Ask the label.";
    let cases: [(&str, &str, i64, String, &str); 7] = [
        ("0.0", "90", 1, sure(json!([1])), "memory"),
        ("0.5", "90", 1, sure(json!([1])), "memory"),
        ("1.0", "90", 0, sure(json!([1])), council),
        ("0.5", "90", 60, sure(json!([1])), council),
        ("0.0", "90", 60, sure(json!([1])), "memory"),
        ("0.0", "30", 60, sure(json!([1])), council),
        ("0.0", "90", 1, "I am quite sure: 0.99".to_owned(), council),
    ];
    let mut fresh = 0.0;
    for (threshold, days, age, judge, expected) in cases {
        let Some(graphiti) = Graphiti::plain().await else { return };
        graphiti.control(json!({"facts": [fact(age)]})).await;
        let (one, two, own) = models(&judge).await;
        let memory = format!("\n[modules.council.memory]\nthreshold = {threshold}\nmax_age_days = {days}\n");
        let household = with_council(
            &own,
            &[("one", "model-a", &one), ("two", "model-b", &two)],
            &format!(
                "{memory}{}",
                graph(&graphiti.url, "record_user = false\nrecord_council = false\nrecord_chairman = false\n")
            ),
        );
        let daemon = household.start().await;
        let end = household.asks_council(QUESTION);
        let case = format!("threshold {threshold}, cut-off {days}, {age} days: {end}");
        let answer = end["output"].as_str().unwrap_or_default();
        assert_eq!(answer == council, expected == council, "{case}");
        let question = daemon.newest_question().await;
        let confidence = question["confidence"]["candidates"][0]["confidence"].as_f64().unwrap_or(0.0);
        if age == 1 && confidence > 0.0 {
            fresh = confidence;
        } else if age == 60 {
            assert!(confidence < fresh, "{case}: {confidence} {fresh}");
            assert!(days == "90" || confidence == 0.0, "{case}: {confidence}");
        }
    }
}

/// A fact is worth what the least believed of its episodes is: what the owner said answers where what the council said does
/// not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fact_is_believed_as_the_words_that_it_was_made_of() {
    let Some(graphiti) = Graphiti::plain().await else { return };
    let (one, two, own) = models(&sure(json!([1]))).await;
    let silent = "record_user = false\nrecord_council = false\nrecord_chairman = false\n";
    let more = format!("\n[modules.council.memory]\nthreshold = 0.85\n{}", graph(&graphiti.url, silent));
    let household = with_council(&own, &[("one", "model-a", &one), ("two", "model-b", &two)], &more);
    let daemon = household.start().await;
    let connection = graphiti.connect().await;
    for by in ["user", "council:model-a"] {
        let said =
            json!({"name": by, "episode_body": "It is a Vaillant.", "source_description": by, "group_id": GROUP});
        call(&connection, "add_memory", said).await;
    }
    let stored = graphiti.has(GROUP, 2).await;
    let uuid = |at: usize| stored[at]["uuid"].clone();
    for (episodes, provenance) in [(json!([uuid(0)]), 1.0), (json!([uuid(0), uuid(1)]), 0.8), (json!([]), 0.8)] {
        let mut fact = fact(0);
        fact["episodes"] = episodes;
        graphiti.control(json!({"facts": [fact.clone()]})).await;
        let end = household.asks_council(QUESTION);
        let question = daemon.newest_question().await;
        let found = question["confidence"]["candidates"][0]["provenance"].as_f64();
        assert_eq!(found, Some(provenance), "{question:#}");
        assert_eq!(question["way"], if provenance > 0.85 { "memory" } else { "council" }, "{end}");
        call(&connection, "delete_entity_edge", json!({"uuid": fact["uuid"]})).await;
    }
}

/// "Custom confidence model", "Fallback to chairman model".
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_confidence_model_judges_else_the_chairman() {
    let Some(graphiti) = Graphiti::plain().await else { return };
    graphiti.control(json!({"facts": [fact(1)]})).await;
    for custom in [true, false] {
        let (one, two, own) = models(&sure(json!([1]))).await;
        let judge = model(json!([{"when": ABOUT, "steps": [{"say": sure(json!([1]))}]}])).await;
        let own_judge = format!("confidence = {{ model = \"judge-model\", endpoint = \"{}\" }}\n", judge.base_url());
        let memory = "\n[modules.council.memory]\nthreshold = 0.1\n";
        let more = format!("{}{memory}{}", if custom { &own_judge } else { "" }, graph(&graphiti.url, ""));
        let household = with_council(&own, &[("one", "model-a", &one), ("two", "model-b", &two)], &more);
        let _daemon = household.start().await;
        assert!(household.asks_council(QUESTION)["output"].as_str().unwrap_or_default().starts_with("A Vaillant."));
        assert_eq!((judge.requests().len(), own.requests().len()), if custom { (1, 0) } else { (0, 1) });
    }
}

/// "Graphiti unavailable on startup", "Graphiti fails during operation": one warning, a note in `status`, the answer all the
/// same, and what waited is told once the graph is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_graph_the_council_goes_on_and_tells_it_later() {
    let Some(mut graphiti) = Graphiti::plain_later().await else { return };
    let (one, two, own) = models("?").await;
    let members = [("one", "model-a", &one), ("two", "model-b", &two)];
    let household = with_council(&own, &members, &graph(&graphiti.url, ""));
    let daemon = household.start().await;
    assert_eq!(household.asks_council(QUESTION)["output"], "Ask the label.");
    eventually("the note", || async {
        let status = daemon.status().await.to_string();
        if status.contains("works without its knowledge graph") { Ok(()) } else { Err(status) }
    })
    .await;
    let warned = daemon.logged(&["goes on without the knowledge graph"], 1).await;
    assert_eq!(warned, 1, "{}", daemon.log());
    graphiti.start_again().await;
    let episodes = described(&graphiti.has(GROUP, 4).await);
    assert_eq!(episodes[0].0, "user");
    eventually("the note goes", || async {
        let status = daemon.status().await.to_string();
        if status.contains("works without its knowledge graph") { Err(status) } else { Ok(()) }
    })
    .await;
    // It fails in the middle: the person hears nothing of it.
    graphiti.fail("refuse", "add_memory", 2).await;
    graphiti.fail("error", "search_memory_facts", -1).await;
    assert_eq!(household.asks_council("And which radiator?")["output"], "Ask the label.");
    daemon.logged(&["the knowledge graph found no facts"], 1).await;
    let episodes = described(&graphiti.has(GROUP, 8).await);
    assert_eq!(episodes.len(), 8, "each once: {episodes:?}");
}

/// What a stranger asks goes into a group that answers nobody, and no memory answers a stranger.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strangers_words_answer_nobody() {
    let Some(graphiti) = Graphiti::plain().await else { return };
    graphiti.control(json!({"facts": [fact(0)]})).await;
    let (one, two, own) = models(&sure(json!([1]))).await;
    let memory = "\n[modules.council.memory]\nthreshold = 0.1\n";
    let more = format!("{memory}{}", graph(&graphiti.url, ""));
    let household = with_council(&own, &[("one", "model-a", &one), ("two", "model-b", &two)], &more);
    let daemon = household.start().await;
    let mut envelope = message("s-1", "t", QUESTION);
    envelope["sender"] = json!({"identity": "999", "authenticated": {"result": "pass", "method": "platform"}});
    envelope["control"]["pinned_target"] = json!("council");
    let (status, accepted) = ingest(&daemon, &envelope).await;
    assert_eq!(status, 202, "{accepted}");
    let entry = ended(&daemon, accepted["request_id"].as_str().expect("an id")).await;
    assert_eq!(entry["trust"], "stranger", "{entry}");
    let episodes = described(&graphiti.has("llm_council_others", 1).await);
    assert_eq!(episodes[0], ("user".to_owned(), QUESTION.to_owned()));
    let question = daemon.newest_question().await;
    assert_eq!(question["way"], "council", "memory says nothing to a stranger: {question:#}");
    assert_eq!(steps(&question, "confidence").len(), 0);
    assert!(graphiti.episodes(GROUP).await.is_empty());
}

/// A thousand episodes that waited while the graph was away for an hour come in order, each once. Those that are due by the
/// household's clock and by the database's are the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_that_waited_come_in_order_and_once() {
    let Some(mut graphiti) = Graphiti::plain_later().await else { return };
    let (one, two, own) = models("?").await;
    let household = with_council(&own, &[("one", "a", &one), ("two", "b", &two)], &graph(&graphiti.url, ""));
    let clock = household.path().join("clock").to_string_lossy().into_owned();
    let household = household.env("BUTLERD_CLOCK_FILE", &clock);
    let begun = jiff::Timestamp::now();
    household.set_clock(&begun.to_string());
    let daemon = household.start().await;
    let db = household.role("council").await;
    db.batch_execute("SET butlerd.tenant = 'owner'").await.unwrap();
    // One is asked before anything else waits, so that it is the first to be tried in vain.
    assert_eq!(household.asks_council(QUESTION)["output"], "Ask the label.");
    daemon.logged(&["goes on without the knowledge graph"], 1).await;
    let minutes = 60;
    for quarter in 0..4 {
        let at = begun + jiff::SignedDuration::from_mins(minutes * quarter / 4);
        household.set_clock(&at.to_string());
        let first = 250 * quarter + 1;
        let sql = "INSERT INTO council_episodes (id, conversation, body, description, group_id, said_at)
            SELECT gen_random_uuid(), 'c' || n % 5, n::text, 'user', 'llm_council', $3::text::timestamptz
            FROM generate_series($1::bigint, $2) g(n) ORDER BY g.n";
        db.execute(sql, &[&first, &(first + 249), &at.to_string()]).await.unwrap();
    }
    household.set_clock(&(begun + jiff::SignedDuration::from_mins(minutes)).to_string());
    let waiting = "SELECT count(*) FROM council_episodes WHERE state IN ('accepted', 'processing')";
    assert_eq!(db.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0), 1004, "nothing is given up meanwhile");
    graphiti.start_again().await;
    let episodes = graphiti.has(GROUP, 1004).await;
    let mut last = [0; 5];
    for n in episodes.iter().filter_map(|episode| episode["content"].as_str()?.parse::<usize>().ok()) {
        assert!(n > last[n % 5], "{n} came after {}", last[n % 5]);
        last[n % 5] = n;
    }
    assert_eq!(last, [1000, 996, 997, 998, 999]);
    assert_eq!(episodes.len(), 1004);
    let asked: Vec<String> =
        described(&episodes).into_iter().filter(|(_, said)| said.parse::<u32>().is_err()).map(|(by, _)| by).collect();
    assert_eq!((asked.len(), asked[0].as_str(), asked[3].as_str()), (4, "user", "chairman:own-model"), "{asked:?}");
}

/// What was told, and what was given up, goes with the sessions that it tells of; what waits stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_episodes_go_once_they_are_told() {
    let (one, two, own) = models("?").await;
    let household = with_council(&own, &[("one", "a", &one), ("two", "b", &two)], "");
    let _daemon = household.start().await;
    let db = household.role("council").await;
    db.batch_execute(
        "SET butlerd.tenant = 'owner';
         INSERT INTO council_episodes (id, conversation, body, description, group_id, said_at, state, settled_at)
         SELECT gen_random_uuid(), 'c', state, 'user', 'g', now() - age, state, CASE WHEN state <> 'accepted' THEN now() - age END
         FROM unnest(ARRAY['sent', 'dead', 'accepted']) state, unnest(ARRAY[interval '400 days', interval '1 day']) age",
    )
    .await
    .unwrap();
    let (code, out, err) = household.cli(&["schedule", "run", "house-tidy", "--butler", "council"]);
    assert_eq!(code, 0, "{out}{err}");
    let rows = db.query("SELECT state || ' ' || count(*) FROM council_episodes GROUP BY state ORDER BY 1", &[]).await;
    let left: Vec<String> = rows.unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(left, ["accepted 2", "dead 1", "sent 1"], "{out}");
}
