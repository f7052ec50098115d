//! The walk over a file: every mistake is collected, and what is right comes out in one form.
//!
//! The result is JSON: aliases have become the key's own name, `…_s` has become a duration, wrong values are absent.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json};

use base::{ByteSize, HumanDuration, Money};

use super::key::{Default, Key, Kind, Table, quoted};
use super::mistake::Mistake;
use super::node::{Node, Value};

/// Collects the mistakes of one source.
pub(super) struct Checker {
    /// The file, as mistakes name it.
    pub file: PathBuf,
    pub mistakes: Vec<Mistake>,
    root: &'static Table,
}

impl Checker {
    pub fn new(file: &Path, root: &'static Table) -> Self {
        Self { file: file.to_owned(), mistakes: Vec::new(), root }
    }

    /// Notes a mistake.
    pub fn note(&mut self, line: Option<usize>, key: &str, problem: impl Into<String>, expected: impl Into<String>) {
        self.mistakes.push(Mistake {
            file: self.file.clone(),
            line,
            key: key.to_owned(),
            problem: problem.into(),
            expected: expected.into(),
        });
    }

    /// Checks the whole file.
    pub fn file(&mut self, node: &Node) -> Map<String, Json> {
        self.table(self.root, node, "")
    }

    /// Checks a table under `path`; also tells what is missing from it.
    fn table(&mut self, schema: &'static Table, node: &Node, path: &str) -> Map<String, Json> {
        let mut found = Map::new();
        let mut seen: Vec<(&'static str, &str)> = Vec::new();
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
            seen.push((key.name, &entry.key));
            if let Some(value) = self.key(key, seconds, &entry.node, &full) {
                found.insert(key.name.to_owned(), value);
            }
        }
        for key in schema.keys {
            if seen.iter().any(|(name, _)| *name == key.name) {
                continue;
            }
            match (&key.default, &key.kind) {
                (Default::Required, kind) => {
                    self.note(node.line, &joined(path, key.name), "missing", kind.expected());
                }
                // An absent table may lack what it must have.
                (Default::Inner, Kind::Table(inner)) => {
                    let absent = Node { line: node.line, value: Value::Table(Vec::new()) };
                    self.table(inner, &absent, &joined(path, key.name));
                }
                _ => {}
            }
        }
        found
    }

