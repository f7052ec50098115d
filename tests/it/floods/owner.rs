//! The owner, who writes while others attack, and how long he waits.

use std::fmt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio_postgres::Client;
use uuid::Uuid;

use crate::inbound::message;
use crate::support::{Daemon, eventually};

/// How often he writes.
const PACE: Duration = Duration::from_millis(500);
/// How much longer he writes at most.
const PATIENCE: Duration = Duration::from_secs(50);

pub struct Owner {
    url: String,
    token: String,
    /// Each message comes over a connection of its own: one that stays would be past the doors.
    http: reqwest::Client,
    sent: Vec<(Uuid, f64)>,
    accepts: Vec<Duration>,
}

/// Times, the shortest first.
#[derive(Default)]
pub struct Times(Vec<Duration>);

impl Times {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    fn at(&self, percent: usize) -> Duration {
        let last = self.0.len().saturating_sub(1);
        self.0.get((self.0.len() * percent).div_ceil(100).saturating_sub(1).min(last)).copied().unwrap_or_default()
    }

    pub fn p99(&self) -> Duration {
        self.at(99)
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |percent| self.at(percent).as_millis();
        write!(f, "p50 {} ms, p99 {} ms, max {} ms", ms(50), ms(99), ms(100))
    }
}

/// How long he waited.
pub struct Seen {
    pub accepts: Times,
    pub starts: Times,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} messages; accepted {}; begun {}", self.accepts.0.len(), self.accepts, self.starts)
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970").as_secs_f64()
}

impl Owner {
    pub fn new(daemon: &Daemon) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().pool_max_idle_per_host(0).build().expect("a client");
        let url = format!("http://{}/api/ingest", daemon.admin());
        Self { url, token: daemon.token(), http, sent: Vec::new(), accepts: Vec::new() }
    }

    /// Writes at his pace, every other message for a butler that he names, for so long, and on until it is `enough`: a slow
    /// machine needs longer for the same flood. `memory`: what the daemon uses; the most of it.
    pub async fn write_for(&mut self, length: Duration, enough: impl Fn() -> bool, memory: impl Fn() -> u64) -> u64 {
        let begun = Instant::now();
        let mut pace = tokio::time::interval(PACE);
        let mut most = memory();
        for n in 0.. {
            pace.tick().await;
            most = most.max(memory());
            if begun.elapsed() >= length && (enough() || begun.elapsed() >= length + PATIENCE) {
                break;
            }
            self.write(n).await;
        }
        most
    }

    async fn write(&mut self, n: usize) {
        let mut own = message(&format!("own {n}"), &format!("chat {n}"), "I weigh 82 kg");
        if n.is_multiple_of(2) {
            own["control"]["pinned_target"] = json!("health");
        }
        let (at, begun) = (now(), Instant::now());
        let answer = self.http.post(&self.url).bearer_auth(&self.token).json(&own).send().await.expect("an answer");
        let status = answer.status().as_u16();
        let said: Value = answer.json().await.expect("JSON");
        self.accepts.push(begun.elapsed());
        assert_eq!(status, 202, "the owner's message {n}: {said}");
        let id = said["request_id"].as_str().and_then(|id| id.parse().ok()).expect("an id");
        self.sent.push((id, at));
    }

    /// Waits until each of his messages is done, and tells how long their first sessions took to begin.
    pub async fn heard(self, db: &Client) -> Seen {
        let ids: Vec<Uuid> = self.sent.iter().map(|(id, _)| *id).collect();
        let open = "SELECT count(*) FROM switchboard.message_inbox WHERE request_id = ANY($1) AND state <> 'done'";
        eventually("the owner's messages are done", || async {
            let open: i64 = db.query_one(open, &[&ids]).await.map_err(|e| e.to_string())?.get(0);
            if open == 0 { Ok(()) } else { Err(format!("{open} of {} are not", ids.len())) }
        })
        .await;
        let begun = "SELECT extract(epoch FROM min(started_at))::float8 FROM
                     (SELECT request_id, started_at FROM switchboard.sessions
                      UNION ALL SELECT request_id, started_at FROM health.sessions) s WHERE request_id = $1";
        let mut starts = Vec::new();
        for (id, at) in &self.sent {
            let begun: Option<f64> = db.query_one(begun, &[id]).await.expect("its session").get(0);
            starts.push(Duration::from_secs_f64((begun.expect("it has begun") - at).max(0.0)));
        }
        Seen { accepts: Times::of(self.accepts), starts: Times::of(starts) }
    }
}
