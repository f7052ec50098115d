//! The week: what is in the calendars, what schedules do, and one schedule with its history, to pause or run.

use admin::calls::{CalendarWeekApiServer, LooksApiServer, ScheduleWeekApiServer, SchedulesApiServer};
use admin::{CalendarRow, RunRow, ScheduleDetail, ScheduleRow};
use jiff::ToSpan;
use jiff::civil::Date;
use maud::{Markup, html};
use modules::calendar::{HouseEvent, HouseEvents};
use uuid::Uuid;

use super::week::{Week, mark_of};
use crate::parts::{Tone, badge, count, crumbs, empty, line, money, none_of, note, said, toned, unavailable};
use crate::reply::{Answer, Did, PageError, Reply, View};
use crate::route::{Route, get, post};
use crate::visit::Visit;

pub(crate) const ROUTES: &[Route] = &[
    get("/schedules", |visit| Box::pin(list(visit))),
    get("/schedules/*", |visit| Box::pin(one(visit))),
    post("/schedules/*/pause", |visit| Box::pin(switch(visit, false))),
    post("/schedules/*/resume", |visit| Box::pin(switch(visit, true))),
    post("/schedules/*/run", |visit| Box::pin(run(visit))),
];

/// Runs of one schedule's history.
const SHOWN: u32 = 50;

async fn list(visit: &Visit) -> Answer {
    let week = week_of(visit)?;
    let page = visit.calls.schedule_calendar(&visit.ext, week.from(), week.to(), None).await?;
    let events = visit.calls.calendar_events(&visit.ext, week.from(), week.to(), None).await;
    let body = html! {
        (unavailable(&page.unavailable))
        @let shown = events.as_ref().map_or(&[][..], |events| &events.events);
        @if !(page.schedules.is_empty() && shown.is_empty() && week.is_this()) {
            (turn(&week))
            (week.draw(shown, &page.schedules))
            (legend(!shown.is_empty()))
        }
        @match &events {
            Ok(events) => (calendar(&week, events)),
            Err(e) => (note(Tone::Warn, &html! { "The calendars can't be read just now: " (e.message) })),
        }
        @if page.schedules.is_empty() {
            (none_of(&page.unavailable, "Nothing is done by itself. Make a schedule with: butlerd schedule add"))
        } @else {
            h2 { "All schedules" }
            (rows(visit, &page.schedules))
        }
    };
    Ok(View::new("Schedules", body).live("house").into())
}

/// The week that is asked for, else this one.
fn week_of(visit: &Visit) -> Result<Week, PageError> {
    let day = match visit.query.get("week") {
        Some(day) => {
            day.parse::<Date>().map_err(|_| PageError::invalid("A week is named by a day, such as 2026-01-31."))?
        }
        None => visit.now.zoned(visit.now.at).date(),
    };
    Week::of(day, &visit.now).ok_or_else(|| PageError::invalid("There is no such week."))
}

/// To the weeks beside it.
fn turn(week: &Week) -> Markup {
    let (before, after) = (week.monday.saturating_sub(7.days()), week.monday.saturating_add(7.days()));
    html! { p.tabs {
        a href={ "/schedules?week=" (before) } { "The week before" }
        a href="/schedules" aria-current=[week.is_this().then_some("true")] { "This week" }
        a href={ "/schedules?week=" (after) } { "The week after" }
    } }
}