    /// Checks the value of a key; `seconds` says that its name stands for whole seconds.
    pub fn key(&mut self, key: &'static Key, seconds: bool, node: &Node, path: &str) -> Option<Json> {
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

    fn value(&mut self, kind: &'static Kind, node: &Node, path: &str) -> Option<Json> {
        let wrong = |this: &mut Self| {
            let found = if matches!(kind, Kind::Secret(_)) { node.sort().to_owned() } else { node.shown() };
            this.note(node.line, path, format!("found {found}"), kind.expected());
            None
        };
        match (kind, &node.value) {
            (Kind::Text(_) | Kind::Secret(_) | Kind::Path | Kind::OneOf(_), Value::Text(s)) if s.contains('\0') => {
                self.note(node.line, path, "found a text with a NUL character", kind.expected());
                None
            }
            (Kind::Text(rule), Value::Text(s)) => match (rule.check)(s) {
                Ok(()) => Some(Json::from(s.as_str())),
                Err(reason) if reason.is_empty() => wrong(self),
                Err(reason) => {
                    self.note(node.line, path, format!("found {} ({reason})", node.shown()), kind.expected());
                    None
                }
            },
            (Kind::Secret(rule), Value::Text(s)) => match (rule.check)(s) {
                Ok(()) => Some(Json::from(s.as_str())),
                Err(_) => {
                    self.note(node.line, path, "found a text that can't be read as one (not shown)", kind.expected());
                    None
                }
            },
            (Kind::Int(min, max, _), Value::Int(i)) if (min..=max).contains(&i) => Some(Json::from(*i)),
            (Kind::Bool, Value::Bool(b)) => Some(Json::from(*b)),
            (Kind::Duration(min, max), value) => {
                let read = match value {
                    Value::Text(s) => HumanDuration::parse(s).ok(),
                    Value::Int(s) => u64::try_from(*s).ok().map(HumanDuration::from_secs),
                    _ => None,
                };
                match read {
                    Some(d) if (*min..=*max).contains(&d) => Some(Json::from(d.to_string())),
                    _ => wrong(self),
                }
            }
            (Kind::Size(min, max), value) => {
                let read = match value {
                    Value::Text(s) => ByteSize::parse(s).ok(),
                    Value::Int(n) => u64::try_from(*n).ok().map(ByteSize),
                    _ => None,
                };
                match read {
                    Some(size) if (*min..=*max).contains(&size) => Some(Json::from(size.0)),
                    _ => wrong(self),
                }
            }
            (Kind::Money(_), value) => {
                let read = match value {
                    Value::Text(s) => Money::parse(s),
                    Value::Int(n) => Money::parse(&n.to_string()),
                    // Written out it is again what stood in the file, as long as that had at most 15 digits.
                    Value::Float(n) => Money::parse(&n.to_string()),
                    _ => None,
                };
                match read {
                    Some(money) => Some(Json::from(money.plain())),
                    None => wrong(self),
                }
            }
            (Kind::OneOf(names), Value::Text(s)) => {
                if names.contains(&s.as_str()) {
                    return Some(Json::from(s.as_str()));
                }
                let hint = nearest(s, names.iter().copied()).map(|n| format!(" (did you mean \"{n}\"?)"));
                let found = format!("found {}{}", node.shown(), hint.unwrap_or_default());
                self.note(node.line, path, found, kind.expected());
                None
            }
            (Kind::Path, Value::Text(s)) if !s.is_empty() => Some(Json::from(s.as_str())),
            (Kind::List(inner), Value::List(items)) => {
                let mut list = Vec::with_capacity(items.len());
                for (i, item) in items.iter().enumerate() {
                    list.extend(self.value(inner, item, &format!("{path}[{i}]")));
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
            (Kind::Tables(schema), Value::List(items)) => {
                let mut list = Vec::with_capacity(items.len());
                for (i, item) in items.iter().enumerate() {
                    let full = format!("{path}[{i}]");
                    // Every item keeps its place, so that later checks find its line.
                    list.push(match &item.value {
                        Value::Table(_) => Json::Object(self.table(schema, item, &full)),
                        _ => {
                            self.note(item.line, &full, format!("found {}", item.shown()), "a table");
                            Json::Object(Map::new())
                        }
                    });
                }
                Some(Json::Array(list))
            }
            (Kind::Free, Value::Table(_)) => match node.json() {
                Ok(json) => Some(json),
                Err(inside) => {
                    let segments: Vec<&str> = inside.iter().map(String::as_str).collect();
                    let line = node.line_of(&segments);
                    self.note(line, &joined(path, &inside.join(".")), "found a number without a value", "a finite one");
                    None
                }
            },
            _ => wrong(self),
        }
    }

    /// What to say of a key that the table does not have.
    pub fn unknown(&self, schema: &Table, name: &str) -> (String, String) {
        let names: Vec<&str> = schema.keys.iter().map(|k| k.name).collect();
        let expected = match names.as_slice() {
            [only] => format!("`{only}`"),
            _ => format!("one of {}", quoted(&names).replace('"', "`")),
        };
        if let Some(near) = nearest(name, names.iter().copied()) {
            return (format!("unknown key (did you mean `{near}`?)"), expected);
        }
        match elsewhere(self.root, name, "") {
            Some(place) => (format!("unknown key here (did you mean `{place}`?)"), expected),
            None => ("unknown key".to_owned(), expected),
        }
    }
}

/// Puts the defaults where nothing was given.
pub(super) fn fill_defaults(schema: &Table, map: &mut Map<String, Json>) {
    for key in schema.keys {
        match (&key.kind, &key.default, map.get_mut(key.name)) {
            (Kind::Table(inner), _, Some(Json::Object(given))) => fill_defaults(inner, given),
            (Kind::Table(inner), Default::Inner, None) => {
                let mut fresh = Map::new();
                fill_defaults(inner, &mut fresh);
                map.insert(key.name.to_owned(), Json::Object(fresh));
            }
            (Kind::Tables(inner), _, Some(Json::Array(items))) => {
                for item in items {
                    if let Json::Object(given) = item {
                        fill_defaults(inner, given);
                    }
                }
            }
            (_, Default::Is(text), None) => {
                let value = Node::parse_value(text).and_then(|v| Node::bare(v).json().ok());
                map.insert(key.name.to_owned(), value.expect("a test reads every default of the tables"));
            }
            _ => {}
        }
    }
}

/// `path.name`, or the one of them that is not empty.
pub(super) fn joined(path: &str, name: &str) -> String {
    let dot = if path.is_empty() || name.is_empty() { "" } else { "." };
    format!("{path}{dot}{name}")
}

fn elsewhere(table: &Table, name: &str, path: &str) -> Option<String> {
    table.keys.iter().find_map(|key| {
        let full = joined(path, key.name);
        if key.name == name {
            return Some(full);
        }
        match &key.kind {
            Kind::Table(inner) | Kind::Tables(inner) => elsewhere(inner, name, &full),
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
