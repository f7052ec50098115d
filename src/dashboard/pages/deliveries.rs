//! Deliveries: what left the household, waits to leave, or did not arrive.

use admin::Failure;
use admin::calls::DeliveriesApiServer;
use base::text::truncate;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, html};
use outbox::DeliveryView;
use uuid::Uuid;

use super::answers::or_not_now;
use super::conversations::before;
use crate::parts::{Tone, badge, crumbs, empty, json, line, note, said};
use crate::reply::{Answer, Did, PageError, Reply, View};
use crate::route::{Route, get, post, raw};
use crate::send::download;
use crate::visit::Visit;

pub(crate) const ROUTES: &[Route] = &[
    get("/deliveries", |visit| Box::pin(list(visit))),
    get("/deliveries/*", |visit| Box::pin(one(visit))),
    raw("/deliveries/*/files/*", |visit| Box::pin(file(visit))),
    post("/deliveries/*/retry", |visit| Box::pin(retry(visit))),
    post("/deliveries/*/cancel", |visit| Box::pin(cancel(visit))),
    post("/deliveries/*/resolve", |visit| Box::pin(resolve(visit))),
];

const SHOWN: u32 = 50;
/// How much of one message is shown.
const MOST: usize = 32 * 1024;
const TABS: [(&str, &str); 7] = [
    ("", "All"),
    ("bad", "Bad"),
    ("unknown", "Unknown"),
    ("pending", "On their way"),
    ("deferred", "For later"),
    ("waiting", "Waiting for a channel"),
    ("sent", "Sent"),
];

async fn list(visit: &Visit) -> Answer {
    let state = visit.query.get("state").filter(|state| TABS.iter().any(|(name, _)| name == state));
    let before: Option<Uuid> = before(visit)?;
    let found = visit.calls.deliveries_list(&visit.ext, None, state.map(str::to_owned), Some(SHOWN), before).await;
    let here = state.unwrap_or_default();
    let body = html! {
        p.tabs { @for (name, word) in TABS {
            a href={ "/deliveries" @if !name.is_empty() { "?state=" (name) } } aria-current=[(name == here).then_some("true")] { (word) }
        } }
        (or_not_now(&found, |rows| table(visit, rows, here)))
    };
    Ok(View::new("Deliveries", body).live_if(before.is_none(), "house").into())
}

/// Deliveries as rows.
pub(super) fn rows_of(visit: &Visit, rows: &[DeliveryView]) -> Markup {
    html! { div.wide tabindex="0" { table {
        thead { tr { th { "Made" } th { "From" } th { "To" } th { "What" } th { "State" } } }
        tbody { @for row in rows { tr {
            td { (visit.now.when(row.created_at)) }
            td { (line(&row.origin, 40)) }
            td { (line(&row.target, 60)) div.dim { (line(&row.channel, 30)) } }
            td.grow { a href={ "/deliveries/" (row.id) } { (line(text_of(row), 140)) }
                @if let Some(error) = &row.last_error { div.dim { (line(error, 160)) } } }
            td { (badge(&row.state)) @if row.discarded.is_some() { div.dim { "put aside" } } }
        } } }
    } } }
}

fn table(visit: &Visit, rows: &[DeliveryView], state: &str) -> Markup {
    if rows.is_empty() {
        return empty(match state {
            "" => "Nothing was sent yet. A butler's answers and messages stand here.",
            "bad" | "unknown" => "Nothing went wrong.",
            _ => "No delivery is in this state.",
        });
    }
    let older = rows.last().filter(|_| rows.len() >= SHOWN as usize).map(|row| row.id);
    html! {
        (rows_of(visit, rows))
        @if let Some(older) = older {
            p { a rel="next" href={ "/deliveries?" @if !state.is_empty() { "state=" (state) "&" } "before=" (older) } { "Older" } }
        }
    }
}

fn text_of(row: &DeliveryView) -> &str {
    let text = row.subject.as_deref().or(row.message.as_deref()).or(row.emoji.as_deref()).unwrap_or_default();
    if text.trim().is_empty() { "(no text)" } else { text }
}

async fn one(visit: &Visit) -> Answer {
    let row = visit.calls.deliveries_show(&visit.ext, visit.parsed(0)?).await?;
    let body = html! {
        (crumbs(&[("Deliveries", "/deliveries")]))
        (facts(visit, &row))
        @if let Some(error) = &row.last_error { (note(Tone::Bad, &html! { (error) })) }
        (hands(visit, &row))
        h2 { "What it says" }
        @if let Some(subject) = &row.subject { p { strong { (line(subject, 500)) } } }
        @if let Some(emoji) = &row.emoji { p { (line(emoji, 40)) } }
        @if let Some(message) = &row.message { (said(&truncate(message, MOST))) }
        (files(&row))
        h2 { "Tries" }
        (tries(visit, &row))
        @if let Some(receipt) = &row.receipt { h2 { "Receipt" } (json(receipt)) }
        @if let Some(aside) = &row.discarded { h2 { "Put aside" } (json(aside)) }
    };
    Ok(View::new(format!("Delivery to {}", line(&row.target, 80)), body).live("house").into())
}

