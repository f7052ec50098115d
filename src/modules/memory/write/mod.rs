//! The one way in which memories are written: by tools, by consolidation, by an import.
//!
//! Each function works within a transaction that its caller commits: it locks the tenant's memory, compares, decides, and
//! writes the rows with the event that they belong to. What it compares with it reads through functions that lower
//! nobody's trust; so nothing else may be read in such a transaction before, or what is written is believed as little as that.

mod change;
mod earlier;
mod episode;
mod fact;
mod merge;
mod rival;
mod rule;

use std::collections::HashSet;
use std::fmt::Write as _;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use strum::{EnumString, IntoStaticStr, VariantNames};
use tokio_postgres::Row;
use uuid::Uuid;

use super::gate;
use super::predicates::snake_case;
use super::same::cosine;
use store::{Params, StoreError, Tx};
use tools::{EffectTx, ToolError};

pub use super::kind::Kind;
pub use change::{Edit, confirm, edit, forget, mark_harmful, mark_helpful, merge_entities, reclassify, undo};
pub use episode::{NewEpisode, StoredEpisode, store_episode};
pub use fact::{NewFact, StoredFact, store_fact};
pub(super) use merge::{Judged, merge_facts};
pub use rule::{NewRule, StoredRule, store_rule};

/// A transaction that memories are written in.
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
        self.query(sql, params).await.map_err(|e| match e {
            ToolError::Store(e) => e,
            other => StoreError::Unexpected(other.to_string()),
        })
    }
}

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// With a code and a sentence for whoever asked.
    #[error("{message}")]
    Refused { code: &'static str, message: String },
    #[error(transparent)]
    Store(StoreError),
}

impl WriteError {
    pub(super) fn refused(code: &'static str, message: impl Into<String>) -> Self {
        Self::Refused { code, message: message.into() }
    }

    /// What the gate turned down, and why.
    fn gate(why: &str) -> Self {
        Self::refused("not_remembered", format!("Not remembered: {why}."))
    }

    fn unknown(kind: Kind, id: Uuid) -> Self {
        Self::refused("not_found", format!("There is no {} {id}.", kind.as_str()))
    }
}

impl From<StoreError> for WriteError {
    fn from(e: StoreError) -> Self {
        if e.db().is_some_and(|db| db.code().code() == "BD002") {
            return Self::refused(
                "untrusted",
                "Not done: what the household knows is not changed on the word of a stranger. Say to the owner what you \
                 would change.",
            );
        }
        Self::Store(e)
    }
}

impl From<WriteError> for ToolError {
    fn from(e: WriteError) -> Self {
        match e {
            WriteError::Refused { code, message } => ToolError::refused(code, message),
            WriteError::Store(e) => ToolError::Store(e),
        }
    }
}

/// How long something is likely to stay so.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, EnumString, IntoStaticStr, VariantNames,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Permanence {
    Permanent,
    Stable,
    #[default]
    Standard,
    Volatile,
    Ephemeral,
}

impl Permanence {
    pub const NAMES: &'static [&'static str] = Self::VARIANTS;

    pub fn as_str(self) -> &'static str {
        self.into()
    }

    pub fn from_name(name: &str) -> Option<Self> {
        name.parse().ok()
    }

    /// What confidence loses for each day without a confirmation.
    pub fn decay_rate(self) -> f64 {
        [0.0, 0.002, 0.008, 0.03, 0.1][self as usize]
    }
}

/// On whose behalf a memory is written.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    pub butler: String,
    /// As events name it.
    pub actor: String,
    pub session: Option<Uuid>,
    pub request: Option<Uuid>,
    /// What the session was told from memory so far. Its words come back in what the session says, and are no evidence.
    pub told: HashSet<Uuid>,
}

/// A vector with the model that made it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Vector {
    pub model: String,
    pub numbers: Vec<i8>,
}

impl Vector {
    /// As a column's value in JSON.
    fn column(&self) -> Value {
        let mut hex = String::with_capacity(2 + 2 * self.numbers.len());
        hex.push_str("\\x");
        for n in &self.numbers {
            // Writing to a string does not fail.
            let _ = write!(hex, "{:02x}", n.to_ne_bytes()[0]);
        }
        json!(hex)
    }

    pub(in crate::memory) fn put(vector: Option<&Self>, row: &mut Map<String, Value>) {
        row.insert("embedding".into(), vector.map_or(Value::Null, Vector::column));
        row.insert("embedding_model".into(), json!(vector.map(|v| &v.model)));
    }

