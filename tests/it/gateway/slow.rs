//! A model server that says its answer piece by piece, when the test wants it, and knows when its client goes away.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};

/// What happened at the server.
#[derive(Debug, PartialEq, Eq)]
pub enum Seen {
    /// A request with this body has come.
    Asked(String),
    /// Its client closed the connection before the answer's end.
    Gone,
}

/// The server. It answers a request whose body has `piecemeal` in it, one event for each permit; others hang.
pub struct Slow {
    pub port: u16,
    pub go: Arc<Semaphore>,
    pub seen: mpsc::UnboundedReceiver<Seen>,
}

/// The events of a short answer, as the Messages API sends them.
pub const EVENTS: [&str; 4] = [
    r#"{"type":"message_start","message":{"model":"m-slow","usage":{"input_tokens":40,"output_tokens":1}}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}"#,
    r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":8}}"#,
    r#"{"type":"message_stop"}"#,
];

impl Slow {
    pub async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (tell, seen) = mpsc::unbounded_channel();
        let go = Arc::new(Semaphore::new(0));
        let permits = go.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, permits.clone(), tell.clone()));
            }
        });
        Self { port, go, seen }
    }

    pub fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Waits for the next request that has `part` in its body.
    pub async fn asked(&mut self, part: &str) -> String {
        loop {
            if let Seen::Asked(body) = self.seen.recv().await.expect("the server lives")
                && body.contains(part)
            {
                return body;
            }
        }
    }

    /// Waits until a client has gone away.
    pub async fn gone(&mut self) {
        while self.seen.recv().await.expect("the server lives") != Seen::Gone {}
    }
}

async fn serve(mut stream: TcpStream, go: Arc<Semaphore>, tell: mpsc::UnboundedSender<Seen>) {
    let mut buffer = [0u8; 4096];
    let Some(body) = request(&mut stream).await else { return };
    let piecemeal = body.contains("piecemeal");
    let _ = tell.send(Seen::Asked(body));
    if piecemeal {
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nrequest-id: req-7\r\nconnection: close\r\n\r\n";
        stream.write_all(head.as_bytes()).await.expect("the head");
        for event in EVENTS {
            let permit = tokio::select! {
                permit = go.acquire() => permit.expect("open"),
                // The client sends nothing more: whatever comes is its end.
                _ = stream.read(&mut buffer) => {
                    let _ = tell.send(Seen::Gone);
                    return;
                }
            };
            permit.forget();
            stream.write_all(format!("data: {event}\n\n").as_bytes()).await.expect("an event");
        }
        return;
    }
    let _ = stream.read(&mut buffer).await;
    let _ = tell.send(Seen::Gone);
}

/// The body of the next request; `None` if there is none.
async fn request(stream: &mut TcpStream) -> Option<String> {
    let mut text = Vec::new();
    let mut buffer = [0u8; 4096];
    loop {
        let n = stream.read(&mut buffer).await.ok().filter(|n| *n > 0)?;
        text.extend_from_slice(&buffer[..n]);
        let shown = String::from_utf8_lossy(&text).into_owned();
        let Some((head, body)) = shown.split_once("\r\n\r\n") else { continue };
        let length = head.to_lowercase().lines().find_map(|l| l.strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            return Some(body.to_owned());
        }
    }
}

/// A server that gives this JSON to every request; its address, and the bodies that it got.
pub async fn answering(json: String) -> (String, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (tell, seen) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let Some(body) = request(&mut stream).await else { continue };
            let _ = tell.send(body);
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                json.len()
            );
            stream.write_all(format!("{head}{json}").as_bytes()).await.expect("an answer");
        }
    });
    (url, seen)
}
