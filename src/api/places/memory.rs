//! What butlers remember.

use admin::{Failure, MemoryLink, answered};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::butlers::PagesOf;
use super::messages::word;
use crate::endpoint::{Endpoint, get};
use crate::input::Paging;
use crate::list::Page;
use crate::seen::{DEPTH, Seen};
use crate::visit::Visit;

pub(super) fn endpoints() -> Vec<Endpoint> {
    vec![
        get(
            "/butlers/{butler}/memory",
            "searchMemory",
            "Search what a butler remembers: the best 100, the best first, with the parts of each score",
            search,
        ),
        get(
            "/butlers/{butler}/memory/history",
            "listMemoryEvents",
            "What was done to memories, the newest first",
            history,
        ),
        get("/butlers/{butler}/memory/{id}", "getMemory", "One memory, why it is known, and what was done to it", why),
    ]
}

/// The kinds of memories.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum MemoryKind {
    Episode,
    Fact,
    Rule,
}

/// What to look for.
#[derive(Deserialize, JsonSchema)]
struct Searched {
    /// The butler.
    butler: String,
    /// The words.
    #[schemars(length(min = 1, max = 1000))]
    text: String,
    /// Of this kind alone.
    kind: Option<MemoryKind>,
    #[serde(flatten)]
    paging: Paging,
}

/// A memory that was found.
#[derive(Serialize, Deserialize, JsonSchema)]
struct MemoryHit {
    id: Uuid,
    #[serde(rename = "type")]
    kind: String,
    /// What it says.
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    score: Option<f64>,
    /// What the score is made of, by name.
    #[serde(default)]
    parts: Option<Map<String, Value>>,
    /// What else is known of it.
    #[serde(flatten)]
    more: Map<String, Value>,
}

async fn search(visit: &Visit, wanted: Searched) -> Result<Page<MemoryHit>, Failure> {
    let start = visit.start::<Seen>(&wanted.paging)?;
    let mut args = json!({"query": wanted.text, "limit": DEPTH, "explain": true});
    if let Some(kind) = word(wanted.kind) {
        args["types"] = json!([kind]);
    }
    let mut answer: Value = visit.look(&wanted.butler, "memory_search", args).await?;
    let mut hits: Vec<MemoryHit> = answered(answer["results"].take())?;
    let deeper = hits.len() >= DEPTH;
    let next = start.at.unwrap_or_default().page(&mut hits, start.limit as usize, |hit| hit.id);
    let end = next.is_none();
    Ok(visit.part(hits, next, Vec::new()).cut(end && deeper))
}

/// Something that was done to a memory.
#[derive(Serialize, Deserialize, JsonSchema)]
struct MemoryEvent {
    event: Uuid,
    at: Timestamp,
    what: String,
    /// Who did it.
    by: String,
    reason: Option<String>,
    /// It was taken back.
    #[serde(default)]
    undone: bool,
    session_id: Option<Uuid>,
    /// What else is known of it.
    #[serde(flatten)]
    more: Map<String, Value>,
}

async fn history(visit: &Visit, wanted: PagesOf) -> Result<Page<MemoryEvent>, Failure> {
    let start = visit.start::<i64>(&wanted.paging)?;
    let mut args = json!({"limit": start.limit});
    if let Some(before) = start.at {
        args["before"] = json!(before);
    }
    let mut answer: Value = visit.look(&wanted.butler, "memory_history", args).await?;
    let next = answer["next_before"].as_i64();
    Ok(visit.part(answered(answer["events"].take())?, next, Vec::new()))
}

/// Which memory.
#[derive(Deserialize, JsonSchema)]
struct OneOf {
    /// The butler.
    butler: String,
    /// Its id.
    id: Uuid,
}

/// A memory and how it came to be.
#[derive(Serialize, Deserialize, JsonSchema)]
struct MemoryStory {
    memory_type: String,
    /// Its columns.
    memory: Map<String, Value>,
    /// The episode that it comes from.
    #[serde(default)]
    source: Value,
    #[serde(default)]
    session: Value,
    /// What it replaced, and what replaced it.
    #[serde(default)]
    supersedes: Value,
    #[serde(default)]
    superseded_by: Value,
    #[serde(default)]
    links: Vec<MemoryLink>,
    #[serde(default)]
    events: Vec<MemoryEvent>,
    /// What else is known of it.
    #[serde(flatten)]
    more: Map<String, Value>,
}

async fn why(visit: &Visit, wanted: OneOf) -> Result<MemoryStory, Failure> {
    visit.look(&wanted.butler, "memory_why", json!({"memory_id": wanted.id})).await
}
