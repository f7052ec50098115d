//! What comes in with a request, as its type has it: the schema that the document shows is the one that refuses.

use http::StatusCode;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::problem::Problem;

/// A part of a request: its parameters, or its body.
pub(crate) struct Input {
    /// JSON Schema of an object.
    pub schema: Value,
    /// `None`: the schema is wrong, and nothing is taken in by it.
    check: Option<jsonschema::Validator>,
}

/// Where a page of a list begins, and how many it has.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Paging {
    /// `next` of the page before. Without it the list begins with its first.
    #[schemars(length(min = 1, max = 1000))]
    pub cursor: Option<String>,
    /// How many at most; 50 if it is not given.
    #[schemars(range(min = 1, max = 100))]
    pub limit: Option<u32>,
}

/// No parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

impl Input {
    pub fn of<T: JsonSchema>() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|s| {
            s.meta_schema = None;
            s.inline_subschemas = true;
        });
        let mut schema = SchemaGenerator::new(settings).into_root_schema_for::<T>().to_value();
        if let Some(object) = schema.as_object_mut() {
            object.remove("title");
            object.remove("description");
        }
        let check = jsonschema::options().should_validate_formats(true).build(&schema);
        let check = check.inspect_err(|error| tracing::error!(%error, "a schema of the API is wrong")).ok();
        Self { schema, check }
    }

    /// What is known by name, with the schema of each.
    pub fn properties(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.schema["properties"].as_object().into_iter().flatten()
    }

    pub fn requires(&self, name: &str) -> bool {
        self.schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name))
    }

    /// Whether nothing of it must be there.
    pub fn optional(&self) -> bool {
        self.schema["required"].as_array().is_none_or(Vec::is_empty)
    }

    /// Words out of a path or a query, each as the type of its parameter has it.
    pub fn typed(&self, words: Vec<(String, String)>) -> Result<Value, Problem> {
        let mut all = Map::new();
        for (name, word) in words {
            let Some((_, schema)) = self.properties().find(|(known, _)| **known == name) else {
                let known: Vec<&str> = self.properties().map(|(known, _)| known.as_str()).collect();
                let detail = match known.as_slice() {
                    [] => "This takes no parameters.".to_owned(),
                    known => format!("There is no such parameter; there are: {}.", known.join(", ")),
                };
                return Err(Problem::malformed("invalid_parameters", detail));
            };
            let value = typed(schema, word);
            if all.insert(name, value).is_some() {
                return Err(Problem::malformed("invalid_parameters", "A parameter is given twice."));
            }
        }
        Ok(Value::Object(all))
    }

    /// Refuses a value that is not as the schema has it.
    pub fn check(&self, value: &Value, code: &str) -> Result<(), Problem> {
        let Some(validator) = &self.check else {
            let detail = "The daemon can't check what this takes; its log says why.";
            return Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail));
        };
        if let Err(mistake) = validator.validate(value) {
            let place = mistake.instance_path().to_string();
            let place = if place.is_empty() { String::new() } else { format!("{}: ", place.trim_start_matches('/')) };
            return Err(Problem::malformed(code, format!("{place}{mistake}.")));
        }
        if holds_null(value) {
            let detail = "A text has the character U+0000, which nothing here can have.";
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_text", detail));
        }
        Ok(())
    }

    /// A value that was checked, as its type.
    pub fn read<T: DeserializeOwned>(value: &Value) -> Result<T, Problem> {
        serde_json::from_value(whole(value)).map_err(|e| Problem::malformed("invalid_parameters", format!("{e}.")))
    }
}

/// A word as what its schema takes. One that is none stays a text, which the schema refuses.
fn typed(schema: &Value, word: String) -> Value {
    let takes = |kind: &str| {
        schema["type"] == kind || schema["type"].as_array().is_some_and(|all| all.iter().any(|one| one == kind))
    };
    let plain = |word: &str| word.trim_start_matches('-').bytes().all(|b| b.is_ascii_digit());
    match word.as_str() {
        "true" if takes("boolean") => Value::Bool(true),
        "false" if takes("boolean") => Value::Bool(false),
        number if takes("integer") && plain(number) => number.parse::<i64>().map_or(Value::String(word), Value::from),
        _ => Value::String(word),
    }
}

/// The same, with each number that is whole written so: for JSON Schema 1.0 is an integer, for the types it is none.
fn whole(value: &Value) -> Value {
    match value {
        Value::Number(number) => {
            let float = number.as_f64().filter(|n| number.is_f64() && n.fract() == 0.0 && n.abs() < 9e15);
            float.map_or_else(|| value.clone(), |n| Value::from(n as i64))
        }
        Value::Array(all) => all.iter().map(whole).collect(),
        Value::Object(all) => all.iter().map(|(name, value)| (name.clone(), whole(value))).collect(),
        other => other.clone(),
    }
}

/// PostgreSQL has no texts with this character.
fn holds_null(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(all) => all.iter().any(holds_null),
        Value::Object(all) => all.values().any(holds_null),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[derive(Debug, Deserialize, JsonSchema)]
    struct Sample {
        id: Uuid,
        #[serde(flatten)]
        paging: Paging,
    }

    fn read(words: &[(&str, &str)]) -> Result<Sample, Problem> {
        let input = Input::of::<Sample>();
        let words = words.iter().map(|(name, word)| ((*name).to_owned(), (*word).to_owned())).collect();
        let value = input.typed(words)?;
        input.check(&value, "invalid_parameters")?;
        Input::read(&value)
    }

    #[test]
    fn what_can_not_be_checked_is_not_taken() {
        for endpoint in crate::table::ALL.iter().flat_map(|(_, endpoints)| endpoints) {
            let bodies = endpoint.body.as_ref().into_iter();
            assert!(bodies.chain([&endpoint.params]).all(|input| input.check.is_some()), "{}", endpoint.id);
        }
        let broken = Input { schema: serde_json::json!({}), check: None };
        let refused = broken.check(&serde_json::json!({}), "invalid_body").unwrap_err();
        assert_eq!(refused.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let none = Input::of::<Nothing>();
        assert!(none.check(&serde_json::json!({}), "invalid_body").is_ok());
        assert!(none.check(&serde_json::json!({"more": 1}), "invalid_body").is_err());
    }

    #[test]
    fn parameters_are_what_their_schema_says() {
        let id = ("id", "018f0000-0000-7000-8000-000000000000");
        let good = read(&[id, ("limit", "100"), ("cursor", "x")]).unwrap();
        assert_eq!(
            (good.paging.limit, good.paging.cursor.as_deref(), good.id.get_version_num()),
            (Some(100), Some("x"), 7)
        );
        assert_eq!(read(&[id]).unwrap().paging.limit, None);
        for bad in [
            &[id, ("limit", "0")][..],
            &[id, ("limit", "101")],
            &[id, ("limit", "ten")],
            &[id, ("limit", "")],
            &[id, ("cursor", "")],
            &[id, ("limit", "1"), ("limit", "1")],
            &[id, ("offset", "1")],
            &[("id", "x")],
            &[],
        ] {
            assert_eq!(read(bad).unwrap_err().status(), StatusCode::BAD_REQUEST, "{bad:?}");
        }
        assert_eq!(read(&[id, ("cursor", "a\0b")]).unwrap_err().status(), StatusCode::UNPROCESSABLE_ENTITY);
    }
}
