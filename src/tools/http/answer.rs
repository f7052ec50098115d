//! What of an answer a model is shown.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use base::text;

/// A model is shown no more of an answer than this, in bytes of JSON.
const MOST_SHOWN: usize = 48 << 10;

/// What is wrong with what `returns` says, or with an answer that should be so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Mismatch(String);

/// `returns` of a file: `text`, `json`, a JSON pointer, names with a pointer each, or `each` with a `row` of such names.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(super) enum Shape {
    Rows(Rows),
    Fields(BTreeMap<String, String>),
    Word(String),
}

/// A list, and what is taken of each of its members.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rows {
    each: String,
    row: BTreeMap<String, String>,
}

impl Shape {
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), Mismatch> {
        let pointers: Vec<&String> = match self {
            Self::Word(word) if matches!(word.as_str(), "text" | "json") => Vec::new(),
            Self::Word(word) => vec![word],
            Self::Fields(fields) => fields.values().collect(),
            Self::Rows(rows) => rows.row.values().chain([&rows.each]).collect(),
        };
        match pointers.into_iter().find(|pointer| !pointer.is_empty() && !pointer.starts_with('/')) {
            Some(wrong) => Err(Mismatch(format!(
                "`{wrong}` is no JSON pointer such as /current/temperature; `returns` is text, json, a pointer, or names with a pointer each"
            ))),
            None => Ok(()),
        }
    }

    /// What is shown of a body, and whether that has no words but those of the file.
    ///
    /// # Errors
    /// The body is not what the file says it is.
    pub fn of(&self, body: &[u8], content_type: &str) -> Result<(Value, bool), Mismatch> {
        if *self == Self::Word("text".to_owned()) {
            let whole = String::from_utf8_lossy(body);
            let shown = text::truncate(&whole, MOST_SHOWN);
            return Ok((json!({"text": shown, "truncated": shown.len() < whole.len()}), false));
        }
        let json: Value = serde_json::from_slice(body).map_err(|_| {
            let begin = text::truncate(&String::from_utf8_lossy(body), 200);
            Mismatch(format!("it answered {content_type} where JSON was expected: {begin}"))
        })?;
        let take = |of: &Value, fields: &BTreeMap<String, String>| {
            let field = |(name, pointer): (&String, &String)| {
                (name.clone(), of.pointer(pointer).cloned().unwrap_or(Value::Null))
            };
            Value::Object(fields.iter().map(field).collect::<Map<_, _>>())
        };
        let absent = |pointer: &str| Mismatch(format!("its answer has nothing at {pointer}"));
        let shown = match self {
            Self::Word(word) if word == "json" => json,
            Self::Word(pointer) => json.pointer(pointer).cloned().ok_or_else(|| absent(pointer))?,
            Self::Fields(fields) => take(&json, fields),
            Self::Rows(Rows { each, row }) => {
                let list = json.pointer(each).and_then(Value::as_array).ok_or_else(|| absent(each))?;
                list.iter().map(|one| take(one, row)).collect()
            }
        };
        let size = shown.to_string().len();
        if size > MOST_SHOWN {
            return Err(Mismatch(format!(
                "its answer has {} KiB, and a session reads at most {}: ask for less, or let `returns` name what is needed",
                size >> 10,
                MOST_SHOWN >> 10
            )));
        }
        let fields = |of: &Value| of.as_object().is_some_and(|all| all.values().all(is_wordless));
        let wordless = match self {
            Self::Word(_) => is_wordless(&shown),
            Self::Fields(_) => fields(&shown),
            Self::Rows(_) => shown.as_array().is_some_and(|all| all.iter().all(fields)),
        };
        let shown = if shown.is_object() { shown } else { json!({"result": shown}) };
        Ok((shown, wordless))
    }
}

/// Whether a value has no words in it, so that whoever wrote it says nothing by it but how much or how many.
fn is_wordless(value: &Value) -> bool {
    match value {
        Value::String(_) | Value::Object(_) => false,
        Value::Array(all) => all.iter().all(is_wordless),
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(of: Value) -> Shape {
        serde_json::from_value(of).unwrap()
    }

    #[test]
    fn an_answer_is_cut_to_what_the_file_names() {
        let body =
            json!({"current": {"temp": 3.5, "sky": "clear"}, "items": [{"t": "a", "u": 1}, {"u": 2}]}).to_string();
        let of = |returns: Value| shape(returns).of(body.as_bytes(), "application/json").unwrap().0;
        assert_eq!(of(json!("/current")), json!({"temp": 3.5, "sky": "clear"}));
        assert_eq!(of(json!("/current/temp")), json!({"result": 3.5}));
        assert_eq!(of(json!({"degrees": "/current/temp", "wind": "/wind"})), json!({"degrees": 3.5, "wind": null}));
        let rows = json!({"each": "/items", "row": {"title": "/t"}});
        assert_eq!(of(rows), json!({"result": [{"title": "a"}, {"title": null}]}));
        assert_eq!(of(json!("text"))["truncated"], false);
        assert_eq!(of(json!("json"))["items"][0]["u"], 1);
    }

    #[test]
    fn what_is_not_as_the_file_says_is_told() {
        let refused =
            |returns: Value, body: &str| shape(returns).of(body.as_bytes(), "text/html").unwrap_err().to_string();
        assert!(refused(json!("/a"), "<html>").contains("text/html where JSON"));
        assert!(refused(json!("/a"), "{}").contains("nothing at /a"));
        assert!(refused(json!({"each": "/a", "row": {}}), "{\"a\": 1}").contains("nothing at /a"));
        let long = json!({"a": "x".repeat(60 << 10)}).to_string();
        assert!(refused(json!("json"), &long).contains("KiB"));
        let text = shape(json!("text")).of(long.as_bytes(), "text/plain").unwrap().0;
        assert_eq!(text["truncated"], true);
        assert!(shape(json!("a.b")).check().is_err() && shape(json!({"a": "b"})).check().is_err());
        assert!(shape(json!("")).check().is_ok());
    }

    #[test]
    fn numbers_under_the_file_s_own_names_have_no_words() {
        let wordless = |returns: Value, body: Value| shape(returns).of(body.to_string().as_bytes(), "").unwrap().1;
        assert!(wordless(json!("/a"), json!({"a": [1, null, true]})));
        assert!(wordless(json!({"n": "/a"}), json!({"a": 1.5})));
        assert!(wordless(json!({"each": "/l", "row": {"n": "/a"}}), json!({"l": [{"a": 1}, {"b": "x"}]})));
        for (returns, body) in [
            (json!("/a"), json!({"a": "x"})),
            (json!("/a"), json!({"a": {"do this": 1}})),
            (json!("json"), json!({"do this": 1})),
            (json!({"n": "/a"}), json!({"a": {"do this": 1}})),
            (json!({"n": "/a"}), json!({"a": [["x"]]})),
            (json!({"each": "/l", "row": {"n": "/a"}}), json!({"l": [{"a": 1}, {"a": "x"}]})),
            (json!("text"), json!(1)),
        ] {
            assert!(!wordless(returns.clone(), body.clone()), "{returns} {body}");
        }
    }
}
