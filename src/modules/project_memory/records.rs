//! Facts of a project as records.

use std::collections::BTreeMap;

use memory::sql::experiences::Experience;
use project::record::{ExperienceType, Record};
use serde_json::{Value, json};

/// The tag of what is left to do.
pub(super) const TODO: &str = "todo";
/// What stands before a branch's name in its tag.
pub(super) const BRANCH: &str = "branch:";

/// So many bytes are kept beside a memory's text; the rest is left out.
const MOST_METADATA: usize = 8 << 10;

/// Keys of the metadata that are no text and no part of what was given.
const IS_FAILURE: &str = "is_failure";
const IS_ANOMALY: &str = "is_anomaly";

/// A fact as a record.
pub(super) fn record(fact: &Experience) -> Record {
    let flag = |name: &str| fact.metadata[name] == json!(true);
    let given = fact.metadata.as_object().into_iter().flatten().filter(|(_, value)| value.is_string());
    Record {
        id: fact.id.to_string(),
        content: fact.content.clone(),
        experience_type: kind(fact).as_str().to_owned(),
        tags: fact.tags.clone(),
        entities: Vec::new(),
        metadata: given.map(|(name, value)| (name.clone(), value.clone())).collect(),
        importance: importance(fact),
        access_count: fact.reference_count.into(),
        created_at: fact.created_at.to_string(),
        last_accessed: fact.last_referenced_at.unwrap_or(fact.created_at).to_string(),
        compressed: false,
        is_failure: flag(IS_FAILURE),
        is_anomaly: flag(IS_ANOMALY),
        rest: BTreeMap::new(),
    }
}

pub(super) fn records(facts: &[Experience]) -> Value {
    json!(facts.iter().map(record).collect::<Vec<_>>())
}

pub(super) fn kind(fact: &Experience) -> ExperienceType {
    ExperienceType::read(&fact.predicate).map(|(kind, _)| kind).unwrap_or_default()
}

pub(super) fn is_failure(fact: &Experience) -> bool {
    fact.metadata[IS_FAILURE] == json!(true)
}

pub(super) fn is_todo(fact: &Experience) -> bool {
    fact.tags.iter().any(|tag| tag == TODO)
}

/// 0 to 1, without the noise of a narrow float.
pub(super) fn importance(fact: &Experience) -> f64 {
    (f64::from(fact.importance) * 1000.0).round() / 10_000.0
}

/// The metadata of a fact: texts that were given, and what kind of experience it was.
pub(super) fn metadata(given: impl IntoIterator<Item = (String, String)>, failure: bool, anomaly: bool) -> Value {
    // The database knows no such character.
    let clean = |text: String| text.replace('\0', "");
    let mut left = MOST_METADATA;
    let mut all = serde_json::Map::new();
    for (name, value) in given.into_iter().map(|(name, value)| (clean(name), clean(value))) {
        left = left.saturating_sub(name.len() + value.len());
        if left > 0 {
            all.insert(name, json!(value));
        }
    }
    for (name, flag) in [(IS_FAILURE, failure), (IS_ANOMALY, anomaly)] {
        all.remove(name);
        if flag {
            all.insert(name.to_owned(), json!(true));
        }
    }
    Value::Object(all)
}
