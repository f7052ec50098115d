//! One memory with all that is noted of it, and all that was done to memories.

use jiff::Timestamp;
use memory_index::Kind;
use serde_json::Value;
use store::{AsRows, StoreError};
use uuid::Uuid;

use super::Rows;

/// Columns of a memory that nobody is shown.
const HIDDEN: &str = "'{search,of_owner,embedding,change,seq,content_hash,topic_hash,claim_id,claimed_by,lease_until,compared,\
                      compare_attempts}'::text[]";

async fn values(from: &mut dyn Rows, sql: &str, id: Uuid) -> Result<Vec<Value>, StoreError> {
    Ok(from.rows(sql, &[&id]).await?.iter().map(|row| row.get(0)).collect())
}

/// A memory as its owner may see it; none where it is not there or was forgotten.
pub async fn shown(from: &mut dyn Rows, kind: Kind, id: Uuid) -> Result<Option<Value>, StoreError> {
    let sql = format!(
        "SELECT to_jsonb(m) - {HIDDEN} FROM memory_{}s m WHERE m.id = $1 AND m.forgotten_at IS NULL",
        kind.as_str()
    );
    Ok(values(from, &sql, id).await?.pop())
}

/// The same, and of what was forgotten only that there was something.
pub async fn remains(from: &mut dyn Rows, kind: Kind, id: Uuid) -> Result<Option<Value>, StoreError> {
    let sql = format!(
        "SELECT to_jsonb(m) - {HIDDEN}
                - CASE WHEN m.forgotten_at IS NULL THEN '{{}}' ELSE '{{content,subject,predicate,tags,metadata}}' END::text[]
         FROM memory_{}s m WHERE m.id = $1",
        kind.as_str()
    );
    Ok(values(from, &sql, id).await?.pop())
}

/// All columns of a memory, as writers see them.
pub async fn whole(from: &mut dyn Rows, kind: Kind, id: Uuid) -> Result<Value, StoreError> {
    Ok(from.rows("SELECT memory_row($1, $2)", &[&kind.as_str(), &id]).await.cell(0)?.unwrap_or_default())
}

/// What was done to a memory, in order.
pub async fn events_of(from: &mut dyn Rows, id: Uuid) -> Result<Vec<Value>, StoreError> {
    let sql = "
        SELECT jsonb_build_object('event', e.id, 'what', e.event_type, 'by', e.actor, 'at', e.at, 'reason', e.reason,
                   'session_id', e.session_id, 'request_id', e.request_id, 'trust', e.trust, 'details', e.payload,
                   'undoes', e.undoes, 'undone', EXISTS (SELECT 1 FROM memory_events u WHERE u.undoes = e.id))
        FROM memory_events e
        WHERE e.id IN (SELECT h.event_id FROM memory_history h WHERE h.memory_id = $1
                       UNION SELECT m.id FROM memory_events m WHERE m.memory_id = $1)
        ORDER BY e.seq";
    values(from, sql, id).await
}

/// What a memory is tied to.
pub async fn links_of(from: &mut dyn Rows, id: Uuid) -> Result<Vec<Value>, StoreError> {
    let sql = "
        SELECT jsonb_build_object('relation', l.relation, 'from', l.source_type, 'from_id', l.source_id,
                                  'to', l.target_type, 'to_id', l.target_id)
        FROM memory_links l WHERE l.source_id = $1 OR l.target_id = $1 ORDER BY l.created_at, l.source_id LIMIT 100";
    values(from, sql, id).await
}

/// The episode that a memory came from.
pub async fn source(from: &mut dyn Rows, episode: Uuid) -> Result<Value, StoreError> {
    let sql = "
        SELECT jsonb_build_object('episode_id', e.id, 'occurred_at', e.occurred_at, 'speaker', e.speaker, 'trust', e.trust,
                                  'session_id', e.session_id,
                                  'content', CASE WHEN e.forgotten_at IS NULL THEN left(e.content, 2000) END)
        FROM memory_episodes e WHERE e.id = $1";
    Ok(values(from, sql, episode).await?.pop().unwrap_or_default())
}

