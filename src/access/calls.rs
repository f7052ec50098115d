//! The breaker of one session: how many tool calls it made, and how often the same one in a row.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use thiserror::Error;

/// The call that is the so-manieth of the same in a row is refused, and ends the session.
pub const IDENTICAL_CALLS: u32 = 5;

/// Why a session's call is not made.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CallRefused {
    #[error(
        "the session called `{tool}` {times} times in a row with the same arguments; \
         the last of these calls was not made, and the session is ended"
    )]
    Repeated { tool: String, times: u32 },
    #[error(
        "the session made its {most} tool calls, which is all that [butler.runtime] max_tool_calls allows; \
         its call of `{tool}` was not made, and the session is ended"
    )]
    TooMany { tool: String, most: u32 },
    /// The session is being ended, for a reason of its own.
    #[error("{0}")]
    Ending(String),
}

/// Counts a session's tool calls. The first call too many is refused, and so is every one after it.
pub struct CallGuard {
    most: u32,
    identical: u32,
    count: Mutex<Count>,
    tripped: Box<dyn Fn(&str) + Send + Sync>,
}

#[derive(Default)]
struct Count {
    calls: u32,
    /// What the last call was: tool and arguments, hashed, because arguments may be long.
    last: [u8; 32],
    in_a_row: u32,
    /// Why no further call is let through.
    refusal: Option<CallRefused>,
}

impl CallGuard {
    /// Lets `most` calls through. `tripped` is told once, with a sentence, when a call is refused.
    pub fn new(most: u32, tripped: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { most, identical: IDENTICAL_CALLS, count: Mutex::default(), tripped: Box::new(tripped) }
    }

    /// Counts, and lets everything through: for measuring.
    pub fn open() -> Self {
        Self { identical: u32::MAX, ..Self::new(u32::MAX, |_| ()) }
    }

    /// Lets no further call through, for this reason: the session is being ended.
    pub fn close(&self, why: &str) {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        count.refusal.get_or_insert_with(|| CallRefused::Ending(why.to_owned()));
    }

    /// Whether this call may be made, counting it.
    pub fn admit(&self, tool: &str, arguments: &Map<String, Value>) -> Result<(), CallRefused> {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(refusal) = &count.refusal {
            return Err(refusal.clone());
        }
        let call = fingerprint(tool, arguments);
        count.in_a_row = if count.last == call { count.in_a_row.saturating_add(1) } else { 1 };
        count.last = call;
        count.calls = count.calls.saturating_add(1);
        let refusal = if count.in_a_row >= self.identical {
            CallRefused::Repeated { tool: tool.to_owned(), times: self.identical }
        } else if count.calls > self.most {
            CallRefused::TooMany { tool: tool.to_owned(), most: self.most }
        } else {
            return Ok(());
        };
        count.refusal = Some(refusal.clone());
        drop(count);
        (self.tripped)(&refusal.to_string());
        Err(refusal)
    }
}

/// Objects of JSON are sorted by their keys here, so that the order in which a model writes them makes no difference.
fn fingerprint(tool: &str, arguments: &Map<String, Value>) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(tool.as_bytes());
    hash.update([0]);
    hash.update(serde_json::to_vec(arguments).unwrap_or_default());
    hash.finalize().into()
}

impl fmt::Debug for CallGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallGuard").field("most", &self.most).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use serde_json::json;

    use super::*;

    fn guard(most: u32) -> (CallGuard, Arc<AtomicU32>) {
        let told = Arc::new(AtomicU32::new(0));
        let count = told.clone();
        let tripped = move |_: &str| {
            count.fetch_add(1, Ordering::Relaxed);
        };
        (CallGuard::new(most, tripped), told)
    }

    fn args(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn the_fifth_of_the_same_is_refused_and_all_after_it() {
        let (guard, told) = guard(100);
        let same = args(json!({"key": "a", "value": {"x": 1, "y": 2}}));
        let turned = args(serde_json::from_str(r#"{"value": {"y": 2, "x": 1}, "key": "a"}"#).unwrap());
        for n in 1..IDENTICAL_CALLS {
            assert_eq!(guard.admit("state_set", if n % 2 == 0 { &same } else { &turned }), Ok(()), "{n}");
        }
        let why = guard.admit("state_set", &same).unwrap_err();
        assert!(why.to_string().contains("`state_set` 5 times in a row with the same arguments"), "{why}");
        assert_eq!(guard.admit("state_get", &args(json!({}))), Err(why));
        assert_eq!(told.load(Ordering::Relaxed), 1, "told once");
    }

    #[test]
    fn another_call_in_between_starts_the_row_anew() {
        let (guard, _) = guard(100);
        let (one, other) = (args(json!({"key": "a"})), args(json!({"key": "b"})));
        for _ in 0..10 {
            for call in [&one, &one, &one, &one, &other] {
                assert_eq!(guard.admit("state_get", call), Ok(()));
            }
            assert_eq!(guard.admit("state_list", &other), Ok(()), "the same arguments of another tool");
        }
    }

    #[test]
    fn a_closed_guard_lets_nothing_through() {
        let (guard, told) = guard(100);
        guard.close("it is over");
        guard.close("something else");
        assert_eq!(guard.admit("t", &args(json!({}))), Err(CallRefused::Ending("it is over".to_owned())));
        assert_eq!(told.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_call_past_the_last_is_refused() {
        let (guard, told) = guard(3);
        for n in 0..3 {
            assert_eq!(guard.admit("t", &args(json!({"n": n}))), Ok(()));
        }
        let why = guard.admit("t", &args(json!({"n": 3}))).unwrap_err();
        assert_eq!(why, CallRefused::TooMany { tool: "t".to_owned(), most: 3 });
        assert!(why.to_string().contains("made its 3 tool calls"), "{why}");
        assert_eq!(told.load(Ordering::Relaxed), 1);
    }
}
