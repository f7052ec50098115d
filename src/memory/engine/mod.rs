//! One butler's memory: its embedder, its indexes, and the way from a question to memories.

mod vectors;

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use base::{ButlerName, SessionId, TenantId, task};
use memory_index::Kind;
use memory_index::embed::{EmbedError, Embedder};
use memory_index::rank::{Filter, Mode, Query, Weights};
use store::{Store, StoreError};

pub use vectors::make_missing;

use crate::ask::{Answered, Ask, Found};
use crate::shard::{Shard, Shards};
use crate::sql::{Reader, fulltext};

/// A question waits so long for an index that is being made; then the database's full text answers.
const PATIENCE: Duration = Duration::from_millis(5);

/// So long where nobody waits for the answer.
const LONG_PATIENCE: Duration = Duration::from_secs(60);

/// How a memory is searched and kept.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub weights: Weights,
    /// Nobody waits longer for the vector of a question.
    pub question_within: Duration,
    /// In bytes: what the indexes of all tenants may take together.
    pub index_bytes: u64,
}

/// One butler's memory. Shared by its tools, its jobs and its hooks.
pub struct Memory {
    pub butler: ButlerName,
    options: Options,
    pub store: Store,
    pub embedder: Arc<dyn Embedder>,
    shards: Shards,
    /// Whose missing vectors are being made.
    embedding: Mutex<HashSet<TenantId>>,
    /// What searches have shown to sessions, the oldest session first.
    told: Mutex<VecDeque<(SessionId, Vec<Uuid>)>>,
}

/// Of so many sessions it is known what searches have shown them.
const SESSIONS: usize = 256;

impl Memory {
    pub fn new(butler: &ButlerName, options: Options, store: &Store, embedder: Arc<dyn Embedder>) -> Self {
        let shards = Shards::new(embedder.dim(), store.time_zone().clone(), options.index_bytes);
        Self {
            butler: butler.clone(),
            options,
            store: store.clone(),
            embedder,
            shards,
            embedding: Mutex::default(),
            told: Mutex::default(),
        }
    }

    /// The vector of a text.
    pub async fn vector(&self, text: &str) -> Result<Vec<i8>, EmbedError> {
        Ok(self.embedder.embed(&[text]).await?.pop().unwrap_or_default())
    }

    /// The vector of a question, for which nobody waits long.
    async fn question(&self, text: &str) -> Result<Vec<i8>, String> {
        let within = self.options.question_within;
        match tokio::time::timeout(within, self.vector(text)).await {
            Ok(Ok(vector)) => Ok(vector),
            Ok(Err(e)) => Err(e.to_string()),
            Err(_) => Err(format!("its vector took longer than {} ms", within.as_millis())),
        }
    }

    /// Brings the tenant's index up to the rows. What was committed before is found from here on.
    pub async fn step(&self, tenant: &TenantId) -> Result<(), StoreError> {
        let shard = self.shards.of(tenant);
        if shard.is_warm() {
            return shard.step(&self.reader(tenant)).await;
        }
        shard.falls_behind();
        Ok(())
    }

    /// Begins to make the tenant's index, unless it is there.
    pub fn warm(self: &Arc<Self>, tenant: &TenantId) -> Arc<Shard> {
        let shard = self.shards.of(tenant);
        if shard.begin_warming() {
            let (this, tenant, warming) = (self.clone(), tenant.clone(), shard.clone());
            task::spawn(task::Kind::Job, "memory-index", async move {
                if let Err(e) = warming.step(&this.reader(&tenant)).await {
                    tracing::warn!(butler = %this.butler, error = %e, "the memory index could not be built; full-text search answers");
                    return warming.cooled();
                }
                warming.warmed();
                let (rows, bytes) = warming.size();
                tracing::debug!(butler = %this.butler, rows, bytes, "the memory index is ready");
                this.shards.evict(&tenant);
                make_missing(&this, &tenant);
            });
        }
        shard
    }

    /// These rows are gone for good, and no number of a change tells of it.
    pub fn gone(&self, tenant: &TenantId, ids: &[Uuid]) {
        self.shards.of(tenant).remove(ids);
    }

