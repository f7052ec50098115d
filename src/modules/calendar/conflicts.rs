//! Events that would overlap others.

use jiff::civil::{Time, Weekday};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use uuid::Uuid;

use super::args::shown;
use super::book::{Book, refused};
use super::settings::Policy;
use super::sql::{self, BusyRow};
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
    /// It overlaps others, which the policy allows.
    Overlaps,
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

/// A time that is looked for in calendars.
struct Wanted {
    /// Of the first instance that is ahead.
    first: Slot,
    /// All that are looked at, in their order.
    slots: Vec<Slot>,
    /// What is looked at around them.
    near: (Timestamp, Timestamp),
}

impl Wanted {
    /// Where an event is put. `None`: it takes no time.
    fn of(call: &ToolCall, book: &Book, object: &Object) -> Result<Option<Self>, ToolError> {
        let takes_time = |event: &Event| book.takes_time(event);
        if !object.events.iter().any(takes_time) {
            return Ok(None);
        }
        let main = object.main();
        let (home, now) = (book.home(), call.store.clock().now());
        let start = main.start.instant(home).map_err(refused)?;
        let end = main.end.instant(home).map_err(refused)?.max(start);
        // Of a series that has run for years, what is ahead.
        let begin = if object.repeats() { start.max(now) } else { start };
        let until = if object.repeats() { begin.saturating_add(LOOKED_AT).unwrap_or(end) } else { end };
        let least = begin.saturating_add(SignedDuration::from_secs(1)).unwrap_or(until);
        let window = Window::new(begin, until.max(least)).map_err(refused)?;
        let instances = object.instances(window, home).map_err(refused)?;
        let wanted = instances.iter().filter(|instance| takes_time(&object.events[instance.event]));
        let slot = |instance: &calendar::Instance| {
            let start = instance.start.instant(home).map_err(refused)?;
            Ok::<_, ToolError>(Slot { start, end: instance.end.instant(home).map_err(refused)? })
        };
        let slots: Vec<Slot> = wanted.map(slot).collect::<Result<_, _>>()?;
        let length = end.duration_since(start);
        let first = Slot { start: begin, end: begin.saturating_add(length).unwrap_or(begin) };
        let first = slots.first().copied().unwrap_or(first);
        let after = until.max(first.end);
        let near = (first.start.saturating_sub(AROUND).unwrap_or(begin), after.saturating_add(AROUND).unwrap_or(after));
        Ok(Some(Self { first, slots, near }))
    }

    /// What of these overlaps it.
    fn conflicts<'a>(&self, rows: &'a [BusyRow]) -> Vec<&'a BusyRow> {
        let busy = times(rows);
        let mut found: Vec<&BusyRow> = Vec::new();
        for at in self.slots.iter().flat_map(|slot| conflicts(&busy, *slot)) {
            let is_known = |row: &&BusyRow| (row.event, row.time.start) == (rows[at].event, rows[at].time.start);
            if found.len() < MOST_TOLD && !found.iter().any(is_known) {
                found.push(&rows[at]);
            }
        }
        found
    }
}

fn times(rows: &[BusyRow]) -> Vec<Busy> {
    rows.iter().map(|row| row.time).collect()
}

fn told(rows: &[&BusyRow]) -> Value {
    let one = |row: &&BusyRow| {
        let mut told = row.shown.clone();
        told["event_id"] = json!(row.event);
        told
    };
    rows.iter().map(one).collect()
}

