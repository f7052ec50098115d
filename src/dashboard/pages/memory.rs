//! What butlers remember: searched with what each score is made of, what was done to it, and what a session was told.

use admin::Failure;
use admin::calls::{SessionsApiServer, TimelineApiServer};
use jiff::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sessions::EventKind;
use uuid::Uuid;

use super::answers::{look, not_now, read};
use super::journal::with_module;
use super::memory_one as one;
use super::memory_parts::{Event, KINDS, events};
use crate::form::encoded;
use crate::parts::{Tone, badge, crumbs, empty, line, note, said};
use crate::reply::{Answer, PageError, View};
use crate::route::{Route, get, post};
use crate::visit::Visit;

pub(crate) const ROUTES: &[Route] = &[
    get("/memory", |visit| Box::pin(list(visit))),
    get("/memory/told/*", |visit| Box::pin(told(visit))),
    get("/memory/*/*/*", |visit| Box::pin(one::show(visit))),
    post("/memory/*/*/*/edit", |visit| Box::pin(one::edit(visit))),
    post("/memory/*/*/*/forget", |visit| Box::pin(one::forget(visit))),
    get("/memory/*/*/*/purge", |visit| Box::pin(one::confirm(visit))),
    post("/memory/*/*/*/purge", |visit| Box::pin(one::purge(visit))),
    post("/memory/*/events/*/undo", |visit| Box::pin(one::undo(visit))),
];

/// Memories that a search shows, and events that a page of the history has.
const SHOWN: u32 = 25;
/// One of what `memory_search` answers.
#[derive(Deserialize)]
struct Hit {
    id: Uuid,
    #[serde(rename = "type")]
    kind: String,
    #[serde(alias = "occurred_at")]
    since: Option<Timestamp>,
    #[serde(alias = "speaker")]
    subject: Option<String>,
    predicate: Option<String>,
    #[serde(default)]
    content: String,
    score: Option<f64>,
    trust: Option<String>,
    parts: Option<Map<String, Value>>,
}

async fn list(visit: &Visit) -> Answer {
    let names = with_module(visit, "memory").await?;
    let wanted = visit.query.get("butler");
    let Some(butler) = wanted.or_else(|| names.first().map(String::as_str)) else {
        let body =
            empty("No running butler has a memory. Write [modules.memory] with enabled = true into a butler.toml.");
        return Ok(View::new("Memory", body).into());
    };
    if !names.iter().any(|name| name == butler) {
        return Err(PageError::invalid(format!("{butler} has no memory that can be asked.")));
    }
    let body = html! {
        p.tabs { @for name in &names {
            a href={ "/memory?butler=" (name) } aria-current=[(name == butler).then_some("true")] { (name) }
        } }
        (search_form(visit, butler))
        @if let Some(words) = visit.query.get("q") { (found(visit, butler, words).await.unwrap_or_else(|why| not_now(&why))) }
        @else { (past(visit, butler).await.unwrap_or_else(|why| not_now(&why))) }
    };
    Ok(View::new("Memory", body).into())
}

fn search_form(visit: &Visit, butler: &str) -> Markup {
    let kind = visit.query.get("type").unwrap_or_default();
    html! {
        form.line method="get" action="/memory" role="search" {
            input type="hidden" name="butler" value=(butler);
            label { "Search what it remembers" input type="search" name="q" value=(visit.query.get("q").unwrap_or_default()); }
            label { "Kind" select name="type" {
                option value="" { "all" }
                @for one in KINDS { option value=(one) selected[one == kind] { (one) "s" } }
            } }
            button.main type="submit" { "Search" }
        }
    }
}

async fn found(visit: &Visit, butler: &str, words: &str) -> Result<Markup, Failure> {
    let mut args = json!({"query": words, "limit": SHOWN, "explain": true});
    if let Some(kind) = visit.query.get("type").filter(|kind| KINDS.contains(kind)) {
        args["types"] = json!([kind]);
    }
    let answer: Value = look(visit, butler, "memory_search", args).await?;
    let hits: Vec<Hit> = read(answer["results"].clone())?;
    Ok(html! {
        h2 { "What was found" }
        @if answer["answered_by"] == "full_text" {
            (note(Tone::Quiet, &html! { "The index is being made; this is what the words alone find." }))
        }
        @if hits.is_empty() { (empty("No memory matches. Try other words.")) }
        ul.cards { @for hit in &hits { li { (hit_card(visit, butler, hit)) } } }
    })
}

