//! What pages of memories have in common: what was done to memories, each with the way back.

use jiff::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::parts::{Tone, empty, line, toned};
use crate::visit::Visit;

/// Kinds of memories.
pub(super) const KINDS: [&str; 3] = ["episode", "fact", "rule"];

/// Something that was done to a memory.
#[derive(Deserialize)]
pub(super) struct Event {
    event: Uuid,
    at: Timestamp,
    what: String,
    by: String,
    reason: Option<String>,
    #[serde(default)]
    undone: bool,
    session_id: Option<Uuid>,
    memory_type: Option<String>,
    memory_id: Option<Uuid>,
    #[serde(default)]
    changed: Vec<Changed>,
}

#[derive(Deserialize)]
struct Changed {
    #[serde(default)]
    made: bool,
    #[serde(default)]
    parts: Map<String, Value>,
}

/// What was done, each with the way to take it back.
pub(super) fn events(visit: &Visit, butler: &str, all: &[Event]) -> Markup {
    html! {
        @if all.is_empty() { (empty("Nothing is on record yet.")) }
        ul.rows { @for event in all { li {
            (visit.now.when(event.at)) " " strong { (event.what.replace('_', " ")) } " by " (line(&event.by, 60))
            @if let (Some(kind), Some(id)) = (&event.memory_type, event.memory_id) {
                " · " a href={ "/memory/" (butler) "/" (kind) "/" (id) } { "this " (kind) }
            }
            @if let Some(session) = event.session_id { " · " a href={ "/sessions/" (session) } { "its session" } }
            @if event.undone { " " (toned(Tone::Quiet, "taken back")) }
            @if let Some(reason) = &event.reason { div.dim { (line(reason, 300)) } }
            @for changed in &event.changed { (change(changed)) }
            @if !event.undone && visit.may_work() { (undo_button(visit, butler, event)) }
        } } }
    }
}

fn change(changed: &Changed) -> Markup {
    let text = |value: &Value| match value {
        Value::Null => "nothing".to_owned(),
        Value::String(text) => line(text, 200),
        other => line(&other.to_string(), 200),
    };
    html! {
        @for (name, part) in &changed.parts {
            div { span.dim { (name.replace('_', " ")) ": " }
                @if !changed.made { del { (text(&part["from"])) } " → " } ins { (text(&part["to"])) } }
        }
    }
}

fn undo_button(visit: &Visit, butler: &str, event: &Event) -> Markup {
    html! { form.inline method="post" action={ "/memory/" (butler) "/events/" (event.event) "/undo" } {
        (visit.proof())
        @if let (Some(kind), Some(id)) = (&event.memory_type, event.memory_id) {
            input type="hidden" name="kind" value=(kind);
            input type="hidden" name="id" value=(id);
        }
        button type="submit" { "Undo" }
    } }
}
