//! Writes down what a session has learned: all of it, and the end of its episodes, in one transaction.

use std::collections::HashSet;
use std::ops::AddAssign;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use super::answer::{self, Learned, Skipped};
use super::prompt::{KnownMemories, scope_of};
use super::sql::{Episode, claimed, consolidated};
use crate::AskModelError;
use base::{RequestContext, SessionId, crash};
use memory::Memory;
use memory::sql::known::KnownFact;
use memory::sql::link;
use memory::write::{
    self, Edit, Kind, NewFact, NewRule, Origin, Outcome, Permanence, Vector, WriteError, store_fact, store_rule,
};
use memory_index::rank::fact_text;
use memory_index::rank::spoken;
use store::{StoreError, Tx};

const STEP: &str = "writing what was learned";

/// What is written down, on whose behalf.
pub(super) struct Writing<'a> {
    pub request: &'a Arc<RequestContext>,
    pub session: SessionId,
    pub claim: Uuid,
    pub part: &'a [Episode],
    pub known: &'a KnownMemories,
}

/// What became of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wrote {
    pub facts: usize,
    pub updated: usize,
    pub rules: usize,
    pub confirmed: usize,
}

impl AddAssign for Wrote {
    fn add_assign(&mut self, more: Self) {
        self.facts += more.facts;
        self.updated += more.updated;
        self.rules += more.rules;
        self.confirmed += more.confirmed;
    }
}

/// A transaction with what it is about.
struct Page<'a, 't> {
    tx: Tx<'t>,
    origin: Origin,
    /// Episodes that are still there.
    live: HashSet<Uuid>,
    told: HashSet<Uuid>,
    part: &'a [Episode],
    skipped: &'a mut Skipped,
    wrote: Wrote,
}

/// Writes it down. Returns what that came to, and how many episodes are settled by it.
pub(super) async fn write(
    memory: &Arc<Memory>,
    writing: &Writing<'_>,
    learned: Learned,
    skipped: &mut Skipped,
) -> Result<(Wrote, usize), AskModelError> {
    let Writing { request, session, claim, part, known } = writing;
    // Before the lock: nobody waits for vectors.
    let facts =
        with_vectors(memory, learned.facts, |f| (Some(f.subject.clone()), fact_text(&f.predicate, &f.content))).await;
    let updates = learned.updates.into_iter().filter_map(|u| Some((known.fact(u.target)?, u))).collect::<Vec<_>>();
    let updates =
        with_vectors(memory, updates, |(old, u)| (Some(old.subject.clone()), fact_text(&old.predicate, &u.content)))
            .await;
    let rules = with_vectors(memory, learned.rules, |r| (None, r.content.clone())).await;

    let mut lease = memory.store.lease(request).await?;
    let mut tx = lease.begin().await.map_err(StoreError::query(STEP))?;
    let ids: Vec<Uuid> = part.iter().map(|e| e.id).collect();
    let live = claimed(&mut tx, *claim, &ids).await?;
    if live.is_empty() {
        // All were forgotten meanwhile, or somebody else has taken them over.
        tx.rollback().await.map_err(StoreError::query(STEP))?;
        return Ok((Wrote::default(), 0));
    }
    let sessions = part.iter().filter_map(|e| e.session);
    // What memory told to the very sessions that the episodes are of is no evidence of itself.
    let told: HashSet<Uuid> =
        sessions.flat_map(|s| memory.told(SessionId(s))).chain(known.told.iter().copied()).collect();
    let origin = Origin {
        butler: memory.butler.to_string(),
        actor: "consolidation".to_owned(),
        session: Some(session.0),
        request: Some(request.request_id.0),
        // Nor is what it was shown beside them: what they bear out it names as confirmed.
        told: told
            .iter()
            .chain(known.facts.iter().map(|f| &f.id))
            .chain(known.rules.iter().map(|(id, _)| id))
            .copied()
            .collect(),
    };
    skipped.take_in(learned.skipped);
    let mut page = Page { tx, origin, live, told, part, skipped, wrote: Wrote::default() };
    for (fact, vector) in facts {
        page.fact(fact, vector).await?;
    }
    for ((old, update), vector) in updates {
        page.update(old, update, vector).await?;
    }
    for (rule, vector) in rules {
        page.rule(rule, vector).await?;
    }
    for id in learned.confirmations {
        page.confirm(id, known).await?;
    }
    let Page { mut tx, live, wrote, .. } = page;
    let settled: Vec<Uuid> = live.into_iter().collect();
    consolidated(&mut tx, *claim, &settled).await?;
    crash::point("memory.before_settle");
    tx.commit().await.map_err(StoreError::query(STEP))?;
    drop(lease);
    if let Err(e) = memory.step(&request.tenant_id).await {
        // The next search reads on.
        tracing::warn!(butler = %memory.butler, error = %e, "learned facts are not searchable yet");
    }
    Ok((wrote, settled.len()))
}

