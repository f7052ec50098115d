//! Tools that show calendars.

use std::collections::HashMap;
use std::time::Duration;

use jiff::SignedDuration;
use jiff::civil::{Time, Weekday};
use serde_json::{Value, json};
use uuid::Uuid;

use super::args::{clock, names, shown, window, zone};
use super::book::{Book, SOON, Unknown, refused};
use super::following::sql::{StateRow, ask, states};
use super::sql::{self, SourceRow};
use ::tools::{ToolCall, ToolError};
use base::{Label, TenantId, Trust};
use calendar::{DayHours, FreeSearch, Window, free_slots};

/// Events that an answer names of which nobody can say when they are.
const MOST_UNKNOWN: usize = 10;
/// A calendar that was read longer ago is not called current.
const OLD: SignedDuration = SignedDuration::from_hours(24);
/// How often, and how far apart, somebody who asks for a sync looks whether it is done.
const PATIENCE: u32 = 100;
const LOOK: Duration = Duration::from_millis(200);

pub(super) async fn calendars(call: &ToolCall, book: &Book) -> Result<Value, ToolError> {
    let sources = book.sources(call, &[]).await?;
    let all = sources.iter().enumerate().map(|(place, source)| {
        json!({"calendar_id": source.name, "provider": source.provider, "time_zone": source.time_zone, "primary": place == 0,
               "read_only": source.read_only, "private": book.is_private(&source.name)})
    });
    let mut answer = json!({"calendars": all.collect::<Vec<_>>()});
    with_gaps(call, &mut answer, book, &sources, &[]);
    Ok(answer)
}

pub(super) async fn list(call: &ToolCall, book: &Book) -> Result<Value, ToolError> {
    let (from, to) = window(call, ("start_at", "end_at"), book)?;
    let tenant = &call.context().tenant_id;
    book.open(tenant).await?;
    let (names, limit) = (names(call), call.args.get("limit").and_then(Value::as_i64).unwrap_or(50));
    // One more says whether that was all.
    let looked = sql::Looked::new((from, to), book.home());
    let listed = || sql::listed(call, &names, &looked, limit + 1);
    let cover = async { Ok::<_, ToolError>(book.cover(tenant, from, to).await?) };
    let own = schedule::butler_events(call, from, to);
    // Side by side, since mostly all is laid out already.
    let (covered, sources, own, rows) = tokio::try_join!(cover, book.sources(call, &names), own, listed())?;
    let rows = if covered.anew { listed().await? } else { rows };
    let ids: Vec<Uuid> = rows.iter().map(|row| row.get("event")).collect();
    let about = if sources.iter().any(|one| one.has_about) { sql::about(call, &ids).await? } else { HashMap::new() };
    let mut events = sql::shown(&rows, &sources, &about);
    let more = i64::try_from(events.len()).is_ok_and(|found| found > limit);
    events.truncate(usize::try_from(limit).unwrap_or(0));
    let mut answer =
        json!({"from": shown(from, book.home()), "to": shown(to, book.home()), "more": more, "butler_events": own});
    // Moved rather than written anew into JSON: a busy month is hundreds.
    answer["events"] = Value::Array(events);
    with_gaps(call, &mut answer, book, &sources, &covered.unknown);
    Ok(answer)
}

/// Puts into an answer what it can't know of these calendars: those that are not as their servers have them, and events of
/// which nobody can say when they are. Where nothing is missing, it says nothing of that.
fn with_gaps(call: &ToolCall, answer: &mut Value, book: &Book, sources: &[SourceRow], unknown: &[Unknown]) {
    let behind: Vec<Value> = sources.iter().filter(|one| is_behind(book, one)).map(|one| behind(call, one)).collect();
    if !behind.is_empty() {
        answer["not_current"] = Value::Array(behind);
    }
    let unknown: Vec<&Unknown> =
        unknown.iter().filter(|one| sources.iter().any(|source| source.id == one.source)).collect();
    if !unknown.is_empty() {
        let one =
            |one: &&Unknown| json!({"event_id": one.event, "calendar_id": one.calendar, "why": one.why.to_string()});
        for one in unknown.iter().take(MOST_UNKNOWN) {
            call.shows(&Label::household(one.trust));
        }
        answer["unreadable"] = unknown.iter().take(MOST_UNKNOWN).map(one).collect();
        answer["unreadable_count"] = json!(unknown.len());
    }
}

