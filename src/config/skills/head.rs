//! The head of a `SKILL.md`: YAML between two lines of `---`.

use std::path::Path;

use serde_json::{Map, Value};

use super::triggers::{Triggers, mistake};
use crate::mistake::Mistake;

/// A head that was right.
pub(super) struct Head {
    pub description: String,
    pub version: Option<String>,
    pub triggers: Triggers,
}

/// The longest head, in bytes.
const MAX_HEAD: usize = 16 << 10;
const MAX_NAME: usize = 64;
/// Characters; what a model is told of each skill in every session.
const MAX_DESCRIPTION: usize = 1024;
const MAX_PATTERNS: usize = 50;
/// Bytes.
const MAX_PATTERN: usize = 200;

const KEYS: [&str; 7] = ["name", "description", "version", "trigger_patterns", "license", "compatibility", "metadata"];

/// Cuts a text into its head, without the lines around it, and what comes after.
fn split(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut at = 0;
    let mut begin = None;
    for line in text.split_inclusive('\n') {
        let is_mark = line.trim_end() == "---";
        match begin {
            None if is_mark => begin = Some(at + line.len()),
            None => return None,
            Some(begin) if is_mark => return Some((&text[begin..at], &text[at + line.len()..])),
            Some(_) => {}
        }
        at += line.len();
    }
    None
}

/// The text of a `SKILL.md` without its head.
pub fn body(text: &str) -> &str {
    split(text).map_or(text, |(_, body)| body).trim()
}

/// Reads and checks the head of the skill in the directory `dir`.
pub(super) fn parse(text: &str, dir: &str, file: &Path) -> Result<Head, Vec<Mistake>> {
    let mistake = |line, key: &str, problem: String, expected: &str| Mistake::at(file, line, key, problem, expected);
    let Some((yaml, _)) = split(text) else {
        let expected = "YAML between two lines of ---, at the begin of the file";
        return Err(vec![mistake(Some(1), "", "found no head".to_owned(), expected)]);
    };
    if yaml.len() > MAX_HEAD {
        let found = format!("found a head of {} bytes", yaml.len());
        return Err(vec![mistake(Some(1), "", found, &format!("at most {MAX_HEAD}"))]);
    }
    let map = match serde_saphyr::from_str::<Option<Map<String, Value>>>(yaml) {
        Ok(map) => map.unwrap_or_default(),
        Err(e) => {
            let line = e.location().and_then(|l| usize::try_from(l.line()).ok()).map(|line| line + 1);
            let reason = e.to_string();
            let reason = reason.lines().next().unwrap_or_default();
            return Err(vec![mistake(line, "", format!("no valid YAML: {reason}"), "keys, each with its value")]);
        }
    };
    let mut check = Check { yaml, map: &map, file, mistakes: Vec::new() };
    check.keys();
    check.name(dir);
    let description = check.description();
    let version = check.version();
    let triggers = check.triggers();
    if body(text).is_empty() {
        check.mistakes.push(mistake(None, "", "found no text after the head".to_owned(), "what the skill says"));
    }
    match (description, triggers) {
        (Some(description), Some(triggers)) if check.mistakes.is_empty() => Ok(Head { description, version, triggers }),
        _ => Err(check.mistakes),
    }
}

struct Check<'a> {
    yaml: &'a str,
    map: &'a Map<String, Value>,
    file: &'a Path,
    mistakes: Vec<Mistake>,
}

