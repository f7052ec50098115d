//! What a server shows of its tools, and how that differs from what the owner agreed to.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use base::text;
use mcp::RemoteTool;

/// A tool as its server shows it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct ShownTool {
    pub description: String,
    pub schema: Value,
}

/// All tools of a server, by its own names.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Listing(pub BTreeMap<String, ShownTool>);

/// How a tool differs from the one that was agreed to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Change {
    New,
    Gone,
    Changed,
}

impl Listing {
    /// As a server showed it, without what a database can't keep and a terminal would obey.
    pub fn of(tools: &[RemoteTool]) -> Self {
        let shown = |tool: &RemoteTool| {
            let mut schema = tool.schema.clone();
            text::strip_nul(&mut schema);
            (text::clean(&tool.name), ShownTool { description: text::clean(&tool.description), schema })
        };
        Self(tools.iter().map(shown).collect())
    }

    /// The same for the same tools, however a database keeps them.
    pub fn sha256(&self) -> String {
        let mut whole = String::new();
        for (name, tool) in &self.0 {
            for part in [&Value::from(name.as_str()), &Value::from(tool.description.as_str()), &tool.schema] {
                write(part, &mut whole);
                whole.push('\n');
            }
        }
        text::hex(&Sha256::digest(whole.as_bytes()))
    }

    /// What is different in `other`, by name.
    pub fn changes(&self, other: &Self) -> BTreeMap<String, Change> {
        let gone = self.0.keys().filter(|name| !other.0.contains_key(*name)).map(|name| (name.clone(), Change::Gone));
        let there = other.0.iter().filter_map(|(name, tool)| match self.0.get(name) {
            None => Some((name.clone(), Change::New)),
            Some(before) => (before != tool).then(|| (name.clone(), Change::Changed)),
        });
        gone.chain(there).collect()
    }
}

/// JSON with its keys in order.
fn write(value: &Value, to: &mut String) {
    match value {
        Value::Object(all) => {
            let sorted: BTreeMap<&String, &Value> = all.iter().collect();
            to.push('{');
            for (key, value) in sorted {
                to.push_str(&Value::from(key.as_str()).to_string());
                to.push(':');
                write(value, to);
                to.push(',');
            }
            to.push('}');
        }
        Value::Array(all) => {
            to.push('[');
            for value in all {
                write(value, to);
                to.push(',');
            }
            to.push(']');
        }
        plain => to.push_str(&plain.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn listing(of: Value) -> Listing {
        serde_json::from_value(of).unwrap()
    }

    #[test]
    fn the_same_tools_have_the_same_hash_and_others_another() {
        let one = listing(json!({"a": {"description": "d", "schema": {"x": 1, "y": [1, {"b": 2, "a": 1}]}}}));
        let same = listing(json!({"a": {"schema": {"y": [1, {"a": 1, "b": 2}], "x": 1}, "description": "d"}}));
        assert_eq!(one.sha256(), same.sha256());
        for other in [
            json!({"a": {"description": "D", "schema": {"x": 1, "y": [1, {"b": 2, "a": 1}]}}}),
            json!({"a": {"description": "d", "schema": {"x": 1, "y": [{"b": 2, "a": 1}, 1]}}}),
            json!({"b": {"description": "d", "schema": {"x": 1, "y": [1, {"b": 2, "a": 1}]}}}),
            json!({}),
        ] {
            assert_ne!(listing(other).sha256(), one.sha256());
        }
    }

    #[test]
    fn a_change_is_named_by_what_it_is() {
        let tool = |about: &str| json!({"description": about, "schema": {}});
        let before = listing(json!({"a": tool("1"), "b": tool("1"), "c": tool("1")}));
        let after = listing(json!({"a": tool("1"), "b": tool("2"), "d": tool("1")}));
        let changes = before.changes(&after);
        let told: Vec<_> = changes.iter().map(|(name, change)| (name.as_str(), *change)).collect();
        assert_eq!(told, [("b", Change::Changed), ("c", Change::Gone), ("d", Change::New)]);
        assert!(before.changes(&before).is_empty());
    }
}
