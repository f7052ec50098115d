//! Changes of events: of one instance, of it and all later ones, of the series.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::event::{Length, OWN_ALARM};
use crate::moved::{Moved, extra_line, series_may_move, shift_exceptions};
use crate::rule::MAX_COUNT;
use crate::series::Window;
use crate::text::{Component, Line, Node, escape, quote};
use crate::walk::walk;
use crate::{Attendee, CalendarError, Instance, Object, Rule, Status, When};

/// What of a series is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// One instance.
    This,
    /// One instance and all later ones.
    Following,
    #[default]
    Series,
}

/// What is changed; what is `None` stays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    pub title: Option<String>,
    pub start: Option<When>,
    pub end: Option<When>,
    pub description: Option<String>,
    pub location: Option<String>,
    pub status: Option<Status>,
    pub busy: Option<bool>,
    /// `public`, `private` or `confidential`.
    pub visibility: Option<String>,
    /// As CSS calls it; empty: none.
    pub color: Option<String>,
    /// `Some(None)`: it repeats no longer.
    pub rule: Option<Option<Rule>>,
    pub attendees: Option<Vec<Attendee>>,
    /// Who is taken off the lists of single instances as well, also where the series' own does not have them.
    pub gone: Vec<Attendee>,
    /// Who invites the attendees, where nobody does yet: servers that mail invitations do it in this name (RFC 6638, 3.1).
    pub organizer: Option<String>,
    /// Minutes before the start of a reminder; `Some(None)`: none.
    pub reminder: Option<Option<u32>>,
}

/// What an edit leaves.
#[derive(Clone, Debug, PartialEq)]
pub struct Edited {
    /// The series; `None`: nothing is left of it.
    pub object: Option<Object>,
    /// The instances from the edited one on, which are a series of their own now.
    pub following: Option<Object>,
}

impl Change {
    /// Writes it into an event's component, whose calendar brings these `VTIMEZONE`s.
    pub(crate) fn apply(
        &self,
        event: &mut Component,
        zones: &[Component],
        now: Timestamp,
        home: &TimeZone,
    ) -> Result<(), CalendarError> {
        if let Some(start) = &self.start {
            event.set("DTSTART", vec![start.line("DTSTART")]);
        }
        if let Some(end) = &self.end {
            event.set("DURATION", Vec::new());
            event.set("DTEND", vec![end.line("DTEND")]);
        }
        let (about, place) = (&self.description, &self.location);
        let texts = [("SUMMARY", &self.title), ("DESCRIPTION", about), ("LOCATION", place), ("COLOR", &self.color)];
        for (name, text) in texts {
            if let Some(text) = text {
                let line = (!text.is_empty()).then(|| Line::new(name, &escape(text)));
                event.set(name, line.into_iter().collect());
            }
        }
        if let Some(status) = self.status {
            event.set("STATUS", vec![Line::new("STATUS", status.word())]);
        }
        if let Some(busy) = self.busy {
            event.set("TRANSP", vec![Line::new("TRANSP", if busy { "OPAQUE" } else { "TRANSPARENT" })]);
        }
        if let Some(class) = &self.visibility {
            event.set("CLASS", vec![Line::new("CLASS", &class.to_ascii_uppercase())]);
        }
        if let Some(rule) = &self.rule {
            let start = read(event, zones)?.main().start.clone();
            let rule = rule.as_ref().map(|rule| rule.for_start(&start, home)).transpose()?;
            event.set("RRULE", rule.iter().map(|rule| Line::new("RRULE", &rule.text)).collect());
        }
        if let Some(attendees) = &self.attendees {
            // Who stays keeps the line, with what other programs say of them there.
            let known: Vec<Line> = event.lines("ATTENDEE").cloned().collect();
            let line = |one: &Attendee| known.iter().find(|line| names(line, &one.email)).cloned();
            let lines = attendees.iter().map(|one| line(one).unwrap_or_else(|| attendee_line(one)));
            event.set("ATTENDEE", lines.collect());
            if let Some(organizer) = self.organizer.as_ref().filter(|_| !attendees.is_empty())
                && event.line("ORGANIZER").is_none()
            {
                event.set("ORGANIZER", vec![Line::new("ORGANIZER", &format!("mailto:{organizer}"))]);
            }
        }
        if let Some(reminder) = self.reminder {
            remind(event, reminder);
        }
        let sequence = event.line("SEQUENCE").and_then(|line| line.value.trim().parse::<i64>().ok());
        event.set("SEQUENCE", vec![Line::new("SEQUENCE", &sequence.map_or(0, |n| n.saturating_add(1)).to_string())]);
        let stamp = When::Utc(now.to_zoned(TimeZone::UTC).datetime());
        event.set("DTSTAMP", vec![stamp.line("DTSTAMP")]);
        event.set("LAST-MODIFIED", vec![stamp.line("LAST-MODIFIED")]);
        if self.start.is_some() || self.rule.is_some() {
            check_rule(event, zones, home)?;
        }
        check(event, zones, home)
    }
}