/// Whether a calendar is not as its server has it: it never was, it failed, or nobody has looked for long.
fn is_behind(book: &Book, source: &SourceRow) -> bool {
    let old = |at| book.now().duration_since(at) > OLD;
    source.provider != "local" && (source.error.is_some() || source.synced_at.is_none_or(old))
}

fn behind(call: &ToolCall, source: &SourceRow) -> Value {
    json!({"calendar_id": source.name, "synced_at": source.synced_at.map(|at| at.to_string()),
           "error": failed(call, source)})
}

/// Why a calendar does not follow. It may quote anybody, so that a session that wants events is not told: it may ask for it.
fn failed(call: &ToolCall, source: &SourceRow) -> Option<String> {
    let whole = source.error.clone()?;
    Some(if call.session().is_none() { whole } else { "its sync failed; calendar_sync_status says why".to_owned() })
}

pub(super) async fn get(call: &ToolCall, book: &Book) -> Result<Value, ToolError> {
    let (row, object) = book.event(call).await?;
    let sources = book.sources(call, &[]).await?;
    let calendar = sources.iter().find(|source| source.id == row.source).map(|source| source.name.clone());
    let (event, home) = (object.main(), book.home());
    let mut answer = json!({
        "event_id": row.id, "calendar_id": calendar, "title": event.title, "description": event.description,
        "location": event.location, "start_at": event.start.shown(home), "end_at": event.end.shown(home),
        "all_day": event.start.is_date(), "status": event.status, "busy": event.busy, "visibility": event.visibility,
        "recurrence_rule": event.rule.as_ref().map(|rule| rule.text.clone()), "attendees": event.attendees,
        "organizer": event.organizer,
    });
    if let Some(about) = sql::about(call, &[row.id]).await?.remove(&row.id) {
        answer["entity_ids"] = about;
    }
    if let Some(color) = &event.color {
        answer["color_id"] = json!(color);
    }
    if let Some(zone) = &event.unknown_zone {
        answer["unknown_timezone"] = json!(zone);
    }
    if object.repeats() {
        let now = call.store.clock().now();
        let ahead = now.saturating_add(SignedDuration::from_hours(24 * 400)).unwrap_or(now);
        let coming = Window::new(now, ahead).and_then(|window| object.instances(window, home)).map_err(refused)?;
        let coming = coming.iter().take(10).map(|instance| {
            json!({"instance_start_at": instance.id.shown(home), "start_at": instance.start.shown(home), "end_at": instance.end.shown(home)})
        });
        answer["next_instances"] = coming.collect();
    }
    Ok(answer)
}

pub(super) async fn free(call: &ToolCall, book: &Book) -> Result<Value, ToolError> {
    let (from, to) = window(call, ("search_start", "search_end"), book)?;
    let sources = book.sources(call, &names(call)).await?;
    if let Some(never) = sources.iter().find(|source| source.provider != "local" && source.synced_at.is_none()) {
        let why = failed(call, never).unwrap_or_else(|| "its first sync is not done".to_owned());
        return Err(ToolError::refused(
            "not_synced",
            format!(
                "Nobody knows yet what is in the calendar `{}`, so nothing can be called free: {why}. Name the other calendars \
                 in calendar_ids, or try again after calendar_force_sync.",
                never.name
            ),
        ));
    }
    let unknown = book.cover(&call.context().tenant_id, from, to).await?.unknown;
    let ids: Vec<Uuid> = sources.iter().map(|source| source.id).collect();
    let minutes = |name: &str| call.args.get(name).and_then(Value::as_i64).unwrap_or(0);
    let [travel, pause] = ["travel_minutes", "pause_minutes"].map(|name| SignedDuration::from_mins(minutes(name)));
    // What is just outside needs its travel and its pause inside.
    let apart = travel.max(pause);
    let around = (from.saturating_sub(apart).unwrap_or(from), to.saturating_add(apart).unwrap_or(to));
    let busy = sql::times(call, &ids, around, book.home()).await?;
    let zone = zone(call, book)?;
    let search = FreeSearch {
        from: from.max(call.store.clock().now()),
        to,
        length: SignedDuration::from_mins(minutes("duration_minutes")),
        hours: hours(call)?,
        zone: zone.tz.clone(),
        travel,
        pause,
        away: call.args.get("away").and_then(Value::as_bool).unwrap_or(false),
    };
    let limit = usize::try_from(call.args.get("limit").and_then(Value::as_u64).unwrap_or(10)).unwrap_or(10);
    let slots = free_slots(&busy, &search, limit);
    let slots =
        slots.iter().map(|slot| json!({"start_at": shown(slot.start, &zone.tz), "end_at": shown(slot.end, &zone.tz)}));
    let mut answer = json!({"slots": slots.collect::<Vec<_>>()});
    with_gaps(call, &mut answer, book, &sources, &unknown);
    Ok(answer)
}

