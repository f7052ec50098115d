//! Facts that may say the same as others, as they are read and put together.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio_postgres::Row;
use uuid::Uuid;

use super::super::gate::same_subject;
use super::super::same::{Said, cosine};
use super::super::write::Judged;
use base::{TenantId, Trust};
use store::{Database, StoreError};

/// So many facts are looked at before those of them that are like others are asked about.
const PAGE: i64 = 200;
/// Vectors that are less alike hardly ever mean the same: of 46 facts that were told again in other words the least alike
/// stood at 0.69.
const ALIKE: f32 = 0.6;
/// Of the pairs of one session, in bytes.
const MAX_PAIRS: usize = 24_000;

/// A fact as it is compared.
pub(super) struct Fact {
    pub(super) id: Uuid,
    pub(super) seq: i64,
    trust: Trust,
    kind: String,
    subject: String,
    predicate: String,
    content: String,
    pub(super) scope: String,
    entity: Option<Uuid>,
    object: Option<Uuid>,
    at: Option<Timestamp>,
    pub(super) vector: Vec<i8>,
    pub(super) model: Option<String>,
    supersedes: Option<Uuid>,
    validity: String,
    content_hash: String,
    topic_hash: String,
    sensitivity: String,
    retention_class: String,
    /// How often it could not be asked.
    attempts: i32,
}

const COLUMNS: &str =
    "id, seq, trust, kind, subject, predicate, content, scope, entity_id, object_entity_id, valid_from,
    embedding, embedding_model, supersedes_id, validity, content_hash, topic_hash, sensitivity, retention_class,
    compare_attempts";

impl Fact {
    fn of(row: &Row) -> Self {
        let bytes: Option<&[u8]> = row.get("embedding");
        Self {
            id: row.get("id"),
            seq: row.get("seq"),
            trust: Trust::from_name(row.get("trust")),
            kind: row.get("kind"),
            subject: row.get("subject"),
            predicate: row.get("predicate"),
            content: row.get("content"),
            scope: row.get("scope"),
            entity: row.get("entity_id"),
            object: row.get("object_entity_id"),
            at: row.get("valid_from"),
            vector: bytes.unwrap_or_default().iter().map(|b| b.cast_signed()).collect(),
            model: row.get("embedding_model"),
            supersedes: row.get("supersedes_id"),
            validity: row.get("validity"),
            content_hash: row.get("content_hash"),
            topic_hash: row.get("topic_hash"),
            sensitivity: row.get("sensitivity"),
            retention_class: row.get("retention_class"),
            attempts: row.get("compare_attempts"),
        }
    }

    pub(super) fn judged(&self) -> Judged {
        Judged { id: self.id, content_hash: self.content_hash.clone(), topic_hash: self.topic_hash.clone() }
    }

    /// How far it is believed, where the house's own words and its owner's stand alike.
    pub(super) fn trust(&self) -> Trust {
        self.trust.min(Trust::System)
    }

    pub(super) fn holds(&self) -> bool {
        ["active", "fading"].contains(&&*self.validity)
    }

    /// The one in whose place it stands or stood.
    pub(super) fn before(&self) -> Option<Uuid> {
        self.supersedes.filter(|_| ["property", "edge"].contains(&&*self.kind) && self.validity != "merged")
    }

    /// How alike the other one is that may say the same; `None`: it doesn't.
    pub(super) fn likeness(&self, other: &Fact) -> Option<f32> {
        let both_hold = self.holds() && other.holds();
        let displaced = other.validity == "superseded" && self.before() == Some(other.id);
        let same_sort = self.kind == other.kind
            && self.object == other.object
            && self.scope == other.scope
            && self.sensitivity == other.sensitivity
            && self.retention_class == other.retention_class
            && self.trust() == other.trust()
            && same_subject((self.entity, &self.subject), (other.entity, &other.subject))
            // What happened at another time is something else, in whatever words.
            && (self.kind != "temporal" || self.at == other.at);
        if other.seq >= self.seq || !(both_hold || displaced) || !same_sort || self.model != other.model {
            return None;
        }
        let alike = cosine(&self.vector, &other.vector).filter(|c| *c >= ALIKE)?;
        // Whatever a model says of them: other numbers are another fact.
        Said::new(&self.content).may_mean(&other.content).then_some(alike)
    }

    pub(super) fn told(&self) -> Value {
        let mut told = json!({"subject": self.subject, "predicate": self.predicate, "says": self.content});
        if let Some(at) = self.at {
            told[if self.kind == "temporal" { "at" } else { "since" }] = json!(at.to_string());
        }
        told
    }
}

/// A fact with those that are like it.
pub(super) struct Doubt<'a> {
    pub(super) fact: &'a Fact,
    pub(super) others: Vec<&'a Fact>,
}

impl Doubt<'_> {
    fn room(&self) -> usize {
        self.others.iter().map(|o| o.content.len() + self.fact.content.len() + 300).sum()
    }
}

pub(super) async fn waiting(
    db: &Database,
    schema: &str,
    tenant: &TenantId,
    after: i64,
) -> Result<Vec<Fact>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM \"{schema}\".memory_facts
         WHERE tenant_id = $1 AND compared = 'pending' AND forgotten_at IS NULL AND seq > $2 ORDER BY seq LIMIT $3"
    );
    let mut lease = db.shared(tenant).await?;
    let rows = lease.read(&sql, &[&tenant.as_str(), &after, &PAGE]).await;
    Ok(rows.map_err(StoreError::query("looking for facts to compare"))?.iter().map(Fact::of).collect())
}

pub(super) async fn facts(
    db: &Database,
    schema: &str,
    tenant: &TenantId,
    near: &HashMap<Uuid, Vec<Uuid>>,
) -> Result<HashMap<Uuid, Fact>, StoreError> {
    let ids: Vec<Uuid> = near.values().flatten().copied().collect();
    let sql = format!(
        "SELECT {COLUMNS} FROM \"{schema}\".memory_facts WHERE tenant_id = $1 AND id = ANY($2) AND forgotten_at IS NULL"
    );
    let mut lease = db.shared(tenant).await?;
    let rows = lease.read(&sql, &[&tenant.as_str(), &ids]).await;
    let rows = rows.map_err(StoreError::query("reading the facts to compare with"))?;
    Ok(rows.iter().map(Fact::of).map(|fact| (fact.id, fact)).collect())
}

/// Apart by how far they are believed, so that nobody's words stand beside those of somebody who is believed more, those
/// of whom most is believed first; and cut to what a session can read. What failed once stands apart from what is new, and
/// alone when it failed again, so that it takes no other along.
pub(super) fn parts(doubts: Vec<Doubt<'_>>) -> Vec<Vec<Doubt<'_>>> {
    let mut groups: BTreeMap<(i32, Reverse<Trust>), Vec<Vec<Doubt<'_>>>> = BTreeMap::new();
    let mut left: BTreeMap<(i32, Reverse<Trust>), usize> = BTreeMap::new();
    for doubt in doubts {
        let key = (doubt.fact.attempts.min(2), Reverse(doubt.fact.trust()));
        let (group, left) = (groups.entry(key).or_default(), left.entry(key).or_default());
        let wants = doubt.room();
        if group.is_empty() || *left < wants || key.0 == 2 {
            group.push(Vec::new());
            *left = MAX_PAIRS;
        }
        *left = left.saturating_sub(wants);
        if let Some(part) = group.last_mut() {
            part.push(doubt);
        }
    }
    groups.into_values().flatten().collect()
}
