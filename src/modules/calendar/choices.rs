//! Events that both sides had changed: what differs, and the version that a person wants.

use serde_json::{Value, json};
use uuid::Uuid;

use super::book::{Book, refused};
use super::sql::{self, ConflictRow};
use super::writes::{Step, read_only, settle};
use ::tools::{ToolCall, ToolError};
use base::{Label, TenantId};
use calendar::Object;

/// Letters of a part that are shown.
const LONGEST: usize = 500;

fn refusal() -> ToolError {
    let why = "There is no such conflict, or no such version of it. Nothing was changed; without an id this lists what there is.";
    ToolError::refused("not_found", why)
}

/// A version as people compare it; null: it was deleted on that side.
fn version(bytes: Option<&[u8]>, book: &Book) -> Value {
    let Some(bytes) = bytes else { return Value::Null };
    let Ok(object) = Object::read(bytes) else { return json!({"unreadable": true}) };
    let event = object.main();
    let cut = |text: &str| text.chars().take(LONGEST).collect::<String>();
    json!({"title": cut(&event.title), "start_at": event.start.shown(book.home()), "end_at": event.end.shown(book.home()),
           "location": cut(&event.location), "description": cut(&event.description), "status": event.status,
           "recurrence_rule": event.rule.as_ref().map(|rule| rule.text.clone()), "exceptions": object.events.len() - 1,
           "attendees": event.attendees.iter().map(|one| one.email.clone()).collect::<Vec<_>>()})
}

/// The version that a choice means. `Err`: the choice is none.
fn of<'a>(row: &'a ConflictRow, take: &str) -> Option<&'a [u8]> {
    match take {
        "base" => row.base.as_deref(),
        "ours" => row.ours.as_deref(),
        _ => row.theirs.as_deref(),
    }
}

pub(super) async fn conflicts(call: &ToolCall, book: &Book) -> Result<Value, ToolError> {
    let sources = book.sources(call, &[]).await?;
    let ids: Vec<Uuid> = sources.iter().map(|source| source.id).collect();
    let id = call.text("conflict_id").map(str::parse::<Uuid>).transpose().map_err(|_| refusal())?;
    let rows = sql::conflicts(&mut book.house().shared(&TenantId::owner()).await?, &ids, id).await?;
    let name = |row: &ConflictRow| sources.iter().find(|s| s.id == row.source).map(|s| s.name.clone());
    let Some(take) = call.text("take") else {
        for row in &rows {
            call.shows(&Label::household(row.trust));
        }
        let shown = rows.iter().map(|row| {
            json!({"conflict_id": row.id, "calendar_id": name(row), "event_id": row.event, "kind": row.kind,
                   "found_at": row.found_at.to_string(), "base": version(row.base.as_deref(), book),
                   "ours": version(row.ours.as_deref(), book), "theirs": version(row.theirs.as_deref(), book)})
        });
        return Ok(json!({"conflicts": shown.collect::<Vec<_>>()}));
    };
    let (Some(_), Some(row)) = (id, rows.first()) else { return Err(refusal()) };
    if let Some(source) = sources.iter().find(|source| source.id == row.source && source.read_only)
        && take != "seen"
    {
        return Err(read_only(&source.name));
    }
    let mut steps = Vec::new();
    if take != "seen" {
        let now = sql::event(call, row.event).await?;
        let wanted = of(row, take).map(Object::read).transpose().map_err(refused)?;
        match (now, wanted) {
            (now, Some(object)) => {
                let seen = now.map(|now| now.revision);
                steps.push(Step::Put { object, id: row.event, source: row.source, seen });
            }
            (Some(now), None) => steps.push(Step::Drop { id: now.id, revision: now.revision }),
            (None, None) => {}
        }
    }
    steps.push(Step::Chosen { id: row.id, choice: take.to_owned() });
    let done = json!({"status": "ok", "conflict_id": row.id, "event_id": row.event, "taken": take});
    settle(call, book, steps, done).await
}
