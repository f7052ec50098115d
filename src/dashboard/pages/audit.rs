//! The audit: every call of every tool; and what can be taken back.

use admin::calls::{AuditApiServer, HouseApiServer, UndoApiServer};
use admin::{AuditRow, UndoableCall, Undone};
use jiff::SignedDuration;
use maud::{Markup, html};
use tools::sql::audited::AuditFilter;
use uuid::Uuid;

use crate::form::encoded;
use crate::parts::{Tone, badge, count, crumbs, empty, json, line, none_of, note, unavailable};
use crate::reply::{Answer, PageError, View};
use crate::route::{Route, get, post};
use crate::time::length;
use crate::visit::Visit;

pub(crate) const ROUTES: &[Route] = &[
    get("/audit", |visit| Box::pin(list(visit))),
    get("/undo", |visit| Box::pin(undoable(visit))),
    post("/undo/*/*", |visit| Box::pin(undo(visit))),
    post("/undo-session/*", |visit| Box::pin(undo_session(visit))),
];

/// Calls that can be taken back, on a page.
const UNDOABLE: u32 = 50;
const OUTCOMES: [&str; 4] = ["ok", "refused", "error", "cancelled"];

async fn list(visit: &Visit) -> Answer {
    let query = &visit.query;
    let given = |name: &str| query.get(name).map(str::to_owned);
    let session = query.get("session").map(str::parse::<Uuid>).transpose();
    let session = session.map_err(|_| PageError::invalid("A session is named by its whole id."))?;
    let filter = AuditFilter { tool: given("tool"), session, outcome: given("outcome") };
    let status = visit.calls.status(&visit.ext).await?;
    let names: Vec<&str> = status.butlers.iter().filter(|b| !b.removed).map(|b| b.name.as_str()).collect();
    let page = visit.calls.audit_list(&visit.ext, given("butler"), filter, given("before"), None).await?;
    let kept: Vec<String> = ["butler", "tool", "session", "outcome"]
        .iter()
        .filter_map(|name| Some(format!("{name}={}", encoded(query.get(name)?))))
        .collect();
    let body = html! {
        form.line method="get" action="/audit" {
            (choice("butler", "Butler", &names, query.get("butler")))
            (choice("outcome", "Outcome", &OUTCOMES, query.get("outcome")))
            label { "Tool" input type="text" name="tool" value=(query.get("tool").unwrap_or_default()); }
            label { "Session" input type="text" name="session" value=(query.get("session").unwrap_or_default()); }
            button type="submit" { "Filter" }
        }
        (unavailable(&page.unavailable))
        @if page.calls.is_empty() { (none_of(&page.unavailable, "No call like this is on record.")) } @else { (table(visit, &page.calls)) }
        @if let Some(next) = &page.next {
            p { a href={ "/audit?" (kept.join("&")) "&before=" (encoded(next)) } { "Older" } }
        }
    };
    Ok(View::new("Audit", body).into())
}

fn choice(name: &str, label: &str, all: &[&str], chosen: Option<&str>) -> Markup {
    html! { label { (label) select name=(name) {
        option value="" { "All" }
        @for one in all { option value=(one) selected[chosen == Some(one)] { (one) } }
    } } }
}

fn table(visit: &Visit, rows: &[AuditRow]) -> Markup {
    html! { div.wide tabindex="0" { table {
        thead { tr { th { "When" } th { "Butler" } th { "Tool" } th { "Called by" } th { "Arguments" } th { "Outcome" } th.num { "Took" } } }
        tbody { @for row in rows { @let call = &row.call; tr {
            td { (visit.now.when(call.called_at)) }
            td { (row.butler) }
            td { a href={ "/audit?butler=" (encoded(&row.butler)) "&tool=" (encoded(&call.tool)) } { code { (call.tool) } }
                @if call.effect != "none" { div.dim { "changes something" } } }
            td { @match call.session_id {
                Some(session) => a href={ "/sessions/" (session) } { "a session" },
                None => (line(&call.caller, 40)),
            } }
            td.grow { details { summary { (line(&call.arguments.to_string(), 80)) } (json(&call.arguments)) } }
            td { (badge(&call.outcome)) @if let Some(detail) = &call.detail { div.dim { (line(detail, 200)) } } }
            td.num { (length(SignedDuration::from_micros(call.duration_us))) }
        } } }
    } } }
}

async fn undoable(visit: &Visit) -> Answer {
    let before = visit.query.get("before").map(str::to_owned);
    let newest = before.is_none();
    let page = visit.calls.undo_page(&visit.ext, None, before, Some(UNDOABLE)).await?;
    let body = html! {
        p { "What a butler changed can be put back, as long as nothing newer builds on it." }
        (unavailable(&page.unavailable))
        @if page.calls.is_empty() {
            (none_of(&page.unavailable, match newest && page.next.is_none() {
                true => "Nothing that was changed can be taken back.",
                false => "Nothing here can be taken back.",
            }))
        }
        ul.cards { @for call in &page.calls { li { (card(visit, call)) } } }
        @if let Some(next) = &page.next { p { a rel="next" href={ "/undo?before=" (encoded(next)) } { "Older" } } }
    };
    Ok(View::new("Undo", body).live_if(newest, "house").into())
}

fn card(visit: &Visit, call: &UndoableCall) -> Markup {
    html! {
        strong { (call.butler) } " called " code { (call.tool) } " " span.dim { (visit.now.when(call.called_at)) }
        div.dim {
            @match &call.by {
                Some(tool) => { "taken back by the tool " code { (tool) } }
                None => { (count(call.rows)) " rows changed" }
            }
            @if let Some(at) = call.begun_at { " · being taken back since " (visit.now.when(at)) }
        }
        @if let Some(why) = &call.why { (note(Tone::Warn, &html! { (why) })) }
        (visit.button(&format!("/undo/{}", call.call), "Undo", "danger", &[]))
        @if let Some(session) = call.session_id {
            a href={ "/sessions/" (session) } { "Its session" } " "
            (visit.button(&format!("/undo-session/{session}"), "Undo all of that session", "plain", &[]))
        }
    }
}

async fn undo(visit: &Visit) -> Answer {
    let undone = visit.calls.undo_call(&visit.ext, visit.part(0).to_owned(), visit.parsed(1)?).await?;
    Ok(done(visit, &undone))
}

async fn undo_session(visit: &Visit) -> Answer {
    let undone = visit.calls.undo_session(&visit.ext, visit.parsed(0)?).await?;
    Ok(done(visit, &undone))
}

/// What was taken back and what was not: it is only known now, so it is told now.
fn done(visit: &Visit, undone: &Undone) -> crate::reply::Reply {
    let body = html! {
        (crumbs(&[("Undo", "/undo")]))
        @if undone.calls.is_empty() { (empty("Nothing was taken back.")) }
        ul.rows { @for call in &undone.calls {
            li { code { (call.tool) } " " @match &call.by {
                Some(tool) => { "was taken back by " code { (tool) } }
                None => { (count(call.rows)) " rows are as they were" }
            } }
        } }
        @if let Some(undo) = &undone.undo {
            p { "This undo can be undone: " } (visit.button(&format!("/undo/{undo}"), "Undo that", "danger", &[]))
        }
        @if !undone.left.is_empty() { (note(Tone::Warn, &html! { "No way back is known of: " (undone.left.join(", ")) })) }
        @if let Some(why) = &undone.stopped { (note(Tone::Bad, &html! { (why) })) }
    };
    View::new("Taken back", body).into()
}
