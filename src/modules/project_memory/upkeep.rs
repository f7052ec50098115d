//! Keeping order: what says the same becomes one, what is too little goes; each run can be taken back as a whole.

use memory::sql::Rows;
use memory::sql::experiences::{self, Experience, Which};
use memory::write::{self, SameFacts, WriteError, forget_facts, unite_facts};
use project::tool::{DEFAULT_ALIKE, DEFAULT_LEAST_IMPORTANCE, DEFAULT_LEAST_LENGTH};
use serde_json::{Value, json};
use uuid::Uuid;

use super::alike;
use super::arguments::wrong;
use super::records::{importance, is_todo};
use super::request::ProjectRequest;

/// An audit shows so many groups.
const SHOWN_GROUPS: usize = 10;
const PREVIEW: usize = 100;
const LEAST_ALIKE: f64 = 0.3;

/// Facts that say the same: the one that stays, and the others.
struct Group<'a> {
    stays: &'a Experience,
    others: Vec<&'a Experience>,
}

/// All memories but what is left to do, the oldest first.
async fn memories(request: &ProjectRequest<'_>, rows: &mut dyn Rows) -> Result<Vec<Experience>, WriteError> {
    let mut all = experiences::list(rows, &request.project.scope, &Which::default()).await?;
    all.retain(|fact| !is_todo(fact));
    all.reverse();
    Ok(all)
}

fn groups(facts: &[Experience], least: f64) -> Vec<Group<'_>> {
    let texts: Vec<&str> = facts.iter().map(|fact| fact.content.as_str()).collect();
    let group = |members: Vec<usize>| {
        let worth = |at: &usize| {
            let fact = &facts[*at];
            #[allow(clippy::cast_precision_loss, reason = "the length of a text")]
            let length = fact.content.chars().count() as f64 / 100.0;
            f64::from(fact.reference_count) * 10.0 + importance(fact) * 5.0 + length
        };
        // Of equals the oldest: it stands first, and a later one is only taken when it is worth more.
        let mut stays = members[0];
        for at in &members[1..] {
            if worth(at) > worth(&stays) {
                stays = *at;
            }
        }
        let others = members.iter().filter(|at| **at != stays).map(|at| &facts[*at]).collect();
        Group { stays: &facts[stays], others }
    };
    alike::groups(&texts, least).into_iter().map(group).collect()
}

/// How alike memories must be. Below a third all would be held against all.
fn least_alike(request: &ProjectRequest<'_>) -> Result<f64, WriteError> {
    let least = request.args.share("threshold", DEFAULT_ALIKE)?;
    if least < LEAST_ALIKE {
        return Err(wrong(format!("`threshold` is at least {LEAST_ALIKE}: texts less alike don't say the same.")));
    }
    Ok(least)
}

pub(super) async fn audit(request: &ProjectRequest<'_>, rows: &mut dyn Rows) -> Result<Value, WriteError> {
    let least = least_alike(request)?;
    let facts = memories(request, rows).await?;
    Ok(report(&facts, &groups(&facts, least)))
}

