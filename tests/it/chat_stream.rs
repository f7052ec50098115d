//! Text of the chat as the model writes it: over HTTP and at a terminal, each text once, and no secret in pieces.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::sync::Notify;

use crate::bot_api::read;
use crate::support::{Daemon, Household, Terminal, eventually, http, model};

/// A model that writes its answer in pieces, and the next one only when it may.
pub struct SlowModel {
    url: String,
    pub next: Arc<Notify>,
}

impl SlowModel {
    pub async fn start(pieces: &'static [&'static str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/v1", listener.local_addr().expect("its address"));
        let next = Arc::new(Notify::new());
        let gate = next.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let gate = gate.clone();
                tokio::spawn(async move {
                    if let Some((_, body)) = read(&mut stream).await {
                        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
                        stream.write_all(head.as_bytes()).await.expect("the head");
                        // What is asked besides has its answer at once.
                        let held = body.contains("write slowly");
                        for (n, piece) in pieces.iter().enumerate() {
                            if held && n > 0 {
                                gate.notified().await;
                            }
                            let delta =
                                json!({"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": null}]});
                            stream.write_all(format!("data: {delta}\n\n").as_bytes()).await.expect("a piece");
                        }
                        let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
                        stream.write_all(format!("data: {end}\n\ndata: [DONE]\n\n").as_bytes()).await.expect("its end");
                    }
                });
            }
        });
        Self { url, next }
    }

    pub fn household(&self) -> Household {
        Household::new()
            .runtime("general", "type = \"native\"\napi = \"openai\"")
            .model("general", "slow")
            .env("BUTLERD_SPAWNER__ENDPOINTS__OPENAI", &self.url)
            .env("OPENAI_API_KEY", "sk-test-key-of-the-slow-model")
    }
}

/// The events of a stream, one by one.
pub struct Stream {
    response: reqwest::Response,
    read: String,
}

impl Stream {
    async fn of(request: reqwest::RequestBuilder) -> Self {
        Self { response: request.send().await.expect("an answer"), read: String::new() }
    }

    pub async fn post(daemon: &Daemon, body: &Value) -> Self {
        Self::of(http().post(format!("http://{}/api/chat", daemon.admin())).bearer_auth(daemon.token()).json(body))
            .await
    }

    /// The next event; `None` at the end.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((event, rest)) = self.read.split_once("\n\n") {
                let data = event.lines().find_map(|line| line.strip_prefix("data: ")).map(str::to_owned);
                self.read = rest.to_owned();
                match data {
                    Some(data) => return Some(serde_json::from_str(&data).expect("JSON")),
                    None => continue,
                }
            }
            let more =
                tokio::time::timeout(Duration::from_secs(60), self.response.chunk()).await.expect("a sign of life");
            self.read.push_str(&String::from_utf8_lossy(&more.expect("a stream")?));
        }
    }

    /// The events up to the first of this name.
    pub async fn until(&mut self, name: &str) -> Vec<Value> {
        let mut events = Vec::new();
        while events.last().is_none_or(|e: &Value| e["event"] != name) {
            let next = self.next().await;
            events.push(next.unwrap_or_else(|| panic!("no {name} in {events:?}, then {:?}", self.read)));
        }
        events
    }
}

