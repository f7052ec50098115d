//! The meter of one session: counts what its model calls use, and says when it is enough.

use std::sync::{Arc, Mutex, MutexGuard};

use crate::spawner::adapters::{ErrorClass, Usage};

/// What one session may use at most. `None` is no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    /// Model calls.
    pub turns: Option<u32>,
    /// Tokens of all kinds together.
    pub tokens: Option<u64>,
}

/// What one session has used so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spent {
    /// Model calls that were begun.
    pub turns: u32,
    /// Of the calls that said so.
    pub usage: Usage,
}

/// A limit that is reached.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct OverBudget {
    /// `Budget` or `Turns`.
    pub class: ErrorClass,
    /// Which limit it is, for people.
    pub message: String,
}

/// Counts for one session. Cheap to clone; all clones count together.
#[derive(Clone, Debug)]
pub struct Meter {
    limits: Limits,
    spent: Arc<Mutex<Spent>>,
}

impl Meter {
    pub fn new(limits: Limits) -> Self {
        Self { limits, spent: Arc::default() }
    }

    /// Whether one more model call may begin; if so, it is counted as a turn.
    pub fn may_call(&self) -> Result<(), OverBudget> {
        let mut spent = self.lock();
        if let Some(most) = self.limits.turns.filter(|most| spent.turns >= *most) {
            return Err(OverBudget {
                class: ErrorClass::Turns,
                message: format!("this session has made its {most} model calls"),
            });
        }
        if let Some(most) = self.limits.tokens.filter(|most| spent.usage.total() >= *most) {
            return Err(OverBudget {
                class: ErrorClass::Budget,
                message: format!("this session has used its {most} tokens"),
            });
        }
        spent.turns += 1;
        Ok(())
    }

    /// A call that was let through got no answer of the model: it is no turn, and its client may try again.
    pub fn take_back(&self) {
        let mut spent = self.lock();
        spent.turns = spent.turns.saturating_sub(1);
    }

    /// A model call ended and used this much of this model.
    pub fn used(&self, _model: &str, usage: Usage) {
        let mut spent = self.lock();
        spent.usage = spent.usage.plus(usage);
    }

    /// What was used so far.
    pub fn spent(&self) -> Spent {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Spent> {
        self.spent.lock().unwrap_or_else(|e| e.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_call_after_the_last_is_refused() {
        let meter = Meter::new(Limits { turns: Some(2), tokens: Some(1000) });
        let usage = Usage { input: Some(60), output: Some(10), ..Usage::default() };
        meter.may_call().unwrap();
        meter.used("m", usage);
        meter.may_call().unwrap();
        assert_eq!(meter.may_call().unwrap_err().class, ErrorClass::Turns);
        meter.used("m", usage);
        let spent = meter.spent();
        assert_eq!((spent.turns, spent.usage.input, spent.usage.cache_read), (2, Some(120), None));
        meter.take_back();
        meter.may_call().unwrap();
        let few = Meter::new(Limits { turns: None, tokens: Some(70) });
        few.may_call().unwrap();
        few.used("m", usage);
        assert_eq!(few.may_call().unwrap_err().class, ErrorClass::Budget);
    }
}
