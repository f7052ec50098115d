//! One butler: who it is, how it is, what it does and can do, and a way to give it work.

use admin::calls::{HouseApiServer, LooksApiServer, SchedulesApiServer, SessionsApiServer, WorkApiServer};
use admin::{ScheduleRow, SkillInfo, ToolInfo, Unavailable};
use butler::ButlerStatus;
use maud::{Markup, html};
use modules::Health;
use serde::Deserialize;
use serde_json::json;
use sessions::ModelState;

use super::answers::{look, or_not_now};
use super::{sessions as shown, tools};
use crate::parts::{Tone, badge, count, crumbs, empty, line, none_of, note, said, toned, unavailable};
use crate::reply::{Answer, Did, PageError, Reply, View};
use crate::route::{Route, get, post};
use crate::time::length;
use crate::visit::Visit;

pub(crate) const ROUTES: &[Route] = &[
    get("/butlers/*", |visit| Box::pin(show(visit))),
    post("/butlers/*/trigger", |visit| Box::pin(trigger(visit))),
    get("/butlers/*/tools/*", |visit| Box::pin(tools::show(visit))),
    post("/butlers/*/tools/*", |visit| Box::pin(tools::call(visit))),
];

/// So many of its sessions; the rest is a click away.
const SHOWN: u32 = 12;

/// A note to self, as `notes_list` answers it.
#[derive(Deserialize)]
struct Note {
    note_id: i64,
    note: String,
    trust: String,
    told_to_sessions: bool,
    session_id: Option<uuid::Uuid>,
    created_at: jiff::Timestamp,
}

