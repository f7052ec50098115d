//! What the definitions of the switchboard's tools have in common.

use std::sync::Arc;

use serde_json::Value;

use tools::{Definition, Effect, Meta};

/// A definition of the switchboard's, from the properties of its arguments.
pub(super) fn define(
    name: &str,
    description: &str,
    properties: Value,
    required: &[&str],
    meta: Meta,
) -> Arc<Definition> {
    Definition::built_in(name, description, properties, required, meta)
}

/// Metadata of what only the people of the household change.
pub(super) fn operators(effect: Effect) -> Meta {
    Meta { operators: true, ..Meta::write(effect) }
}
