//! What a calendar keeps under one UID: an event and its exceptions.

use calcard::icalendar::ICalendar;
use jiff::tz::TimeZone;

use crate::text::{self, Component, Node};
use crate::{CalendarError, Event, When, Zone, zone_rules};

const MAX_EVENTS: usize = 1_000;

/// One calendar object resource (RFC 4791, 4.1).
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    pub(crate) root: Component,
    /// In the order of the text's `VEVENT`s.
    pub events: Vec<Event>,
}

impl Object {
    /// Reads an iCalendar text with the events of one UID.
    pub fn read(bytes: &[u8]) -> Result<Self, CalendarError> {
        Self::of(text::read(bytes)?)
    }

    pub(crate) fn of(root: Component) -> Result<Self, CalendarError> {
        let zones = zones_of(&root);
        let mut events = Vec::new();
        for component in root.components("VEVENT") {
            if events.len() == MAX_EVENTS {
                return Err(CalendarError::NotCalendar(format!("it has more than {MAX_EVENTS} events")));
            }
            events.push(Event::read(component, &zones)?);
        }
        let Some(first) = events.first() else {
            return Err(CalendarError::NoEvent);
        };
        if events.iter().any(|event| event.uid != first.uid) {
            return Err(CalendarError::NotCalendar("it has events of several UIDs".to_owned()));
        }
        Ok(Self { root, events })
    }

    /// The text, for a server or a file.
    pub fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.root.write(&mut out);
        out
    }

    pub fn uid(&self) -> &str {
        self.events.first().map_or("", |event| &event.uid)
    }

    /// Where the series itself stands among the events; `None`: only exceptions came, as with an invitation to one of
    /// its instances.
    pub fn master(&self) -> Option<usize> {
        let masters = self.events.iter().enumerate().filter(|(_, event)| event.recurrence_id.is_none());
        masters.max_by_key(|(at, event)| (event.sequence, std::cmp::Reverse(*at))).map(|(at, _)| at)
    }

    /// The event that stands for all: the series, or the first exception.
    pub fn main(&self) -> &Event {
        &self.events[self.master().unwrap_or(0)]
    }

    pub fn repeats(&self) -> bool {
        self.master().is_some_and(|at| self.events[at].repeats())
    }

    /// Exceptions by the instance that they replace; of several the newest.
    pub(crate) fn exception(&self, of: &When, home: &TimeZone) -> Option<usize> {
        let wanted = of.instant(home).ok()?;
        let is_it = |event: &Event| event.recurrence_id.as_ref().and_then(|id| id.instant(home).ok()) == Some(wanted);
        let found = self.events.iter().enumerate().filter(|(_, event)| is_it(event));
        found.max_by_key(|(at, event)| (event.sequence, std::cmp::Reverse(*at))).map(|(at, _)| at)
    }

    /// The event that an instance is shown as, which a day or a time of it names: its exception, or the series.
    pub fn shown_as(&self, of: &When, home: &TimeZone) -> &Event {
        let main = self.main();
        let of = if main.start.is_date() { When::Date(of.local().date()) } else { of.clone() };
        self.exception(&of, home).map_or(main, |at| &self.events[at])
    }

    /// The zones that the text brings along.
    pub(crate) fn timezones(&self) -> Vec<Component> {
        self.root.components("VTIMEZONE").cloned().collect()
    }

    /// The component of an event.
    pub(crate) fn component_mut(&mut self, event: usize) -> Option<&mut Component> {
        let events = self.root.nodes.iter_mut().filter_map(|node| match node {
            Node::Component(inner) if inner.name == "VEVENT" => Some(inner),
            _ => None,
        });
        events.into_iter().nth(event)
    }
}

/// By name; what the name doesn't say, the text's own `VTIMEZONE` may, which `calcard` knows how to read. Its rules are used
/// where that names no zone of the house's database, which is newer.
fn zones_of(root: &Component) -> impl Fn(&str) -> Option<Zone> + use<> {
    let mut own = Component::new("VCALENDAR");
    own.nodes.extend(root.components("VTIMEZONE").cloned().map(Node::Component));
    let mut bytes = Vec::new();
    own.write(&mut bytes);
    let calendar = ICalendar::parse(String::from_utf8_lossy(&bytes).as_ref()).unwrap_or_default();
    let resolver = calendar.build_owned_tz_resolver();
    move |id: &str| {
        let named = || TimeZone::get(resolver.resolve(id)?.name()?.as_ref()).ok();
        let of_rules = || {
            let is_it = |zone: &&Component| zone.line("TZID").is_some_and(|line| line.value == id);
            zone_rules::zone_of(own.components("VTIMEZONE").find(is_it)?)
        };
        // Unknown zones are read as the household's, and the event says so: better one that is hours off than none.
        let tz = || named().or_else(of_rules);
        Zone::named(id).ok().or_else(|| Some(Zone { id: id.to_owned(), tz: tz()? }))
    }
}
