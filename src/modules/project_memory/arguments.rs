//! What a request says, read with a sentence for what is wrong with it.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use memory::write::WriteError;
use memory_index::rank::Mode;
use project::record::ExperienceType;
use serde_json::Value;

use crate::memory_calls;

/// A memory has so many tags, of so many characters, at most.
const MOST_TAGS: usize = 50;
const LONGEST_TAG: usize = 200;

/// The arguments of a request.
#[derive(Clone, Copy)]
pub(super) struct Arguments<'a>(pub &'a Value);

pub(super) fn wrong(why: impl Into<String>) -> WriteError {
    WriteError::refused("invalid_arguments", why)
}

impl<'a> Arguments<'a> {
    /// A text that says something.
    pub fn text(self, name: &str) -> Option<&'a str> {
        self.0[name].as_str().filter(|text| !text.trim().is_empty())
    }

    pub fn needed(self, name: &str) -> Result<&'a str, WriteError> {
        self.text(name).ok_or_else(|| wrong(format!("`{name}` is missing, or there is nothing in it.")))
    }

    pub fn flag(self, name: &str) -> bool {
        self.0[name] == Value::Bool(true)
    }

    pub fn number(self, name: &str) -> Result<Option<f64>, WriteError> {
        match &self.0[name] {
            Value::Null => Ok(None),
            value => value.as_f64().map(Some).ok_or_else(|| wrong(format!("`{name}` is not a number: {value}."))),
        }
    }

    /// From 0 to 1.
    pub fn share(self, name: &str, default: f64) -> Result<f64, WriteError> {
        let share = self.number(name)?.unwrap_or(default);
        if !(0.0..=1.0).contains(&share) {
            return Err(wrong(format!("`{name}` is a number from 0 to 1, and {share} is not.")));
        }
        Ok(share)
    }

    /// How many at most.
    pub fn limit(self, default: usize, most: usize) -> Result<usize, WriteError> {
        match &self.0["limit"] {
            Value::Null => Ok(default),
            value => match value.as_u64().and_then(|n| usize::try_from(n).ok()) {
                Some(n) => Ok(n.min(most)),
                None => Err(wrong(format!("`limit` is not a whole number: {value}."))),
            },
        }
    }

    /// Tags, as a list or with commas between them.
    pub fn tags(self) -> Result<Vec<String>, WriteError> {
        tags_of(&self.0["tags"])
    }

    /// A moment, or the beginning of a day.
    pub fn moment(self, name: &str) -> Result<Option<Timestamp>, WriteError> {
        let Some(given) = self.text(name).map(str::trim) else { return Ok(None) };
        memory_calls::moment(given, &TimeZone::UTC).map(Some).ok_or_else(|| {
            wrong(format!("`{name}` is not a time: {given:?}. Write it as 2026-03-01 or 2026-03-01T18:30:00Z."))
        })
    }

    pub fn mode(self) -> Result<Mode, WriteError> {
        match self.text("mode") {
            None | Some("hybrid") => Ok(Mode::Hybrid),
            Some("semantic") => Ok(Mode::Semantic),
            Some("keyword") => Ok(Mode::Keyword),
            Some(other) => Err(wrong(format!("`mode` is hybrid, semantic or keyword, and not {other:?}."))),
        }
    }

    pub fn experience_type(self) -> Result<Option<ExperienceType>, WriteError> {
        let Some(name) = self.text("type") else { return Ok(None) };
        match ExperienceType::read(name) {
            Some((kind, _)) => Ok(Some(kind)),
            None => Err(wrong(format!("`type` is Decision, Learning or Context, and not {name:?}."))),
        }
    }
}

/// Tags out of a list or a text with commas.
pub(super) fn tags_of(value: &Value) -> Result<Vec<String>, WriteError> {
    let given: Vec<&str> = match value {
        Value::Null => Vec::new(),
        Value::String(text) => text.split(',').collect(),
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
        other => return Err(wrong(format!("`tags` are a list or a text with commas, and not {other}."))),
    };
    let mut tags: Vec<String> = Vec::new();
    for tag in given.iter().map(|tag| tag.trim()).filter(|tag| !tag.is_empty()) {
        if tag.chars().count() > LONGEST_TAG || tag.chars().any(char::is_control) {
            return Err(wrong(format!("A tag has at most {LONGEST_TAG} characters and none that can't be seen.")));
        }
        if !tags.iter().any(|known| known == tag) {
            tags.push(tag.to_owned());
        }
    }
    if tags.len() > MOST_TAGS {
        return Err(wrong(format!("A memory has at most {MOST_TAGS} tags, and these are {}.", tags.len())));
    }
    Ok(tags)
}
