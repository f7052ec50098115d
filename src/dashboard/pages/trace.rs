//! What one request led to: its message, sessions one after the other, calls and runs of schedules,
//! what waited for a person, what was sent, and what it cost.

use admin::Timeline;
use admin::calls::{InboxApiServer, TimelineApiServer};
use jiff::SignedDuration;
use maud::{Markup, html};
use uuid::Uuid;

use super::{approvals, deliveries};
use crate::parts::{badge, crumbs, empty, line, money, unavailable};
use crate::reply::{Answer, View};
use crate::route::{Route, get};
use crate::time::length;
use crate::visit::Visit;

pub(crate) const ROUTES: &[Route] = &[get("/trace/*", |visit| Box::pin(show(visit)))];

async fn show(visit: &Visit) -> Answer {
    let id: Uuid = visit.parsed(0)?;
    let (whole, message) = tokio::join!(visit.calls.timeline(&visit.ext, id), visit.calls.inbox_show(&visit.ext, id));
    let message = message.ok();
    let whole = match whole {
        Ok(whole) => whole,
        // A message that no session has dealt with is all that there is.
        Err(_) if message.is_some() => Timeline { id, ..Timeline::default() },
        Err(why) => return Err(why.into()),
    };
    let body = html! {
        (crumbs(&[("Sessions", "/sessions")]))
        (unavailable(&whole.unavailable))
        p { "Together " (money(whole.cost_usd))
            @if whole.sessions_of_unknown_cost > 0 { ", without " (whole.sessions_of_unknown_cost) " sessions of unknown cost" } "." }
        @if let Some(message) = &message {
            h2 { "The message" }
            p { (badge(&message.state)) " from " (line(&message.sender, 60)) " over " (message.channel) " "
                (visit.now.when(message.received_at)) ": "
                a href={ "/inbox/" (message.request_id) } { (line(&message.body, 120)) } }
        }
        h2 { "Sessions" } (sessions(visit, &whole))
        @if !whole.runs.is_empty() { h2 { "Runs of schedules" } (runs(visit, &whole)) }
        @if !whole.calls.is_empty() { h2 { "Calls outside of sessions" } (calls(visit, &whole)) }
        @if !whole.approvals.is_empty() {
            h2 { "What waited for you" }
            ul.cards { @for action in &whole.approvals { li { (approvals::brief(visit, action)) } } }
        }
        @if !whole.deliveries.is_empty() { h2 { "Deliveries" } (deliveries::rows_of(visit, &whole.deliveries)) }
        @if whole.cut { p.dim { "There is more on record than is shown here." } }
    };
    Ok(View::new("What a request led to", body).live("house").into())
}

fn sessions(visit: &Visit, whole: &Timeline) -> Markup {
    if whole.sessions.is_empty() {
        return empty("No session has dealt with it yet.");
    }
    html! { ol.rows { @for traced in &whole.sessions { @let row = &traced.session;
        li { (visit.now.when(row.queued_at)) " " strong { (row.butler) } " " (badge(row.state.as_str())) " "
            a href={ "/sessions/" (row.id) } { (line(&row.prompt, 100)) } " " (money(row.cost_usd))
            @if traced.depth > 0 { " " span.dim { (traced.depth) " sessions behind the request" } } }
    } } }
}

fn runs(visit: &Visit, whole: &Timeline) -> Markup {
    html! { ul.rows { @for run in &whole.runs {
        li { (visit.now.when(run.fire_at)) " " (run.butler) " " (badge(&run.state)) }
    } } }
}

fn calls(visit: &Visit, whole: &Timeline) -> Markup {
    html! { ul.rows { @for call in &whole.calls {
        li { (visit.now.when(call.called_at)) " " (call.butler) " " code { (call.tool) } " " (badge(&call.outcome)) " "
            span.dim { (length(SignedDuration::from_micros(call.duration_us))) } }
    } } }
}
