//! `just bench-recall FILE`: how much of what was said memory finds again.
//!
//! The file has conversations and questions about them, each with the turns that hold its answer:
//! `{conversations: [{id, turns: [{id, session, speaker, date, text}]}], questions: [{conv, category, question, evidence}]}`,
//! plain or gzipped. Each conversation is told to a tenant of its own through `memory_store_episode`, and asked through
//! `memory_search`. Questions of the categories 1 to 4 count; recall is the share of a question's turns among the first
//! five and ten. A turn that the gate refuses counts as not found.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::time::Instant;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use memory_index::embed::Fixed;
use memory_index::rank::{Entry, Facets, Index, Kind, Mode, Query, spoken};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::Failed;
use crate::daemon::Daemon;
use crate::household::{Household, MODEL};
use crate::memory::{Caller, remembering};
use crate::table::{Verdict, median};

#[derive(Deserialize)]
struct Data {
    conversations: Vec<Conversation>,
    questions: Vec<Question>,
}

#[derive(Deserialize)]
struct Conversation {
    id: String,
    turns: Vec<Turn>,
}

#[derive(Deserialize)]
struct Turn {
    id: String,
    session: Value,
    speaker: String,
    date: String,
    text: String,
}

#[derive(Deserialize)]
struct Question {
    conv: String,
    category: u8,
    question: String,
    #[serde(default)]
    evidence: Vec<String>,
}

/// Recall, in percent.
const AT_5: f64 = 78.0;
const AT_10: f64 = 84.0;

/// Runs the file that is named, or `$BUTLERD_EVAL_DATA`.
pub async fn run(args: &[String]) -> Result<(), Failed> {
    let named = args.iter().find(|arg| !arg.starts_with("--")).cloned();
    let Some(file) = named.or_else(|| std::env::var("BUTLERD_EVAL_DATA").ok()).filter(|f| !f.is_empty()) else {
        println!("Nothing was run: name a file of conversations and questions, or set BUTLERD_EVAL_DATA.");
        return Ok(());
    };
    let data = read(&file)?;
    let household = Household::new(0)?;
    remembering(&household)?;
    let daemon = Daemon::start(&household, &[]).await?;
    let mut ours = Tally::default();
    let (mut words, mut meaning) = (Tally::default(), Tally::default());
    for conversation in &data.conversations {
        let caller = Caller::of(&household, daemon.ready.ports[MODEL], Some(&tenant(&conversation.id)))?;
        let (turns, refused) = tell(&caller, conversation).await?;
        let index = alone(conversation)?;
        let known: HashMap<&str, ()> = conversation.turns.iter().map(|t| (t.id.as_str(), ())).collect();
        let asked = data.questions.iter().filter(|q| q.conv == conversation.id && (1..=4).contains(&q.category));
        for question in asked {
            let evidence: Vec<&str> =
                question.evidence.iter().map(String::as_str).filter(|turn| known.contains_key(turn)).collect();
            if evidence.is_empty() {
                continue;
            }
            let begun = Instant::now();
            let query = json!({"query": question.question, "types": ["episode"], "limit": 10});
            let answer = caller.call("memory_search", query).await?;
            let ms = begun.elapsed().as_secs_f64() * 1000.0;
            let results = answer["results"].as_array().ok_or_else(|| format!("no results: {answer}"))?;
            let of = |r: &Value| turns.get(r["id"].as_str().unwrap_or_default()).cloned().unwrap_or_default();
            ours.note(question.category, &evidence, &results.iter().map(of).collect::<Vec<_>>(), ms);
            for (tally, mode) in [(&mut words, Mode::PlainWords), (&mut meaning, Mode::PlainMeaning)] {
                let (found, ms) = index.ask(&question.question, mode)?;
                tally.note(question.category, &evidence, &found, ms);
            }
        }
        let refused = if refused == 0 { String::new() } else { format!(", {refused} refused by the gate") };
        println!("  {}: {} turns told{refused}", conversation.id, conversation.turns.len());
    }
    daemon.stop().await?;
    println!("\n{:<28} {:>9} {:>9} {:>9} {:>8} {:>12}", "", "questions", "recall@5", "recall@10", "MRR", "p50");
    for (name, tally) in [("memory_search", &ours), ("BM25 alone", &words), ("embedding alone", &meaning)] {
        tally.print(name);
    }
    println!("\nmemory_search by category:");
    for (category, name) in [(1, "multi-hop"), (2, "temporal"), (3, "open-domain"), (4, "single-hop")] {
        if let Some(part) = ours.by_category.get(&category) {
            println!("  {name:<26} {:>9} {:>9.1} {:>9.1}", part.questions, part.at_5(), part.at_10());
        }
    }
    println!("\nrecall@5   {}", Verdict::at_least("recall.at_5", ours.all.at_5(), AT_5, "%"));
    println!("recall@10  {}", Verdict::at_least("recall.at_10", ours.all.at_10(), AT_10, "%"));
    Ok(())
}

fn read(file: &str) -> Result<Data, Failed> {
    let bytes = std::fs::read(file).map_err(|e| format!("{file}: {e}"))?;
    let mut text = String::new();
    if bytes.starts_with(&[0x1f, 0x8b]) {
        flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text)?;
    } else {
        text = String::from_utf8(bytes)?;
    }
    serde_json::from_str(&text).map_err(|e| format!("{file}: {e}").into())
}

