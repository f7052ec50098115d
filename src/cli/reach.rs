//! Requests to `/api` that outlast a restart of the daemon and wait while it has too much to do.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{Method, StatusCode};
use reqwest::Response;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::Caller;
use super::problem::Problem;
use admin::{Client, ClientError, Failure};
use base::Backoff;

/// A daemon that is away has this long to come back.
const PATIENCE: Duration = Duration::from_secs(120);

/// The way to a daemon that may be another process by the next request.
#[derive(Clone)]
pub struct Reach {
    data_dir: PathBuf,
    client: Client,
    /// Keeps its connection from one request to the next.
    sender: Option<reqwest::Client>,
    /// It has answered before, so that it is there, or was. All clones know.
    met: Arc<AtomicBool>,
}

impl Reach {
    pub fn new(caller: &Caller) -> Self {
        Self {
            data_dir: caller.config.daemon.data_dir.clone(),
            client: caller.client.clone(),
            sender: None,
            met: Arc::default(),
        }
    }

    /// Sends the request until it is taken or refused for good.
    pub async fn send(&mut self, method: Method, path: &str, body: Option<&Value>) -> Result<Response, Problem> {
        let (begun, met) = (Instant::now(), self.met.load(Ordering::Relaxed));
        let mut wait = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));
        loop {
            // Another program may listen by now where a daemon was that has ended.
            let found = self.find();
            if let (true, Err(e)) = (met, found) {
                if begun.elapsed() > PATIENCE {
                    return Err(e.into());
                }
                sleep(wait.next_delay()).await;
                continue;
            }
            let sender = match self.sender.take() {
                Some(sender) => sender,
                None => self.client.sender()?,
            };
            let mut request = self.client.api(&sender, method.clone(), path);
            self.sender = Some(sender);
            if let Some(body) = body {
                request = request.json(body);
            }
            let (problem, after) = match request.send().await {
                Ok(response) if response.status().is_success() => {
                    self.met.store(true, Ordering::Relaxed);
                    return Ok(response);
                }
                Ok(response) => {
                    let (status, after) = (response.status(), retry_after(&response));
                    let problem = refused(response).await;
                    // A restarted daemon has another token.
                    let passes = met && (status == StatusCode::UNAUTHORIZED || !self.answers())
                        // Whoever sent too much is kept out for hours, and others are not.
                        || problem.code != "sender_limit" && [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE].contains(&status);
                    if !passes {
                        return Err(problem);
                    }
                    (problem, after)
                }
                Err(e) => {
                    let problem = Problem::from(self.client.unreachable(&e));
                    if !met {
                        return Err(problem);
                    }
                    (problem, None)
                }
            };
            if begun.elapsed() > PATIENCE {
                return Err(problem);
            }
            sleep(after.unwrap_or_else(|| wait.next_delay())).await;
        }
    }

    /// Looks where the daemon is now.
    fn find(&mut self) -> Result<(), ClientError> {
        self.client = Client::find(&self.data_dir)?;
        Ok(())
    }

    /// Whether the daemon that was asked is still there, so that it is the one that answered.
    fn answers(&self) -> bool {
        let asked = self.client.daemon();
        Client::find(&self.data_dir).is_ok_and(|found| found.daemon().started_at == asked.started_at)
    }
}

fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds).min(PATIENCE))
}

/// What the daemon says where it refuses.
async fn refused(response: Response) -> Problem {
    let status = response.status();
    let body: Value = match response.bytes().await {
        Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_default(),
        Err(_) => Value::Null,
    };
    let code = body["code"].as_str().unwrap_or("refused");
    let sentence = body["error"].as_str().map_or_else(|| format!("The daemon answers {status}"), str::to_owned);
    let sentence = format!("{}.", sentence.trim_end_matches('.'));
    Problem::from(ClientError::Refused(Failure::new(code, sentence)))
}
