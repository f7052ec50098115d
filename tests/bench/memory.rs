//! Memory at 100,000 memories of one tenant: how long a search and a session's block take inside the daemon, how soon
//! an index is there, and what it weighs.
//!
//! Beside them the database's own full text over the same rows, which is what answers while the index is made.

use std::time::{Duration, Instant};

use memory_index::embed::Fixed;
use memory_index::rank::spoken;
use serde_json::{Value, json};
use tokio_postgres::Client;
use uuid::Uuid;

use crate::daemon::Daemon;
use crate::household::{Household, MODEL};
use crate::table::{self, Verdict, median};
use crate::{Failed, Plan, boot};

/// In milliseconds, p50, inside the daemon.
const SEARCH_MS: f64 = 2.0;
const CONTEXT_MS: f64 = 3.0;
/// Of 10,000 memories, in milliseconds.
const COLD_MS: f64 = 300.0;
const MEANWHILE_MS: f64 = 50.0;
/// Of 100,000 memories.
const INDEX_MB: f64 = 60.0;

/// Lets the measured butler remember.
pub fn remembering(household: &Household) -> Result<(), Failed> {
    let file = household.roster().join(MODEL).join("butler.toml");
    let text = std::fs::read_to_string(&file)?;
    if !text.contains("[modules.memory]") {
        std::fs::write(&file, format!("{text}\n[modules.memory]\nenabled = true\n"))?;
    }
    Ok(())
}

/// Calls tools over HTTP.
pub struct Caller {
    http: reqwest::Client,
    url: String,
    token: String,
}

impl Caller {
    /// As the operator, or for another tenant with a token of its own.
    pub fn of(household: &Household, port: u16, tenant: Option<&str>) -> Result<Self, Failed> {
        let token = match tenant {
            None => std::fs::read_to_string(household.data().join("run/operator.token"))?.trim().to_owned(),
            Some(tenant) => {
                let made = std::process::Command::new(env!("CARGO_BIN_EXE_butlerd"))
                    .args(["token", "new", "--tenant", tenant, "--scope", "tools", "--json", "--data-dir"])
                    .arg(household.data())
                    .output()?;
                let told: Value = serde_json::from_slice(&made.stdout)
                    .map_err(|e| format!("no token: {e}: {}", String::from_utf8_lossy(&made.stderr)))?;
                told["token"].as_str().ok_or("no token")?.to_owned()
            }
        };
        Ok(Self {
            http: base::http_client("http://127.0.0.1").build()?,
            url: format!("http://127.0.0.1:{port}/mcp"),
            token,
        })
    }

    pub async fn call(&self, tool: &str, arguments: Value) -> Result<Value, Failed> {
        Ok(self.timed(tool, arguments).await?.1)
    }

    /// As [`Caller::call`], with the milliseconds until its last byte was here; what the caller then makes of it is not
    /// butlerd's.
    pub async fn timed(&self, tool: &str, arguments: Value) -> Result<(f64, Value), Failed> {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                          "params": {"name": tool, "arguments": arguments}});
        let answer = self.http.post(&self.url).bearer_auth(&self.token).json(&body);
        let answer =
            answer.header("accept", "application/json, text/event-stream").header("mcp-protocol-version", "2025-06-18");
        let begun = Instant::now();
        let bytes = answer.send().await?.bytes().await?;
        let ms = begun.elapsed().as_secs_f64() * 1e3;
        let text = String::from_utf8_lossy(&bytes);
        let answer: Value = serde_json::from_str(&text).map_err(|e| format!("{tool}: {e}: {text}"))?;
        let content = answer["result"]["content"][0]["text"].as_str().ok_or_else(|| format!("{tool}: {text}"))?;
        Ok((ms, serde_json::from_str(content)?))
    }
}

pub async fn measure(plan: &Plan) -> Result<(), Failed> {
    println!("\nMemory, 100,000 facts of one tenant");
    let household = Household::new(0)?;
    remembering(&household)?;
    let daemon = Daemon::start(&household, &[]).await?;
    let client = connect(&household).await?;
    let mut random = Random(42);
    fill(&client, "owner", 100_000, &mut random).await?;
    fill(&client, "small", 10_000, &mut random).await?;
    client.batch_execute("ANALYZE").await?;
    drop(client);
    daemon.stop().await?;
    let daemon = Daemon::start(&household, &[]).await?;
    let (port, client) = (daemon.ready.ports[MODEL], connect(&household).await?);
    let caller = Caller::of(&household, port, None)?;
    let begun = Instant::now();
    while caller.call("memory_search", json!({"query": "warm"})).await?["answered_by"] != "index" {
        tokio::time::sleep(Duration::from_millis(20)).await;
        if begun.elapsed() > Duration::from_secs(120) {
            return Err("the index is not there after two minutes".into());
        }
    }
    // With nothing else to do than this one.
    cold(&household, port).await?;
    let rounds: u32 = if plan.is_quick() { 100 } else { 1000 };
    let questions: Vec<String> = (0..rounds).map(|_| random.words(6)).collect();
    for question in &questions {
        caller.call("memory_search", json!({"query": question, "limit": 10})).await?;
        caller.call("memory_context", json!({"trigger_prompt": question, "butler": MODEL})).await?;
    }
    let mut floor = Vec::new();
    for question in &questions[..questions.len().min(50)] {
        let begun = Instant::now();
        client.query(FULL_TEXT, &[question]).await?;
        floor.push(begun.elapsed().as_secs_f64() * 1000.0);
    }
    // The audit rows are written within 50 ms.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let full_text = median(&floor);
    table::note(&format!("the database's full text alone: p50 {full_text:.1} ms"));
    for (tool, most) in [("memory_search", SEARCH_MS), ("memory_context", CONTEXT_MS)] {
        let sql = "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY duration_us) / 1000.0,
                          percentile_cont(0.99) WITHIN GROUP (ORDER BY duration_us) / 1000.0
                   FROM (SELECT duration_us FROM general.tool_calls WHERE tool = $1 ORDER BY id DESC LIMIT $2) c";
        let row = client.query_one(sql, &[&tool, &i64::from(rounds)]).await?;
        let (p50, p99): (f64, f64) = (row.get(0), row.get(1));
        let verdict = Verdict::at_most(&format!("memory.{tool}"), p50, most, "ms, p50");
        table::note(&format!(
            "{tool}: p50 {p50:.2} ms, p99 {p99:.2} ms inside the daemon, {:.0} % of full text   {verdict}",
            100.0 * p50 / full_text
        ));
    }
    let stats = caller.call("memory_stats", json!({})).await?;
    let bytes = stats["index"]["bytes"].as_f64().ok_or_else(|| format!("no size of the index: {stats}"))?;
    let mb = bytes / 1e6;
    table::note(&format!("the index takes {mb:.1} MB   {}", Verdict::at_most("memory.index", mb, INDEX_MB, "MB")));
    drop(client);
    daemon.stop().await
}