/// Looks whether an event may be put where it is wanted. `own`: the event itself, which it never conflicts with.
///
/// As the house: what is in no way, and so is not told, lowers nobody. Only where something is told of others' events the
/// call counts as shown them.
pub(super) async fn look(call: &ToolCall, book: &Book, object: &Object, own: &[Uuid]) -> Result<Way, ToolError> {
    let Some(wanted) = Wanted::of(call, book, object)? else { return Ok(Way::Free) };
    let tenant = &call.context().tenant_id;
    book.cover(tenant, wanted.near.0, wanted.near.1).await?;
    let sources: Vec<Uuid> = book.sources(call, &[]).await?.iter().map(|source| source.id).collect();
    let others = |rows: Vec<BusyRow>| rows.into_iter().filter(|row| !own.contains(&row.event)).collect::<Vec<_>>();
    let rows = others(sql::taken(&mut book.house().shared(tenant).await?, &sources, wanted.near, book.home()).await?);
    let found = wanted.conflicts(&rows);
    if found.is_empty() {
        return Ok(Way::Free);
    }
    let policy = policy(call, book);
    if policy == Policy::AllowOverlap {
        if book.require_approval && call.caller.taint().is_some() {
            return Err(ToolError::NeedsApproval("It overlaps another event."));
        }
        return Ok(Way::Overlaps);
    }
    let rows = others(sql::busy(call, &sources, wanted.near, book.home()).await?);
    let told = told(&wanted.conflicts(&rows));
    if policy == Policy::Fail {
        let title = told[0]["title"].as_str().unwrap_or_default();
        let at = told[0]["start_at"].as_str().unwrap_or_default();
        let why = format!("It overlaps \"{title}\" at {at}. Nothing was changed; choose another time.");
        return Err(ToolError::refused("conflict", why));
    }
    Ok(Way::Taken(json!({
        "status": "conflict", "conflicts": told, "suggestions": free(book, &times(&rows), &wanted, call.store.clock().now()),
        "message": "Nothing was changed: the time is taken. Take one of the suggestions, or call again with \
                    conflict_policy allow_overlap if it is meant so.",
    })))
}

/// What an event overlaps that was put there all the same. Told once it is there: their words have no part in its change.
/// `own`: the event, and the one from which it was split.
pub(super) async fn overlaps(call: &ToolCall, book: &Book, own: &[Uuid]) -> Result<Value, ToolError> {
    let Some(row) = sql::event(call, own.first().copied().unwrap_or_default()).await? else { return Ok(Value::Null) };
    let object = Object::read(&row.ics).map_err(refused)?;
    let Some(wanted) = Wanted::of(call, book, &object)? else { return Ok(Value::Null) };
    book.cover(&call.context().tenant_id, wanted.near.0, wanted.near.1).await?;
    let sources: Vec<Uuid> = book.sources(call, &[]).await?.iter().map(|source| source.id).collect();
    let mut rows = sql::busy(call, &sources, wanted.near, book.home()).await?;
    rows.retain(|row| !own.contains(&row.event));
    Ok(told(&wanted.conflicts(&rows)))
}

/// Three free times near the wanted one, between eight and eight, or at any hour for what doesn't fit there. Of a series,
/// those at which each instance is free that was looked at.
fn free(book: &Book, busy: &[Busy], wanted: &Wanted, now: Timestamp) -> Value {
    let (Slot { start, end }, near) = (wanted.first, wanted.near);
    // What is in the way of a later instance, as far before it as that is behind the first.
    let earlier = |slot: &Slot| {
        let by = slot.start.duration_since(start);
        let moved = move |at: Timestamp| at.checked_sub(by).ok();
        busy.iter().filter_map(move |one| Some(Busy { start: moved(one.start)?, end: moved(one.end)?, away: one.away }))
    };
    let mut all: Vec<Busy> = wanted.slots.iter().flat_map(earlier).collect();
    all.retain(|one| one.end > near.0 && one.start < near.1);
    all.sort_by_key(|one| (one.start, one.end));
    let length = end.duration_since(start).max(SignedDuration::from_mins(15));
    let days = Weekday::Monday.cycle_forward().take(7).collect();
    let hours = DayHours { from: Time::constant(8, 0, 0, 0), to: Time::constant(20, 0, 0, 0), days };
    let local = |at: Timestamp| at.to_zoned(book.home().clone()).time();
    let by_day = local(start) >= hours.from && length <= SignedDuration::from_hours(12);
    let mut search = FreeSearch {
        from: near.0.max(now),
        to: end.saturating_add(AROUND).unwrap_or(near.1),
        length,
        zone: book.home().clone(),
        hours: by_day.then_some(hours),
        travel: SignedDuration::ZERO,
        pause: SignedDuration::ZERO,
        away: false,
    };
    let mut found = suggestions(&all, &search, start);
    if found.len() < 3 {
        search.hours = None;
        found = suggestions(&all, &search, start);
    }
    found
        .iter()
        .map(|slot| json!({"start_at": shown(slot.start, book.home()), "end_at": shown(slot.end, book.home())}))
        .collect()
}
