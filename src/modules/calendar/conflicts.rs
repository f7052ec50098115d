//! Events that would overlap others.

use jiff::civil::{Time, Weekday};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use uuid::Uuid;

use super::args::shown;
use super::book::{Book, refused};
use super::settings::Policy;
use super::sql;
use ::tools::{ToolCall, ToolError};
use calendar::{Busy, DayHours, Event, FreeSearch, Object, Slot, Window, conflicts, suggestions};

/// Of a repeating event, so much is looked at.
const LOOKED_AT: SignedDuration = SignedDuration::from_hours(24 * 90);
const MOST_TOLD: usize = 10;
/// Around the wanted time, free ones are looked for.
const AROUND: SignedDuration = SignedDuration::from_hours(24 * 7);

/// What stands in the way of an event.
pub(super) enum Way {
    Free,
    /// It overlaps these, which the policy allows.
    Overlaps(Value),
    /// The answer of a call that changes nothing.
    Taken(Value),
}

/// The policy of a call: what it asks for, unless the settings refuse.
fn policy(call: &ToolCall, book: &Book) -> Policy {
    match (book.policy, call.text("conflict_policy")) {
        (Policy::Fail, _) | (_, Some("fail")) => Policy::Fail,
        (_, Some("allow_overlap")) => Policy::AllowOverlap,
        (_, Some("suggest")) => Policy::Suggest,
        (set, _) => set,
    }
}

/// Looks whether an event may be put where it is wanted. `own`: the event itself, which it never conflicts with.
pub(super) async fn look(call: &ToolCall, book: &Book, object: &Object, own: &[Uuid]) -> Result<Way, ToolError> {
    let takes_time = |event: &Event| book.takes_time(event);
    if !object.events.iter().any(takes_time) {
        return Ok(Way::Free);
    }
    let main = object.main();
    let (home, now) = (book.home(), call.store.clock().now());
    let start = main.start.instant(home).map_err(refused)?;
    let end = main.end.instant(home).map_err(refused)?.max(start);
    // Of a series that has run for years, what is ahead.
    let begin = if object.repeats() { start.max(now) } else { start };
    let until = if object.repeats() { begin.saturating_add(LOOKED_AT).unwrap_or(end) } else { end };
    let window = Window::new(begin, until.max(begin.saturating_add(SignedDuration::from_secs(1)).unwrap_or(until)))
        .map_err(refused)?;
    let wanted = object.instances(window, home).map_err(refused)?;
    let length = end.duration_since(start);
    let (first, last) = (begin, begin.saturating_add(length).unwrap_or(begin));
    let near = (first.saturating_sub(AROUND).unwrap_or(first), until.max(last.saturating_add(AROUND).unwrap_or(last)));
    book.cover(&call.context().tenant_id, near.0, near.1).await?;
    let sources: Vec<Uuid> = book.sources(call, &[]).await?.iter().map(|source| source.id).collect();
    let rows: Vec<_> =
        sql::busy(call, &sources, near).await?.into_iter().filter(|row| !own.contains(&row.event)).collect();
    let busy: Vec<Busy> =
        rows.iter().map(|row| Busy { start: row.starts_at, end: row.ends_at, away: row.away }).collect();
    let mut found = Vec::new();
    for instance in wanted.iter().filter(|instance| takes_time(&object.events[instance.event])) {
        let slot = Slot {
            start: instance.start.instant(home).map_err(refused)?,
            end: instance.end.instant(home).map_err(refused)?,
        };
        for at in conflicts(&busy, slot) {
            if found.len() < MOST_TOLD {
                let mut told = rows[at].shown.clone();
                told["event_id"] = json!(rows[at].event);
                if !found.contains(&told) {
                    found.push(told);
                }
            }
        }
    }
    if found.is_empty() {
        return Ok(Way::Free);
    }
    let told = Value::Array(found);
    match policy(call, book) {
        Policy::AllowOverlap if book.require_approval && call.session().is_some() => Err(ToolError::refused(
            "needs_approval",
            "It overlaps another event, and in this household a person decides on that. Nothing was changed. Say which event \
             it overlaps and ask, or choose another time.",
        )),
        Policy::AllowOverlap => Ok(Way::Overlaps(told)),
        Policy::Fail => {
            let title = told[0]["title"].as_str().unwrap_or_default();
            let why = format!(
                "It overlaps \"{title}\" at {}. Nothing was changed; choose another time.",
                told[0]["start_at"].as_str().unwrap_or_default()
            );
            Err(ToolError::refused("conflict", why))
        }
        Policy::Suggest => Ok(Way::Taken(json!({
            "status": "conflict", "conflicts": told, "suggestions": free(book, &busy, (first, last), now, near),
            "message": "Nothing was changed: the time is taken. Take one of the suggestions, or call again with \
                        conflict_policy allow_overlap if it is meant so.",
        }))),
    }
}

/// Three free times near the wanted one, between eight and eight, or at any hour for what doesn't fit there.
fn free(
    book: &Book,
    busy: &[Busy],
    (start, end): (Timestamp, Timestamp),
    now: Timestamp,
    near: (Timestamp, Timestamp),
) -> Value {
    let length = end.duration_since(start).max(SignedDuration::from_mins(15));
    let days = Weekday::Monday.cycle_forward().take(7).collect();
    let hours = DayHours { from: Time::constant(8, 0, 0, 0), to: Time::constant(20, 0, 0, 0), days };
    let local = |at: Timestamp| at.to_zoned(book.home().clone()).time();
    let by_day = local(start) >= hours.from && length <= SignedDuration::from_hours(12);
    let mut search = FreeSearch {
        from: near.0.max(now),
        to: near.1,
        length,
        zone: book.home().clone(),
        hours: by_day.then_some(hours),
        travel: SignedDuration::ZERO,
        pause: SignedDuration::ZERO,
        away: false,
    };
    let mut found = suggestions(busy, &search, start);
    if found.len() < 3 {
        search.hours = None;
        found = suggestions(busy, &search, start);
    }
    found
        .iter()
        .map(|slot| json!({"start_at": shown(slot.start, book.home()), "end_at": shown(slot.end, book.home())}))
        .collect()
}