async fn show(visit: &Visit) -> Answer {
    let (calls, ext, name) = (&visit.calls, &visit.ext, visit.part(0));
    let status = status_of(visit, name).await?;
    let own = || name.to_owned();
    let (sessions, schedules, notes, skills, tools) = tokio::join!(
        calls.sessions_list(ext, Some(own()), Some(SHOWN)),
        calls.schedule_list(ext, Some(own()), None),
        look::<Vec<Note>>(visit, name, "notes_list", json!({})),
        calls.skill_list(ext, own()),
        calls.tool_list(ext, own()),
    );
    let body = html! {
        (crumbs(&[("Home", "/")]))
        (state(&status))
        (facts(visit, &status))
        @if visit.may_work() && status.state == butler::ButlerState::Up { (ask(visit, name)) }
        (super::cards::cards(visit, name).await)
        div.columns {
            section aria-labelledby="modules" { h2 #modules { "Modules" } (modules_of(&status)) }
            section aria-labelledby="schedules" { h2 #schedules { "Schedules" }
                (or_not_now(&schedules, |page| schedules_of(visit, &page.schedules, &page.unavailable)))
            }
            section aria-labelledby="notes" { h2 #notes { "Notes to self" }
                (or_not_now(&notes, |all| notes_of(visit, all)))
            }
        }
        section aria-labelledby="sessions" { h2 #sessions { "Last sessions" }
            (or_not_now(&sessions, |page| html! {
                (shown::table(visit, &page.sessions, &page.unavailable))
                @if page.sessions.len() >= SHOWN as usize { p { a href={ "/sessions?butler=" (name) } { "All its sessions" } } }
            }))
        }
        section aria-labelledby="skills" { h2 #skills { "Skills" }
            (or_not_now(&skills, |all| html! { details { summary { "All " (all.len()) " skills" } (skills_of(all)) } }))
        }
        section aria-labelledby="tools" { h2 #tools { "Tools" }
            (or_not_now(&tools, |all| html! { details { summary { "All " (all.len()) " tools" } (tools_of(name, all)) } }))
        }
    };
    Ok(View::new(name, body).live(format!("butler/{name}")).with_plots().into())
}

/// How a butler of this name is. A name that nobody has is a page that there is not.
async fn status_of(visit: &Visit, name: &str) -> Result<ButlerStatus, PageError> {
    let house = visit.calls.status(&visit.ext).await?;
    house.butlers.into_iter().find(|butler| butler.name == name).ok_or_else(PageError::nothing_here)
}

/// What keeps it from its work.
fn state(status: &ButlerStatus) -> Markup {
    html! {
        @if let Some(error) = &status.error {
            (note(Tone::Bad, &html! { @if let Some(phase) = &status.failed_phase { strong { (phase) ": " } } (error) }))
        }
        @if let Some(more) = &status.note { (note(Tone::Warn, &html! { (more) })) }
        @if status.removed { (note(Tone::Warn, &html! { "The roster does not have it any more. Its data is kept." })) }
    }
}

fn facts(visit: &Visit, status: &ButlerStatus) -> Markup {
    let took: f64 = status.boot_phases.iter().map(|phase| phase.ms).sum();
    html! {
        @if !status.description.is_empty() { (said(&status.description)) }
        dl.facts {
            dt { "State" } dd { (badge(status.state.as_str())) " since " (visit.now.when(status.since)) }
            dt { "At work" } dd { (status.sessions_running) " sessions run, " (status.sessions_queued) " wait" }
            @if let Some(port) = status.port { dt { "Port" } dd { (port) } }
            @if let Some(model) = &status.model { dt { "Model" } dd { (model_of(model)) } }
            @if status.restarts > 0 { dt { "Started again" } dd { (status.restarts) " times" } }
            @if status.interrupted_sessions > 0 {
                dt { "Found unfinished" } dd { (status.interrupted_sessions) " sessions, at its last start" }
            }
            @if !status.boot_phases.is_empty() { dt { "Start took" } dd {
                (length(jiff::SignedDuration::try_from_secs_f64(took / 1000.0).unwrap_or_default()))
            } }
        }
    }
}

fn model_of(model: &ModelState) -> Markup {
    html! {
        (model.runtime) @if let Some(name) = &model.model { ", " (line(name, 80)) } " "
        @if model.ready { (toned(Tone::Good, "ready")) } @else { (toned(Tone::Bad, "not ready")) }
        @if let Some(why) = &model.reason { div.dim { (line(why, 300)) } }
    }
}

/// Words that begin a session of it.
fn ask(visit: &Visit, name: &str) -> Markup {
    html! {
        details { summary { "Give it work" }
            form method="post" action={ "/butlers/" (name) "/trigger" } {
                (visit.proof())
                label { "What it shall do" textarea name="prompt" rows="3" required {} }
                button.main type="submit" { "Begin a session" }
            }
        }
    }
}

async fn trigger(visit: &Visit) -> Answer {
    let name = visit.part(0).to_owned();
    let prompt =
        visit.form.get("prompt").ok_or_else(|| PageError::invalid("Write what it shall do, then try again."))?;
    let started = visit.calls.trigger_start(&visit.ext, name, prompt.to_owned(), None).await?;
    Ok(Reply::Go { to: format!("/sessions/{}", started.session_id), did: Did::Started })
}

fn modules_of(status: &ButlerStatus) -> Markup {
    html! {
        @if status.modules.is_empty() { (empty("It has none. They are switched on in its butler.toml.")) }
        ul.rows { @for (name, module) in &status.modules { li {
            strong { (name) } " "
            @if !module.enabled { (toned(Tone::Quiet, "off")) }
            @else if module.health == Health::Active { (badge("active")) }
            @else { (toned(Tone::Bad, &word(&module.health))) }
            @if let Some(error) = &module.failure_error {
                div.dim { @if let Some(phase) = &module.failure_phase { (word(phase)) ": " } (line(error, 400)) }
            }
            @if let Some(more) = &module.note { div.dim { (line(more, 400)) } }
            @for (task, health) in &module.tasks {
                @if !health.well() {
                    div.dim { "task " (task) ": " (word(&health.state)) @if let Some(error) = &health.error { ", " (line(error, 300)) } }
                }
            }
        } } }
    }
}

/// A name of a list of names, as the wire has it.
fn word(name: &impl serde::Serialize) -> String {
    serde_json::to_value(name)
        .ok()
        .and_then(|name| name.as_str().map(|name| name.replace('_', " ")))
        .unwrap_or_default()
}

fn schedules_of(visit: &Visit, rows: &[ScheduleRow], down: &[Unavailable]) -> Markup {
    html! {
        (unavailable(down))
        @if rows.is_empty() { (none_of(down, "It does nothing by itself. Make a schedule with: butlerd schedule add")) }
        ul.rows { @for row in rows { li {
            a href={ "/schedules/" (row.id) } { (row.name) } " "
            @if row.paused { (badge("paused")) } @else if let Some(next) = row.next_run_at { "next " (visit.now.when(next)) }
            @else { span.dim { "no next time" } }
            @if let Some(last) = &row.last { " " (badge(&last.state)) " " span.dim { (visit.now.when(last.fire_at)) } }
        } } }
    }
}

fn notes_of(visit: &Visit, notes: &[Note]) -> Markup {
    html! {
        @if notes.is_empty() { (empty("It has noted nothing for its later sessions.")) }
        ul.rows { @for note in notes { li {
            "[" (note.note_id) "] " (note.note)
            div.dim { "behind it: " (note.trust)
                @if !note.told_to_sessions { ", not told to sessions" } ", " (visit.now.when(note.created_at))
                @if let Some(session) = note.session_id { " in " a href={ "/sessions/" (session) } { "a session" } } }
        } } }
    }
}

fn skills_of(all: &[SkillInfo]) -> Markup {
    html! {
        @if all.is_empty() { (empty("It has none. A skill is a directory with a SKILL.md below its skills directory.")) }
        ul.rows { @for skill in all { li {
            strong { (skill.name) } @if let Some(version) = &skill.version { " " span.dim { (line(version, 40)) } }
            @if skill.shared { " " (toned(Tone::Quiet, "shared")) }
            div { (line(&skill.description, 600)) }
        } } }
    }
}

/// Its tools, each a click from being tried.
fn tools_of(butler: &str, all: &[ToolInfo]) -> Markup {
    html! {
        @if all.is_empty() { (empty("You may call none of its tools.")) }
        @else { p.dim { (count(all.len() as i128)) " tools. Each opens with a form to try it." } }
        ul.rows { @for tool in all { li {
            a href={ "/butlers/" (butler) "/tools/" (crate::form::encoded(&tool.name)) } { code { (tool.name) } } " "
            @if tool.effect == "none" { (toned(Tone::Quiet, "only reads")) }
            div.dim { (line(&tool.description, 200)) }
        } } }
    }
}