fn report(facts: &[Experience], groups: &[Group<'_>]) -> Value {
    let redundant: usize = groups.iter().map(|group| group.others.len()).sum();
    let shown = groups.iter().take(SHOWN_GROUPS).map(|group| {
        let mut ids = vec![group.stays.id];
        ids.extend(group.others.iter().map(|fact| fact.id));
        let mut tags = group.stays.tags.clone();
        for tag in group.others.iter().flat_map(|fact| &fact.tags) {
            if !tags.contains(tag) {
                tags.push(tag.clone());
            }
        }
        json!({"count": ids.len(), "preview": group.stays.content.chars().take(PREVIEW).collect::<String>(),
            "survivor_id": group.stays.id, "ids": ids, "victim_ids": ids[1..], "all_tags": tags,
            "survivor_tags": group.stays.tags})
    });
    #[allow(clippy::cast_precision_loss, reason = "counts of memories")]
    let ratio = if facts.is_empty() { 0.0 } else { redundant as f64 / facts.len() as f64 };
    json!({"total": facts.len(), "clusters": groups.len(), "redundant": redundant, "unique": facts.len() - redundant,
        "dedup_ratio": (ratio * 1000.0).round() / 1000.0, "top_clusters": shown.collect::<Vec<_>>()})
}

pub(super) async fn dedup(request: &ProjectRequest<'_>, rows: &mut dyn Rows) -> Result<Value, WriteError> {
    let least = least_alike(request)?;
    memory::sql::take_lock(rows).await?;
    let facts = memories(request, rows).await?;
    let groups = groups(&facts, least);
    let merged: usize = groups.iter().map(|group| group.others.len()).sum();
    if request.args.flag("dry_run") {
        let mut told = report(&facts, &groups);
        told["dry_run"] = json!(true);
        told["would_delete"] = json!(merged);
        return Ok(told);
    }
    let same: Vec<SameFacts> = groups
        .iter()
        .map(|group| SameFacts { stays: group.stays.id, wordings: group.others.iter().map(|fact| fact.id).collect() })
        .collect();
    let payload = json!({"scope": request.project.scope, "count": merged});
    let run = unite_facts(rows, &request.origin, &same, payload).await?;
    Ok(json!({"deleted_count": merged, "merged_count": same.len(), "run": run}))
}

pub(super) async fn cleanup(request: &ProjectRequest<'_>, rows: &mut dyn Rows) -> Result<Value, WriteError> {
    let least = request.args.share("threshold", DEFAULT_LEAST_IMPORTANCE)?;
    let shortest = match &request.args.0["min_length"] {
        Value::Null => DEFAULT_LEAST_LENGTH,
        value => {
            value.as_u64().ok_or_else(|| wrong(format!("`min_length` is a number of characters, and not {value}.")))?
        }
    };
    memory::sql::take_lock(rows).await?;
    let facts = memories(request, rows).await?;
    let is_short = |fact: &&Experience| (fact.content.trim().chars().count() as u64) < shortest;
    let (short, long): (Vec<&Experience>, Vec<&Experience>) = facts.iter().partition(is_short);
    let light: Vec<&Experience> = long.into_iter().filter(|fact| importance(fact) < least).collect();
    let ids: Vec<Uuid> = short.iter().chain(&light).map(|fact| fact.id).collect();
    let (garbage, low) = (short.len(), light.len());
    if request.args.flag("dry_run") {
        return Ok(json!({"would_delete": ids.len(), "garbage": garbage, "low_importance": low, "dry_run": true}));
    }
    let payload = json!({"scope": request.project.scope, "count": ids.len()});
    let done = forget_facts(rows, &request.origin, "cleaned", &ids, payload).await?;
    Ok(json!({"deleted_count": ids.len(), "garbage": garbage, "low_importance": low, "run": done.map(|(run, _)| run)}))
}

/// Takes a run back: the one that is named, else the last that stands.
pub(super) async fn undo(request: &ProjectRequest<'_>, rows: &mut dyn Rows) -> Result<Value, WriteError> {
    let runs = experiences::runs(rows, &request.project.scope, 1000).await?;
    let run = match request.args.text("run") {
        Some(given) => {
            let id: Uuid = given.trim().parse().map_err(|_| wrong(format!("{given:?} is not the id of a run.")))?;
            runs.iter().find(|run| run.id == id)
        }
        None => runs.iter().find(|run| !run.undone),
    };
    let Some(run) = run else {
        return Err(WriteError::refused(
            "not_found",
            "There is no run on this project's memory that can be taken back.",
        ));
    };
    write::undo(rows, &request.origin, run.id, Some("taken back on demand")).await?;
    Ok(json!({"undone": true, "run": run.id, "did": run.event_type, "memories": run.facts}))
}
