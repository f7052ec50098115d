//! Facts: what is so.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use tokio_postgres::Row;
use uuid::Uuid;

use super::earlier::earlier;
use super::rival::{Coming, Rival, rivals};
use super::{
    FORGOTTEN, Kind, Origin, Outcome, Permanence, Rows, TenantPredicate, Vector, WriteError, admitted, confirmed,
    event, link, lock, now, patch, predicate_name, put,
};
use crate::memory::gate::{self, MAX_FACT, content_hash, topic_hash};
use crate::memory::predicates::resolve;
use crate::memory::same::{About, Said};

/// A fact that is to be stored.
#[derive(Clone, Debug)]
pub struct NewFact {
    pub subject: String,
    pub predicate: String,
    pub content: String,
    pub importance: f64,
    pub confidence: f64,
    pub permanence: Permanence,
    pub scope: String,
    pub tags: Vec<String>,
    pub entity: Option<Uuid>,
    /// Makes it an edge between two entities.
    pub object: Option<Uuid>,
    /// Makes it something that happened then.
    pub valid_at: Option<Timestamp>,
    pub valid_to: Option<Timestamp>,
    /// When it was said, of what was said earlier than now: what was said of a property later holds against it.
    pub said_at: Option<Timestamp>,
    pub source_episode: Option<Uuid>,
    pub idempotency_key: Option<String>,
    pub retention_class: Option<String>,
    pub sensitivity: Option<String>,
    pub metadata: Value,
    /// Of its words and its subject, as [`spoken`](crate::memory::rank::spoken) puts them.
    pub vector: Option<Vector>,
}

impl NewFact {
    /// A fact with all that is usual.
    pub fn new(subject: &str, predicate: &str, content: &str) -> Self {
        Self {
            subject: subject.to_owned(),
            predicate: predicate.to_owned(),
            content: content.to_owned(),
            importance: 5.0,
            confidence: 1.0,
            permanence: Permanence::Standard,
            scope: "global".to_owned(),
            tags: Vec::new(),
            entity: None,
            object: None,
            valid_at: None,
            valid_to: None,
            said_at: None,
            source_episode: None,
            idempotency_key: None,
            retention_class: None,
            sensitivity: None,
            metadata: json!({}),
            vector: None,
        }
    }
}

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
    if let Some(what) = gate::secret(&format!("{}: {content}", name.replace('_', " "))) {
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
    let coming = Coming {
        said: Said::new(&content),
        hash: content_hash(&content),
        topic: topic_hash(&fact.scope, entity, &fact.subject, &predicate.name),
        content,
        about: About::new(&fact.subject, &predicate.name, kind == "property"),
        fact,
        kind,
        predicate,
        entity,
        object,
        valid_from,
        stranger: trust == "stranger",
    };
    let rivals = rivals(tx, origin, &coming).await?;
    decide(tx, origin, &coming, &rivals).await
}

async fn decide(
    tx: &mut dyn Rows,
    origin: &Origin,
    coming: &Coming<'_>,
    rivals: &[Rival],
) -> Result<StoredFact, WriteError> {
    let fact = coming.fact;
    let done = |id: Uuid, status: Outcome| StoredFact {
        id,
        status,
        kind: coming.kind,
        predicate: coming.predicate.name.clone(),
        superseded_id: None,
        suggestion: coming.predicate.suggestion.clone(),
    };
    if let Some(key) = &fact.idempotency_key
        && let Some(before) = rivals.iter().find(|r| r.has_key(key))
    {
        if before.forgotten {
            return Err(WriteError::refused("forgotten", FORGOTTEN));
        }
        return Ok(done(before.id, Outcome::Repeated));
    }
    // What was forgotten of a stranger's claims does not bind the household.
    let binds = |r: &&Rival| r.forgotten && (coming.stranger || !r.stranger);
    if rivals.iter().filter(binds).any(|r| {
        coming.of_topic(r) && (r.is_of(fact.source_episode) || coming.says(r))
            || coming.same_subject(r) && r.has_words(&coming.hash)
    }) {
        return Err(WriteError::refused("forgotten", FORGOTTEN));
    }
    // Nothing is confirmed across the line between strangers and the household.
    let peers = || rivals.iter().filter(|r| r.active && r.stranger == coming.stranger);
    let told = rivals.iter().filter(|r| r.active && r.has_id(|id| origin.told.contains(id)));
    if let Some(known) = told.into_iter().find(|r| (coming.of_topic(r) || coming.same_subject(r)) && coming.repeats(r))
    {
        return Ok(done(known.id, Outcome::Known));
    }
    if let Some(place) = earlier(coming, rivals) {
        let (id, status) = place.take(tx, origin, coming).await?;
        return Ok(done(id, status));
    }
    let same = peers().find(|r| coming.of_topic(r) && coming.says(r)).or_else(|| {
        // The same sentence of the same subject under another predicate, if it is one.
        let sentence = coming.content.split_whitespace().count() >= 3;
        peers().find(|r| sentence && r.has_words(&coming.hash) && coming.same_subject(r) && coming.says(r))
    });
    // What nobody had confirmed for long is so after all, unless something else stands in its place.
    let same = same.or_else(|| {
        let gone = |r: &&Rival| r.expired && r.stranger == coming.stranger && coming.of_topic(r);
        let held = peers().any(|r| coming.of_topic(r) && coming.displaces(r));
        rivals.iter().filter(gone).find(|r| !held && coming.says(r))
    });
    if let Some(same) = same {
        confirm_fact(tx, origin, same.id, fact).await?;
        return Ok(StoredFact { predicate: same.predicate.clone(), ..done(same.id, Outcome::Confirmed) });
    }
    // What it displaces: the value that held, and a stranger's claim where the household speaks.
    let in_place = |r: &&Rival| {
        r.active
            && coming.of_topic(r)
            && (r.stranger == coming.stranger && coming.displaces(r)
                || r.stranger && !coming.stranger && (coming.displaces(r) || coming.says(r)))
    };
    let displaced: Vec<&Rival> = rivals.iter().filter(in_place).collect();
    // What is learned late of an earlier time does not take the place of what holds now.
    let first = displaced.iter().find(|r| !r.stranger).or(displaced.first()).map(|r| r.id);
    let id = Uuid::now_v7();
    let ids: Vec<Uuid> = displaced.iter().map(|r| r.id).collect();
    event(tx, origin, "stored", "fact", id, None, json!({"kind": coming.kind, "superseded": ids})).await?;
    let over = match coming.valid_from {
        Some(from) => from,
        None => now(tx).await?,
    };
    for old in &displaced {
        patch(tx, Kind::Fact, old.id, json!({"validity": "superseded", "valid_to": over})).await?;
    }
    put(tx, Kind::Fact, coming.row(id, origin, first)).await?;
    for old in &displaced {
        link(tx, (Kind::Fact, id), (Kind::Fact, old.id), "supersedes").await?;
    }
    if let Some(episode) = fact.source_episode {
        link(tx, (Kind::Fact, id), (Kind::Episode, episode), "derived_from").await?;
    }
    let p = &coming.predicate;
    tx.rows("SELECT memory_predicate_used($1, $2, $3, $4)", &[&p.name, &p.edge, &p.temporal, &p.many]).await?;
    Ok(StoredFact { superseded_id: first, ..done(id, Outcome::Stored) })
}

