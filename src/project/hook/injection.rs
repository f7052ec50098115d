//! What project memory says, and which memories stand in it.

use std::collections::HashSet;

use uuid::Uuid;

/// What project memory says at an event.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProjectPart {
    pub text: String,
    pub told: Injection,
}

/// Which memories stand in a text, and which session is told them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Injection {
    pub session: String,
    pub memories: Vec<Injected>,
}

/// A memory that the daemon gave to be told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Injected {
    pub id: Uuid,
    /// The line that tells it. None: nothing of it can be shown, now or later.
    pub line: Option<String>,
}

impl Injection {
    /// The memories whose lines stand in what is printed. Where there was no room for one, the session was not told it.
    pub fn standing_in(&self, text: &str) -> Vec<Uuid> {
        let lines: HashSet<&str> = text.lines().collect();
        let stands = |memory: &&Injected| memory.line.as_deref().is_none_or(|line| lines.contains(line));
        self.memories.iter().filter(stands).map(|memory| memory.id).collect()
    }
}
