//! Taking in what people write to the bot: by long poll, or where the world reaches the household, as Telegram sends it.
//!
//! Telegram forgets an update when the next poll asks for what is behind it. The poll asks from the checkpoint, which is
//! moved only behind what is committed: so nothing is forgotten that the household doesn't have.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine;
use serde_json::{Value, json};
use subtle::ConstantTimeEq;
use tokio::time::sleep;
use uuid::Uuid;

use super::CHANNEL;
use super::api::{Api, ApiError, LARGEST_FILE};
use super::buttons::Buttons;
use super::drafts::Drafts;
use super::greeter::Greeter;
use super::incoming::{Reader, Reading};
use super::reactions::Reactions;
use super::types::{Message, Update};
use crate::connector::{Batch, Incoming, Source, SourceError, Unreadable};
use crate::contract::AccountTrial;
use crate::contract::ModuleError;
use base::Secret;
use inbox::{Accepted, PAIRS_AT};

/// Where Telegram sends updates.
pub(super) const PATH: &str = "/hooks/telegram/updates";
/// How long Telegram holds a poll that has nothing to tell.
const POLL: Duration = Duration::from_secs(25);
/// An answer to a poll comes within this, or the connection is dead.
const POLL_WITHIN: Duration = Duration::from_secs(40);
/// What is asked for; all else Telegram keeps to itself.
const UPDATES: [&str; 3] = ["message", "edited_message", "callback_query"];
/// Whether the webhook still stands is asked this often.
const WEBHOOK_LOOK: Duration = Duration::from_secs(60);
/// Bytes of files that are held at once, about.
const MOST_HELD: u64 = 16 * 1024 * 1024;
/// A file that can't be fetched is tried so often before its message goes on without.
const FILE_TRIES: u32 = 4;
/// Updates of one poll.
const MOST: u32 = 100;

/// What an update brings.
pub(super) enum Took {
    /// Nothing for a butler.
    Nothing,
    Message(Incoming),
    Unreadable(Unreadable),
    /// It can't be had whole just now.
    Later(ApiError),
}

pub(super) struct TelegramSource {
    api: Api,
    reader: Mutex<Reader>,
    reactions: Arc<Reactions>,
    buttons: Buttons,
    greeter: Greeter,
    drafts: Drafts,
    largest_file: u64,
    /// Where the world reaches the household; without it, Telegram is polled.
    public_url: Option<String>,
    /// What Telegram proves itself by, from the moment at which the webhook was set.
    proof: Mutex<Option<Secret<String>>>,
    /// How often files could not be fetched, since one could.
    missed: Mutex<HashMap<String, u32>>,
}

impl TelegramSource {
    pub fn new(
        api: Api,
        reader: Reader,
        (reactions, drafts): (Arc<Reactions>, Drafts),
        (buttons, greeter): (Buttons, Greeter),
        largest_file: u64,
        public_url: Option<String>,
    ) -> Self {
        let largest_file = largest_file.min(LARGEST_FILE);
        let (proof, missed) = (Mutex::default(), Mutex::default());
        Self {
            api,
            reader: Mutex::new(reader),
            reactions,
            buttons,
            greeter,
            drafts,
            largest_file,
            public_url,
            proof,
            missed,
        }
    }

    /// Whether these bytes prove that a request is Telegram's.
    pub fn is_proof(&self, given: &[u8]) -> bool {
        let proof = self.proof.lock().unwrap_or_else(PoisonError::into_inner).clone();
        proof.is_some_and(|proof| bool::from(proof.expose().as_bytes().ct_eq(given)))
    }

    /// Has updates sent to the household from now on.
    async fn set_webhook(&self, public: &str) -> Result<(), ApiError> {
        let proof = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        // Before it is used for the first time.
        *self.proof.lock().unwrap_or_else(PoisonError::into_inner) = Some(Secret::new(proof.clone()));
        let asked = json!({"url": format!("{}{PATH}", public.trim_end_matches('/')), "secret_token": proof,
                           "allowed_updates": UPDATES, "drop_pending_updates": false});
        self.api.call::<Value>("setWebhook", &asked).await.map(drop)
    }

