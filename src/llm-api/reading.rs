//! What an answer tells beside its content: model, tokens, failure, end.

use base::text;
use serde_json::Value;

use crate::failure::Failure;
use crate::usage::Usage;

/// What an answer has said so far.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Reading {
    pub model: Option<String>,
    pub usage: Usage,
    /// An error inside of an answer that began well.
    pub failure: Option<Failure>,
    /// The answer is whole: what was meant to come has come.
    pub whole: bool,
    /// Its client needs nothing that may follow, and may go on.
    pub over: bool,
}

impl Reading {
    /// The stream's own mark of its end has come.
    pub fn done(&mut self) {
        (self.whole, self.over) = (true, true);
    }

    pub(crate) fn named(&mut self, model: &Value) {
        if let Some(name) = model.as_str().filter(|name| !name.is_empty()) {
            self.model = Some(text::truncate(&text::clean(name), 200));
        }
    }
}
