//! How much of what is here the deletions of others may take away at once.

use serde_json::{Value, json};

use super::{Daemon, SyncError};
use crate::record::Export;

/// So many memories may always go, however few there are.
const HANDFUL: u64 = 5;

/// What deletions take away in one exchange, all of them together: several files that each name a part are no better
/// than one that names all.
pub struct Losses {
    force: bool,
    here: Option<u64>,
    so_far: u64,
}

/// What a file would take away, and how many memories were here when the exchange began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooMany {
    pub would: u64,
    pub here: u64,
}

impl Losses {
    /// With `force` nothing is too much.
    pub fn new(force: bool) -> Self {
        Self { force, here: None, so_far: 0 }
    }

    /// Whether a file's deletions would take so much that it can't be meant. If not, they are counted as done.
    pub fn of(&mut self, daemon: &mut dyn Daemon, export: &Export) -> Result<Option<TooMany>, SyncError> {
        if self.force || export.deleted.is_empty() {
            return Ok(None);
        }
        // The daemon says it, because it knows which names of a memory mean the same.
        let deletions = Export { records: Vec::new(), merged: Vec::new(), count: 0, ..export.clone() };
        let mut count = |op: &'static str, args: Value, name: &str| {
            let counted = daemon.ask(op, args)?[name].as_u64();
            counted.ok_or_else(|| SyncError::Answer { op, why: format!("it does not say `{name}`") })
        };
        let here = match self.here {
            Some(here) => here,
            None => *self.here.insert(count("status", json!({}), "count")?),
        };
        let would = count("import_memories", json!({"export": deletions, "dry_run": true}), "would_delete")?;
        if is_too_much(self.so_far + would, here) {
            return Ok(Some(TooMany { would, here }));
        }
        self.so_far += would;
        Ok(None)
    }
}

fn is_too_much(would: u64, here: u64) -> bool {
    would > HANDFUL && would * 2 > here
}

#[cfg(test)]
mod tests {
    use super::is_too_much;

    #[test]
    fn a_handful_may_go_and_half_of_many() {
        assert!(!is_too_much(5, 5) && is_too_much(6, 6));
        assert!(!is_too_much(15, 30) && is_too_much(16, 30));
        assert!(!is_too_much(0, 0));
    }
}