    /// Whether Telegram still sends updates here.
    async fn watch_webhook(&self, public: &str, cursor: Option<&Value>) -> Result<Batch, SourceError> {
        sleep(WEBHOOK_LOOK).await;
        let info: Value = self.api.call("getWebhookInfo", &Value::Null).await.map_err(fault)?;
        if info["url"].as_str().is_none_or(|url| !url.starts_with(public.trim_end_matches('/'))) {
            return Err(SourceError::Contested("another program took this bot's messages over".to_owned()));
        }
        if info["pending_update_count"].as_u64().unwrap_or(0) > 0
            && let Some(why) = info["last_error_message"].as_str()
        {
            let why = format!("Telegram can't reach {public}: {why}; see [admin] public_url");
            return Err(SourceError::Owner(why));
        }
        Ok(Batch { messages: Vec::new(), cursor: cursor.cloned().unwrap_or(json!({"offset": null})) })
    }

    fn reader(&self) -> Reader {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A message in the household's words, with its files. `Later`: one of them can't be fetched just now.
    async fn reading(&self, message: &Message, edited: bool) -> Took {
        let Some(Reading { id, mut envelope, files }) = self.reader().read(message, edited) else {
            return Took::Nothing;
        };
        for wanted in files {
            if wanted.size.is_some_and(|size| size > self.largest_file) {
                continue;
            }
            match self.api.file(&wanted.file_id, self.largest_file).await {
                Ok(content) => {
                    let attachment = &mut envelope["payload"]["attachments"][wanted.at];
                    attachment["size_bytes"] = json!(content.len());
                    attachment["content_base64"] = json!(base64::engine::general_purpose::STANDARD.encode(content));
                }
                Err(e) if !matches!(e, ApiError::Refused(_)) && self.may_wait_for(&wanted.file_id) => {
                    return Took::Later(e);
                }
                // The message counts, and says what is missing.
                Err(e) => {
                    tracing::warn!(message = id, error = %e, "a file of a Telegram message was not fetched");
                    let text = envelope["payload"]["normalized_text"].as_str().unwrap_or_default();
                    envelope["payload"]["normalized_text"] =
                        json!(format!("{text}\n[a file of it could not be fetched]"));
                }
            }
        }
        self.missed.lock().unwrap_or_else(PoisonError::into_inner).clear();
        Took::Message(Incoming { id, envelope })
    }

    /// Whether everything waits once more for a file that can't be fetched just now.
    fn may_wait_for(&self, file: &str) -> bool {
        let mut missed = self.missed.lock().unwrap_or_else(PoisonError::into_inner);
        let tries = missed.entry(file.to_owned()).or_insert(0);
        *tries += 1;
        *tries < FILE_TRIES
    }

    /// What an update brings; what needs no butler is answered.
    pub async fn take(&self, update: &Value) -> Took {
        let number = update["update_id"].to_string();
        let update: Update = match serde_json::from_value(update.clone()) {
            Ok(update) => update,
            Err(e) => return Took::Unreadable(Unreadable { id: format!("update {number}"), why: e.to_string() }),
        };
        if let Some(pressed) = &update.callback_query {
            self.buttons.pressed(pressed).await;
        }
        let (message, edited) = match (&update.message, &update.edited_message) {
            (Some(message), _) => (message, false),
            (None, Some(message)) => (message, true),
            (None, None) => return Took::Nothing,
        };
        if !edited && message.chat.is_private() && self.reader().takes(message.chat.id) {
            match self.greeter.answered(message).await {
                Ok(true) => return Took::Nothing,
                Ok(false) => {}
                Err(e) => return Took::Later(e),
            }
        }
        self.reading(message, edited).await
    }
}

fn fault(e: ApiError) -> SourceError {
    match e {
        ApiError::Token(_) => SourceError::Owner(e.to_string()),
        ApiError::Conflict(_) => SourceError::Contested(e.to_string()),
        ApiError::TooMany(after) => SourceError::Later { why: e.to_string(), after: Some(after) },
        _ => SourceError::Later { why: e.to_string(), after: None },
    }
}

#[async_trait]
impl AccountTrial for TelegramSource {
    fn name(&self) -> String {
        let reader = self.reader();
        reader.username.map_or(reader.endpoint, |name| format!("@{name}"))
    }

