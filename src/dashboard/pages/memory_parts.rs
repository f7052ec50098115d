//! What pages of memories have in common: asking memory, and what was done to memories, each with the way back.

use admin::Failure;
use admin::calls::{LooksApiServer, WorkApiServer};
use jiff::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::parts::{Tone, empty, line, toned};
use crate::reply::PageError;
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

/// Asks one of memory's tools that only read.
pub(super) async fn look<T: serde::de::DeserializeOwned>(
    visit: &Visit,
    butler: &str,
    tool: &str,
    args: Value,
) -> Result<T, Failure> {
    let args = args.as_object().cloned();
    let answer = visit.calls.tool_look(&visit.ext, butler.to_owned(), tool.to_owned(), args).await?;
    serde_json::from_value(answer).map_err(|_| Failure::new("internal", "Memory answered what this page can't read."))
}

/// Calls a tool of memory that changes something.
pub(super) async fn act(visit: &Visit, butler: &str, tool: &str, args: Value) -> Result<Value, PageError> {
    let args = args.as_object().cloned();
    let answer = Box::pin(visit.calls.tool_call(&visit.ext, butler.to_owned(), tool.to_owned(), args)).await?;
    if answer.is_error || answer.result["status"] == "error" {
        let why = answer.result["error"].as_str().unwrap_or("Memory did not do it.").to_owned();
        return Err(PageError::new(http::StatusCode::CONFLICT, why));
    }
    Ok(answer.result)
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
        button type="submit" { "Take it back" }
    } }
}
