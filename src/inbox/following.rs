//! Following one message live: what happens to it, in its order, as soon as it happens.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use super::follow::{Follower, LiveUpdate, News};
use super::handle::Inbox;
use super::types::Live;
use base::TenantId;
use sessions::SessionEvent;

/// Rows are looked at this often even if nothing is heard.
const LOOK: Duration = Duration::from_secs(1);
/// What was told live before it was written is on record after about this long.
const WRITTEN: Duration = Duration::from_millis(60);

/// What is heard from the moment of its making on: made before a message is handed in, nothing of that is missed.
pub struct Listening {
    inbox: Inbox,
    notices: broadcast::Receiver<Live>,
    events: broadcast::Receiver<SessionEvent>,
}

/// One message that is followed to its end.
pub struct Following {
    follower: Follower,
    notices: broadcast::Receiver<Live>,
    events: broadcast::Receiver<SessionEvent>,
    look_at: Instant,
    /// Read and not yet told.
    ready: VecDeque<News>,
    over: bool,
}

impl Inbox {
    /// Begins to listen.
    pub fn listen(&self) -> Listening {
        Listening { inbox: self.clone(), notices: self.live(), events: self.events().subscribe() }
    }
}

impl Listening {
    /// Follows a message from its beginning.
    pub fn follow(self, tenant: &TenantId, request: Uuid) -> Following {
        let follower = Follower::new(&self.inbox, tenant, request);
        let (notices, events) = (self.notices, self.events);
        Following { follower, notices, events, look_at: Instant::now(), ready: VecDeque::new(), over: false }
    }
}

impl Following {
    /// What happens next; `None`: nothing more, after [`News::Ended`] or with the daemon. Whoever stops waiting for it
    /// may lose news: it is polled to its end, or not at all any more.
    pub async fn next(&mut self) -> Option<News> {
        loop {
            if let Some(news) = self.ready.pop_front() {
                self.over |= matches!(news, News::Ended { .. });
                return Some(news);
            }
            if self.over {
                return None;
            }
            if Instant::now() >= self.look_at {
                match self.follower.look().await {
                    Ok(news) => self.ready.extend(news),
                    Err(e) => tracing::debug!(error = %e, "the state of a message can't be read right now"),
                }
                self.look_at = Instant::now() + LOOK;
                continue;
            }
            tokio::select! {
                // A notice names a session before the session's events are judged.
                biased;
                live = self.notices.recv() => match live {
                    Ok(live) if live.request_id == self.follower.request() => {
                        self.look_at = Instant::now();
                        self.ready.extend(self.follower.noticed(live.kind));
                    }
                    Ok(_) => {}
                    Err(RecvError::Lagged(_)) => self.look_at = Instant::now(),
                    Err(RecvError::Closed) => return None,
                },
                event = self.events.recv() => match event {
                    Ok(event) => match self.follower.heard(&event) {
                        LiveUpdate::Nothing => {}
                        LiveUpdate::News(news) => self.ready.push_back(news),
                        LiveUpdate::Gap => self.look_at = self.look_at.min(Instant::now() + WRITTEN),
                    },
                    Err(RecvError::Lagged(_)) => self.look_at = Instant::now(),
                    Err(RecvError::Closed) => return None,
                },
                () = sleep_until(self.look_at) => {}
            }
        }
    }
}
