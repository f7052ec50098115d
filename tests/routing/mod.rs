//! How well messages are routed: labelled messages are handed in over HTTP to a scratch household, and what the
//! switchboard's classification chose is counted. The butlers that they go to have no model, so that nothing else is
//! asked or paid.
//!
//! The tests prove the counting with a scripted model; `just bench-route` asks a real one.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use serde::Deserialize;
use serde_json::{Value, json};

/// One labelled message.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    pub text: String,
    /// Whose work it is.
    pub butlers: Vec<String>,
    #[serde(default = "telegram")]
    pub channel: String,
    /// What the same person wrote before, oldest first.
    #[serde(default)]
    pub history: Vec<String>,
}

fn telegram() -> String {
    "telegram".to_owned()
}

/// What became of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub butlers: Vec<String>,
    /// No butler was named, and the fallback took it.
    pub fallback: bool,
    /// From handing it in until it was classified.
    pub took: Duration,
}

/// Reads JSON Lines; empty lines count for nothing.
pub fn read(text: &str) -> Result<Vec<Sample>, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let samples = lines.map(|(at, line)| {
        let sample: Sample = serde_json::from_str(line).map_err(|e| format!("line {}: {e}", at + 1))?;
        if sample.butlers.is_empty() {
            return Err(format!("line {}: no butler is named", at + 1));
        }
        Ok(sample)
    });
    samples.collect()
}

/// Takes the model from every butler of a scratch roster but the switchboard, by asking for an API without a key.
pub fn silence(roster: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(roster)? {
        let file = entry?.path().join("butler.toml");
        if file.exists() && !file.parent().is_some_and(|dir| dir.ends_with("switchboard")) {
            let text = std::fs::read_to_string(&file)?;
            std::fs::write(&file, format!("{text}\n[runtime]\napi = \"openai\"\n"))?;
        }
    }
    Ok(())
}

/// A daemon's admin server.
pub struct Door {
    pub http: reqwest::Client,
    pub admin: String,
    pub token: String,
}

type Failed = Box<dyn std::error::Error + Send + Sync>;

impl Door {
    async fn hand_in(
        &self,
        n: usize,
        event: usize,
        sample: &Sample,
        text: &str,
        record: bool,
    ) -> Result<String, Failed> {
        let provider = if sample.channel == "email" { "imap" } else { &sample.channel };
        let raw = if record { Value::Null } else { json!({}) };
        let tier = if record { "metadata" } else { "full" };
        let envelope = json!({
            "schema_version": "ingest.v1",
            "source": {"channel": sample.channel, "provider": provider, "endpoint_identity": "bench"},
            "event": {"external_event_id": format!("{n}-{event}"), "external_thread_id": format!("thread-{n}"),
                      "observed_at": "2026-11-01T08:00:00Z"},
            "sender": {"identity": "the-person"}, "payload": {"raw": raw, "normalized_text": text},
            "control": {"ingestion_tier": tier}});
        let request = self.http.post(format!("http://{}/api/ingest", self.admin)).bearer_auth(&self.token);
        let answer: Value = request.json(&envelope).send().await?.json().await?;
        Ok(answer["request_id"].as_str().ok_or_else(|| format!("message {n} was not taken: {answer}"))?.to_owned())
    }

    /// Hands in one message after what came before it, and waits until it is classified.
    async fn classify(&self, n: usize, sample: &Sample) -> Result<Outcome, Failed> {
        for (at, text) in sample.history.iter().enumerate() {
            self.hand_in(n, at, sample, text, true).await?;
        }
        let begun = Instant::now();
        let id = self.hand_in(n, sample.history.len(), sample, &sample.text, false).await?;
        while begun.elapsed() < Duration::from_secs(180) {
            let request = self.http.get(format!("http://{}/api/inbox/{id}", self.admin)).bearer_auth(&self.token);
            let entry: Value = request.send().await?.json().await?;
            let parts = entry["segments"].as_array().cloned().unwrap_or_default();
            if !parts.is_empty() {
                let mut butlers: Vec<String> =
                    parts.iter().filter_map(|part| part["butler"].as_str().map(str::to_owned)).collect();
                butlers.sort();
                butlers.dedup();
                let fallback = parts.iter().all(|part| part["chosen_by"] == "fallback");
                return Ok(Outcome { butlers, fallback, took: begun.elapsed() });
            }
            if entry["state"] == "dead" {
                return Err(format!("message {n} died: {}", entry["last_error"]).into());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Err(format!("message {n} was not classified within three minutes").into())
    }

    /// Hands them all in, as many at once as the switchboard has workers.
    pub async fn classify_all(&self, samples: &[Sample]) -> Result<Vec<Outcome>, Failed> {
        let jobs: Vec<_> = samples.iter().enumerate().map(|(n, sample)| self.classify(n, sample)).collect();
        let outcomes: Vec<_> = futures_util::stream::iter(jobs).buffered(3).collect().await;
        outcomes.into_iter().collect()
    }

    /// What the switchboard has cost, in dollars; `None`: nobody knows.
    pub async fn cost(&self) -> Result<Option<String>, Failed> {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "butlerd.costs", "params": {"days": 2, "by": "butler"}});
        let request = self.http.post(format!("http://{}/rpc", self.admin)).bearer_auth(&self.token).json(&body);
        let answer: Value = request.send().await?.json().await?;
        let rows = answer["result"]["rows"].as_array().cloned().unwrap_or_default();
        let row = rows.into_iter().find(|row| row["name"] == "switchboard").unwrap_or_default();
        Ok((!row["usd"].is_null()).then(|| row["usd"].to_string().trim_matches('"').to_owned()))
    }
}

