//! What one question may cost: shared out before models are asked, so that all together never go above it.

use std::sync::{Mutex, PoisonError};

use base::Money;
use rust_decimal::Decimal;
use sessions::budget::Limits;

/// What is left for a question.
pub(super) struct QuestionBudget(Mutex<Left>);

struct Left {
    usd: Option<Money>,
    tokens: Option<u64>,
}

impl QuestionBudget {
    pub fn new(usd: Option<Money>, tokens: Option<u64>) -> Self {
        Self(Mutex::new(Left { usd, tokens }))
    }

    /// What each of `parts` models that are asked at once may use. `None`: nothing is left.
    pub fn share(&self, parts: usize) -> Option<Limits> {
        let left = self.left();
        let parts = parts.max(1) as u64;
        let usd = left.usd.map(|usd| Money((usd.0 / Decimal::from(parts)).trunc_with_scale(9)));
        let tokens = left.tokens.map(|tokens| tokens / parts);
        let empty = usd.is_some_and(|usd| usd.0.is_zero()) || tokens == Some(0);
        (!empty).then_some(Limits { turns: None, tokens, usd })
    }

    /// Takes out what was used. Where nobody knows how much that was, it is the whole `share` that it had.
    pub fn pay(&self, usd: Option<&str>, tokens: Option<u64>, share: Limits) {
        let mut left = self.left();
        let spent = usd.and_then(Money::parse).or(share.usd).unwrap_or(Money::ZERO);
        left.usd = left.usd.map(|usd| usd.less(spent));
        left.tokens = left.tokens.map(|left| left.saturating_sub(tokens.or(share.tokens).unwrap_or(0)));
    }

    fn left(&self) -> std::sync::MutexGuard<'_, Left> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_together_stay_below() {
        let budget = QuestionBudget::new(Money::parse("0.30"), Some(1000));
        let share = budget.share(3).unwrap();
        assert_eq!((share.usd, share.tokens), (Money::parse("0.10"), Some(333)));
        for _ in 0..3 {
            budget.pay(Some("0.10"), Some(333), share);
        }
        assert!(budget.share(1).is_none(), "one token is left, and no money");
        assert!(QuestionBudget::new(None, None).share(5).is_some_and(|limits| limits.usd.is_none()));
        let unpriced = QuestionBudget::new(Money::parse("1"), Some(10));
        unpriced.pay(None, None, Limits { tokens: Some(10), ..Limits::default() });
        assert!(unpriced.share(1).is_none());
    }
}
