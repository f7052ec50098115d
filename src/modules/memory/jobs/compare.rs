//! Facts that were put down twice in other words. What words and vectors can't tell, a model is asked: each new fact is held
//! once against those of its subject that are most like it, and what says the same becomes one ([`merge_facts`]).
//!
//! The rows are the queue: a fact waits while its column `compared` says so, and what is found and that it was asked are
//! written in one transaction.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio_postgres::Row;
use uuid::Uuid;

use super::super::Memory;
use super::super::gate::same_subject;
use super::super::reembed;
use super::super::same::{Said, cosine};
use super::super::write::{Origin, WriteError, merge_facts};
use super::answer::json_in;
use super::ask::{Not, ask};
use super::every_tenant;
use super::prompt::fenced;
use super::queue::TRIES;
use crate::base::{TenantId, Trust, crash};
use crate::modules::JobCall;
use crate::store::{Database, StoreError};

const INSTRUCTION: &str = include_str!("compare.md");
/// So many facts are looked at before those of them that are like others are asked about.
const PAGE: i64 = 200;
/// With so many others a fact is compared.
const MOST_ALIKE: usize = 2;
/// So many neighbours are looked at for those of the same subject.
const NEIGHBOURS: usize = 24;
/// Vectors that are less alike hardly ever mean the same: of 46 facts that were told again in other words the least alike
/// stood at 0.69.
const ALIKE: f32 = 0.6;
/// Of the pairs of one session, in bytes.
const MAX_PAIRS: usize = 24_000;
/// Of one that happened then: so far apart it may still be the same, in seconds.
const APART: i64 = 12 * 3600;

/// What came of comparing.
#[derive(Debug, Default)]
pub(super) struct Compared {
    pub sessions: usize,
    pub pairs: usize,
    pub merged: usize,
    pub failed: Vec<String>,
    pub given_up: i64,
}

/// A fact as it is compared.
struct Fact {
    id: Uuid,
    seq: i64,
    trust: Trust,
    kind: String,
    subject: String,
    predicate: String,
    content: String,
    scope: String,
    entity: Option<Uuid>,
    object: Option<Uuid>,
    at: Option<Timestamp>,
    vector: Vec<i8>,
    model: Option<String>,
    supersedes: Option<Uuid>,
    validity: String,
}

const COLUMNS: &str =
    "id, seq, trust, kind, subject, predicate, content, scope, entity_id, object_entity_id, valid_from,
    embedding, embedding_model, supersedes_id, validity";

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
        }
    }

    fn holds(&self) -> bool {
        ["active", "fading"].contains(&&*self.validity)
    }

    /// The one in whose place it stands or stood.
    fn before(&self) -> Option<Uuid> {
        self.supersedes.filter(|_| ["property", "edge"].contains(&&*self.kind) && self.validity != "merged")
    }

    /// How alike the other one is that may say the same; `None`: it doesn't.
    fn likeness(&self, other: &Fact) -> Option<f32> {
        let both_hold = self.holds() && other.holds();
        let displaced = other.validity == "superseded" && self.before() == Some(other.id);
        let same_sort = self.kind == other.kind
            && self.object == other.object
            && self.scope == other.scope
            && (self.trust == Trust::Stranger) == (other.trust == Trust::Stranger)
            && same_subject((self.entity, &self.subject), (other.entity, &other.subject));
        let same_time = self.kind != "temporal"
            || match (self.at, other.at) {
                (Some(a), Some(b)) => a.duration_since(b).abs().as_secs() <= APART,
                (a, b) => a == b,
            };
        if other.seq >= self.seq || !(both_hold || displaced) || !same_sort || !same_time || self.model != other.model {
            return None;
        }
        let alike = cosine(&self.vector, &other.vector).filter(|c| *c >= ALIKE)?;
        // Whatever a model says of them: other numbers are another fact.
        Said::new(&self.content).may_mean(&other.content).then_some(alike)
    }

    fn told(&self) -> Value {
        let mut told = json!({"subject": self.subject, "predicate": self.predicate, "says": self.content});
        if let Some(at) = self.at {
            told["since"] = json!(at.to_string());
        }
        told
    }
}

/// A fact with those that are like it.
struct Doubt<'a> {
    fact: &'a Fact,
    others: Vec<&'a Fact>,
}

