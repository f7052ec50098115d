//! One `VEVENT` as people mean it.

use calcard::icalendar::{
    ICalendar, ICalendarComponentType, ICalendarEntry, ICalendarParameterName, ICalendarProperty, ICalendarValue,
};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Span};
use serde::{Deserialize, Serialize};

use crate::text::{Component, Line};
use crate::{CalendarError, Rule, When, Zone};

/// Colours by Google's ids, from 1 on, as CSS calls what is near (RFC 7986, 5.9).
pub const COLORS: &[&str] =
    &["lavender", "seagreen", "purple", "salmon", "gold", "coral", "skyblue", "dimgray", "blue", "green", "crimson"];

/// Whether an event takes place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    #[default]
    Confirmed,
    Tentative,
    Cancelled,
}

impl Status {
    pub fn word(self) -> &'static str {
        match self {
            Self::Confirmed => "CONFIRMED",
            Self::Tentative => "TENTATIVE",
            Self::Cancelled => "CANCELLED",
        }
    }
}

/// Somebody who is asked to come.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Attendee {
    pub email: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// His answer, as `accepted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    #[serde(default)]
    pub optional: bool,
}

/// How long an event lasts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Length {
    /// By the clock on the wall: from nine to five is from nine to five on each day.
    Wall(SignedDuration),
    /// In time that passes, for an end in another zone than the start.
    Exact(SignedDuration),
}

/// An event, or one exception of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub uid: String,
    pub title: String,
    pub description: String,
    pub location: String,
    pub status: Status,
    /// Whether the time counts as taken.
    pub busy: bool,
    /// `public`, `private` or `confidential`.
    pub visibility: String,
    /// A name as in [`COLORS`], or another of CSS.
    pub color: Option<String>,
    pub start: When,
    /// Not in the event any more; the day after the last for all-day events.
    pub end: When,
    pub rule: Option<Rule>,
    pub organizer: Option<String>,
    pub attendees: Vec<Attendee>,
    pub sequence: i64,
    /// Minutes before the start at which the household reminds of it; alarms of other programs are theirs.
    pub reminder: Option<u32>,
    /// The zone that its start names and nobody knows: its times are read as the household's.
    pub unknown_zone: Option<String>,
    /// Of an exception: which instance it replaces.
    pub recurrence_id: Option<When>,
    /// Whether an exception goes on for all later instances.
    pub this_and_future: bool,
    pub(crate) extra: Vec<(When, Option<Length>)>,
    pub(crate) except: Vec<When>,
    pub(crate) length: Length,
}

/// Marks an alarm as the household's own.
pub(crate) const OWN_ALARM: &str = "X-BUTLERD";

/// Whether those who are asked to come may change an event, where its provider says so.
pub const GUESTS_WRITE: &str = "X-BUTLERD-GUESTS-WRITE";

/// Four weeks, as for people who ask for a reminder.
const MOST_MINUTES: u32 = 40_320;
/// Letters of an unknown zone's name that are kept.
const MOST_ZONE: usize = 100;

/// How long before the start an alarm of the household's own is.
fn minutes(alarm: &Component) -> Option<u32> {
    let minutes: u32 = alarm.line("TRIGGER")?.value.strip_prefix("-PT")?.strip_suffix('M')?.parse().ok()?;
    // Whoever writes into the calendar may mark one so.
    (minutes <= MOST_MINUTES).then_some(minutes)
}

impl Event {
    pub fn repeats(&self) -> bool {
        self.rule.is_some() || !self.extra.is_empty()
    }

    /// When an instance of this event ends that begins at `start`.
    pub(crate) fn end_of(&self, start: &When, length: Length, home: &TimeZone) -> Result<When, CalendarError> {
        let zone = start.zone(home);
        match length {
            Length::Exact(time) => {
                let at = start.instant(home)?.checked_add(time);
                let at = at.map_err(|_| CalendarError::OutOfRange(start.to_string()))?;
                Ok(self.end.of_instant(at, home))
            }
            // A start in the hour that the clock skips is shown an hour later, and so is its end.
            Length::Wall(time) if start.is_date() => start.plus(time),
            Length::Wall(time) => start.at(settled(start.local(), &zone)).plus(time),
        }
    }