fn read(event: &Component, zones: &[Component]) -> Result<Object, CalendarError> {
    let mut root = Component::new("VCALENDAR");
    root.nodes.extend(zones.iter().chain([event]).cloned().map(Node::Component));
    Object::of(root)
}

/// A new or changed event ends after it starts.
fn check(event: &Component, zones: &[Component], home: &TimeZone) -> Result<(), CalendarError> {
    let object = read(event, zones)?;
    let seen = object.main();
    if seen.end.instant(home)? < seen.start.instant(home)? || (seen.start.is_date() && seen.start == seen.end) {
        return Err(CalendarError::EndsFirst { start: seen.start.shown(home), end: seen.end.shown(home) });
    }
    Ok(())
}

/// A series whose last time is before its first never takes place, and servers refuse it.
fn check_rule(event: &Component, zones: &[Component], home: &TimeZone) -> Result<(), CalendarError> {
    let object = read(event, zones)?;
    let seen = object.main();
    let Some((rule, until)) = seen.rule.as_ref().and_then(|rule| Some((rule, rule.until.as_ref()?))) else {
        return Ok(());
    };
    let over = match until.is_date() {
        true => until.local().date() < seen.start.local().date(),
        false => until.instant(home)? < seen.start.instant(home)?,
    };
    if over {
        return Err(CalendarError::rule(&rule.text, "it would end before it begins; give the new rule as well"));
    }
    Ok(())
}

/// Whether a line is of who has this address.
fn names(line: &Line, email: &str) -> bool {
    let value = line.value.trim();
    let scheme = value.get(..7).filter(|start| start.eq_ignore_ascii_case("mailto:"));
    scheme.map_or(value, |scheme| &value[scheme.len()..]).trim().eq_ignore_ascii_case(email)
}

fn attendee_line(attendee: &Attendee) -> Line {
    let mut head = "ATTENDEE".to_owned();
    if let Some(name) = &attendee.name {
        head.push_str(&format!(";CN={}", quote(name)));
    }
    if attendee.optional {
        head.push_str(";ROLE=OPT-PARTICIPANT");
    }
    let answer = attendee.answer.as_deref().unwrap_or("needs-action").to_ascii_uppercase();
    let answer: String = answer.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
    head.push_str(&format!(";PARTSTAT={answer}"));
    let email: String = attendee.email.chars().filter(|c| !c.is_control()).collect();
    Line::new(&head, &format!("mailto:{email}"))
}

/// Our own reminder is the one alarm that is replaced; those of other programs stay.
fn remind(event: &mut Component, minutes: Option<u32>) {
    let own = |node: &Node| matches!(node, Node::Component(c) if c.name == "VALARM" && c.line(OWN_ALARM).is_some());
    event.nodes.retain(|node| !own(node));
    if let Some(minutes) = minutes {
        let mut alarm = Component::new("VALARM");
        for (name, value) in [("ACTION", "DISPLAY"), ("DESCRIPTION", "Reminder"), (OWN_ALARM, "1")] {
            alarm.nodes.push(Node::Line(Line::new(name, value)));
        }
        alarm.nodes.push(Node::Line(Line::new("TRIGGER", &format!("-PT{minutes}M"))));
        event.nodes.push(Node::Component(alarm));
    }
}

