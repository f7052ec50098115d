//! Specification 001: where each of its scenarios is proven, and the clauses of them that `council_memory.rs` leaves open.

use serde_json::{Value, json};

use crate::council_memory::{GROUP, QUESTION, described, fact, graph, models, sure};
use crate::support::council::{ABOUT, CONCLUDED, chairman, member, with_council};
use crate::support::graphiti::Graphiti;
use crate::support::{Household, model};

/// Its scenarios, by the requirement that they are of.
const SCENARIOS: [(&str, &[&str]); 4] = [
    (
        "Memory Recording",
        &[
            "User message recording",
            "Council member response recording",
            "Chairman synthesis recording",
            "Direct response recording",
        ],
    ),
    (
        "Memory-Based Response Confidence",
        &["High confidence memory response", "Low confidence fallback", "Memory recency weighting"],
    ),
    (
        "Confidence Model Configuration",
        &["Custom confidence model", "Fallback to chairman model", "Configurable threshold"],
    ),
    ("Graceful Degradation", &["Graphiti unavailable on startup", "Graphiti fails during operation"]),
];

/// Tests with the comment in front of them.
fn commented(source: &str) -> Vec<(String, String)> {
    let (mut found, mut comment, mut is_test) = (Vec::new(), String::new(), false);
    for line in source.lines() {
        if let Some(words) = line.strip_prefix("/// ") {
            comment.push_str(words);
            comment.push(' ');
        } else if line.starts_with("#[tokio::test") {
            is_test = true;
        } else {
            if let Some(name) = line.strip_prefix("async fn ").filter(|_| is_test) {
                found.push((name.split('(').next().unwrap_or_default().to_owned(), comment.clone()));
            }
            (comment, is_test) = (String::new(), false);
        }
    }
    found
}

/// Whoever looks for the test of a scenario finds it by its words.
#[test]
fn every_scenario_is_named_by_a_test() {
    let all: Vec<(String, String)> = [include_str!("council_memory.rs"), include_str!("council_specification.rs")]
        .into_iter()
        .flat_map(commented)
        .collect();
    assert!(all.len() > 10, "{all:?}");
    for (requirement, scenarios) in SCENARIOS {
        for scenario in scenarios {
            let named = format!("\"{scenario}\"");
            assert!(all.iter().any(|(_, comment)| comment.contains(&named)), "{requirement}: {scenario} has no test");
        }
    }
}

/// "Council member response recording": after the response is complete, so that nothing of one that breaks off is recorded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_that_breaks_off_is_not_recorded() {
    let Some(graphiti) = Graphiti::plain().await else { return };
    let broken = model(json!([{"when": ".", "steps": [{"fail": {"status": 400, "body": "no such model"}}]}])).await;
    let silent = model(json!([{"when": ".", "steps": [{"say": "  \n"}]}])).await;
    let (one, own) = (member("A Vaillant.", "1. Response A").await, chairman("Ask the label.", "?").await);
    let members = [("one", "model-a", &one), ("broken", "model-b", &broken), ("silent", "model-c", &silent)];
    let household = with_council(&own, &members, &graph(&graphiti.url, ""));
    let _daemon = household.start().await;
    let end = household.asks_council(QUESTION);
    let answer = end["output"].as_str().unwrap_or_default();
    assert!(answer.starts_with("Ask the label.") && answer.contains("silent: it said nothing"), "{end}");
    let episodes = described(&graphiti.has(GROUP, 3).await);
    let by: Vec<&str> = episodes.iter().map(|(by, _)| by.as_str()).collect();
    assert_eq!(by, ["user", "council:model-a", "chairman:own-model"], "{episodes:?}");
}

/// "User message recording", "Council member response recording", "Chairman synthesis recording": each has a setting by which
/// it is left out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_recorded_is_for_the_settings_to_say() {
    for (key, expected) in [
        ("record_user", &["chairman:own-model", "council:model-a", "council:model-b"][..]),
        ("record_council", &["chairman:own-model", "user"]),
        ("record_chairman", &["council:model-a", "council:model-b", "user"]),
    ] {
        let Some(graphiti) = Graphiti::plain().await else { return };
        let (one, two, own) = models("?").await;
        let more = graph(&graphiti.url, &format!("{key} = false\n"));
        let household = with_council(&own, &[("one", "model-a", &one), ("two", "model-b", &two)], &more);
        let _daemon = household.start().await;
        // The second question's come behind all of the first, so that nothing of the first is missing because it is late.
        for question in [QUESTION, "And which radiator?"] {
            assert_eq!(household.asks_council(question)["output"], "Ask the label.");
            graphiti.has(GROUP, expected.len()).await;
        }
        let episodes = described(&graphiti.has(GROUP, 2 * expected.len()).await);
        let mut by: Vec<&str> = episodes.iter().map(|(by, _)| by.as_str()).collect();
        by.sort_unstable();
        by.dedup();
        assert_eq!((by.as_slice(), episodes.len()), (expected, 2 * expected.len()), "{key}: {episodes:?}");
    }
}