/// What is in the calendars.
fn calendar(week: &Week, page: &HouseEvents) -> Markup {
    html! {
        @if !page.not_current.is_empty() {
            (note(Tone::Warn, &html! {
                "Not as their servers have them: " (line(&page.not_current.join(", "), 300)) ". What is missing is not shown."
            }))
        }
        @if page.unreadable > 0 {
            (note(Tone::Warn, &html! {
                "Nobody can say when " (count(page.unreadable as i128)) " events are, so they are not shown: "
                code { "butlerd calendar list" } " names them."
            }))
        }
        @if page.events.is_empty() && !page.calendars.is_empty() {
            (empty("Nothing is in the calendars this week."))
        } @else if !page.events.is_empty() {
            h2 { "In the calendars" }
            div.wide tabindex="0" { table {
                thead { tr { th { "When" } th { "What" } th { "Where" } th { "Calendar" } } }
                tbody { @for (n, event) in page.events.iter().enumerate() { (event_row(week, n, event)) } }
            } }
            @if page.more { p.dim { "The first " (count(page.events.len() as i128)) " of the week." } }
        }
    }
}

fn event_row(week: &Week, n: usize, event: &HouseEvent) -> Markup {
    html! { tr id={ "event-" (n) } {
        td { (week.times(event)) }
        td {
            (line(&event.title, 200))
            @if event.status != "confirmed" { " " (badge(&event.status)) }
            @if !event.busy { " " (toned(Tone::Quiet, "takes no time")) }
            @if event.trust == "stranger" { " " (toned(Tone::Warn, "stranger")) }
        }
        td { (line(&event.location, 100)) }
        td { (line(&event.calendar_id, 60)) }
    } }
}

fn legend(events: bool) -> Markup {
    html! { p.legend {
        @if events { (toned(Tone::Busy, "an event")) " " }
        (toned(Tone::Good, "done")) " " (toned(Tone::Bad, "failed")) " " (toned(Tone::Warn, "missed or left out")) " "
        (toned(Tone::Busy, "at work or waiting")) " " (toned(Tone::Quiet, "to come, as an outline"))
    } }
}

fn rows(visit: &Visit, all: &[CalendarRow]) -> Markup {
    html! { div.wide tabindex="0" { table {
        thead { tr { th { "Schedule" } th { "Butler" } th { "When" } th { "Next" } th { "Last" } th.num { "Cost" } } }
        tbody { @for CalendarRow { schedule: row, .. } in all { tr {
            td { a href={ "/schedules/" (row.id) } { (row.name) } }
            td { a href={ "/butlers/" (row.butler) } { (row.butler) } }
            td { (when(visit, row)) }
            td { (next(visit, row)) }
            td { @if let Some(last) = &row.last { (outcome(last)) " " (visit.now.when(last.fire_at)) } @else { span.dim { "never ran" } } }
            td.num { @if let Some(last) = &row.last { (cost(last)) } @else { "–" } }
        } } }
    } } }
}

/// What makes it due.
fn when(visit: &Visit, row: &ScheduleRow) -> Markup {
    html! {
        @if let Some(cron) = &row.cron { code { (cron) } @if let Some(zone) = &row.timezone { " " span.dim { (zone) } } }
        @else if let Some(every) = &row.every { "every " (every) }
        @else if let Some(at) = row.at { "once, " (visit.now.when(at)) }
        @else { span.dim { "unknown" } }
    }
}

fn next(visit: &Visit, row: &ScheduleRow) -> Markup {
    html! {
        @if row.paused { (badge("paused")) }
        @else if let Some(at) = row.next_run_at.filter(|_| row.enabled) { (visit.now.when(at)) }
        @else { span.dim { "none" } }
    }
}

/// What became of a run.
fn outcome(run: &RunRow) -> Markup {
    let (tone, word) = mark_of(run);
    toned(tone, word)
}

/// A run that had no session costs nothing; what a session costs may be unknown.
fn cost(run: &RunRow) -> Markup {
    html! { @if run.session_id.is_none() && run.cost_usd.is_none() { "–" } @else { (money(run.cost_usd)) } }
}

