//! The tools as models see them.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

use serde_json::{Value, json};

use super::args::DAYS;
use super::book::Book;
use super::writes::told_to;
use super::{answers, choices, reads, writes};
use crate::contract::ModuleError;
use ::tools::{Definition, Effect, EgressRecipient, EgressTarget, Meta, Tool, ToolCall, ToolError, handler};
use calendar::{is_one_of, others};

pub(super) const NAMES: [&str; 13] = [
    "calendar_list_calendars",
    "calendar_list_events",
    "calendar_get_event",
    "calendar_find_free_slots",
    "calendar_create_event",
    "calendar_update_event",
    "calendar_delete_event",
    "calendar_add_attendees",
    "calendar_remove_attendees",
    "calendar_respond_to_invitation",
    "calendar_sync_status",
    "calendar_force_sync",
    "calendar_conflicts",
];

fn text(about: &str, most: u32) -> Value {
    json!({"type": "string", "maxLength": most, "description": about})
}

fn calendar_id() -> Value {
    text("Name of the calendar; all that there are, or the first for a new event, if not given", 200)
}

fn event_id() -> Value {
    text("Id of the event, from calendar_list_events", 36)
}

fn attendees(about: &str) -> Value {
    json!({"type": "array", "items": {"type": "string", "maxLength": 320}, "maxItems": 100, "description": about})
}

fn request_id() -> Value {
    text("The same call again under this key gives the first result", 200)
}

/// Whom the provider tells. Of the household's own calendars nobody is told, which an answer says.
fn send_updates(follows: bool) -> Value {
    if follows { json!({"type": "string", "enum": ["none", "all", "externalOnly"]}) } else { json!({"type": "string"}) }
}

/// What events are made of. Whom an event in the household's own calendar names, nobody tells.
fn fields(follows: bool) -> Value {
    let people = attendees("Mail addresses of all who are to come; the calendar's server may tell them");
    let more = follows.then(|| json!({"attendees": people, "send_updates": send_updates(follows)}));
    with(&[], &[event_fields(), more.unwrap_or_default()])
}

fn event_fields() -> Value {
    json!({
        "title": text("What it is", 500),
        "start_at": text("A day (2026-11-24) for all-day events, else a time (2026-11-24T09:00)", 40),
        "end_at": text("The first moment after it; by default an hour later. Of all-day events the day after the last", 40),
        "all_day": {"type": "boolean"},
        "timezone": text("IANA name of the zone of times without an offset; the calendar's by default", 100),
        "description": text("More about it", 20_000),
        "location": text("Where; one has to go there", 500),
        "recurrence_rule": text("How it repeats, as an RRULE: FREQ=WEEKLY;BYDAY=MO. Empty: no longer", 1_000),
        "status": {"type": "string", "enum": ["confirmed", "tentative", "cancelled"]},
        "busy": {"type": "boolean", "description": "Whether its time counts as taken; all-day events don't by default"},
        "visibility": {"type": "string", "enum": ["public", "private", "confidential"]},
        "color_id": {"type": "string"},
        "entity_ids": {"type": "array", "items": {"type": "string", "format": "uuid"}, "maxItems": 50},
        "reminder_minutes": {"type": "integer", "minimum": 0, "maximum": 40_320, "description": "Remind so long before its start"},
        "conflict_policy": {"type": "string", "enum": ["suggest", "fail", "allow_overlap"],
                            "description": "When it overlaps another event: suggest answers free times and changes nothing"},
        "request_id": request_id(),
    })
}

fn scope() -> Value {
    json!({
        "recurrence_scope": {"type": "string", "enum": ["this", "following", "series"],
                             "description": "Of a repeating event: one instance, it and all later ones, or all (default)"},
        "instance_start_at": text("For this and following: instance_start_at of the instance, as it was listed", 40),
    })
}

