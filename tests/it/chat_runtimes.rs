//! The chat with vendors' real programs: text as the model writes it, and pictures, also for models that take none.

use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::bot_api::read;
use crate::chat_stream::{Stream, written};
use crate::chat_terminal::PIXEL;
use crate::support::{Household, Runtime, installed};

const PIECES: [&str; 3] = ["The first part, ", "the second, ", "and the **last**."];

/// A model that speaks as each vendor does. Who asks it to write slowly gets the next piece only when it may, and who
/// asks whether it is blind gets no answer to pictures.
struct Vendor {
    url: String,
    next: Arc<Notify>,
    /// The requests for an answer.
    asked: Arc<Mutex<Vec<String>>>,
}

impl Vendor {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("its address"));
        let (next, asked) = (Arc::new(Notify::new()), Arc::new(Mutex::new(Vec::new())));
        let (gate, seen) = (next.clone(), asked.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (gate, seen) = (gate.clone(), seen.clone());
                // An error: the client has gone away.
                tokio::spawn(async move { serve(stream, &gate, &seen).await });
            }
        });
        Self { url, next, asked }
    }

    fn household(&self, runtimes: &[Runtime]) -> Household {
        Household::new()
            .with_runtimes(runtimes, "\n[butler.switchboard]\nadvertise = true\n")
            .env("BUTLERD_SPAWNER__ENDPOINTS__ANTHROPIC", &self.url)
            .env("BUTLERD_SPAWNER__ENDPOINTS__OPENAI", &format!("{}/v1", self.url))
            .env("BUTLERD_SPAWNER__ENDPOINTS__GEMINI", &self.url)
    }

    /// The requests for an answer that have these words in them.
    fn asked(&self, words: &str) -> Vec<String> {
        self.asked.lock().expect("no panic").iter().filter(|body| body.contains(words)).cloned().collect()
    }
}

/// Whether there is a picture in a request, however its vendor wants it.
fn has_picture(body: &str) -> bool {
    body.contains("iVBORw0KGgo")
}

async fn serve(mut stream: TcpStream, gate: &Notify, seen: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let Some((headers, body)) = read(&mut stream).await else { return Ok(()) };
    let path = headers[":path"].split('?').next().unwrap_or_default().to_owned();
    let answer =
        |status: &str, kind: &str| format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n");
    let events: fn(&[&str]) -> Vec<Vec<Value>> = match path.as_str() {
        "/v1/messages" => messages,
        "/v1/responses" => responses,
        path if path.ends_with(":streamGenerateContent") => generate,
        _ => {
            let counted =
                format!("{}{}", answer("200 OK", "application/json"), json!({"totalTokens": 5, "input_tokens": 5}));
            return stream.write_all(counted.as_bytes()).await;
        }
    };
    seen.lock().expect("no panic").push(body.clone());
    if body.contains("are you blind") && has_picture(&body) {
        let error = json!({"type": "error", "error": {"type": "invalid_request_error", "code": 400,
            "message": "this model does not support image input"}});
        return stream.write_all(format!("{}{error}", answer("400 Bad Request", "application/json")).as_bytes()).await;
    }
    stream.write_all(answer("200 OK", "text/event-stream").as_bytes()).await?;
    let held = body.contains("write slowly");
    for (n, part) in events(&PIECES).into_iter().enumerate() {
        // The first part begins the answer and has its first piece.
        if held && (1..PIECES.len()).contains(&n) {
            gate.notified().await;
        }
        for event in part {
            let name = event["type"].as_str().map(|name| format!("event: {name}\n")).unwrap_or_default();
            stream.write_all(format!("{name}data: {event}\n\n").as_bytes()).await?;
        }
    }
    Ok(())
}

/// A part for each piece, and the end.
fn parts(begin: Vec<Value>, pieces: Vec<Value>, end: Vec<Value>) -> Vec<Vec<Value>> {
    let mut parts: Vec<Vec<Value>> = pieces.into_iter().map(|piece| vec![piece]).collect();
    parts[0].splice(0..0, begin);
    parts.push(end);
    parts
}

fn messages(pieces: &[&str]) -> Vec<Vec<Value>> {
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
        "content": [], "stop_reason": null, "usage": {"input_tokens": 5, "output_tokens": 1}});
    let delta = |piece: &&str| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}});
    parts(
        vec![
            json!({"type": "message_start", "message": message}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        ],
        pieces.iter().map(delta).collect(),
        vec![
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}}),
            json!({"type": "message_stop"}),
        ],
    )
}

