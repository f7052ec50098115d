//! Tokens, in one way of counting for all vendors.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Tokens. `None` means that nobody said, never 0. The four kinds do not overlap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(rename = "TokensUsed")]
pub struct Usage {
    /// Neither read from nor written to a cache.
    pub input: Option<u64>,
    pub output: Option<u64>,
    pub cache_read: Option<u64>,
    pub cache_write: Option<u64>,
}

impl Usage {
    /// Both together; a kind that neither names stays unknown.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.with(other, |a, b| match (a, b) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
        })
    }

    /// Both together; a kind that one of them does not name is unknown.
    #[must_use]
    pub fn plus_if_known(self, other: Self) -> Self {
        self.with(other, |a, b| Some(a?.saturating_add(b?)))
    }

    fn with(self, other: Self, sum: impl Fn(Option<u64>, Option<u64>) -> Option<u64>) -> Self {
        Self {
            input: sum(self.input, other.input),
            output: sum(self.output, other.output),
            cache_read: sum(self.cache_read, other.cache_read),
            cache_write: sum(self.cache_write, other.cache_write),
        }
    }

    /// Tokens of all kinds that were named.
    pub fn total(self) -> u64 {
        [self.input, self.output, self.cache_read, self.cache_write].into_iter().flatten().fold(0, u64::saturating_add)
    }

    /// The input as most APIs count it: with what was read from or written to a cache.
    pub(crate) fn all_input(self) -> u64 {
        Self { output: None, ..self }.total()
    }

    /// Takes input that includes what was cached.
    pub(crate) fn take_all_input(&mut self, all: u64, read: Option<u64>, written: Option<u64>) {
        let cached = read.unwrap_or(0).saturating_add(written.unwrap_or(0));
        self.input = Some(all.saturating_sub(cached));
        (self.cache_read, self.cache_write) = (read, written);
    }
}

/// A count that is there.
pub(crate) fn count(value: &Value, key: &str) -> Option<u64> {
    value.get(key)?.as_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_say_what_is_unknown() {
        let known = Usage { input: Some(1), output: Some(2), ..Usage::default() };
        assert_eq!(known.plus_if_known(known).output, Some(4));
        assert_eq!(known.plus_if_known(Usage::default()).input, None);
        assert_eq!((known.plus(Usage::default()).input, known.plus(known).cache_read), (Some(1), None));
    }
}