/// How one butler was found.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Found {
    /// Messages that are its work and came to it.
    pub right: usize,
    /// Its work that did not come.
    pub missed: usize,
    /// What came and is not its work.
    pub wrong: usize,
}

/// The count.
pub struct Score {
    pub messages: usize,
    /// Went to exactly the right butlers.
    pub exact: usize,
    /// Went to one of the right butlers at least.
    pub any: usize,
    pub fallback: usize,
    pub butlers: BTreeMap<String, Found>,
    /// Of the messages that went wrong: where to, instead of where, and how often.
    pub confused: BTreeMap<(String, String), usize>,
    took: Vec<Duration>,
    misses: Vec<String>,
}

pub fn score(samples: &[Sample], outcomes: &[Outcome]) -> Score {
    let mut score = Score {
        messages: samples.len(),
        exact: 0,
        any: 0,
        fallback: outcomes.iter().filter(|o| o.fallback).count(),
        butlers: BTreeMap::new(),
        confused: BTreeMap::new(),
        took: outcomes.iter().map(|o| o.took).collect(),
        misses: Vec::new(),
    };
    score.took.sort();
    for (sample, outcome) in samples.iter().zip(outcomes) {
        let mut wanted = sample.butlers.clone();
        wanted.sort();
        wanted.dedup();
        score.exact += usize::from(wanted == outcome.butlers);
        score.any += usize::from(wanted.iter().any(|butler| outcome.butlers.contains(butler)));
        for butler in &wanted {
            let found = score.butlers.entry(butler.clone()).or_default();
            *(if outcome.butlers.contains(butler) { &mut found.right } else { &mut found.missed }) += 1;
        }
        for butler in outcome.butlers.iter().filter(|butler| !wanted.contains(butler)) {
            score.butlers.entry(butler.clone()).or_default().wrong += 1;
        }
        if wanted != outcome.butlers {
            let (wanted, got) = (wanted.join("+"), outcome.butlers.join("+"));
            let text: String = sample.text.chars().take(70).collect();
            score.misses.push(format!("{wanted} -> {got}: {text}"));
            *score.confused.entry((wanted, got)).or_default() += 1;
        }
    }
    score
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |n: usize| 100.0 * n as f64 / self.messages.max(1) as f64;
        let (exact, any) = (share(self.exact), share(self.any));
        writeln!(
            f,
            "{} messages: exactly right {} ({exact:.1} %), one of the right ones {} ({any:.1} %), \
                     fallback {}",
            self.messages, self.exact, self.any, self.fallback
        )?;
        writeln!(f, "{:<14} {:>6} {:>7} {:>6}", "butler", "right", "missed", "wrong")?;
        for (butler, found) in &self.butlers {
            writeln!(f, "{butler:<14} {:>6} {:>7} {:>6}", found.right, found.missed, found.wrong)?;
        }
        for ((wanted, got), times) in &self.confused {
            writeln!(f, "instead of {wanted}: {got} ({times})")?;
        }
        for miss in &self.misses {
            writeln!(f, "  {miss}")?;
        }
        let at = |part: usize| self.took.get(self.took.len() * part / 100).copied().unwrap_or_default();
        writeln!(f, "from handing in to classified: p50 {:?}, p95 {:?}", at(50), at(95))
    }
}
