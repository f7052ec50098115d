//! A fact on its way in, and those that it is held against.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio_postgres::Row;
use uuid::Uuid;

use super::fact::NewFact;
use super::{Origin, Rows, Vector, WriteError};
use crate::memory::gate;
use crate::memory::predicates::Predicate;
use crate::memory::same::{About, Said};

/// A fact that a new one is compared with.
pub(super) struct Rival {
    pub(super) id: Uuid,
    pub(super) kind: String,
    pub(super) subject: String,
    pub(super) predicate: String,
    pub(super) scope: String,
    /// Its own words, and others that were found to say the same.
    wordings: Vec<Wording>,
    pub(super) entity: Option<Uuid>,
    pub(super) object: Option<Uuid>,
    pub(super) valid_from: Option<Timestamp>,
    pub(super) valid_to: Option<Timestamp>,
    pub(super) learned: Timestamp,
    pub(super) stranger: bool,
    pub(super) forgotten: bool,
    pub(super) active: bool,
    pub(super) expired: bool,
    pub(super) superseded: bool,
}

/// How a fact is put, and where that came from.
struct Wording {
    id: Uuid,
    key: Option<String>,
    source: Option<Uuid>,
    content: String,
    hash: String,
    topic: String,
    embedding: Option<Vec<u8>>,
    model: Option<String>,
}

impl Wording {
    fn of(row: &Row) -> Self {
        Self {
            id: row.get("id"),
            key: row.get("idempotency_key"),
            source: row.get("source_episode_id"),
            content: row.get("content"),
            hash: row.get("content_hash"),
            topic: row.get("topic_hash"),
            embedding: row.get("embedding"),
            model: row.get("embedding_model"),
        }
    }
}

impl Rival {
    /// Facts, each with its other wordings, which come somewhere after it. One that was forgotten by itself stands alone.
    fn all(rows: &[Row]) -> Vec<Self> {
        let mut rivals: Vec<Self> = Vec::new();
        for row in rows {
            let one = Self::of(row);
            let of = row.get::<_, Option<Uuid>>("wording_of");
            match rivals.iter_mut().rev().find(|r| Some(r.id) == of && r.forgotten == one.forgotten) {
                Some(fact) => fact.wordings.extend(one.wordings),
                None => rivals.push(one),
            }
        }
        rivals
    }

    fn of(row: &Row) -> Self {
        let validity: String = row.get("validity");
        let forgotten: Option<Timestamp> = row.get("forgotten_at");
        let trust: String = row.get("trust");
        Self {
            id: row.get("id"),
            kind: row.get("kind"),
            subject: row.get("subject"),
            predicate: row.get("predicate"),
            scope: row.get("scope"),
            wordings: vec![Wording::of(row)],
            entity: row.get("entity_id"),
            object: row.get("object_entity_id"),
            valid_from: row.get("valid_from"),
            valid_to: row.get("valid_to"),
            learned: row.get("learned_at"),
            stranger: trust == "stranger",
            forgotten: forgotten.is_some(),
            active: forgotten.is_none() && ["active", "fading"].contains(&&*validity),
            expired: forgotten.is_none() && validity == "expired",
            superseded: forgotten.is_none() && validity == "superseded",
        }
    }

    pub(super) fn has_id(&self, is: impl Fn(&Uuid) -> bool) -> bool {
        self.wordings.iter().any(|w| is(&w.id))
    }

    pub(super) fn has_key(&self, key: &str) -> bool {
        self.wordings.iter().any(|w| w.key.as_deref() == Some(key))
    }

    pub(super) fn is_of(&self, episode: Option<Uuid>) -> bool {
        episode.is_some() && self.wordings.iter().any(|w| w.source == episode)
    }

    pub(super) fn has_words(&self, hash: &str) -> bool {
        self.wordings.iter().any(|w| w.hash == hash)
    }

    /// From when on it held, as far as is known.
    pub(super) fn since(&self) -> Timestamp {
        self.valid_from.unwrap_or(self.learned)
    }
}

/// A fact on its way in, with all that was found out about it.
pub(super) struct Coming<'a> {
    pub(super) fact: &'a NewFact,
    pub(super) content: String,
    pub(super) hash: String,
    pub(super) topic: String,
    pub(super) kind: &'static str,
    pub(super) predicate: Predicate,
    pub(super) about: About,
    pub(super) said: Said,
    pub(super) entity: Option<Uuid>,
    pub(super) object: Option<Uuid>,
    /// When it happened; of what is so, from when on.
    pub(super) valid_from: Option<Timestamp>,
    pub(super) stranger: bool,
}

