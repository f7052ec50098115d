//! The module's tools, but for those that search.
//!
//! Tenant and lineage are those of the call. `butler` and `request_context` are taken for compatibility: another
//! butler's name is refused, a context is not looked at.

/// A tool named like the function that does its work, or by another name.
macro_rules! tool {
    ($with:ident, $meta:expr, $work:ident, $description:expr, $properties:expr, $required:expr) => {
        tool!($with, $meta, $work as stringify!($work), $description, $properties, $required)
    };
    ($with:ident, $meta:expr, $work:ident as $name:expr, $description:expr, $properties:expr, $required:expr) => {{
        let with = $with.clone();
        let def = define($name, $description, $properties, $required, $meta)?;
        Tool::new(&def, handler(move |call| $work(call, with.clone())))
    }};
}

mod admin;
mod change;
mod entity;
mod graph;
mod predicate;
mod preference;
mod read;
mod resolve;
mod store;

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::Settings;
pub(super) use crate::memory_calls::{in_tx, origin, settled, stepped, vector};
use crate::{ModuleError, memory_calls};
use memory::write::{Kind, Permanence};
use memory::{Ledger, Memory};
use tools::{Definition, Meta, Tool, ToolCall, ToolError};

pub use admin::Runs;

/// What every tool is given.
#[derive(Clone)]
pub struct With {
    pub memory: Arc<Memory>,
    pub settings: Arc<Settings>,
    /// Where purges are written down.
    pub ledger: Ledger,
    /// Who runs consolidation and cleanup on demand; without, there are no tools for it.
    pub runs: Option<Arc<dyn Runs>>,
}

/// The names of all of them.
pub fn names() -> impl Iterator<Item = &'static str> {
    [
        store::NAMES,
        read::NAMES,
        change::NAMES,
        predicate::NAMES,
        entity::NAMES,
        graph::NAMES,
        resolve::NAMES,
        preference::NAMES,
        admin::NAMES,
    ]
    .into_iter()
    .flatten()
    .copied()
}

/// All of them.
pub fn tools(with: &With) -> Result<Vec<Tool>, ModuleError> {
    let mut all = store::tools(with)?;
    all.extend(read::tools(with)?);
    all.extend(change::tools(with)?);
    all.extend(predicate::tools(with)?);
    all.extend(entity::tools(with)?);
    all.extend(graph::tools(with)?);
    all.extend(resolve::tools(with)?);
    all.extend(preference::tools(with)?);
    all.extend(admin::tools(with)?);
    Ok(all)
}

pub(super) fn define(
    name: &str,
    description: &str,
    properties: Value,
    required: &[&str],
    meta: Meta,
) -> Result<Arc<Definition>, ModuleError> {
    let mut properties = properties;
    if let Some(all) = properties.as_object_mut() {
        all.insert("request_context".into(), json!({"type": "object", "description": "Not needed: it is known"}));
    }
    Definition::of(name, description, properties, required, meta).map_err(ModuleError::new)
}

/// Metadata of a tool that is handed a memory's text: that stands in its row and is not to stay in the record of the
/// call.
pub(super) fn telling(meta: Meta, arguments: &[&str]) -> Meta {
    Meta { sensitive: arguments.iter().map(|a| (*a).to_owned()).collect(), ..meta }
}

pub(super) fn text(most: u32, what: &str) -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": most, "description": what})
}

pub(super) fn id_of(what: &str) -> Value {
    json!({"type": "string", "format": "uuid", "description": format!("Which {what}")})
}

pub(super) fn memory_type() -> Value {
    json!({"type": "string", "enum": ["episode", "fact", "rule"], "description": "What kind of memory it is"})
}

pub(super) fn permanence(default: Permanence) -> Value {
    json!({"type": "string", "enum": Permanence::NAMES, "default": default.as_str(), "description":
        "How long it is likely to stay so: permanent (a birthday), stable (a home), standard, volatile (a plan), ephemeral (a mood)"})
}

