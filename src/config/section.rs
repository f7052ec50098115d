//! The settings of a module, whose keys a struct of its own declares.

use std::fmt;
use std::path::Path;

use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use super::check::Checker;
use super::node::Node;
use super::schema::{self, Table, keys};

/// The keys of `[modules.<name>]`.
///
/// ```
/// /// Where leaves go.
/// #[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
/// #[schemars(transform = config::keys::<Self>)]
/// struct Settings {
///     /// How many a bag takes.
///     #[schemars(range(min = 1, max = 100), extend("default" = 20))]
///     leaves: u32,
/// }
/// let read = |given| config::Section::of::<Settings>().read::<Settings>(&given);
/// assert_eq!(read(serde_json::json!({})).unwrap().leaves, 20);
/// let wrong = read(serde_json::json!({"leafs": 1, "leaves": 0})).unwrap_err();
/// assert_eq!(wrong[1].to_string(), "leaves: found 0, expected a whole number 1-100");
/// ```
#[derive(Debug)]
pub struct Section {
    schema: Schema,
    table: Table,
}

/// What is wrong with a key of a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyMistake {
    /// Dotted, from the section on; empty where all of it is meant.
    pub key: String,
    /// What was found.
    pub problem: String,
    /// Empty if the problem says it.
    pub expected: String,
}

impl KeyMistake {
    /// A mistake that shows only where several keys are seen together.
    pub fn new(key: &str, problem: impl Into<String>, expected: impl Into<String>) -> Self {
        Self { key: key.to_owned(), problem: problem.into(), expected: expected.into() }
    }
}

impl fmt::Display for KeyMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, problem, expected } = self;
        let colon = if key.is_empty() { "" } else { ": " };
        let comma = if expected.is_empty() { "" } else { ", expected " };
        write!(f, "{key}{colon}{problem}{comma}{expected}")
    }
}

/// A section without keys.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(transform = keys::<Self>)]
struct Nothing {}

impl Section {
    /// The keys that a struct declares.
    pub fn of<T: JsonSchema>() -> Self {
        let schema = schema::of::<T>();
        Self { table: Table::read(schema.as_value()), schema }
    }

    /// The section of a module without settings.
    pub fn nothing() -> Self {
        Self::of::<Nothing>()
    }

    pub(super) fn table(&self) -> &Table {
        &self.table
    }

    /// The JSON Schema, for editors.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// What is wrong with the keys, each seen by itself.
    pub fn check(&self, given: &Json) -> Vec<KeyMistake> {
        self.walk(given).1
    }

    /// The settings, or every mistake in them.
    pub fn read<T: DeserializeOwned>(&self, given: &Json) -> Result<T, Vec<KeyMistake>> {
        self.read_with(given, |_| Vec::new())
    }

    /// The settings, or every mistake in them; `together` says what shows only where several keys are seen together. It
    /// is also asked where some keys are wrong: then it sees their defaults, and nothing that it says of them is told.
    pub fn read_with<T: DeserializeOwned>(
        &self,
        given: &Json,
        together: impl Fn(&T) -> Vec<KeyMistake>,
    ) -> Result<T, Vec<KeyMistake>> {
        let (taken, mut wrong) = self.walk(given);
        match serde_json::from_value(taken) {
            Ok(settings) => {
                let known: Vec<String> = wrong.iter().map(|mistake| mistake.key.clone()).collect();
                wrong.extend(together(&settings).into_iter().filter(|mistake| !known.contains(&mistake.key)));
                if wrong.is_empty() { Ok(settings) } else { Err(wrong) }
            }
            // The walk has checked every value; this is for a table that contradicts its struct.
            Err(e) if wrong.is_empty() => Err(vec![KeyMistake::new("", format!("can't be taken over: {e}"), "")]),
            Err(_) => Err(wrong),
        }
    }

    /// What is right in a section, with defaults for the rest, and what is wrong.
    fn walk(&self, given: &Json) -> (Json, Vec<KeyMistake>) {
        let mut checker = Checker::new(Path::new(""), &self.table);
        let mut map = checker.file(&Node::from(given));
        self.table.fill(&mut map);
        let wrong = checker.mistakes.into_iter().map(|m| KeyMistake::new(&m.key, m.problem, m.expected));
        (Json::Object(map), wrong.collect())
    }
}
