//! The instances of an event within a window.

use std::collections::BTreeSet;

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::event::Length;
use crate::rule::Rule;
use crate::walk::walk;
use crate::{CalendarError, Event, Object, When};

/// Instances of one event in one window.
pub const MAX_INSTANCES: usize = 10_000;
const LONGEST: SignedDuration = SignedDuration::from_hours(24 * 3_660);

/// What is looked at: from `from` to before `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub from: Timestamp,
    pub to: Timestamp,
}

impl Window {
    pub fn new(from: Timestamp, to: Timestamp) -> Result<Self, CalendarError> {
        match to.duration_since(from) {
            span if span <= SignedDuration::ZERO => Err(CalendarError::Window("its end is not after its start")),
            span if span > LONGEST => Err(CalendarError::Window("at most ten years are looked at")),
            _ => Ok(Self { from, to }),
        }
    }
    fn has(&self, start: Timestamp, end: Timestamp) -> bool {
        start < self.to && (end > self.from || (start == end && start >= self.from))
    }
}

/// One taking place of an event.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    /// Where the series has it, whatever was changed of it since: its name within the series.
    pub id: When,
    pub start: When,
    pub end: When,
    /// Which of the object's events says what it is.
    pub event: usize,
}

/// An exception that goes on for all later instances.
struct Onward {
    from: Timestamp,
    moved: SignedDuration,
    event: usize,
}

impl Object {
    /// The instances that overlap the window, by their start. Days and floating times are those of `home`.
    pub fn instances(&self, window: Window, home: &TimeZone) -> Result<Vec<Instance>, CalendarError> {
        let mut found = Vec::new();
        let mut replaced: BTreeSet<Timestamp> = BTreeSet::new();
        let mut onward = Vec::new();
        for (at, event) in self.events.iter().enumerate() {
            let Some(id) = &event.recurrence_id else { continue };
            // Older versions of the same exception count for nothing.
            if self.exception(id, home) != Some(at) || self.is_excepted(id, self.day_of(id, home)?, home)? {
                continue;
            }
            replaced.insert(id.instant(home)?);
            if event.this_and_future {
                // By the clock of the event, whatever form its name has.
                let named = if id.is_date() { id.clone() } else { event.start.of_instant(id.instant(home)?, home) };
                let moved = event.start.local().duration_since(named.local());
                onward.push(Onward { from: id.instant(home)?, moved, event: at });
            }
            let instance = Instance { id: id.clone(), start: event.start.clone(), end: event.end.clone(), event: at };
            push(&mut found, instance, window, home)?;
        }
        onward.sort_by_key(|exception| exception.from);
        if let Some(at) = self.master() {
            self.regular(at, window, home, &replaced, &onward, &mut found)?;
        }
        found.sort_by_cached_key(|instance| instance.start.instant(home).ok());
        Ok(found)
    }

    /// The instance of this name, if the series has it.
    pub fn instance(&self, id: &When, home: &TimeZone) -> Result<Option<Instance>, CalendarError> {
        let at = id.instant(home)?;
        // Exceptions may have moved it far away, so those are looked at first.
        if let Some(event) = self.exception(id, home) {
            let seen = &self.events[event];
            return Ok(Some(Instance { id: id.clone(), start: seen.start.clone(), end: seen.end.clone(), event }));
        }
        let day = SignedDuration::from_hours(48);
        let range = |_| CalendarError::OutOfRange(id.to_string());
        let window = Window { from: at.checked_sub(day).map_err(range)?, to: at.checked_add(day).map_err(range)? };
        let all = self.instances(window, home)?;
        Ok(all.into_iter().find(|instance| instance.id.instant(home) == Ok(at)))
    }

    /// All but the exceptions.
    fn regular(
        &self,
        at: usize,
        window: Window,
        home: &TimeZone,
        replaced: &BTreeSet<Timestamp>,
        onward: &[Onward],
        found: &mut Vec<Instance>,
    ) -> Result<(), CalendarError> {
        let event = &self.events[at];
        let longest = onward.iter().map(|exception| &self.events[exception.event]).chain([event]);
        let longest = longest.map(|event| days_of(event.length)).max().unwrap_or(0);
        let moved = onward.iter().map(|exception| exception.moved.abs().as_hours() / 24 + 1).max().unwrap_or(0);
        let mut seen = BTreeSet::new();
        for (start, own_length) in starts(event, window, longest + moved + 2, home)? {
            let instant = start.instant(home)?;
            if !seen.insert(instant)
                || replaced.contains(&instant)
                || self.is_excepted(&start, start.local().date(), home)?
            {
                continue;
            }
            let exception = onward.iter().rev().find(|exception| exception.from < instant);
            let (which, begin) = match exception {
                Some(exception) => (exception.event, start.plus(exception.moved)?),
                None => (at, start.clone()),
            };
            let source = &self.events[which];
            let end = source.end_of(&begin, own_length.unwrap_or(source.length), home)?;
            push(found, Instance { id: start, start: begin, end, event: which }, window, home)?;
        }
        Ok(())
    }

