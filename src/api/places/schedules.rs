//! Schedules and calendars.

use std::collections::HashMap;

use admin::calls::{CalendarWeekApiServer, LooksApiServer, ScheduleWeekApiServer, SchedulesApiServer};
use admin::{CalendarRow, Failure, Need, OpenRun, RunRow, ScheduleRow};
use jiff::Timestamp;
use modules::calendar::HouseEvent;
use schemars::JsonSchema;
use serde::Deserialize;
use uuid::Uuid;

use super::messages::ListOf;
use super::sessions::ById;
use crate::endpoint::{Endpoint, get, post};
use crate::input::Nothing;
use crate::list::Page;
use crate::visit::Visit;

/// As many schedules, or runs, as are read of one butler.
const MOST: usize = 500;
/// As many runs, or times to come, as a calendar has of one schedule.
const MOST_MARKS: usize = 100;

pub(super) fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/schedules", "listSchedules", "Schedules, each with its last run", list),
        get("/schedules/running", "listRunning", "The runs at work and those that wait", running),
        get("/schedules/calendar", "getCalendar", "What ran, what was missed and what comes", calendar),
        get("/calendar/events", "listEvents", "What is in the calendars from one moment to another", events),
        get("/schedules/{id}", "getSchedule", "One schedule with its last run", one),
        get("/schedules/{id}/runs", "listRuns", "The runs of a schedule, the newest first", runs),
        post("/schedules/{id}/run", "runSchedule", "Run a schedule once, now; answered before the run has begun", run)
            .needs(Need::Work)
            .begins(),
        post("/schedules/{id}/pause", "pauseSchedule", "Pause a schedule", pause).needs(Need::Work),
        post("/schedules/{id}/resume", "resumeSchedule", "Let a paused schedule go on", resume).needs(Need::Work),
    ]
}

/// Whether a butler has as many rows as are read of one.
fn full<'a>(butlers: impl Iterator<Item = &'a str>) -> bool {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for butler in butlers {
        *counts.entry(butler).or_default() += 1;
    }
    counts.into_values().any(|count| count >= MOST)
}

/// Whose.
#[derive(Deserialize, JsonSchema)]
struct MaybeOf {
    /// Of this butler; without it of all.
    butler: Option<String>,
}

async fn list(visit: &Visit, of: MaybeOf) -> Result<Page<ScheduleRow>, Failure> {
    let found = visit.calls.schedule_list(&visit.ext, of.butler, None).await?;
    let full = full(found.schedules.iter().map(|row| row.butler.as_str()));
    Ok(visit.part(found.schedules, None::<String>, found.unavailable).cut(full))
}

async fn running(visit: &Visit, of: MaybeOf) -> Result<Page<OpenRun>, Failure> {
    let found = visit.calls.schedule_running(&visit.ext, of.butler).await?;
    let full = full(found.runs.iter().map(|row| row.butler.as_str()));
    Ok(visit.part(found.runs, None::<String>, found.unavailable).cut(full))
}

/// From when to when, at most a month.
#[derive(Deserialize, JsonSchema)]
struct Span {
    /// The first moment.
    from: Timestamp,
    /// The moment behind the last.
    to: Timestamp,
    /// Of this butler; without it of all.
    butler: Option<String>,
}

async fn calendar(visit: &Visit, span: Span) -> Result<Page<CalendarRow>, Failure> {
    let found = visit.calls.schedule_calendar(&visit.ext, span.from, span.to, span.butler).await?;
    let many = |row: &CalendarRow| row.runs.len() >= MOST_MARKS || row.coming.len() >= MOST_MARKS;
    let full = full(found.schedules.iter().map(|row| row.schedule.butler.as_str())) || found.schedules.iter().any(many);
    Ok(visit.part(found.schedules, None::<String>, found.unavailable).cut(full))
}

async fn events(visit: &Visit, span: Span) -> Result<Page<HouseEvent>, Failure> {
    let found = visit.calls.calendar_events(&visit.ext, span.from, span.to, span.butler).await?;
    Ok(visit.part(found.events, None::<String>, Vec::new()).cut(found.more || found.unreadable > 0))
}

async fn one(visit: &Visit, of: ById) -> Result<ScheduleRow, Failure> {
    Ok(visit.calls.schedule_show(&visit.ext, of.id.to_string(), None, Some(1)).await?.schedule)
}

async fn runs(visit: &Visit, of: ListOf) -> Result<Page<RunRow>, Failure> {
    let start = visit.start::<Uuid>(&of.paging)?;
    let found = visit.calls.schedule_runs(&visit.ext, of.id, start.at, start.one_more()).await?;
    visit.page_or(&start, (found, false), |run| run.run)
}

async fn run(visit: &Visit, of: ById, _: Nothing) -> Result<ScheduleRow, Failure> {
    visit.calls.schedule_start(&visit.ext, of.id.to_string(), None).await
}

async fn switch(visit: &Visit, of: ById, enabled: bool) -> Result<ScheduleRow, Failure> {
    Box::pin(visit.calls.schedule_switch(&visit.ext, of.id.to_string(), None, enabled)).await
}

async fn pause(visit: &Visit, of: ById, _: Nothing) -> Result<ScheduleRow, Failure> {
    switch(visit, of, false).await
}

async fn resume(visit: &Visit, of: ById, _: Nothing) -> Result<ScheduleRow, Failure> {
    switch(visit, of, true).await
}
