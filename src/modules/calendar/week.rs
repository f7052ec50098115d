//! What is when in the household, for the eyes of whoever looks after it. No session reads it.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio_postgres::Row;
use uuid::Uuid;

use super::layout::{CoverError, Layout};
use super::sql;
use base::TenantId;
use calendar::Zone;
use store::{Database, StoreError};

/// Events that are shown of a time.
const MOST: i64 = 500;

/// An event, where it takes place once.
#[derive(Clone, Debug)]
pub struct HouseEvent {
    pub event: Uuid,
    /// The calendar's name.
    pub calendar: String,
    pub starts_at: Timestamp,
    /// The first moment after it.
    pub ends_at: Timestamp,
    /// Whether it is of whole days.
    pub all_day: bool,
    /// As it is written: a date for whole days, else a time with its offset.
    pub start: String,
    pub end: String,
    pub title: String,
    pub location: String,
    /// `confirmed`, `tentative` or `cancelled`.
    pub status: String,
    /// Whether its time counts as taken.
    pub busy: bool,
    /// How far its words are believed: `owner`, `system`, `known` or `stranger`.
    pub trust: String,
}

/// What is when.
#[derive(Clone, Debug, Default)]
pub struct HouseEvents {
    /// The calendars that were looked into, by their names.
    pub calendars: Vec<String>,
    /// By their start.
    pub events: Vec<HouseEvent>,
    /// Whether there are more than are shown.
    pub more: bool,
    /// Events of which nobody can say when they are.
    pub unreadable: usize,
}

/// What takes place from one moment to another in all calendars that these butlers see.
///
/// # Errors
///
/// The database.
pub async fn house_events(
    house: &Database,
    tenant: &TenantId,
    butlers: &[&str],
    (from, to): (Timestamp, Timestamp),
) -> Result<HouseEvents, StoreError> {
    let mut lease = house.shared(tenant).await?;
    let mut unreadable = 0;
    for event in sql::unprojected(&mut lease, butlers, from, to).await? {
        let home = Zone::named(&event.time_zone).map_or(TimeZone::UTC, |zone| zone.tz);
        let layout = Layout { home: &home, ahead: SignedDuration::ZERO };
        match layout.cover(&mut lease, &event, (from, to)).await {
            Ok(()) => {}
            Err(CoverError::Store(e)) => return Err(e),
            Err(_) => unreadable += 1,
        }
    }
    let calendars = sql::all_named(&mut lease, butlers).await?;
    // One more says whether that was all.
    let mut rows = sql::all_listed(&mut lease, butlers, (from, to), MOST + 1).await?;
    let more = i64::try_from(rows.len()).is_ok_and(|found| found > MOST);
    rows.truncate(usize::try_from(MOST).unwrap_or(0));
    Ok(HouseEvents { calendars, events: rows.iter().map(of).collect(), more, unreadable })
}

fn of(row: &Row) -> HouseEvent {
    let shown: Value = row.get("shown");
    let text = |name: &str| shown[name].as_str().unwrap_or_default().to_owned();
    HouseEvent {
        event: row.get("event"),
        calendar: row.get("name"),
        starts_at: row.get("starts_at"),
        ends_at: row.get("ends_at"),
        all_day: shown["all_day"].as_bool().unwrap_or(false),
        start: text("start_at"),
        end: text("end_at"),
        title: text("title"),
        location: text("location"),
        status: text("status"),
        busy: shown["busy"].as_bool().unwrap_or(true),
        trust: row.get("trust"),
    }
}
