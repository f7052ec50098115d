//! What is looked for in a memory, and what was found.

use base::Trust;
use jiff::Timestamp;
use memory_index::Kind;
use memory_index::rank::{Hit, Mode};
use strum::IntoStaticStr;
use uuid::Uuid;

/// What is looked for.
#[derive(Clone, Debug, Default)]
pub struct Ask {
    pub text: String,
    pub mode: Mode,
    pub limit: usize,
    pub min_confidence: f32,
    /// Empty: all.
    pub kinds: Vec<Kind>,
    /// Empty: all that the butler may see.
    pub scopes: Vec<String>,
    /// Empty: its own memories and what others have published.
    pub butlers: Vec<String>,
    pub classes: Vec<String>,
    pub predicate: Option<String>,
    pub entity: Option<Uuid>,
    pub object: Option<Uuid>,
    pub time_from: Option<Timestamp>,
    pub time_to: Option<Timestamp>,
    pub valid_at: Option<Timestamp>,
    pub max_sensitivity: Option<u8>,
    pub least_trust: Option<Trust>,
    /// Entities that the question is known to be about.
    pub entities: Vec<Uuid>,
    /// What counts as the present; `None` is now.
    pub now: Option<Timestamp>,
}

/// Who has answered a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Answered {
    Index,
    /// The index was not there yet.
    FullText,
}

base::named!(Answered);

/// The best first.
#[derive(Debug)]
pub struct Found {
    pub hits: Vec<Hit>,
    pub by: Answered,
}
