//! Two entities that are one: what facts say of the one they say of the other from then on.

use memory_index::text::topic_hash;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Kind, Origin, WriteError};
use crate::sql::facts::{self, FactAbout, about, standing};
use crate::sql::{Rows, event, link, lock, now, patch};

/// How many facts speak of the other entity now, and how many of them gave way to one that was there or took its place.
#[derive(Default)]
struct Counts {
    moved: u32,
    superseded: u32,
    edges_moved: u32,
    edges_superseded: u32,
}

/// Makes two entities one: facts of the first are from then on facts of the second.
pub async fn merge_entities(
    tx: &mut dyn Rows,
    origin: &Origin,
    source: Uuid,
    target: Uuid,
) -> Result<Value, WriteError> {
    lock(tx).await?;
    let target = standing(tx, "target_entity_id", Some(target)).await?.unwrap_or(target);
    let done = event(tx, origin, "merged", "entity", source, None, json!({"into": target})).await?;
    let Some(names) = facts::merge_entities(tx, source, target).await? else {
        let why = format!("Not merged: {source} is not an entity that stands for itself, or it is {target} already.");
        return Err(WriteError::refused("not_found", why));
    };
    let mut counts = Counts::default();
    for fact in about(tx, source).await? {
        let superseded = repoint(tx, &fact, source, target).await?;
        let count = match (fact.kind == "edge", superseded) {
            (false, false) => &mut counts.moved,
            (false, true) => &mut counts.superseded,
            (true, false) => &mut counts.edges_moved,
            (true, true) => &mut counts.edges_superseded,
        };
        *count += 1;
    }
    Ok(json!({"event": done, "target_entity_id": target, "source_entity_id": source, "facts_repointed": counts.moved,
        "facts_superseded": counts.superseded, "edge_facts_repointed": counts.edges_moved,
        "edge_facts_superseded": counts.edges_superseded, "aliases_added": names}))
}

/// Makes a fact of `source` one of `target`. True: another one stood in the place that it gets, and one of both is
/// over.
async fn repoint(tx: &mut dyn Rows, fact: &FactAbout, source: Uuid, target: Uuid) -> Result<bool, WriteError> {
    let moved = |entity: Option<Uuid>| entity.map(|e| if e == source { target } else { e });
    let (entity, object) = (moved(fact.entity_id), moved(fact.object_entity_id));
    let topic = topic_hash(&fact.scope, entity, &fact.subject, &fact.predicate);
    let mut given = json!({"entity_id": entity, "object_entity_id": object, "topic_hash": topic});
    let holds = fact.forgotten_at.is_none() && ["active", "fading"].contains(&&*fact.validity);
    let mut other = None;
    if holds && ["property", "edge"].contains(&&*fact.kind) {
        other = in_place(tx, fact, &topic, object).await?;
        if other.is_none() && entity.is_some() && entity == object {
            given["validity"] = json!("retracted");
        }
    }
    if let Some(other) = other {
        // Ids grow with time: what was learned last holds.
        let (winner, loser) = if other > fact.id { (other, fact.id) } else { (fact.id, other) };
        let over = now(tx).await?;
        if loser == fact.id {
            given["validity"] = json!("superseded");
            given["valid_to"] = json!(over);
        } else {
            patch(tx, Kind::Fact, loser, json!({"validity": "superseded", "valid_to": over})).await?;
        }
        link(tx, (Kind::Fact, winner), (Kind::Fact, loser), "supersedes").await?;
    }
    patch(tx, Kind::Fact, fact.id, given).await?;
    Ok(other.is_some())
}

/// Another fact that holds in the place that this one gets.
async fn in_place(
    tx: &mut dyn Rows,
    fact: &FactAbout,
    topic: &str,
    object: Option<Uuid>,
) -> Result<Option<Uuid>, WriteError> {
    let rivals = facts::rivals(tx, topic, &fact.content_hash, None, None, &[]).await?;
    let rival = rivals.iter().find(|r| {
        r.id != fact.id
            && r.holds()
            && r.topic_hash == topic
            && r.kind == fact.kind
            && (fact.kind == "property" || r.object_entity_id == object)
            && r.is_of_stranger() == (fact.trust == "stranger")
    });
    Ok(rival.map(|r| r.id))
}
