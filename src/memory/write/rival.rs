//! A fact on its way in, and those that it is held against.

use jiff::Timestamp;
use memory_index::predicates::Predicate;
use memory_index::same::{About, Said};
use memory_index::text;
use serde_json::{Value, json};
use uuid::Uuid;

use super::fact::NewFact;
use super::{Origin, Vector, WriteError};
use crate::sql::Rows;
use crate::sql::facts::{self, FactRival};

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
}

impl Rival {
    /// Facts, each with its other wordings, which come somewhere after it. One that was forgotten by itself stands alone.
    fn all(rows: Vec<FactRival>) -> Vec<Self> {
        let mut rivals: Vec<Self> = Vec::new();
        for row in rows {
            let of = row.wording_of;
            let one = Self::of(row);
            match rivals.iter_mut().rev().find(|r| Some(r.id) == of && r.forgotten == one.forgotten) {
                Some(fact) => fact.wordings.extend(one.wordings),
                None => rivals.push(one),
            }
        }
        rivals
    }

    fn of(row: FactRival) -> Self {
        let forgotten = row.forgotten_at.is_some();
        Self {
            id: row.id,
            stranger: row.is_of_stranger(),
            active: row.holds(),
            forgotten,
            expired: !forgotten && row.validity == "expired",
            superseded: !forgotten && row.validity == "superseded",
            kind: row.kind,
            subject: row.subject,
            predicate: row.predicate,
            scope: row.scope,
            entity: row.entity_id,
            object: row.object_entity_id,
            valid_from: row.valid_from,
            valid_to: row.valid_to,
            learned: row.learned_at,
            wordings: vec![Wording {
                id: row.id,
                key: row.idempotency_key,
                source: row.source_episode_id,
                content: row.content,
                hash: row.content_hash,
                topic: row.topic_hash,
            }],
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
        other.has_words(&self.hash) || other.wordings.iter().any(|w| self.said.means(&self.about, &w.content))
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
            && text::same_subject((self.entity, &self.fact.subject), (other.entity, &other.subject))
    }

    /// The columns of its row.
    pub(super) fn row(&self, id: Uuid, origin: &Origin, superseded: Option<Uuid>) -> Value {
        let f = self.fact;
        let mut row = json!({
            "id": id, "kind": self.kind, "subject": f.subject.trim(), "predicate": self.predicate.name,
            "content": self.content, "content_hash": self.hash, "topic_hash": self.topic,
            "entity_id": self.entity, "object_entity_id": self.object,
            "importance": f.importance.clamp(0.0, 10.0), "confidence": f.confidence.clamp(0.0, 1.0),
            "permanence": f.permanence, "decay_rate": f.permanence.decay_rate(), "scope": f.scope, "tags": f.tags,
            "metadata": f.metadata, "valid_from": self.valid_from, "valid_to": f.valid_to,
            "supersedes_id": superseded, "source_butler": origin.butler, "source_episode_id": f.source_episode,
            "session_id": origin.session, "request_id": origin.request, "idempotency_key": f.idempotency_key,
            "retention_class": f.retention_class, "sensitivity": f.sensitivity,
        });
        Vector::put(f.vector.as_ref(), &mut row);
        row
    }
}

/// Those that this one is held against, those that decide first.
pub(super) async fn rivals(tx: &mut dyn Rows, origin: &Origin, coming: &Coming<'_>) -> Result<Vec<Rival>, WriteError> {
    let told: Vec<Uuid> = origin.told.iter().copied().collect();
    let (episode, key) = (coming.fact.source_episode, coming.fact.idempotency_key.as_deref());
    facts::rivals(tx, &coming.topic, &coming.hash, episode, key, &told).await.map(Rival::all)
}