fn with(parts: &[(&str, Value)], more: &[Value]) -> Value {
    let mut all = serde_json::Map::new();
    all.extend(parts.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    for one in more {
        all.extend(one.as_object().cloned().unwrap_or_default());
    }
    Value::Object(all)
}

fn free_arguments() -> Value {
    let minutes =
        |about: &str, least: u32| json!({"type": "integer", "minimum": least, "maximum": 10_080, "description": about});
    json!({
        "duration_minutes": minutes("How long it is to be", 1),
        "search_start": text("From when; now by default", 40),
        "search_end": text("Until when; 30 days later by default", 40),
        "calendar_ids": {"type": "array", "items": {"type": "string"}, "description": "Whose events count; all calendars by default"},
        "day_from": text("Earliest time of day, as 09:00; 08:00 by default", 8),
        "day_to": text("Latest end, as 18:00; 20:00 by default", 8),
        "days": {"type": "array", "items": {"type": "string", "enum": DAYS}},
        "travel_minutes": minutes("Kept free before and after events that are elsewhere", 0),
        "pause_minutes": minutes("Kept free before and after all events", 0),
        "away": {"type": "boolean", "description": "The new one is elsewhere, too"},
        "timezone": text("IANA name; the calendar's zone by default", 100),
        "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 10},
    })
}

/// What others wrote is in events, whoever put them there.
fn shows() -> Meta {
    Meta { reads_untrusted: true, ..Meta::read() }
}

fn changes() -> Meta {
    Meta { reads_private: true, reads_untrusted: true, ..Meta::write(Effect::Once) }
}

/// What is said of a tool: what it does, its arguments, those that must be there, and what it is to the house.
type Declaration = (&'static str, Value, &'static [&'static str], Meta);

fn one() -> Value {
    with(&[("event_id", event_id())], &[])
}

fn in_calendar() -> Value {
    with(&[("calendar_id", calendar_id())], &[])
}

/// In the order of [`NAMES`].
fn definitions(follows: bool) -> Vec<Declaration> {
    [reading(), writing(follows), meeting(follows), syncing()].into_iter().flatten().collect()
}

fn reading() -> Vec<Declaration> {
    let limit = json!({"type": "integer", "minimum": 1, "maximum": 500, "default": 50});
    let window = [
        ("start_at", text("From when; today by default", 40)),
        ("end_at", text("Until when; 30 days later by default", 40)),
    ];
    vec![
        ("The calendars that this butler sees; the first is where new events go.", json!({}), &[], shows()),
        (
            "Events between two times, each instance of a repeating one by itself.",
            with(&window, &[in_calendar(), json!({"limit": limit})]),
            &[],
            shows(),
        ),
        ("One event with all that is known of it, and its next instances.", one(), &["event_id"], shows()),
        (
            "Times that are free in all calendars, one behind the other.",
            free_arguments(),
            &["duration_minutes"],
            shows(),
        ),
    ]
}

fn writing(follows: bool) -> Vec<Declaration> {
    // What stands in a provider's calendar others may see.
    let puts = || Meta { sends_out: follows, ..changes() };
    let told = json!({"send_updates": send_updates(follows)});
    vec![
        ("Put an event into a calendar.", with(&[], &[in_calendar(), fields(follows)]), &["title", "start_at"], puts()),
        (
            "Change an event, one instance of it, or it from an instance on. Only what is given changes.",
            with(&[("clear_entity_ids", json!({"type": "boolean"}))], &[one(), fields(follows), scope()]),
            &["event_id"],
            puts(),
        ),
        (
            "Take an event away, one instance of it, or it from an instance on.",
            with(&[("request_id", request_id())], &[one(), scope(), told]),
            &["event_id"],
            Meta { destructive: true, ..puts() },
        ),
    ]
}

/// Who comes. Others learn of it.
fn meeting(follows: bool) -> Vec<Declaration> {
    let mut attendees = attendees("Mail addresses");
    attendees["minItems"] = json!(1);
    let optional = json!({"type": "boolean", "description": "They may stay away"});
    let tells = || Meta { sends_out: true, ..changes() };
    vec![
        (
            if follows {
                "Note who is to come to an event. The calendar's server may send them an invitation."
            } else {
                "Note who is to come to an event. No invitation is sent: tell them yourself."
            },
            with(
                &[("attendees", attendees.clone()), ("optional", optional), ("send_updates", send_updates(follows))],
                &[one()],
            ),
            &["event_id", "attendees"],
            tells(),
        ),
        (
            if follows {
                "Take people off an event's list. The calendar's server may tell them."
            } else {
                "Take people off an event's list. Nobody is told."
            },
            with(&[("attendees", attendees), ("send_updates", send_updates(follows))], &[one()]),
            &["event_id", "attendees"],
            tells(),
        ),
        (
            "Answer an invitation for the owner: only their own answer changes, and whoever invites is told. It always waits \
             for the owner.",
            with(
                &[
                    ("response", json!({"type": "string", "enum": ["accepted", "declined", "tentative"]})),
                    ("comment", text("A word to whoever invites", 500)),
                    ("instance_start_at", text("Of a repeating event, this instance alone; else all", 40)),
                ],
                &[one()],
            ),
            &["event_id", "response"],
            Meta { sends_out: true, asks_always: true, ..changes() },
        ),
    ]
}

fn syncing() -> Vec<Declaration> {
    let accept = json!({"type": "boolean", "description": "For people: most events were deleted there on purpose"});
    let full = json!({"type": "boolean", "description": "Compare all events, not what changed since the last sync"});
    let queue = json!({"type": "boolean"});
    vec![
        ("How the calendars follow their providers.", in_calendar(), &[], shows()),
        (
            "Ask providers for changes now. The household's own calendars have none, and are answered as they are.",
            with(&[("full", full), ("queue", queue), ("accept_deletions", accept)], &[in_calendar()]),
            &[],
            shows(),
        ),
        (
            "Events that both sides changed: which versions there are, and which a person wants instead. `seen` leaves the \
             event as it is. Another choice can be made later.",
            json!({"conflict_id": text("One of them; all that are open, if not given", 36),
                   "take": {"type": "string", "enum": ["base", "ours", "theirs", "seen"]}}),
            &[],
            Meta { operators: true, ..changes() },
        ),
    ]
}

fn bound<F, R>(book: &Arc<Book>, run: F) -> ::tools::Handler
where
    F: Fn(ToolCall, Arc<Book>) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Value, ToolError>> + Send + 'static,
{
    let book = book.clone();
    handler(move |call| run(call, book.clone()))
}

pub(super) fn tools(book: &Arc<Book>) -> Result<Vec<Tool>, ModuleError> {
    macro_rules! run {
        ($f:path) => {
            bound(book, |call, book| async move { $f(&call, &book).await })
        };
    }
    let handlers = [
        run!(reads::calendars),
        run!(reads::list),
        run!(reads::get),
        run!(reads::free),
        run!(writes::create),
        run!(writes::change_event),
        run!(writes::delete),
        run!(writes::add_attendees),
        run!(writes::remove_attendees),
        run!(answers::answer),
        run!(reads::status),
        run!(reads::force),
        run!(choices::conflicts),
    ];
    let mut all = Vec::with_capacity(NAMES.len());
    for ((name, handler), (about, properties, required, meta)) in
        NAMES.iter().zip(handlers).zip(definitions(book.follows()))
    {
        let schema =
            json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
        let (sends, answers) = (meta.sends_out, meta.asks_always);
        let aliases = [("body", "description"), ("notes", "description"), ("notification", "reminder_minutes")];
        let definition = Definition::new(name, about, schema, meta).map_err(ModuleError::new)?.with_aliases(&aliases);
        let tool = Tool::new(&Arc::new(definition), handler);
        let book = book.clone();
        all.push(if sends {
            tool.with_egress_target(Arc::new(move |call| {
                let book = book.clone();
                Box::pin(async move {
                    if answers { answers::reaches(call, &book).await } else { seen_by(call, &book).await }
                })
            }))
        } else {
            tool
        });
    }
    Ok(all)
}

/// Who learns of a change: those who are to come, and whoever sees the calendar. `None`: there is no such event or calendar.
async fn seen_by(call: &ToolCall, book: &Book) -> Result<Option<EgressTarget>, ToolError> {
    let asked = super::args::texts(call, "attendees");
    if !book.follows() {
        // Whatever a session read may stand in the event.
        return Ok(Some(EgressTarget {
            to: format!("{} by an invitation", asked.join(", ")),
            ..EgressTarget::unknown()
        }));
    }
    let sources = book.sources(call, &[]).await?;
    // The owner is asked anyway, and servers add them by themselves.
    let besides = asked.iter().filter(|one| !is_one_of(book.own(), one));
    let mut people: BTreeSet<String> = besides.map(|one| one.to_ascii_lowercase()).collect();
    let calendar = if call.text("event_id").is_some() {
        let Ok((row, object)) = book.event(call).await else { return Ok(None) };
        // Whoever invites as well: a server may take a change of another's event for an answer.
        people.extend(others(&object, book.own()));
        sources.iter().find(|source| source.id == row.source)
    } else {
        let named = super::args::names(call);
        sources.iter().find(|source| named.first().is_none_or(|name| source.name == *name))
    };
    let Some(calendar) = calendar else { return Ok(None) };
    let people: Vec<String> = people.into_iter().collect();
    let whole = format!("the calendar `{}` of {}", calendar.name, book.account());
    let told = told_to(call).filter(|_| book.tells());
    if people.is_empty() && told.is_none() && book.is_private(&calendar.name) {
        let (outward, those) = (false, Some(Vec::new()));
        return Ok(Some(EgressTarget { outward, to: whole, those, recipient: None }));
    }
    let see = if book.is_private(&calendar.name) { whole } else { format!("all who see {whole}") };
    let to = if people.is_empty() { see } else { format!("{see}, and {}", people.join(", ")) };
    // All who learn of it: whoever approves does so for these, and not for others who come to it meanwhile.
    let recipient = Some(EgressRecipient { name: None, channel: "calendar".to_owned(), address: to.clone() });
    let to = if told.is_some() { format!("{to}; Google mails those who are to come") } else { to };
    Ok(Some(EgressTarget { to, recipient, ..EgressTarget::unknown() }))
}
