//! Looking at what there is.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use memory::sql::Rows;
use memory::sql::experiences::{self, Experience, Which};
use memory::write::WriteError;
use memory_index::rank::Mode;
use project::record::ExperienceType;
use serde_json::{Value, json};

use super::records::{TODO, importance, is_failure, is_todo, kind, record, records};
use super::remember::one;
use super::request::ProjectRequest;
use super::search::{MOST, fitting, ranked};

/// A summary has so many memories of each kind, and so many failures.
const OF_EACH_KIND: usize = 5;
const FAILURES: usize = 3;
/// Memories of less importance are noise.
const NOISE: f64 = 0.3;
/// A summary shows so much of a memory.
const PREVIEW: usize = 200;

async fn all(request: &ProjectRequest<'_>, rows: &mut dyn Rows) -> Result<Vec<Experience>, WriteError> {
    Ok(experiences::list(rows, &request.project.scope, &Which::default()).await?)
}

pub(super) async fn list(request: &ProjectRequest<'_>, rows: &mut dyn Rows) -> Result<Value, WriteError> {
    let limit = match &request.args.0["limit"] {
        Value::Null => None,
        _ => i64::try_from(request.args.limit(MOST, usize::MAX)?).ok(),
    };
    let predicate = request.args.experience_type()?.map(|kind| kind.as_str().to_lowercase());
    let which = Which { predicate, limit, ..Which::default() };
    Ok(records(&experiences::list(rows, &request.project.scope, &which).await?))
}

pub(super) async fn by_date(request: &ProjectRequest<'_>, rows: &mut dyn Rows) -> Result<Value, WriteError> {
    let (since, until) = (request.args.moment("since")?, request.args.moment("until")?);
    let limit = i64::try_from(request.args.limit(20, MOST)?).ok();
    let which = Which { since, until, limit, ..Which::default() };
    Ok(records(&experiences::list(rows, &request.project.scope, &which).await?))
}

pub(super) async fn todos(request: &ProjectRequest<'_>, rows: &mut dyn Rows) -> Result<Value, WriteError> {
    let which = Which { tags: vec![TODO.to_owned()], ..Which::default() };
    Ok(records(&experiences::list(rows, &request.project.scope, &which).await?))
}

pub(super) async fn get(request: &ProjectRequest<'_>, rows: &mut dyn Rows) -> Result<Value, WriteError> {
    let found = one(request, rows, request.args.needed("id")?).await?;
    Ok(found.map_or_else(|| json!({}), |fact| json!(record(&fact))))
}

pub(super) async fn summary(request: &ProjectRequest<'_>, rows: &mut dyn Rows) -> Result<Value, WriteError> {
    let every = all(request, rows).await?;
    let total = every.len();
    let mut facts = match request.args.text("topic") {
        None => every,
        Some(topic) => {
            let hits = ranked(request, topic, Mode::Hybrid, MOST).await?;
            fitting(request, rows, &hits).await?.into_iter().map(|f| f.fact).collect()
        }
    };
    facts.retain(|fact| !is_todo(fact));
    facts.sort_by(|a, b| b.importance.total_cmp(&a.importance).then_with(|| b.created_at.cmp(&a.created_at)));
    let shown = |fact: &Experience| {
        json!({"id": fact.id, "content": preview(fact), "importance": importance(fact),
            "created_at": fact.created_at.to_string()})
    };
    let of = |wanted: ExperienceType| -> Vec<Value> {
        facts.iter().filter(|fact| kind(fact) == wanted).take(OF_EACH_KIND).map(shown).collect()
    };
    let errors: Vec<Value> = facts.iter().filter(|fact| is_failure(fact)).take(FAILURES).map(shown).collect();
    // No memory here has the type that `patterns` lists.
    Ok(
        json!({"total_memories": total, "decisions": of(ExperienceType::Decision), "learnings": of(ExperienceType::Learning),
        "context": of(ExperienceType::Context), "patterns": [], "errors": errors}),
    )
}

fn preview(fact: &Experience) -> String {
    fact.content.chars().take(PREVIEW).collect()
}

/// Memories by when they were used last: within the hour, within the day, and before.
pub(super) async fn brain(request: &ProjectRequest<'_>, rows: &mut dyn Rows) -> Result<Value, WriteError> {
    let now = request.house.clock.now();
    let mut facts = all(request, rows).await?;
    let used = |fact: &Experience| fact.last_referenced_at.unwrap_or(fact.created_at).max(fact.created_at);
    facts.sort_by_key(|fact| std::cmp::Reverse(used(fact)));
    let mut tiers: BTreeMap<&str, Vec<Value>> =
        ["working", "session", "longterm"].map(|tier| (tier, Vec::new())).into();
    for fact in &facts {
        let age = now.duration_since(used(fact));
        let tier = if age < SignedDuration::from_hours(1) {
            "working"
        } else if age < SignedDuration::from_hours(24) {
            "session"
        } else {
            "longterm"
        };
        let days = age.as_secs_f64().max(0.0) / 86_400.0;
        let activation = (importance(fact) * (-days / 30.0).exp() * 1000.0).round() / 1000.0;
        tiers.entry(tier).or_default().push(json!({"id": fact.id, "content": preview(fact), "activation": activation,
            "importance": importance(fact), "tier": tier, "access_count": fact.reference_count,
            "created_at": fact.created_at.to_string()}));
    }
    let counts: BTreeMap<&str, usize> = tiers.iter().map(|(tier, all)| (*tier, all.len())).collect();
    let mut tier = |name: &str| {
        let mut list = tiers.remove(name).unwrap_or_default();
        list.truncate(100);
        list
    };
    Ok(json!({"working": tier("working"), "session": tier("session"), "longterm": tier("longterm"),
        "stats": {"total": facts.len(), "working": counts["working"], "session": counts["session"],
                  "longterm": counts["longterm"]}}))
}

