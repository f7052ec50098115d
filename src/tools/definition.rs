//! A tool's definition for a model and its metadata for butlerd.

use std::sync::{Arc, OnceLock};

use jsonschema::error::ValidationErrorKind;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use strum::IntoStaticStr;

/// What a call may change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Effect {
    /// Nothing.
    None,
    /// Something, but doing it twice leaves what doing it once leaves.
    Idempotent,
    /// Something, each time.
    Once,
}

base::named!(Effect);

/// What butlerd must know of a tool to keep it safe. What is undeclared is assumed to be the worse case.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Meta {
    /// Shows what is private to the owner.
    pub reads_private: bool,
    /// Shows text that a stranger may have written.
    pub reads_untrusted: bool,
    /// Lets something leave the household.
    pub sends_out: bool,
    /// Takes something away that can't be brought back.
    pub destructive: bool,
    /// Called by the house itself alone: no token opens it, and no list shows it.
    #[serde(skip)]
    pub internal: bool,
    /// For people and their programs: refused to a session, and no session's list shows it.
    #[serde(skip)]
    pub operators: bool,
    /// Each call by a session waits for the owner, whoever asked for it and whatever the session was shown: it speaks in the
    /// owner's name to others.
    #[serde(skip)]
    pub asks_always: bool,
    /// What it changes carries the session's label and reaches nobody by itself, so that a session which others influenced
    /// may call it too: it hands work on, or adds rows that are believed as little as that session.
    #[serde(skip)]
    pub carries_label: bool,
    /// Clients are given its result as structured content as well: for tools in the shape of another program's, whose
    /// clients read it there.
    #[serde(skip)]
    pub structured: bool,
    /// Arguments that must not appear in logs and audit rows.
    pub sensitive: Vec<String>,
    pub effect: Option<Effect>,
}

impl Default for Meta {
    fn default() -> Self {
        Self {
            reads_private: true,
            reads_untrusted: false,
            sends_out: false,
            destructive: false,
            internal: false,
            operators: false,
            asks_always: false,
            carries_label: false,
            structured: false,
            sensitive: Vec::new(),
            effect: None,
        }
    }
}

impl Meta {
    /// Metadata of a tool that shows the owner's data and changes nothing.
    pub fn read() -> Self {
        Self { effect: Some(Effect::None), ..Self::default() }
    }
    /// The same of a tool whose effects carry the session's label.
    #[must_use]
    pub fn labelled(self) -> Self {
        Self { carries_label: true, ..self }
    }
    /// Metadata of a tool that changes the butler's own data.
    pub fn write(effect: Effect) -> Self {
        Self { effect: Some(effect), reads_private: false, ..Self::default() }
    }
}

/// A tool as a model sees it, with its checks compiled once.
pub struct Definition {
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments, an object.
    pub schema: Arc<Map<String, Value>>,
    pub meta: Meta,
    /// What people say when they need it.
    pub examples: Vec<String>,
    /// Compiled at the first call: a household has hundreds of tools, and a day calls few of them.
    validator: OnceLock<jsonschema::Validator>,
    optional: Vec<String>,
    /// Other names of arguments, each with the argument's own.
    pub(crate) aliases: Vec<(&'static str, &'static str)>,
}

impl std::fmt::Debug for Definition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Definition").field("name", &self.name).field("meta", &self.meta).finish_non_exhaustive()
    }
}

/// The schema of a tool's arguments is wrong: a sentence for the tool's author.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the argument schema {0}")]
pub struct SchemaError(String);

/// What is wrong with a call's arguments, each mistake with its field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct ArgumentsError(Vec<String>);

fn compiled(schema: &Value) -> Result<jsonschema::Validator, SchemaError> {
    let options = jsonschema::options().should_validate_formats(true);
    options.build(schema).map_err(|e| SchemaError(format!("is wrong: {e}")))
}

/// Whether a schema is made of such plain parts that compiling it can't fail.
fn is_plain(schema: &Value) -> bool {
    const TYPES: [&str; 7] = ["string", "integer", "number", "boolean", "object", "array", "null"];
    let named = |t: &Value| t.as_str().is_some_and(|t| TYPES.contains(&t));
    // Twice the same word in a list is a mistake.
    let each_once = |all: &[Value]| all.iter().enumerate().all(|(n, one)| !all[..n].contains(one));
    let list =
        |of: &Value, is: &dyn Fn(&Value) -> bool| of.as_array().is_some_and(|all| all.iter().all(is) && each_once(all));
    schema.as_object().is_some_and(|parts| {
        parts.iter().all(|(key, value)| match key.as_str() {
            "type" => named(value) || !value.as_array().is_some_and(Vec::is_empty) && list(value, &named),
            "description" | "format" => value.is_string(),
            "enum" => value.as_array().is_some_and(|all| !all.is_empty()),
            "minimum" | "maximum" => value.is_number(),
            "minLength" | "maxLength" | "minItems" | "maxItems" => value.is_u64(),
            "uniqueItems" => value.is_boolean(),
            "additionalProperties" | "items" => value.is_boolean() || is_plain(value),
            "required" => list(value, &Value::is_string),
            "properties" => value.as_object().is_some_and(|all| all.values().all(is_plain)),
            "default" => true,
            _ => false,
        })
    })
}