/// Changes an event. `instance` is the start that the series has for an instance; `fresh` becomes the UID of what is
/// split off.
pub fn update(
    object: &Object,
    scope: Scope,
    instance: Option<&When>,
    change: &Change,
    (now, home, fresh): (Timestamp, &TimeZone, &str),
) -> Result<Edited, CalendarError> {
    let (scope, id) = resolve(object, scope, instance, home)?;
    let mut whole = object.clone();
    let Some(id) = id.filter(|_| scope != Scope::Series) else {
        update_series(&mut whole, change, now, home)?;
        return Ok(Edited { object: Some(Object::of(whole.root)?), following: None });
    };
    if scope == Scope::This {
        if change.rule.is_some() {
            return Err(CalendarError::rule(
                "",
                "one instance has no repetition of its own; use the scope series or following",
            ));
        }
        update_one(&mut whole, &id, change, now, home)?;
        return Ok(Edited { object: Some(Object::of(whole.root)?), following: None });
    }
    let (before, after) = split(&whole, &id, fresh, now, home)?;
    let mut after = after;
    update_series(&mut after, change, now, home)?;
    Ok(Edited { object: Some(before), following: Some(Object::of(after.root)?) })
}

/// Takes an event, an instance, or the rest of a series away.
pub fn remove(
    object: &Object,
    scope: Scope,
    instance: Option<&When>,
    now: Timestamp,
    home: &TimeZone,
) -> Result<Edited, CalendarError> {
    let (scope, id) = resolve(object, scope, instance, home)?;
    let Some(id) = id.filter(|_| scope != Scope::Series) else { return Ok(Edited { object: None, following: None }) };
    if scope == Scope::Following {
        let (before, _) = split(object, &id, "gone", now, home)?;
        return Ok(Edited { object: Some(before), following: None });
    }
    let mut whole = object.clone();
    if let Some(exception) = whole.exception(&id, home) {
        drop_events(&mut whole, |at| at == exception);
    }
    let Some(master) = whole.master() else { return Ok(Edited { object: None, following: None }) };
    // The exception's own form of the time may differ from the series'.
    let start = &whole.events[master].start;
    let line = start.of_instant(id.instant(home)?, home).line("EXDATE");
    let line = if start.is_date() { id.line("EXDATE") } else { line };
    let zones = whole.timezones();
    if let Some(component) = whole.component_mut(master) {
        let lines = component.lines("EXDATE").cloned().chain([line]).collect();
        component.set("EXDATE", lines);
        Change::default().apply(component, &zones, now, home)?;
    }
    Ok(Edited { object: Some(Object::of(whole.root)?), following: None })
}

/// Which scope this is in truth: `following` from the first instance on is the series.
fn resolve(
    object: &Object,
    scope: Scope,
    instance: Option<&When>,
    home: &TimeZone,
) -> Result<(Scope, Option<When>), CalendarError> {
    if scope == Scope::Series {
        return Ok((scope, None));
    }
    if !object.repeats() {
        return Err(CalendarError::NotRecurring(if scope == Scope::This { "this" } else { "following" }));
    }
    let wanted = instance.ok_or(CalendarError::Missing("start of the instance (instance_start_at)"))?;
    let start = &object.main().start;
    // A time of day names the instance of a day, and a day that of an all-day event.
    let wanted =
        if start.is_date() { When::Date(wanted.local().date()) } else { start.of_instant(wanted.instant(home)?, home) };
    let found = object.instance(&wanted, home)?.ok_or_else(|| CalendarError::NoInstance(wanted.shown(home)))?;
    let first = scope == Scope::Following && found.id.instant(home)? <= start.instant(home)?;
    Ok((if first { Scope::Series } else { scope }, Some(found.id)))
}

