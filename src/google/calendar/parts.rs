//! All that Google has of one item.

use std::collections::BTreeMap;

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

/// What was written of a series, event by event.
#[derive(Default)]
pub(super) struct Written(BTreeMap<String, Version>);

/// How an event is known again.
enum Version {
    Etag(String),
    /// Google names no version of what it cancels.
    Cancelled,
}

impl Written {
    /// An event as it is since it was written.
    pub fn note(&mut self, event: &Value) {
        let [id, etag] = ["id", "etag"].map(|name| event[name].as_str().unwrap_or_default().to_owned());
        self.0.insert(id, Version::Etag(etag));
    }

    pub fn cancelled(&mut self, id: &str) {
        self.0.insert(id.to_owned(), Version::Cancelled);
    }

    /// Whether nothing else became different from `before` to `now`, so that what is there now is what was sent. Else somebody
    /// wrote meanwhile, and nobody may take that for the household's own.
    pub fn is_all_between(&self, before: &Parts, now: &Parts) -> bool {
        let of = |parts: &'_ Parts| -> BTreeMap<String, Value> {
            let all = std::iter::once(&parts.main).chain(&parts.instances);
            all.map(|event| (event["id"].as_str().unwrap_or_default().to_owned(), event.clone())).collect()
        };
        let (before, now) = (of(before), of(now));
        before.keys().chain(self.0.keys()).all(|id| now.contains_key(id))
            && now.iter().all(|(id, event)| match self.0.get(id) {
                Some(Version::Etag(etag)) => event["etag"] == **etag,
                Some(Version::Cancelled) => is_cancelled(event),
                None => before.get(id).is_some_and(|seen| seen["etag"] == event["etag"]),
            })
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parts(events: &[(&str, &str, &str)]) -> Parts {
        let mut all: Vec<Value> =
            events.iter().map(|(id, etag, status)| json!({"id": id, "etag": etag, "status": status})).collect();
        let main = all.remove(0);
        Parts::new(main, all)
    }

    #[test]
    fn only_what_was_written_may_have_become_different() {
        let before = parts(&[("a", "1", "confirmed"), ("a_1", "2", "confirmed")]);
        let mut written = Written::default();
        written.note(&json!({"id": "a", "etag": "1"}));
        written.note(&json!({"id": "a_2", "etag": "5"}));
        written.cancelled("a_3");
        let now = |one: &str, two: &str, three: &str| {
            parts(&[("a", "1", "confirmed"), ("a_1", one, "confirmed"), ("a_2", two, "confirmed"), ("a_3", "9", three)])
        };
        assert!(written.is_all_between(&before, &now("2", "5", "cancelled")));
        for (one, two, three) in [("7", "5", "cancelled"), ("2", "7", "cancelled"), ("2", "5", "confirmed")] {
            assert!(!written.is_all_between(&before, &now(one, two, three)), "{one} {two} {three}");
        }
        // One more, one less, and another series.
        let whole = now("2", "5", "cancelled");
        let mut more = whole.clone();
        more.instances.push(json!({"id": "a_4", "etag": "3", "status": "confirmed"}));
        let mut less = whole.clone();
        less.instances.remove(0);
        let other = Parts::new(json!({"id": "a", "etag": "4"}), whole.instances);
        for now in [more, less, other] {
            assert!(!written.is_all_between(&before, &now), "{now:?}");
        }
    }
}