    pub(crate) fn read(component: &Component, zones: &dyn Fn(&str) -> Option<Zone>) -> Result<Self, CalendarError> {
        let words = words(component)?;
        let text = |property: ICalendarProperty| {
            let entry = words.iter().find(|entry| entry.name == property);
            entry.map(text_of).unwrap_or_default()
        };
        let time = |line: &Line| when(line, &line.value, zones);
        let line = component.line("DTSTART").ok_or(CalendarError::Missing("start (DTSTART)"))?;
        let start = time(line)?;
        let unknown_zone = line.param("TZID").filter(|_| matches!(start, When::Floating(_)));
        let end = component.line("DTEND").map(time).transpose()?;
        let length = match (&end, component.line("DURATION")) {
            (Some(end), _) => length_between(&start, end)?,
            (None, Some(line)) => Length::Wall(duration(&line.value)?),
            (None, None) if start.is_date() => Length::Wall(SignedDuration::from_hours(24)),
            (None, None) => Length::Wall(SignedDuration::ZERO),
        };
        let rule = component.line("RRULE").map(|line| line.value.parse::<Rule>()).transpose()?;
        let mut extra = Vec::new();
        for line in component.lines("RDATE") {
            for value in line.value.split(',') {
                extra.push(extra_of(line, value.trim(), zones)?);
            }
        }
        let mut except = Vec::new();
        for line in component.lines("EXDATE") {
            for value in line.value.split(',') {
                except.push(when(line, value.trim(), zones)?);
            }
        }
        let recurrence = component.line("RECURRENCE-ID");
        let status = text(ICalendarProperty::Status).to_ascii_lowercase();
        let mut event = Self {
            uid: component.line("UID").map(|line| line.value.clone()).unwrap_or_default(),
            title: text(ICalendarProperty::Summary),
            description: text(ICalendarProperty::Description),
            location: text(ICalendarProperty::Location),
            status: match component.line("STATUS").map_or(status, |line| line.value.to_ascii_lowercase()).as_str() {
                "tentative" => Status::Tentative,
                "cancelled" => Status::Cancelled,
                _ => Status::Confirmed,
            },
            busy: component.line("TRANSP").is_none_or(|line| !line.value.eq_ignore_ascii_case("TRANSPARENT")),
            visibility: component.line("CLASS").map_or_else(|| "public".to_owned(), |l| l.value.to_ascii_lowercase()),
            color: component.line("COLOR").map(|line| line.value.trim().to_ascii_lowercase()).filter(|c| c.len() < 40),
            end: start.clone(),
            rule,
            organizer: words.iter().find(|e| e.name == ICalendarProperty::Organizer).and_then(address),
            attendees: words.iter().filter(|e| e.name == ICalendarProperty::Attendee).filter_map(attendee).collect(),
            sequence: component.line("SEQUENCE").and_then(|line| line.value.trim().parse().ok()).unwrap_or(0),
            reminder: component.components("VALARM").filter(|alarm| alarm.line(OWN_ALARM).is_some()).find_map(minutes),
            unknown_zone: unknown_zone.map(|id| id.chars().take(MOST_ZONE).collect()),
            recurrence_id: recurrence.map(time).transpose()?,
            this_and_future: recurrence.and_then(|line| line.param("RANGE")).is_some(),
            extra,
            except,
            length,
            start,
        };
        event.end = match end {
            Some(end) => end,
            None => event.end_of(&event.start, length, &TimeZone::UTC)?,
        };
        if event.uid.is_empty() {
            return Err(CalendarError::Missing("UID"));
        }
        Ok(event)
    }
}

/// What the clock shows at that time: an hour later, where it skips the time.
pub(crate) fn settled(local: DateTime, zone: &TimeZone) -> DateTime {
    zone.to_timestamp(local).map_or(local, |at| at.to_zoned(zone.clone()).datetime())
}

