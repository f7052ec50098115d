//! What calls say: times, windows, changes.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::book::{Book, refused};
use ::tools::{ToolCall, ToolError};
use calendar::{Attendee, COLORS, Change, Event, Rule, Scope, When, Zone};

/// Weekdays as calls name them.
pub(super) const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

fn no_time(name: &str, given: &str) -> ToolError {
    let why = format!(
        "{name} is not a time: {given}. Write a day as 2026-11-24, or a time as 2026-11-24T09:00, with or without an offset."
    );
    ToolError::refused("no_time", why)
}

/// A day, or a time in a zone: one with an offset is that instant as the zone's clock shows it.
pub(super) fn when(name: &str, given: &str, zone: &Zone) -> Result<When, ToolError> {
    let given = given.trim();
    if given.len() == 10
        && let Ok(day) = given.parse::<Date>()
    {
        return Ok(When::Date(day));
    }
    if let Ok(at) = given.parse::<Timestamp>() {
        return Ok(When::Zoned(at.to_zoned(zone.tz.clone()).datetime(), zone.clone()));
    }
    let local = given.parse::<DateTime>().map_err(|_| no_time(name, given))?;
    Ok(When::Zoned(local, zone.clone()))
}

/// The zone of a call's times.
pub(super) fn zone(call: &ToolCall, book: &Book) -> Result<Zone, ToolError> {
    call.text("timezone").map_or_else(|| Ok(book.zone.clone()), |name| Zone::named(name).map_err(refused))
}

/// An argument as the start or end of a window.
pub(super) fn moment(call: &ToolCall, name: &str, book: &Book) -> Result<Option<Timestamp>, ToolError> {
    let Some(given) = call.text(name) else { return Ok(None) };
    when(name, given, &book.zone)?.instant(book.home()).map(Some).map_err(refused)
}

/// The window of a call; by default thirty days from the beginning of today.
pub(super) fn window(call: &ToolCall, names: (&str, &str), book: &Book) -> Result<(Timestamp, Timestamp), ToolError> {
    let today = call.store.clock().now().to_zoned(book.home().clone()).date();
    let midnight = book.home().to_timestamp(today.to_datetime(Time::midnight())).unwrap_or(Timestamp::UNIX_EPOCH);
    let from = moment(call, names.0, book)?.unwrap_or(midnight);
    let month = SignedDuration::from_hours(24 * 30);
    let to = moment(call, names.1, book)?.unwrap_or(from.saturating_add(month).unwrap_or(from));
    if to <= from {
        return Err(ToolError::refused("no_span", format!("{} must be after {}.", names.1, names.0)));
    }
    if to.duration_since(from) > SignedDuration::from_hours(24 * 366 * 3) {
        return Err(ToolError::refused("no_span", "At most three years are looked at; ask for a part."));
    }
    Ok((from, to))
}

pub(super) fn texts(call: &ToolCall, name: &str) -> Vec<String> {
    let all = call.args.get(name).and_then(Value::as_array).into_iter().flatten();
    all.filter_map(Value::as_str).map(str::to_owned).collect()
}

pub(super) fn names(call: &ToolCall) -> Vec<String> {
    let mut all = texts(call, "calendar_ids");
    all.extend(call.text("calendar_id").map(str::to_owned));
    all
}

pub(super) fn scope(call: &ToolCall) -> Scope {
    match call.text("recurrence_scope") {
        Some("this") => Scope::This,
        Some("following") => Scope::Following,
        _ => Scope::Series,
    }
}

/// The instance that a call names by its start in the series.
pub(super) fn instance(call: &ToolCall, book: &Book, of: &Event) -> Result<Option<When>, ToolError> {
    let given = call.text("instance_start_at");
    let zone = if let When::Zoned(_, zone) = &of.start { zone } else { &book.zone };
    given.map(|given| when("instance_start_at", given, zone)).transpose()
}

/// Who comes by a call's list, of whom some are `known`.
pub(super) fn attendees(call: &ToolCall, known: &[Attendee], optional: bool) -> Result<Vec<Attendee>, ToolError> {
    let mut all: Vec<Attendee> = Vec::new();
    for email in texts(call, "attendees") {
        if !email.contains('@') || email.chars().any(|c| c.is_whitespace() || c.is_control()) {
            let why = format!("{email} is not a mail address. Nothing was changed.");
            return Err(ToolError::refused("invalid_value", why));
        }
        let is_it = |one: &&Attendee| one.email.eq_ignore_ascii_case(&email);
        if all.iter().any(|one| is_it(&one)) {
            continue;
        }
        let old = known.iter().find(is_it).cloned();
        all.push(old.unwrap_or(Attendee { email, name: None, answer: None, optional }));
    }
    Ok(all)
}

