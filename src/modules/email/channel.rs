//! Sending letters: answers, and what butlers have to say.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::CHANNEL;
use super::account::MailAccount;
use super::incoming::{letter_of, message_id};
use crate::contract::ModuleContext;
use crate::inbound::Inbound;
use base::{Clock, crash};
use mail::imap::{ImapError, Purpose};
use mail::smtp::SubmitError;
use mail::{AttachedFile, Draft, answer_subject, compose, is_address};
use outbox::{Channel, Conversation, Delivery, Intent, OutFile, Outcome, Shown, WouldRefuse};

const NO_MAILBOX: &str = "the mailbox that was written to is not in [modules.email] any more";
/// A login that is refused is tried again after this.
const LOGIN_AGAIN: Duration = Duration::from_secs(300);
/// What one address gets in a minute.
const PER_MINUTE: u32 = 10;

pub(super) struct EmailChannel {
    accounts: Vec<MailAccount>,
    inbound: Inbound,
    clock: Clock,
}

/// What a letter answers.
struct Answered {
    subject: String,
    /// The letter itself, if it has an id.
    letter: Option<String>,
    /// From the thread's first letter to it.
    chain: Vec<String>,
    /// No person wrote it.
    automatic: bool,
    /// The server that received it found that it is from where it says.
    proven: bool,
}

impl EmailChannel {
    pub fn new(accounts: Vec<MailAccount>, cx: &ModuleContext) -> Self {
        Self { accounts, inbound: cx.inbound.clone(), clock: cx.clock.clone() }
    }

    /// The mailbox that it goes out through: the one that was written to, and no other; else the first.
    fn account(&self, delivery: &Delivery) -> Option<&MailAccount> {
        match delivery.endpoint.as_deref().filter(|_| delivery.intent != Intent::Send) {
            Some(wanted) => self.accounts.iter().find(|account| account.address().eq_ignore_ascii_case(wanted)),
            None => self.accounts.first(),
        }
    }

    fn message_id(delivery: &Delivery, account: &MailAccount) -> String {
        message_id(&delivery.idempotency_key(), account.domain())
    }

    /// What it answers; `None`: nothing that is a letter.
    async fn answered(&self, delivery: &Delivery) -> Result<Option<Answered>, store::StoreError> {
        if delivery.intent == Intent::Send {
            return Ok(None);
        }
        let origin = self.inbound.origin(&delivery.tenant, delivery.request_id).await?;
        Ok(origin.filter(|origin| origin.channel == CHANNEL).map(|origin| {
            let letter = origin.event.as_deref().and_then(letter_of).map(str::to_owned);
            let texts = |value: &Value| {
                value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
            };
            let mut chain: Vec<String> = texts(&origin.raw["references"]);
            chain.extend(letter.clone());
            Answered {
                subject: answer_subject(origin.raw["subject"].as_str().unwrap_or_default()),
                letter,
                chain,
                automatic: origin.raw["automatic"] == true || origin.raw.is_null(),
                proven: origin.raw["proven"] == true,
            }
        }))
    }

    /// Puts what was sent into the sent folder. It was sent in any case.
    async fn keep(&self, account: &MailAccount, id: &str, raw: &[u8]) -> Result<String, ImapError> {
        let mut session = account.open().await?;
        let folder = session.folder_for(Purpose::Sent).await?;
        let folder = folder.ok_or_else(|| ImapError::NoFolder(Purpose::Sent.name().to_owned()))?;
        if session.holds(Purpose::Sent, id).await? != Some(true) {
            session.put(&folder, "(\\Seen)", raw).await?;
        }
        session.close().await;
        Ok(folder)
    }

    /// Whether a letter of this id is in the sent folder, if there is one.
    async fn is_kept(&self, account: &MailAccount, id: &str) -> Result<Option<bool>, ImapError> {
        let mut session = account.open().await?;
        let found = session.holds(Purpose::Sent, id).await?;
        session.close().await;
        Ok(found)
    }
}

/// What becomes of a try that the server did not take.
fn outcome(account: &MailAccount, e: SubmitError) -> Outcome {
    match e {
        SubmitError::Later { .. } => Outcome::NotSent { why: e.to_string(), retry_after: None },
        SubmitError::Login { .. } => {
            let why = format!("{e}; {}", account.login_mended_by());
            Outcome::NotSent { why, retry_after: Some(LOGIN_AGAIN) }
        }
        SubmitError::Refused { .. } => Outcome::Refused { why: e.to_string() },
        SubmitError::Unknown { .. } => Outcome::Unknown { why: e.to_string() },
    }
}

#[async_trait]
impl Channel for EmailChannel {
    fn name(&self) -> &str {
        CHANNEL
    }

    fn per_minute(&self, _: &Delivery) -> Option<u32> {
        Some(PER_MINUTE)
    }