/// One more word for what is known.
pub(super) async fn confirm_fact(
    tx: &mut dyn Rows,
    origin: &Origin,
    id: Uuid,
    fact: &NewFact,
) -> Result<(), WriteError> {
    let row = super::row(tx, Kind::Fact, id).await?;
    event(tx, origin, "confirmed", "fact", id, None, json!({})).await?;
    let mut tags: Vec<String> = serde_json::from_value(row["tags"].clone()).unwrap_or_default();
    tags.extend(
        fact.tags.iter().filter(|t| !row["tags"].as_array().is_some_and(|a| a.iter().any(|x| x == *t))).cloned(),
    );
    let importance = row["importance"].as_f64().unwrap_or_default().max(fact.importance.clamp(0.0, 10.0));
    let mut given = confirmation(tx, &row).await?;
    given["tags"] = json!(tags);
    given["importance"] = json!(importance);
    patch(tx, Kind::Fact, id, given).await?;
    if let Some(episode) = fact.source_episode {
        link(tx, (Kind::Episode, episode), (Kind::Fact, id), "supports").await?;
    }
    Ok(())
}

/// The columns of a fact or a rule that was just confirmed.
pub(super) async fn confirmation(tx: &mut dyn Rows, row: &Value) -> Result<Value, WriteError> {
    let confidence = row["confidence"].as_f64().unwrap_or(1.0);
    let confirmations = row["confirmations"].as_i64().unwrap_or_default();
    let mut given = json!({"last_confirmed_at": now(tx).await?, "confidence": confirmed(confidence),
        "confirmations": confirmations + 1});
    if ["fading", "expired"].iter().any(|v| row["validity"] == *v) {
        given["validity"] = json!("active");
    }
    Ok(given)
}

/// The entity that stands for this one now.
pub(super) async fn standing(
    tx: &mut dyn Rows,
    argument: &str,
    entity: Option<Uuid>,
) -> Result<Option<Uuid>, WriteError> {
    let Some(entity) = entity else { return Ok(None) };
    let rows = tx.rows("SELECT shared.entity_standing($1)", &[&entity]).await?;
    match rows.first().and_then(|r| r.get::<_, Option<Uuid>>(0)) {
        Some(now) => Ok(Some(now)),
        None => Err(WriteError::refused("not_found", format!("{argument}: there is no entity {entity}."))),
    }
}

/// The tenant's own predicates.
pub(super) async fn known_predicates(tx: &mut dyn Rows) -> Result<Vec<TenantPredicate>, WriteError> {
    let rows = tx.rows("SELECT * FROM memory_predicates_known()", &[]).await?;
    let known = |r: &Row| TenantPredicate {
        name: r.get("name"),
        aliases: r.get("aliases"),
        edge: r.get("is_edge"),
        temporal: r.get("is_temporal"),
        many: r.get("is_many"),
    };
    Ok(rows.iter().map(known).collect())
}
