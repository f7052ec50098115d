//! What Google has of an item, as iCalendar.
//!
//! Who organizes an event decides how far it is believed. That is said by Google and not by who wrote it, so it is here for
//! each event that somebody else invites to.

use calendar::text::{Component, Line, Node, escape, quote};
use calendar::{COLORS, CalendarError, GUESTS_WRITE, When};
use jiff::SignedDuration;
use serde_json::Value;

use super::parts::{self, Parts, is_cancelled, own};
use super::times;
use super::unfit::Unfit;

/// Who organizes what nobody says who organizes; Google itself writes so.
const NOBODY_KNOWN: &str = "unknownorganizer@calendar.google.com";

/// The iCalendar text of an item; else a sentence why there is none.
pub(super) fn written(parts: &Parts) -> Result<Vec<u8>, Unfit> {
    let main = &parts.main;
    let start = times::read(&main["start"]).ok_or("it has no start that can be read")?;
    let uid = uid(main);
    let mut root = Component::new("VCALENDAR");
    root.nodes.push(Node::Line(Line::new("VERSION", "2.0")));
    root.nodes.push(Node::Line(Line::new("PRODID", "-//butlerd//calendar//EN")));
    let mut series = event(main, &uid, &start, None)?;
    let mut others = Vec::new();
    for instance in &parts.instances {
        let Some(id) = times::read(&instance["originalStartTime"]).and_then(|id| as_series(&start, &id)) else {
            continue;
        };
        if is_cancelled(instance) {
            // Before the alarms: properties come first.
            let place = series.nodes.iter().position(|node| matches!(node, Node::Component(_)));
            series.nodes.insert(place.unwrap_or(series.nodes.len()), Node::Line(id.line("EXDATE")));
        } else {
            let begins = times::read(&instance["start"]).ok_or("one of its instances has no start")?;
            others.push(event(instance, &uid, &begins, Some(&id))?);
        }
    }
    let all = std::iter::once(series).chain(others).map(Node::Component);
    root.nodes.extend(all);
    let mut bytes = Vec::new();
    root.write(&mut bytes);
    Ok(bytes)
}

/// Which UID the household knows it by. A single instance of a series that is not here is an event of its own.
fn uid(main: &Value) -> String {
    let id = main["id"].as_str().unwrap_or_default();
    let there = match main["recurringEventId"].as_str() {
        Some(_) => format!("{id}@google.com"),
        None => main["iCalUID"].as_str().map_or_else(|| format!("{id}@google.com"), ToOwned::to_owned),
    };
    plain(own(main, parts::UID).unwrap_or(&there))
}

/// An instance is named as its series is written.
fn as_series(start: &When, id: &When) -> Option<When> {
    match (start, id) {
        (When::Date(_), When::Date(_)) => Some(id.clone()),
        (When::Date(_), _) | (_, When::Date(_)) => None,
        _ => Some(start.of_instant(id.instant(&jiff::tz::TimeZone::UTC).ok()?, &jiff::tz::TimeZone::UTC)),
    }
}

/// One component. `instance`: which one of the series it replaces.
pub(super) fn event(of: &Value, uid: &str, start: &When, instance: Option<&When>) -> Result<Component, Unfit> {
    let end = match times::read(&of["end"]) {
        Some(end) => end,
        None => default_end(start)?,
    };
    let mut out = Component::new("VEVENT");
    lines(&mut out, [Line::new("UID", uid)]);
    for (name, field) in [("DTSTAMP", "updated"), ("CREATED", "created"), ("LAST-MODIFIED", "updated")] {
        lines(&mut out, times::stamp(&of[field]).map(|stamp| stamp.line(name)));
    }
    let counted = own(of, parts::SEQUENCE).and_then(|text| text.parse::<i64>().ok()).or(of["sequence"].as_i64());
    lines(&mut out, counted.map(|n| Line::new("SEQUENCE", &n.to_string())));
    lines(&mut out, instance.map(|id| id.line("RECURRENCE-ID")));
    lines(&mut out, [start.line("DTSTART"), end.line("DTEND")]);
    for (name, field) in [("SUMMARY", "summary"), ("DESCRIPTION", "description"), ("LOCATION", "location")] {
        let text = of[field].as_str().filter(|text| !text.is_empty());
        lines(&mut out, text.map(|text| Line::new(name, &escape(text))));
    }
    let status = if of["status"] == "tentative" { "TENTATIVE" } else { "CONFIRMED" };
    let free = if of["transparency"] == "transparent" { "TRANSPARENT" } else { "OPAQUE" };
    lines(&mut out, [Line::new("STATUS", status), Line::new("TRANSP", free)]);
    let class = match of["visibility"].as_str() {
        Some(class @ ("public" | "private" | "confidential")) => Some(class.to_ascii_uppercase()),
        _ => None,
    };
    lines(&mut out, class.map(|class| Line::new("CLASS", &class)));
    let color = of["colorId"].as_str().and_then(|id| COLORS.get(id.parse::<usize>().ok()?.wrapping_sub(1)));
    lines(&mut out, color.map(|color| Line::new("COLOR", color)));
    lines(&mut out, recurrence(of));
    lines(&mut out, organizer(of).map(|email| Line::new("ORGANIZER", &format!("mailto:{}", plain(email)))));
    let guests_write = of["guestsCanModify"] == true && of["attendees"][0].is_object();
    lines(&mut out, guests_write.then(|| Line::new(GUESTS_WRITE, "TRUE")));
    lines(&mut out, of["attendees"].as_array().into_iter().flatten().filter_map(attendee));
    for minutes in alarms(of) {
        out.nodes.push(Node::Component(alarm(minutes)));
    }
    Ok(out)
}