impl Check<'_> {
    /// The line of the file where a key of the head stands.
    fn line(&self, key: &str) -> Option<usize> {
        let stands = |line: &str| {
            let line = line.trim_start_matches(['"', '\'']);
            line.strip_prefix(key).is_some_and(|rest| rest.trim_start_matches(['"', '\'', ' ']).starts_with(':'))
        };
        // The head begins in the second line.
        self.yaml.lines().position(stands).map(|n| n + 2)
    }

    fn note(&mut self, key: &str, problem: impl Into<String>, expected: &str) {
        let top = key.split('[').next().unwrap_or(key);
        let line = self.line(top).or(Some(1));
        self.mistakes.push(Mistake::at(self.file, line, key, problem, expected));
    }

    fn keys(&mut self) {
        for key in self.map.keys() {
            match key.as_str() {
                known if KEYS.contains(&known) => {}
                // Some programs would take these as permissions or commands.
                "allowed-tools" | "hooks" => {
                    self.note(key, "found in a skill", "tools to be granted by [runtime] tools of butler.toml alone");
                }
                _ => self.note(key, "unknown key", &format!("one of {}", KEYS.map(|k| format!("`{k}`")).join(", "))),
            }
        }
    }

    /// The text under a key; a mistake if something else is there, or nothing where it must be.
    fn text(&mut self, key: &str, required: bool, expected: &str) -> Option<String> {
        match self.map.get(key) {
            None | Some(Value::Null) if !required => None,
            None => {
                self.note(key, "missing", expected);
                None
            }
            Some(Value::String(text)) if !text.trim().is_empty() => Some(text.clone()),
            Some(other) => {
                self.note(key, format!("found {}", shown(other)), expected);
                None
            }
        }
    }

    fn name(&mut self, dir: &str) {
        let expected = format!("the name of the directory, \"{dir}\"");
        let Some(name) = self.text("name", true, &expected) else { return };
        if name != dir {
            self.note("name", format!("found {}", shown(&Value::from(name))), &expected);
        } else if !is_name(&name) {
            let expected =
                format!("a-z, 0-9 and single `-` between them, at most {MAX_NAME} (and the directory so, too)");
            self.note("name", format!("found {}", shown(&Value::from(name))), &expected);
        }
    }

    fn description(&mut self) -> Option<String> {
        let expected = format!("what it is for and when to use it, at most {MAX_DESCRIPTION} characters");
        let text = self.text("description", true, &expected)?;
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let length = line.chars().count();
        if length > MAX_DESCRIPTION {
            self.note("description", format!("found {length} characters"), &expected);
            return None;
        }
        Some(line)
    }

    fn version(&mut self) -> Option<String> {
        let expected = "a version such as \"1.0.0\"";
        let text = self.text("version", false, expected)?;
        let numbers: Vec<&str> = text.split('.').collect();
        let number = |n: &&str| !n.is_empty() && n.len() <= 9 && n.bytes().all(|b| b.is_ascii_digit());
        if numbers.len() > 3 || !numbers.iter().all(number) {
            self.note("version", format!("found {}", shown(&Value::from(text))), expected);
            return None;
        }
        Some(text)
    }

    fn triggers(&mut self) -> Option<Triggers> {
        const KEY: &str = "trigger_patterns";
        let expected = format!("a list of at most {MAX_PATTERNS} words or regular expressions");
        let list = match self.map.get(KEY) {
            None | Some(Value::Null) => &Vec::new(),
            Some(Value::Array(list)) if list.len() <= MAX_PATTERNS => list,
            Some(Value::Array(list)) => {
                self.note(KEY, format!("found {}", list.len()), &expected);
                return None;
            }
            Some(other) => {
                self.note(KEY, format!("found {}", shown(other)), &expected);
                return None;
            }
        };
        let mut patterns = Vec::new();
        for (n, item) in list.iter().enumerate() {
            let wrong = match item {
                Value::String(text) if !text.trim().is_empty() && text.len() <= MAX_PATTERN => {
                    let Some(why) = mistake(text.trim()) else {
                        patterns.push(text.trim().to_owned());
                        continue;
                    };
                    format!("found \"{text}\"{why}")
                }
                other => format!("found {}", shown(other)),
            };
            let expected = format!("words or a regular expression, at most {MAX_PATTERN} bytes");
            self.note(&format!("{KEY}[{n}]"), wrong, &expected);
        }
        let triggers = Triggers::new(&patterns);
        if triggers.is_none() {
            self.note(KEY, "found patterns that are too large together", &expected);
        }
        triggers
    }
}

/// What a skill may be called.
pub(crate) fn is_name(name: &str) -> bool {
    let plain = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    name.len() <= MAX_NAME && name.split('-').all(plain)
}

/// A wrong value, cut.
fn shown(value: &Value) -> String {
    base::text::truncate(&value.to_string(), 60)
}
