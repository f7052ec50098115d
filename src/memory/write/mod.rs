//! The one way in which memories are written: by tools, by consolidation, by an import.
//!
//! Each function works within a transaction that its caller commits: it locks the tenant's memory, compares, decides,
//! and writes the rows with the event that they belong to. What it compares with it reads through functions that lower
//! nobody's trust; so nothing else may be read in such a transaction before, or what is written is believed as little
//! as that.

mod candidate;
mod change;
mod confirm;
mod earlier;
mod entities;
mod episode;
mod fact;
mod many;
mod merge;
mod rival;
mod rule;

use std::collections::HashSet;

use memory_index::predicates::snake_case;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::StoreError;
use strum::{EnumString, IntoStaticStr, VariantNames};
use tools::{ToolError, UNTRUSTED_CHANGE};
use uuid::Uuid;

use crate::gate;
use base::text::hex;

pub use candidate::{Brought, NewFact};
pub use change::{Edit, edit, forget, mark_harmful, mark_helpful, reclassify, undo};
pub use confirm::confirm;
pub use entities::merge_entities;
pub use episode::{NewEpisode, StoredEpisode, store_episode};
pub use fact::{StoredFact, store_fact};
pub use many::{SameFacts, forget_facts, unite_facts};
pub use memory_index::Kind;
pub use merge::{Judged, merge_facts};
pub use rule::{NewRule, StoredRule, store_rule};

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
    /// A refusal, with its code and its sentence.
    pub fn refused(code: &'static str, message: impl Into<String>) -> Self {
        Self::Refused { code, message: message.into() }
    }

    /// What the gate turned down, and why.
    fn gate(why: &str) -> Self {
        Self::refused("not_remembered", format!("Not remembered: {why}."))
    }

    /// There is no memory of this kind and id.
    pub fn unknown(kind: Kind, id: Uuid) -> Self {
        Self::refused("not_found", format!("There is no {} {id}.", kind.as_str()))
    }
}

impl From<StoreError> for WriteError {
    fn from(e: StoreError) -> Self {
        if e.is_untrusted() { Self::refused("untrusted", UNTRUSTED_CHANGE) } else { Self::Store(e) }
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

base::named!(Permanence, from_name);

impl Permanence {
    pub const NAMES: &'static [&'static str] = Self::VARIANTS;

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
    /// Makes it the columns `embedding` and `embedding_model` of a row.
    pub fn put(vector: Option<&Self>, row: &mut Value) {
        row["embedding"] = json!(vector.map(Self::hex));
        row["embedding_model"] = json!(vector.map(|v| &v.model));
    }

    /// As a `bytea` is written in JSON.
    fn hex(&self) -> String {
        let bytes: Vec<u8> = self.numbers.iter().map(|n| n.cast_unsigned()).collect();
        format!("\\x{}", hex(&bytes))
    }
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
            format!("predicate: {given:?} is not a predicate. Use a few words such as `lives_in` or `favourite_food`."),
        )
    })
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
