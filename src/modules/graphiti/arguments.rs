//! What calls of Graphiti's tools say, and how they fail: mostly by an answer that is an object with `error`.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use store::StoreError;
use tools::{ToolCall, ToolError};

use crate::memory_calls;

/// How the scopes of groups begin.
pub(super) const WITHIN: &str = "graphiti:";

/// Whether a group may be called so.
pub(super) fn is_group(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

/// The scope of a group's memories.
pub(super) fn scope(group: &str) -> String {
    format!("{WITHIN}{group}")
}

/// The group of a scope.
pub(super) fn group_of(scope: &str) -> &str {
    scope.strip_prefix(WITHIN).unwrap_or(scope)
}

/// Why a call comes to nothing.
#[derive(Debug)]
pub(super) enum Failed {
    /// The tool says so itself, as Graphiti does.
    Said(String),
    /// It is refused or can't be made, as any call of butlerd's.
    Refused(ToolError),
}

impl From<ToolError> for Failed {
    fn from(e: ToolError) -> Self {
        match e {
            ToolError::Refused { code: "not_found" | "forgotten" | "not_remembered", message } => Self::Said(message),
            other => Self::Refused(other),
        }
    }
}

impl From<StoreError> for Failed {
    fn from(e: StoreError) -> Self {
        Self::Refused(e.into())
    }
}

/// A failure that the tool tells by itself.
pub(super) fn said(why: impl Into<String>) -> Failed {
    Failed::Said(why.into())
}

/// The answer of a tool, as clients of Graphiti know it.
pub(super) fn answer(done: Result<Value, Failed>) -> Result<Value, ToolError> {
    match done {
        Ok(value) => Ok(value),
        Err(Failed::Said(error)) => Ok(json!({"error": error})),
        Err(Failed::Refused(e)) => Err(e),
    }
}

fn group(name: &str) -> Result<&str, Failed> {
    if is_group(name) {
        return Ok(name);
    }
    Err(said(format!("There is no group {name:?}: a group's name has 1 to 64 letters, digits, `-` and `_`.")))
}

/// The group that a call writes to.
pub(super) fn group_id<'a>(call: &'a ToolCall, usual: &'a str) -> Result<&'a str, Failed> {
    group(call.text("group_id").filter(|given| !given.is_empty()).unwrap_or(usual))
}

/// The scopes of the groups that a call asks about.
pub(super) fn scopes(call: &ToolCall, usual: &str) -> Result<Vec<String>, Failed> {
    let given: Vec<&str> = match call.args.get("group_ids") {
        Some(Value::String(one)) if !one.is_empty() => vec![one],
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
        _ => vec![usual],
    };
    given.into_iter().map(|name| group(name).map(scope)).collect()
}

/// A moment among the arguments; without an offset it is UTC.
pub(super) fn moment(call: &ToolCall, name: &str) -> Result<Option<Timestamp>, Failed> {
    let Some(given) = call.text(name).map(str::trim) else { return Ok(None) };
    let wrong = || said(format!("Invalid {name}: {given:?} is not a time. Write it as 2026-03-01T18:30:00Z."));
    memory_calls::moment(given, &TimeZone::UTC).map(Some).ok_or_else(wrong)
}

/// How many a call wants at most, of those that are given at once.
pub(super) fn most(call: &ToolCall, name: &str, usual: usize, at_once: usize) -> usize {
    let given = call.args.get(name).and_then(Value::as_i64);
    given.map_or(usual, |n| usize::try_from(n).unwrap_or(0)).min(at_once)
}

/// The texts in a list among the arguments; none where there is no such list, or nothing in it.
pub(super) fn texts(call: &ToolCall, name: &str) -> Option<Vec<String>> {
    let given = call.args.get(name).and_then(Value::as_array).filter(|list| !list.is_empty())?;
    Some(given.iter().filter_map(|text| text.as_str().map(str::to_owned)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_what_graphiti_takes_for_some() {
        for (name, is) in [("llm_council", true), ("a-1", true), ("", false), ("a:b", false), ("é", false)] {
            assert_eq!(is_group(name), is, "{name}");
        }
        assert!(!is_group(&"a".repeat(65)));
        assert_eq!((scope("main").as_str(), group_of("graphiti:main")), ("graphiti:main", "main"));
    }

    #[test]
    fn times_without_an_offset_are_utc() {
        let at = |text: &str| memory_calls::moment(text, &TimeZone::UTC).map(|t| t.to_string());
        assert_eq!(at("2026-03-01T18:30:00+01:00").as_deref(), Some("2026-03-01T17:30:00Z"));
        assert_eq!(at("2026-03-01T18:30:00Z").as_deref(), Some("2026-03-01T18:30:00Z"));
        assert_eq!(at("2026-03-01T18:30:00").as_deref(), Some("2026-03-01T18:30:00Z"));
        assert_eq!(at("2026-03-01").as_deref(), Some("2026-03-01T00:00:00Z"));
        assert_eq!(at("yesterday"), None);
    }
}