fn hit_card(visit: &Visit, butler: &str, hit: &Hit) -> Markup {
    let about = [hit.subject.as_deref(), hit.predicate.as_deref()].into_iter().flatten().collect::<Vec<_>>().join(" ");
    html! {
        a href={ "/memory/" (butler) "/" (hit.kind) "/" (hit.id) } { (line(&hit.content, 300)) }
        div.dim { (hit.kind) @if !about.is_empty() { ", about " (line(&about.replace('_', " "), 80)) }
            @if let Some(since) = hit.since { ", " (visit.now.when(since)) }
            @if let Some(trust) = &hit.trust { ", from " (trust) } }
        @if let Some(score) = hit.score {
            details { summary { "Score " (format!("{score:.3}")) }
                dl.facts { @for (name, part) in hit.parts.iter().flatten() {
                    @if let Some(n) = part.as_f64().filter(|n| *n != 0.0) { dt { (name) } dd.num { (format!("{n:.3}")) } }
                } }
            }
        }
    }
}

async fn past(visit: &Visit, butler: &str) -> Result<Markup, Failure> {
    let before = visit.query.get("before").and_then(|n| n.parse::<i64>().ok()).filter(|n| *n > 0);
    let mut args = json!({"limit": SHOWN});
    if let Some(before) = before {
        args["before"] = json!(before);
    }
    let answer: Value = look(visit, butler, "memory_history", args).await?;
    let all: Vec<Event> = read(answer["events"].clone())?;
    Ok(html! {
        h2 { "What was done to memories" }
        (events(visit, butler, &all))
        @if let Some(next) = answer["next_before"].as_i64() {
            p { a href={ "/memory?butler=" (encoded(butler)) "&before=" (next) } { "What was done before" } }
        }
    })
}

/// What memory told a session as it began.
async fn told(visit: &Visit) -> Answer {
    let session: Uuid = visit.parsed(0)?;
    let detail = visit.calls.sessions_get(&visit.ext, session).await?;
    let page = visit.calls.sessions_events(&visit.ext, session, Some(0)).await?;
    let butler = &detail.session.butler;
    let recalled = page.events.iter().find_map(|event| match &event.kind {
        EventKind::Memory { recalled } => Some(recalled),
        _ => None,
    });
    let body = html! {
        (crumbs(&[("Memory", &format!("/memory?butler={butler}")), ("The session", &format!("/sessions/{session}"))]))
        @match recalled {
            None => (empty("It is not on record that memory was asked for this session.")),
            Some(recalled) => (recall(visit, butler, recalled).await.unwrap_or_else(|why| not_now(&why))),
        }
    };
    Ok(View::new("What memory told a session", body).into())
}

async fn recall(visit: &Visit, butler: &str, recalled: &Value) -> Result<Markup, Failure> {
    // A session that memory failed was told nothing, and its row has no ids.
    let ids =
        recalled["ids"].as_array().map(|_| read::<Vec<Uuid>>(recalled["ids"].clone())).unwrap_or(Ok(Vec::new()))?;
    let (mut all, many) = (Vec::new(), ids.len());
    for id in ids.into_iter().take(SHOWN as usize) {
        let story = look::<Value>(visit, butler, "memory_why", json!({"memory_id": id})).await;
        all.push((id, story));
    }
    Ok(html! {
        p { (badge(recalled["state"].as_str().unwrap_or("unknown")))
            @if let Some(tokens) = recalled["tokens"].as_u64() { ", about " (tokens) " tokens" }
            @if let Some(ms) = recalled["ms"].as_u64() { ", after " (ms) " ms" } }
        @if let Some(why) = recalled["why"].as_str() { (note(Tone::Warn, &html! { (why) })) }
        @if all.is_empty() { (empty("It was told nothing.")) }
        ul.cards { @for (id, story) in &all { li {
            @match story {
                Ok(story) => {
                    @let kind = story["memory_type"].as_str().unwrap_or("fact");
                    a href={ "/memory/" (butler) "/" (kind) "/" (id) } { (kind) }
                    (said(story["memory"]["content"].as_str().unwrap_or("It was forgotten.")))
                }
                Err(why) => (not_now(why)),
            }
        } } }
        @if many > all.len() { p.dim { "It was told " (many) " memories; these are the first " (all.len()) "." } }
    })
}