impl Coming<'_> {
    /// Whether the other says the same: of facts that have a time, about the same time.
    pub(super) fn says(&self, other: &Rival) -> bool {
        self.at_the_time_of(other) && self.in_the_words_of(other)
    }

    /// Whether it only says again what a session was told: that it happened, where it doesn't say when.
    pub(super) fn repeats(&self, told: &Rival) -> bool {
        (self.fact.valid_at.is_none() || self.at_the_time_of(told)) && self.in_the_words_of(told)
    }

    fn at_the_time_of(&self, other: &Rival) -> bool {
        if self.kind != "temporal" || other.kind != "temporal" {
            return true;
        }
        let apart = match (self.valid_from, other.valid_from) {
            (Some(a), Some(b)) => a.duration_since(b).abs().as_secs(),
            (None, None) => 0,
            _ => i64::MAX,
        };
        // Without a time of its own it counts as of when it was said.
        apart <= if self.fact.valid_at.is_some() { 0 } else { 12 * 3600 }
    }

    fn in_the_words_of(&self, other: &Rival) -> bool {
        if self.object.is_some() && other.object.is_some() && self.object != other.object {
            return false;
        }
        let own = self.fact.vector.as_ref();
        other.has_words(&self.hash)
            || other.wordings.iter().any(|w| {
                let likeness = Vector::likeness(own, w.embedding.as_deref(), w.model.as_deref());
                self.said.means(&self.about, &w.content, likeness)
            })
    }

    pub(super) fn of_topic(&self, other: &Rival) -> bool {
        other.wordings.iter().any(|w| w.topic == self.topic)
    }

    /// Whether the other stands where this one would stand: one value, one edge.
    pub(super) fn displaces(&self, other: &Rival) -> bool {
        match self.kind {
            "property" => other.kind == "property",
            "edge" => other.kind == "edge" && other.object == self.object,
            _ => false,
        }
    }

    pub(super) fn same_subject(&self, other: &Rival) -> bool {
        other.scope == self.fact.scope
            && gate::same_subject((self.entity, &self.fact.subject), (other.entity, &other.subject))
    }

    pub(super) fn row(&self, id: Uuid, origin: &Origin, superseded: Option<Uuid>) -> Map<String, Value> {
        let f = self.fact;
        let mut row = Map::new();
        let mut set = |name: &str, value: Value| drop(row.insert(name.to_owned(), value));
        set("id", json!(id));
        set("kind", json!(self.kind));
        set("subject", json!(f.subject.trim()));
        set("predicate", json!(self.predicate.name));
        set("content", json!(self.content));
        set("content_hash", json!(self.hash));
        set("topic_hash", json!(self.topic));
        set("entity_id", json!(self.entity));
        set("object_entity_id", json!(self.object));
        set("importance", json!(f.importance.clamp(0.0, 10.0)));
        set("confidence", json!(f.confidence.clamp(0.0, 1.0)));
        set("permanence", json!(f.permanence.as_str()));
        set("decay_rate", json!(f.permanence.decay_rate()));
        set("scope", json!(f.scope));
        set("tags", json!(f.tags));
        set("metadata", f.metadata.clone());
        set("valid_from", json!(self.valid_from));
        set("valid_to", json!(f.valid_to));
        set("supersedes_id", json!(superseded));
        set("source_butler", json!(origin.butler));
        set("source_episode_id", json!(f.source_episode));
        set("session_id", json!(origin.session));
        set("request_id", json!(origin.request));
        set("idempotency_key", json!(f.idempotency_key));
        if let Some(class) = &f.retention_class {
            set("retention_class", json!(class));
        }
        if let Some(sensitivity) = &f.sensitivity {
            set("sensitivity", json!(sensitivity));
        }
        Vector::put(f.vector.as_ref(), &mut row);
        row
    }
}

/// Those that this one is held against, those that decide first.
pub(super) async fn rivals(tx: &mut dyn Rows, origin: &Origin, coming: &Coming<'_>) -> Result<Vec<Rival>, WriteError> {
    let told: Vec<Uuid> = origin.told.iter().copied().collect();
    let rows = tx
        .rows(
            "SELECT * FROM memory_fact_rivals($1, $2, $3, $4, $5)",
            &[&coming.topic, &coming.hash, &coming.fact.source_episode, &coming.fact.idempotency_key, &told],
        )
        .await?;
    Ok(Rival::all(&rows))
}
