//! The walk over a file: every mistake is collected, and what is right comes out in one form.
//!
//! The result is JSON: aliases have become the key's own name, `…_s` has become a duration, wrong values are absent.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json};

use base::{ByteSize, HumanDuration, Money};

use super::mistake::Mistake;
use super::node::{Node, Value};
use super::rules::Wrong;
use super::schema::{Key, Kind, Table, one_of};

/// Collects the mistakes of one source.
pub(super) struct Checker<'t> {
    /// The file, as mistakes name it.
    pub file: PathBuf,
    pub mistakes: Vec<Mistake>,
    root: &'t Table,
}

impl<'t> Checker<'t> {
    pub fn new(file: &Path, root: &'t Table) -> Self {
        Self { file: file.to_owned(), mistakes: Vec::new(), root }
    }

    /// Notes a mistake.
    pub fn note(&mut self, line: Option<usize>, key: &str, problem: impl Into<String>, expected: impl Into<String>) {
        self.mistakes.push(Mistake::at(&self.file, line, key, problem, expected));
    }

    /// Checks the whole file.
    pub fn file(&mut self, node: &Node) -> Map<String, Json> {
        self.table(self.root, node, "")
    }

    /// Checks a table under `path`; also tells what is missing from it.
    fn table(&mut self, schema: &'t Table, node: &Node, path: &str) -> Map<String, Json> {
        let mut found = Map::new();
        let mut seen: Vec<(&str, &str)> = Vec::new();
        let entries = match &node.value {
            Value::Table(entries) => entries.as_slice(),
            _ => &[],
        };
        for entry in entries {
            let full = joined(path, &entry.key);
            let Some((key, seconds)) = schema.find(&entry.key) else {
                let (problem, expected) = self.unknown(schema, &entry.key);
                self.note(entry.node.line, &full, problem, expected);
                continue;
            };
            if let Some((_, first)) = seen.iter().find(|(name, _)| *name == key.name) {
                self.note(entry.node.line, &full, format!("found beside `{first}`"), "only one of the two");
                continue;
            }
            seen.push((&key.name, &entry.key));
            if let Some(value) = self.key(key, seconds, &entry.node, &full) {
                found.insert(key.name.clone(), value);
            }
        }
        for key in schema.keys.iter().filter(|key| key.required && !seen.iter().any(|(name, _)| *name == key.name)) {
            let full = joined(path, &key.name);
            match &key.kind {
                Kind::Table(inner) => drop(self.table(inner, &Node { line: node.line, ..Node::nothing() }, &full)),
                kind => self.note(node.line, &full, "missing", kind.expected()),
            }
        }
        found
    }

    /// Checks the value of a key; `seconds` says that its name stands for whole seconds.
    pub fn key(&mut self, key: &'t Key, seconds: bool, node: &Node, path: &str) -> Option<Json> {
        if !seconds {
            return self.value(&key.kind, node, path);
        }
        match node.value {
            Value::Int(s) if s >= 0 => {
                let text = Node { line: node.line, value: Value::Text(format!("{s}s")) };
                self.value(&key.kind, &text, path)
            }
            _ => {
                self.note(node.line, path, format!("found {}", node.shown()), "whole seconds");
                None
            }
        }
    }

    fn value(&mut self, kind: &'t Kind, node: &Node, path: &str) -> Option<Json> {
        match (kind, &node.value) {
            (Kind::List(inner), Value::List(items)) => {
                let mut list = Vec::with_capacity(items.len());
                for (i, item) in items.iter().enumerate() {
                    let value = self.value(inner, item, &format!("{path}[{i}]"));
                    // A table keeps its place, so that later checks find its line.
                    let place = matches!(**inner, Kind::Table(_)).then(|| Json::Object(Map::new()));
                    list.extend(value.or(place));
                }
                Some(Json::Array(list))
            }
            (Kind::Map(rule, inner), Value::Table(entries)) => {
                let mut map = Map::new();
                for entry in entries {
                    let full = joined(path, &entry.key);
                    if (rule.check)(&entry.key).is_err() {
                        self.note(entry.node.line, &full, format!("found the key `{}`", entry.key), rule.expected);
                    } else if let Some(value) = self.value(inner, &entry.node, &full) {
                        map.insert(entry.key.clone(), value);
                    }
                }
                Some(Json::Object(map))
            }
            (Kind::Table(schema), Value::Table(_)) => Some(Json::Object(self.table(schema, node, path))),
            (Kind::Free, Value::Table(_)) => match node.json() {
                Ok(json) => Some(json),
                Err(inside) => {
                    let segments: Vec<&str> = inside.iter().map(String::as_str).collect();
                    let line = node.line_of(&segments);
                    self.note(line, &joined(path, &inside.join(".")), "found a number without a value", "a finite one");
                    None
                }
            },
            _ => match plain(kind, node) {
                Ok(value) => Some(value),
                Err(found) => {
                    self.note(node.line, path, format!("found {found}"), kind.expected());
                    None
                }
            },
        }
    }

