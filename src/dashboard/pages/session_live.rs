//! A session as it happens: each event as its own piece, and the text that is being written as it grows.
//!
//! A stream begins behind what its page shows. What is on record is told from there; what is told beside the record, and
//! what is missed, is read from it. So nothing is missing and nothing is there twice, whatever is cut in between.

use std::time::Duration;

use admin::calls::{SessionsApiServer, TimelineApiServer};
use admin::{Need, Rpc, Visitor};
use base::task;
use bytes::Bytes;
use jsonrpsee::Extensions;
use maud::Markup;
use sessions::{EventKind, SessionEvent, SessionState};
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::transcript::{MOST, entry, writing};
use crate::live::{event, stream};
use crate::reply::Answer;
use crate::route::{Route, raw};
use crate::time::Now;
use crate::visit::Visit;

pub(crate) const ROUTES: &[Route] = &[raw("/live/session/*", |visit| Box::pin(follow(visit)))];

/// Between two pieces of a text that is being written.
const GATHER: Duration = Duration::from_millis(150);
/// Between two looks at the record: at what nobody told of, such as another daemon's session.
const LOOK: Duration = Duration::from_secs(5);
/// Pieces that wait for a slow browser; then the stream waits for it.
const WAITING: usize = 64;

async fn follow(visit: &Visit) -> Answer {
    let session: Uuid = visit.parsed(0)?;
    // Before anything is read, so that nothing comes in between.
    let news = visit.supervisor().services().events.subscribe();
    visit.calls.sessions_get(&visit.ext, session).await?;
    let (sender, receiver) = mpsc::channel(WAITING);
    let following = Following {
        session,
        calls: visit.calls.clone(),
        ext: visit.visitor.clone().extensions(),
        visitor: visit.visitor.clone(),
        now: visit.now.clone(),
        sender,
        last: visit.query.get("after").and_then(|n| n.parse().ok()).unwrap_or(0),
        highest: 0,
        text: Writing::default(),
    };
    let closing = visit.closing.clone();
    task::spawn(task::Kind::Request, "page-session", async move {
        // It ends as it may: with the session, the browser, or the daemon.
        let _ended: Option<()> = following.tell(news, closing).await;
    });
    Ok(stream(receiver))
}

/// A text that is being written.
#[derive(Default)]
struct Writing {
    text: String,
    /// It has grown since it was last told.
    grown: bool,
}

impl Writing {
    /// What there was of it when somebody looked. It may have grown since.
    fn catch_up(&mut self, text: String) {
        if !text.is_empty() && !self.text.starts_with(&text) {
            *self = Self { text, grown: true };
        }
    }

    fn grow(&mut self, start: usize, piece: &str) {
        if start == 0 {
            self.text.clear();
        }
        // What does not fit on comes with the whole text.
        if start == self.text.len() && start <= MOST {
            self.text.push_str(piece);
            self.grown = true;
        }
    }
}

struct Following {
    session: Uuid,
    calls: Rpc,
    ext: Extensions,
    visitor: Visitor,
    now: Now,
    sender: mpsc::Sender<Bytes>,
    /// The number of the last event that was told.
    last: i32,
    /// The highest number that is known to be there.
    highest: i32,
    text: Writing,
}

impl Following {
    /// Tells all that happens. `None`: nobody listens any more, or may.
    async fn tell(mut self, mut news: Receiver<SessionEvent>, closing: CancellationToken) -> Option<()> {
        let (mut gather, mut look) = (interval(GATHER), interval(LOOK));
        for ticks in [&mut gather, &mut look] {
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        self.sender.send(Bytes::from_static(b"retry: 2000\n\n")).await.ok()?;
        loop {
            let sender = self.sender.clone();
            let told = tokio::select! {
                biased;
                () = sender.closed() => return None,
                () = closing.cancelled() => return None,
                // Before the news: they may come without end.
                _ = gather.tick(), if self.text.grown || self.highest > self.last => {
                    if std::mem::take(&mut self.text.grown) {
                        let piece = writing(&self.text.text);
                        self.piece(&piece).await?;
                    }
                    if self.highest <= self.last {
                        continue;
                    }
                    // Once: what is still not there by now comes with the next look.
                    self.highest = 0;
                    Err(RecvError::Lagged(0))
                }
                told = news.recv() => told,
                _ = look.tick() => Err(RecvError::Lagged(0)),
            };
            let over = match told {
                Ok(told) if told.session_id.0 != self.session => false,
                // What was told before this stream began is on its way to the record.
                Ok(told) if told.seq.is_some_and(|seq| seq > self.last + 1) => {
                    self.highest = self.highest.max(told.seq.unwrap_or_default());
                    matches!(told.kind, EventKind::Ended(_))
                }
                Ok(told) => self.hear(told).await?,
                Err(RecvError::Lagged(_)) => self.catch_up().await?,
                Err(RecvError::Closed) => return None,
            };
            if over {
                self.sender.send(event("over", None, "")).await.ok()?;
                return Some(());
            }
        }
    }

    async fn piece(&self, piece: &Markup) -> Option<()> {
        self.visitor.grant(Need::Look).ok()?;
        self.sender.send(event("piece", None, &piece.0)).await.ok()
    }

    /// Tells one event. Returns whether it was the last.
    async fn hear(&mut self, told: SessionEvent) -> Option<bool> {
        if let EventKind::TextDelta { start, text, .. } = &told.kind {
            self.text.grow(*start, text);
            return Some(false);
        }
        let over = matches!(told.kind, EventKind::Ended(_));
        if told.seq.is_some_and(|seq| seq <= self.last) {
            return Some(over);
        }
        self.last = told.seq.unwrap_or(self.last);
        if matches!(told.kind, EventKind::Text { .. }) || over {
            self.text = Writing::default();
            self.piece(&writing("")).await?;
        }
        self.piece(&entry(&self.now, &told)).await?;
        Some(over)
    }

    /// Tells what is on record and was not told yet. Returns whether the session is over.
    async fn catch_up(&mut self) -> Option<bool> {
        loop {
            let page = self.calls.sessions_events(&self.ext, self.session, Some(self.last)).await.ok()?;
            self.text.catch_up(page.writing);
            for told in page.events {
                self.hear(told).await?;
            }
            if !page.more {
                return Some(!matches!(page.state, SessionState::Queued | SessionState::Running));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_grows_by_what_fits_on() {
        let mut text = Writing::default();
        for (start, piece) in [(0, "All "), (4, "is "), (20, "lost"), (7, "well")] {
            text.grow(start, piece);
        }
        assert_eq!(text.text, "All is well");
        text.grow(0, "Anew");
        assert_eq!(text.text, "Anew");
        text.grow(4, &"x".repeat(MOST));
        text.grow(4 + MOST, "y");
        assert!(!text.text.ends_with('y'), "no more is kept than is shown");
        text.catch_up("Anew".to_owned());
        assert!(text.text.len() > 4, "it has grown since");
        text.catch_up("Another".to_owned());
        assert_eq!((&*text.text, text.grown), ("Another", true));
    }
}
