//! Facts: what is so.

use base::redact::secret_in;
use memory_index::predicates::resolve;
use memory_index::same::{About, Said};
use memory_index::text::{content_hash, topic_hash};
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use super::candidate::{Candidate, NewFact};
use super::confirm::confirm_fact;
use super::earlier::earlier;
use super::rival::Rival;
use super::{FORGOTTEN, Kind, Origin, Outcome, WriteError, admitted, predicate_name};
use crate::gate::{self, MAX_FACT};
use crate::sql::facts::{known_predicates, predicate_used, standing};
use crate::sql::{Rows, event, link, lock, now, patch, put};

/// What became of it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct StoredFact {
    pub id: Uuid,
    pub status: Outcome,
    pub kind: &'static str,
    /// As it is stored.
    pub predicate: String,
    /// What it took the place of.
    pub superseded_id: Option<Uuid>,
    /// A known predicate that is written nearly alike.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
}

/// Takes a fact in: as a new one, in the place of another, or as one more word for what is known.
pub async fn store_fact(tx: &mut dyn Rows, origin: &Origin, fact: &NewFact) -> Result<StoredFact, WriteError> {
    let content = admitted(&fact.content, MAX_FACT)?;
    if let Some(why) = gate::refusal(&fact.subject, 200) {
        return Err(WriteError::refused("not_remembered", format!("Not remembered: of its subject: {why}.")));
    }
    let name = predicate_name(&fact.predicate)?;
    if let Some(what) = secret_in(&format!("{}: {content}", name.replace('_', " "))) {
        let why = format!(
            "Not remembered: it looks like {what}; secrets are kept with `butlerd secret set`, never in memory."
        );
        return Err(WriteError::refused("not_remembered", why));
    }
    let trust = lock(tx).await?;
    let entity = standing(tx, "entity_id", fact.entity).await?;
    let object = standing(tx, "object_entity_id", fact.object).await?;
    let predicate = resolve(&name, &known_predicates(tx).await?);
    let temporal = fact.valid_at.is_some() || predicate.temporal;
    let valid_from = match (fact.valid_at, temporal) {
        (None, true) => Some(match fact.said_at {
            Some(said) => said,
            None => now(tx).await?,
        }),
        (given, _) => given.or(fact.said_at),
    };
    let kind = match (temporal, object.is_some(), predicate.many) {
        (true, _, _) => "temporal",
        (_, true, _) => "edge",
        (_, _, true) => "many",
        _ => "property",
    };
    let hash = content_hash(&content);
    let subject = if fact.by_words { format!("{}: {hash}", fact.subject) } else { fact.subject.clone() };
    let candidate = Candidate {
        said: Said::new(&content),
        topic: topic_hash(&fact.scope, entity, &subject, &predicate.name),
        hash,
        content,
        about: About::new(&fact.subject, &predicate.name),
        fact,
        kind,
        predicate,
        entity,
        object,
        valid_from,
        stranger: trust == "stranger",
    };
    let rivals = candidate.rivals(tx, origin).await?;
    decide(tx, origin, &candidate, &rivals).await
}

async fn decide(
    tx: &mut dyn Rows,
    origin: &Origin,
    candidate: &Candidate<'_>,
    rivals: &[Rival],
) -> Result<StoredFact, WriteError> {
    let fact = candidate.fact;
    let done = |id: Uuid, status: Outcome| StoredFact {
        id,
        status,
        kind: candidate.kind,
        predicate: candidate.predicate.name.clone(),
        superseded_id: None,
        suggestion: candidate.predicate.suggestion.clone(),
    };
    if let Some(key) = &fact.idempotency_key
        && let Some(before) = rivals.iter().find(|r| r.has_key(key))
    {
        if before.forgotten {
            return Err(WriteError::refused("forgotten", FORGOTTEN));
        }
        return Ok(done(before.id, Outcome::Repeated));
    }
    if !fact.again && forgotten(candidate, rivals) {
        return Err(WriteError::refused("forgotten", FORGOTTEN));
    }
    let told = rivals.iter().filter(|r| r.active && r.has_id(|id| origin.told.contains(id)));
    if let Some(known) =
        told.into_iter().find(|r| (candidate.of_topic(r) || candidate.same_subject(r)) && candidate.repeats(r))
    {
        return Ok(done(known.id, Outcome::Known));
    }
    if let Some(place) = earlier(candidate, rivals) {
        let (id, status) = place.take(tx, origin, candidate).await?;
        return Ok(done(id, status));
    }
    if let Some(same) = the_same(candidate, rivals) {
        confirm_fact(tx, origin, same.id, fact).await?;
        return Ok(StoredFact { predicate: same.predicate.clone(), ..done(same.id, Outcome::Confirmed) });
    }
    let (id, superseded_id) = insert(tx, origin, candidate, rivals).await?;
    Ok(StoredFact { superseded_id, ..done(id, Outcome::Stored) })
}

