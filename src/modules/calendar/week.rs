//! What is when in the household, for the eyes of whoever looks after it. No session reads it.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::Row;
use uuid::Uuid;

use super::days;
use super::layout::Layout;
use super::sql::{self, Unprojected};
use base::TenantId;
use calendar::{CalendarError, Object, Zone};
use store::{Database, StoreError};

/// Events that are shown of a time.
const MOST: i64 = 500;

/// An event, where it takes place once.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "EventRow")]
pub struct HouseEvent {
    pub event_id: Uuid,
    /// The calendar's name.
    pub calendar_id: String,
    pub starts_at: Timestamp,
    /// The first moment after it.
    pub ends_at: Timestamp,
    /// Whether it is of whole days.
    pub all_day: bool,
    /// As it is written: a date if it is of whole days, else a time with its offset.
    pub start: String,
    /// The first day or time after it.
    pub end: String,
    pub title: String,
    pub location: String,
    /// `confirmed`, `tentative` or `cancelled`.
    pub status: String,
    /// Whether its time counts as taken.
    pub busy: bool,
    /// Whose words it has: `owner`, `system`, `known` or `stranger`.
    pub trust: String,
}

/// What is when.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct HouseEvents {
    /// The calendars that were looked into, by their names.
    pub calendars: Vec<String>,
    /// Those of them that are not as their servers have them, or were never read.
    #[serde(default)]
    pub not_current: Vec<String>,
    /// By their start.
    pub events: Vec<HouseEvent>,
    /// Whether there are more than are shown.
    pub more: bool,
    /// Repeating events of which nobody can say when they are.
    pub unreadable: usize,
}

/// What takes place from one moment to another in all calendars that these butlers see. Whole days are those of `home`.
///
/// # Errors
///
/// The database.
pub async fn house_events(
    house: &Database,
    tenant: &TenantId,
    butlers: &[&str],
    (from, to): (Timestamp, Timestamp),
    home: &TimeZone,
) -> Result<HouseEvents, StoreError> {
    let mut lease = house.shared(tenant).await?;
    let named = sql::all_named(&mut lease, butlers).await?;
    let not_current = named.iter().filter(|(_, behind)| *behind).map(|(name, _)| name.clone()).collect();
    let calendars = named.into_iter().map(|(name, _)| name).collect();
    // One more says whether that was all.
    let rows = sql::all_listed(&mut lease, butlers, &sql::Looked::new((from, to), home), MOST + 1).await?;
    let events = rows.iter().map(|row| of(row, home)).collect();
    let mut found = HouseEvents { calendars, not_current, events, ..HouseEvents::default() };
    // Who only looks lays nothing out for others: it would be without what a butler's settings say.
    for event in sql::unprojected(&mut lease, butlers, from, to).await? {
        found.events.retain(|listed| listed.event_id != event.row.id);
        match instances(&event, (from, to), home) {
            Ok(more) => found.events.extend(more),
            // A task or a note is at no time.
            Err(CalendarError::NoEvent) => {}
            Err(_) => found.unreadable += 1,
        }
    }
    found.events.sort_by_key(|event| (event.starts_at, event.ends_at, event.event_id));
    found.more = found.events.len() > MOST as usize;
    found.events.truncate(MOST as usize);
    Ok(found)
}

/// When a repeating event takes place.
fn instances(
    event: &Unprojected,
    (from, to): (Timestamp, Timestamp),
    home: &TimeZone,
) -> Result<Vec<HouseEvent>, CalendarError> {
    let zone = Zone::named(&event.time_zone).map_or(TimeZone::UTC, |zone| zone.tz);
    let layout = Layout { home: &zone, ahead: SignedDuration::ZERO, own: &[] };
    let object = Object::read(&event.row.ics)?;
    let laid = layout.laid_out(&object, (from, to))?;
    let time = |row: &Value, name: &str| row[name].as_str().and_then(|text| text.parse::<Timestamp>().ok());
    let of = |row: &Value| {
        let (start, end) = (time(row, "starts_at")?, time(row, "ends_at")?);
        let times = days::times(row["shown"]["all_day"] == true, (start, end), home);
        let within = times.0 < to && (times.1 > from || times.0 == times.1 && times.0 >= from);
        within
            .then(|| HouseEvent::new((event.row.id, event.calendar.clone()), times, &row["shown"], event.trust.clone()))
    };
    Ok(laid.as_array().into_iter().flatten().filter_map(of).collect())
}

impl HouseEvent {
    fn new(
        (event_id, calendar_id): (Uuid, String),
        (starts_at, ends_at): (Timestamp, Timestamp),
        shown: &Value,
        trust: String,
    ) -> Self {
        let text = |name: &str| shown[name].as_str().unwrap_or_default().to_owned();
        Self {
            event_id,
            calendar_id,
            starts_at,
            ends_at,
            all_day: shown["all_day"].as_bool().unwrap_or(false),
            start: text("start_at"),
            end: text("end_at"),
            title: text("title"),
            location: text("location"),
            status: shown["status"].as_str().unwrap_or("confirmed").to_owned(),
            busy: shown["busy"].as_bool().unwrap_or(true),
            trust,
        }
    }
}

fn of(row: &Row, home: &TimeZone) -> HouseEvent {
    let times = days::of(row, home);
    HouseEvent::new((row.get("event"), row.get("name")), times, &row.get("shown"), row.get("trust"))
}
