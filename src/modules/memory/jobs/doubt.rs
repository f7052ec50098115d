//! Facts that may say the same as others, as they are read and put together.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use memory::sql::compare::{self, ComparedFact};
use serde_json::{Value, json};
use uuid::Uuid;

use base::{TenantId, Trust};
use memory::write::Judged;
use memory_index::same::{Said, cosine};
use memory_index::text::same_subject;
use store::{Database, StoreError};

/// So many facts are looked at before those of them that are like others are asked about.
const PAGE: i64 = 200;
/// Vectors that are less alike hardly ever mean the same: of 46 facts that were told again in other words the least
/// alike stood at 0.69.
const ALIKE: f32 = 0.6;
/// Of the pairs of one session, in bytes.
const MAX_PAIRS: usize = 24_000;

/// A fact as it is compared.
pub(super) struct Fact {
    pub(super) row: ComparedFact,
    pub(super) vector: Vec<i8>,
    trust: Trust,
}

impl Fact {
    fn of(row: ComparedFact) -> Self {
        let vector = row.embedding.iter().flatten().map(|b| b.cast_signed()).collect();
        Self { trust: Trust::from_name(&row.trust), vector, row }
    }

    pub(super) fn judged(&self) -> Judged {
        let row = &self.row;
        Judged { id: row.id, content_hash: row.content_hash.clone(), topic_hash: row.topic_hash.clone() }
    }

    /// How far it is believed, where the house's own words and its owner's stand alike.
    pub(super) fn trust(&self) -> Trust {
        self.trust.min(Trust::System)
    }

    pub(super) fn holds(&self) -> bool {
        ["active", "fading"].contains(&&*self.row.validity)
    }

    /// The one in whose place it stands or stood.
    pub(super) fn before(&self) -> Option<Uuid> {
        let row = &self.row;
        row.supersedes_id.filter(|_| ["property", "edge"].contains(&&*row.kind) && row.validity != "merged")
    }

    /// How alike the other one is that may say the same; `None`: it doesn't.
    pub(super) fn likeness(&self, other: &Fact) -> Option<f32> {
        let (a, b) = (&self.row, &other.row);
        let both_hold = self.holds() && other.holds();
        let displaced = b.validity == "superseded" && self.before() == Some(b.id);
        let same_sort = a.kind == b.kind
            && a.object_entity_id == b.object_entity_id
            && a.scope == b.scope
            && a.sensitivity == b.sensitivity
            && a.retention_class == b.retention_class
            && self.trust() == other.trust()
            && same_subject((a.entity_id, &a.subject), (b.entity_id, &b.subject))
            // What happened at another time is something else, in whatever words.
            && (a.kind != "temporal" || a.valid_from == b.valid_from);
        if b.seq >= a.seq || !(both_hold || displaced) || !same_sort || a.embedding_model != b.embedding_model {
            return None;
        }
        let alike = cosine(&self.vector, &other.vector).filter(|c| *c >= ALIKE)?;
        // Whatever a model says of them: other numbers are another fact.
        Said::new(&a.content).may_mean(&b.content).then_some(alike)
    }

    pub(super) fn told(&self) -> Value {
        let row = &self.row;
        let mut told = json!({"subject": row.subject, "predicate": row.predicate, "says": row.content});
        if let Some(at) = row.valid_from {
            told[if row.kind == "temporal" { "at" } else { "since" }] = json!(at.to_string());
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
        self.others.iter().map(|o| o.row.content.len() + self.fact.row.content.len() + 300).sum()
    }
}

/// The next facts of a tenant that wait, after this number.
pub(super) async fn waiting(
    db: &Database,
    schema: &str,
    tenant: &TenantId,
    after: i64,
) -> Result<Vec<Fact>, StoreError> {
    let rows = compare::waiting(db, schema, tenant, after, PAGE).await?;
    Ok(rows.into_iter().map(Fact::of).collect())
}

/// Those that may be like them, by their ids.
pub(super) async fn facts(
    db: &Database,
    schema: &str,
    tenant: &TenantId,
    near: &HashMap<Uuid, Vec<Uuid>>,
) -> Result<HashMap<Uuid, Fact>, StoreError> {
    let ids: Vec<Uuid> = near.values().flatten().copied().collect();
    let rows = compare::by_id(db, schema, tenant, &ids).await?;
    Ok(rows.into_iter().map(|row| (row.id, Fact::of(row))).collect())
}

/// Apart by how far they are believed, so that nobody's words stand beside those of somebody who is believed more,
/// those of whom most is believed first; and cut to what a session can read. What failed once stands apart from what is
/// new, and alone when it failed again, so that it takes no other along.
pub(super) fn parts(doubts: Vec<Doubt<'_>>) -> Vec<Vec<Doubt<'_>>> {
    let mut groups: BTreeMap<(i32, Reverse<Trust>), Vec<Vec<Doubt<'_>>>> = BTreeMap::new();
    let mut left: BTreeMap<(i32, Reverse<Trust>), usize> = BTreeMap::new();
    for doubt in doubts {
        let key = (doubt.fact.row.compare_attempts.min(2), Reverse(doubt.fact.trust()));
        let (group, left) = (groups.entry(key).or_default(), left.entry(key).or_default());
        let needed = doubt.room();
        if group.is_empty() || *left < needed || key.0 == 2 {
            group.push(Vec::new());
            *left = MAX_PAIRS;
        }
        *left = left.saturating_sub(needed);
        if let Some(part) = group.last_mut() {
            part.push(doubt);
        }
    }
    groups.into_values().flatten().collect()
}
