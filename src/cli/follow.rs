//! One session from its first event to its last: what is on record first, then what comes, without gaps or doubles.

use jsonrpsee::core::client::Subscription;
use jsonrpsee_ws_client::WsClient;
use uuid::Uuid;

use super::Caller;
use super::events::{Printer, cut_off, next};
use super::problem::Problem;
use crate::admin::{ApiClient, LiveEvent};
use crate::spawner::{EventKind, SessionEvent, SessionResult};

/// Follows the session `id` to its end. `events` was subscribed to before, so that nothing falls between what is on
/// record and what comes. `None`: the person has seen enough.
pub async fn follow(
    caller: &Caller,
    live: &WsClient,
    mut events: Subscription<LiveEvent>,
    printer: &Printer,
    id: Uuid,
) -> Result<Option<SessionResult>, Problem> {
    let mut seen = Seen(0);
    if let Some(end) = recorded(caller, live, printer, id, &mut seen).await? {
        return Ok(Some(end));
    }
    loop {
        let event = tokio::select! {
            event = next(&mut events) => event?.ok_or_else(cut_off)?,
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
            if let EventKind::Ended(end) = event.kind {
                return Ok(Some(end));
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
) -> Result<Option<SessionResult>, Problem> {
    loop {
        let page = live.sessions_events(id, Some(seen.0)).await.map_err(caller.failed())?;
        for event in page.events {
            if seen.is_new(&event) {
                printer.session(&event);
            }
            if let EventKind::Ended(end) = event.kind {
                return Ok(Some(end));
            }
        }
        if !page.more {
            return Ok(None);
        }
    }
}

/// The number of the last event that was printed.
struct Seen(i32);

impl Seen {
    /// Whether the event was not seen so far; from now on it was. One without a number only comes once.
    fn is_new(&mut self, event: &SessionEvent) -> bool {
        let new = event.seq.is_none_or(|seq| seq > self.0);
        self.0 = self.0.max(event.seq.unwrap_or(0));
        new
    }

    fn gap_before(&self, event: &SessionEvent) -> bool {
        event.seq.is_some_and(|seq| seq > self.0 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::SessionId;

    #[test]
    fn doubles_and_gaps_are_noticed() {
        let event = |seq| SessionEvent {
            butler: "health".into(),
            session_id: SessionId::new(),
            seq,
            at: "2026-01-01T10:00:00Z".parse().unwrap(),
            kind: EventKind::Unknown,
        };
        let mut seen = Seen(0);
        assert!(!seen.gap_before(&event(Some(1))) && seen.is_new(&event(Some(1))));
        assert!(!seen.is_new(&event(Some(1))) && seen.is_new(&event(None)) && seen.is_new(&event(None)));
        assert!(!seen.gap_before(&event(None)) && seen.gap_before(&event(Some(3))));
        assert!(seen.is_new(&event(Some(3))) && !seen.is_new(&event(Some(2))));
    }
}
