//! Connecting a bot for the first time: its token is tried, and its owner's account is found.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout_at};

use super::api::{Api, ApiError};
use super::types::Update;
use crate::contract::ModuleError;
use base::Secret;

/// How long one look for the owner's message lasts.
const LOOK: Duration = Duration::from_secs(20);
const AGAIN: Duration = Duration::from_secs(1);

/// A bot that answered to its token.
pub struct TelegramBot {
    api: Api,
    /// Without `@`.
    pub username: String,
}

/// An account that wrote to the bot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TelegramAccount {
    pub number: i64,
    /// As they call themselves.
    pub name: String,
}

impl TelegramBot {
    /// Asks Telegram who the bot of this token is. `secret`: the name under which the token is to be stored.
    ///
    /// # Errors
    /// It is not a token, or not any more, or Telegram can't be reached: a sentence for the owner.
    pub async fn of_token(url: &str, token: &Secret<String>, secret: &str) -> Result<Self, ModuleError> {
        let api = Api::new(url, token, secret)?;
        let me = api.me().await.map_err(ModuleError::new)?;
        Ok(Self { api, username: me.username.unwrap_or_default() })
    }

    /// Where whoever is to be known opens the bot, and by pressing Start sends it the code.
    pub fn link(&self, code: &str) -> String {
        format!("https://t.me/{}?start={code}", self.username)
    }

    /// Waits for the account that starts the bot with this code. Its message stays Telegram's, and everything else that
    /// was written. `None`: nobody did in that time.
    ///
    /// # Errors
    /// Telegram does not answer, or another program takes the bot's messages: a sentence for the owner.
    pub async fn started_with(&self, code: &str, within: Duration) -> Result<Option<TelegramAccount>, ModuleError> {
        let (until, wanted) = (Instant::now() + within, format!("/start {code}"));
        let asked = json!({"timeout": LOOK.as_secs(), "allowed_updates": ["message"]});
        loop {
            let poll = self.api.call_within::<Vec<Value>>("getUpdates", &asked, LOOK * 2);
            let updates = match timeout_at(until, poll).await {
                Err(_) => return Ok(None),
                Ok(Err(e @ (ApiError::Token(_) | ApiError::Conflict(_)))) => return Err(ModuleError::new(e)),
                Ok(updates) => updates.unwrap_or_default(),
            };
            let started = updates.into_iter().find_map(|update| {
                let message = serde_json::from_value::<Update>(update).ok()?.message?;
                let from = message.from.filter(|_| message.chat.is_private())?;
                (message.text.as_deref() == Some(&wanted))
                    .then(|| TelegramAccount { number: from.id, name: from.shown() })
            });
            if started.is_some() || Instant::now() >= until {
                return Ok(started);
            }
            // What it has is unconfirmed and comes back at once.
            sleep(AGAIN).await;
        }
    }
}
