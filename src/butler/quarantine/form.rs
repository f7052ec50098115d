//! The form of an answer about untrusted content: a closed part of JSON Schema. What fits it was chosen by whoever
//! asked, but for fields of free text.

use std::ops::RangeInclusive;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use serde_json::{Map, Value, json};

const MAX_FIELDS: usize = 20;
const MAX_CHOICES: usize = 50;
/// The longest choice and the longest description, in characters.
const MAX_WORDS: usize = 200;
const MAX_NAME: usize = 64;
/// The longest free text, in characters.
const MAX_TEXT: u64 = 4000;
/// The greatest number whose neighbours JSON's numbers still tell apart.
const MAX_INTEGER: i64 = 1 << 53;

/// What a field may hold.
enum Kind {
    /// One of these strings, or of these integers.
    Choice(Vec<Value>),
    Boolean,
    Integer(RangeInclusive<i64>),
    Number(RangeInclusive<f64>),
    Date,
    Moment,
    /// Free text of so many characters.
    Text(usize),
}

struct Field {
    name: String,
    kind: Kind,
    required: bool,
}

/// An answer's form.
pub(super) struct AnswerForm {
    fields: Vec<Field>,
}

/// What is wrong with a form, for whoever wrote it.
type Wrong = String;

impl AnswerForm {
    /// Takes `{"type": "object", "properties": {name: field}, "required": [names]}`.
    pub fn of(schema: &Map<String, Value>) -> Result<Self, Wrong> {
        known_keys(schema, &["type", "properties", "required", "additionalProperties"], "answer_schema")?;
        if schema.get("type").is_some_and(|t| t != "object")
            || schema.get("additionalProperties").is_some_and(|a| a != false)
        {
            return Err("answer_schema is an object of named fields and has no others.".to_owned());
        }
        let none = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
        if properties.is_empty() || properties.len() > MAX_FIELDS {
            return Err(format!("answer_schema.properties has 1 to {MAX_FIELDS} fields."));
        }
        let required: Option<Vec<&str>> = match schema.get("required") {
            None => Some(Vec::new()),
            Some(names) => names.as_array().and_then(|names| names.iter().map(Value::as_str).collect()),
        };
        let required = required
            .filter(|names| names.iter().all(|name| properties.contains_key(*name)))
            .ok_or("answer_schema.required lists names of its properties.")?;
        let field = |(name, of): (&String, &Value)| {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(plain) {
                return Err(format!("A field's name has 1 to {MAX_NAME} letters, digits and _."));
            }
            let kind = kind(of).map_err(|why| format!("{name}: {why}"))?;
            Ok(Field { name: name.clone(), kind, required: required.contains(&name.as_str()) })
        };
        Ok(Self { fields: properties.iter().map(field).collect::<Result<_, _>>()? })
    }

    /// Whether an answer may hold free text.
    pub fn has_text(&self) -> bool {
        self.fields.iter().any(|field| matches!(field.kind, Kind::Text(_)))
    }

    /// Reads a model's last words. `None`: they are not an answer of this form. All fields are in the answer, written
    /// anew from their values; what the content does not say is null.
    pub fn read(&self, words: &str) -> Option<Value> {
        let Ok(Value::Object(given)) = serde_json::from_str(unfenced(words)) else { return None };
        if given.keys().any(|name| !self.fields.iter().any(|field| field.name == *name)) {
            return None;
        }
        let read = |field: &Field| {
            let value = match given.get(&field.name) {
                None | Some(Value::Null) => (!field.required).then_some(Value::Null),
                Some(value) => field.kind.read(value),
            };
            Some((field.name.clone(), value?))
        };
        self.fields.iter().map(read).collect::<Option<Map<_, _>>>().map(Value::Object)
    }
}

impl Kind {
    /// The value if it is of this kind, written anew, so that nothing but the value comes through.
    fn read(&self, value: &Value) -> Option<Value> {
        match self {
            Kind::Choice(choices) => choices.iter().find(|choice| *choice == value).cloned(),
            Kind::Boolean => value.as_bool().map(Value::from),
            Kind::Integer(range) => value.as_i64().filter(|n| range.contains(n)).map(Value::from),
            Kind::Number(range) => value.as_f64().filter(|n| range.contains(n)).map(Value::from),
            Kind::Date => value.as_str()?.parse::<Date>().ok().map(|day| json!(day.to_string())),
            Kind::Moment => moment(value.as_str()?),
            Kind::Text(most) => {
                value.as_str().filter(|text| text.chars().count() <= *most).map(|t| json!(base::text::clean(t)))
            }
        }
    }
}

