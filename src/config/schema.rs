//! The keys of a file, as its structs declare them.
//!
//! A struct derives `Deserialize` and `JsonSchema` with `transform = keys::<Self>`. A field's doc comment is the user's
//! documentation; `default` and `examples` are what the annotated file shows; `format` names one of [`super::rules`].
//! The checker walks a [`Table`], which is the JSON Schema of the struct in a typed form.

use std::cell::Cell;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor, value};
use serde_json::{Map, Value as Json, json};

use super::rules::{self, Rule};
use base::{ByteSize, HumanDuration};

/// The order of a table's keys, which a JSON object does not keep.
const ORDER: &str = "x-order";
/// Other names of a key, as in the specifications; one that ends in `_s` holds whole seconds.
const ALSO: &str = "x-also";

/// More tokens than anybody uses.
pub(super) const MAX_TOKENS: u64 = 1_000_000_000_000;

/// A table of a configuration file.
#[derive(Debug)]
pub(super) struct Table {
    pub keys: Vec<Key>,
}

/// One key of a table.
#[derive(Debug)]
pub(super) struct Key {
    pub name: String,
    pub doc: String,
    pub kind: Kind,
    /// A table is required if it has a required key.
    pub required: bool,
    pub default: Option<Json>,
    pub example: Option<Json>,
    also: Vec<String>,
}

