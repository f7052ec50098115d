//! A fact on its way in, and how it compares with those that are there.

use jiff::Timestamp;
use memory_index::predicates::Predicate;
use memory_index::same::{About, Said};
use memory_index::text;
use serde_json::{Value, json};
use uuid::Uuid;

use super::rival::Rival;
use super::{Origin, Permanence, Vector, WriteError};
use crate::sql::Rows;
use crate::sql::facts;

/// A fact that is to be stored.
#[derive(Clone, Debug, Default)]
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
    /// Of its words and its subject, as [`spoken`](memory_index::rank::spoken) puts them.
    pub vector: Option<Vector>,
    /// It is held against what has the same words alone. Where one subject has thousands of facts under one predicate,
    /// each would be read for the next.
    pub by_words: bool,
    /// Somebody says it again on purpose: that it was forgotten once does not keep it out.
    pub again: bool,
    /// What it is to be known by, and since when, where that is not for the writer to say: it comes from elsewhere, say.
    pub brought: Option<Brought>,
}

/// What a fact has from whoever brought it.
#[derive(Clone, Debug)]
pub struct Brought {
    pub id: Uuid,
    pub created_at: Timestamp,
    /// How often it was recalled before.
    pub reference_count: i32,
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
            scope: "global".to_owned(),
            metadata: json!({}),
            ..Self::default()
        }
    }
}

/// A fact on its way in, with all that was found out about it.
pub(super) struct Candidate<'a> {
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

impl Candidate<'_> {
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
        if let Some(Brought { created_at, reference_count, .. }) = &f.brought {
            row["created_at"] = json!(created_at);
            row["learned_at"] = json!(created_at);
            row["reference_count"] = json!(reference_count);
        }
        Vector::put(f.vector.as_ref(), &mut row);
        row
    }
    /// Those that this one is held against, those that decide first.
    pub(super) async fn rivals(&self, tx: &mut dyn Rows, origin: &Origin) -> Result<Vec<Rival>, WriteError> {
        let told: Vec<Uuid> = origin.told.iter().copied().collect();
        let (episode, key) = (self.fact.source_episode, self.fact.idempotency_key.as_deref());
        facts::rivals(tx, &self.topic, &self.hash, episode, key, &told).await.map(Rival::all)
    }
}
