//! What stands before a server of calendars, as a provider's front does: it passes requests on, leads to where a calendar has
//! moved, and keeps an answer back. What stands behind it knows nothing of either.

use std::sync::Arc;
use std::sync::Mutex;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::http;
use crate::google::request::read;

/// A front in this process. It ends when it is dropped.
pub struct Front {
    pub url: String,
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

struct Shared {
    behind: String,
    /// From where a calendar has moved, and to where.
    moved: Mutex<Option<(String, String)>>,
    /// Whether the answer to the next PUT is kept back, and whether one was.
    keeps: Mutex<bool>,
    kept: watch::Sender<bool>,
}

impl Drop for Front {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Front {
    pub async fn start(behind: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("its address"));
        let (kept, _) = watch::channel(false);
        let shared =
            Arc::new(Shared { behind: behind.to_owned(), moved: Mutex::default(), keeps: Mutex::default(), kept });
        let server = shared.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = server.clone();
                // A client that was killed in its middle is no request.
                tokio::spawn(async move { server.serve(stream).await });
            }
        });
        Self { url, shared, task }
    }

    /// From now on a calendar is elsewhere, and its old place leads there.
    pub fn moves(&self, from: &str, to: &str) {
        *self.shared.moved.lock().expect("the places") = Some((from.to_owned(), to.to_owned()));
    }

    /// It is where it was again.
    pub fn moves_back(&self) {
        *self.shared.moved.lock().expect("the places") = None;
    }

    /// What is put there next is there, and whoever put it never hears so.
    pub fn keeps_next_answer(&self) {
        *self.shared.keeps.lock().expect("the choice") = true;
    }

    /// Waits until an answer is kept back.
    pub async fn kept(&self) {
        self.shared.kept.subscribe().wait_for(|kept| *kept).await.expect("the front is there");
    }
}

impl Shared {
    async fn serve(&self, mut stream: TcpStream) -> Option<()> {
        let (headers, body) = read(&mut stream).await?;
        let (method, mut path) = (headers[":method"].clone(), headers[":path"].clone());
        let moved = self.moved.lock().expect("the places").clone();
        if let Some((from, to)) = &moved {
            if let Some(rest) = path.strip_prefix(from.as_str()) {
                let head = format!(
                    "HTTP/1.1 301 Moved Permanently\r\nlocation: {to}{rest}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                );
                return stream.write_all(head.as_bytes()).await.ok();
            }
            path = path.replace(to.as_str(), from);
        }
        let places = |text: String, back: bool| match &moved {
            Some((from, to)) if back => text.replace(to.as_str(), from),
            Some((from, to)) => text.replace(from.as_str(), to),
            None => text,
        };
        let method = reqwest::Method::from_bytes(method.as_bytes()).expect("a method");
        let mut request = http().request(method.clone(), format!("{}{path}", self.behind));
        for (name, value) in &headers {
            if !name.starts_with(':') && !["host", "content-length", "connection"].contains(&name.as_str()) {
                request = request.header(name, value);
            }
        }
        let answer = request.body(places(body, true)).send().await.expect("the server answers");
        let keeps = method == reqwest::Method::PUT && std::mem::take(&mut *self.keeps.lock().expect("the choice"));
        if keeps {
            self.kept.send_replace(true);
            std::future::pending::<()>().await;
        }
        let mut head = format!("HTTP/1.1 {} x\r\n", answer.status().as_u16());
        for (name, value) in answer.headers() {
            if !["content-length", "connection", "transfer-encoding"].contains(&name.as_str()) {
                head.push_str(&format!("{name}: {}\r\n", value.to_str().expect("a text")));
            }
        }
        let text = places(answer.text().await.expect("a body"), false);
        head.push_str(&format!("content-length: {}\r\nconnection: close\r\n\r\n", text.len()));
        stream.write_all(format!("{head}{text}").as_bytes()).await.ok()?;
        stream.shutdown().await.ok()
    }
}