fn length_between(start: &When, end: &When) -> Result<Length, CalendarError> {
    let mixed = || CalendarError::invalid("DTEND", &end.to_string(), "start and end are both days or both times");
    if start.is_date() != end.is_date() {
        return Err(mixed());
    }
    let same = match (start, end) {
        (When::Zoned(_, a), When::Zoned(_, b)) => a.tz == b.tz,
        (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
    };
    // An end before the start is what some programs write; the event is then a moment, as it is for other readers.
    if same {
        return Ok(Length::Wall(end.local().duration_since(start.local()).max(SignedDuration::ZERO)));
    }
    let (from, to) = (start.instant(&TimeZone::UTC)?, end.instant(&TimeZone::UTC)?);
    Ok(Length::Exact(to.duration_since(from).max(SignedDuration::ZERO)))
}

fn duration(value: &str) -> Result<SignedDuration, CalendarError> {
    let wrong = || CalendarError::invalid("DURATION", value, "write it as PT1H30M or P1D");
    let span: Span = value.trim().parse().map_err(|_| wrong())?;
    // Days are days of the clock on the wall, which has 24 hours on each.
    let time = span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()).map_err(|_| wrong())?;
    if time.is_negative() || time.as_hours() > 24 * 4_000 { Err(wrong()) } else { Ok(time) }
}

fn when(line: &Line, value: &str, zones: &dyn Fn(&str) -> Option<Zone>) -> Result<When, CalendarError> {
    let zone = line.param("TZID").and_then(|id| zones(&id));
    When::read(&line.name, value, zone.as_ref())
}

/// A further time, which may bring its own length (`VALUE=PERIOD`).
fn extra_of(
    line: &Line,
    value: &str,
    zones: &dyn Fn(&str) -> Option<Zone>,
) -> Result<(When, Option<Length>), CalendarError> {
    let Some((start, end)) = value.split_once('/') else { return Ok((when(line, value, zones)?, None)) };
    let start = when(line, start, zones)?;
    let length = match end.starts_with(['P', 'p']) {
        true => Length::Wall(duration(end)?),
        false => length_between(&start, &when(line, end, zones)?)?,
    };
    Ok((start, Some(length)))
}

/// The properties of a component as `calcard` reads them: unescaped, with their parameters.
fn words(component: &Component) -> Result<Vec<ICalendarEntry>, CalendarError> {
    let mut bytes = b"BEGIN:VCALENDAR\r\n".to_vec();
    component.write(&mut bytes);
    bytes.extend_from_slice(b"\r\nEND:VCALENDAR\r\n");
    let text = String::from_utf8_lossy(&bytes);
    let read = ICalendar::parse(text.as_ref());
    let read = read.map_err(|_| CalendarError::NotCalendar("an event in it can't be read".to_owned()))?;
    let event = read.components.into_iter().find(|c| c.component_type == ICalendarComponentType::VEvent);
    Ok(event.map(|event| event.entries).unwrap_or_default())
}

fn text_of(entry: &ICalendarEntry) -> String {
    // A text with commas may come in parts, although only lists have them.
    let parts: Vec<&str> = entry.values.iter().filter_map(ICalendarValue::as_text).collect();
    parts.join(",")
}

fn address(entry: &ICalendarEntry) -> Option<String> {
    let address = entry.calendar_address()?.trim();
    (!address.is_empty()).then(|| address.to_owned())
}

fn attendee(entry: &ICalendarEntry) -> Option<Attendee> {
    let param =
        |name: ICalendarParameterName| entry.parameter(&name).and_then(|value| value.as_text()).map(ToOwned::to_owned);
    Some(Attendee {
        email: address(entry)?,
        name: param(ICalendarParameterName::Cn),
        answer: param(ICalendarParameterName::Partstat).map(|word| word.to_ascii_lowercase()),
        optional: param(ICalendarParameterName::Role).is_some_and(|role| role.eq_ignore_ascii_case("OPT-PARTICIPANT")),
    })
}
