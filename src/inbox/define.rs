//! What the definitions of the switchboard's tools have in common.

use std::sync::Arc;

use serde_json::{Value, json};

use tools::{Definition, Effect, Meta};

/// A definition of the switchboard's, from the properties of its arguments.
pub(super) fn define(
    name: &str,
    description: &str,
    properties: Value,
    required: &[&str],
    meta: Meta,
) -> Arc<Definition> {
    let schema =
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
    Arc::new(Definition::new(name, description, schema, meta).expect("a schema in the source is right"))
}

/// Metadata of what only the people of the household change.
pub(super) fn operators(effect: Effect) -> Meta {
    Meta { operators: true, ..Meta::write(effect) }
}