fn importance(default: f64) -> Value {
    json!({"type": "number", "minimum": 0, "maximum": 10, "default": default, "description": "How much it matters, 0 to 10"})
}

fn strings(most: u32, what: &str) -> Value {
    json!({"type": "array", "maxItems": most, "items": {"type": "string", "minLength": 1, "maxLength": 200}, "description": what})
}

pub(super) fn sensitivity() -> Value {
    json!({"type": "string", "enum": ["normal", "sensitive", "secret"], "description":
        "`sensitive` keeps it from other butlers; normal without it"})
}

fn retention_class() -> Value {
    json!({"type": "string", "pattern": "^[a-z][a-z0-9_]{0,40}$", "description":
        "transient, episodic, operational, personal_profile, health_log, financial_log, rule, anti_pattern, or one of the owner's"})
}

/// An id among the arguments. Its form was checked by the schema.
pub(super) fn id(call: &ToolCall, name: &str) -> Result<Uuid, ToolError> {
    maybe_id(call, name)?.ok_or_else(|| ToolError::refused("invalid_arguments", format!("{name} is missing")))
}

pub(super) fn maybe_id(call: &ToolCall, name: &str) -> Result<Option<Uuid>, ToolError> {
    let Some(given) = call.text(name) else { return Ok(None) };
    let wrong = |_| ToolError::refused("invalid_arguments", format!("{name} is not an id: {given}"));
    given.parse().map(Some).map_err(wrong)
}

pub(super) fn kind(call: &ToolCall) -> Kind {
    call.text("memory_type").and_then(Kind::from_name).unwrap_or(Kind::Fact)
}

/// A moment among the arguments: with an offset, or a day or a time of the owner's.
pub(super) fn moment(call: &ToolCall, name: &str) -> Result<Option<Timestamp>, ToolError> {
    let Some(given) = call.text(name).map(str::trim) else { return Ok(None) };
    memory_calls::moment(given, call.store.time_zone()).map(Some).ok_or_else(|| {
        let why = format!("{name}: {given:?} is not a time. Write it as 2026-03-01 or 2026-03-01T18:30:00+01:00.");
        ToolError::refused("invalid_arguments", why)
    })
}

fn number(call: &ToolCall, name: &str, default: f64) -> f64 {
    call.args.get(name).and_then(Value::as_f64).unwrap_or(default)
}

fn list(call: &ToolCall, name: &str) -> Vec<String> {
    let given = call.args.get(name).and_then(Value::as_array);
    given.into_iter().flatten().filter_map(|v| v.as_str().map(str::to_owned)).collect()
}

fn permanence_of(call: &ToolCall, name: &str, default: Permanence) -> Permanence {
    call.text(name).and_then(Permanence::from_name).unwrap_or(default)
}

/// Refuses to speak for another butler.
fn own_butler(call: &ToolCall) -> Result<(), ToolError> {
    match call.text("butler").filter(|b| *b != call.butler.as_str()) {
        None => Ok(()),
        Some(other) => Err(ToolError::refused(
            "wrong_butler",
            format!("This is the memory of `{}`; what `{other}` remembers is its own.", call.butler),
        )),
    }
}

/// An id for a session: its own, or made of what somebody else calls theirs.
fn session_id(given: &str) -> Uuid {
    given.parse().unwrap_or_else(|_| {
        let digest = Sha256::digest(given.as_bytes());
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        Uuid::from_bytes(bytes)
    })
}

/// The scope among the arguments: what all may know, or the butler's own.
fn scope(call: &ToolCall) -> Result<String, ToolError> {
    match call.text("scope") {
        None | Some("global") => Ok("global".to_owned()),
        Some(own) if own == call.butler.as_str() => Ok(own.to_owned()),
        Some(other) => Err(ToolError::refused(
            "invalid_arguments",
            format!(
                "scope: {other:?} is nobody's. Write `global` for all butlers, or `{}` for yours alone.",
                call.butler
            ),
        )),
    }
}