fn update_series(object: &mut Object, change: &Change, now: Timestamp, home: &TimeZone) -> Result<(), CalendarError> {
    let master = object.master().unwrap_or(0);
    let old = object.events[master].clone();
    let (mut change, is_new_rule) = (change.clone(), change.rule.is_some());
    if let (Some(start), None, Some(rule)) = (&change.start, &change.rule, &old.rule) {
        series_may_move(object, rule, (&old.start, start))?;
    }
    // A new start alone keeps the length.
    if let (Some(start), None) = (&change.start, &change.end) {
        change.end = Some(match (start.is_date(), old.start.is_date()) {
            (a, b) if a == b => match old.length {
                Length::Wall(_) => old.end_of(start, old.length, home)?,
                Length::Exact(_) => start.of_instant(old.end_of(start, old.length, home)?.instant(home)?, home),
            },
            (true, _) => start.plus(SignedDuration::from_hours(24))?,
            (false, _) => start.plus(SignedDuration::from_hours(1))?,
        });
    }
    let moved = change.start.clone().filter(|start| start.is_date() == old.start.is_date() && *start != old.start);
    let moved = moved.map(|to| Moved { from: &old.start, to, home });
    // Where it ended by the clock it ends by it again, so that it has as many times as before.
    if let (Some(to), None, Some(rule)) = (&change.start, &change.rule, &old.rule)
        && let Some(until) = &rule.until
        && *to != old.start
    {
        let moved = Moved { from: &old.start, to: to.clone(), home };
        change.rule = Some(Some(rule.ending(None, Some(moved.end(until)?))));
    }
    let zones = object.timezones();
    if let Some(component) = object.component_mut(master) {
        change.apply(component, &zones, now, home)?;
    }
    // Exceptions have lists of their own: who is taken off the series' list, or put on it, is so on theirs.
    let on = |list: &[Attendee], one: &Attendee| list.iter().any(|known| known.email.eq_ignore_ascii_case(&one.email));
    for at in (0..object.events.len()).filter(|at| *at != master) {
        let (Some(new), had) = (&change.attendees, object.events[at].attendees.clone()) else { break };
        let stay = had.iter().filter(|one| (!on(&old.attendees, one) || on(new, one)) && !on(&change.gone, one));
        let come = new.iter().filter(|one| !on(&old.attendees, one) && !on(&had, one));
        let attendees = Some(stay.chain(come).cloned().collect());
        let people = Change { attendees, organizer: change.organizer.clone(), ..Change::default() };
        let other = people.attendees.as_ref() != Some(&had);
        let Some(component) = object.component_mut(at).filter(|_| other) else { continue };
        people.apply(component, &zones, now, home)?;
    }
    // Of an instance alone the name stays that of its series, which is elsewhere.
    if let Some(moved) = moved.filter(|_| object.master().is_some()) {
        shift_exceptions(object, &moved)?;
    }
    *object = Object::of(object.root.clone())?;
    if is_new_rule {
        drop_lost_exceptions(object, home)?;
    }
    Ok(())
}

/// After another rule, exceptions of instances that are no longer there would stand in the calendar as events.
fn drop_lost_exceptions(object: &mut Object, home: &TimeZone) -> Result<(), CalendarError> {
    let mut alone = object.clone();
    drop_events(&mut alone, |at| object.events[at].recurrence_id.is_some());
    let alone = Object::of(alone.root)?;
    let mut lost = Vec::new();
    for (at, event) in object.events.iter().enumerate() {
        if let Some(id) = &event.recurrence_id
            && alone.instance(id, home)?.is_none()
        {
            lost.push(at);
        }
    }
    drop_events(object, |at| lost.contains(&at));
    *object = Object::of(object.root.clone())?;
    Ok(())
}

fn drop_events(object: &mut Object, gone: impl Fn(usize) -> bool) {
    let mut at = 0;
    object.root.nodes.retain(|node| match node {
        Node::Component(inner) if inner.name == "VEVENT" => {
            at += 1;
            !gone(at - 1)
        }
        _ => true,
    });
    let mut at = 0;
    object.events.retain(|_| {
        at += 1;
        !gone(at - 1)
    });
}

