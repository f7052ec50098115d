//! Calendars: what is when.

use async_trait::async_trait;
use jiff::Timestamp;
use jsonrpsee::Extensions;
use jsonrpsee::proc_macros::rpc;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::failure::Failure;
use super::rights::Need;
use super::rpc::Rpc;
use super::schedule_week::a_month;
use super::visitor::may;
use modules::calendar::{HouseEvent, house_events};

/// The household's calendars.
#[rpc(server, client, namespace = "butlerd", namespace_separator = ".")]
pub trait CalendarWeekApi {
    /// What takes place from one moment to another, at most a month, in the calendars that one butler or all see; at most
    /// 500 events. Scope `read`.
    #[method(name = "calendar_events", param_kind = map, with_extensions)]
    async fn calendar_events(
        &self,
        from: Timestamp,
        to: Timestamp,
        butler: Option<String>,
    ) -> Result<EventPage, Failure>;
}

/// What `calendar_events` answers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EventPage {
    /// The calendars that were looked into, by their names.
    pub calendars: Vec<String>,
    /// By their start.
    pub events: Vec<EventRow>,
    /// Whether there are more than are shown.
    pub more: bool,
    /// Repeating events of which nobody can say when they are.
    pub unreadable: usize,
}

/// An event, where it takes place once.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct EventRow {
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

impl From<HouseEvent> for EventRow {
    fn from(event: HouseEvent) -> Self {
        Self {
            event_id: event.event,
            calendar_id: event.calendar,
            starts_at: event.starts_at,
            ends_at: event.ends_at,
            all_day: event.all_day,
            start: event.start,
            end: event.end,
            title: event.title,
            location: event.location,
            status: event.status,
            busy: event.busy,
            trust: event.trust,
        }
    }
}

#[async_trait]
impl CalendarWeekApiServer for Rpc {
    async fn calendar_events(
        &self,
        ext: &Extensions,
        from: Timestamp,
        to: Timestamp,
        butler: Option<String>,
    ) -> Result<EventPage, Failure> {
        let grant = may(ext, Need::Look)?;
        a_month(from, to)?;
        let (butlers, down) = self.butlers(&grant, butler.as_deref()).await?;
        // What a calendar has in it does not depend on whether its butlers are up.
        let names = butlers.iter().map(|butler| butler.name().as_str());
        let names: Vec<&str> = names.chain(down.iter().map(|butler| butler.butler.as_str())).collect();
        let found = house_events(&self.supervisor.services().db, &grant.tenant, &names, (from, to)).await?;
        let events = found.events.into_iter().map(EventRow::from).collect();
        Ok(EventPage { calendars: found.calendars, events, more: found.more, unreadable: found.unreadable })
    }
}