fn counted(names: impl Iterator<Item = String>) -> Vec<(String, usize)> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    counts
}

fn object(counts: impl IntoIterator<Item = (String, usize)>) -> Value {
    Value::Object(counts.into_iter().map(|(name, count)| (name, json!(count))).collect())
}

pub(super) async fn stats(request: &ProjectRequest<'_>, rows: &mut dyn Rows) -> Result<Value, WriteError> {
    let facts = all(request, rows).await?;
    let types = counted(facts.iter().map(|fact| kind(fact).as_str().to_owned()));
    let tags = counted(facts.iter().flat_map(|fact| fact.tags.iter().cloned())).into_iter().take(10);
    let mut buckets = [0; 5];
    let mut noise = 0;
    for fact in &facts {
        let share = importance(fact);
        let bucket = [0.2, 0.4, 0.6, 0.8].iter().filter(|edge| share >= **edge).count();
        buckets[bucket] += 1;
        noise += usize::from(share < NOISE);
    }
    let names = ["0.0-0.2", "0.2-0.4", "0.4-0.6", "0.6-0.8", "0.8-1.0"];
    let histogram: serde_json::Map<String, Value> =
        names.iter().zip(buckets).map(|(name, count)| ((*name).to_owned(), json!(count))).collect();
    #[allow(clippy::cast_precision_loss, reason = "counts of memories")]
    let ratio = if facts.is_empty() { 0.0 } else { noise as f64 / facts.len() as f64 };
    Ok(json!({"total": facts.len(), "type_distribution": object(types), "tag_distribution": object(tags),
        "importance_histogram": histogram, "noise_ratio": (ratio * 1000.0).round() / 1000.0}))
}

pub(super) async fn graph(request: &ProjectRequest<'_>, rows: &mut dyn Rows) -> Result<Value, WriteError> {
    let facts = all(request, rows).await?;
    let tags = counted(facts.iter().flat_map(|fact| fact.tags.iter().cloned()));
    let untagged = facts.iter().filter(|fact| fact.tags.is_empty()).count();
    Ok(json!({"memories": facts.len(), "tags": tags.len(), "untagged": untagged,
        "tied": facts.iter().map(|fact| fact.tags.len()).sum::<usize>()}))
}

/// Whether rows can be read and the index is there.
pub(super) async fn health(request: &ProjectRequest<'_>, rows: &mut dyn Rows) -> Result<Value, WriteError> {
    let stored = experiences::count(rows, &request.project.scope).await?;
    let index = request.house.memory.index_size(request.tenant);
    let health = json!({"status": "ok", "memories": stored,
        // While it is made, the database's full text answers.
        "index": {"ready": index.is_some(), "memories_of_all_projects": index.map(|(rows, _)| rows),
                  "bytes": index.map(|(_, bytes)| bytes)}});
    Ok(health)
}

pub(super) async fn status(request: &ProjectRequest<'_>, rows: &mut dyn Rows) -> Result<Value, WriteError> {
    let count = experiences::count(rows, &request.project.scope).await?;
    let place = format!("butlerd, butler {}", request.house.memory.butler);
    Ok(json!({"available": true, "project": request.project.name, "project_id": request.project.id, "count": count,
        "branch": request.branch, "storage_path": place}))
}

/// What was done to the project's memories of late.
pub(super) async fn report(request: &ProjectRequest<'_>, rows: &mut dyn Rows) -> Result<Value, WriteError> {
    let a_week_ago = || request.house.clock.now() - SignedDuration::from_hours(7 * 24);
    let since = request.args.moment("since")?.unwrap_or_else(a_week_ago);
    let events = experiences::events_since(rows, &request.project.scope, since).await?;
    let events: serde_json::Map<String, Value> = events.into_iter().map(|(name, count)| (name, json!(count))).collect();
    let runs = experiences::runs(rows, &request.project.scope, 10).await?;
    let runs: Vec<Value> = runs
        .iter()
        .map(|run| {
            json!({"run": run.id, "did": run.event_type, "at": run.at.to_string(), "memories": run.facts,
                "taken_back": run.undone})
        })
        .collect();
    Ok(json!({"since": since.to_string(), "events": events, "runs": runs}))
}