    async fn attempt(&self) -> Result<(), ModuleError> {
        self.api.me().await.map(drop).map_err(ModuleError::new)
    }
}

#[async_trait]
impl Source for TelegramSource {
    fn kind(&self) -> &'static str {
        "telegram_bot"
    }

    fn channel(&self) -> &'static str {
        CHANNEL
    }

    fn endpoint(&self) -> String {
        self.reader().endpoint
    }

    async fn open(&self) -> Result<(), SourceError> {
        let me = self.api.me().await.map_err(fault)?;
        self.reader.lock().unwrap_or_else(PoisonError::into_inner).username = me.username;
        match &self.public_url {
            Some(public) => self.set_webhook(public).await.map_err(|e| match e {
                ApiError::Refused(_) => SourceError::Owner(format!("{e}; see [admin] public_url")),
                e => fault(e),
            })?,
            // One that somebody set would take the messages away.
            None => {
                let kept = json!({"drop_pending_updates": false});
                self.api.call::<Value>("deleteWebhook", &kept).await.map(drop).map_err(fault)?;
            }
        }
        let commands = json!({"commands": [{"command": "help", "description": "What this bot is"}]});
        if let Err(e) = self.api.call::<Value>("setMyCommands", &commands).await {
            tracing::debug!(error = %e, "the bot's menu was not set");
        }
        Ok(())
    }

    async fn fetch(&self, cursor: Option<&Value>) -> Result<Batch, SourceError> {
        if let Some(public) = &self.public_url {
            return self.watch_webhook(public, cursor).await;
        }
        let offset = cursor.and_then(|cursor| cursor["offset"].as_i64());
        let mut asked = json!({"timeout": POLL.as_secs(), "limit": MOST, "allowed_updates": UPDATES});
        if let Some(offset) = offset {
            asked["offset"] = json!(offset);
        }
        let updates: Vec<Value> = self.api.call_within("getUpdates", &asked, POLL_WITHIN).await.map_err(fault)?;
        let (mut batch, mut held) = (Batch { messages: Vec::new(), cursor: json!({"offset": offset}) }, 0);
        for update in updates {
            let Some(number) = update["update_id"].as_i64() else { continue };
            match self.take(&update).await {
                Took::Nothing => {}
                Took::Message(message) => {
                    let files = message.envelope["payload"]["attachments"].as_array().into_iter().flatten();
                    held += files.filter_map(|file| file["size_bytes"].as_u64()).sum::<u64>();
                    batch.messages.push(Ok(message));
                }
                Took::Unreadable(why) => batch.messages.push(Err(why)),
                // What was read before it is handed in first.
                Took::Later(_) if !batch.messages.is_empty() => break,
                Took::Later(e) => return Err(fault(e)),
            }
            batch.cursor = json!({"offset": number + 1});
            if held > MOST_HELD {
                break;
            }
        }
        Ok(batch)
    }

    fn capabilities(&self) -> Option<Value> {
        let reader = self.reader();
        // Whoever is not on the list is not heard, code or not.
        let name = reader.username.filter(|_| reader.allowed_chats.is_empty())?;
        Some(json!({PAIRS_AT: format!("https://t.me/{name}?start=")}))
    }

    fn taken(&self, message: &Incoming, accepted: &Accepted) {
        self.reactions.follow(accepted.request_id, &message.id);
        if !accepted.duplicate {
            self.drafts.follow(accepted.request_id, message);
        }
    }
}