/// What a fact says, and from when to when.
pub async fn said(from: &mut dyn Rows, fact: Uuid) -> Result<Value, StoreError> {
    let sql = "
        SELECT jsonb_build_object('id', f.id, 'content', CASE WHEN f.forgotten_at IS NULL THEN f.content END,
                                  'learned_at', f.learned_at, 'valid_to', f.valid_to)
        FROM memory_facts f WHERE f.id = $1";
    Ok(values(from, sql, fact).await?.pop().unwrap_or_default())
}

/// How else a fact was put.
pub async fn other_wordings(from: &mut dyn Rows, fact: Uuid) -> Result<Vec<Value>, StoreError> {
    let sql = "
        SELECT jsonb_build_object('id', f.id, 'content', CASE WHEN f.forgotten_at IS NULL THEN f.content END,
                                  'learned_at', f.learned_at, 'source_episode_id', f.source_episode_id)
        FROM memory_facts f WHERE f.merged_into = $1 ORDER BY f.learned_at, f.id";
    values(from, sql, fact).await
}

/// The fact that took another one's place.
pub async fn successor(from: &mut dyn Rows, fact: Uuid) -> Result<Option<Uuid>, StoreError> {
    let sql = "
        SELECT f.id FROM memory_facts f JOIN memory_links l ON l.source_id = f.id
        WHERE l.target_id = $1 AND l.relation = 'supersedes' AND f.merged_into IS NULL
        ORDER BY f.supersedes_id IS NOT DISTINCT FROM $1 DESC, l.created_at DESC, f.id";
    Ok(from.rows(sql, &[&fact]).await?.first().map(|row| row.get("id")))
}

store::row! {
    /// Something that was done to memories.
    pub struct Event {
        pub id: Uuid,
        pub seq: i64,
        pub event_type: String,
        pub memory_type: String,
        pub memory_id: Uuid,
        pub actor: String,
        pub at: Timestamp,
        pub reason: Option<String>,
        pub session_id: Option<Uuid>,
        pub request_id: Option<Uuid>,
        pub undoes: Option<Uuid>,
        pub payload: Value,
        pub trust: String,
        pub undone: bool,
        /// The memory's columns as they are now.
        pub now: Option<Value>,
    }
}

/// What was done, the newest first: to this memory, before the event of this number.
pub async fn history(
    from: &mut dyn Rows,
    memory: Option<Uuid>,
    before: Option<i64>,
    most: i64,
) -> Result<Vec<Event>, StoreError> {
    let sql = "
        SELECT e.id, e.seq, e.event_type, e.memory_type, e.memory_id, e.actor, e.at, e.reason, e.session_id, e.request_id,
               e.undoes, e.payload, e.trust, EXISTS (SELECT 1 FROM memory_events u WHERE u.undoes = e.id) AS undone,
               memory_row(e.memory_type, e.memory_id) AS now
        FROM memory_events e
        WHERE ($1::uuid IS NULL OR e.memory_id = $1 OR e.id IN (SELECT h.event_id FROM memory_history h WHERE h.memory_id = $1))
          AND ($2::bigint IS NULL OR e.seq < $2)
        ORDER BY e.seq DESC LIMIT $3";
    Ok(from.rows(sql, &[&memory, &before, &most]).await?.iter().map(Event::from).collect())
}

store::row! {
    /// A row that an event changed: how it was, and how it was after it.
    pub struct Change {
        pub event_id: Uuid,
        pub memory_type: String,
        pub memory_id: Uuid,
        /// None: the event made it.
        pub before: Option<Value>,
        pub after: Option<Value>,
        pub forgotten: Option<bool>,
    }
}

/// What these events changed, in order.
pub async fn changes(from: &mut dyn Rows, events: &[Uuid]) -> Result<Vec<Change>, StoreError> {
    let sql = "
        SELECT h.event_id, h.memory_type, h.memory_id, h.before,
               coalesce((SELECT n.before FROM memory_history n WHERE n.memory_id = h.memory_id AND n.change > h.change
                         ORDER BY n.change LIMIT 1), memory_row(h.memory_type, h.memory_id)) AS after,
               memory_row(h.memory_type, h.memory_id) ->> 'forgotten_at' IS NOT NULL AS forgotten
        FROM memory_history h WHERE h.event_id = ANY($1) ORDER BY h.change";
    Ok(from.rows(sql, &[&events]).await?.iter().map(Change::from).collect())
}
