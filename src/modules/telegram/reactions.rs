//! What becomes of a message, shown by a reaction on it; and "typing" while a butler works on it.
//!
//! The rows say how far a message has come. Reactions only show that: one that can't be set hurts nothing, and after a
//! restart those of all messages that are not done are set anew.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::CHANNEL;
use super::api::{Api, ApiError};
use super::incoming::{chat_of, message_of};
use crate::background::{Background, TaskError};
use crate::contract::ModuleContext;
use base::TenantId;
use inbox::{Origin, Stage};

/// Rows are looked at this often while a message is followed, even if nothing was heard.
const LOOK: Duration = Duration::from_secs(2);
/// Telegram shows "typing" for five seconds.
const TYPING: Duration = Duration::from_secs(4);
/// Messages that are followed at once; more show nothing.
const MOST: usize = 500;

/// Follows messages of the channel.
pub(super) struct Reactions {
    api: Api,
    cx: ModuleContext,
    on: bool,
    followed: Mutex<HashMap<Uuid, Followed>>,
    wake: Notify,
}

/// A message that is followed.
#[derive(Clone, Debug)]
struct Followed {
    /// Its event, as the channel numbers it.
    event: String,
    /// Where its answer is written; known with its row.
    origin: Option<Origin>,
    shown: Option<Stage>,
    typed: Option<Instant>,
}

fn emoji(stage: Stage) -> &'static str {
    match stage {
        Stage::Seen => "👀",
        Stage::Working => "✍",
        Stage::Done => "👍",
        Stage::Failed => "👎",
    }
}

impl Reactions {
    /// `on`: whether anything is shown.
    pub fn new(api: &Api, cx: &ModuleContext, on: bool) -> Self {
        Self { api: api.clone(), cx: cx.clone(), on, followed: Mutex::default(), wake: Notify::new() }
    }

    /// Follows a message from now on.
    pub fn follow(&self, request: Uuid, event: &str) {
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        if self.on && followed.len() < MOST {
            let new = Followed { event: event.to_owned(), origin: None, shown: None, typed: None };
            followed.entry(request).or_insert(new);
            self.wake.notify_one();
        }
    }

    fn all(&self) -> HashMap<Uuid, Followed> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Shows how far all of them have come.
    async fn show(&self) {
        let followed = self.all();
        // One that was just taken in is seen, whatever else is to be found out.
        let new: Vec<(Uuid, Stage)> =
            followed.iter().filter(|(_, f)| f.shown.is_none()).map(|(id, _)| (*id, Stage::Seen)).collect();
        self.react(&new).await;
        let requests: Vec<Uuid> = followed.into_keys().collect();
        let fates = match self.cx.inbound.fates(&TenantId::owner(), &requests).await {
            Ok(fates) => fates,
            Err(e) => return tracing::debug!(error = %e, "what became of messages can't be read"),
        };
        let mut changed = Vec::new();
        {
            let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
            for fate in fates {
                let Some(one) = followed.get_mut(&fate.request) else { continue };
                if one.shown != Some(fate.stage) {
                    changed.push((fate.request, fate.stage));
                }
                one.origin = Some(fate.origin);
            }
        }
        self.react(&changed).await;
        self.typing().await;
        // What is over is not followed any more.
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        followed.retain(|_, one| !one.shown.is_some_and(Stage::is_last));
    }

    async fn react(&self, changes: &[(Uuid, Stage)]) {
        let followed = self.all();
        let reactions = changes.iter().filter_map(|(request, stage)| {
            let (chat, message) = message_of(&followed.get(request)?.event)?;
            let reaction = json!({"chat_id": chat, "message_id": message,
                                  "reaction": [{"type": "emoji", "emoji": emoji(*stage)}]});
            Some(async move {
                let set = self.api.call::<Value>("setMessageReaction", &reaction).await;
                if let Err(e) = &set {
                    tracing::debug!(error = %e, "a reaction was not set");
                }
                // Put off, it is set with the next look.
                (!matches!(set, Err(ApiError::TooMany(_)))).then_some((*request, *stage))
            })
        });
        let set = join_all(reactions).await;
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        for (request, stage) in set.iter().flatten() {
            if let Some(one) = followed.get_mut(request) {
                one.shown = Some(*stage);
            }
        }
    }

    /// Tells those whose message is in work that somebody writes.
    async fn typing(&self) {
        let now = Instant::now();
        let mut due = Vec::new();
        {
            let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
            for one in followed.values_mut().filter(|one| one.shown == Some(Stage::Working)) {
                if one.typed.is_none_or(|typed| now.duration_since(typed) >= TYPING) {
                    one.typed = Some(now);
                    due.extend(one.origin.clone());
                }
            }
        }
        let said = due.iter().filter_map(|origin| {
            let (chat, topic) = chat_of(origin.thread.as_deref(), &origin.sender)?;
            let mut action = json!({"chat_id": chat, "action": "typing"});
            if let Some(topic) = topic {
                action["message_thread_id"] = json!(topic);
            }
            Some(async move { drop(self.api.call::<Value>("sendChatAction", &action).await) })
        });
        join_all(said).await;
    }

    fn is_followed(&self, request: Uuid) -> bool {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&request)
    }
}

#[async_trait]
impl Background for Reactions {
    async fn run(&self, stop: CancellationToken) -> Result<(), TaskError> {
        if !self.on {
            stop.cancelled().await;
            return Ok(());
        }
        let mut heard = self.cx.inbound.live();
        let owner = TenantId::owner();
        let failed = |e: store::StoreError| TaskError(e.to_string());
        let open = self.cx.inbound.open_of(&owner, CHANNEL).await.map_err(failed)?;
        for fate in self.cx.inbound.fates(&owner, &open).await.map_err(failed)? {
            if let Some(event) = &fate.origin.event {
                self.follow(fate.request, event);
            }
        }
        loop {
            self.show().await;
            let idle = self.all().is_empty();
            let next = Instant::now() + LOOK;
            loop {
                tokio::select! {
                    () = stop.cancelled() => return Ok(()),
                    () = self.wake.notified() => break,
                    () = sleep_until(next), if !idle => break,
                    live = heard.recv() => match live {
                        Ok(live) if !self.is_followed(live.request_id) => {}
                        Ok(_) | Err(RecvError::Lagged(_)) => break,
                        // Only with the daemon.
                        Err(RecvError::Closed) => return Ok(()),
                    },
                }
            }
        }
    }
}
