//! Sends spans to the collector, many at a time.

use std::time::{Duration, Instant};

use http::StatusCode;
use tokio::sync::mpsc;
use uuid::Uuid;

use super::otlp::body;
use super::{Counts, Message, Record};
use base::{Backoff, http_client};

/// Spans of one request at most.
const BATCH: usize = 512;
/// How long a span waits for company.
const GATHER: Duration = Duration::from_secs(1);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a request is tried.
const TRIES: u32 = 3;
/// How often the log is told of what is lost, at most.
const TELL: Duration = Duration::from_secs(60);

/// Why a batch did not arrive.
#[derive(Debug, thiserror::Error)]
enum Lost {
    #[error("the collector is not reachable")]
    Send(#[source] reqwest::Error),
    #[error("the collector answered {0}")]
    Status(StatusCode),
}

impl Lost {
    fn may_pass(&self) -> bool {
        match self {
            Lost::Send(_) => true,
            Lost::Status(status) => {
                status.is_server_error()
                    || matches!(*status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT)
            }
        }
    }
}

pub(super) struct Exporter {
    client: reqwest::Client,
    url: String,
    instance: Uuid,
    counts: Counts,
    /// When the log was told of losses, and how many spans had been lost then.
    told: Option<(Instant, u64)>,
}

impl Exporter {
    pub fn new(base: &str, counts: Counts) -> Result<Self, reqwest::Error> {
        let builder =
            http_client(base).user_agent(concat!("butlerd/", env!("CARGO_PKG_VERSION"))).timeout(REQUEST_TIMEOUT);
        let url = format!("{}/v1/traces", base.trim_end_matches('/'));
        Ok(Self { client: builder.build()?, url, instance: Uuid::new_v4(), counts, told: None })
    }

    /// Until nobody can open a span any more.
    pub async fn run(mut self, mut waiting: mpsc::Receiver<Message>) {
        let mut records: Vec<Record> = Vec::new();
        let mut flushed = Vec::new();
        while let Some(first) = waiting.recv().await {
            let mut next = Some(first);
            let until = tokio::time::Instant::now() + GATHER;
            while let Some(message) = next {
                match message {
                    Message::Span(record) => records.push(*record),
                    Message::Flush(done) => {
                        flushed.push(done);
                        break;
                    }
                }
                if records.len() >= BATCH {
                    break;
                }
                next = tokio::time::timeout_at(until, waiting.recv()).await.unwrap_or(None);
            }
            if !records.is_empty() {
                self.deliver(&records).await;
                records.clear();
            }
            self.tell();
            for done in flushed.drain(..) {
                // Who asked may have stopped waiting.
                let _ = done.send(());
            }
        }
    }

    async fn deliver(&mut self, records: &[Record]) {
        let count = records.len() as u64;
        let body = body(self.instance, records);
        let mut backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(5));
        for attempt in 1..=TRIES {
            let lost = match self.client.post(&self.url).json(&body).send().await {
                Ok(answer) if answer.status().is_success() => {
                    self.counts.exported.inc_by(count);
                    return;
                }
                Ok(answer) => Lost::Status(answer.status()),
                Err(e) => Lost::Send(e.without_url()),
            };
            if attempt == TRIES || !lost.may_pass() {
                self.counts.dropped.inc_by(count);
                tracing::debug!(spans = count, error = %lost, "spans are lost");
                return;
            }
            tokio::time::sleep(backoff.next_delay()).await;
        }
    }

    /// Tells the log of losses, but not of each.
    fn tell(&mut self) {
        let dropped = self.counts.dropped.get();
        let (at, before) = self.told.map_or((None, 0), |(at, before)| (Some(at), before));
        if dropped > before && at.is_none_or(|at| at.elapsed() > TELL) {
            tracing::warn!(
                dropped = dropped - before,
                collector = self.url,
                "spans were dropped: the collector of telemetry.otlp is away, refuses them or is too slow"
            );
            self.told = Some((Instant::now(), dropped));
        }
    }
}