async fn connect(household: &Household) -> Result<Client, Failed> {
    let (client, connection) = boot::owner(household, "butlers")?.connect(tokio_postgres::NoTls).await?;
    base::task::spawn(base::task::Kind::Job, "bench", connection);
    Ok(client)
}

/// How soon a cold index of 10,000 answers, and how long who asks meanwhile waits.
async fn cold(household: &Household, port: u16) -> Result<(), Failed> {
    let caller = Caller::of(household, port, Some("small"))?;
    let begun = Instant::now();
    let mut waited: Vec<f64> = Vec::new();
    let there = loop {
        let asked = Instant::now();
        let answer = caller.call("memory_search", json!({"query": "anything at all"})).await?;
        if answer["answered_by"] == "index" {
            break begun.elapsed().as_secs_f64() * 1000.0;
        }
        waited.push(asked.elapsed().as_secs_f64() * 1000.0);
        if begun.elapsed() > Duration::from_secs(60) {
            return Err("the index is not there after a minute".into());
        }
    };
    table::note(&format!(
        "a cold index of 10,000 answers after {there:.0} ms   {}",
        Verdict::at_most("memory.cold", there, COLD_MS, "ms")
    ));
    let longest = waited.iter().copied().fold(0.0, f64::max);
    table::note(&format!(
        "meanwhile full text answered {} times, within {longest:.1} ms   {}",
        waited.len(),
        Verdict::at_most("memory.meanwhile", longest, MEANWHILE_MS, "ms")
    ));
    Ok(())
}

const FULL_TEXT: &str = "SELECT id, ts_rank(search, q) FROM general.memory_facts,
        LATERAL (SELECT replace(plainto_tsquery('english', $1)::text, '&', '|')::tsquery AS q) asked
    WHERE tenant_id = 'owner' AND search @@ q ORDER BY ts_rank(search, q) DESC LIMIT 10";

/// Of so many persons and things the facts speak; one in two hundred speaks of the owner.
const SUBJECTS: usize = 5000;

/// The owner's facts, the same in each run.
pub async fn fill_facts(client: &Client, many: usize) -> Result<(), Failed> {
    fill(client, "owner", many, &mut Random(42)).await
}

/// Facts of made-up words, as often used as words are: the n-th of them with a frequency of 1/n.
async fn fill(client: &Client, tenant: &str, many: usize, random: &mut Random) -> Result<(), Failed> {
    let insert = client
        .prepare(
            "INSERT INTO general.memory_facts (id, kind, subject, predicate, content, content_hash, topic_hash, embedding,
                 embedding_model, importance, scope, source_butler, tenant_id, trust)
             SELECT i, 'many', s, 'notes', c, md5(c || i), md5(i::text), e, $6, 1 + (random() * 9), 'general', 'general', $5, 'owner'
             FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bytea[]) AS t (i, s, c, e)",
        )
        .await?;
    let about: Vec<String> = (0..SUBJECTS).map(|n| format!("{} {n}", random.words(1))).collect();
    for from in (0..many).step_by(2000) {
        let (mut ids, mut subjects, mut texts, mut vectors) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for n in from..many.min(from + 2000) {
            let subject = if n % 200 == 0 { "owner".to_owned() } else { about[n % SUBJECTS].clone() };
            let text = random.words(14);
            let vector = Fixed::vector(&spoken(Some(&subject), &format!("notes: {text}")))?;
            ids.push(Uuid::new_v4());
            subjects.push(subject);
            texts.push(text);
            vectors.push(vector.iter().map(|v| v.cast_unsigned()).collect::<Vec<u8>>());
        }
        client.execute("SELECT set_config('butlerd.tenant', $1, false)", &[&tenant]).await?;
        client.execute(&insert, &[&ids, &subjects, &texts, &vectors, &tenant, &Fixed::MODEL]).await?;
    }
    Ok(())
}

/// A small generator of random numbers: the same words in each run.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A word among 30,000.
    fn word(&mut self) -> String {
        let rank = (30_000f64.powf(self.unit())) as usize;
        let syllables =
            ["ba", "co", "du", "fe", "gi", "ha", "ki", "lo", "mu", "ne", "po", "ra", "si", "tu", "ve", "wo"];
        let mut rest = rank.wrapping_mul(2_654_435_761) % 1_048_576;
        let mut word = String::new();
        for _ in 0..4 {
            word.push_str(syllables[rest % 16]);
            rest /= 16;
        }
        word
    }

    fn words(&mut self, many: usize) -> String {
        (0..many).map(|_| self.word()).collect::<Vec<_>>().join(" ")
    }
}