    /// How many memories the tenant's index holds, and how many bytes it takes; `None`: it is not there.
    pub fn index_size(&self, tenant: &TenantId) -> Option<(usize, usize)> {
        let shard = self.shards.of(tenant);
        shard.is_warm().then(|| shard.size())
    }

    /// Notes that a session was shown these memories: what it says of them is nothing new.
    pub fn has_shown(&self, session: SessionId, ids: &[Uuid]) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        match told.iter_mut().find(|(known, _)| *known == session) {
            Some((_, all)) => all.extend(ids),
            None => {
                if told.len() == SESSIONS {
                    told.pop_front();
                }
                told.push_back((session, ids.to_vec()));
            }
        }
    }

    /// What searches have shown to a session.
    pub fn told(&self, session: SessionId) -> Vec<Uuid> {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.iter().find(|(known, _)| *known == session).map(|(_, ids)| ids.clone()).unwrap_or_default()
    }

    /// Looks for memories. The rows are to be read under the caller's own lease afterwards.
    pub async fn search(self: &Arc<Self>, tenant: &TenantId, ask: &Ask) -> Result<Found, StoreError> {
        let shard = self.warm(tenant);
        if !shard.wait(PATIENCE).await {
            let hits = fulltext::search(&self.store, tenant, &self.butler, ask, self.options.weights).await?;
            return Ok(Found { hits, by: Answered::FullText });
        }
        shard.step_if_due(&self.reader(tenant)).await?;
        // Words alone, rather than nothing, where there is no vector.
        let (vector, mode) = match ask.mode {
            Mode::Keyword => (Vec::new(), Mode::Keyword),
            mode => match self.question(&ask.text).await {
                Ok(vector) => (vector, mode),
                Err(why) => {
                    tracing::warn!(butler = %self.butler, "memory is searched by words only: {why}");
                    (Vec::new(), Mode::Keyword)
                }
            },
        };
        let (scopes, butlers): (Vec<&str>, Vec<&str>) =
            (ask.scopes.iter().map(String::as_str).collect(), ask.butlers.iter().map(String::as_str).collect());
        let classes: Vec<&str> = ask.classes.iter().map(String::as_str).collect();
        let query = Query {
            mode,
            now: ask.now.unwrap_or_else(|| self.store.clock().now()),
            weights: self.options.weights,
            limit: ask.limit,
            min_confidence: ask.min_confidence,
            entities: &ask.entities,
            filter: Filter {
                kinds: &ask.kinds,
                scopes: &scopes,
                butlers: &butlers,
                classes: &classes,
                predicate: ask.predicate.as_deref(),
                entity: ask.entity,
                object: ask.object,
                time_from: ask.time_from,
                time_to: ask.time_to,
                valid_at: ask.valid_at,
                max_sensitivity: ask.max_sensitivity,
                least_trust: ask.least_trust,
            },
            ..Query::new(&ask.text, &vector, Timestamp::UNIX_EPOCH)
        };
        Ok(Found { hits: shard.search(&query), by: Answered::Index })
    }

    /// The facts of this butler whose vectors are nearest to one, the nearest first; `None`: there is no index, and
    /// none came in time.
    pub async fn nearest(
        self: &Arc<Self>,
        tenant: &TenantId,
        vector: &[i8],
        scope: &str,
        limit: usize,
    ) -> Result<Option<Vec<Uuid>>, StoreError> {
        let shard = self.warm(tenant);
        if !shard.wait(LONG_PATIENCE).await {
            return Ok(None);
        }
        shard.step_if_due(&self.reader(tenant)).await?;
        let query = Query {
            mode: Mode::PlainMeaning,
            weights: Weights { relevance: 1.0, importance: 0.0, recency: 0.0, confidence: 0.0 },
            limit,
            filter: Filter {
                kinds: &[Kind::Fact],
                scopes: &[scope],
                butlers: &[self.butler.as_str()],
                ..Filter::default()
            },
            ..Query::new("", vector, self.store.clock().now())
        };
        Ok(Some(shard.search(&query).into_iter().map(|hit| hit.id).collect()))
    }

    fn reader<'a>(&'a self, tenant: &'a TenantId) -> Reader<'a> {
        Reader { store: &self.store, tenant, butler: &self.butler, model: self.embedder.model() }
    }
}