fn responses(pieces: &[&str]) -> Vec<Vec<Value>> {
    let item = |content: Value| json!({"type": "message", "id": "m1", "role": "assistant", "content": content});
    let delta = |piece: &&str| json!({"type": "response.output_text.delta", "item_id": "m1", "output_index": 0, "content_index": 0, "delta": piece});
    let whole = item(json!([{"type": "output_text", "text": pieces.concat()}]));
    let usage = json!({"input_tokens": 5, "output_tokens": 9, "total_tokens": 14});
    parts(
        vec![
            json!({"type": "response.created", "response": {"id": "r1"}}),
            json!({"type": "response.output_item.added", "output_index": 0, "item": item(json!([]))}),
        ],
        pieces.iter().map(delta).collect(),
        vec![
            json!({"type": "response.output_item.done", "output_index": 0, "item": whole}),
            json!({"type": "response.completed", "response": {"id": "r1", "usage": usage}}),
        ],
    )
}

fn generate(pieces: &[&str]) -> Vec<Vec<Value>> {
    let usage = json!({"promptTokenCount": 5, "candidatesTokenCount": 9, "totalTokenCount": 14});
    let chunk = |piece: &str, finish: Option<&str>| {
        json!({"usageMetadata": usage, "candidates": [
            {"index": 0, "finishReason": finish, "content": {"role": "model", "parts": [{"text": piece}]}}]})
    };
    let pieces = pieces.iter().map(|piece| chunk(piece, None)).collect();
    parts(Vec::new(), pieces, vec![chunk("", Some("STOP"))])
}

fn texts(events: &[Value]) -> Vec<&str> {
    events.iter().filter(|e| e["event"] == "text").filter_map(|e| e["text"].as_str()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_of_vendors_programs_comes_as_it_is_written_and_once() {
    let runtimes = installed("chat_runtimes::text_of_vendors_programs_comes_as_it_is_written_and_once");
    let model = Vendor::start().await;
    let household = model.household(&runtimes);
    let daemon = household.start().await;
    for Runtime { kind, .. } in runtimes {
        // Codex tells a text when it is whole.
        let tells = kind != "codex";
        let text = if tells { "write slowly" } else { "write" };
        let mut stream = Stream::post(&daemon, &json!({"text": text, "butler": kind, "thread": kind})).await;
        let mut told = Vec::new();
        for there in (1..PIECES.len()).filter(|_| tells) {
            // The model waits for the test: what is here was told before there was more.
            told.extend(stream.until("text_delta").await);
            assert!(PIECES[..there].concat().starts_with(&written(&told)), "{kind}: {told:?}");
            model.next.notify_one();
        }
        told.extend(stream.until("ended").await);
        assert_eq!(texts(&told), [PIECES.concat()], "{kind}: {told:?}");
        let (pieces, replies) = (written(&told), told.iter().filter(|e| e["event"] == "reply").count());
        assert!(PIECES.concat().starts_with(&pieces) && pieces.is_empty() != tells, "{kind}: {told:?}");
        assert_eq!((replies, &told.last().expect("an end")["state"]), (1, &json!("done")), "{kind}: {told:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pictures_reach_models_through_programs_that_can_and_models_that_take_none_answer_without() {
    let name = "pictures_reach_models_through_programs_that_can_and_models_that_take_none_answer_without";
    let runtimes = installed(&format!("chat_runtimes::{name}"));
    let model = Vendor::start().await;
    let household = model.household(&runtimes);
    let daemon = household.start().await;
    let picture = json!({"media_type": "image/png", "filename": "a.png", "size_bytes": PIXEL.len(),
        "content_base64": BASE64.encode(PIXEL)});
    for Runtime { kind, .. } in runtimes {
        for question in ["what is on it", "are you blind"] {
            let text = format!("{question}, {kind}?");
            let message = json!({"text": text, "butler": kind, "thread": text, "attachments": [picture]});
            let told = Stream::post(&daemon, &message).await.until("ended").await;
            assert_eq!(texts(&told), [PIECES.concat()], "{kind}: {told:?}\n{}", daemon.log());
            assert_eq!(told.last().expect("an end")["state"], "done", "{kind}: {told:?}");
            let asked = model.asked(&text);
            let (with, without): (Vec<&String>, Vec<&String>) = asked.iter().partition(|body| has_picture(body));
            // The Gemini CLI has no way for pictures into its sandbox.
            let shows = kind != "gemini";
            assert_eq!(with.is_empty(), !shows, "{kind}: {asked:?}");
            let blind = question == "are you blind" || !shows;
            let said = without.iter().any(|body| body.contains("could not be shown to you: "));
            assert_eq!((said, without.is_empty()), (blind, !blind), "{kind}: {without:?}");
            let sessions = told.iter().filter(|e| e["event"] == "session").count();
            assert_eq!(sessions, if blind && shows && kind != "native" { 2 } else { 1 }, "{kind}: {told:?}");
        }
    }
    // Nothing of them is left where sessions work.
    let work = household.data().join("work");
    let left: Vec<_> = std::fs::read_dir(&work).expect("the workspaces").flatten().map(|entry| entry.path()).collect();
    let kept = |dir: &std::path::PathBuf| ["", "work"].iter().any(|sub| dir.join(sub).join("picture-1.png").exists());
    assert!(!left.iter().any(kept), "{left:?}");
}
