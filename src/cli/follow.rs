//! One session from its first event to its last: what is on record first, then what comes, without gaps or doubles.

use jsonrpsee::core::client::Subscription;
use jsonrpsee_ws_client::WsClient;
use uuid::Uuid;

use super::Caller;
use super::events::{Printer, cut_off, next};
use super::problem::Problem;
use admin::{ApiClient, LiveEvent};
use sessions::{EventKind, SessionEvent, SessionResult};

/// Follows the session `id` to its end. `events` was subscribed to before, so that nothing falls between what is on
/// record and what comes. `None`: the person has seen enough.
pub async fn follow(
    caller: &Caller,
    live: &WsClient,
    events: &mut Subscription<LiveEvent>,
    printer: &Printer,
    id: Uuid,
) -> Result<Option<End>, Problem> {
    let mut seen = Seen::default();
    if let Some(end) = recorded(caller, live, printer, id, &mut seen).await? {
        return Ok(Some(end));
    }
    loop {
        let event = tokio::select! {
            event = next(events) => event?.ok_or_else(cut_off)?,
            _ = tokio::signal::ctrl_c() => return Ok(None),
        };
        let event = match event {
            LiveEvent::Session(event) if event.session_id.0 == id => event,
            LiveEvent::Session(_) => continue,
            // The session's own may have been among them.
            LiveEvent::Missed { .. } => match recorded(caller, live, printer, id, &mut seen).await? {
                Some(end) => return Ok(Some(end)),
                None => continue,
            },
        };
        if seen.gap_before(&event)
            && let Some(end) = recorded(caller, live, printer, id, &mut seen).await?
        {
            return Ok(Some(end));
        }
        if seen.is_new(&event) {
            printer.session(&event);
            if let EventKind::Ended(result) = event.kind {
                return Ok(Some(End { result, follower: seen.follower }));
            }
        }
    }
}

/// Prints what is on record and was not seen; the end, if that is among it.
async fn recorded(
    caller: &Caller,
    live: &WsClient,
    printer: &Printer,
    id: Uuid,
    seen: &mut Seen,
) -> Result<Option<End>, Problem> {
    loop {
        let page = live.sessions_events(id, Some(seen.last)).await.map_err(caller.failed())?;
        for event in page.events {
            if seen.is_new(&event) {
                printer.session(&event);
            }
            if let EventKind::Ended(result) = event.kind {
                return Ok(Some(End { result, follower: seen.follower }));
            }
        }
        if !page.more {
            return Ok(None);
        }
    }
}

/// How a session ended.
pub struct End {
    pub result: SessionResult,
    /// The session that took its place.
    pub follower: Option<Uuid>,
}

/// What was printed.
#[derive(Default)]
struct Seen {
    /// The number of the last event.
    last: i32,
    follower: Option<Uuid>,
}

impl Seen {
    /// Whether the event was not seen so far; from now on it was. One without a number only comes once.
    fn is_new(&mut self, event: &SessionEvent) -> bool {
        let new = event.seq.is_none_or(|seq| seq > self.last);
        self.last = self.last.max(event.seq.unwrap_or(0));
        if let EventKind::Followed { by, .. } = event.kind {
            self.follower = Some(by.0);
        }
        new
    }

    fn gap_before(&self, event: &SessionEvent) -> bool {
        event.seq.is_some_and(|seq| seq > self.last + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::SessionId;

    #[test]
    fn doubles_and_gaps_are_noticed() {
        let event = |seq| SessionEvent {
            butler: "health".into(),
            session_id: SessionId::new(),
            seq,
            at: "2026-01-01T10:00:00Z".parse().unwrap(),
            kind: EventKind::Unknown,
        };
        let mut seen = Seen::default();
        assert!(!seen.gap_before(&event(Some(1))) && seen.is_new(&event(Some(1))));
        assert!(!seen.is_new(&event(Some(1))) && seen.is_new(&event(None)) && seen.is_new(&event(None)));
        assert!(!seen.gap_before(&event(None)) && seen.gap_before(&event(Some(3))));
        assert!(seen.is_new(&event(Some(3))) && !seen.is_new(&event(Some(2))));
    }
}
