//! What a page that stays open hears: that something changed, and of a session each event as it happens.
//!
//! A stream says little: `changed`, upon which the page asks for itself again, at most once a second. So a page never shows
//! what a reload would not, never grows, and needs nothing to catch up after its stream was cut.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use mcp::Body;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio::time::interval;

use admin::Need;
use base::task;

use super::reply::{Answer, PageError, Reply};
use super::route::{Route, get};
use super::visit::Visit;

pub(super) const ROUTES: &[Route] = &[
    get("/live/house", |visit| Box::pin(house(visit, None))),
    get("/live/butler/*", |visit| Box::pin(house(visit, Some(visit.part(0).to_owned())))),
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

/// Says `changed` whenever something happens in the household, or at one butler.
async fn house(visit: &Visit, butler: Option<String>) -> Answer {
    let grant = visit.grant(Need::Look)?;
    let own = grant.butler.as_ref().map(ToString::to_string);
    if own.is_some() && butler.is_some() && own != butler {
        return Err(PageError::nothing_here());
    }
    // Who sees one butler hears of that one, and of messages and deliveries nobody says whose they are.
    let (butler, all) = (butler.or_else(|| own.clone()), own.is_none());
    let services = visit.supervisor().services();
    let (mut sessions, mut inbox, mut outbox) =
        (services.events.subscribe(), services.inbox.live(), services.outbox.live());
    let (sender, receiver) = mpsc::channel(WAITING);
    let (visitor, closing) = (visit.visitor.clone(), visit.closing.clone());
    task::spawn(task::Kind::Request, "page", async move {
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        look.tick().await;
        if sender.send(Bytes::from_static(b"retry: 2000\n\n")).await.is_err() {
            return;
        }
        loop {
            tokio::select! {
                () = closing.cancelled() => return,
                () = sender.closed() => return,
                event = sessions.recv() => match event {
                    Ok(event) if butler.as_ref().is_none_or(|name| *name == event.butler) => {}
                    Ok(_) => continue,
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return,
                },
                told = inbox.recv(), if all => if matches!(told, Err(RecvError::Closed)) { return },
                told = outbox.recv(), if all => if matches!(told, Err(RecvError::Closed)) { return },
                _ = look.tick() => {}
            }
            tokio::time::sleep(GATHER).await;
            // What else came meanwhile is told by the same word.
            (sessions, inbox, outbox) = (sessions.resubscribe(), inbox.resubscribe(), outbox.resubscribe());
            if visitor.grant(Need::Look).is_err() || sender.send(event("changed", None, "")).await.is_err() {
                return;
            }
        }
    });
    Ok(stream(receiver))
}
