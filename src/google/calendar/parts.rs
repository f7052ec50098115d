//! All that Google has of one item.

use calendar::When;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::times;

/// Names of our own in what Google keeps for programs of this calendar alone.
pub(super) const UID: &str = "butlerdUid";
pub(super) const SEQUENCE: &str = "butlerdSequence";
/// Set while a series is there and its special instances are still on their way.
pub(super) const UNFINISHED: &str = "butlerdUnfinished";

/// An event, or a series with its special instances.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    pub main: Value,
    /// Those that are otherwise, and those that are cancelled, in the order of their ids.
    pub instances: Vec<Value>,
}

impl Parts {
    pub fn new(main: Value, mut instances: Vec<Value>) -> Self {
        instances.sort_by(|a, b| a["id"].as_str().cmp(&b["id"].as_str()));
        Self { main, instances }
    }

    /// It changes with each of the parts.
    pub fn etag(&self) -> String {
        let own = self.main["etag"].as_str().unwrap_or_default();
        if !repeats(&self.main) {
            return own.to_owned();
        }
        let mut hash = Sha256::new();
        hash.update(own);
        for instance in &self.instances {
            for name in ["id", "etag", "status"] {
                hash.update([0]);
                hash.update(instance[name].as_str().unwrap_or_default());
            }
        }
        let hex: String = hash.finalize().iter().take(20).map(|byte| format!("{byte:02x}")).collect();
        format!("\"all-{hex}\"")
    }

    /// The special instance that stands for this one.
    pub fn instance(&self, of: &When) -> Option<&Value> {
        let is_it = |one: &&Value| times::read(&one["originalStartTime"]).is_some_and(|start| times::same(&start, of));
        self.instances.iter().find(is_it)
    }
}

pub(super) fn is_cancelled(event: &Value) -> bool {
    event["status"] == "cancelled"
}

pub(super) fn repeats(event: &Value) -> bool {
    event["recurrence"].as_array().is_some_and(|lines| !lines.is_empty())
}

/// A property of our own.
pub(super) fn own<'e>(event: &'e Value, name: &str) -> Option<&'e str> {
    event["extendedProperties"]["private"][name].as_str()
}