impl Doubt<'_> {
    fn trust(&self) -> Trust {
        self.others.iter().map(|o| o.trust).fold(self.fact.trust, Trust::min)
    }

    fn room(&self) -> usize {
        self.others.iter().map(|o| o.content.len() + self.fact.content.len() + 300).sum()
    }
}

/// One run: until no fact waits, or `sessions` were asked.
pub(super) struct Comparing<'a> {
    pub memory: &'a Arc<Memory>,
    pub call: &'a JobCall<'a>,
    pub sessions: usize,
    pub done: &'a mut Compared,
}

impl Comparing<'_> {
    pub async fn run(&mut self) -> Result<(), Not> {
        let schema = self.memory.store.schema();
        let waiting = ["memory_facts WHERE compared = 'pending' AND forgotten_at IS NULL"];
        for tenant in every_tenant(self.call.db, schema, self.call.tenant, &waiting).await? {
            let mut after = 0;
            while let Some(upto) = self.page(&tenant, after).await? {
                after = upto;
            }
        }
        Ok(())
    }

    /// The next facts of a tenant after this number. Returns the last one's; none: it ends here.
    async fn page(&mut self, tenant: &TenantId, after: i64) -> Result<Option<i64>, Not> {
        let new = waiting(self.call.db, self.memory.store.schema(), tenant, after).await?;
        let Some(last) = new.last().map(|f| f.seq) else { return Ok(None) };
        let Some(near) = self.near(tenant, &new).await? else { return Ok(None) };
        let known = facts(self.call.db, self.memory.store.schema(), tenant, &near).await?;
        let (mut alone, mut doubts) = (Vec::new(), Vec::new());
        for fact in &new {
            if fact.holds() && fact.model.as_deref() != Some(self.memory.embedder.model()) {
                reembed::begin(self.memory, tenant);
                continue;
            }
            let mut others: Vec<(f32, &Fact)> = near[&fact.id]
                .iter()
                .filter_map(|id| known.get(id))
                .filter_map(|other| Some((fact.likeness(other)?, other)))
                .collect();
            others.sort_by(|(a, one), (b, other)| b.total_cmp(a).then(one.seq.cmp(&other.seq)));
            let others: Vec<&Fact> = others.into_iter().take(MOST_ALIKE).map(|(_, other)| other).collect();
            match others.is_empty() {
                true => alone.push(fact.id),
                false => doubts.push(Doubt { fact, others }),
            }
        }
        noted(self.memory, tenant, &alone, None).await?;
        for part in parts(doubts) {
            if self.sessions == 0 {
                return Ok(None);
            }
            self.sessions -= 1;
            let ids: Vec<Uuid> = part.iter().map(|d| d.fact.id).collect();
            match self.part(tenant, &part).await {
                Err(Not::Failed(why)) => {
                    tracing::warn!(butler = %self.memory.butler, facts = ids.len(), "facts were not compared: {why}");
                    self.done.given_up += noted(self.memory, tenant, &ids, Some(&why)).await?;
                    self.done.failed.push(why);
                }
                other => other?,
            }
        }
        Ok(Some(last))
    }

    /// Of each of these the facts that may be like it; none while there is no index.
    async fn near(&self, tenant: &TenantId, new: &[Fact]) -> Result<Option<HashMap<Uuid, Vec<Uuid>>>, StoreError> {
        let mut near = HashMap::new();
        for fact in new {
            let mut ids: Vec<Uuid> = fact.before().into_iter().collect();
            if fact.holds() {
                match self.memory.nearest(tenant, &fact.vector, &fact.scope, NEIGHBOURS).await? {
                    Some(found) => ids.extend(found),
                    None => return Ok(None),
                }
            }
            near.insert(fact.id, ids);
        }
        Ok(Some(near))
    }

    async fn part(&mut self, tenant: &TenantId, part: &[Doubt<'_>]) -> Result<(), Not> {
        let pairs: Vec<(&Fact, &Fact)> =
            part.iter().flat_map(|d| d.others.iter().map(|other| (d.fact, *other))).collect();
        let trust = part.iter().map(Doubt::trust).min().unwrap_or(Trust::Stranger).min(Trust::System);
        let asked = ask(self.memory, self.call, tenant, trust, prompt(&pairs)).await?;
        crash::point("memory.compared");
        let same = read(asked.output.as_deref().unwrap_or_default()).map_err(Not::Failed)?;
        let origin = Origin {
            butler: self.memory.butler.to_string(),
            actor: "consolidation".to_owned(),
            session: Some(asked.session.0),
            request: Some(asked.request.request_id.0),
            ..Origin::default()
        };
        const STEP: &str = "making facts one";
        let failed = || StoreError::query(STEP);
        let mut lease = self.memory.store.lease(&asked.request).await?;
        let mut tx = lease.begin().await.map_err(failed())?;
        let mut merged = 0;
        for (number, (fact, other)) in (1..).zip(&pairs) {
            if same.contains(&number) && merge_facts(&mut tx, &origin, fact.id, other.id).await.map_err(refused)? {
                merged += 1;
            }
        }
        let ids: Vec<Uuid> = part.iter().map(|d| d.fact.id).collect();
        tx.query(NOTED, &[&ids, &None::<&str>, &TRIES]).await.map_err(failed())?;
        crash::point("memory.before_merge");
        tx.commit().await.map_err(failed())?;
        drop(lease);
        self.memory.step(tenant).await?;
        self.done.sessions += 1;
        self.done.pairs += pairs.len();
        self.done.merged += merged;
        Ok(())
    }
}

