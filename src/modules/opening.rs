//! What modules say at the start of a session: lines below the memory block, in one order and within one budget.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use ::journal::pack::{Measure, Packed, Part, joined, pack};
use ::journal::start::plain;
use base::Trust;
use sessions::Trigger;
use tools::Gate;

/// All that is put into the start of a session takes at most so many tokens: the memory block, and then modules' lines.
pub const OPENING_BUDGET: usize = 4000;

/// What a module tells a session that is about to begin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lines {
    /// What stands before all else, the memory block too; `None`: nothing.
    pub first: Option<String>,
    /// The butler's notes to itself stand in it, so the prompt does not say them again.
    pub notes: bool,
    /// What stands below the memory block, in this order. Where the budget is too small for all that is told, what
    /// matters least is left out, whoever tells it.
    pub parts: Vec<Part>,
    /// The least trusted words in it. Lines below the trust of the session that begins are left out: they would lower
    /// it.
    pub seen: Trust,
}

/// Tells sessions what a module has for them.
///
/// ```
/// use base::Trust;
/// use modules::{Lines, Part, SessionLines};
/// use sessions::Trigger;
///
/// struct Today;
///
/// #[async_trait::async_trait]
/// impl SessionLines for Today {
///     async fn lines(&self, _: &Trigger) -> Option<Lines> {
///         let parts = vec![Part::lines("# Today\n\nThe chimney sweep comes at ten.")];
///         Some(Lines { first: None, notes: false, parts, seen: Trust::Owner })
///     }
/// }
/// ```
#[async_trait]
pub trait SessionLines: Send + Sync {
    /// The lines for the session of this trigger; `None` if there is nothing to say. They are read from rows of the
    /// trigger's tenant. What comes later than the memory's own deadline is left out. Never asked for a stranger.
    async fn lines(&self, trigger: &Trigger) -> Option<Lines>;
}

/// A module's lines and their place.
#[derive(Clone)]
pub struct Opening {
    /// Lower goes first; modules of one order by name.
    pub order: u16,
    pub source: Arc<dyn SessionLines>,
}

/// An opening with whose it is.
#[derive(Clone)]
pub struct NamedOpening {
    pub module: String,
    pub(super) gate: Gate,
    pub opening: Opening,
}

impl NamedOpening {
    /// Whether the module is well and switched on.
    pub fn speaks(&self) -> bool {
        self.gate.failed.get().is_none() && self.gate.enabled.load(std::sync::atomic::Ordering::Acquire)
    }
}

/// What a session is told in the end.
#[derive(Clone, PartialEq, Debug)]
pub struct Opened {
    pub block: Option<String>,
    pub seen: Trust,
    /// The butler's notes to itself stand in it.
    pub notes: bool,
    /// Of the memory block, as far as it is told: how many tokens it takes, and whether something of it is left out.
    pub memory: Option<(usize, bool)>,
    /// Of each module that had something to say: `{"module", "tokens", "cut"}`.
    pub rows: Vec<Value>,
}

/// Puts the modules' lines together, as far as the budget goes: what is to stand first, the memory block, the rest, each
/// in the modules' order. `memory`: the block and how many tokens it takes. What is to stand first is always told; of the
/// rest what matters most is ([`pack`]).
pub fn open(memory: Option<(String, usize)>, seen: Trust, told: Vec<(String, Lines)>) -> Opened {
    let mut left = OPENING_BUDGET;
    let notes = told.iter().any(|(_, lines)| lines.first.is_some() && lines.notes);
    let mut opened = Opened { block: None, seen, notes, memory: None, rows: Vec::new() };
    for (_, lines) in &told {
        // It is short, and what is always told is told whole.
        if let Some(first) = &lines.first {
            left = left.saturating_sub(estimate(first));
            opened.add(plain(first.trim()), lines.seen);
        }
    }
    let had_memory = memory.is_some();
    let memory = memory.map(|(text, tokens)| Part::Block { text, closed: true, cost: Some(tokens) });
    let parts: Vec<Part> = memory.into_iter().chain(told.iter().flat_map(|(_, lines)| lines.parts.clone())).collect();
    let packed = pack(&parts, OPENING_BUDGET, left, Measure::Tokens);
    let (of_memory, mut rest) = packed.split_at(usize::from(had_memory));
    if let Some(packed) = of_memory.first() {
        opened.memory = Some((packed.cost, packed.cut));
        opened.add(shown(of_memory), seen);
    }
    for (module, lines) in told {
        let (own, others) = rest.split_at(lines.parts.len());
        rest = others;
        let cut = own.iter().any(|packed| packed.cut);
        let tokens = own.iter().map(|packed| packed.cost).sum::<usize>() + lines.first.as_deref().map_or(0, estimate);
        opened.rows.push(json!({"module": module, "tokens": tokens, "cut": cut}));
        if cut {
            tracing::warn!(module, tokens, "a session's start has no room for all of this module's lines");
        }
        opened.add(plain(shown(own).trim()), lines.seen);
    }
    opened
}