async fn one(visit: &Visit) -> Answer {
    let id: Uuid = visit.parsed(0)?;
    let ScheduleDetail { schedule, history } =
        visit.calls.schedule_show(&visit.ext, id.to_string(), None, Some(SHOWN)).await?;
    let body = html! {
        (crumbs(&[("Schedules", "/schedules"), (&schedule.butler, &format!("/butlers/{}", schedule.butler))]))
        (facts(visit, &schedule))
        @if visit.may_work() { (actions(visit, &schedule)) }
        @if let Some(prompt) = &schedule.prompt { h2 { "What it asks" } (said(prompt)) }
        @if let Some(job) = &schedule.job_name {
            h2 { "What it does" } p { "The job " code { (job) } }
            @if let Some(args) = schedule.job_args.as_ref().filter(|args| !args.is_null()) { (crate::parts::json(args)) }
        }
        h2 { "History" }
        (past(visit, &history))
        @if history.len() >= SHOWN as usize { p.dim { "The newest " (count(i128::from(SHOWN))) " runs." } }
    };
    let at = format!("butler/{}", schedule.butler);
    Ok(View::new(schedule.name, body).live(at).into())
}

fn facts(visit: &Visit, row: &ScheduleRow) -> Markup {
    html! { dl.facts {
        dt { "State" } dd { @if row.paused { (badge("paused")) } @else if row.enabled { (badge("active")) } @else { (toned(Tone::Quiet, "off")) } }
        dt { "When" } dd { (when(visit, row)) }
        dt { "Next" } dd { (next(visit, row)) }
        @if let Some(from) = row.start_at { dt { "From" } dd { (visit.now.when(from)) } }
        @if let Some(until) = row.until_at { dt { "Until" } dd { (visit.now.when(until)) } }
        dt { "If it is missed" } dd { (row.missed.replace('_', " ")) ", within " (row.missed_window) }
        dt { "If one still runs" } dd { (row.overlap.replace('_', " ")) }
        dt { "Priority" } dd { (row.priority) @if row.require_idle { ", only when its butler has no session" } }
        dt { "From where" } dd { (row.source.replace('_', " ")) }
        dt { "Id" } dd { code { (row.id) } }
    } }
}

fn actions(visit: &Visit, row: &ScheduleRow) -> Markup {
    let at = |what: &str| format!("/schedules/{}/{what}", row.id);
    let form = |to: String, look: &str, name: &str| {
        html! { form.inline method="post" action=(to) { (visit.proof()) button class=(look) type="submit" { (name) } } }
    };
    html! { p {
        (form(at("run"), "main", "Run now"))
        @if row.paused { (form(at("resume"), "", "Let it go on")) } @else if row.enabled { (form(at("pause"), "", "Pause")) }
    } }
}

fn past(visit: &Visit, history: &[RunRow]) -> Markup {
    if history.is_empty() {
        return empty("It has not run yet.");
    }
    html! { div.wide tabindex="0" { table {
        thead { tr { th { "When" } th { "Outcome" } th { "Why" } th.num { "Cost" } th { "Session" } } }
        tbody { @for run in history { tr {
            td { (visit.now.when(run.fire_at))
                @if run.times > 1 { div.dim { (run.times) @if run.more { " or more" } " times"
                    @if let Some(until) = run.until { ", until " (visit.now.words(until)) } } } }
            td { (outcome(run)) @if run.cause != "slot" { div.dim { (run.cause) } } }
            td.grow { @if let Some(reason) = &run.reason { (line(reason, 300)) } }
            td.num { (cost(run)) }
            td { @if let Some(session) = run.session_id { a href={ "/sessions/" (session) } { "see it" } } @else { span.dim { "–" } } }
        } } }
    } } }
}

async fn switch(visit: &Visit, enabled: bool) -> Answer {
    let id: Uuid = visit.parsed(0)?;
    visit.calls.schedule_switch(&visit.ext, id.to_string(), None, enabled).await?;
    Ok(Reply::Go { to: format!("/schedules/{id}"), did: if enabled { Did::Resumed } else { Did::Paused } })
}

does! {
    run(visit, id) = schedule_start(id.to_string(), None) -> format!("/schedules/{id}"), Started;
}