fn facts(visit: &Visit, row: &DeliveryView) -> Markup {
    html! { dl.facts {
        dt { "State" } dd { (badge(&row.state)) @if let Some(reason) = &row.reason { " " (line(&reason.replace('_', " "), 80)) } }
        dt { "From" } dd { (line(&row.origin, 60)) ", " (line(&row.kind, 30)) }
        dt { "To" } dd { (line(&row.target, 200)) " over " (line(&row.channel, 40)) }
        dt { "Made" } dd { (visit.now.when(row.created_at)) }
        dt { "Due" } dd { (visit.now.when(row.due_at)) ", priority " (line(&row.priority, 20)) }
        dt { "Ended" } dd { (visit.now.maybe(row.settled_at)) }
        dt { "Because of" } dd { a href={ "/trace/" (row.request_id) } { "a request" }
            @if let Some(session) = row.session_id { ", in " a href={ "/sessions/" (session) } { "a session" } }
            @if row.state == "sent" { ", part of " a href={ "/conversations/" (row.id) } { "a conversation" } } }
        dt { "Id" } dd { code { (row.id) } }
    } }
}

/// What a person can do about it as it is now.
fn hands(visit: &Visit, row: &DeliveryView) -> Markup {
    let at = format!("/deliveries/{}", row.id);
    html! { @if visit.may_act() {
        @match row.state.as_str() {
            "unknown" => section.card aria-labelledby="hands" {
                h2 #hands { "Did it arrive?" }
                p { "Nobody knows. Look on the other side, then say so; sent again it may arrive twice." }
                (visit.button(&format!("{at}/resolve"), "It arrived", "main", &[("arrived", "yes")]))
                (visit.button(&format!("{at}/resolve"), "It did not: send it again", "", &[("arrived", "no")]))
            },
            "failed" | "dead" => (visit.button(&format!("{at}/retry"), "Send again", "main", &[])),
            "pending" | "deferred" | "waiting" => (visit.button(&format!("{at}/cancel"), "Cancel", "danger", &[])),
            _ => {}
        }
    } }
}

fn files(row: &DeliveryView) -> Markup {
    html! { @if !row.files.is_empty() {
        h2 { "Files" }
        ul.rows { @for (n, file) in row.files.iter().enumerate() { li {
            (line(&file.name, 200)) " " span.dim { (line(&file.media_type, 80)) ", " (crate::parts::count(file.size)) " bytes" }
            div { @if file.kept { a href={ "/deliveries/" (row.id) "/files/" (n) } download { "Download file " (n + 1) } }
                @else { span.dim { "Its content has left and is not kept." } } }
        } } }
    } }
}

/// A file as bytes to keep. Whoever sent it chose its name and type, so no browser shows it here: it is always a download.
async fn file(visit: &Visit) -> Answer {
    let (id, n): (Uuid, usize) = (visit.parsed(0)?, visit.parsed(1)?);
    let row = visit.calls.deliveries_show(&visit.ext, id).await?;
    let handle = row.files.get(n).filter(|file| file.kept).map(|file| file.handle.clone());
    let saved = visit.calls.deliveries_file(&visit.ext, handle.ok_or_else(PageError::nothing_here)?).await?;
    let content = STANDARD.decode(&saved.content_base64).map_err(|e| Failure::internal("Reading a kept file", &e))?;
    Ok(Reply::Raw(download(&saved.name, content)))
}

fn tries(visit: &Visit, row: &DeliveryView) -> Markup {
    if row.tries.is_empty() {
        return empty("Nothing was tried yet.");
    }
    html! { div.wide tabindex="0" { table {
        thead { tr { th.num { "Try" } th { "Began" } th { "Ended" } th { "Outcome" } th { "Why" } } }
        tbody { @for one in &row.tries { tr {
            td.num { (one.n) }
            td { (visit.now.when(one.begun_at)) }
            td { (visit.now.maybe(one.ended_at)) }
            td { @match &one.outcome { Some(outcome) => (badge(outcome)), None => "under way" } }
            td.grow { @if let Some(detail) = &one.detail { (line(detail, 300)) } @else { "–" } }
        } } }
    } } }
}

does! {
    retry(visit, id) = deliveries_retry(id) -> format!("/deliveries/{id}"), Retried;
    cancel(visit, id) = deliveries_cancel(id) -> format!("/deliveries/{id}"), Cancelled;
}

async fn resolve(visit: &Visit) -> Answer {
    let id: Uuid = visit.parsed(0)?;
    let arrived = match visit.form.get("arrived") {
        Some("yes") => true,
        Some("no") => false,
        _ => return Err(PageError::invalid("The form does not say whether it arrived.")),
    };
    visit.calls.deliveries_resolve(&visit.ext, id, arrived).await?;
    Ok(Reply::Go { to: format!("/deliveries/{id}"), did: Did::Delivered })
}