    /// How alike this one and a row's are.
    fn likeness(own: Option<&Self>, bytes: Option<&[u8]>, model: Option<&str>) -> Option<f32> {
        let (own, bytes) = (own?, bytes?);
        let theirs: Vec<i8> = bytes.iter().map(|b| i8::from_ne_bytes([*b])).collect();
        (model == Some(&*own.model)).then(|| cosine(&own.numbers, &theirs)).flatten()
    }
}

/// A tenant's own predicate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TenantPredicate {
    pub name: String,
    pub aliases: Vec<String>,
    pub edge: bool,
    pub temporal: bool,
    pub many: bool,
}

/// What became of a memory that was to be stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// A new row.
    Stored,
    /// It was known, and is believed the more for it.
    Confirmed,
    /// The session was told it from memory, which is no evidence.
    Known,
    /// The same call was made before.
    Repeated,
}

/// The predicate as it is stored, or why it is none.
fn predicate_name(given: &str) -> Result<String, WriteError> {
    snake_case(given).ok_or_else(|| {
        WriteError::refused(
            "invalid_arguments",
            format!("predicate: {given:?} is no predicate. Use a few words such as `lives_in` or `favourite_food`."),
        )
    })
}

/// Takes the lock under which memories are compared and written. Returns how far the transaction is believed.
async fn lock(tx: &mut dyn Rows) -> Result<String, WriteError> {
    // Two statements: what is read after the lock must be read after it was taken.
    tx.rows("SELECT memory_lock()", &[]).await?;
    let rows = tx.rows("SELECT shared.trust()", &[]).await?;
    Ok(rows.first().map(|r| r.get(0)).unwrap_or_default())
}

/// Begins an event. What is written after it belongs to it.
async fn event(
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

async fn put(tx: &mut dyn Rows, kind: Kind, row: Map<String, Value>) -> Result<(), WriteError> {
    tx.rows("SELECT memory_put($1, $2)", &[&kind.as_str(), &Value::Object(row)]).await?;
    Ok(())
}

async fn patch(tx: &mut dyn Rows, kind: Kind, id: Uuid, given: Value) -> Result<(), WriteError> {
    let rows = tx.rows("SELECT memory_patch($1, $2, $3)", &[&kind.as_str(), &id, &given]).await?;
    let there = rows.first().is_some_and(|r| r.get(0));
    if there { Ok(()) } else { Err(WriteError::unknown(kind, id)) }
}

async fn link(tx: &mut dyn Rows, from: (Kind, Uuid), to: (Kind, Uuid), how: &str) -> Result<(), WriteError> {
    tx.rows("SELECT memory_link($1, $2, $3, $4, $5)", &[&from.0.as_str(), &from.1, &to.0.as_str(), &to.1, &how])
        .await?;
    Ok(())
}

/// A memory that is there and was not forgotten.
async fn row(tx: &mut dyn Rows, kind: Kind, id: Uuid) -> Result<Value, WriteError> {
    let rows = tx.rows("SELECT memory_row($1, $2)", &[&kind.as_str(), &id]).await?;
    let row: Option<Value> = rows.first().and_then(|r| r.get(0));
    row.filter(|r| r["forgotten_at"].is_null()).ok_or_else(|| WriteError::unknown(kind, id))
}

/// The other wordings of a fact.
async fn wordings(tx: &mut dyn Rows, fact: Uuid) -> Result<Vec<Uuid>, WriteError> {
    let rows = tx.rows("SELECT id FROM memory_fact_wordings($1, false)", &[&fact]).await?;
    Ok(rows.iter().map(|r| r.get(0)).collect())
}

async fn now(tx: &mut dyn Rows) -> Result<Timestamp, WriteError> {
    let rows = tx.rows("SELECT shared.clock()", &[]).await?;
    rows.first().map(|r| r.get(0)).ok_or_else(|| WriteError::Store(StoreError::Unexpected("no clock".into())))
}

/// A confirmation brings a belief so much nearer to certainty.
fn confirmed(confidence: f64) -> f64 {
    confidence + (1.0 - confidence) * 0.3
}

/// The text as it may be kept, without what memory told; or why it may not.
fn admitted(text: &str, most: usize) -> Result<String, WriteError> {
    let own = gate::without_memory(text);
    if own.is_empty() && !text.trim().is_empty() {
        return Err(WriteError::gate("it is what memory told, which is known already"));
    }
    match gate::refusal(&own, most) {
        Some(why) => Err(WriteError::gate(&why)),
        None => Ok(own.trim().to_owned()),
    }
}

const FORGOTTEN: &str = "Not remembered: the same was forgotten on purpose before, and does not come back by itself. If the \
                         owner wants it again, take the forgetting back with memory_undo.";