/// What a key may hold.
#[derive(Debug)]
pub(super) enum Kind {
    Text(&'static Rule),
    /// What the number is, lowest, highest.
    Int(String, i64, i64),
    Number(f64, f64),
    Bool,
    Duration(HumanDuration, HumanDuration),
    Size(ByteSize, ByteSize),
    /// What the amount is.
    Money(String),
    OneOf(Vec<String>),
    List(Box<Kind>),
    /// Any keys that keep the rule, each with a value of one kind.
    Map(&'static Rule, Box<Kind>),
    Table(Table),
    /// A table that somebody else checks.
    Free,
}

/// The JSON Schema of a file or of a section.
pub(super) fn of<T: JsonSchema>() -> Schema {
    let settings = SchemaSettings::draft07().with(|s| s.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<T>()
}

/// Adds to a struct's schema what its derive can't say: the order of its keys, that there are no others, and that a key
/// with a default may be absent.
pub fn keys<T: DeserializeOwned>(schema: &mut Schema) {
    let names = Cell::new(&[][..]);
    // Fails by design, as soon as the names are known.
    let _ = T::deserialize(FieldNames(&names));
    schema.insert(ORDER.to_owned(), json!(names.get()));
    schema.insert("additionalProperties".to_owned(), json!(false));
    let properties = schema.ensure_object().entry("properties").or_insert_with(|| json!({}));
    let Json::Object(properties) = properties else { return };
    properties.values_mut().for_each(without_null);
    let more: Vec<(String, Json)> = properties.iter().flat_map(|(name, form)| other_names(name, form)).collect();
    let optional = |form: &Json| form.get("default").is_some() || (is_table(form) && form.get("required").is_none());
    let optional: Vec<String> = properties.iter().filter(|(_, form)| optional(form)).map(|(k, _)| k.clone()).collect();
    properties.extend(more);
    if let Some(Json::Array(required)) = schema.get_mut("required") {
        required.retain(|key| !optional.iter().any(|name| key == name));
        if required.is_empty() {
            schema.remove("required");
        }
    }
}

/// The other names of a key: of a duration those for whole seconds, and what it was called elsewhere.
fn other_names(name: &str, form: &Json) -> Vec<(String, Json)> {
    let duration = form["format"] == "duration";
    let seconds = duration.then(|| format!("{name}_s"));
    let named = |also: String| {
        let whole = json!({"type": "integer", "minimum": 0, "description": format!("`{name}` in whole seconds.")});
        let form = if duration && also.ends_with("_s") { whole } else { form.clone() };
        (also, form)
    };
    seconds.into_iter().chain(texts(&form[ALSO])).map(named).collect()
}

fn is_table(form: &Json) -> bool {
    form.get("properties").is_some()
}

/// TOML has no null: a key that may be absent is left out.
fn without_null(form: &mut Json) {
    let null = json!("null");
    if let Some(Json::Array(types)) = form.get_mut("type") {
        types.retain(|t| *t != null);
        if let [only] = types.as_slice() {
            form["type"] = only.clone();
        }
    }
    if let Some(Json::Array(names)) = form.get_mut("enum") {
        names.retain(|name| !name.is_null());
    }
    if let Some(Json::Array(both)) = form.get_mut("anyOf")
        && let Some(Json::Object(inner)) = both.first().cloned()
        && let Json::Object(outer) = form
    {
        outer.remove("anyOf");
        for (key, value) in inner {
            outer.entry(key).or_insert(value);
        }
    }
}

/// Reads nothing, but sees which fields a struct asks for, in their order.
struct FieldNames<'a>(&'a Cell<&'static [&'static str]>);

impl<'de> Deserializer<'de> for FieldNames<'_> {
    type Error = value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, value::Error> {
        Err(value::Error::custom("not a struct"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, value::Error> {
        self.0.set(fields);
        self.deserialize_any(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct
        seq tuple tuple_struct map enum identifier ignored_any
    }
}

impl Table {
    /// The keys of a struct.
    pub fn of<T: JsonSchema>() -> Self {
        Self::read(of::<T>().as_value())
    }

    /// The keys of a struct's schema.
    pub fn read(form: &Json) -> Self {
        let required = texts(&form["required"]);
        let key = |name: String| {
            let form = &form["properties"][&name];
            Key {
                doc: form["description"].as_str().unwrap_or_default().to_owned(),
                kind: Kind::read(form),
                required: required.contains(&name),
                default: form.get("default").cloned(),
                example: form["examples"].get(0).cloned(),
                also: texts(&form[ALSO]),
                name,
            }
        };
        Self { keys: texts(&form[ORDER]).into_iter().map(key).collect() }
    }

    /// The key of this name, and whether the name means whole seconds.
    pub fn find(&self, name: &str) -> Option<(&Key, bool)> {
        self.keys.iter().find_map(|key| {
            if key.name == name {
                return Some((key, false));
            }
            let seconds = matches!(key.kind, Kind::Duration(..));
            if seconds && name.strip_suffix("_s") == Some(&key.name) {
                return Some((key, true));
            }
            key.also.iter().any(|also| also == name).then(|| (key, seconds && name.ends_with("_s")))
        })
    }

    /// Puts the defaults where nothing was given.
    pub fn fill(&self, map: &mut Map<String, Json>) {
        for key in &self.keys {
            // Tables without an example are there in any case.
            let always = || (matches!(key.kind, Kind::Table(_)) && key.example.is_none()).then(|| json!({}));
            if let Some(default) = key.default.clone().or_else(always) {
                map.entry(&key.name).or_insert(default);
            }
            match (&key.kind, map.get_mut(&key.name)) {
                (Kind::Table(inner), Some(Json::Object(given))) => inner.fill(given),
                (Kind::List(inner), Some(Json::Array(items))) => {
                    let Kind::Table(inner) = &**inner else { continue };
                    items.iter_mut().filter_map(Json::as_object_mut).for_each(|item| inner.fill(item));
                }
                (Kind::Map(_, inner), Some(Json::Object(entries))) => {
                    let Kind::Table(inner) = &**inner else { continue };
                    entries.values_mut().filter_map(Json::as_object_mut).for_each(|entry| inner.fill(entry));
                }
                _ => {}
            }
        }
    }
}

impl Kind {
    fn read(form: &Json) -> Self {
        let number = |key: &str, usual: f64| form[key].as_f64().unwrap_or(usual);
        let whole = |key: &str, usual: i64| form[key].as_i64().unwrap_or(usual);
        let title = |usual: &str| form["title"].as_str().unwrap_or(usual).to_owned();
        if let Some(names) = names(form) {
            return Kind::OneOf(names);
        }
        match (form["format"].as_str(), form["type"].as_str()) {
            (Some("duration"), _) => {
                let seconds = |s: f64| HumanDuration::from_millis((s * 1000.0) as u64);
                Kind::Duration(seconds(number("minimum", 0.0)), seconds(number("maximum", 3.2e10)))
            }
            (Some("size"), _) => {
                let bytes = |key, usual| ByteSize(form[key].as_u64().unwrap_or(usual));
                Kind::Size(bytes("minimum", 0), bytes("maximum", 1 << 50))
            }
            (Some("money"), _) => Kind::Money(title("an amount")),
            (_, Some("integer")) => Kind::Int(title("a whole number"), whole("minimum", 0), whole("maximum", i64::MAX)),
            (_, Some("number")) => Kind::Number(number("minimum", f64::MIN), number("maximum", f64::MAX)),
            (_, Some("boolean")) => Kind::Bool,
            (_, Some("array")) => Kind::List(Box::new(Kind::read(&form["items"]))),
            (_, Some("object")) if is_table(form) => Kind::Table(Table::read(form)),
            (_, Some("object")) if form["additionalProperties"].is_object() => {
                let names = rules::find(form["propertyNames"]["format"].as_str());
                Kind::Map(names, Box::new(Kind::read(&form["additionalProperties"])))
            }
            (_, Some("object")) => Kind::Free,
            (None, _) if form["minLength"].is_u64() => Kind::Text(rules::find(Some("filled"))),
            (format, _) => Kind::Text(rules::find(format)),
        }
    }

    /// What was expected, as the end of a mistake.
    pub fn expected(&self) -> String {
        match self {
            Kind::Text(rule) => rule.expected.to_owned(),
            Kind::Int(what, min, i64::MAX) => format!("{what} from {min} on"),
            Kind::Int(what, min, max) => format!("{what} {min}-{max}"),
            Kind::Number(min, max) => format!("a number from {min} to {max}"),
            Kind::Bool => "true or false".to_owned(),
            Kind::Duration(min, max) => {
                format!("a duration such as \"30s\", \"10m\" or \"2h\", at least {min} and at most {max}")
            }
            Kind::Size(min, max) => {
                format!("a size such as \"512 KiB\", \"16 MiB\" or \"2 GiB\", at least {min} and at most {max}")
            }
            Kind::Money(what) => format!("{what} such as 5 or \"0.50\", not negative"),
            Kind::OneOf(names) => one_of(names.iter().map(|name| format!("\"{name}\""))),
            Kind::List(inner) if matches!(**inner, Kind::Table(_)) => "a list of tables".to_owned(),
            Kind::List(inner) => format!("a list, each item {}", inner.expected()),
            Kind::Map(rule, inner) => format!("a table, each key {}, each value {}", rule.expected, inner.expected()),
            Kind::Table(_) | Kind::Free => "a table".to_owned(),
        }
    }
}

/// `one of a, b`, or the only one.
pub(super) fn one_of(names: impl Iterator<Item = String>) -> String {
    let names: Vec<String> = names.collect();
    match names.as_slice() {
        [] => "none".to_owned(),
        [only] => only.clone(),
        _ => format!("one of {}", names.join(", ")),
    }
}

/// The texts that an enum's values stand for.
fn names(form: &Json) -> Option<Vec<String>> {
    match (form.get("enum"), form.get("oneOf").and_then(Json::as_array), form.get("const")) {
        (Some(names), _, _) => Some(texts(names)),
        // Those with a documentation of their own.
        (_, Some(values), _) => {
            let names = |value: &Json| names(value).unwrap_or_default();
            Some(values.iter().flat_map(names).collect())
        }
        (_, _, Some(only)) => Some(only.as_str().map(str::to_owned).into_iter().collect()),
        _ => None,
    }
}

fn texts(list: &Json) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Json::as_str).map(str::to_owned).collect()
}
