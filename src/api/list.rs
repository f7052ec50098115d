//! Lists, as they are answered.

use admin::Unavailable;
use schemars::JsonSchema;
use serde::Serialize;

/// A page of a list.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "{T}List")]
pub(crate) struct Page<T> {
    pub data: Vec<T>,
    /// What `cursor` is for the next page; null: there is none.
    pub next: Option<String>,
    /// The list was cut where it can't go on: there may be more of it than its pages show. Narrow it down by its filters.
    pub truncated: bool,
    /// Butlers that can't be asked just now, so that theirs are missing.
    pub unavailable: Vec<Unavailable>,
}

impl<T> Page<T> {
    /// The same; whether it was cut.
    pub fn cut(self, truncated: bool) -> Self {
        Self { truncated, ..self }
    }
}
