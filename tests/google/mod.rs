//! Stand-ins of Google's services. Each request is judged by Google's own description of the service ([`discovery`]) before
//! it is answered, and one that the description doesn't have fails the test; what a service does, a [`Service`] does.

#![allow(dead_code, reason = "each program that takes this file in uses a part of it")]

pub mod calendar;
pub mod discovery;
pub mod people;
#[allow(clippy::duplicate_mod, reason = "where the stand-in of Telegram is taken in as well, each has its own")]
#[path = "../bot_api/request.rs"]
pub mod request;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub use discovery::{Call, Discovery};
use request::read;

/// What a service does. It has its own lock.
pub trait Service: Send + Sync + 'static {
    /// Carries out what the description knows.
    fn answer(&self, call: &Call) -> Answer;
}

/// Status and body. An error's body is as Google writes it: [`refused`].
pub type Answer = (u16, Value);

/// An error of Google's, with the word by which programs know it.
pub fn refused(status: u16, reason: &str) -> Answer {
    let word = match status {
        400 => "FAILED_PRECONDITION",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        409 => "ALREADY_EXISTS",
        429 => "RESOURCE_EXHAUSTED",
        _ => "UNKNOWN",
    };
    let error = json!({"code": status, "message": format!("It was refused: {reason}."), "status": word,
                       "errors": [{"domain": "global", "reason": reason, "message": "It was refused."}],
                       "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}]});
    (status, json!({"error": error}))
}

/// What the next call of a method comes to instead.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// It is done, and the answer is lost.
    Lost,
    /// Nothing is done, and this is answered.
    Refused(u16, &'static str),
}

/// Which calls wait.
type Waits = Box<dyn Fn(&Call) -> bool + Send>;

struct Shared {
    /// Whoever stands first answers what begins as their service does.
    services: Vec<(Discovery, Arc<dyn Service>)>,
    /// The token that is accepted.
    token: Mutex<String>,
    faults: Mutex<BTreeMap<String, VecDeque<Fault>>>,
    calls: Mutex<Vec<Call>>,
    wrong: Mutex<Vec<String>>,
    /// Calls that wait until they are let on.
    held: Mutex<Option<Waits>>,
    /// How many wait.
    waiting: watch::Sender<usize>,
}

/// A server in this process. What was wrong with its requests it says when it is dropped.
pub struct Google {
    pub addr: SocketAddr,
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Google {
    fn drop(&mut self) {
        self.task.abort();
        let wrong = self.wrong();
        assert!(wrong.is_empty() || std::thread::panicking(), "requests that Google does not have: {wrong:#?}");
    }
}

impl Google {
    /// A server of what is described so, which wants this token.
    pub async fn start(discovery: Discovery, service: Arc<dyn Service>, token: &str) -> Self {
        Self::start_all(vec![(discovery, service)], token).await
    }

    /// As [`Google::start`], of several services.
    pub async fn start_all(services: Vec<(Discovery, Arc<dyn Service>)>, token: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let addr = listener.local_addr().expect("its address");
        let shared = Arc::new(Shared {
            services,
            token: Mutex::new(token.to_owned()),
            faults: Mutex::default(),
            calls: Mutex::default(),
            wrong: Mutex::default(),
            held: Mutex::default(),
            waiting: watch::Sender::new(0),
        });
        let server = shared.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = server.clone();
                tokio::spawn(async move {
                    // A client that was killed in its middle is no request.
                    let _ = server.serve(stream).await;
                });
            }
        });
        Self { addr, shared, task }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// What the next call of this method comes to.
    pub fn fault(&self, id: &str, fault: Fault) {
        self.shared.faults.lock().expect("the faults").entry(id.to_owned()).or_default().push_back(fault);
    }

    /// From now on such calls wait, before anything is done.
    pub fn hold(&self, which: impl Fn(&Call) -> bool + Send + 'static) {
        *self.shared.held.lock().expect("the held") = Some(Box::new(which));
    }

    /// Until a call waits.
    pub async fn holds(&self) {
        let mut waiting = self.shared.waiting.subscribe();
        let one = tokio::time::timeout(Duration::from_secs(60), waiting.wait_for(|waiting| *waiting > 0)).await;
        drop(one.expect("no call waits").expect("the server"));
    }

    /// Lets all go on.
    pub fn release(&self) {
        *self.shared.held.lock().expect("the held") = None;
        self.shared.waiting.send_replace(0);
    }

    /// From now on this token is accepted, and no other; `*` stands for any, and an address for those which are active as
    /// whoever answers there by RFC 7662 knows.
    pub fn accept(&self, token: &str) {
        *self.shared.token.lock().expect("the token") = token.to_owned();
    }

    /// The calls of a method that were carried out, or should have been.
    pub fn calls(&self, id: &str) -> Vec<Call> {
        self.shared.calls.lock().expect("the calls").iter().filter(|call| call.id == id).cloned().collect()
    }

    /// Requests that Google does not have.
    pub fn wrong(&self) -> Vec<String> {
        self.shared.wrong.lock().expect("what was wrong").clone()
    }
}

impl Shared {
    async fn serve(&self, mut stream: TcpStream) -> Option<()> {
        let (headers, body) = read(&mut stream).await?;
        let headers: BTreeMap<String, String> = headers.into_iter().collect();
        let (status, answer) = match self.admits(headers.get("authorization")).await {
            false => refused(401, "authError"),
            true => match self.answer(headers, &body).await {
                Some(answer) => answer,
                None => return Some(()),
            },
        };
        let text = if answer.is_null() { String::new() } else { answer.to_string() };
        let head = format!(
            "HTTP/1.1 {status} x\r\ncontent-type: application/json; charset=UTF-8\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n",
            text.len()
        );
        stream.write_all(format!("{head}{text}").as_bytes()).await.ok()?;
        stream.shutdown().await.ok()
    }

    async fn admits(&self, authorization: Option<&String>) -> bool {
        let accepted = self.token.lock().expect("the token").clone();
        let Some(given) = authorization.and_then(|given| given.strip_prefix("Bearer ")) else { return false };
        match accepted.as_str() {
            "*" => true,
            judge if judge.starts_with("http://") => {
                let asked = reqwest::get(format!("{judge}?token={given}")).await.expect("an answer");
                let said: Value = serde_json::from_str(&asked.text().await.expect("a body")).expect("JSON");
                said["active"] == true
            }
            token => token == given,
        }
    }

    /// `None`: nobody hears of it.
    async fn answer(&self, headers: BTreeMap<String, String>, body: &str) -> Option<Answer> {
        let (method, target) = (headers[":method"].clone(), headers[":path"].clone());
        let serves = |(discovery, _): &&(Discovery, _)| discovery.serves(&target);
        let Some((discovery, service)) = self.services.iter().find(serves) else {
            self.wrong.lock().expect("what was wrong").push(format!("nothing is at {target}"));
            return Some(refused(404, "notFound"));
        };
        let call = match discovery.check(&method, &target, headers, body) {
            Ok(call) => call,
            Err(why) => {
                self.wrong.lock().expect("what was wrong").push(why.clone());
                return Some(refused(400, "badRequest"));
            }
        };
        let waits = self.held.lock().expect("the held").as_ref().is_some_and(|which| which(&call));
        if waits {
            let mut waiting = self.waiting.subscribe();
            self.waiting.send_modify(|waiting| *waiting += 1);
            waiting.wait_for(|waiting| *waiting == 0).await.ok()?;
        }
        self.calls.lock().expect("the calls").push(call.clone());
        let fault = self.faults.lock().expect("the faults").get_mut(&call.id).and_then(VecDeque::pop_front);
        match fault {
            Some(Fault::Refused(status, reason)) => Some(refused(status, reason)),
            Some(Fault::Lost) => {
                service.answer(&call);
                None
            }
            None => Some(service.answer(&call)),
        }
    }
}
