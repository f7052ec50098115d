//! What a butler notes for its own sessions to come: the section "Notes to self" of its prompt.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use super::call::{ToolCall, ToolError};
use super::definition::{Definition, Effect, Meta};
use super::sql::notes::{self as sql, ToldNote};
use super::tool::{Tool, handler};
use store::{Lease, StoreError};

/// Of one note, in characters.
const MAX_NOTE: usize = 300;
/// Notes that stand at the same time.
const MOST: i64 = 20;

/// `note_to_self`, `note_drop`, `notes_list`.
pub fn note_tools() -> Vec<Tool> {
    static DEFS: LazyLock<Vec<Arc<Definition>>> = LazyLock::new(definitions);
    let handlers = [handler(note_to_self), handler(note_drop), handler(notes_list)];
    DEFS.iter().zip(handlers).map(|(d, h)| Tool::new(d, h)).collect()
}

fn definitions() -> Vec<Arc<Definition>> {
    let define = Definition::built_in;
    let id = |what: &str| json!({"type": "integer", "minimum": 1, "description": what});
    vec![
        define(
            "note_to_self",
            "Note one line for your own later sessions; it stands under \"Notes to self\" in each of them. For how to do \
             your work (\"the owner wants weights in kg\"), not for facts about people or the day's business. There is \
             room for 20: put a better one in the place of an old one with replaces.",
            json!({"note": {"type": "string", "minLength": 1, "maxLength": MAX_NOTE, "description": "One line"},
                   "replaces": id("The number of the note whose place it takes")}),
            json!(["note"]),
            Meta::write(Effect::Idempotent),
        ),
        define(
            "note_drop",
            "Take a note to self out that is wrong or no longer of use.",
            json!({"note_id": id("The number in brackets before it")}),
            json!(["note_id"]),
            Meta::write(Effect::Idempotent),
        ),
        define(
            "notes_list",
            "All notes of this butler to itself, with who is behind each, and whether sessions are told it.",
            json!({"dropped": {"type": "boolean", "default": false, "description": "Those taken out instead"}}),
            json!([]),
            Meta { operators: true, ..Meta::read() },
        ),
    ]
}

async fn note_to_self(call: ToolCall) -> Result<Value, ToolError> {
    let note = call.text("note").unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    if note.is_empty() {
        return Err(ToolError::refused("invalid_value", "The note says nothing."));
    }
    let replaces = call.args.get("replaces").and_then(Value::as_i64);
    let session = call.session().map(|s| s.0);
    let mut lease = call.lease().await?;
    let mut tx = call.begin(&mut lease).await?;
    // Two sessions that note at once count one after the other.
    sql::lock(&mut tx).await?;
    if let Some(old) = replaces
        && !sql::replace(&mut tx, old).await?
    {
        let why = format!("There is no note [{old}] to replace; the numbers stand in brackets before your notes.");
        return Err(ToolError::refused("not_found", why));
    }
    let told = sql::count_told(&mut tx).await?;
    let (id, new) = match sql::same(&mut tx, &note).await? {
        Some(id) => (id, false),
        None if told >= MOST => {
            let why = format!(
                "There are {MOST} notes, which is all there is room for. Say with replaces which one this \
                               note takes the place of, or drop one with note_drop."
            );
            return Err(ToolError::refused("full", why));
        }
        None => (sql::add(&mut tx, &note, session).await?, true),
    };
    tx.commit().await?;
    Ok(json!({"note_id": id, "note": note, "already_there": !new}))
}

async fn note_drop(call: ToolCall) -> Result<Value, ToolError> {
    let id = call.args.get("note_id").and_then(Value::as_i64).unwrap_or_default();
    match sql::take_out(&call, id).await? {
        Some(note) => Ok(json!({"note_id": id, "note": note, "dropped": true})),
        None => Err(ToolError::refused("not_found", format!("There is no note [{id}]."))),
    }
}

async fn notes_list(call: ToolCall) -> Result<Value, ToolError> {
    let dropped = call.args.get("dropped").and_then(Value::as_bool).unwrap_or(false);
    let shown = sql::list(&call, dropped).await?.into_iter().map(|note| {
        let told = !dropped && (note.trust == "owner" || note.trust == "system");
        json!({"note_id": note.id, "note": note.text, "trust": note.trust, "told_to_sessions": told,
               "session_id": note.session_id, "created_at": note.created_at, "dropped_at": note.dropped_at})
    });
    Ok(Value::Array(shown.collect()))
}

/// The notes that sessions are told, each a line, the oldest first.
pub async fn notes_told(lease: &mut Lease) -> Result<Vec<String>, StoreError> {
    let line = |note: ToldNote| format!("- [{}] {} ({})", note.id, note.text, note.day);
    Ok(sql::told(lease, MOST).await?.into_iter().map(line).collect())
}
