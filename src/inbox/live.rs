//! Watching what becomes of one message.

use std::time::Duration;

use tokio::sync::broadcast;
use uuid::Uuid;

use super::handle::Inbox;
use super::types::{Live, LiveKind};

/// Rows are looked at this often even if nothing was heard.
const LOOK: Duration = Duration::from_secs(1);

/// A watch over one request, from before it is accepted.
pub struct Watch {
    heard: broadcast::Receiver<Live>,
}

impl Inbox {
    /// Begins to watch: whatever happens from now on is heard.
    pub fn watch(&self) -> Watch {
        Watch { heard: self.live() }
    }
}

impl Watch {
    /// What happens next to this request. `None`: it is time to look at the rows, because something was missed or
    /// nothing was heard for a while.
    pub async fn next(&mut self, request: Uuid) -> Option<LiveKind> {
        let deadline = tokio::time::Instant::now() + LOOK;
        loop {
            match tokio::time::timeout_at(deadline, self.heard.recv()).await {
                Ok(Ok(live)) if live.request_id == request => return Some(live.kind),
                Ok(Ok(_)) => {}
                Ok(Err(_)) | Err(_) => {
                    // Closed only with the daemon; then this must not spin.
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    return None;
                }
            }
        }
    }
}
