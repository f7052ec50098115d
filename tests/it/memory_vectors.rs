//! Vectors that somebody else makes: none, late, or of another model than before. Memory works all the same.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::bot_api::read;
use crate::support::{Household, eventually};

/// The health butler's memory asks this endpoint for vectors of a model `m`.
fn asking(household: Household, url: &str) -> Household {
    let section = format!(
        "[modules.memory]\nenabled = true\n\n[modules.memory.embedding]\nprovider = \"endpoint\"\nurl = \"{url}\"\nmodel = \"m\"\n\
         dimensions = 64\n"
    );
    household.replace("health/butler.toml", "[modules.memory]\nenabled = true\n", &section)
}

/// Makes vectors out of letters, as soon as it may.
async fn endpoint(may: watch::Receiver<bool>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/v1", listener.local_addr().expect("its address"));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, may.clone()));
        }
    });
    url
}

async fn answer(mut stream: TcpStream, mut may: watch::Receiver<bool>) {
    let Some((_, raw)) = read(&mut stream).await else { return };
    if may.wait_for(|may| *may).await.is_err() {
        return;
    }
    let asked: Value = serde_json::from_str(&raw).expect("JSON");
    let vector = |text: &str| {
        let mut counts = [0_u32; 64];
        text.bytes().for_each(|b| counts[usize::from(b % 64)] += 1);
        counts.to_vec()
    };
    let texts = asked["input"].as_array().into_iter().flatten().enumerate();
    let data: Vec<Value> =
        texts.map(|(n, t)| json!({"index": n, "embedding": vector(t.as_str().unwrap_or_default())})).collect();
    let body = json!({"data": data}).to_string();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    // A client that has gone meanwhile gets nothing.
    let _ = stream.write_all((head + &body).as_bytes()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_model_makes_all_vectors_anew_while_searches_go_on() {
    let household = Household::new();
    let mut daemon = household.start().await;
    let health = daemon.mcp("health");
    for content in ["chamomile tea in the evening", "black coffee in the morning"] {
        let given = json!({"subject": "owner", "predicate": "likes", "content": content});
        assert_eq!(health.ok("memory_store_fact", given).await["status"], "stored");
    }
    daemon.stop_blocking();
    let (may, waits) = watch::channel(false);
    let household = asking(household, &endpoint(waits).await);
    let daemon = household.start().await;
    let health = daemon.mcp("health");
    let pending = async || health.ok("memory_reembed_pending_count", json!({})).await["pending"].clone();
    let found = async || {
        let answer = health.ok("memory_search", json!({"query": "chamomile tea"})).await;
        answer["results"][0]["content"].clone()
    };
    assert_eq!((pending().await, found().await), (json!(2), json!("chamomile tea in the evening")), "by its words");
    may.send(true).expect("somebody waits");
    eventually("all have vectors of the new model", || async {
        match pending().await {
            n if n == json!(0) => Ok(()),
            n => Err(n.to_string()),
        }
    })
    .await;
    let sql = "SELECT DISTINCT embedding_model, length(embedding) FROM health.memory_facts";
    let rows = household.owner().await.query(sql, &[]).await.expect("rows");
    let models: Vec<(String, i32)> = rows.iter().map(|r| (r.get(0), r.get(1))).collect();
    assert_eq!(models, [("m".to_owned(), 64)]);
    let near =
        health.ok("memory_search", json!({"query": "chamomile teas", "mode": "semantic", "explain": true})).await;
    assert!(near["results"][0]["parts"]["cosine"].as_f64() > Some(0.0), "by its vector: {near}");
}

/// Nothing answers where vectors are made: memories are kept and found by their words, and sessions go their way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_embedder_memory_works_by_words() {
    let household = asking(Household::new(), "http://127.0.0.1:1/v1");
    let daemon = household.start().await;
    let health = daemon.mcp("health");
    let given = json!({"subject": "owner", "predicate": "tea", "content": "likes chamomile tea in the evening"});
    assert_eq!(health.ok("memory_store_fact", given).await["status"], "stored");
    let found = health.ok("memory_search", json!({"query": "chamomile tea"})).await;
    assert_eq!(found["results"][0]["content"], "likes chamomile tea in the evening", "{found}");
    let told = health.ok("memory_context", json!({"trigger_prompt": "make some tea"})).await;
    assert!(told["context"].as_str().is_some_and(|block| block.contains("chamomile")), "{told}");
    daemon.logged(&["without its vector"], 1).await;
    let pending = health.ok("memory_reembed_pending_count", json!({})).await;
    assert_eq!((&pending["pending"], &pending["model"]), (&json!(1), &json!("m")), "{pending}");
}
