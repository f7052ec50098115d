//! Sessions: the newest, and one of them as it happens and as it is on record.

use admin::calls::{SessionPagesApiServer, SessionsApiServer, TimelineApiServer};
use admin::{CallRow, SessionDetail, SessionRow, Unavailable};
use jiff::SignedDuration;
use maud::{Markup, html};
use sessions::{SessionEvent, SessionState};
use uuid::Uuid;

use super::transcript::entry;
use crate::form::encoded;
use crate::parts::{Tone, badge, count, crumbs, empty, id, json, line, money, none_of, note, said, unavailable};
use crate::reply::{Answer, Did, PageError, Reply, View};
use crate::route::{Route, get, post};
use crate::time::length;
use crate::visit::Visit;

pub(crate) const ROUTES: &[Route] = &[
    get("/sessions", |visit| Box::pin(list(visit))),
    get("/sessions/*", |visit| Box::pin(one(visit))),
    post("/sessions/*/cancel", |visit| Box::pin(cancel(visit))),
];

const SHOWN: u32 = 50;
/// So many of the last events of a session that goes on are shown, before what happens next.
const LAST: usize = 200;

async fn list(visit: &Visit) -> Answer {
    let butler = visit.query.get("butler").map(str::to_owned);
    let before = visit.query.get("before").map(str::to_owned);
    let newest = before.is_none();
    let of = butler.as_deref().map(|butler| format!("&butler={}", encoded(butler))).unwrap_or_default();
    let page = visit.calls.sessions_page(&visit.ext, butler, before, Some(SHOWN)).await?;
    let body = html! {
        (table(visit, &page.sessions, &page.unavailable))
        @if let Some(next) = &page.next { p { a href={ "/sessions?before=" (encoded(next)) (of) } { "Older sessions" } } }
    };
    Ok(View::new("Sessions", body).live_if(newest, "house").into())
}

/// Sessions as rows, and whom else could not be asked for theirs.
pub(super) fn table(visit: &Visit, rows: &[SessionRow], down: &[Unavailable]) -> Markup {
    html! {
        (unavailable(down))
        @if rows.is_empty() { (none_of(down, "No session yet. One begins with a message, a schedule, or: butlerd trigger")) }
        @else { (rows_of(visit, rows)) }
    }
}

fn rows_of(visit: &Visit, rows: &[SessionRow]) -> Markup {
    html! { div.wide tabindex="0" { table {
        thead { tr { th { "When" } th { "Butler" } th { "What" } th { "State" } th.num { "Took" } th.num { "Tools" } th.num { "Cost" } } }
        tbody { @for row in rows { tr {
            td { (visit.now.when(row.queued_at)) }
            td { a href={ "/butlers/" (row.butler) } { (row.butler) } }
            td.grow { a href={ "/sessions/" (row.id) } { (line(&row.prompt, 100)) } div.dim { (line(&row.trigger_source, 60)) } }
            td { (badge(row.state.as_str())) }
            td.num { (took(row.duration_ms)) }
            td.num { (row.tool_call_count) }
            td.num { (money(row.cost_usd)) }
        } } }
    } } }
}

fn took(ms: Option<i64>) -> String {
    ms.map_or_else(|| "–".to_owned(), |ms| length(SignedDuration::from_millis(ms)))
}

async fn one(visit: &Visit) -> Answer {
    let session: Uuid = visit.parsed(0)?;
    let detail = visit.calls.sessions_get(&visit.ext, session).await?;
    let row = &detail.session;
    let running = matches!(row.state, SessionState::Queued | SessionState::Running);
    let after: Option<i32> = visit.query.get("after").and_then(|n| n.parse().ok());
    // Of one that goes on the end is looked at, which grows while one looks.
    let follows = running && after.is_none();
    let Part { earlier, events, more } = match follows {
        true => the_last(visit, session).await?,
        false => {
            let page = visit.calls.sessions_events(&visit.ext, session, Some(after.unwrap_or(0))).await?;
            Part { earlier: after.is_some_and(|after| after > 0), events: page.events, more: page.more }
        }
    };
    let last = events.iter().filter_map(|event| event.seq).max().or(after).unwrap_or(0);
    let stream = follows.then(|| format!("/live/session/{session}?after={last}"));
    let body = html! {
        (crumbs(&[("Sessions", "/sessions"), (&row.butler, &format!("/butlers/{}", row.butler))]))
        (facts(visit, &detail))
        @if running { (visit.button(&format!("/sessions/{session}/cancel"), "Kill this session", "danger", &[])) }
        @if let Some(error) = &row.error { (note(Tone::Bad, &html! { (error) })) }
        @if let Some(result) = &row.result { h2 { "Result" } (said(result)) }
        h2 #transcript { "Transcript" }
        @if events.is_empty() && !follows { (empty("Nothing has happened yet.")) }
        @if earlier { p { a href="?after=0#transcript" { "From the beginning" } } }
        ol.events id="events" data-stream=[stream] aria-live=[follows.then_some("polite")] { @for event in &events { (entry(&visit.now, event)) } }
        @if more { p { a href={ "?after=" (last) "#transcript" } { "What came after" } } }
        @if !detail.tool_calls.is_empty() { h2 { "Tool calls on record" } (calls(visit, &detail.tool_calls)) }
        details { summary { "What it was asked, whole" } (said(&row.prompt)) }
        @if let Some(prompt) = &detail.system_prompt { details { summary { "System prompt" } (said(prompt)) } }
        details { summary { "Who asked, and from where" } (json(&detail.context)) }
    };
    // Somebody who reads an earlier part of it is left to read.
    let running = running && after.is_none();
    let view = View::new(format!("Session of {}", row.butler), body);
    Ok(view.live_if(running, format!("butler/{}", row.butler)).into())
}

