//! The arguments of a call that takes another one back, made of what that one was given and answered.

use serde_json::{Map, Value};

/// Arguments in which a text that is `$arguments` or `$result`, alone or with a JSON pointer behind it, stands for the value that
/// is there; `$$` at the begin of a text is a `$`.
pub struct UndoTemplate<'a>(pub &'a Map<String, Value>);

/// The call says nothing of what its undo needs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no such value in the {root} at {pointer}")]
pub struct NoSuchValue {
    root: &'static str,
    pointer: String,
}

/// What a text of a template is.
enum Part<'a> {
    Plain(&'a str),
    /// `arguments` or `result`, and the pointer.
    Place(&'static str, &'a str),
    Unknown,
}

fn part(text: &str) -> Part<'_> {
    let Some(name) = text.strip_prefix('$') else { return Part::Plain(text) };
    if name.starts_with('$') {
        return Part::Plain(name);
    }
    let (root, pointer) = name.split_at(name.find('/').unwrap_or(name.len()));
    // RFC 6901: a `~` stands before 0 or 1.
    let is_right = pointer.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    match root {
        "arguments" if is_right => Part::Place("arguments", pointer),
        "result" if is_right => Part::Place("result", pointer),
        _ => Part::Unknown,
    }
}

/// Calls `see` with each text in a value and the keys that lead to it, with dots between them.
fn texts<'a>(at: &str, value: &'a Value, see: &mut impl FnMut(&str, &'a str)) {
    match value {
        Value::String(text) => see(at, text),
        Value::Array(all) => all.iter().enumerate().for_each(|(n, one)| texts(&format!("{at}.{n}"), one, see)),
        Value::Object(all) => all.iter().for_each(|(key, one)| texts(&format!("{at}.{key}"), one, see)),
        _ => {}
    }
}

impl<'a> UndoTemplate<'a> {
    /// The texts that begin with `$` and name nothing, each with the keys that lead to it.
    pub fn unknown(&self) -> Vec<(String, &'a str)> {
        let mut found = Vec::new();
        for (key, value) in self.0 {
            texts(key, value, &mut |at, text| {
                if matches!(part(text), Part::Unknown) {
                    found.push((at.to_owned(), text));
                }
            });
        }
        found
    }

    /// The names of the arguments that it looks at.
    pub fn arguments(&self) -> Vec<String> {
        let mut found = Vec::new();
        for value in self.0.values() {
            texts("", value, &mut |_, text| {
                if let Part::Place("arguments", pointer) = part(text)
                    && let Some(name) = pointer.split('/').nth(1)
                {
                    found.push(name.replace("~1", "/").replace("~0", "~"));
                }
            });
        }
        found
    }

    /// The arguments, filled from a call. A value keeps its type.
    ///
    /// # Errors
    /// There is nothing in the place that a text names.
    pub fn fill(&self, arguments: &Value, result: &Value) -> Result<Value, NoSuchValue> {
        filled(&Value::Object(self.0.clone()), arguments, result)
    }
}

fn filled(template: &Value, arguments: &Value, result: &Value) -> Result<Value, NoSuchValue> {
    Ok(match template {
        Value::String(text) => match part(text) {
            Part::Plain(text) => text.into(),
            Part::Place(root, pointer) => {
                let found = if root == "result" { result } else { arguments }.pointer(pointer);
                let found = found.filter(|value| !value.is_null()).cloned();
                found.ok_or_else(|| NoSuchValue { root, pointer: pointer.to_owned() })?
            }
            Part::Unknown => text.as_str().into(),
        },
        Value::Array(all) => all.iter().map(|one| filled(one, arguments, result)).collect::<Result<_, _>>()?,
        Value::Object(all) => {
            let pair = |(key, one): (&String, &Value)| Ok((key.clone(), filled(one, arguments, result)?));
            Value::Object(all.iter().map(pair).collect::<Result<_, _>>()?)
        }
        plain => plain.clone(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fill(template: Value) -> Result<Value, String> {
        let arguments = json!({"calendar": "home", "a/b": {"c": [1, 2]}, "nothing": null});
        let result = json!({"id": 7, "event": {"tags": ["x"]}});
        UndoTemplate(template.as_object().unwrap()).fill(&arguments, &result).map_err(|e| e.to_string())
    }

    #[test]
    fn a_place_takes_the_value_that_is_there_with_its_type() {
        let template = json!({"id": "$result/id", "in": ["$arguments/calendar", {"of": "$arguments/a~1b/c/1"}],
            "all": "$result/event", "fixed": [true, "x$result/id", "$$result/id"]});
        let right = json!({"id": 7, "in": ["home", {"of": 2}], "all": {"tags": ["x"]}, "fixed": [true, "x$result/id", "$result/id"]});
        assert_eq!(fill(template), Ok(right));
        let absent = |place: &str| fill(json!({ "id": place })).unwrap_err();
        assert_eq!(absent("$result/event/id"), "no such value in the result at /event/id");
        assert_eq!(absent("$arguments/nothing"), "no such value in the arguments at /nothing");
    }

    #[test]
    fn what_names_nothing_is_found_where_it_stands() {
        let template = json!({"a": "$results/id", "b": {"c": ["x", "$result/a~2"]}, "d": "$result", "e": "$$x", "f": "$arguments/g~1h/i"});
        let template = UndoTemplate(template.as_object().unwrap());
        assert_eq!(template.unknown(), [("a".to_owned(), "$results/id"), ("b.c.1".to_owned(), "$result/a~2")]);
        assert_eq!(template.arguments(), ["g/h"]);
    }
}
