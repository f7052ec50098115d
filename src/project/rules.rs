//! `.claude/rules.yaml`: what must be said whenever a topic comes up.

mod text;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::place::file;
use base::text::of_value;

/// Where the rules stand, below the top of the working tree.
pub const FILE: &str = ".claude/rules.yaml";

/// So long an id is at most, without the number of a clash.
const LONGEST_ID: usize = 40;

/// A rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    pub id: String,
    /// Words or phrases; one of them in a prompt is enough.
    pub topics: Vec<String>,
    /// What is said then.
    pub content: String,
}

/// Why rules can't be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    #[error("{path} can't be read: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{path} can't be written: {source}")]
    Write { path: PathBuf, source: std::io::Error },
    #[error("{path}, line {line}: {why}")]
    Malformed { path: PathBuf, line: u64, why: String },
    #[error("a rule needs a text")]
    NoText,
    #[error("a rule needs a topic at least")]
    NoTopics,
    #[error("rule '{id}' not found in {path}")]
    Unknown { id: String, path: PathBuf },
}

/// The file as people write it.
#[derive(Deserialize)]
struct Written {
    rules: Option<Vec<WrittenRule>>,
}

#[derive(Deserialize)]
struct WrittenRule {
    #[serde(default)]
    id: Value,
    /// A list, or one text with commas.
    #[serde(default)]
    topics: Value,
    #[serde(default)]
    content: Value,
}

/// The file's text and what it means.
struct Loaded {
    path: PathBuf,
    text: String,
    /// An object.
    value: Value,
    rules: Vec<Rule>,
}

/// The rules of a working tree; none where it has no file.
pub fn load(top: &Path) -> Result<Vec<Rule>, RulesError> {
    Ok(read(top)?.rules)
}

/// Adds a rule and returns its id, which is made of the text. Comments and what else stands in the file stay where that
/// is possible.
pub fn add(top: &Path, topics: &[String], text: &str) -> Result<String, RulesError> {
    let text = text.trim();
    let topics: Vec<&str> = topics.iter().map(|topic| topic.trim()).filter(|topic| !topic.is_empty()).collect();
    if text.is_empty() {
        return Err(RulesError::NoText);
    }
    if topics.is_empty() {
        return Err(RulesError::NoTopics);
    }
    let loaded = read(top)?;
    let id = free_id(text, &loaded.rules);
    let rule = json!({"id": id, "topics": topics, "content": text});
    let mut wanted = loaded.value.clone();
    match &mut wanted["rules"] {
        Value::Array(rules) => rules.push(rule.clone()),
        none => *none = json!([rule]),
    }
    write(&loaded, text::with(&loaded.text, &rule, &wanted), &wanted)?;
    Ok(id)
}

/// Removes a rule.
pub fn remove(top: &Path, id: &str) -> Result<(), RulesError> {
    let loaded = read(top)?;
    let positions: Vec<usize> = (0..loaded.rules.len()).filter(|n| loaded.rules[*n].id == id).collect();
    if positions.is_empty() {
        return Err(RulesError::Unknown { id: id.to_owned(), path: loaded.path });
    }
    let mut wanted = loaded.value.clone();
    if let Value::Array(rules) = &mut wanted["rules"] {
        let all = std::mem::take(rules).into_iter().enumerate();
        *rules = all.filter(|(n, _)| !positions.contains(n)).map(|(_, rule)| rule).collect();
    }
    write(&loaded, text::without(&loaded.text, &positions, &wanted), &wanted)
}

/// The rules of which a topic stands in the prompt, in any case.
pub fn matching<'a>(rules: &'a [Rule], prompt: &str) -> Vec<&'a Rule> {
    let prompt = prompt.to_lowercase();
    let fits = |topic: &String| !topic.trim().is_empty() && prompt.contains(&topic.trim().to_lowercase());
    rules.iter().filter(|rule| !rule.content.is_empty() && rule.topics.iter().any(fits)).collect()
}

fn read(top: &Path) -> Result<Loaded, RulesError> {
    let path = top.join(FILE);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(source) if source.kind() == ErrorKind::NotFound => String::new(),
        Err(source) => return Err(RulesError::Read { path, source }),
    };
    let malformed = |error: serde_saphyr::Error| {
        let line = error.location().map_or(1, |location| location.line());
        let why = error.to_string().lines().next().unwrap_or("it is not valid YAML").trim().to_owned();
        RulesError::Malformed { path: path.clone(), line, why }
    };
    let written: Option<Written> = serde_saphyr::from_str(&text).map_err(malformed)?;
    let value = text::value_of(&text).map_err(malformed)?;
    let rules = written.and_then(|written| written.rules).unwrap_or_default();
    let rules = rules.into_iter().map(WrittenRule::read).collect();
    let value = match value {
        Value::Null => json!({}),
        Value::Object(_) => value,
        _ => {
            let why = "a mapping with the key `rules` is expected".to_owned();
            return Err(RulesError::Malformed { path, line: 1, why });
        }
    };
    Ok(Loaded { path, text, value, rules })
}

/// Writes the edited text; the whole anew from its meaning where the text could not be edited.
fn write(loaded: &Loaded, edited: Option<String>, wanted: &Value) -> Result<(), RulesError> {
    let fail = |source| RulesError::Write { path: loaded.path.clone(), source };
    // A repository that was cloned may have a link here, to a file of the developer's.
    if loaded.path.is_symlink() {
        return Err(fail(std::io::Error::other("it is a link; put a file in its place")));
    }
    let text = match edited {
        Some(text) => text,
        None => serde_saphyr::to_string(wanted).map_err(|error| fail(std::io::Error::other(error.to_string())))?,
    };
    file::replace(&loaded.path, text.as_bytes()).map_err(fail)
}

impl WrittenRule {
    fn read(self) -> Rule {
        let topics = match &self.topics {
            Value::Array(topics) => topics.iter().map(of_value).collect(),
            other => of_value(other).split(',').map(|topic| topic.trim().to_owned()).collect::<Vec<_>>(),
        };
        let topics = topics.into_iter().filter(|topic| !topic.is_empty()).collect();
        Rule { id: of_value(&self.id), topics, content: of_value(&self.content).trim().to_owned() }
    }
}

fn free_id(text: &str, rules: &[Rule]) -> String {
    let words = text.to_lowercase();
    let words: Vec<&str> = words.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let mut id = words.join("-");
    id.truncate(LONGEST_ID);
    let id = id.trim_end_matches('-');
    let id = if id.is_empty() { "rule" } else { id };
    let is_free = |id: &String| rules.iter().all(|rule| rule.id != *id);
    let mut all = std::iter::once(id.to_owned()).chain((2..).map(|n: u64| format!("{id}-{n}")));
    all.find(is_free).unwrap_or_default()
}

#[cfg(test)]
mod tests;
