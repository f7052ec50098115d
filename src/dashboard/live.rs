//! What a page that stays open hears: that something changed, and of a session each event as it happens.
//!
//! A stream says little: `changed`, upon which the page asks for itself again, at most once a second. So a page never shows
//! what a reload would not, and never grows. Each change has a number. A page says from which one on it wants to hear: that
//! of its making, or after a cut the last one that it heard (`Last-Event-ID`). It asks again only if it missed something.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use mcp::Body;
use tokio::sync::mpsc;
use tokio::time::interval;

use admin::{Need, Visitor};
use base::task;

use super::changes::{Changes, Scope};
use super::reply::{Answer, PageError, Reply};
use super::route::{Route, raw};
use super::visit::Visit;

pub(super) const ROUTES: &[Route] = &[
    raw("/live/house", |visit| Box::pin(house(visit, None))),
    raw("/live/butler/*", |visit| Box::pin(house(visit, Some(visit.part(0).to_owned())))),
];

/// Between two looks of a page at what nobody tells of: the clock, other daemons, rows that people changed.
const LOOK: Duration = Duration::from_secs(30);
/// What happens within this time is told once.
const GATHER: Duration = Duration::from_millis(300);
/// Lines that wait for a slow browser; then the stream waits for it.
const WAITING: usize = 16;

/// One event for the browser.
pub(super) fn event(name: &str, id: Option<&str>, data: &str) -> Bytes {
    let mut text = format!("event: {name}\n");
    if let Some(id) = id {
        text.push_str(&format!("id: {id}\n"));
    }
    for line in data.split(['\n', '\r']) {
        text.push_str(&format!("data: {line}\n"));
    }
    text.push('\n');
    text.into()
}

/// Hands on what comes until the receiver ends.
pub(super) fn stream(events: mpsc::Receiver<Bytes>) -> Reply {
    let frames = futures_util::stream::unfold(events, |mut events| async move {
        events.recv().await.map(|bytes| (Ok::<_, Infallible>(Frame::data(bytes)), events))
    });
    let mut response: Response<Body> = Response::new(StreamBody::new(frames.boxed()).boxed_unsync());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // nginx would gather events before it hands them on.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Reply::Raw(response)
}

/// Says `changed` whenever something happens in the household, or at one butler; at once, if something has happened since
/// what the page shows was read.
async fn house(visit: &Visit, butler: Option<String>) -> Answer {
    let grant = visit.grant(Need::Look)?;
    let own = grant.butler.as_ref().map(ToString::to_string);
    if own.is_some() && butler.is_some() && own != butler {
        return Err(PageError::nothing_here());
    }
    // Who sees one butler hears of that one alone: nobody says whose messages and deliveries are.
    let scope = Scope { house: own.is_none(), butler: butler.or(own) };
    let since = visit.last_event.as_deref().or_else(|| visit.query.get("since")).unwrap_or_default().to_owned();
    let (sender, receiver) = mpsc::channel(WAITING);
    let telling = tell(visit.changes.clone(), scope, since, sender, visit.visitor.clone());
    let closing = visit.closing.clone();
    task::spawn(task::Kind::Request, "page", async move {
        tokio::select! {
            () = closing.cancelled() => {}
            _ended = telling => {}
        }
    });
    Ok(stream(receiver))
}

/// Tells a page of changes. `None`: nobody listens any more, or may.
async fn tell(
    mut changes: Changes,
    scope: Scope,
    since: String,
    sender: mpsc::Sender<Bytes>,
    visitor: Visitor,
) -> Option<()> {
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    look.tick().await;
    let mut known = changes.now();
    let mut first = b"retry: 2000\n\n".to_vec();
    if changes.since(&scope, &since) {
        first.extend_from_slice(&event("changed", Some(&known), ""));
    } else {
        first.extend_from_slice(format!("id: {known}\n\n").as_bytes());
    }
    sender.send(first.into()).await.ok()?;
    loop {
        tokio::select! {
            () = sender.closed() => return None,
            more = changes.next() => if !more { return None },
            _ = look.tick() => known.clear(),
        }
        if !changes.since(&scope, &known) {
            continue;
        }
        // What else comes meanwhile is told by the same word.
        tokio::time::sleep(GATHER).await;
        known = changes.now();
        visitor.grant(Need::Look).ok()?;
        sender.send(event("changed", Some(&known), "")).await.ok()?;
    }
}
