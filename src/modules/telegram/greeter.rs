//! Answers what is said to the bot itself: a greeting, and a pairing code, by which an account becomes a person's.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::CHANNEL;
use super::api::{Api, ApiError};
use super::types::Message;
use crate::contract::ModuleContext;
use base::{Priority, TenantId, Trust};
use inbox::Paired;
use outbox::{BUTLERD, OwnerNote};
use store::StoreError;

const HELLO: &str = "Hello! This is a household's bot. Write what you need in your own words.";
const OWNER: &str = "You are the owner of this household already. Write what you need in your own words.";
const TAKEN: &str = "This account is known here by another name already. Ask whoever gave you the code.";
const NO_GOOD: &str = "This code is not good, or not any more. Ask for a new one.";
/// So many codes that are none within the time, then an account is not answered for the rest of it.
const MOST_WRONG: u32 = 5;
const WRONG_FOR: Duration = Duration::from_secs(3600);
/// Accounts that are remembered for it.
const MOST_ACCOUNTS: usize = 1000;

pub(super) struct Greeter {
    api: Api,
    cx: ModuleContext,
    wrong: Mutex<HashMap<i64, (Instant, u32)>>,
}

impl Greeter {
    pub fn new(api: &Api, cx: &ModuleContext) -> Self {
        Self { api: api.clone(), cx: cx.clone(), wrong: Mutex::default() }
    }

    /// Answers what somebody writes to the bot itself in a private chat. Whether it was that.
    ///
    /// # Errors
    /// It can't be found out just now whether a code is good.
    pub async fn answered(&self, message: &Message) -> Result<bool, ApiError> {
        let text = message.text.as_deref().unwrap_or_default().trim();
        let said = match text.strip_prefix("/start") {
            Some("") => HELLO.to_owned(),
            Some(code) if code.starts_with(char::is_whitespace) => match self.shown(message, code.trim()).await? {
                Some(said) => said,
                None => return Ok(true),
            },
            _ if text == "/help" => HELLO.to_owned(),
            _ => return Ok(false),
        };
        if let Err(e) = self.api.call::<Value>("sendMessage", &json!({"chat_id": message.chat.id, "text": said})).await
        {
            tracing::debug!(error = %e, "a greeting was not sent");
        }
        Ok(true)
    }

    /// What is said to an account that shows a code; `None`: nothing more, it showed too many.
    async fn shown(&self, message: &Message, code: &str) -> Result<Option<String>, ApiError> {
        let (tenant, Some(from)) = (TenantId::owner(), message.from.as_ref()) else { return Ok(None) };
        let identity = from.id.to_string();
        if self.cx.inbound.is_owners(&tenant, CHANNEL, &identity) {
            return Ok(Some(OWNER.to_owned()));
        }
        if !self.may_show(from.id) {
            return Ok(None);
        }
        let later = |e: StoreError| ApiError::Unreachable(format!("a pairing code can't be looked up: {e}"));
        Ok(Some(match self.cx.inbound.pair(&tenant, CHANNEL, &identity, code).await.map_err(later)? {
            Paired::Now { name, pairing } => {
                self.tell(&tenant, &name, &identity, &pairing).await.map_err(later)?;
                format!("Hello {name}! From now on this household knows you here. Write what you need.")
            }
            Paired::Taken(_) => TAKEN.to_owned(),
            Paired::Late | Paired::Unknown => {
                self.was_wrong(from.id);
                NO_GOOD.to_owned()
            }
        }))
    }

    /// Tells the owner, once, whose account it is now: a code may have reached somebody else.
    async fn tell(&self, tenant: &TenantId, name: &str, identity: &str, pairing: &str) -> Result<(), StoreError> {
        let text = format!(
            "{name} is known on Telegram now, by the code that you made: the account {identity}. If that is somebody \
             else: butlerd contacts rm {CHANNEL} {identity}"
        );
        let note = OwnerNote {
            tenant,
            origin: BUTLERD,
            key: &format!("paired:{pairing}"),
            subject: None,
            text: &text,
            priority: Priority::Medium,
            trust: Trust::System,
            notice: false,
            channel: None,
            asks: &[],
        };
        self.cx.outbox.tell_owner_all(tenant, &[note]).await
    }

    fn may_show(&self, account: i64) -> bool {
        let wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        wrong.get(&account).is_none_or(|(since, times)| *times < MOST_WRONG || since.elapsed() > WRONG_FOR)
    }

    fn was_wrong(&self, account: i64) {
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        if wrong.len() >= MOST_ACCOUNTS {
            wrong.retain(|_, (since, _)| since.elapsed() <= WRONG_FOR);
        }
        // Full of others' within the hour: the code's 60 bits are what protects.
        if wrong.len() < MOST_ACCOUNTS || wrong.contains_key(&account) {
            let (since, times) = wrong.entry(account).or_insert((Instant::now(), 0));
            if since.elapsed() > WRONG_FOR {
                (*since, *times) = (Instant::now(), 0);
            }
            *times += 1;
        }
    }
}