fn tenant(conversation: &str) -> String {
    let plain: String =
        conversation.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect();
    format!("recall-{plain}")
}

/// A date as conversations have it: RFC 3339, or "1:56 pm on 8 May, 2023".
fn moment(date: &str) -> Result<Timestamp, Failed> {
    if let Ok(at) = date.parse::<Timestamp>() {
        return Ok(at);
    }
    for form in ["%I:%M %p on %d %B, %Y", "%Y-%m-%d %H:%M", "%Y-%m-%d"] {
        if let Ok(at) = DateTime::strptime(form, date) {
            return Ok(at.to_zoned(TimeZone::UTC)?.timestamp());
        }
    }
    Err(format!("`{date}` is not a date that is known here").into())
}

/// The session of a conversation, as an id.
fn thread(conversation: &str, session: &Value) -> Uuid {
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(format!("{conversation} {session}"));
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    Uuid::from_bytes(bytes)
}

/// Tells a conversation turn by turn. Returns which memory is which turn, and how many turns were refused.
async fn tell(caller: &Caller, conversation: &Conversation) -> Result<(HashMap<String, String>, usize), Failed> {
    let (mut turns, mut refused) = (HashMap::new(), 0);
    for turn in &conversation.turns {
        let episode = json!({"content": turn.text, "butler": MODEL, "session_id": thread(&conversation.id, &turn.session),
            "speaker": turn.speaker, "occurred_at": moment(&turn.date)?});
        let stored = caller.call("memory_store_episode", episode).await?;
        match stored["id"].as_str() {
            Some(id) => drop(turns.insert(id.to_owned(), turn.id.clone())),
            None if stored["code"] == "not_remembered" => refused += 1,
            None => return Err(format!("a turn was not stored: {stored}").into()),
        }
    }
    Ok((turns, refused))
}

/// The index by itself, for what its single signals find.
struct Alone<'a> {
    index: Index,
    turns: HashMap<Uuid, &'a str>,
    now: Timestamp,
}

fn alone(conversation: &Conversation) -> Result<Alone<'_>, Failed> {
    let mut alone =
        Alone { index: Index::new(Fixed::DIM, TimeZone::UTC), turns: HashMap::new(), now: Timestamp::UNIX_EPOCH };
    for (n, turn) in (1..).zip(&conversation.turns) {
        let id = Uuid::from_u128(n);
        let vector = Fixed::vector(&spoken(Some(&turn.speaker), &turn.text))?;
        let at = moment(&turn.date)?;
        alone.index.put(&Entry {
            id,
            kind: Kind::Episode,
            seq: i64::try_from(n)?,
            thread: Some(thread(&conversation.id, &turn.session)),
            about: Some(&turn.speaker),
            at,
            text: &turn.text,
            vector: &vector,
            importance: 5.0,
            confidence: 1.0,
            decay: 0.0,
            confirmed_at: None,
            used_at: None,
            facets: Facets::default(),
        });
        alone.turns.insert(id, &turn.id);
        alone.now = alone.now.max(at);
    }
    Ok(alone)
}

impl Alone<'_> {
    fn ask(&self, question: &str, mode: Mode) -> Result<(Vec<String>, f64), Failed> {
        let begun = Instant::now();
        let vector = Fixed::vector(question)?;
        let hits = self.index.search(&Query { mode, ..Query::new(question, &vector, self.now) });
        let ms = begun.elapsed().as_secs_f64() * 1000.0;
        Ok((hits.iter().filter_map(|hit| self.turns.get(&hit.id)).map(|turn| (*turn).to_owned()).collect(), ms))
    }
}

#[derive(Default)]
struct Tally {
    all: Part,
    by_category: BTreeMap<u8, Part>,
    ms: Vec<f64>,
}

#[derive(Default)]
struct Part {
    questions: usize,
    first_5: f64,
    first_10: f64,
    ranks: f64,
}

impl Part {
    fn note(&mut self, evidence: &[&str], found: &[String]) {
        let share = |first: usize| {
            let hits = evidence.iter().filter(|turn| found.iter().take(first).any(|f| f == *turn)).count();
            hits as f64 / evidence.len() as f64
        };
        self.questions += 1;
        self.first_5 += share(5);
        self.first_10 += share(10);
        let first = found.iter().position(|f| evidence.contains(&f.as_str()));
        self.ranks += first.map_or(0.0, |at| 1.0 / (at + 1) as f64);
    }

    fn mean(&self, sum: f64) -> f64 {
        sum / self.questions.max(1) as f64
    }
    fn at_5(&self) -> f64 {
        100.0 * self.mean(self.first_5)
    }
    fn at_10(&self) -> f64 {
        100.0 * self.mean(self.first_10)
    }
}

impl Tally {
    fn note(&mut self, category: u8, evidence: &[&str], found: &[String], ms: f64) {
        self.all.note(evidence, found);
        self.by_category.entry(category).or_default().note(evidence, found);
        self.ms.push(ms);
    }

    fn print(&self, name: &str) {
        let (part, p50) = (&self.all, median(&self.ms));
        let mrr = 100.0 * part.mean(part.ranks);
        println!(
            "{name:<28} {:>9} {:>9.1} {:>9.1} {mrr:>8.1} {p50:>9.3} ms",
            part.questions,
            part.at_5(),
            part.at_10()
        );
    }
}