/// What was written of a text, put together.
pub fn written(events: &[Value]) -> String {
    let mut text = String::new();
    for event in events.iter().filter(|e| e["event"] == "text_delta") {
        assert_eq!(event["start"].as_u64(), Some(text.len() as u64), "{event} after {text:?}");
        text.push_str(event["text"].as_str().expect("a text"));
    }
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_comes_as_it_is_written_and_once() {
    let pieces = &["# Plan\nThe token is butler-sec", "ret-0815, and the ", "rest **follows** here."];
    let model = SlowModel::start(pieces).await;
    let household = model.household();
    let daemon = household.start().await;
    let (code, out, err) = household.cli_with_input(&["secret", "set", "STREAMED_TOKEN"], "butler-secret-0815");
    assert_eq!(code, 0, "{out}{err}");
    let message = json!({"text": "write slowly", "butler": "general", "id": "1"});
    let mut stream = Stream::post(&daemon, &message).await;
    // The model waits for the test: what is here was told before there was more.
    let mut told = stream.until("text_delta").await;
    assert_eq!(written(&told), "# Plan\nThe token ", "{told:?}");
    model.next.notify_one();
    told.extend(stream.until("text_delta").await);
    assert!(written(&told).starts_with("# Plan\nThe token is [hidden], and "), "{told:?}");
    // Whoever comes now has missed the begin, and hears the whole.
    let request = told[0]["request_id"].as_str().expect("an id").to_owned();
    let again = http().get(format!("http://{}/api/chat/{request}", daemon.admin())).bearer_auth(daemon.token());
    let mut late = Stream::of(again).await;
    late.until("session").await;
    model.next.notify_one();
    told.extend(stream.until("ended").await);
    let whole = "# Plan\nThe token is [hidden], and the rest **follows** here.";
    let texts: Vec<&Value> = told.iter().filter(|e| e["event"] == "text").map(|e| &e["text"]).collect();
    assert_eq!((texts, whole.starts_with(&written(&told))), (vec![&json!(whole)], true), "{told:?}");
    let late = late.until("ended").await;
    assert!(!late.iter().any(|e| e["event"] == "text_delta"), "{late:?}");
    assert_eq!(late.iter().filter(|e| e["event"] == "text").count(), 1, "{late:?}");
    assert!(!format!("{told:?}{late:?}").contains("butler-sec"), "{told:?}");
    // Deltas are no rows: read again, the stream is what it was without them.
    let mut record = Stream::post(&daemon, &message).await;
    let record = record.until("ended").await;
    told.retain(|e| e["event"] != "text_delta");
    assert_eq!(record[1..], told[1..]);

    let mut chat = Terminal::chat(&household, &["general"]);
    chat.sees("> ").await;
    chat.types("write slowly");
    // The first line is whole, the second is not.
    chat.sees("general: Plan").await;
    model.next.notify_one();
    chat.sees("[hidden], and").await;
    model.next.notify_one();
    chat.sees("> ").await;
    let shown = chat.shown();
    assert_eq!(shown.matches("general: Plan").count(), 1, "{shown}");
    assert_eq!(shown.matches("rest follows here.\r\n").count(), 1, "{shown}");
    chat.presses("\u{4}");
    assert_eq!(chat.end(), 0, "{}", chat.shown());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreachable_model_is_said_soon_and_does_not_hold_the_conversation() {
    let household = Household::new()
        .env("BUTLERD_SPAWNER__ENDPOINTS__ANTHROPIC", "http://127.0.0.1:9")
        .env("ANTHROPIC_API_KEY", "sk-test-key-of-no-model");
    let daemon = household.start().await;
    for (text, butler) in [("pinned", json!("general")), ("routed", Value::Null)] {
        let begun = std::time::Instant::now();
        let mut stream = Stream::post(&daemon, &json!({"text": text, "butler": butler, "thread": text})).await;
        let told = stream.until("waiting").await;
        let why = told.last().and_then(|e| e["why"].as_str()).unwrap_or_default();
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}: {told:?}", begun.elapsed());
        assert!(why.starts_with("the model cannot be reached") && why.contains("Connection refused"), "{told:?}");
    }
    let mut chat = Terminal::chat(&household, &["general", "--thread", "typed"]);
    chat.sees("> ").await;
    chat.types("hello");
    chat.sees("the model cannot be reached").await;
    chat.sees("butlerd tries again by itself").await;
    // The line is there again while the message waits.
    chat.sees("> ").await;
    chat.types("/help");
    chat.sees("/attach FILE").await;
    chat.sees("> ").await;
    chat.presses("\u{4}");
    chat.sees("works on 1 message all the same").await;
    chat.end();
    let shown = chat.shown();
    assert_eq!(shown.matches("the model cannot be reached").count(), 1, "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_says_more_has_the_message_before_it_tried_at_once() {
    // Each session asks four times, and a second one follows.
    let model = model(json!([
        {"when": "and then", "steps": [{"say": "The second."}]},
        {"when": "first of all", "steps": [{"fail": {"status": 529, "times": 8}}, {"say": "The first."}]}]))
    .await;
    let household = Household::moved(&model);
    let daemon = household.start().await;
    let mut first = Stream::post(&daemon, &json!({"text": "first of all", "butler": "general"})).await;
    let mut told = first.until("waiting").await;
    // It has waited for more than three minutes already: so its next try is a minute away.
    household.set_clock("2027-02-28T20:03:20+01:00");
    while told.last().and_then(|e| e["again_ms"].as_u64()).is_none_or(|ms| ms < 40_000) {
        told.extend(first.until("waiting").await);
    }
    // It is told a moment before its row waits.
    let client = household.owner().await;
    eventually("the row waits", || async {
        let sql = "SELECT 1 FROM general.route_inbox WHERE claim_id IS NULL AND available_at > clock_timestamp()";
        let rows = client.query(sql, &[]).await.map_err(|e| e.to_string())?;
        if rows.is_empty() { Err("it is in hand".to_owned()) } else { Ok(()) }
    })
    .await;
    let said = std::time::Instant::now();
    let mut second = Stream::post(&daemon, &json!({"text": "and then?", "butler": "general"})).await;
    let replies = |events: Vec<Value>| -> Vec<Value> {
        events.into_iter().filter(|e| e["event"] == "reply").map(|e| e["message"].clone()).collect()
    };
    assert_eq!(replies(first.until("ended").await), [json!("The first.")]);
    assert_eq!(replies(second.until("ended").await), [json!("The second.")]);
    assert!(said.elapsed() < Duration::from_secs(30), "{:?}", said.elapsed());
}
