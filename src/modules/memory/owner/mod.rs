//! What only the owner does with memories: correcting them, looking at all that was done, purging, taking them out and
//! in.
//!
//! Tools for people: no session can call them, so none can be talked into it.

mod edit;
mod history;
mod purge;
mod retry;
mod travel;

use serde_json::{Map, Value, json};

use edit::memory_edit;
use history::memory_history;
use purge::memory_purge;
use retry::memory_retry;
use travel::{memory_export, memory_import};

use super::tools::{With, define, id_of, memory_type, permanence, sensitivity, telling, text};
use crate::ModuleError;
use memory::sql::upkeep;
use memory::write::{Permanence, WriteError};
use store::StoreError;
use tools::{Effect, Meta, Tool, ToolCall, ToolError, handler};

pub(super) const NAMES: [&str; 7] =
    ["memory_edit", "memory_history", "memory_purge", "memory_export", "memory_import", "memory_named", "memory_retry"];

/// At most so many lines at once.
const PAGE: i64 = 1000;

fn for_people(meta: Meta) -> Meta {
    Meta { operators: true, ..meta }
}

#[allow(clippy::too_many_lines, reason = "a list of definitions")]
pub(super) fn tools(with: &With) -> Result<Vec<Tool>, ModuleError> {
    let which = || json!({"memory_type": memory_type(), "memory_id": id_of("memory")});
    let limit = || json!({"type": "integer", "minimum": 1, "maximum": PAGE, "description": "How many at most"});
    Ok(vec![
        tool!(
            with,
            for_people(telling(Meta::write(Effect::Idempotent), &["content", "subject", "reason"])),
            memory_edit,
            "Change a memory in its place. How it was is kept, and memory_undo brings it back.",
            edited(),
            &["memory_type", "memory_id"]
        ),
        tool!(
            with,
            for_people(Meta::read()),
            memory_history,
            "What was done to memories, the newest first: when, by whom, why, and what it changed.",
            json!({"memory_id": id_of("memory; all without it"), "limit": limit(),
                   "before": {"type": "integer", "minimum": 1, "description": "Only what came before the event of this number"}}),
            &[]
        ),
        tool!(
            with,
            for_people(Meta { destructive: true, ..Meta::write(Effect::Idempotent) }),
            memory_purge,
            "Forget a memory for good: its words are taken out of everything that this household keeps. This can't be taken back.",
            which(),
            &["memory_type", "memory_id"]
        ),
        tool!(
            with,
            for_people(Meta::read()),
            memory_export,
            "All that is remembered, page by page, as lines that memory_import takes.",
            json!({"after": text(200, "The `next` of the page before"), "limit": limit()}),
            &[]
        ),
        tool!(
            with,
            for_people(telling(Meta::write(Effect::Idempotent), &["lines"])),
            memory_import,
            "Bring in lines of an export, all of them or none. What is there stays as it is.",
            json!({"lines": {"type": "array", "minItems": 1, "maxItems": PAGE, "items": {"type": "string"},
                             "description": "Each a line of the export"}}),
            &["lines"]
        ),
        tool!(
            with,
            for_people(Meta { reads_private: false, ..Meta::read() }),
            memory_named,
            "Which memories or events have an id that begins so.",
            json!({"beginning": {"type": "string", "pattern": "^[0-9a-fA-F-]{4,36}$", "description": "Of an id, at least four digits"}}),
            &["beginning"]
        ),
        tool!(
            with,
            for_people(Meta { reads_private: false, ..Meta::write(Effect::Idempotent) }),
            memory_retry,
            "Let episodes and facts that consolidation has given up wait for it again.",
            json!({"memory_id": id_of("episode or fact; all that were given up without it")}),
            &[]
        ),
    ])
}

/// What memory_edit takes.
fn edited() -> Value {
    let number = |least: f64, most: f64, what: &str| json!({"type": "number", "minimum": least, "maximum": most, "description": what});
    let mut edited = json!({"memory_type": memory_type(), "memory_id": id_of("memory")});
    for (name, schema) in [
        ("content", text(20_000, "What it says")),
        ("subject", text(200, "Of whom or what a fact speaks")),
        ("predicate", text(100, "What a fact says of its subject")),
        ("importance", number(0.0, 10.0, "How much it matters")),
        ("confidence", number(0.0, 1.0, "How sure it is")),
        ("permanence", permanence(Permanence::Standard)),
        ("sensitivity", sensitivity()),
        ("valid_from", text(64, "Since when it is so")),
        ("valid_to", text(64, "Until when it is so")),
        ("reason", text(500, "Why, without repeating what it says")),
    ] {
        edited[name] = schema;
    }
    if let Some(permanence) = edited["permanence"].as_object_mut() {
        permanence.remove("default");
    }
    edited
}

async fn memory_named(call: ToolCall, _: With) -> Result<Value, ToolError> {
    let found = upkeep::named(&mut &call, call.text("beginning")).await?;
    let found: Vec<Value> = found.iter().map(|(kind, id)| json!({"memory_type": kind, "id": id})).collect();
    Ok(json!({"found": found}))
}

/// Of a statement that only the owner's word lets through.
fn owners(e: StoreError) -> WriteError {
    if e.db().is_some_and(|db| db.code().code() == "BD003") {
        let why = "Not done: this takes the owner's own word.";
        return WriteError::Refused { code: "forbidden", message: why.to_owned() };
    }
    e.into()
}

/// Columns that change with every write, or that nobody wants to hear of.
const BOOKKEEPING: &str = "change seq search of_owner embedding embedding_model content_hash topic_hash tenant_id \
                           reference_count last_referenced_at claim_id claimed_by lease_until available_at attempts \
                           compared compare_attempts compare_error";

/// A row's parts but for the bookkeeping.
fn telling_parts(row: &Value) -> Map<String, Value> {
    let mut parts = row.as_object().cloned().unwrap_or_default();
    parts.retain(|name, _| !BOOKKEEPING.split(' ').any(|column| column == name));
    parts
}