/// A time with its offset, or as a clock shows it; to the second.
fn moment(text: &str) -> Option<Value> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return Timestamp::from_second(at.as_second()).ok().map(|at| json!(at.to_string()));
    }
    let local = text.parse::<DateTime>().ok()?.with().subsec_nanosecond(0).build().ok()?;
    Some(json!(local.to_string()))
}

/// The words inside of a fenced block, if they are one as a whole.
fn unfenced(words: &str) -> &str {
    let words = words.trim();
    let inside = words.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    inside.map_or(words, |inside| inside.strip_prefix("json").unwrap_or(inside)).trim()
}

fn known_keys(of: &Map<String, Value>, known: &[&str], what: &str) -> Result<(), Wrong> {
    match of.keys().find(|key| !known.contains(&key.as_str())) {
        Some(_) => Err(format!("{what} takes {} and nothing else.", known.join(", "))),
        None => Ok(()),
    }
}

fn kind(of: &Value) -> Result<Kind, Wrong> {
    const KINDS: &str = "a field is {\"enum\": […]}, {\"type\": \"boolean\"}, {\"type\": \"integer\"} or {\"type\": \"number\"} \
        with minimum and maximum if you like, {\"type\": \"string\", \"format\": \"date\"} or \"date-time\", or \
        {\"type\": \"string\", \"maxLength\": n}, which is free text and lowers this session.";
    let of = of.as_object().ok_or(KINDS)?;
    if let Some(words) = of.get("description")
        && words.as_str().is_none_or(|words| words.chars().count() > MAX_WORDS)
    {
        return Err(format!("a description is a text of at most {MAX_WORDS} characters."));
    }
    let takes = |keys: &[&str]| known_keys(of, keys, "such a field");
    let named = of.get("type").and_then(Value::as_str);
    if let Some(choices) = of.get("enum") {
        takes(&["type", "enum", "description"])?;
        return choice(choices, of.get("type"));
    }
    match (named, of.get("format").and_then(Value::as_str)) {
        (Some("boolean"), None) => takes(&["type", "description"]).map(|()| Kind::Boolean),
        (Some("integer"), None) => {
            takes(&["type", "minimum", "maximum", "description"])?;
            let bound = |name: &str, without| of.get(name).map_or(Some(without), Value::as_i64);
            let bounds = bound("minimum", -MAX_INTEGER).zip(bound("maximum", MAX_INTEGER));
            let (least, most) = bounds.ok_or("minimum and maximum are integers.")?;
            Ok(Kind::Integer(least.max(-MAX_INTEGER)..=most.min(MAX_INTEGER)))
        }
        (Some("number"), None) => {
            takes(&["type", "minimum", "maximum", "description"])?;
            let bound = |name: &str, without| of.get(name).map_or(Some(without), Value::as_f64);
            let bounds = bound("minimum", f64::MIN).zip(bound("maximum", f64::MAX));
            bounds
                .map(|(least, most)| Kind::Number(least..=most))
                .ok_or_else(|| "minimum and maximum are numbers.".into())
        }
        (Some("string"), Some("date")) => takes(&["type", "format", "description"]).map(|()| Kind::Date),
        (Some("string"), Some("date-time")) => takes(&["type", "format", "description"]).map(|()| Kind::Moment),
        (Some("string"), None) => {
            takes(&["type", "maxLength", "description"])?;
            let most = of.get("maxLength").and_then(Value::as_u64).filter(|most| (1..=MAX_TEXT).contains(most));
            let most = most.and_then(|most| usize::try_from(most).ok());
            most.map(Kind::Text).ok_or_else(|| format!("free text needs a maxLength of 1 to {MAX_TEXT}."))
        }
        _ => Err(KINDS.to_owned()),
    }
}

fn choice(choices: &Value, named: Option<&Value>) -> Result<Kind, Wrong> {
    let choices = choices.as_array().filter(|all| !all.is_empty() && all.len() <= MAX_CHOICES);
    let choices = choices.ok_or_else(|| format!("enum has 1 to {MAX_CHOICES} choices."))?;
    let word = |one: &Value| one.as_str().is_some_and(|word| word.chars().count() <= MAX_WORDS);
    let name = match choices {
        all if all.iter().all(word) => "string",
        all if all.iter().all(Value::is_i64) => "integer",
        _ => return Err(format!("enum lists texts of at most {MAX_WORDS} characters, or integers.")),
    };
    match named {
        Some(other) if other != name => Err(format!("its choices are of the type {name}.")),
        _ => Ok(Kind::Choice(choices.clone())),
    }
}

#[cfg(test)]
#[path = "form_tests.rs"]
mod tests;