fn update_one(
    object: &mut Object,
    id: &When,
    change: &Change,
    now: Timestamp,
    home: &TimeZone,
) -> Result<(), CalendarError> {
    let instance = object.instance(id, home)?.ok_or_else(|| CalendarError::NoInstance(id.shown(home)))?;
    let mut change = change.clone();
    if let (Some(start), None) = (&change.start, &change.end) {
        let length = instance.end.instant(home)?.duration_since(instance.start.instant(home)?);
        change.end = Some(if start.is_date() {
            let days = (length.as_hours() + 12) / 24;
            start.plus(SignedDuration::from_hours(24 * days.clamp(1, 4_000)))?
        } else {
            let at =
                start.instant(home)?.checked_add(length).map_err(|_| CalendarError::OutOfRange(start.to_string()))?;
            start.of_instant(at, home)
        });
    }
    let zones = object.timezones();
    if let Some(at) = object.exception(id, home) {
        let Some(component) = object.component_mut(at) else { return Ok(()) };
        return change.apply(component, &zones, now, home);
    }
    let Some(mut copy) = copy_of(object, id, &instance) else { return Ok(()) };
    change.apply(&mut copy, &zones, now, home)?;
    object.root.nodes.push(Node::Component(copy));
    Ok(())
}

/// An instance as an exception of its series, which says what the series says of it.
fn copy_of(object: &mut Object, id: &When, instance: &Instance) -> Option<Component> {
    let mut copy = object.component_mut(instance.event).map(|component| component.clone())?;
    for name in ["RRULE", "RDATE", "EXDATE", "DURATION", "RECURRENCE-ID"] {
        copy.set(name, Vec::new());
    }
    copy.set("DTSTART", vec![instance.start.line("DTSTART")]);
    copy.set("DTEND", vec![instance.end.line("DTEND")]);
    copy.set("RECURRENCE-ID", vec![id.line("RECURRENCE-ID")]);
    Some(copy)
}

/// Where the exception stands among the events that an instance is; it is made where it is not one yet.
pub(crate) fn exception_of(object: &mut Object, wanted: &When, home: &TimeZone) -> Result<usize, CalendarError> {
    let (_, id) = resolve(object, Scope::This, Some(wanted), home)?;
    let id = id.ok_or_else(|| CalendarError::NoInstance(wanted.shown(home)))?;
    if let Some(at) = object.exception(&id, home) {
        return Ok(at);
    }
    let none = || CalendarError::NoInstance(id.shown(home));
    let instance = object.instance(&id, home)?.ok_or_else(none)?;
    let copy = copy_of(object, &id, &instance).ok_or_else(none)?;
    object.root.nodes.push(Node::Component(copy));
    *object = Object::of(object.root.clone())?;
    Ok(object.events.len() - 1)
}

