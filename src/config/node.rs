//! A TOML file as a tree that knows its lines.
//!
//! The checker walks this tree; values from the environment and the command line become nodes without lines, so that
//! the same rules apply to all three.

use serde_json::Value as Json;
use toml_edit::{ImDocument, Item, TableLike, Value as TomlValue};

use base::text;

/// How much of a wrong value a mistake repeats, in bytes.
const SHOWN_BYTES: usize = 60;

#[derive(Debug, Clone)]
pub(super) struct Node {
    pub line: Option<usize>,
    pub value: Value,
}

#[derive(Debug, Clone)]
pub(super) enum Value {
    Text(String),
    Int(i64),
    Float(f64),
    Bool(bool),
    Date(String),
    List(Vec<Node>),
    Table(Vec<Entry>),
}

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub key: String,
    pub node: Node,
}

/// A file that is no TOML: the parser's reason and the line.
///
/// The reason never contains the line itself: it could hold a password.
pub(super) struct SyntaxError {
    pub line: Option<usize>,
    pub reason: String,
}

struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        Self(text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(at, _)| at).collect())
    }
    fn at(&self, offset: usize) -> usize {
        self.0.partition_point(|newline| *newline < offset) + 1
    }
}

impl Node {
    /// A value that stands in no file.
    pub fn bare(value: Value) -> Self {
        Self { line: None, value }
    }

    /// An empty table that stands in no file.
    pub fn nothing() -> Self {
        Self::bare(Value::Table(Vec::new()))
    }

    /// The tree of a whole file.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        let lines = Lines::of(text);
        match ImDocument::parse(text) {
            Ok(doc) => Ok(Self { line: None, value: Value::Table(entries(doc.as_table(), &lines)) }),
            Err(e) => Err(SyntaxError {
                line: e.span().map(|s| lines.at(s.start)),
                reason: e.message().trim().replace('\n', "; "),
            }),
        }
    }

    /// One value as it stands to the right of `=`; `None` if it is no TOML value.
    pub fn parse_value(text: &str) -> Option<Value> {
        let node = Self::parse(&format!("x = {text}")).ok()?;
        match node.value {
            Value::Table(entries) if entries.len() == 1 => entries.into_iter().next().map(|e| e.node.value),
            _ => None,
        }
    }

    /// The node at `path`. Segments are keys, or indexes of a list.
    pub fn at(&self, path: &[&str]) -> Option<&Node> {
        path.iter().try_fold(self, |node, segment| node.step(segment))
    }

    fn step(&self, segment: &str) -> Option<&Node> {
        match &self.value {
            Value::List(items) => items.get(segment.parse::<usize>().ok()?),
            Value::Table(entries) => entries.iter().find(|e| e.key == segment).map(|e| &e.node),
            _ => None,
        }
    }

    /// The line of the deepest part of `path` that stands in the file.
    pub fn line_of(&self, path: &[&str]) -> Option<usize> {
        let mut node = self;
        let mut line = self.line;
        for segment in path {
            let Some(next) = node.step(segment) else { break };
            line = next.line.or(line);
            node = next;
        }
        line
    }

    /// The value as JSON; dates become texts. `Err` names the path of a number that JSON can't hold.
    pub fn json(&self) -> Result<Json, Vec<String>> {
        Ok(match &self.value {
            Value::Text(s) | Value::Date(s) => Json::String(s.clone()),
            Value::Int(i) => Json::from(*i),
            Value::Float(f) => Json::Number(serde_json::Number::from_f64(*f).ok_or_else(Vec::new)?),
            Value::Bool(b) => Json::Bool(*b),
            Value::List(items) => {
                let mut list = Vec::with_capacity(items.len());
                for (i, item) in items.iter().enumerate() {
                    list.push(item.json().map_err(|path| prefixed(i.to_string(), path))?);
                }
                Json::Array(list)
            }
            Value::Table(entries) => {
                let mut map = serde_json::Map::new();
                for entry in entries {
                    map.insert(entry.key.clone(), entry.node.json().map_err(|path| prefixed(entry.key.clone(), path))?);
                }
                Json::Object(map)
            }
        })
    }

    /// The value as a mistake repeats it: short, on one line, without the user part of an address.
    pub fn shown(&self) -> String {
        match &self.value {
            Value::Text(s) => format!("\"{}\"", shown_text(s)),
            Value::Int(i) => i.to_string(),
            Value::Float(f) => f.to_string(),
            Value::Bool(b) => b.to_string(),
            Value::Date(s) => s.clone(),
            Value::List(_) | Value::Table(_) => self.sort().to_owned(),
        }
    }

    /// The sort of value, for where the value itself must not be repeated.
    pub fn sort(&self) -> &'static str {
        match &self.value {
            Value::Text(_) => "a text",
            Value::Int(_) => "a whole number",
            Value::Float(_) => "a number",
            Value::Bool(_) => "true or false",
            Value::Date(_) => "a date",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }
}

