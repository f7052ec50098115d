//! What a butler remembers, as its sessions meet it: told before they begin, added to after their end.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use super::types::Trigger;
use base::{Label, Trust};

/// Whoever remembers for a butler.
#[async_trait]
pub trait Memory: Send + Sync {
    /// What matters to this trigger. Never fails: a session begins without, if need be.
    async fn recall(&self, trigger: &Trigger) -> Recalled;
    /// Whether it takes in the ends of sessions; else their rows never say `remember = 'pending'`.
    fn remembers(&self) -> bool {
        true
    }
    /// A session of the butler is over, and its row says `remember = 'pending'`.
    fn ended(&self);
}

/// What is told to a session before it begins.
#[derive(Clone, Debug)]
pub struct Recalled {
    /// Goes to the end of the system prompt; `None`: nothing is told.
    pub block: Option<String>,
    /// The least trusted text in it.
    pub seen: Trust,
    /// The butler's notes to itself stand in it, so the prompt does not say them again.
    pub notes: bool,
    /// For the session's row: `{"state": "told" | "nothing" | "late" | "failed" | "off", "ids", "tokens", "ms", "why"}`.
    pub row: Option<Value>,
}

impl Recalled {
    /// Nothing, and nobody was asked.
    pub fn unasked() -> Self {
        Self { block: None, seen: Trust::Owner, notes: false, row: None }
    }

    /// The label of what is told: memories are the household's own.
    pub fn label(&self) -> Label {
        match self.block {
            Some(_) => Label::household(self.seen),
            None => Label::NOTHING,
        }
    }
}

/// How long a session waits for its memory, unless the butler's settings say otherwise.
pub const RECALL_WITHIN: Duration = Duration::from_millis(300);
