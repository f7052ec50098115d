//! What the index is made of: rows in the order of their changes.

use std::borrow::Cow;

use base::{ButlerName, TenantId, Trust};
use jiff::Timestamp;
use memory_index::Kind;
use memory_index::rank::{Entry, Facets, fact_text};
use store::{AsRows, Lease, Store, StoreError};
use uuid::Uuid;

/// From where an index is made.
pub(crate) struct Reader<'a> {
    pub(crate) store: &'a Store,
    pub(crate) tenant: &'a TenantId,
    pub(crate) butler: &'a ButlerName,
    /// Vectors of other models are left out.
    pub(crate) model: &'a str,
}

store::row! {
    /// A memory as the index takes it in, or lets go of it.
    pub(crate) struct IndexRow {
        kind: String,
        pub(crate) id: Uuid,
        pub(crate) change: i64,
        seq: i64,
        /// Whether it is to be found.
        pub(crate) live: bool,
        thread: Option<Uuid>,
        about: Option<String>,
        predicate: Option<String>,
        content: String,
        tags: Vec<String>,
        embedding: Option<Vec<u8>>,
        embedding_model: Option<String>,
        at: Timestamp,
        importance: f32,
        confidence: f32,
        decay: f32,
        confirmed_at: Option<Timestamp>,
        used_at: Option<Timestamp>,
        scope: String,
        /// Who has published it; none: the butler itself.
        butler: Option<String>,
        class: String,
        entity: Option<Uuid>,
        object: Option<Uuid>,
        valid_to: Option<Timestamp>,
        sensitivity: String,
        trust: String,
    }
}

impl IndexRow {
    /// The words that are indexed.
    pub(crate) fn words(&self) -> Cow<'_, str> {
        let words = match &self.predicate {
            Some(predicate) => Cow::Owned(fact_text(predicate, &self.content)),
            None => Cow::Borrowed(self.content.as_str()),
        };
        match self.tags.as_slice() {
            [] => words,
            tags => Cow::Owned(format!("{words} {}", tags.join(" "))),
        }
    }

    /// Its vector; empty where it has none of this model.
    pub(crate) fn vector(&self, model: &str) -> Vec<i8> {
        let bytes = self.embedding.as_ref().filter(|_| self.embedding_model.as_deref() == Some(model));
        bytes.into_iter().flatten().map(|b| b.cast_signed()).collect()
    }

    pub(crate) fn entry<'a>(&'a self, words: &'a str, vector: &'a [i8], butler: &'a str) -> Entry<'a> {
        Entry {
            id: self.id,
            kind: Kind::from_name(&self.kind).unwrap_or(Kind::Fact),
            seq: self.seq,
            thread: self.thread,
            about: self.about.as_deref(),
            at: self.at,
            text: words,
            vector,
            importance: self.importance,
            confidence: self.confidence,
            decay: self.decay,
            confirmed_at: self.confirmed_at,
            used_at: self.used_at,
            facets: Facets {
                scope: &self.scope,
                butler: self.butler.as_deref().unwrap_or(butler),
                class: &self.class,
                predicate: self.predicate.as_deref(),
                entity: self.entity,
                object: self.object,
                valid_to: self.valid_to,
                sensitivity: match &*self.sensitivity {
                    "normal" => 0,
                    "sensitive" => 1,
                    _ => 2,
                },
                trust: Trust::from_name(&self.trust),
            },
        }
    }
}

impl Reader<'_> {
    /// What has changed of the butler's own memories after this change, at most so many.
    pub(crate) async fn own(&self, lease: &mut Lease, after: i64, most: usize) -> Result<Vec<IndexRow>, StoreError> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        lease.read(OWN, &[&after, &most]).await.typed().map_err(StoreError::query("reading memories"))
    }

    /// What has changed after this change of what other butlers have published, at most so many.
    pub(crate) async fn published(
        &self,
        lease: &mut Lease,
        after: i64,
        most: usize,
    ) -> Result<Vec<IndexRow>, StoreError> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let read = lease.read(PUBLISHED, &[&after, &most, &self.butler.as_str()]).await;
        read.typed().map_err(StoreError::query("reading published memories"))
    }
}

/// What has changed of a butler's own memories since `$1`, in the order of the changes.
const OWN: &str = "
    SELECT * FROM (
        (SELECT 'episode' AS kind, id, change, seq, forgotten_at IS NULL AND (expires_at IS NULL OR expires_at > shared.clock()) AS live,
                session_id AS thread, speaker AS about, NULL::text AS predicate, content, '{}'::text[] AS tags, embedding, embedding_model,
                occurred_at AS at,
                importance, 1::real AS confidence, 0::real AS decay, NULL::timestamptz AS confirmed_at,
                last_referenced_at AS used_at, scope, NULL::text AS butler, retention_class AS class,
                NULL::uuid AS entity, NULL::uuid AS object, NULL::timestamptz AS valid_to, sensitivity, trust
         FROM memory_episodes WHERE tenant_id = shared.tenant() AND change > $1 ORDER BY change LIMIT $2)
        UNION ALL
        (SELECT 'fact', id, change, seq, forgotten_at IS NULL AND validity IN ('active', 'fading'),
                NULL, subject, predicate, content, tags, embedding, embedding_model, coalesce(valid_from, learned_at),
                importance, confidence, decay_rate, last_confirmed_at,
                last_referenced_at, scope, NULL, retention_class,
                entity_id, object_entity_id, valid_to, sensitivity, trust
         FROM memory_facts WHERE tenant_id = shared.tenant() AND change > $1 ORDER BY change LIMIT $2)
        UNION ALL
        (SELECT 'rule', id, change, seq, forgotten_at IS NULL AND validity IN ('active', 'fading'),
                NULL, NULL, NULL, content, tags, embedding, embedding_model, learned_at,
                importance, confidence, decay_rate, last_confirmed_at,
                last_referenced_at, scope, NULL, retention_class,
                NULL, NULL, NULL, sensitivity, trust
         FROM memory_rules WHERE tenant_id = shared.tenant() AND change > $1 ORDER BY change LIMIT $2)
    ) changed ORDER BY change LIMIT $2";

/// What has changed of what other butlers than `$3` have published. What was withdrawn is a number and nothing else.
const PUBLISHED: &str = "
    SELECT 'fact' AS kind, memory_id AS id, change, change AS seq, live, NULL::uuid AS thread, subject AS about, predicate,
           coalesce(content, '') AS content, '{}'::text[] AS tags, embedding, embedding_model, coalesce(valid_from, learned_at, 'epoch') AS at,
           coalesce(importance, 0) AS importance, coalesce(confidence, 0) AS confidence, coalesce(decay_rate, 0) AS decay,
           last_confirmed_at AS confirmed_at, NULL::timestamptz AS used_at, 'global' AS scope, butler,
           coalesce(retention_class, '') AS class, entity_id AS entity, object_entity_id AS object, valid_to,
           'normal' AS sensitivity, trust
    FROM shared.memory_catalog
    WHERE tenant_id = shared.tenant() AND change > $1 AND butler <> $3 ORDER BY change LIMIT $2";
