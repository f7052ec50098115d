//! Sessions.

use admin::calls::{SessionPagesApiServer, SessionsApiServer, TimelineApiServer};
use admin::{Cancelled, Failure, SessionDetail, SessionRow, Timeline};
use schemars::JsonSchema;
use serde::Deserialize;
use sessions::SessionEvent;
use uuid::Uuid;

use crate::endpoint::{Endpoint, get, post};
use crate::input::{Nothing, Paging};
use crate::list::Page;
use crate::visit::Visit;

pub(super) fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/sessions", "listSessions", "Sessions, the newest first", list),
        get("/sessions/{id}", "getSession", "One session with its tool calls", one),
        get("/sessions/{id}/events", "listSessionEvents", "What happened in a session, in order", events),
        post("/sessions/{id}/cancel", "cancelSession", "Cancel a session that waits or runs", cancel),
        get("/timeline/{id}", "getTimeline", "All on record of a session, request, trace or schedule", timeline),
    ]
}

/// Which sessions.
#[derive(Deserialize, JsonSchema)]
struct Wanted {
    /// Of this butler; without it of all.
    butler: Option<String>,
    #[serde(flatten)]
    paging: Paging,
}

/// Which one.
#[derive(Deserialize, JsonSchema)]
pub(super) struct ById {
    /// Its id.
    pub id: Uuid,
}

/// Whose events.
#[derive(Deserialize, JsonSchema)]
struct EventsWanted {
    /// The session.
    id: Uuid,
    #[serde(flatten)]
    paging: Paging,
}

async fn list(visit: &Visit, wanted: Wanted) -> Result<Page<SessionRow>, Failure> {
    let start = visit.start::<String>(&wanted.paging)?;
    let page = visit.calls.sessions_page(&visit.ext, wanted.butler, start.at, Some(start.limit)).await?;
    Ok(visit.part(page.sessions, page.next, page.unavailable))
}

async fn events(visit: &Visit, wanted: EventsWanted) -> Result<Page<SessionEvent>, Failure> {
    let start = visit.start::<i32>(&wanted.paging)?;
    let found = visit.calls.sessions_events(&visit.ext, wanted.id, start.at).await?;
    visit.page_or(&start, (found.events, found.more), |event| event.seq)
}

forwards! {
    one(of: ById) -> SessionDetail = sessions_get(of.id);
    cancel(of: ById, _: Nothing) -> Cancelled = sessions_cancel(of.id);
    timeline(of: ById) -> Timeline = timeline(of.id);
}
