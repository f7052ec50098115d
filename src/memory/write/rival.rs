//! The facts that a new one is held against.

use jiff::Timestamp;
use uuid::Uuid;

use crate::sql::facts::FactRival;

/// A fact that a new one is compared with.
pub(super) struct Rival {
    pub(super) id: Uuid,
    pub(super) kind: String,
    pub(super) subject: String,
    pub(super) predicate: String,
    pub(super) scope: String,
    /// Its own words, and others that were found to say the same.
    pub(super) wordings: Vec<Wording>,
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
pub(super) struct Wording {
    id: Uuid,
    key: Option<String>,
    source: Option<Uuid>,
    pub(super) content: String,
    hash: String,
    pub(super) topic: String,
}

impl Rival {
    /// Facts, each with its other wordings, which come somewhere after it. One that was forgotten by itself stands
    /// alone.
    pub(super) fn all(rows: Vec<FactRival>) -> Vec<Self> {
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