/// "Low confidence fallback": the rest of the way is the usual one, with its router.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn below_the_threshold_the_router_is_asked_as_ever() {
    let Some(graphiti) = Graphiti::plain().await else { return };
    graphiti.control(json!({"facts": [fact(1)]})).await;
    let (one, two, own) = models(&sure(json!([1]))).await;
    let router = model(json!([{"when": ABOUT, "steps": [{"say": "direct"}]}])).await;
    let more = format!(
        "router = {{ model = \"router-model\", endpoint = \"{}\" }}\n\n[modules.council.memory]\nthreshold = 0.99\n{}",
        router.base_url(),
        graph(&graphiti.url, "")
    );
    let household = with_council(&own, &[("one", "model-a", &one), ("two", "model-b", &two)], &more);
    let daemon = household.start().await;
    assert_eq!(household.asks_council(QUESTION)["output"], "Alone: 42.");
    let question = daemon.newest_question().await;
    let stages: Vec<&str> = question["steps"].as_array().unwrap().iter().filter_map(|s| s["stage"].as_str()).collect();
    assert_eq!(stages, ["confidence", "router", "direct"], "{question:#}");
    assert_eq!(question["way"], "direct", "{question:#}");
}

/// "Custom confidence model", "Fallback to chairman model", "Configurable threshold": as `config.json` says them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn config_json_names_the_confidence_model_and_the_threshold() {
    let answers = member("Rent.", "1. Response A").await;
    for (custom, threshold) in [(true, 0.1), (false, 0.1), (true, 0.9)] {
        let (own, judge) = (model(json!([])).await, model(says_a_vaillant()).await);
        let leads = model(json!([
            {"when": CONCLUDED, "steps": [{"say": "Ask the label."}]},
            says_a_vaillant()[0],
        ]))
        .await;
        let at = |id: &str, server: &testkit::model::ScriptedModel| json!({"id": id, "base_url_template": server.base_url()});
        let confidence = if custom { at("judge-model", &judge) } else { json!({"id": ""}) };
        let config = json!({
            "models": {"council": [at("a", &answers), at("b", &answers)], "chairman": at("c", &leads), "confidence": confidence},
            "memory": {"confidence_threshold": threshold, "max_memory_age_days": 30}});
        let household = Household::few_with_model(&own);
        let file = household.path().join("config.json");
        std::fs::write(&file, config.to_string()).unwrap();
        let (code, out, err) = household.cli(&["council", "import", &file.to_string_lossy()]);
        assert_eq!(code, 0, "{out}{err}");
        let daemon = household.start().await;
        let fact = json!({"subject": "boiler", "predicate": "make", "content": "The boiler we have is a Vaillant.",
            "permanence": "stable"});
        daemon.mcp("council").ok("memory_store_fact", fact).await;
        let end = household.asks_council(QUESTION);
        let question = daemon.newest_question().await;
        let case = format!("custom {custom}, threshold {threshold}: {end} {question:#}");
        assert_eq!(question["way"], if threshold < 0.5 { "memory" } else { "council" }, "{case}");
        assert_eq!(question["confidence"]["threshold"], threshold, "{case}");
        let judged = question["steps"].as_array().unwrap().iter().find(|step| step["stage"] == "confidence").unwrap();
        assert_eq!(judged["model"], if custom { "judge-model" } else { "c" }, "{case}");
        assert_eq!(judge.requests().len(), usize::from(custom), "{case}");
    }
}

/// Half of all that is asked for, from the one memory that there is.
fn says_a_vaillant() -> Value {
    let half = json!({"candidates": [{"answer": "A Vaillant.", "relevance": 1, "completeness": 0.5, "sources": [1]}]});
    json!([{"when": ABOUT, "steps": [{"say": half.to_string()}]}])
}
