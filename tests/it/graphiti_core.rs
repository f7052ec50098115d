//! The daemon's MCP client before Graphiti: the real graphiti_core behind its makers' tools, and the stand-in that the tests
//! of faults use. What both do alike is what butlerd may count on.

use serde_json::{Value, json};

use crate::support::graphiti::{Graphiti, call, extraction, no_duplicates};
use crate::support::{http, model};

/// Two episodes, of which the second ends what the first says.
async fn moves() -> testkit::model::ScriptedModel {
    let of = |of: &str, place: &str, valid_at: &str| {
        extraction(of, ["Ada", place], "LIVES_IN", &format!("Ada lives in {place}"), json!(valid_at))
    };
    let ends = json!({"duplicate_facts": [], "contradicted_facts": [0]}).to_string();
    let ends = json!({"when": "(?s)Ada lives in London.*\"title\": \"EdgeDuplicate\"", "steps": [{"say": ends}]});
    let both = [
        of("moved to London", "London", "2026-03-01T00:00:00Z"),
        of("in Cambridge", "Cambridge", "2026-01-01T00:00:00Z"),
    ];
    model(json!([vec![ends], both.concat(), no_duplicates()].concat())).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn graphiti_core_takes_episodes_and_finds_their_facts() {
    let model = moves().await;
    let Some(mut graphiti) = Graphiti::start(&model).await else { return };
    let connection = graphiti.connect().await;
    let names: Vec<&str> = connection.tools().iter().map(|tool| tool.name.as_str()).collect();
    for tool in
        ["add_memory", "search_nodes", "search_memory_facts", "get_episodes", "get_entity_edge", "delete_episode"]
    {
        assert!(names.contains(&tool), "{names:?}");
    }
    assert_eq!(call(&connection, "get_status", json!({})).await["status"], "ok");
    let episode = json!({"name": "first", "episode_body": "Ada says that she lives in Cambridge.", "source": "text",
        "source_description": "user", "reference_time": "2026-01-02T03:04:05Z", "group_id": "llm_council"});
    let taken = call(&connection, "add_memory", episode).await;
    assert_eq!(taken, json!({"message": "Episode 'first' queued for processing in group 'llm_council'"}));
    assert_eq!(graphiti.has_read(1).await, [] as [Value; 0], "{}", graphiti.log());
    let found = call(&connection, "get_episodes", json!({"group_ids": "llm_council"})).await;
    let first = found["episodes"][0].clone();
    assert_eq!(
        (&first["name"], &first["source"], &first["source_description"], &first["content"]),
        (&json!("first"), &json!("text"), &json!("user"), &json!("Ada says that she lives in Cambridge."))
    );
    let facts = json!({"query": "where does Ada live", "group_ids": ["llm_council"]});
    let found = call(&connection, "search_memory_facts", facts.clone()).await;
    let fact = found["facts"][0].clone();
    assert_eq!((&fact["fact"], &fact["name"]), (&json!("Ada lives in Cambridge"), &json!("LIVES_IN")));
    assert!(fact["valid_at"].as_str().is_some_and(|at| at.starts_with("2026-01-01")), "{fact}");
    assert!(fact["invalid_at"].is_null() && fact["episodes"] == json!([first["uuid"]]), "{fact}");
    assert_eq!(call(&connection, "get_entity_edge", json!({"uuid": fact["uuid"]})).await, fact);
    let nodes = call(&connection, "search_nodes", json!({"query": "Ada", "group_ids": ["llm_council"]})).await;
    let named = |name: &str| nodes["nodes"].as_array().expect("nodes").iter().any(|node| node["name"] == name);
    assert!(named("Ada") && named("Cambridge"), "{nodes}");
    let elsewhere = call(&connection, "search_memory_facts", json!({"query": "where does Ada live"})).await;
    assert_eq!(elsewhere, json!({"message": "No relevant facts found", "facts": []}), "another group's");

    // A fact that is over says since when.
    let episode = json!({"name": "second", "episode_body": "Ada has moved to London.", "group_id": "llm_council",
        "source_description": "council:scripted-1", "reference_time": "2026-03-02T00:00:00Z"});
    call(&connection, "add_memory", episode).await;
    assert_eq!(graphiti.has_read(2).await, [] as [Value; 0], "{}", graphiti.log());
    let found = call(&connection, "search_memory_facts", facts.clone()).await;
    let of = |place: &str| {
        let all = found["facts"].as_array().expect("facts").iter();
        all.clone()
            .find(|fact| fact["fact"] == format!("Ada lives in {place}"))
            .cloned()
            .unwrap_or_else(|| panic!("{found}"))
    };
    assert!(of("London")["invalid_at"].is_null(), "{found}");
    assert!(of("Cambridge")["invalid_at"].as_str().is_some_and(|at| at.starts_with("2026-03-01")), "{found}");
    assert!(of("Cambridge")["expired_at"].is_string(), "{found}");
    let london = of("London");

    connection.close().await;

    // It stands in a file: what was read is there after an end.
    graphiti.stop().await;
    graphiti.start_again().await;
    assert_eq!(graphiti.episodes("llm_council").await.len(), 2);
    let connection = graphiti.connect().await;

    // What is taken back takes its facts along.
    let gone = call(&connection, "delete_episode", json!({"uuid": first["uuid"]})).await;
    assert!(gone["message"].is_string(), "{gone}");
    let found = call(&connection, "search_memory_facts", facts.clone()).await;
    assert!(!found.to_string().contains("Cambridge") && found.to_string().contains("London"), "{found}");
    let deleted = call(&connection, "delete_entity_edge", json!({"uuid": london["uuid"]})).await;
    assert!(deleted["message"].is_string(), "{deleted}");
    let found = call(&connection, "search_memory_facts", facts).await;
    assert_eq!(found, json!({"message": "No relevant facts found", "facts": []}));
}

/// What it takes with a good answer and never stores, and what it refuses: the same at both servers.
async fn loses(graphiti: &Graphiti) {
    let connection = graphiti.connect().await;
    let odd = json!({"name": "odd", "episode_body": "x", "reference_time": "yesterday"});
    let refused = call(&connection, "add_memory", odd).await;
    assert!(refused["error"].as_str().is_some_and(|why| why.starts_with("Invalid reference_time")), "{refused}");
    for more in [json!({"uuid": "11111111-1111-4111-8111-111111111111"}), json!({"group_id": "llm:council"})] {
        let mut episode = json!({"name": "lost", "episode_body": "Ada says that she lives in Cambridge."});
        episode.as_object_mut().expect("an object").append(&mut more.as_object().expect("an object").clone());
        let taken = call(&connection, "add_memory", episode).await;
        assert!(taken["message"].is_string(), "{taken}");
    }
    let unknown = json!({"name": "n", "episode_body": "x", "metadata": "{}"});
    let answer =
        connection.call("add_memory", unknown.as_object().expect("an object").clone()).await.expect("an answer");
    assert!(answer.is_error && answer.text.contains("metadata"), "{answer:?}");
    let none = call(&connection, "get_entity_edge", json!({"uuid": "none"})).await;
    assert_eq!(none, json!({"error": "Error getting entity edge: edge none not found"}));
    connection.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn graphiti_core_loses_what_it_can_t_read_behind_a_good_answer() {
    let model = moves().await;
    let Some(graphiti) = Graphiti::start(&model).await else { return };
    loses(&graphiti).await;
    let lost = graphiti.has_read(2).await;
    assert_eq!(lost.len(), 2, "{lost:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_stand_in_does_as_graphiti_does_and_fails_as_it_is_asked() {
    let Some(mut graphiti) = Graphiti::plain().await else { return };
    loses(&graphiti).await;
    assert_eq!(graphiti.state().await["lost"].as_array().map(Vec::len), Some(2));
    let connection = graphiti.connect().await;
    let episode = |name: &str| json!({"name": name, "episode_body": "Ada lives in Cambridge.", "group_id": "g"});
    call(&connection, "add_memory", episode("first")).await;
    graphiti.fail("error", "add_memory", 1).await;
    assert!(call(&connection, "add_memory", episode("refused")).await["error"].is_string());
    graphiti.fail("lost", "add_memory", 1).await;
    let args = episode("second").as_object().expect("an object").clone();
    assert!(connection.call("add_memory", args.clone()).await.is_err(), "its answer is lost");
    graphiti.fail("refuse", "add_memory", 1).await;
    assert!(connection.call("add_memory", args).await.is_err());
    graphiti.fail("drop", "add_memory", 1).await;
    call(&connection, "add_memory", episode("dropped")).await;
    let names = |all: Vec<Value>| -> Vec<String> {
        all.iter().filter_map(|one| one["name"].as_str().map(str::to_owned)).collect()
    };
    assert_eq!(names(graphiti.episodes("g").await), ["first", "second"]);
    graphiti.kill().await;
    graphiti.start_again().await;
    assert_eq!(names(graphiti.has("g", 2).await), ["first", "second"], "it reads what it had stored");
    graphiti
        .control(json!({"facts": [{"fact": "Ada lives in Cambridge", "group_id": "g"}], "hide": ["get_status"]}))
        .await;
    let connection = graphiti.connect().await;
    assert!(!connection.tools().iter().any(|tool| tool.name == "get_status"));
    let found = call(&connection, "search_memory_facts", json!({"query": "Ada", "group_ids": "g"})).await;
    assert_eq!(found["facts"][0]["fact"], "Ada lives in Cambridge");
    assert!(graphiti.dir().join("episodes.jsonl").exists());
    // One that comes later, at an address that is known before.
    let Some(mut late) = Graphiti::plain_later().await else { return };
    assert!(http().get(&late.url).send().await.is_err());
    late.start_again().await;
    assert_eq!(call(&late.connect().await, "get_status", json!({})).await["status"], "ok");
}
