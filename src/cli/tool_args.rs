//! A tool's arguments as they are typed: a JSON object, or `--name value` for each, read by the tool's own schema.

use std::ffi::OsString;
use std::io::Read;

use serde_json::{Map, Value};

use super::common::BadArgument;
use super::problem::Problem;

/// The longest text that is read from standard input.
const MOST: u64 = 64 << 20;

/// What was typed after the tool's name.
#[derive(Debug)]
pub enum Typed {
    Object(Map<String, Value>),
    /// Words that the tool's schema explains.
    Words(Vec<String>),
}

/// Reads what needs no schema.
pub fn typed(words: Vec<String>) -> Result<Typed, Problem> {
    match words.as_slice() {
        [] => Ok(Typed::Object(Map::new())),
        [first, ..] if first.starts_with("--") => Ok(Typed::Words(words)),
        [only] if only == "-" => {
            let text = std::io::read_to_string(std::io::stdin().lock().take(MOST));
            object(&text.map_err(|e| wrong(&format!("can't be read from standard input: {e}")))?)
        }
        [only] => object(only),
        [_, more, ..] => Err(wrong(&format!("are one JSON object, and `{more}` stands behind it"))),
    }
}

fn object(text: &str) -> Result<Typed, Problem> {
    match serde_json::from_str(text) {
        Ok(Value::Object(args)) => Ok(Typed::Object(args)),
        Ok(_) => Err(wrong("are not a JSON object")),
        Err(e) => Err(wrong(&format!("are not valid JSON: {e}"))),
    }
}

fn wrong(what: &str) -> Problem {
    Problem::usage(
        format!("The tool's arguments {what}."),
        r#"Write them as in: butlerd tool call health state_get --key x, or as JSON: '{"key": "x"}'"#,
    )
}

/// butlerd's own flags with a value, and those without.
const VALUED: [&str; 3] = ["--config", "--roster", "--data-dir"];
const PLAIN: [&str; 1] = ["--json"];

/// The command line with butlerd's own flags before `tool call`, wherever they stood: behind a tool's name all words
/// are the tool's arguments. Any other command line stays as it is.
pub fn own_flags_first(argv: Vec<OsString>) -> Vec<OsString> {
    let (mut own, mut rest) = (Vec::new(), Vec::new());
    let mut words = argv.iter();
    let program = words.next().cloned();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        let flag = text.split('=').next().unwrap_or_default();
        if PLAIN.contains(&&*text) || text.contains('=') && VALUED.contains(&flag) {
            own.push(word.clone());
        } else if VALUED.contains(&&*text) {
            own.push(word.clone());
            own.extend(words.next().cloned());
        } else {
            rest.push(word.clone());
        }
    }
    match rest.as_slice() {
        [tool, call, ..] if tool == "tool" && call == "call" => program.into_iter().chain(own).chain(rest).collect(),
        _ => argv,
    }
}

/// The arguments by a tool's schema. An argument without a value is a switch; one that is given twice is a list.
pub fn by_schema(words: &[String], schema: &Value) -> Result<Map<String, Value>, BadArgument> {
    let mut args = Map::new();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let Some(name) = word.strip_prefix("--").filter(|name| !name.is_empty()) else {
            return Err(BadArgument(format!("`{word}` stands where --NAME is expected")));
        };
        let (name, given) = match name.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (name, None),
        };
        let properties = schema["properties"].as_object();
        let name = match properties.map(|p| (p.contains_key(name), name.replace('-', "_"))) {
            Some((false, other)) if properties.is_some_and(|p| p.contains_key(&other)) => other,
            Some((true, _)) => name.to_owned(),
            _ => return Err(BadArgument(unknown(name, schema))),
        };
        let is = &schema["properties"][&name];
        let given = match given {
            None if types(is).contains(&"boolean") => {
                words.next_if(|next| ["true", "false"].contains(&next.as_str())).cloned()
            }
            None => match words.next_if(|next| !next.starts_with("--")) {
                Some(value) => Some(value.clone()),
                None => {
                    return Err(BadArgument(format!(
                        "--{name} has no value; one that begins with -- is written --{name}=VALUE"
                    )));
                }
            },
            given => given,
        };
        let value = match given {
            Some(text) => value(&text, is).map_err(|why| BadArgument(format!("--{name}: {why}")))?,
            None => Value::Bool(true),
        };
        match (args.get_mut(&name), value) {
            (Some(Value::Array(list)), Value::Array(more)) => list.extend(more),
            (Some(_), _) => return Err(BadArgument(format!("--{name} stands there twice"))),
            (None, value) => drop(args.insert(name, value)),
        }
    }
    Ok(args)
}