    /// What to say of a key that the table does not have.
    pub fn unknown(&self, schema: &Table, name: &str) -> (String, String) {
        let names = || schema.keys.iter().map(|key| key.name.as_str());
        let expected = one_of(names().map(|name| format!("`{name}`")));
        if let Some(near) = nearest(name, names()) {
            return (format!("unknown key (did you mean `{near}`?)"), expected);
        }
        match elsewhere(self.root, name, "") {
            Some(place) => (format!("unknown key here (did you mean `{place}`?)"), expected),
            None => ("unknown key".to_owned(), expected),
        }
    }
}

/// A value that holds no others, in its one form, or what was found in its place.
fn plain(kind: &Kind, node: &Node) -> Result<Json, String> {
    let read = match (kind, &node.value) {
        (Kind::Text(_) | Kind::OneOf(_), Value::Text(s)) if s.contains('\0') => {
            return Err("a text with a NUL character".to_owned());
        }
        (Kind::Text(rule), Value::Text(s)) => match (rule.check)(s) {
            Ok(()) => Some(Json::from(s.as_str())),
            Err(_) if rule.is_secret() => return Err("a text that can't be read as one (not shown)".to_owned()),
            Err(Wrong::Because(reason)) => return Err(format!("{} ({reason})", node.shown())),
            Err(Wrong::Form) => None,
        },
        (Kind::Text(rule), _) if rule.is_secret() => return Err(node.sort().to_owned()),
        (Kind::OneOf(names), Value::Text(s)) => {
            if let Some(near) = nearest(s, names.iter().map(String::as_str)).filter(|near| near != s) {
                return Err(format!("{} (did you mean \"{near}\"?)", node.shown()));
            }
            names.contains(s).then(|| Json::from(s.as_str()))
        }
        (Kind::Int(_, min, max), Value::Int(i)) => (min..=max).contains(&i).then(|| Json::from(*i)),
        (Kind::Number(min, max), Value::Int(_) | Value::Float(_)) => {
            node.json().ok().filter(|n| n.as_f64().is_some_and(|n| (*min..=*max).contains(&n)))
        }
        (Kind::Bool, Value::Bool(b)) => Some(Json::from(*b)),
        (Kind::Duration(min, max), value) => {
            let read = match value {
                Value::Text(s) => HumanDuration::parse(s).ok(),
                Value::Int(s) => u64::try_from(*s).ok().map(HumanDuration::from_secs),
                _ => None,
            };
            read.filter(|d| (min..=max).contains(&d)).map(|d| Json::from(d.to_string()))
        }
        (Kind::Size(min, max), value) => {
            let read = match value {
                Value::Text(s) => ByteSize::parse(s).ok(),
                Value::Int(n) => u64::try_from(*n).ok().map(ByteSize),
                _ => None,
            };
            read.filter(|size| (min..=max).contains(&size)).map(|size| Json::from(size.0))
        }
        (Kind::Money(_), value) => {
            let read = match value {
                Value::Text(s) => Money::parse(s),
                Value::Int(n) => Money::parse(&n.to_string()),
                // Written out it is again what stood in the file, as long as that had at most 15 digits.
                Value::Float(n) => Money::parse(&n.to_string()),
                _ => None,
            };
            read.map(|money| Json::from(money.plain()))
        }
        _ => None,
    };
    read.ok_or_else(|| node.shown())
}

/// `path.name`, or the one of them that is not empty.
pub(super) fn joined(path: &str, name: &str) -> String {
    let dot = if path.is_empty() || name.is_empty() { "" } else { "." };
    format!("{path}{dot}{name}")
}

/// A path as mistakes name it: numbers in it are places in a list.
pub(super) fn spelled<'a>(path: impl IntoIterator<Item = &'a str>) -> String {
    path.into_iter().fold(String::new(), |key, segment| match segment.bytes().all(|b| b.is_ascii_digit()) {
        true => format!("{key}[{segment}]"),
        false => joined(&key, segment),
    })
}

fn elsewhere(table: &Table, name: &str, path: &str) -> Option<String> {
    table.keys.iter().find_map(|key| {
        let full = joined(path, &key.name);
        match &key.kind {
            _ if key.name == name => Some(full),
            Kind::Table(inner) => elsewhere(inner, name, &full),
            Kind::List(inner) if let Kind::Table(inner) = &**inner => elsewhere(inner, name, &full),
            _ => None,
        }
    })
}

/// The name that was probably meant: at most two letters off, fewer for short names.
pub fn nearest<'a>(given: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let given = given.to_lowercase().replace('-', "_");
    let allowed = if given.chars().count() < 4 { 1 } else { 2 };
    names
        .map(|name| (distance(&given, &name.replace('-', "_")), name))
        .filter(|(d, _)| *d <= allowed)
        .min_by_key(|(d, _)| *d)
        .map(|(_, name)| name)
}

/// How many letters must be put in, taken out, replaced or swapped with a neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0usize; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_pen_are_recognised() {
        let names = ["port", "name", "description"];
        for (given, meant) in [("prot", "port"), ("nmae", "name"), ("descripton", "description"), ("Port", "port")] {
            assert_eq!(nearest(given, names.into_iter()), Some(meant), "{given}");
        }
        for other in ["x", "colour", "potato"] {
            assert_eq!(nearest(other, names.into_iter()), None, "{other}");
        }
    }
}