    fn conversation(&self, delivery: &Delivery) -> Option<Conversation> {
        let account = self.account(delivery)?;
        Some(Conversation {
            channel: CHANNEL.to_owned(),
            endpoint: account.address().to_owned(),
            // Who answers it names it as the first of the thread.
            thread: Some(delivery.thread.clone().unwrap_or_else(|| Self::message_id(delivery, account))),
            sender: delivery.target.clone(),
        })
    }

    fn shown(&self, delivery: &Delivery) -> Result<Shown, WouldRefuse> {
        let account = self.account(delivery).ok_or_else(|| WouldRefuse(NO_MAILBOX.to_owned()))?;
        if !is_address(&delivery.target) {
            return Err(WouldRefuse(no_address(&delivery.target)));
        }
        let text = delivery.message.clone().unwrap_or_default();
        let own = delivery.subject.clone().filter(|subject| !subject.trim().is_empty());
        let subject = own.unwrap_or_else(|| first_line(&text));
        let letter = format!("From: {}\nTo: {}\nSubject: {subject}\n\n{text}", account.address(), delivery.target);
        Ok(Shown { messages: vec![letter], notes: Vec::new() })
    }

    async fn send(&self, delivery: &Delivery) -> Outcome {
        let Some(account) = self.account(delivery) else {
            return Outcome::Refused { why: NO_MAILBOX.to_owned() };
        };
        if !is_address(&delivery.target) {
            return Outcome::Refused { why: no_address(&delivery.target) };
        }
        let answered = match self.answered(delivery).await {
            Ok(answered) => answered,
            Err(e) => {
                let why = format!("what it answers can't be read: {e}");
                return Outcome::NotSent { why, retry_after: None };
            }
        };
        if answered.as_ref().is_some_and(|answered| answered.automatic) {
            return Outcome::Refused { why: "a machine wrote what it answers, and would answer in turn".to_owned() };
        }
        // The answer would reach somebody who perhaps never wrote, with words that another one chose.
        if answered.as_ref().is_some_and(|answered| !answered.proven) {
            let why = format!("nothing proves that {} wrote what it answers", delivery.target);
            return Outcome::Refused { why };
        }
        let text = match (&delivery.message, &delivery.emoji) {
            (Some(message), _) => message.clone(),
            // A letter has no reactions: it is said.
            (None, Some(emoji)) => emoji.clone(),
            (None, None) => String::new(),
        };
        let id = Self::message_id(delivery, account);
        let own = delivery.subject.clone().filter(|subject| !subject.trim().is_empty());
        let subject = match (&answered, own) {
            (Some(answered), _) => answered.subject.clone(),
            (None, Some(own)) => own,
            (None, None) => first_line(&text),
        };
        let files: Vec<AttachedFile<'_>> = delivery.files.iter().map(attached).collect();
        let raw = compose(&Draft {
            from: &account.from,
            to: Some(&delivery.target),
            subject: &subject,
            text: &text,
            message_id: &id,
            in_reply_to: answered.as_ref().and_then(|answered| answered.letter.as_deref()),
            references: answered.as_ref().map(|answered| answered.chain.as_slice()).unwrap_or_default(),
            date: self.clock.now().max(Timestamp::UNIX_EPOCH),
            automatic: true,
            files: &files,
        });
        let said = match account.submit(&delivery.target, &raw).await {
            Ok(said) => said,
            Err(e) => return outcome(account, e),
        };
        crash::point("email.submitted");
        let kept = match account.keeps_sent {
            true => Value::Null,
            false => match self.keep(account, &id, &raw).await {
                Ok(folder) => json!(folder),
                Err(e) => {
                    tracing::warn!(error = %e, "a letter that was sent is not in the sent folder");
                    Value::Null
                }
            },
        };
        Outcome::Sent { receipt: json!({"message_id": id, "server": said, "kept_in": kept}) }
    }

    async fn reconcile(&self, delivery: &Delivery) -> Option<Outcome> {
        let account = self.account(delivery)?;
        let id = Self::message_id(delivery, account);
        match self.is_kept(account, &id).await {
            Ok(Some(true)) => Some(Outcome::Sent { receipt: json!({"message_id": id, "found_in": "the sent folder"}) }),
            // It may be on its way there; only its presence proves something.
            Ok(_) => None,
            Err(e) => {
                tracing::warn!(error = %e, "whether a letter was sent can't be looked up");
                None
            }
        }
    }
}

fn attached(file: &OutFile) -> AttachedFile<'_> {
    AttachedFile { name: &file.name, media_type: &file.media_type, content: &file.content }
}

fn no_address(target: &str) -> String {
    format!("`{target}` is not an address that a letter can be sent to")
}

/// A subject for a text that has none.
fn first_line(text: &str) -> String {
    let line = text.lines().map(|line| line.trim_matches(|c: char| c == '#' || c == '*' || c.is_whitespace()));
    let line = line.into_iter().find(|line| !line.is_empty()).unwrap_or("A message from your household");
    base::text::truncate(line, 70)
}