/// Whether the same was forgotten on purpose.
fn forgotten(candidate: &Candidate<'_>, rivals: &[Rival]) -> bool {
    // What was forgotten of a stranger's claims does not bind the household.
    let mut binding = rivals.iter().filter(|r| r.forgotten && (candidate.stranger || !r.stranger));
    binding.any(|r| {
        candidate.of_topic(r) && (r.is_of(candidate.fact.source_episode) || candidate.says(r))
            || candidate.same_subject(r) && r.has_words(&candidate.hash)
    })
}

/// The fact that says the same already, and is confirmed by it.
fn the_same<'a>(candidate: &Candidate<'_>, rivals: &'a [Rival]) -> Option<&'a Rival> {
    // Nothing is confirmed across the line between strangers and the household.
    let peers = || rivals.iter().filter(|r| r.active && r.stranger == candidate.stranger);
    let same = peers().find(|r| candidate.of_topic(r) && candidate.says(r)).or_else(|| {
        // The same sentence of the same subject under another predicate, if it is one.
        let sentence = candidate.content.split_whitespace().count() >= 3;
        peers().find(|r| sentence && r.has_words(&candidate.hash) && candidate.same_subject(r) && candidate.says(r))
    });
    // What nobody had confirmed for long is so after all, unless something else stands in its place.
    same.or_else(|| {
        let gone = |r: &&Rival| r.expired && r.stranger == candidate.stranger && candidate.of_topic(r);
        let held = peers().any(|r| candidate.of_topic(r) && candidate.displaces(r));
        rivals.iter().filter(gone).find(|r| !held && candidate.says(r))
    })
}

/// Stores it as a new one, in the place of what it displaces. Returns its id and that of the value that held before.
async fn insert(
    tx: &mut dyn Rows,
    origin: &Origin,
    candidate: &Candidate<'_>,
    rivals: &[Rival],
) -> Result<(Uuid, Option<Uuid>), WriteError> {
    // What it displaces: the value that held, and a stranger's claim where the household speaks.
    let in_place = |r: &&Rival| {
        r.active
            && candidate.of_topic(r)
            && (r.stranger == candidate.stranger && candidate.displaces(r)
                || r.stranger && !candidate.stranger && (candidate.displaces(r) || candidate.says(r)))
    };
    let displaced: Vec<&Rival> = rivals.iter().filter(in_place).collect();
    // What is learned late of an earlier time does not take the place of what holds now.
    let first = displaced.iter().find(|r| !r.stranger).or(displaced.first()).map(|r| r.id);
    let id = candidate.fact.brought.as_ref().map_or_else(Uuid::now_v7, |brought| brought.id);
    let ids: Vec<Uuid> = displaced.iter().map(|r| r.id).collect();
    event(tx, origin, "stored", "fact", id, None, json!({"kind": candidate.kind, "superseded": ids})).await?;
    let over = match candidate.valid_from {
        Some(from) => from,
        None => now(tx).await?,
    };
    for old in &displaced {
        patch(tx, Kind::Fact, old.id, json!({"validity": "superseded", "valid_to": over})).await?;
    }
    put(tx, Kind::Fact, candidate.row(id, origin, first)).await?;
    for old in &displaced {
        link(tx, (Kind::Fact, id), (Kind::Fact, old.id), "supersedes").await?;
    }
    if let Some(episode) = candidate.fact.source_episode {
        link(tx, (Kind::Fact, id), (Kind::Episode, episode), "derived_from").await?;
    }
    predicate_used(tx, &candidate.predicate).await?;
    Ok((id, first))
}