/// The series before an instance, and one of its own from that instance on.
fn split(
    object: &Object,
    id: &When,
    fresh: &str,
    now: Timestamp,
    home: &TimeZone,
) -> Result<(Object, Object), CalendarError> {
    let at = id.instant(home)?;
    let Some(master) = object.master() else { return Err(CalendarError::NoInstance(id.shown(home))) };
    let event = object.events[master].clone();
    let later = |when: &When| when.instant(home).is_ok_and(|when| when >= at);
    let (mut before, mut after) = (object.clone(), object.clone());
    let side = |event: usize| object.events[event].recurrence_id.as_ref().map(later);
    drop_events(&mut before, |event| side(event) == Some(true));
    drop_events(&mut after, |event| side(event) == Some(false));
    let (first_rule, rest_rule) = match &event.rule {
        Some(rule) => split_rule(rule, &event.start, id, home)?,
        None => (None, None),
    };
    let rule = |rule: Option<Rule>| rule.iter().map(|rule| Line::new("RRULE", &rule.text)).collect::<Vec<_>>();
    // A day excepts all that begins on it by the series' clock: of the instance's own day, in both.
    let day = event.start.of_instant(at, home).local().date();
    let on_side = |when: &When, wanted: bool| match when {
        When::Date(excepted) if !event.start.is_date() => {
            if wanted {
                *excepted >= day
            } else {
                *excepted <= day
            }
        }
        _ => later(when) == wanted,
    };
    let except = |wanted: bool| -> Vec<Line> {
        event.except.iter().filter(|when| on_side(when, wanted)).map(|when| when.line("EXDATE")).collect()
    };
    let extra = |wanted: bool, but: Option<&When>| -> Vec<Line> {
        // What brings a length of its own says more than the start does.
        let says = |at: &When, length: Option<Length>| Some(at) != but || length.is_some();
        let side = event.extra.iter().filter(|(at, length)| later(at) == wanted && says(at, *length));
        side.map(|(at, length)| extra_line(at, *length)).collect()
    };
    let master_of = |object: &Object| object.master().unwrap_or(0);
    let (at_before, zones) = (master_of(&before), before.timezones());
    if let Some(component) = before.component_mut(at_before) {
        component.set("RRULE", rule(first_rule));
        component.set("EXDATE", except(false));
        component.set("RDATE", extra(false, None));
        Change::default().apply(component, &zones, now, home)?;
    }
    let end = event.end_of(id, event.length, home)?;
    let master_after = master_of(&after);
    for n in 0..after.events.len() {
        let Some(component) = after.component_mut(n) else { continue };
        component.set("UID", vec![Line::new("UID", fresh)]);
        if n == master_after {
            component.set("DTSTART", vec![id.line("DTSTART")]);
            component.set("DURATION", Vec::new());
            component.set("DTEND", vec![end.line("DTEND")]);
            component.set("RRULE", rule(rest_rule.clone()));
            component.set("EXDATE", except(true));
            component.set("RDATE", extra(true, Some(id)));
        }
    }
    Ok((Object::of(before.root)?, Object::of(after.root)?))
}

/// A count is shared out; an end in time stays with the rest.
fn split_rule(
    rule: &Rule,
    start: &When,
    id: &When,
    home: &TimeZone,
) -> Result<(Option<Rule>, Option<Rule>), CalendarError> {
    if let Some(count) = rule.count {
        let all = walk(rule, start.local(), start.local(), id.local(), &|_| true, MAX_COUNT as usize)?;
        let done = u32::try_from(all.len()).unwrap_or(count);
        let part = |count: u32| (count > 0).then(|| rule.ending(Some(count), None));
        return Ok((part(done), part(count.saturating_sub(done))));
    }
    let until = match id {
        When::Date(day) => When::Date(day.yesterday().map_err(|_| CalendarError::OutOfRange(id.to_string()))?),
        When::Floating(at) => When::Floating(at.saturating_sub(SignedDuration::from_secs(1))),
        _ => {
            let at = id.instant(home)?.saturating_sub(SignedDuration::from_secs(1));
            let at = at.map_err(|_| CalendarError::OutOfRange(id.to_string()))?;
            When::Utc(at.to_zoned(TimeZone::UTC).datetime())
        }
    };
    Ok((Some(rule.ending(None, Some(until))), Some(rule.clone())))
}

impl Object {
    /// A new event.
    pub fn create(uid: &str, change: &Change, now: Timestamp, home: &TimeZone) -> Result<Self, CalendarError> {
        let (Some(start), Some(_)) = (&change.start, &change.title) else {
            return Err(CalendarError::Missing(if change.start.is_none() { "start" } else { "title" }));
        };
        let mut root = Component::new("VCALENDAR");
        root.nodes.push(Node::Line(Line::new("VERSION", "2.0")));
        root.nodes.push(Node::Line(Line::new("PRODID", "-//butlerd//calendar//EN")));
        let mut event = Component::new("VEVENT");
        event.nodes.push(Node::Line(Line::new("UID", uid)));
        event.nodes.push(Node::Line(start.line("DTSTART")));
        change.apply(&mut event, &[], now, home)?;
        root.nodes.push(Node::Component(event));
        Self::of(root)
    }

    /// Whether nothing of the series takes place any more in this window.
    pub fn is_empty(&self, window: Window, home: &TimeZone) -> Result<bool, CalendarError> {
        Ok(self.instances(window, home)?.is_empty())
    }
}