fn lines(to: &mut Component, lines: impl IntoIterator<Item = Line>) {
    to.nodes.extend(lines.into_iter().map(Node::Line));
}

/// As iCalendar has it for an event that doesn't say.
fn default_end(start: &When) -> Result<When, CalendarError> {
    start.plus(if start.is_date() { SignedDuration::from_hours(24) } else { SignedDuration::ZERO })
}

/// The lines by which a series repeats, which Google keeps as they were written.
pub(super) fn recurrence(of: &Value) -> Vec<Line> {
    let texts = of["recurrence"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let read = texts.filter_map(|text| {
        let (head, value) = text.trim().split_once(':')?;
        let line = Line::new(&plain(head), &plain(value));
        matches!(line.name.as_str(), "RRULE" | "EXRULE" | "RDATE" | "EXDATE").then_some(line)
    });
    read.collect()
}

/// Who invites to it. `None`: the calendar's owner has it for themselves.
fn organizer(of: &Value) -> Option<&str> {
    let (organizer, creator) = (&of["organizer"], &of["creator"]);
    let attended = of["attendees"].as_array().is_some_and(|all| !all.is_empty());
    let email = |who: &'_ Value| who["email"].as_str().map(str::trim).is_some_and(|email| email.contains('@'));
    // What Google reads out of a letter is what the letter's writer wants to be read.
    if of["eventType"] == "fromGmail" {
        return Some(NOBODY_KNOWN);
    }
    if organizer["self"] == true {
        // Of a calendar beside the account's own, the organizer is the calendar, which is nobody's address.
        let who = if email(creator) { creator } else { organizer };
        return attended.then(|| who["email"].as_str().unwrap_or(NOBODY_KNOWN));
    }
    if organizer.is_object() {
        return Some(if email(organizer) { organizer["email"].as_str()? } else { NOBODY_KNOWN });
    }
    attended.then_some(NOBODY_KNOWN)
}

fn attendee(one: &Value) -> Option<Line> {
    let email = one["email"].as_str().filter(|email| email.contains('@'))?;
    let mut head = "ATTENDEE".to_owned();
    if let Some(name) = one["displayName"].as_str().filter(|name| !name.is_empty()) {
        head.push_str(&format!(";CN={}", quote(name)));
    }
    if one["optional"] == true {
        head.push_str(";ROLE=OPT-PARTICIPANT");
    }
    let answer = match one["responseStatus"].as_str() {
        Some("accepted") => "ACCEPTED",
        Some("declined") => "DECLINED",
        Some("tentative") => "TENTATIVE",
        _ => "NEEDS-ACTION",
    };
    head.push_str(&format!(";PARTSTAT={answer}"));
    Some(Line::new(&head, &format!("mailto:{}", plain(email))))
}

/// Minutes before the start at which something is shown; what the calendar does by default is not the event's.
fn alarms(of: &Value) -> Vec<i64> {
    let shown = of["reminders"]["overrides"].as_array().into_iter().flatten().filter(|one| one["method"] == "popup");
    let mut minutes: Vec<i64> = shown.filter_map(|one| one["minutes"].as_i64()).collect();
    minutes.sort_unstable();
    minutes.dedup();
    minutes
}

/// As the household writes a reminder of its own, so that it is the one that it changes.
fn alarm(minutes: i64) -> Component {
    let mut alarm = Component::new("VALARM");
    for (name, value) in [("ACTION", "DISPLAY"), ("DESCRIPTION", "Reminder"), ("X-BUTLERD", "1")] {
        alarm.nodes.push(Node::Line(Line::new(name, value)));
    }
    alarm.nodes.push(Node::Line(Line::new("TRIGGER", &format!("-PT{minutes}M"))));
    alarm
}

/// A text that stays on its line.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}