/// Each with the vector of its text, where one can be made just now.
async fn with_vectors<T>(
    memory: &Arc<Memory>,
    items: Vec<T>,
    text: impl Fn(&T) -> (Option<String>, String),
) -> Vec<(T, Option<Vector>)> {
    let texts: Vec<(Option<String>, String)> = items.iter().map(text).collect();
    let texts: Vec<String> = texts.iter().map(|(about, said)| spoken(about.as_deref(), said)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let vectors = if texts.is_empty() { Ok(Vec::new()) } else { memory.embedder.embed(&texts).await };
    let mut vectors = vectors
        .unwrap_or_else(|e| {
            tracing::warn!(butler = %memory.butler, error = %e, "learned facts were stored without vectors for now");
            Vec::new()
        })
        .into_iter();
    let model = memory.embedder.model();
    let vector = |numbers| Vector { model: model.to_owned(), numbers };
    items.into_iter().map(|item| (item, vectors.next().map(vector))).collect()
}

impl Page<'_, '_> {
    async fn run(&mut self, sql: &str) -> Result<(), AskModelError> {
        self.tx.execute(sql, &[]).await.map(drop).map_err(|e| AskModelError::Store(StoreError::query(STEP)(e)))
    }

    /// Whether all of the evidence is still there.
    fn holds(&mut self, evidence: &[Uuid]) -> bool {
        let all = evidence.iter().all(|id| self.live.contains(id));
        if !all {
            self.skipped.add("of episodes that were forgotten meanwhile");
        }
        all
    }

    /// When the last of these episodes happened.
    fn said(&self, evidence: &[Uuid]) -> Option<Timestamp> {
        self.part.iter().filter(|e| evidence.contains(&e.id)).map(|e| e.occurred_at).max()
    }

    /// Ends an item that began at its savepoint: one that was refused leaves nothing behind.
    async fn settled<T>(&mut self, done: Result<T, WriteError>) -> Result<Option<T>, AskModelError> {
        let why = match done {
            Ok(done) => {
                self.run("RELEASE SAVEPOINT item").await?;
                return Ok(Some(done));
            }
            Err(WriteError::Store(e)) if e.fault().is_some() => return Err(AskModelError::Store(e)),
            Err(WriteError::Store(e)) => {
                tracing::warn!(error = %e, "a learned fact could not be stored");
                "that the database refused"
            }
            Err(WriteError::Refused { code: "not_remembered", .. }) => "not worth or not fit to be kept",
            Err(WriteError::Refused { code: "forgotten", .. }) => "forgotten on purpose before",
            Err(WriteError::Refused { code: "untrusted", .. }) => "against what the household knows better",
            Err(WriteError::Refused { message, .. }) => {
                tracing::debug!("a learned fact was refused: {message}");
                "refused"
            }
        };
        self.run("ROLLBACK TO SAVEPOINT item").await?;
        self.skipped.add(why);
        Ok(None)
    }

    /// Ties a memory to the episodes that say so.
    async fn evidence(
        &mut self,
        kind: Kind,
        id: Uuid,
        outcome: Outcome,
        evidence: &[Uuid],
    ) -> Result<(), AskModelError> {
        for episode in evidence {
            let (memory, episode) = ((kind, id), (Kind::Episode, *episode));
            match outcome {
                Outcome::Stored => link(&mut self.tx, memory, episode, "derived_from").await?,
                Outcome::Confirmed => link(&mut self.tx, episode, memory, "supports").await?,
                Outcome::Known | Outcome::Repeated => return Ok(()),
            }
        }
        Ok(())
    }

    fn count(&mut self, outcome: Outcome, new: fn(&mut Wrote) -> &mut usize) {
        match outcome {
            Outcome::Stored => *new(&mut self.wrote) += 1,
            Outcome::Confirmed => self.wrote.confirmed += 1,
            Outcome::Known | Outcome::Repeated => self.skipped.add("known already"),
        }
    }

    async fn fact(&mut self, fact: answer::NewFact, vector: Option<Vector>) -> Result<(), AskModelError> {
        if !self.holds(&fact.evidence) {
            return Ok(());
        }
        let new = NewFact {
            importance: fact.importance,
            permanence: Permanence::from_name(&fact.permanence).unwrap_or_default(),
            tags: fact.tags,
            entity: fact.entity_id,
            object: fact.object_entity_id,
            valid_at: fact.valid_at,
            said_at: self.said(&fact.evidence),
            source_episode: fact.evidence.first().copied(),
            scope: scope_of(self.part).to_owned(),
            vector,
            ..NewFact::new(&fact.subject, &fact.predicate, &fact.content)
        };
        self.run("SAVEPOINT item").await?;
        let done = store_fact(&mut self.tx, &self.origin, &new).await;
        if let Some(stored) = self.settled(done).await? {
            self.evidence(Kind::Fact, stored.id, stored.status, &fact.evidence).await?;
            self.count(stored.status, |w| &mut w.facts);
        }
        Ok(())
    }

    /// A property gets its new value, and keeps the old one as what was; all else is put right in its place.
    async fn update(
        &mut self,
        old: &KnownFact,
        update: answer::Update,
        vector: Option<Vector>,
    ) -> Result<(), AskModelError> {
        if !self.holds(&update.evidence) {
            return Ok(());
        }
        let permanence = update.permanence.as_deref().unwrap_or(&old.permanence);
        self.run("SAVEPOINT item").await?;
        let (id, outcome) = if ["property", "edge"].contains(&old.kind.as_str()) {
            let new = NewFact {
                importance: f64::from(old.importance),
                permanence: Permanence::from_name(permanence).unwrap_or_default(),
                scope: old.scope.clone(),
                tags: old.tags.clone(),
                entity: old.entity_id,
                object: old.object_entity_id,
                said_at: self.said(&update.evidence),
                source_episode: update.evidence.first().copied(),
                retention_class: Some(old.retention_class.clone()),
                sensitivity: Some(old.sensitivity.clone()),
                metadata: json!({"updates": old.id}),
                vector,
                ..NewFact::new(&old.subject, &old.predicate, &update.content)
            };
            let done = store_fact(&mut self.tx, &self.origin, &new).await;
            let Some(stored) = self.settled(done).await? else { return Ok(()) };
            (stored.id, stored.status)
        } else {
            let edit = Edit { content: Some(update.content), vector, ..Edit::default() };
            let done =
                write::edit(&mut self.tx, &self.origin, Kind::Fact, old.id, &edit, Some("episodes say otherwise"))
                    .await;
            if self.settled(done).await?.is_none() {
                return Ok(());
            }
            (old.id, Outcome::Stored)
        };
        self.evidence(Kind::Fact, id, outcome, &update.evidence).await?;
        self.count(outcome, |w| &mut w.updated);
        Ok(())
    }

    async fn rule(&mut self, rule: answer::NewRule, vector: Option<Vector>) -> Result<(), AskModelError> {
        if !self.holds(&rule.evidence) {
            return Ok(());
        }
        let new = NewRule {
            tags: rule.tags,
            source_episode: rule.evidence.first().copied(),
            vector,
            ..NewRule::new(&rule.content)
        };
        self.run("SAVEPOINT item").await?;
        let done = store_rule(&mut self.tx, &self.origin, &new).await;
        if let Some(stored) = self.settled(done).await? {
            self.evidence(Kind::Rule, stored.id, stored.status, &rule.evidence).await?;
            self.count(stored.status, |w| &mut w.rules);
        }
        Ok(())
    }

    async fn confirm(&mut self, id: Uuid, known: &KnownMemories) -> Result<(), AskModelError> {
        if self.told.contains(&id) {
            // It was in the episode because memory had told it.
            self.skipped.add("told by memory itself");
            return Ok(());
        }
        let kind = if known.fact(id).is_some() { Kind::Fact } else { Kind::Rule };
        self.run("SAVEPOINT item").await?;
        let done = write::confirm(&mut self.tx, &self.origin, kind, id).await;
        if self.settled(done).await?.is_some() {
            self.wrote.confirmed += 1;
        }
        Ok(())
    }
}