impl Definition {
    /// Takes the schema.
    pub fn new(name: &str, description: &str, schema: Value, meta: Meta) -> Result<Self, SchemaError> {
        let validator = OnceLock::new();
        if !is_plain(&schema) {
            let _ = validator.set(compiled(&schema)?);
        }
        let Value::Object(schema) = schema else {
            return Err(SchemaError("must be an object".to_owned()));
        };
        let required: Vec<&str> =
            schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        let optional = schema
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flat_map(|p| p.keys())
            .filter(|k| !required.contains(&k.as_str()))
            .cloned()
            .collect();
        Ok(Self {
            name: name.to_owned(),
            description: description.to_owned(),
            schema: Arc::new(schema),
            meta,
            examples: Vec::new(),
            validator,
            optional,
            aliases: Vec::new(),
        })
    }

    /// From the properties of its arguments. `required`: the names of those that must be given. It takes no others.
    pub fn of(
        name: &str,
        description: &str,
        properties: Value,
        required: impl Serialize,
        meta: Meta,
    ) -> Result<Arc<Self>, SchemaError> {
        let schema =
            json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
        Self::new(name, description, schema, meta).map(Arc::new)
    }

    /// The same of a schema that stands in the source.
    pub fn built_in(
        name: &str,
        description: &str,
        properties: Value,
        required: impl Serialize,
        meta: Meta,
    ) -> Arc<Self> {
        Self::of(name, description, properties, required, meta).expect("a schema in the source is right")
    }

    #[must_use]
    pub fn with_examples(self, examples: Vec<String>) -> Self {
        Self { examples, ..self }
    }

    /// Takes those of these arguments that it has by other names as well, `(other, own)`. No model is told of them.
    #[must_use]
    pub fn with_aliases(mut self, all: &[(&'static str, &'static str)]) -> Self {
        let has = |own: &str| self.schema.get("properties").is_some_and(|of| of.get(own).is_some());
        self.aliases = all.iter().filter(|(_, own)| has(own)).copied().collect();
        self.optional.extend(self.aliases.iter().map(|(other, _)| (*other).to_owned()));
        self
    }

    /// What a call may change; the worst case when nobody declared it.
    pub fn effect(&self) -> Effect {
        self.meta.effect.unwrap_or(Effect::Once)
    }

    /// Whether it has effects of its own, beyond what carries its session's label anyway.
    pub fn changes(&self) -> bool {
        self.effect() != Effect::None && !self.meta.carries_label
    }

    /// Cleans and checks the arguments: NUL characters are dropped, an optional argument given as null counts as absent.
    pub fn validate(&self, args: &mut Map<String, Value>) -> Result<(), ArgumentsError> {
        args.values_mut().for_each(base::text::strip_nul);
        for name in &self.optional {
            if args.get(name).is_some_and(Value::is_null) {
                args.remove(name);
            }
        }
        for (other, own) in &self.aliases {
            if !args.contains_key(*own)
                && let Some(given) = args.remove(*other)
            {
                args.insert((*own).to_owned(), given);
            }
        }
        let value = Value::Object(std::mem::take(args));
        // Gathering mistakes costs far more than finding none.
        let validator = self.validator.get_or_init(|| {
            let schema = Value::Object((*self.schema).clone());
            compiled(&schema).expect("a schema of plain parts is right")
        });
        let mistakes = if validator.is_valid(&value) { None } else { Some(validator.iter_errors(&value)) };
        let found: Vec<String> = mistakes
            .into_iter()
            .flatten()
            .take(5)
            .map(|e| {
                let problem = match e.kind() {
                    // All choices, so that a model can take a right one.
                    ValidationErrorKind::Enum { options } => format!("{} must be one of {options}", e.instance()),
                    _ => e.to_string(),
                };
                match e.instance_path().as_str().trim_start_matches('/') {
                    "" => problem,
                    field => format!("{}: {problem}", field.replace('/', ".")),
                }
            })
            .collect();
        if let Value::Object(back) = value {
            *args = back;
        }
        if found.is_empty() { Ok(()) } else { Err(ArgumentsError(found)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_checked_and_the_error_names_the_field() {
        let schema = json!({"type": "object", "additionalProperties": false, "required": ["kind"], "properties": {
            "kind": {"type": "string", "enum": ["weight"]}, "limit": {"type": "integer", "maximum": 10}}});
        let def = Definition::new("t", "d", schema, Meta::read()).unwrap();
        let check = |v: Value| {
            let Value::Object(mut m) = v else { unreachable!() };
            def.validate(&mut m).map(|()| Value::Object(m))
        };
        assert_eq!(check(json!({"kind": "weight", "limit": null})), Ok(json!({"kind": "weight"})));
        for (bad, names) in [
            (json!({"kind": "x"}), "kind"),
            (json!({}), "kind"),
            (json!({"kind": "weight", "limit": 11}), "limit"),
            (json!({"kind": "weight", "other": 1}), "other"),
        ] {
            let e = check(bad).unwrap_err();
            assert!(e.to_string().contains(names), "{e}");
        }
    }

    #[test]
    fn a_wrong_schema_is_refused_when_the_tool_is_made_and_not_at_its_first_call() {
        for wrong in [
            json!({"type": "object", "required": ["a", "a"], "properties": {"a": {"type": "string"}}}),
            json!({"type": "object", "properties": {"a": {"type": ["string", "string"]}}}),
            json!({"type": "object", "properties": {"a": {"type": []}}}),
            json!({"type": "object", "properties": {"a": {"items": {"type": "sting"}}}}),
        ] {
            let made = Definition::new("t", "d", wrong.clone(), Meta::read());
            assert!(made.err().is_some_and(|why| why.to_string().contains("schema is wrong")), "{wrong}");
        }
    }
}