fn shown(packed: &[Packed]) -> String {
    joined(packed.iter().filter_map(|packed| packed.part.as_ref()))
}

impl Opened {
    /// Adds a part at the end.
    fn add(&mut self, part: String, seen: Trust) {
        if part.trim().is_empty() {
            return;
        }
        self.seen = self.seen.min(seen);
        self.block = Some(match self.block.take() {
            Some(block) => format!("{}\n\n{part}", block.trim_end()),
            None => part,
        });
    }
}

/// Tokens that a text takes at most, for texts of which no model was asked.
pub fn estimate(text: &str) -> usize {
    Measure::Tokens.of(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str, seen: Trust) -> Lines {
        Lines { first: None, notes: false, parts: vec![Part::lines(text)], seen }
    }

    #[test]
    fn memory_goes_first_and_the_budget_is_one() {
        let told = vec![
            ("journal".to_owned(), lines("one\ntwo", Trust::Owner)),
            ("project".to_owned(), lines(&"three\n".repeat(3000), Trust::Stranger)),
            ("late".to_owned(), lines("four", Trust::Owner)),
        ];
        let opened = open(Some(("# Memory".to_owned(), 3900)), Trust::Known, told);
        let block = opened.block.unwrap();
        assert!(block.starts_with("# Memory\n\none\ntwo\n\nthree\nthree"), "{block}");
        assert!(estimate(&block) < 200, "{}", block.len());
        assert_eq!(opened.seen, Trust::Stranger);
        assert_eq!(opened.rows[1]["cut"], true);
        assert_eq!(opened.rows[0], json!({"module": "journal", "tokens": 4, "cut": false}));
        assert_eq!(opened.memory, Some((3900, false)));
    }

    #[test]
    fn what_is_to_stand_first_does() {
        let journal = Lines { first: Some("=== CORE ===".to_owned()), ..lines("rest", Trust::System) };
        let told = vec![("a".to_owned(), lines("other", Trust::System)), ("journal".to_owned(), journal)];
        let opened = open(Some(("# Memory".to_owned(), 10)), Trust::System, told);
        assert_eq!(opened.block.as_deref(), Some("=== CORE ===\n\n# Memory\n\nother\n\nrest"));
    }

    #[test]
    fn what_is_not_told_lowers_no_trust() {
        let told = vec![("big".to_owned(), lines(&"x".repeat(50_000), Trust::Stranger))];
        let memory = "# Memory".to_owned();
        let rows = vec![json!({"module": "big", "tokens": 0, "cut": true})];
        assert_eq!(
            open(Some((memory.clone(), OPENING_BUDGET)), Trust::Owner, told),
            Opened {
                block: Some(memory),
                seen: Trust::Owner,
                notes: false,
                memory: Some((OPENING_BUDGET, false)),
                rows
            }
        );
        assert_eq!(open(None, Trust::Owner, Vec::new()).block, None);
    }

    #[test]
    fn the_newest_messages_are_told_before_old_memories() {
        use ::journal::pack::Message;
        let said = (1..=30).map(|id| Message::new(id, format!("[{id}] {}", "s".repeat(190)))).collect();
        let parts = vec![
            Part::Reference("r".repeat(6000)),
            Part::Checkpoint("[Last Checkpoint Summary] c".to_owned()),
            Part::Said(said),
            Part::Action("[Action Required] a".to_owned()),
        ];
        let first = Some("c".repeat(3072));
        let told = vec![("journal".to_owned(), Lines { first, notes: true, parts, seen: Trust::Owner })];
        let memory = format!("# Memory Context\nmemory-1\n{}memory-1", "- a green car\n".repeat(500));
        let opened = open(Some((memory, 3000)), Trust::Owner, told);
        let block = opened.block.unwrap();
        assert!(estimate(&block) <= OPENING_BUDGET, "{}", estimate(&block));
        assert!(block.contains("- a green car\nmemory-1\n\n[Last Checkpoint Summary] c\n\n[Recent"), "{block}");
        assert!(block.contains("\n[29] s") && block.contains("\n[30] s") && !block.contains("\n[1] s"), "{block}");
        assert!(block.ends_with("[Action Required] a"), "{block}");
        assert!(matches!(opened.memory, Some((tokens, true)) if tokens > 500), "{:?}", opened.memory);
        assert_eq!(opened.rows[0]["cut"], true);
    }
}