fn unknown(name: &str, schema: &Value) -> String {
    let known: Vec<&str> = schema["properties"].as_object().into_iter().flatten().map(|(n, _)| n.as_str()).collect();
    let meant = config::nearest(name, known.iter().copied());
    let meant = meant.map(|near| format!(" (did you mean --{near}?)")).unwrap_or_default();
    match known.is_empty() {
        true => format!("--{name} is not known: the tool takes no arguments"),
        false => format!("--{name} is not known{meant}; there are: --{}", known.join(", --")),
    }
}

/// The types that a schema allows; none is any.
fn types(schema: &Value) -> Vec<&str> {
    match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// What a text means where this schema stands. The daemon checks the rest.
fn value(text: &str, schema: &Value) -> Result<Value, String> {
    let types = types(schema);
    let parsed = serde_json::from_str::<Value>(text).ok();
    let fits = |value: &Value| match value {
        Value::Null => types.contains(&"null"),
        Value::Bool(_) => types.contains(&"boolean"),
        Value::Number(n) => types.contains(&"number") || types.contains(&"integer") && !n.is_f64(),
        Value::String(_) => false,
        Value::Array(_) => types.contains(&"array"),
        Value::Object(_) => types.contains(&"object"),
    };
    if let Some(value) = parsed.as_ref().filter(|value| fits(value)) {
        return Ok(value.clone());
    }
    if types.contains(&"array") {
        return Ok(Value::Array(vec![self::value(text, &schema["items"])?]));
    }
    match types.is_empty() {
        true => Ok(parsed.unwrap_or_else(|| text.into())),
        false if types.contains(&"string") => Ok(text.into()),
        false => Err(format!("`{text}` is no {}", types.join(" and no "))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(words: &[&str]) -> Result<Value, String> {
        let schema = json!({"properties": {
            "kind": {"type": "string"}, "count": {"type": "integer"}, "share": {"type": ["number", "null"]},
            "due_at": {"type": "string"}, "all": {"type": "boolean"}, "value": {},
            "tags": {"type": "array", "items": {"type": "string"}}, "more": {"type": "object"}}});
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        by_schema(&words, &schema).map(Value::Object).map_err(|why| why.to_string())
    }

    #[test]
    fn values_have_the_types_of_the_schema() {
        for (words, args) in [
            (&["--kind", "12"][..], json!({"kind": "12"})),
            (&["--count", "12", "--share=-0.5"], json!({"count": 12, "share": -0.5})),
            (&["--share", "null", "--due-at", "2026-01-01"], json!({"share": null, "due_at": "2026-01-01"})),
            (&["--all", "--kind", "a b"], json!({"all": true, "kind": "a b"})),
            (&["--all", "false"], json!({"all": false})),
            (&["--tags", "a", "--tags", "b"], json!({"tags": ["a", "b"]})),
            (&["--tags", r#"["a","b"]"#], json!({"tags": ["a", "b"]})),
            (&["--value", r#"{"kg": 80}"#, "--more", r#"{"x": 1}"#], json!({"value": {"kg": 80}, "more": {"x": 1}})),
            (&["--value", "plain"], json!({"value": "plain"})),
            (&["--kind=--x"], json!({"kind": "--x"})),
            (&[], json!({})),
        ] {
            assert_eq!(read(words), Ok(args), "{words:?}");
        }
    }

    #[test]
    fn mistakes_are_told() {
        for (words, said) in [
            (&["--kond", "x"][..], "did you mean --kind?"),
            (&["--count", "many"], "--count: `many` is no integer"),
            (&["--count", "1.5"], "is no integer"),
            (&["--kind"], "has no value"),
            (&["--kind", "a", "--kind", "b"], "twice"),
            (&["--kind", "a", "b"], "`b` stands where"),
            (&["--more", "x"], "is no object"),
        ] {
            let why = read(words).unwrap_err();
            assert!(why.contains(said), "{words:?}: {why}");
        }
    }

    #[test]
    fn butlerds_own_flags_may_stand_behind_the_arguments() {
        let moved = |line: &str| {
            let words = own_flags_first(line.split(' ').map(OsString::from).collect());
            words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            moved("b tool call h t --kind x --data-dir /d --json"),
            "b --data-dir /d --json tool call h t --kind x"
        );
        assert_eq!(moved("b --json tool call h t --config=/c"), "b --json --config=/c tool call h t");
        assert_eq!(moved("b tool list h --json"), "b tool list h --json");
    }

    #[test]
    fn json_is_one_object() {
        let list = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        assert!(matches!(typed(list(&[r#"{"key": "x"}"#])), Ok(Typed::Object(args)) if args["key"] == "x"));
        assert!(matches!(typed(Vec::new()), Ok(Typed::Object(args)) if args.is_empty()));
        for bad in [&[""][..], &["[]"], &["x"], &["{"], &["{}", "{}"]] {
            assert_eq!(typed(list(bad)).unwrap_err().exit, 2, "{bad:?}");
        }
    }
}
