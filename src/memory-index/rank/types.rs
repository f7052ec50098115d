//! What goes into the index and what comes out of it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use base::Trust;

pub use crate::kind::Kind;

/// One memory as the index takes it. Texts are borrowed: the index keeps terms, not sentences.
#[derive(Debug, Clone)]
pub struct Entry<'a> {
    pub id: Uuid,
    pub kind: Kind,
    /// Order of insertion, the row's sequence number.
    pub seq: i64,
    /// The session or conversation of an episode: entries of one thread are neighbours in the order of `seq`.
    pub thread: Option<Uuid>,
    /// Who says it (an episode) or of whom or what it speaks (a fact's subject).
    pub about: Option<&'a str>,
    /// When it happened, or from when on it is valid.
    pub at: Timestamp,
    pub text: &'a str,
    /// The embedding of [`spoken`](super::spoken); only its direction counts. Empty while there is none.
    pub vector: &'a [i8],
    /// 0 to 10.
    pub importance: f32,
    /// 0 to 1.
    pub confidence: f32,
    /// How fast confidence falls, per day.
    pub decay: f32,
    pub confirmed_at: Option<Timestamp>,
    pub used_at: Option<Timestamp>,
    pub facets: Facets<'a>,
}

/// What filters look at.
#[derive(Debug, Clone)]
pub struct Facets<'a> {
    pub scope: &'a str,
    pub butler: &'a str,
    pub class: &'a str,
    pub predicate: Option<&'a str>,
    pub entity: Option<Uuid>,
    /// The other end of an edge.
    pub object: Option<Uuid>,
    /// From this moment on it is no longer valid.
    pub valid_to: Option<Timestamp>,
    /// The higher, the more private; 0 is normal.
    pub sensitivity: u8,
    pub trust: Trust,
}

impl Default for Facets<'_> {
    fn default() -> Self {
        Self {
            scope: "global",
            butler: "",
            class: "",
            predicate: None,
            entity: None,
            object: None,
            valid_to: None,
            sensitivity: 0,
            trust: Trust::Owner,
        }
    }
}

/// Which signals count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Words, meaning and context.
    #[default]
    Hybrid,
    /// Meaning and context: words don't count.
    Semantic,
    /// Words and context: needs no vector.
    Keyword,
    /// BM25 and nothing else, to compare with.
    #[serde(skip)]
    PlainWords,
    /// The cosine and nothing else, to compare with.
    #[serde(skip)]
    PlainMeaning,
}

/// How much each part of the score counts; they sum to 1.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weights {
    pub relevance: f32,
    pub importance: f32,
    pub recency: f32,
    pub confidence: f32,
}

impl Default for Weights {
    fn default() -> Self {
        Self { relevance: 0.4, importance: 0.3, recency: 0.2, confidence: 0.1 }
    }
}

/// Which entries are looked at. What it leaves out can't be found and lends nothing to its neighbours.
#[derive(Debug, Clone, Default)]
pub struct Filter<'a> {
    /// Empty: all.
    pub kinds: &'a [Kind],
    /// Empty: all.
    pub scopes: &'a [&'a str],
    /// Empty: all.
    pub butlers: &'a [&'a str],
    /// Empty: all.
    pub classes: &'a [&'a str],
    pub predicate: Option<&'a str>,
    pub entity: Option<Uuid>,
    pub object: Option<Uuid>,
    /// Not before.
    pub time_from: Option<Timestamp>,
    /// Not after.
    pub time_to: Option<Timestamp>,
    /// Valid at this moment: begun, and not yet over.
    pub valid_at: Option<Timestamp>,
    pub max_sensitivity: Option<u8>,
    pub least_trust: Option<Trust>,
}

/// A question to the index.
#[derive(Debug, Clone)]
pub struct Query<'a> {
    pub text: &'a str,
    /// The question's embedding by the same model as the entries'; empty: none, words alone then.
    pub vector: &'a [i8],
    pub mode: Mode,
    pub now: Timestamp,
    pub weights: Weights,
    pub limit: usize,
    /// Facts and rules below this effective confidence are left out.
    pub min_confidence: f32,
    /// Entities that the question names, as far as the caller knows: what is about them counts more.
    pub entities: &'a [Uuid],
    pub filter: Filter<'a>,
}

impl<'a> Query<'a> {
    /// A question without filters, with the default weights.
    pub fn new(text: &'a str, vector: &'a [i8], now: Timestamp) -> Self {
        Self {
            text,
            vector,
            mode: Mode::Hybrid,
            now,
            weights: Weights::default(),
            limit: 10,
            min_confidence: 0.0,
            entities: &[],
            filter: Filter::default(),
        }
    }
}

/// One entry found, the best first.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    pub id: Uuid,
    pub kind: Kind,
    pub score: f32,
    pub parts: Parts,
}

/// Why a hit stands where it stands.
#[derive(Serialize, Debug, Clone, Copy, PartialEq, Default)]
pub struct Parts {
    /// As measured: BM25 in shares of the question's weight, and the cosine with the question.
    pub bm25: f32,
    pub cosine: f32,
    /// What each adds to the relevance; with `floor` they sum to it.
    pub words: f32,
    pub meaning: f32,
    pub neighbours: f32,
    pub thread: f32,
    pub about: f32,
    pub time: f32,
    pub form: f32,
    pub floor: f32,
    /// From 0 to 1, not yet weighted.
    pub relevance: f32,
    pub importance: f32,
    pub recency: f32,
    pub confidence: f32,
}