/// A colour as events keep it, by its name or Google's id; empty: none. Google has no others.
fn color(given: &str, book: &Book) -> Result<String, ToolError> {
    let name = given.trim().to_ascii_lowercase();
    let by_id = name.parse::<usize>().ok().and_then(|id| COLORS.get(id.wrapping_sub(1)));
    let name = by_id.map_or(name, |known| (*known).to_owned());
    let css = || !book.tells() && name.chars().all(|c| c.is_ascii_alphabetic());
    if name.is_empty() || COLORS.contains(&name.as_str()) || css() {
        return Ok(name);
    }
    let why = format!("color_id takes 1 to {}, or one of {}. Nothing was changed.", COLORS.len(), COLORS.join(", "));
    Err(ToolError::refused("invalid_value", why))
}

/// What a call changes of an event. `old`: the event, for an update.
pub(super) fn change(call: &ToolCall, book: &Book, old: Option<&Event>) -> Result<Change, ToolError> {
    // Whatever is said of an event stays in its zone, for all others who are in it.
    let zone = match (call.text("timezone"), old.map(|old| &old.start)) {
        (None, Some(When::Zoned(_, zone))) => zone.clone(),
        _ => zone(call, book)?,
    };
    // What is kept in UTC repeats by it.
    let in_utc = old.is_some_and(|old| matches!(old.start, When::Utc(_))) && call.text("timezone").is_none();
    let time = |name: &str| {
        let at = call.text(name).map(|given| when(name, given, &zone)).transpose()?;
        match at {
            Some(at @ When::Zoned(..)) if in_utc => {
                let at = at.instant(book.home()).map_err(refused)?;
                Ok(Some(When::Utc(at.to_zoned(TimeZone::UTC).datetime())))
            }
            at => Ok::<_, ToolError>(at),
        }
    };
    let (mut start, mut end) = (time("start_at")?, time("end_at")?);
    let all_day = call.args.get("all_day").and_then(Value::as_bool);
    let was = old.map(|old| old.start.is_date());
    if let Some(all_day) = all_day
        && start.is_none()
        && was.is_some_and(|was| was != all_day)
    {
        return Err(ToolError::refused("invalid_event", "Give start_at along with all_day."));
    }
    let days = all_day.unwrap_or_else(|| start.as_ref().map_or(was.unwrap_or(false), When::is_date));
    let as_days = |at: When| if days { When::Date(at.local().date()) } else { at };
    (start, end) = (start.map(as_days), end.map(as_days));
    for at in [&start, &end].into_iter().flatten() {
        if at.is_date() != days {
            return Err(ToolError::refused("invalid_event", "Give a time of day for start and end, or set all_day."));
        }
    }
    if let (Some(first), Some(last)) = (&start, &end)
        && days
        && first == last
    {
        // For people, an event on one day ends on that day; in a calendar, on the next.
        end = Some(first.plus(SignedDuration::from_hours(24)).map_err(refused)?);
    }
    if old.is_none() && end.is_none() {
        let hours = if days { 24 } else { 1 };
        let plus = |at: &When| at.plus(SignedDuration::from_hours(hours));
        end = start.as_ref().map(plus).transpose().map_err(refused)?;
    }
    let rule = match call.text("recurrence_rule").map(str::trim) {
        None => None,
        Some("") => Some(None),
        Some(rule) => Some(Some(rule.parse::<Rule>().map_err(refused)?)),
    };
    let own = |name: &str| call.text(name).map(str::to_owned);
    let (listed, known) = (call.args.contains_key("attendees"), old.map_or(&[][..], |old| &old.attendees));
    Ok(Change {
        title: own("title"),
        start,
        end,
        description: own("description"),
        location: own("location"),
        status: call.text("status").and_then(|word| serde_json::from_value(Value::String(word.to_owned())).ok()),
        busy: call.args.get("busy").and_then(Value::as_bool).or_else(|| (old.is_none() && days).then_some(false)),
        visibility: own("visibility"),
        color: call.text("color_id").map(|given| color(given, book)).transpose()?,
        rule,
        attendees: listed.then(|| attendees(call, known, false)).transpose()?,
        gone: Vec::new(),
        organizer: listed.then(|| book.organizer()).flatten(),
        reminder: call.args.get("reminder_minutes").and_then(Value::as_u64).map(|minutes| u32::try_from(minutes).ok()),
    })
}

/// Hours of the day, as `09:00`.
pub(super) fn clock(name: &str, given: &str) -> Result<Time, ToolError> {
    let wrong = || ToolError::refused("no_time", format!("{name} is not a time of day: {given}. Write it as 09:00."));
    given.parse::<Time>().map_err(|_| wrong())
}

/// A time as people and tools see it.
pub(super) fn shown(at: Timestamp, zone: &TimeZone) -> String {
    at.to_zoned(zone.clone()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
}
