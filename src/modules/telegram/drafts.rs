//! An answer as it is written, shown to the owner in their private chat as Telegram's draft: it is gone by itself within
//! half a minute, so that a kill leaves nothing half said behind, and the answer itself is a delivery like any other.
//!
//! Shown to the owner alone: what somebody else is answered is judged when it is whole.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::CHANNEL;
use super::api::{Api, ApiError};
use super::format::{Formatted, LONGEST};
use super::incoming::message_of;
use crate::connector::Incoming;
use crate::contract::ModuleContext;
use base::{TenantId, task};
use inbox::{Following, News};

/// Telegram bears about one call a second for a chat.
const PACE: Duration = Duration::from_secs(1);
/// Answers that are shown as they are written at once; others come whole.
const MOST: usize = 8;

#[derive(Clone)]
pub(super) struct Drafts(Arc<Inner>);

struct Inner {
    api: Api,
    cx: ModuleContext,
    on: AtomicBool,
    room: Arc<Semaphore>,
    stop: CancellationToken,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Drafts {
    /// `on`: whether anything is shown.
    pub fn new(api: &Api, cx: &ModuleContext, on: bool) -> Self {
        let room = Arc::new(Semaphore::new(MOST));
        let (on, stop) = (AtomicBool::new(on), CancellationToken::new());
        Self(Arc::new(Inner { api: api.clone(), cx: cx.clone(), on, room, stop }))
    }

    /// Shows the answer to a message that was just taken in, if it is the owner's, in their own chat.
    pub fn follow(&self, request: Uuid, message: &Incoming) {
        let sender = message.envelope.get("sender").and_then(|sender| sender["identity"].as_str()).unwrap_or_default();
        let Some((chat, number)) = message_of(&message.id) else { return };
        let tenant = TenantId::owner();
        let own = sender == chat.to_string() && self.0.cx.inbound.is_owners(&tenant, CHANNEL, sender);
        if !own || !self.0.on.load(Ordering::Relaxed) {
            return;
        }
        let Ok(room) = self.0.room.clone().try_acquire_owned() else { return };
        let following = self.0.cx.inbound.follow(&tenant, request);
        let (inner, stop) = (Arc::downgrade(&self.0), self.0.stop.clone());
        let api = self.0.api.clone();
        task::spawn(task::Kind::Request, "telegram-draft", async move {
            let _room = room;
            let shown = stop.run_until_cancelled(show(&api, following, (chat, number)));
            if let (Some(Err(e)), Some(inner)) = (shown.await, inner.upgrade()) {
                tracing::info!(error = %e, "answers are not shown as they are written: the Bot API server does not take that");
                inner.on.store(false, Ordering::Relaxed);
            }
        });
    }
}

/// The text that is being written, as far as it is known.
#[derive(Default)]
struct Written {
    session: Option<Uuid>,
    text: String,
}

impl Written {
    /// Takes news. Whether there is more to show.
    fn take(&mut self, news: &News) -> bool {
        match news {
            News::TextDelta { session_id, start, text, .. } => {
                if *start == 0 {
                    (self.session, self.text) = (Some(*session_id), String::new());
                }
                let goes_on = self.session == Some(*session_id) && *start == self.text.len();
                if goes_on {
                    self.text.push_str(text);
                }
                goes_on
            }
            // The whole of it, as it will be read.
            News::Text { session_id, text, .. } => {
                (self.session, self.text) = (Some(*session_id), text.clone());
                true
            }
            _ => false,
        }
    }
}

/// Shows what is written until it is said. `Err`: the server takes no drafts.
async fn show(api: &Api, mut following: Following, (chat, draft): (i64, i64)) -> Result<(), ApiError> {
    let (mut written, mut waits, mut next) = (Written::default(), false, Instant::now());
    loop {
        let news = {
            let news = following.next();
            tokio::pin!(news);
            loop {
                tokio::select! {
                    biased;
                    news = &mut news => break news,
                    () = sleep_until(next), if waits => {
                        let said = say(api, &written.text, (chat, draft)).await;
                        let pause = match &said {
                            Err(ApiError::TooMany(after)) => (*after).max(PACE),
                            _ => PACE,
                        };
                        (waits, next) = (matches!(said, Err(ApiError::TooMany(_))), Instant::now() + pause);
                        match said {
                            // As a server says that does not know the call.
                            Err(e @ ApiError::Token(_)) => return Err(e),
                            // Something of this text or chat: the answer comes whole.
                            Err(ApiError::Refused(_) | ApiError::Forbidden(_)) => return Ok(()),
                            _ => {}
                        }
                    }
                }
            }
        };
        match news {
            None | Some(News::Reply { .. } | News::Ended { .. }) => return Ok(()),
            Some(news) => waits |= written.take(&news),
        }
    }
}

async fn say(api: &Api, text: &str, (chat, draft): (i64, i64)) -> Result<(), ApiError> {
    // Of a long one the end, which is being written.
    let Some(part) = Formatted::of_markdown(text).parts(LONGEST).pop() else { return Ok(()) };
    let mut said = json!({"chat_id": chat, "draft_id": draft, "text": part.text});
    let entities = part.entities();
    if !entities.is_empty() {
        said["entities"] = json!(entities);
    }
    api.call::<Value>("sendMessageDraft", &said).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_grows_by_its_pieces_and_nothing_else() {
        let (one, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let piece = |session_id, start, text: &str| News::TextDelta {
            butler: "general".into(),
            session_id,
            start,
            text: text.into(),
        };
        let mut written = Written::default();
        assert!(!written.take(&piece(one, 5, "lost its begin ")));
        assert!(written.take(&piece(one, 0, "Good ")) && written.take(&piece(one, 5, "morning ")));
        assert!(!written.take(&piece(one, 20, "a gap ")) && !written.take(&piece(other, 13, "another's ")));
        assert_eq!(written.text, "Good morning ");
        assert!(written.take(&piece(other, 0, "Anew ")));
        assert_eq!(written.text, "Anew ");
    }
}