fn refused(e: WriteError) -> Not {
    match e {
        WriteError::Store(e) => Not::Store(e),
        WriteError::Refused { message, .. } => Not::Failed(message),
    }
}

const NOTED: &str = "SELECT memory_compared($1, $2, $3)";

/// Notes that these were compared, or why they could not be. Returns how many are given up.
async fn noted(memory: &Memory, tenant: &TenantId, ids: &[Uuid], error: Option<&str>) -> Result<i64, StoreError> {
    if ids.is_empty() {
        return Ok(0);
    }
    let mut lease = memory.store.tenant(tenant).await?;
    let rows = lease.query(NOTED, &[&ids, &error, &TRIES]).await;
    let rows = rows.map_err(StoreError::query("noting that facts were compared"))?;
    Ok(rows.first().map_or(0, |row| row.get(0)))
}

async fn waiting(db: &Database, schema: &str, tenant: &TenantId, after: i64) -> Result<Vec<Fact>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM \"{schema}\".memory_facts
         WHERE tenant_id = $1 AND compared = 'pending' AND forgotten_at IS NULL AND seq > $2 ORDER BY seq LIMIT $3"
    );
    let mut lease = db.shared(tenant).await?;
    let rows = lease.read(&sql, &[&tenant.as_str(), &after, &PAGE]).await;
    Ok(rows.map_err(StoreError::query("looking for facts to compare"))?.iter().map(Fact::of).collect())
}

async fn facts(
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

/// Apart by how far they are believed, so that nobody's words stand beside those of somebody who is believed more; and cut
/// to what a session can read.
fn parts(doubts: Vec<Doubt<'_>>) -> Vec<Vec<Doubt<'_>>> {
    let mut groups: BTreeMap<Trust, Vec<Vec<Doubt<'_>>>> = BTreeMap::new();
    let mut left: BTreeMap<Trust, usize> = BTreeMap::new();
    for doubt in doubts {
        let (group, left) = (groups.entry(doubt.trust()).or_default(), left.entry(doubt.trust()).or_default());
        let wants = doubt.room();
        if group.is_empty() || *left < wants {
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

fn prompt(pairs: &[(&Fact, &Fact)]) -> String {
    let lines =
        (1..).zip(pairs).map(|(n, (fact, other))| json!({"pair": n, "one": other.told(), "other": fact.told()}));
    fenced(INSTRUCTION, "one pair a line", lines)
}

/// The numbers of the pairs that are the same. The error says why nothing of the answer can be used.
fn read(answer: &str) -> Result<Vec<u64>, String> {
    let value = json_in(answer)?;
    let same = value.get("same").and_then(Value::as_array);
    let same = same.ok_or("the model's answer has no list `same`, which was asked for")?;
    Ok(same.iter().filter_map(|n| n.as_u64().or_else(|| n.as_str()?.trim().parse().ok())).collect())
}
