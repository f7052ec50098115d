//! Projects: what developers' assistants remember of each repository, and how its upkeep and its hooks stand.

use admin::calls::LocalAnswersApiServer;
use admin::{ProjectExchange, ProjectPage, ProjectRow, Unavailable};
use jiff::Timestamp;
use maud::{Markup, html};
use serde_json::Value;
use uuid::Uuid;

use super::journal::with_module;
use crate::parts::{Tone, count, crumbs, empty, json, line, said, toned, unavailable};
use crate::reply::{Answer, PageError, View};
use crate::route::{Route, get};
use crate::visit::Visit;

pub(crate) const ROUTES: &[Route] =
    &[get("/projects", |visit| Box::pin(list(visit))), get("/projects/*/*", |visit| Box::pin(one(visit)))];

async fn list(visit: &Visit) -> Answer {
    let butlers = with_module(visit, "project_memory").await?;
    let (mut found, mut down) = (Vec::new(), Vec::new());
    for butler in &butlers {
        match visit.calls.project_list(&visit.ext, butler.clone()).await {
            Ok(rows) => found.extend(rows.into_iter().map(|row| (butler.as_str(), row))),
            Err(why) => down.push(Unavailable { butler: butler.clone(), reason: why.message }),
        }
    }
    let body = html! {
        (unavailable(&down))
        @if butlers.is_empty() {
            (empty("No butler remembers projects. Write [modules.project_memory] into a butler's butler.toml."))
        } @else if found.is_empty() && down.is_empty() {
            (empty("No project yet. In a repository: butlerd project init"))
        } @else if !found.is_empty() { (rows(visit, &found)) }
    };
    Ok(View::new("Projects", body).live("house").into())
}

fn rows(visit: &Visit, found: &[(&str, ProjectRow)]) -> Markup {
    html! { div.wide tabindex="0" { table {
        thead { tr { th { "Project" } th { "Where it comes from" } th { "Since" } th.num { "Memories" } } }
        tbody { @for (butler, row) in found { tr {
            td { a href={ "/projects/" (butler) "/" (row.id) } { (row.name) } }
            td.grow { (origin(row)) }
            td { (moment(visit, &row.created_at)) }
            td.num { (count(row.memories)) }
        } } }
    } } }
}

/// Its address, or that it comes from nowhere.
fn origin(row: &ProjectRow) -> Markup {
    html! {
        @match row.origin.as_deref().filter(|origin| !origin.is_empty()) {
            Some(origin) => (line(origin, 200)),
            None => span.dim { "here alone" },
        }
    }
}

fn moment(visit: &Visit, at: &Value) -> Markup {
    visit.now.maybe(at.as_str().and_then(|at| at.parse::<Timestamp>().ok()))
}

async fn one(visit: &Visit) -> Answer {
    let (butler, id) = (visit.part(0).to_owned(), visit.parsed::<Uuid>(1)?);
    if !with_module(visit, "project_memory").await?.contains(&butler) {
        return Err(PageError::nothing_here());
    }
    let page = Box::pin(visit.calls.project_show(&visit.ext, butler.clone(), id)).await?;
    let body = html! {
        (crumbs(&[("Projects", "/projects"), (&butler, &format!("/butlers/{butler}"))]))
        (facts(visit, &page))
        h2 { "Of the last seven days" }
        (upkeep(visit, &page.report))
        h2 { "Exchange with other machines" }
        (exchanges(visit, &page.exchanges))
        h2 { "What is remembered" }
        (memories(visit, &page))
    };
    Ok(View::new(page.project.name.clone(), body).into())
}

fn facts(visit: &Visit, page: &ProjectPage) -> Markup {
    let (row, index) = (&page.project, &page.health["index"]);
    html! { dl.facts {
        dt { "Memories" } dd { (count(row.memories)) }
        dt { "From" } dd { (origin(row)) }
        @if let Some(commit) = row.root_commit.as_deref().filter(|commit| !commit.is_empty()) { dt { "First commit" } dd { code { (commit) } } }
        dt { "Since" } dd { (moment(visit, &row.created_at)) }
        dt { "Index" } dd { @if index["ready"] == true { (toned(Tone::Good, "ready")) } @else { (toned(Tone::Quiet, "made when somebody asks")) } }
        @if let Some(kinds) = page.stats["type_distribution"].as_object().filter(|kinds| !kinds.is_empty()) {
            dt { "By kind" } dd { (counts(kinds)) }
        }
        @if let Some(tags) = page.stats["tag_distribution"].as_object().filter(|tags| !tags.is_empty()) {
            dt { "By tag" } dd { (counts(tags)) }
        }
        dt { "Id" } dd { code { (row.id) } }
    } }
}

fn counts(of: &serde_json::Map<String, Value>) -> String {
    of.iter().map(|(name, n)| format!("{name} {n}")).collect::<Vec<_>>().join(", ")
}

fn upkeep(visit: &Visit, report: &Value) -> Markup {
    let runs = report["runs"].as_array().cloned().unwrap_or_default();
    let events = report["events"].as_object().cloned().unwrap_or_default();
    html! {
        @if events.is_empty() { (empty("Nothing was done.")) } @else { p { (counts(&events)) } }
        @if !runs.is_empty() { h3 { "What changed several at once" } ul.rows { @for run in &runs { li {
            (moment(visit, &run["at"])) " " (run["did"].as_str().unwrap_or("something").replace('_', " ")) ", "
            (run["memories"].as_i64().map_or_else(|| "unknown".to_owned(), count)) " memories"
            @if run["taken_back"] == true { " " (toned(Tone::Quiet, "taken back")) }
        } } } }
    }
}

/// Who exchanges memories over the repository, and how that stands.
fn exchanges(visit: &Visit, all: &[ProjectExchange]) -> Markup {
    if all.is_empty() {
        return empty("No machine has exchanged its memories yet. In the repository: butlerd project sync");
    }
    html! { div.wide tabindex="0" { table {
        thead { tr { th { "Machine" } th { "Pushed" } th { "Took in" } th { "Last try" } } }
        tbody { @for one in all { tr {
            td { (line(&one.identity, 80)) }
            td { (visit.now.maybe(one.pushed_at)) }
            td { (visit.now.maybe(one.pulled_at)) }
            td.grow { (visit.now.when(one.noted_at)) " "
                @match &one.error { Some(why) => { (toned(Tone::Bad, "failed")) div.dim { (line(why, 300)) } }, None => (toned(Tone::Good, "done")) } }
        } } }
    } } }
}

/// The newest memories, each as the module records it.
fn memories(visit: &Visit, page: &ProjectPage) -> Markup {
    let all = page.memories.as_array().cloned().unwrap_or_default();
    html! {
        @if all.is_empty() { (empty("Nothing yet.")) }
        ul.cards { @for memory in &all { li {
            (said(memory["content"].as_str().unwrap_or_default()))
            div.dim { (memory["experience_type"].as_str().or(memory["memory_type"].as_str()).unwrap_or("memory")) ", " (moment(visit, &memory["created_at"])) }
            details { summary { "All that is noted of it" } (json(memory)) }
        } } }
        @if i64::try_from(all.len()).is_ok_and(|shown| shown < page.project.memories) {
            p.dim { "The newest " (all.len()) "; " code { "butlerd project" } " shows all." }
        }
    }
}
