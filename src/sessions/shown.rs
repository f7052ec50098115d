//! Which tools a butler's conversations were told of.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use access::Detail;

/// So many conversations are remembered.
const CONVERSATIONS: usize = 500;

/// How much of which tools, in the order in which the model is told of them.
pub(super) type Shown = Vec<(String, Detail)>;

/// What the last conversations were shown, so that the next session of each is shown it, too: the model knows it, and the
/// vendor's cache has it.
#[derive(Default)]
pub(super) struct ShownBefore(Mutex<Remembered>);

#[derive(Default)]
struct Remembered {
    of: HashMap<String, Shown>,
    /// The oldest first.
    order: VecDeque<String>,
}

impl ShownBefore {
    fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn of(&self, conversation: &str) -> Option<Shown> {
        self.lock().of.get(conversation).cloned()
    }

    pub fn keep(&self, conversation: String, shown: Shown) {
        let mut kept = self.lock();
        if kept.of.insert(conversation.clone(), shown).is_none() {
            kept.order.push_back(conversation);
        }
        while kept.order.len() > CONVERSATIONS {
            if let Some(oldest) = kept.order.pop_front() {
                kept.of.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_conversation_is_forgotten_first() {
        let before = ShownBefore::default();
        let of = |n: usize| vec![(format!("tool_{n}"), Detail::Terse)];
        (0..=CONVERSATIONS).for_each(|n| before.keep(n.to_string(), of(n)));
        assert_eq!((before.of("0"), before.of("1")), (None, Some(of(1))));
        before.keep("1".to_owned(), of(7));
        assert_eq!(before.of("1"), Some(of(7)));
        assert_eq!(before.lock().order.len(), CONVERSATIONS);
    }
}