/// A value that stands in no file.
impl From<&Json> for Node {
    fn from(value: &Json) -> Self {
        Self::bare(match value {
            Json::Null => Value::Table(Vec::new()),
            Json::Bool(b) => Value::Bool(*b),
            Json::Number(n) => n.as_i64().map_or_else(|| Value::Float(n.as_f64().unwrap_or(f64::NAN)), Value::Int),
            Json::String(s) => Value::Text(s.clone()),
            Json::Array(items) => Value::List(items.iter().map(Self::from).collect()),
            Json::Object(map) => {
                Value::Table(map.iter().map(|(key, value)| Entry { key: key.clone(), node: value.into() }).collect())
            }
        })
    }
}

fn prefixed(segment: String, mut path: Vec<String>) -> Vec<String> {
    path.insert(0, segment);
    path
}

fn shown_text(s: &str) -> String {
    // What stands before `@` in an address may hold a password; an e-mail address has no colon there.
    let masked = match s.rfind('@') {
        Some(at) if s[..at].contains(':') => {
            let user = s.find("//").map_or(0, |slashes| slashes + 2).min(at);
            format!("{}…{}", &s[..user], &s[at..])
        }
        _ => s.to_owned(),
    };
    text::truncate(&text::clean(&masked).replace('\n', " "), SHOWN_BYTES)
}

fn entries(table: &dyn TableLike, lines: &Lines) -> Vec<Entry> {
    let mut found = Vec::new();
    for (key, item) in table.iter() {
        let key_line = table.key(key).and_then(|k| k.span()).map(|s| lines.at(s.start));
        if let Some(node) = node(item, key_line, lines) {
            found.push(Entry { key: key.to_owned(), node });
        }
    }
    found
}

fn node(item: &Item, key_line: Option<usize>, lines: &Lines) -> Option<Node> {
    let line = key_line.or_else(|| item.span().map(|s| lines.at(s.start)));
    let value = match item {
        Item::None => return None,
        Item::Value(v) => value(v, lines),
        Item::Table(t) => Value::Table(entries(t, lines)),
        Item::ArrayOfTables(tables) => Value::List(
            tables
                .iter()
                .map(|t| Node {
                    line: t.span().map(|s| lines.at(s.start)).or(line),
                    value: Value::Table(entries(t, lines)),
                })
                .collect(),
        ),
    };
    Some(Node { line, value })
}

fn value(v: &TomlValue, lines: &Lines) -> Value {
    match v {
        TomlValue::String(s) => Value::Text(s.value().clone()),
        TomlValue::Integer(i) => Value::Int(*i.value()),
        TomlValue::Float(f) => Value::Float(*f.value()),
        TomlValue::Boolean(b) => Value::Bool(*b.value()),
        TomlValue::Datetime(d) => Value::Date(d.value().to_string()),
        TomlValue::Array(items) => Value::List(
            items
                .iter()
                .map(|item| Node { line: item.span().map(|s| lines.at(s.start)), value: value(item, lines) })
                .collect(),
        ),
        TomlValue::InlineTable(t) => Value::Table(entries(t, lines)),
    }
}
