//! The SQL of the engine. Memories are written by functions of the database alone, each of which says what it wants.

pub mod compare;
pub mod entities;
pub mod experiences;
pub mod facts;
pub(crate) mod fulltext;
pub mod graph;
mod index;
pub mod known;
mod ledger;
pub mod shown;
pub mod story;
pub mod upkeep;
mod vectors;

use async_trait::async_trait;
use jiff::Timestamp;
use memory_index::Kind;
use serde_json::{Value, json};
use store::{AsRows, Lease, Params, StoreError, Tx};
use tokio_postgres::Row;
use tools::{EffectTx, ToolCall, ToolError};
use uuid::Uuid;

use crate::write::{Origin, WriteError};

pub(crate) use index::{IndexRow, Reader};
pub(crate) use ledger::come_back;
pub use ledger::purge_one;
pub use vectors::{Unembedded, give_vector, unembedded};

/// Where statements of memory run: a transaction that memories are written in, or a lease to read by.
#[async_trait]
pub trait Rows: Send {
    /// Runs a statement.
    async fn rows(&mut self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, StoreError>;
}

#[async_trait]
impl Rows for Tx<'_> {
    async fn rows(&mut self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, StoreError> {
        self.query(sql, params).await.map_err(StoreError::query("writing to memory"))
    }
}

#[async_trait]
impl Rows for EffectTx<'_, '_> {
    async fn rows(&mut self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, StoreError> {
        self.query(sql, params).await.map_err(store_error)
    }
}

#[async_trait]
impl Rows for Lease {
    async fn rows(&mut self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, StoreError> {
        self.query(sql, params).await.map_err(StoreError::query("asking memory"))
    }
}

#[async_trait]
impl Rows for &ToolCall {
    async fn rows(&mut self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, StoreError> {
        self.query(sql, params).await.map_err(store_error)
    }
}

/// A failure of a call's statement as one of the store's.
pub fn store_error(e: ToolError) -> StoreError {
    match e {
        ToolError::Store(e) => e,
        other => StoreError::Unexpected(other.to_string()),
    }
}

/// Takes the lock under which memories are compared and written. What is read after it is all there is.
pub async fn take_lock(tx: &mut dyn Rows) -> Result<(), StoreError> {
    tx.rows("SELECT memory_lock()", &[]).await.map(drop)
}

/// Takes the lock under which memories are compared and written. Returns how far the transaction is believed.
pub(crate) async fn lock(tx: &mut dyn Rows) -> Result<String, WriteError> {
    // Two statements: what is read after the lock must be read after it was taken.
    take_lock(tx).await?;
    Ok(tx.rows("SELECT shared.trust()", &[]).await.cell(0)?.unwrap_or_default())
}

/// Begins an event. What is written after it belongs to it.
pub(crate) async fn event(
    tx: &mut dyn Rows,
    origin: &Origin,
    what: &str,
    kind: &str,
    id: Uuid,
    reason: Option<&str>,
    payload: Value,
) -> Result<Uuid, WriteError> {
    let did = json!({"event_type": what, "memory_type": kind, "memory_id": id, "actor": origin.actor,
        "session_id": origin.session, "request_id": origin.request, "reason": reason, "payload": payload});
    let rows = tx.rows("SELECT memory_event($1)", &[&did]).await?;
    rows.first().map(|r| r.get(0)).ok_or_else(|| WriteError::Store(StoreError::Unexpected("no event".into())))
}

/// Columns that have their default where nothing is said of them.
const DEFAULTED: [&str; 5] = ["retention_class", "sensitivity", "permanence", "decay_rate", "consolidation"];

/// Writes a new row, an object of its columns.
pub(crate) async fn put(tx: &mut dyn Rows, kind: Kind, mut row: Value) -> Result<(), WriteError> {
    if let Some(columns) = row.as_object_mut() {
        columns.retain(|name, value| !value.is_null() || !DEFAULTED.contains(&&**name));
    }
    tx.rows("SELECT memory_put($1, $2)", &[&kind.as_str(), &row]).await?;
    Ok(())
}

/// Changes these columns of a row.
pub(crate) async fn patch(tx: &mut dyn Rows, kind: Kind, id: Uuid, given: Value) -> Result<(), WriteError> {
    let rows = tx.rows("SELECT memory_patch($1, $2, $3)", &[&kind.as_str(), &id, &given]).await?;
    let there = rows.first().is_some_and(|r| r.get(0));
    if there { Ok(()) } else { Err(WriteError::unknown(kind, id)) }
}

/// Ties two memories, unless they are tied so already.
pub async fn link(tx: &mut dyn Rows, from: (Kind, Uuid), to: (Kind, Uuid), how: &str) -> Result<(), StoreError> {
    tx.rows("SELECT memory_link($1, $2, $3, $4, $5)", &[&from.0.as_str(), &from.1, &to.0.as_str(), &to.1, &how])
        .await
        .map(drop)
}

/// A memory that is there and was not forgotten.
pub(crate) async fn row(tx: &mut dyn Rows, kind: Kind, id: Uuid) -> Result<Value, WriteError> {
    let rows = tx.rows("SELECT memory_row($1, $2)", &[&kind.as_str(), &id]).await?;
    let row: Option<Value> = rows.first().and_then(|r| r.get(0));
    row.filter(|r| r["forgotten_at"].is_null()).ok_or_else(|| WriteError::unknown(kind, id))
}

/// The present, as the transaction has it.
pub(crate) async fn now(tx: &mut dyn Rows) -> Result<Timestamp, WriteError> {
    let rows = tx.rows("SELECT shared.clock()", &[]).await?;
    rows.first().map(|r| r.get(0)).ok_or_else(|| WriteError::Store(StoreError::Unexpected("no clock".into())))
}

store::row! {
    /// An episode that a new one may repeat.
    pub(crate) struct EpisodeRival {
        pub(crate) id: Uuid,
        pub(crate) expires_at: Option<Timestamp>,
        pub(crate) forgotten_at: Option<Timestamp>,
        pub(crate) idempotency_key: Option<String>,
    }
}

pub(crate) async fn episode_rivals(
    tx: &mut dyn Rows,
    hash: &str,
    key: Option<&str>,
    session: Option<Uuid>,
) -> Result<Vec<EpisodeRival>, WriteError> {
    let sql = "SELECT id, expires_at, forgotten_at, idempotency_key FROM memory_episode_rivals($1, $2, $3)";
    Ok(tx.rows(sql, &[&hash, &key, &session]).await?.iter().map(EpisodeRival::from).collect())
}

/// For how many days a retention class keeps: none where there is no such class, `Some(None)` where it keeps for good.
pub(crate) async fn ttl_days(tx: &mut dyn Rows, class: &str) -> Result<Option<Option<i32>>, WriteError> {
    let rows = tx.rows("SELECT ttl_days FROM memory_policy($1)", &[&class]).await?;
    Ok(rows.first().map(|row| row.get("ttl_days")))
}

store::row! {
    /// A rule that a new one may repeat.
    pub(crate) struct RuleRival {
        pub(crate) id: Uuid,
        pub(crate) scope: String,
        pub(crate) content: String,
        pub(crate) content_hash: String,
        pub(crate) idempotency_key: Option<String>,
        pub(crate) validity: String,
        pub(crate) forgotten_at: Option<Timestamp>,
    }
}

pub(crate) async fn rule_rivals(
    tx: &mut dyn Rows,
    hash: &str,
    key: Option<&str>,
) -> Result<Vec<RuleRival>, WriteError> {
    Ok(tx.rows("SELECT * FROM memory_rule_rivals($1, $2)", &[&hash, &key]).await.typed()?)
}

store::row! {
    /// Why an event can't be taken back.
    pub(crate) struct Hindrance {
        pub(crate) memory_type: Option<String>,
        pub(crate) memory_id: Option<Uuid>,
        pub(crate) why: String,
    }
}

/// Takes an event back; what is in the way of it otherwise.
pub(crate) async fn undo(tx: &mut dyn Rows, event: Uuid, by: &Value) -> Result<Vec<Hindrance>, WriteError> {
    Ok(tx.rows("SELECT memory_type, memory_id, why FROM memory_undo($1, $2)", &[&event, by]).await.typed()?)
}
