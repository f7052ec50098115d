//! The scoring of routing: labelled messages, a model that looks for single words, and what is counted then.

use serde_json::json;

use crate::routing_score::{Door, Found, read, score, silence};
use crate::support::{Household, http, model};

const MESSAGES: &str = r#"
{"text": "I weigh 82 kg", "butlers": ["health"]}
{"text": "The rent is due", "butlers": ["finance"], "channel": "email"}
{"text": "Book a train to Rome and pay the rent", "butlers": ["travel", "finance"]}
{"text": "My train ticket was too expensive", "butlers": ["finance"]}
{"text": "And last week?", "butlers": ["health"], "history": ["How much do I weigh?"]}
{"text": "Remember the milk", "butlers": ["general"]}
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_model_chose_is_counted_rightly() {
    let to = |butler: &str| json!({"tool": "route_to_butler", "arguments": {"butler": butler, "prompt": butler}});
    // What the person wrote, now or before: nothing that the house says itself.
    let asked = |words: &str| format!("(?s)\"(message|text)\": ?\"[^\"]*{words}.*Route the message in");
    let model = model(json!([
        {"when": asked("train to Rome and pay"), "steps": [{"calls": [to("travel"), to("finance")]}]},
        {"when": asked("train"), "steps": [{"call": to("travel")}]},
        {"when": asked("rent"), "steps": [{"call": to("finance")}]},
        {"when": asked("weigh"), "steps": [{"call": to("health")}]},
        {"when": "Route the message in", "steps": [{"say": "I can't tell."}]},
    ]))
    .await;
    let household = Household::whole()
        .env("BUTLERD_SPAWNER__ENDPOINTS__ANTHROPIC", &model.base_url())
        .env("ANTHROPIC_API_KEY", "sk-test-key-of-the-scripted-model");
    silence(&household.roster()).expect("the roster");
    let daemon = household.start().await;
    let door = Door { http: http(), admin: daemon.admin().to_owned(), token: daemon.token() };
    let samples = read(MESSAGES).expect("messages");
    let outcomes = door.classify_all(&samples).await.expect("all are classified");
    let score = score(&samples, &outcomes);
    let told = score.to_string();
    assert_eq!((score.messages, score.exact, score.any, score.fallback), (6, 5, 5, 1), "{told}");
    assert_eq!(score.butlers["health"], Found { right: 2, missed: 0, wrong: 0 }, "the history was seen: {told}");
    assert_eq!(score.butlers["finance"], Found { right: 2, missed: 1, wrong: 0 }, "{told}");
    assert_eq!(score.butlers["travel"], Found { right: 1, missed: 0, wrong: 1 }, "{told}");
    assert_eq!(score.confused[&("finance".to_owned(), "travel".to_owned())], 1, "{told}");
    assert!(told.contains("exactly right 5 (83.3 %)") && told.contains("too expensive"), "{told}");
    assert!(door.cost().await.expect("costs").is_some(), "what it cost is known");
    let others = model.requests().iter().filter(|r| !r.body.to_string().contains("Route the message in")).count();
    assert_eq!(others, 0, "nobody but the switchboard asked a model");
}

#[test]
fn the_shipped_messages_are_two_hundred_balanced_and_never_for_a_core_butler() {
    let samples = read(include_str!("../data/routing.jsonl")).expect("right lines");
    assert_eq!(samples.len(), 200);
    let mut texts: Vec<_> = samples.iter().map(|s| (&s.text, &s.history)).collect();
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), 200, "each once");
    let known = ["general", "relationship", "health", "finance", "travel"];
    for butler in known {
        let n = samples.iter().filter(|s| s.butlers.iter().any(|b| b == butler)).count();
        assert!((36..=64).contains(&n), "{butler}: {n}");
    }
    assert!(samples.iter().all(|s| s.butlers.iter().all(|b| known.contains(&b.as_str()))));
    assert!(samples.iter().filter(|s| s.butlers.len() > 1).count() >= 20);
    assert!(samples.iter().filter(|s| !s.history.is_empty()).count() >= 20);
    assert!(read("{\"text\": \"x\", \"butlers\": []}").is_err());
}