    /// On which day by the series' own clock that is which this names, whatever form the name has.
    fn day_of(&self, id: &When, home: &TimeZone) -> Result<Date, CalendarError> {
        let own = self.master().map(|at| &self.events[at].start).filter(|start| !start.is_date() && !id.is_date());
        let named = own.map(|start| Ok(start.of_instant(id.instant(home)?, home))).transpose()?;
        Ok(named.unwrap_or_else(|| id.clone()).local().date())
    }

    /// Whether nothing takes place there, on this day. A day that was added is the one that its own text has.
    fn is_excepted(&self, start: &When, day: Date, home: &TimeZone) -> Result<bool, CalendarError> {
        let Some(at) = self.master() else { return Ok(false) };
        let event = &self.events[at];
        let instant = start.instant(home)?;
        for except in &event.except {
            // A day excepts all that begins on it.
            if except.is_date() && except.local().date() == day || except.instant(home)? == instant {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn push(found: &mut Vec<Instance>, instance: Instance, window: Window, home: &TimeZone) -> Result<(), CalendarError> {
    let (start, end) = (instance.start.instant(home)?, instance.end.instant(home)?);
    if !window.has(start, end.max(start)) {
        return Ok(());
    }
    if found.len() == MAX_INSTANCES {
        return Err(CalendarError::TooMany { limit: MAX_INSTANCES });
    }
    found.push(instance);
    Ok(())
}

fn days_of(length: Length) -> i64 {
    match length {
        Length::Wall(time) | Length::Exact(time) => time.as_hours() / 24 + 1,
    }
}

/// When the series begins anew, around the window; more often than once each, perhaps.
fn starts(
    event: &Event,
    window: Window,
    margin: i64,
    home: &TimeZone,
) -> Result<Vec<(When, Option<Length>)>, CalendarError> {
    let start = &event.start;
    let mut all = event.extra.clone();
    for (extra, _) in &mut all {
        // A day among times begins at midnight, and a time among days is its day.
        if extra.is_date() != start.is_date() {
            *extra = start.at(extra.local());
        }
    }
    // Where a rule ends before even the event's own start, nothing takes place.
    if event.rule.as_ref().is_none_or(|rule| !is_past(rule, start, home)) {
        all.push((start.clone(), None));
    }
    let Some(rule) = &event.rule else { return Ok(all) };
    let zone = start.zone(home);
    let margin = SignedDuration::from_hours(24 * margin.clamp(0, 40_000));
    let local = |at: Timestamp| at.to_zoned(zone.clone()).datetime();
    let from = local(window.from.saturating_sub(margin).unwrap_or(window.from));
    let to = local(window.to.saturating_add(margin).unwrap_or(window.to));
    let may = |at: DateTime| !is_past(rule, &start.at(at), home);
    // A little more than may be in the window: the walk looks around it.
    for at in walk(rule, start.local(), from, to, &may, 2 * MAX_INSTANCES)? {
        all.push((start.at(at), None));
    }
    Ok(all)
}

/// Whether this is behind `UNTIL`, whose kind should be that of the start, and often is not.
fn is_past(rule: &Rule, at: &When, home: &TimeZone) -> bool {
    let Some(until) = &rule.until else { return false };
    match at {
        When::Date(day) => *day > until.local().date(),
        When::Floating(at) => *at > until.local(),
        // A day, or a time without a zone, is read as UTC, as other readers do.
        _ => match until.instant(&TimeZone::UTC) {
            Ok(until) => at.instant(home).is_ok_and(|at| at > until),
            Err(_) => false,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Object;

    #[test]
    fn a_day_excepts_what_begins_on_it_by_the_event_s_own_clock() {
        let event = |more: &str| {
            format!("BEGIN:VEVENT\r\nUID:1\r\nDTSTAMP:20260101T000000Z\r\nDURATION:PT15M\r\n{more}END:VEVENT\r\n")
        };
        let daily = "DTSTART;TZID=America/New_York:20261114T230000\r\nRRULE:FREQ=DAILY;COUNT=3\r\n\
                     EXDATE;VALUE=DATE:20261115\r\n";
        // In New York its name is the evening of the 14th.
        let moved = "DTSTART;TZID=America/New_York:20261116T100000\r\nRECURRENCE-ID:20261115T040000Z\r\n";
        let all = format!("BEGIN:VCALENDAR\r\nVERSION:2.0\r\n{}{}END:VCALENDAR\r\n", event(daily), event(moved));
        let object = Object::read(all.as_bytes()).unwrap();
        let window = ("2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z");
        let window = Window::new(window.0.parse().unwrap(), window.1.parse().unwrap()).unwrap();
        let found = object.instances(window, &TimeZone::UTC).unwrap();
        let at: Vec<String> = found.iter().map(|one| one.start.instant(&TimeZone::UTC).unwrap().to_string()).collect();
        assert_eq!(at, ["2026-11-16T15:00:00Z", "2026-11-17T04:00:00Z"]);
    }
}
