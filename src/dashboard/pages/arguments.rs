//! What is typed into a tool's form, as the arguments that its JSON Schema wants.

use std::collections::BTreeMap;

use serde_json::{Map, Number, Value};

use crate::form::Form;

/// From this length on a text is written in a box of several lines.
const LONG: u64 = 300;

/// How a value is typed in.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Line,
    Text,
    Integer,
    Number,
    Switch,
    Choice(Vec<String>),
    /// Lists, objects and what may be several of all these.
    Json,
}

/// What was wrong, by the argument's name.
pub(super) type Wrong = BTreeMap<String, String>;

pub(super) fn kind_of(schema: &Value) -> Kind {
    if let Some(all) = schema["enum"].as_array() {
        let texts: Option<Vec<String>> =
            all.iter().filter(|one| !one.is_null()).map(|one| one.as_str().map(str::to_owned)).collect();
        return texts.map_or(Kind::Json, Kind::Choice);
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(all) => all.iter().filter_map(Value::as_str).filter(|one| *one != "null").collect(),
        _ => Vec::new(),
    };
    match types.as_slice() {
        ["string"] => {
            let free = schema.get("format").is_none() && schema.get("pattern").is_none();
            let long = schema["maxLength"].as_u64().is_none_or(|most| most > LONG);
            if free && long { Kind::Text } else { Kind::Line }
        }
        ["integer"] => Kind::Integer,
        ["number"] => Kind::Number,
        ["boolean"] => Kind::Switch,
        _ => Kind::Json,
    }
}

/// A call's arguments as the form has them, or what is wrong with which. What is left empty is left out.
pub(super) fn arguments(schema: &Value, form: &Form) -> Result<Map<String, Value>, Wrong> {
    let none = Map::new();
    let (mut args, mut wrong) = (Map::new(), Wrong::new());
    for (name, of) in schema["properties"].as_object().unwrap_or(&none) {
        let kind = kind_of(of);
        let sent = form.raw(&format!("arg.{name}")).unwrap_or_default();
        if sent.trim().is_empty() {
            if is_required(schema, name) {
                wrong.insert(name.clone(), "It is needed.".to_owned());
            }
            continue;
        }
        match value_of(&kind, sent) {
            Ok(value) => drop(args.insert(name.clone(), value)),
            Err(why) => drop(wrong.insert(name.clone(), why)),
        }
    }
    if wrong.is_empty() { Ok(args) } else { Err(wrong) }
}

fn value_of(kind: &Kind, sent: &str) -> Result<Value, String> {
    let trimmed = sent.trim();
    match kind {
        Kind::Line => Ok(trimmed.into()),
        // Browsers send the ends of lines as mail has them.
        Kind::Text => Ok(sent.replace("\r\n", "\n").into()),
        Kind::Integer => {
            trimmed.parse::<i64>().map(Value::from).map_err(|_| "Write a whole number, such as 12.".to_owned())
        }
        Kind::Number => serde_json::from_str::<Number>(trimmed)
            .map(Value::Number)
            .map_err(|_| "Write a number, such as 12 or 0.5, with a point.".to_owned()),
        Kind::Switch => match trimmed {
            "true" => Ok(true.into()),
            "false" => Ok(false.into()),
            _ => Err("Choose true or false.".to_owned()),
        },
        Kind::Choice(all) if all.iter().any(|one| one == trimmed) => Ok(trimmed.into()),
        Kind::Choice(all) => Err(format!("Choose one of: {}.", all.join(", "))),
        Kind::Json => serde_json::from_str(trimmed).map_err(|e| {
            format!(
                "This is not valid JSON: line {}, column {}. A text stands between double quotes.",
                e.line(),
                e.column()
            )
        }),
    }
}

pub(super) fn is_required(schema: &Value, name: &str) -> bool {
    schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Value {
        json!({"type": "object", "required": ["name", "n"], "properties": {
            "name": {"type": "string", "maxLength": 40}, "story": {"type": ["string", "null"]}, "n": {"type": "integer"},
            "share": {"type": "number"}, "on": {"type": "boolean"}, "how": {"type": "string", "enum": ["a", "b"]},
            "tags": {"type": "array", "items": {"type": "string"}}, "any": {"description": "Any JSON value"}}})
    }

    #[test]
    fn what_is_typed_becomes_what_the_schema_wants() {
        let form = Form::parse(
            "arg.name=+Ada+&arg.story=one%0D%0Atwo&arg.n=-3&arg.share=0.50&arg.on=false&arg.how=b&arg.tags=[%22x%22]&other=1",
        );
        let args = Value::Object(arguments(&schema(), &form).unwrap());
        let want =
            json!({"name": "Ada", "story": "one\ntwo", "n": -3, "share": 0.5, "on": false, "how": "b", "tags": ["x"]});
        assert_eq!(args, want);
    }

    #[test]
    fn each_field_says_what_is_wrong_with_it() {
        let form = Form::parse("arg.n=3.5&arg.share=much&arg.on=perhaps&arg.how=c&arg.tags=x,y&arg.any={");
        let wrong = arguments(&schema(), &form).unwrap_err();
        let names: Vec<&str> = wrong.keys().map(String::as_str).collect();
        assert_eq!(names, ["any", "how", "n", "name", "on", "share", "tags"]);
        assert_eq!(wrong["how"], "Choose one of: a, b.");
        assert!(wrong["tags"].starts_with("This is not valid JSON: line 1"), "{}", wrong["tags"]);
    }
}