/// A part of a transcript.
struct Part {
    /// Something stands before it.
    earlier: bool,
    events: Vec<SessionEvent>,
    more: bool,
}

/// The last events of a session, as far as they are on record.
async fn the_last(visit: &Visit, session: Uuid) -> Result<Part, PageError> {
    let (mut events, mut after, mut earlier) = (Vec::new(), 0, false);
    loop {
        let page = visit.calls.sessions_events(&visit.ext, session, Some(after)).await?;
        after = page.events.iter().filter_map(|event| event.seq).max().unwrap_or(after);
        events.extend(page.events);
        if events.len() > LAST {
            events.drain(..events.len() - LAST);
            earlier = true;
        }
        if !page.more {
            return Ok(Part { earlier, events, more: false });
        }
    }
}

fn facts(visit: &Visit, detail: &SessionDetail) -> Markup {
    let row = &detail.session;
    let tokens = |n: Option<i64>| n.map_or_else(|| "unknown".to_owned(), count);
    html! { dl.facts {
        dt { "State" } dd { (badge(row.state.as_str())) }
        dt { "Began" } dd { (visit.now.when(row.queued_at)) }
        dt { "Took" } dd { (took(row.duration_ms)) }
        dt { "Model" } dd { (row.runtime) @if let Some(model) = &row.model { ", " (line(model, 60)) } }
        dt { "Tokens" } dd { (tokens(row.input_tokens)) " in, " (tokens(row.output_tokens)) " out, "
            (tokens(row.cached_input_tokens)) " from the cache" }
        dt { "Cost" } dd { (money(row.cost_usd)) }
        dt { "Because of" } dd { (line(&row.trigger_source, 80)) " (" a href={ "/trace/" (row.request_id) } { "request " (id(&row.request_id)) } ")" }
        @if let Some(parent) = row.parent_session_id { dt { "Came of" } dd { a href={ "/sessions/" (parent) } { "session " (id(&parent)) } } }
        dt { "Led to" } dd { a href={ "/trace/" (row.id) } { "what came of it" } ", trace " code { (line(&row.trace_id, 40)) } }
        dt { "Trust" } dd { (row.trust) @if let Some(at) = row.exposed_at { ", lowered " (visit.now.when(at)) " by what it read" } }
        @if !row.audience.is_empty() { dt { "May learn it" } dd { "besides the household: " (line(&row.audience.join(", "), 300)) } }
        dt { "Memory" } dd { a href={ "/memory/told/" (row.id) } { "what it was told" } }
        dt { "Id" } dd { code { (row.id) } }
    } }
}

fn calls(visit: &Visit, rows: &[CallRow]) -> Markup {
    html! { div.wide tabindex="0" { table {
        thead { tr { th { "When" } th { "Tool" } th { "Arguments" } th { "Outcome" } th.num { "Took" } } }
        tbody { @for row in rows { tr {
            td { (visit.now.when(row.called_at)) }
            td { code { (row.tool) } }
            td.grow { (line(&row.arguments.to_string(), 200)) }
            td { (badge(&row.outcome)) @if let Some(detail) = &row.detail { div.dim { (line(detail, 200)) } } }
            td.num { (length(SignedDuration::from_micros(row.duration_us))) }
        } } }
    } } }
}

does! {
    cancel(visit, id) = sessions_cancel(id) -> format!("/sessions/{id}"), Cancelled;
}
