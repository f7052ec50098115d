//! Facts that were put down twice in other words. What words and vectors can't tell, a model is asked: each new fact is
//! held once against those of its subject that are most like it, and what says the same becomes one ([`merge_facts`]).
//!
//! The rows are the queue: a fact waits while its column `compared` says so, and what is found and that it was asked
//! are written in one transaction.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use serde_json::{Value, json};
use uuid::Uuid;

use super::answer::json_in;
use super::ask::ask;
use super::doubt::{Doubt, Fact, facts, parts, waiting};
use super::every_tenant;
use super::prompt::fenced;
use super::sql::TRIES;
use crate::{AskModelError, JobCall};
use base::{TenantId, Trust, crash};
use memory::sql::compare::note;
use memory::sql::upkeep::Held;
use memory::write::{Origin, WriteError, merge_facts};
use memory::{Memory, make_missing};
use store::StoreError;

const INSTRUCTION: &str = include_str!("compare.md");
/// With so many others a fact is compared.
const MOST_ALIKE: usize = 2;
/// So many neighbours are looked at for those of the same subject.
const NEIGHBOURS: usize = 24;

/// What came of comparing.
#[derive(Debug, Default)]
pub(super) struct Compared {
    pub sessions: usize,
    pub pairs: usize,
    pub merged: usize,
    pub failed: Vec<String>,
    pub given_up: i64,
}

/// One run: until no fact waits, or `sessions` were asked.
pub(super) struct Comparing<'a> {
    pub memory: &'a Arc<Memory>,
    pub call: &'a JobCall<'a>,
    pub sessions: usize,
    pub done: &'a mut Compared,
}

impl Comparing<'_> {
    pub async fn run(&mut self) -> Result<(), AskModelError> {
        let schema = self.memory.store.schema();
        let tenants = every_tenant(self.call.db, schema, self.call.tenant, Held::Uncompared).await?;
        // A page of each in turn.
        let mut turns: VecDeque<(TenantId, i64)> = tenants.into_iter().map(|tenant| (tenant, 0)).collect();
        while let Some((tenant, after)) = turns.pop_front() {
            if let Some(upto) = self.page(&tenant, after).await? {
                turns.push_back((tenant, upto));
            }
        }
        Ok(())
    }

    /// The next facts of a tenant after this number. Returns the last one's; none: it ends here.
    async fn page(&mut self, tenant: &TenantId, after: i64) -> Result<Option<i64>, AskModelError> {
        let new = waiting(self.call.db, self.memory.store.schema(), tenant, after).await?;
        let Some(last) = new.last().map(|f| f.row.seq) else { return Ok(None) };
        // Each is compared with older ones, once: none of these may be missing from the index because it is behind.
        self.memory.step(tenant).await?;
        let Some(near) = self.near(tenant, &new).await? else { return Ok(None) };
        let known = facts(self.call.db, self.memory.store.schema(), tenant, &near).await?;
        let (mut alone, mut doubts) = (Vec::new(), Vec::new());
        let mut upto = Some(last);
        for fact in &new {
            if fact.holds() && fact.row.embedding_model.as_deref() != Some(self.memory.embedder.model()) {
                // Nor may one without a vector: those after it wait for it.
                make_missing(self.memory, tenant);
                upto = None;
                break;
            }
            let mut others: Vec<(f32, &Fact)> = near[&fact.row.id]
                .iter()
                .filter_map(|id| known.get(id))
                .filter_map(|other| Some((fact.likeness(other)?, other)))
                .collect();
            others.sort_by(|(a, one), (b, other)| b.total_cmp(a).then(one.row.seq.cmp(&other.row.seq)));
            let others: Vec<&Fact> = others.into_iter().take(MOST_ALIKE).map(|(_, other)| other).collect();
            match others.is_empty() {
                true => alone.push(fact.row.id),
                false => doubts.push(Doubt { fact, others }),
            }
        }
        noted(self.memory, tenant, &alone, None).await?;
        for part in parts(doubts) {
            if self.sessions == 0 {
                return Ok(None);
            }
            self.sessions -= 1;
            let ids: Vec<Uuid> = part.iter().map(|d| d.fact.row.id).collect();
            match self.part(tenant, &part).await {
                Err(AskModelError::Failed(why)) => {
                    tracing::warn!(butler = %self.memory.butler, facts = ids.len(), "facts were not compared: {why}");
                    self.done.given_up += noted(self.memory, tenant, &ids, Some(&why)).await?;
                    self.done.failed.push(why);
                }
                other => other?,
            }
        }
        Ok(upto)
    }

    /// Of each of these the facts that may be like it; none while there is no index.
    async fn near(&self, tenant: &TenantId, new: &[Fact]) -> Result<Option<HashMap<Uuid, Vec<Uuid>>>, StoreError> {
        let mut near = HashMap::new();
        for fact in new {
            let mut ids: Vec<Uuid> = fact.before().into_iter().collect();
            if fact.holds() {
                match self.memory.nearest(tenant, &fact.vector, &fact.row.scope, NEIGHBOURS).await? {
                    Some(found) => ids.extend(found),
                    None => return Ok(None),
                }
            }
            near.insert(fact.row.id, ids);
        }
        Ok(Some(near))
    }

    async fn part(&mut self, tenant: &TenantId, part: &[Doubt<'_>]) -> Result<(), AskModelError> {
        let pairs: Vec<(&Fact, &Fact)> =
            part.iter().flat_map(|d| d.others.iter().map(|other| (d.fact, *other))).collect();
        let trust = part.first().map_or(Trust::Stranger, |d| d.fact.trust());
        let asked = ask(self.memory, self.call, tenant, trust, prompt(&pairs)).await?;
        crash::point("memory.compared");
        let same = read(asked.output.as_deref().unwrap_or_default()).map_err(AskModelError::Failed)?;
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
            if !same.contains(&number) {
                continue;
            }
            tx.execute("SAVEPOINT pair", &[]).await.map_err(failed())?;
            let done = merge_facts(&mut tx, &origin, &fact.judged(), &other.judged()).await;
            match done {
                Ok(one) => merged += usize::from(one),
                Err(WriteError::Store(e)) if e.fault().is_some() => return Err(AskModelError::Store(e)),
                // They stay two.
                Err(e) => {
                    tracing::warn!(butler = %self.memory.butler, error = %e, "two facts could not be merged");
                    tx.execute("ROLLBACK TO SAVEPOINT pair", &[]).await.map_err(failed())?;
                }
            }
        }
        let ids: Vec<Uuid> = part.iter().map(|d| d.fact.row.id).collect();
        note(&mut tx, &ids, None, TRIES).await?;
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

/// Notes that these were compared, or why they could not be. Returns how many are given up.
async fn noted(memory: &Memory, tenant: &TenantId, ids: &[Uuid], error: Option<&str>) -> Result<i64, StoreError> {
    if ids.is_empty() {
        return Ok(0);
    }
    let mut lease = memory.store.tenant(tenant).await?;
    note(&mut lease, ids, error, TRIES).await
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
