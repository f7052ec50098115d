//! A JSON document as it is judged and passed on: in its own order, each key once.
//!
//! Two readers may take a key that stands twice for its first or for its last value. So such a document is not read at
//! all, and what goes on is written anew from what was judged.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::Value;

/// A value of the document.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Object(Vec<(String, Node)>),
    Array(Vec<Node>),
    /// Anything else.
    Plain(Value),
}

/// Whether these are spellings of one key.
pub(super) fn same(rule: &str, key: &str) -> bool {
    let letters =
        |text: &'_ str| text.bytes().filter(|b| *b != b'_').map(|b| b.to_ascii_lowercase()).collect::<Vec<_>>();
    letters(rule) == letters(key)
}

impl Node {
    /// The member of this name, of an object that has it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        match self {
            Node::Object(members) => members.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The members of these names, however they are spelled, but for those that are null.
    pub fn spelled(&self, names: &[&str]) -> Vec<&Node> {
        let Node::Object(members) = self else { return Vec::new() };
        let is_one = |key: &str| names.iter().any(|name| same(name, key));
        let there = members.iter().filter(|(key, value)| is_one(key) && *value != Node::Plain(Value::Null));
        there.map(|(_, value)| value).collect()
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            Node::Plain(value) => value.as_str(),
            _ => None,
        }
    }

    pub fn number(&self) -> Option<u64> {
        match self {
            Node::Plain(value) => value.as_u64(),
            _ => None,
        }
    }

    /// Whether it says nothing: `null`, `false`, or an empty list.
    pub fn is_nothing(&self) -> bool {
        match self {
            Node::Plain(value) => matches!(value, Value::Null | Value::Bool(false)),
            Node::Array(items) => items.is_empty(),
            Node::Object(_) => false,
        }
    }

    /// Sets a member of an object.
    pub fn set(&mut self, key: &str, value: Value) {
        if let Node::Object(members) = self {
            members.retain(|(name, _)| name != key);
            members.push((key.to_owned(), Node::Plain(value)));
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reading)
    }
}

struct Reading;

impl<'de> Visitor<'de> for Reading {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Plain(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Plain(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Plain(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Plain(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Plain(value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<Node, E> {
        Ok(Node::Plain(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Plain(Value::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element()? {
            all.push(item);
        }
        Ok(Node::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Node, A::Error> {
        let mut all: Vec<(String, Node)> = Vec::new();
        let mut names = std::collections::HashSet::new();
        while let Some((name, value)) = members.next_entry::<String, Node>()? {
            if !names.insert(name.clone()) {
                return Err(A::Error::custom(format!("the key \"{name}\" stands twice in one object")));
            }
            all.push((name, value));
        }
        Ok(Node::Object(all))
    }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Node::Plain(value) => value.serialize(serializer),
            Node::Array(items) => {
                let mut all = serializer.serialize_seq(Some(items.len()))?;
                items.iter().try_for_each(|item| all.serialize_element(item))?;
                all.end()
            }
            Node::Object(members) => {
                let mut all = serializer.serialize_map(Some(members.len()))?;
                members.iter().try_for_each(|(name, value)| all.serialize_entry(name, value))?;
                all.end()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_comes_out_as_it_went_in() {
        let text = r#"{"z":1,"a":[true,null,-2,0.1,18446744073709551615,{"y":"é\n","b":{}}],"":"x"}"#;
        let node: Node = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&node).unwrap(), text);
    }

    #[test]
    fn a_key_that_stands_twice_is_refused_at_any_depth() {
        for text in [r#"{"a":1,"a":1}"#, r#"[{"b":{"a":1,"\u0061":2}}]"#] {
            let error = serde_json::from_str::<Node>(text).unwrap_err().to_string();
            assert!(error.contains("\"a\" stands twice"), "{error}");
        }
    }
}