fn hours(call: &ToolCall) -> Result<Option<DayHours>, ToolError> {
    let (from, to) = (call.text("day_from").unwrap_or("08:00"), call.text("day_to").unwrap_or("20:00"));
    let (from, to): (Time, Time) = (clock("day_from", from)?, clock("day_to", to)?);
    if from >= to {
        return Err(ToolError::refused("no_span", "day_to must be after day_from."));
    }
    let all = super::args::texts(call, "days");
    let of = |word: &str| match word {
        "mon" => Weekday::Monday,
        "tue" => Weekday::Tuesday,
        "wed" => Weekday::Wednesday,
        "thu" => Weekday::Thursday,
        "fri" => Weekday::Friday,
        "sat" => Weekday::Saturday,
        _ => Weekday::Sunday,
    };
    let words: Vec<&str> =
        if all.is_empty() { super::args::DAYS.to_vec() } else { all.iter().map(String::as_str).collect() };
    Ok(Some(DayHours { from, to, days: words.into_iter().map(of).collect() }))
}

pub(super) async fn status(call: &ToolCall, book: &Book) -> Result<Value, ToolError> {
    let sources = book.sources(call, &names(call)).await?;
    let states = following(book, &sources).await?;
    if sources.iter().any(|source| source.error.is_some()) {
        call.shows(&Label::household(Trust::Stranger));
    }
    let now = book.now();
    let soon = now.saturating_add(SOON).unwrap_or(now);
    let unknown = book.cover(&call.context().tenant_id, now, soon).await?.unknown;
    let all = sources.iter().map(|source| {
        let state = states.iter().find(|state| state.source == source.id);
        // Nobody else has a local calendar, so it is always as it should be.
        let word = match (source.provider.as_str(), state) {
            ("local", _) => "local",
            _ if source.busy => "syncing",
            (_, None) => "unknown",
            _ if source.error.is_some() => "failed",
            _ if source.synced_at.is_none() => "waiting",
            _ => "synced",
        };
        json!({"calendar_id": source.name, "provider": source.provider, "state": word,
               "synced_at": source.synced_at.map(|at| at.to_string()), "error": source.error,
               "changes_waiting": number(source, state.map(|state| state.waiting)),
               "conflicts": number(source, state.map(|state| state.conflicts)),
               "unreadable": unknown.iter().filter(|one| one.source == source.id).count()})
    });
    Ok(json!({"calendars": all.collect::<Vec<_>>()}))
}

/// A count of a calendar that follows; of the household's own none waits. Null: nobody knows.
fn number(source: &SourceRow, counted: Option<i64>) -> Value {
    if source.provider == "local" { json!(0) } else { json!(counted) }
}

/// How those of these calendars follow that follow anybody. They are ones that the butler sees.
async fn following(book: &Book, sources: &[SourceRow]) -> Result<Vec<StateRow>, ToolError> {
    let ids: Vec<Uuid> = sources.iter().map(|source| source.id).collect();
    Ok(states(&mut book.house().shared(&TenantId::owner()).await?, &ids).await?)
}

pub(super) async fn force(call: &ToolCall, book: &Book) -> Result<Value, ToolError> {
    let accept = call.args.get("accept_deletions").and_then(Value::as_bool).unwrap_or(false);
    if accept && call.session().is_some() {
        let why = "Whether most events were deleted on purpose a person decides. Nothing was changed; ask the owner.";
        return Err(ToolError::refused("needs_approval", why));
    }
    let full = call.args.get("full").and_then(Value::as_bool).unwrap_or(false);
    let sources = book.sources(call, &names(call)).await?;
    if book.follows() {
        let ids: Vec<Uuid> = sources.iter().map(|source| source.id).collect();
        ask(&mut book.house().shared(&TenantId::owner()).await?, &ids, (accept, full)).await?;
        book.nudge.notify_one();
        if call.args.get("queue").and_then(Value::as_bool).unwrap_or(false) {
            let mut answer = status(call, book).await?;
            answer["queued"] = json!(true);
            return Ok(answer);
        }
        // Another daemon may be the one that does it, so the rows are looked at.
        for _ in 0..PATIENCE {
            if book.sources(call, &names(call)).await?.iter().all(|source| !source.busy) {
                break;
            }
            tokio::time::sleep(LOOK).await;
        }
    }
    status(call, book).await
}
