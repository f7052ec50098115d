//! A receiver of webhooks that does what the message says: answers, drops the answer, puts off, hangs, refuses.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use super::{Household, ports};
use crate::bot_api::read;

/// The credential that signs.
pub const SECRET: (&str, &str) = ("DOOR_SECRET", "a-secret-that-signs");

/// One request that was read whole.
#[derive(Clone, Debug)]
pub struct Hook {
    pub at: Instant,
    pub headers: HashMap<String, String>,
    pub raw: String,
    pub body: Value,
    /// What it was answered; 0: nothing; 1: it was not taken in, and its connection was reset.
    pub answered: u16,
}

impl Hook {
    pub fn delivery(&self) -> String {
        self.body["delivery_id"].as_str().expect("an id").to_owned()
    }

    pub fn message(&self) -> &str {
        self.body["delivery"]["message"].as_str().unwrap_or_default()
    }
}

/// Listens until it is dropped.
pub struct Receiver {
    pub addr: SocketAddr,
    hooks: Arc<Mutex<Vec<Hook>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Receiver {
    pub async fn start() -> Self {
        // One that nobody else is given while it is away.
        let address = ("127.0.0.1", ports::free(1)[0]);
        Self::listen(TcpListener::bind(address).await.expect("a port"), Arc::default())
    }

    fn listen(listener: TcpListener, hooks: Arc<Mutex<Vec<Hook>>>) -> Self {
        let addr = listener.local_addr().expect("its address");
        let seen = hooks.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let seen = seen.clone();
                tokio::spawn(async move {
                    // A client that was killed in its middle is no request.
                    let _ = serve(stream, &seen).await;
                });
            }
        });
        Self { addr, hooks, task }
    }

    /// Dies: nobody listens at its address any more. What it saw can be listened on with.
    pub async fn die(mut self) -> (SocketAddr, Arc<Mutex<Vec<Hook>>>) {
        self.task.abort();
        // Only then is its socket closed.
        let _ = (&mut self.task).await;
        (self.addr, self.hooks.clone())
    }

    /// Comes back where one has died.
    pub async fn revive((addr, hooks): (SocketAddr, Arc<Mutex<Vec<Hook>>>)) -> Self {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.set_reuseaddr(true).expect("an option");
        socket.bind(addr).expect("the port is free again");
        Self::listen(socket.listen(64).expect("it listens"), hooks)
    }

    pub fn hooks(&self) -> Vec<Hook> {
        self.hooks.lock().expect("the list").clone()
    }

    /// Those whose message is this.
    pub fn of(&self, message: &str) -> Vec<Hook> {
        self.hooks().into_iter().filter(|hook| hook.message() == message).collect()
    }

    pub fn url(&self) -> String {
        format!("http://{}/hook", self.addr)
    }
}

/// What it does instead of answering.
const CUT: u16 = 1;
const HANG: u16 = 2;

async fn serve(mut stream: TcpStream, seen: &Mutex<Vec<Hook>>) -> std::io::Result<()> {
    let Some((headers, raw)) = read(&mut stream).await else { return Ok(()) };
    let body: Value = serde_json::from_str(&raw).expect("JSON");
    let id = body["delivery_id"].clone();
    let message = body["delivery"]["message"].as_str().unwrap_or_default().to_owned();
    let says = |what: &str| message.contains(what);
    let (status, more) = {
        let mut seen = seen.lock().expect("the list");
        let before = seen.iter().filter(|hook| hook.body["delivery_id"] == id).count();
        let (status, more) = match before {
            0 if says("[drop]") => (0, ""),
            0 if says("[cut]") => (CUT, ""),
            _ if says("[hang]") => (HANG, ""),
            0 if says("[stall]") => (HANG, ""),
            0 if says("[later]") => (429, "retry-after: 1\r\n"),
            0 if says("[busy]") => (503, "retry-after: 0\r\n"),
            n if n < 2 && says("[broken]") => (500, ""),
            _ if says("[down]") => (500, ""),
            _ if says("[between]") => (502, ""),
            _ if says("[no]") => (404, ""),
            _ => (200, ""),
        };
        let answered = if status == HANG { 0 } else { status };
        seen.push(Hook { at: Instant::now(), headers, raw, body, answered });
        (status, more)
    };
    match status {
        0 => Ok(()),
        CUT => {
            // Nothing is said in parting.
            stream.set_zero_linger()
        }
        HANG => {
            tokio::time::sleep(Duration::from_secs(60)).await;
            Ok(())
        }
        status => {
            let answer = format!("HTTP/1.1 {status} Said\r\n{more}content-length: 0\r\nconnection: close\r\n\r\n");
            stream.write_all(answer.as_bytes()).await?;
            stream.shutdown().await
        }
    }
}

impl Household {
    /// With the messenger's channel `webhook` to this receiver: `door`, which does not know a repetition, and `wise`,
    /// which does. `more`: lines of each endpoint.
    pub fn with_webhook(self, receiver: &Receiver, more: &str) -> Self {
        let end = |name: &str, idempotent: bool| {
            format!(
                "\n[modules.webhook.endpoints.{name}]\nurl = \"{}\"\nsecret = \"{}\"\nidempotent = {idempotent}\n{more}\n",
                receiver.url(),
                SECRET.0
            )
        };
        let toml = self.roster().join("messenger/butler.toml");
        let before = std::fs::read_to_string(toml).expect("the messenger");
        self.write("messenger/butler.toml", &format!("{before}{}{}", end("door", false), end("wise", true)))
            .env(SECRET.0, SECRET.1)
            .env("BUTLERD_DELIVERY_PAUSE_MS", "20")
            .env("BUTLERD_NOTICE_SECONDS", "1")
    }
}
