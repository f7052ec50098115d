//! Sending over Telegram: answers, messages of butlers, reactions, and what the owner is asked to decide.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::api::{Api, ApiError};
use super::buttons::keyboard;
use super::format::{Formatted, LONGEST};
use super::incoming::{chat_of, message_of};
use super::types::Sent;
use super::{CHANNEL, endpoint};
use crate::contract::ModuleContext;
use crate::inbound::Inbound;
use base::text;
use outbox::{Channel, Conversation, Delivery, Intent, MESSENGER, OutFile, Outbox, Outcome, Shown, WouldRefuse};

/// What one chat bears in a minute: a person more than a group.
const PER_MINUTE: [u32; 2] = [60, 20];
/// Between the parts of one message Telegram may ask to wait; not longer than this altogether.
const PATIENCE: Duration = Duration::from_secs(60);
/// A token that is no good is looked at again after this.
const TOKEN_AGAIN: Duration = Duration::from_secs(300);

pub(super) struct TelegramChannel {
    api: Api,
    inbound: Inbound,
    outbox: Outbox,
}

impl TelegramChannel {
    pub fn new(api: Api, cx: &ModuleContext) -> Self {
        Self { api, inbound: cx.inbound.clone(), outbox: cx.outbox.clone() }
    }

    /// The message that this answers, in its chat. An error did nothing.
    async fn answered(&self, delivery: &Delivery) -> Result<Option<(i64, i64)>, ApiError> {
        let origin = self.inbound.origin(&delivery.tenant, delivery.request_id).await;
        let origin = origin.map_err(|e| ApiError::Unreachable(format!("what it answers can't be read: {e}")))?;
        Ok(origin.and_then(|origin| message_of(origin.event.as_deref()?)))
    }

    async fn react(&self, delivery: &Delivery, emoji: &str) -> Result<Value, ApiError> {
        let Some((chat, message)) = self.answered(delivery).await? else {
            return Err(ApiError::Refused("there is no message to react to".to_owned()));
        };
        let reaction = json!({"chat_id": chat, "message_id": message, "reaction": [{"type": "emoji", "emoji": emoji}]});
        match self.api.call::<Value>("setMessageReaction", &reaction).await {
            // Telegram knows some emoji as reactions; the others are said.
            Err(ApiError::Refused(_)) => {
                let said = json!({"chat_id": chat, "text": emoji, "reply_parameters": reply_to(message)});
                let sent: Sent = self.api.call("sendMessage", &said).await?;
                Ok(json!({"chat_id": chat, "message_ids": [sent.message_id], "shown_as": "message"}))
            }
            done => done.map(|_| json!({"chat_id": chat, "reacted_to": message})),
        }
    }

    /// Sends one piece. A chat that has moved is followed. Of a file that was not taken its reader is told, and why it was
    /// not is returned.
    async fn piece(&self, piece: &Piece<'_>, message: &mut Value) -> Result<(i64, Option<String>), ApiError> {
        let sent = match self.once(piece, message).await {
            Err(ApiError::Moved(chat)) => {
                message["chat_id"] = json!(chat);
                self.once(piece, message).await
            }
            done => done,
        };
        match (sent, piece) {
            // It did not take the file, and the reader is told.
            (Err(ApiError::Refused(why)), Piece::File(file)) => {
                tracing::warn!(why, "a file was not taken");
                let told = format!("[The file {} could not be sent here: {}]", file.name, text::truncate(&why, 200));
                message["text"] = json!(told);
                let sent: Sent = self.api.call("sendMessage", message).await?;
                Ok((sent.message_id, Some(format!("{}: {why}", file.name))))
            }
            (sent, _) => sent.map(|sent| (sent, None)),
        }
    }

    async fn once(&self, piece: &Piece<'_>, message: &mut Value) -> Result<i64, ApiError> {
        if let Piece::File(file) = piece {
            let sent: Result<Sent, ApiError> = self.api.upload("sendDocument", message, ("document", file)).await;
            return sent.map(|sent| sent.message_id);
        }
        match self.api.call::<Sent>("sendMessage", message).await {
            Ok(sent) => Ok(sent.message_id),
            // Whatever was wrong with its marks, its words arrive.
            Err(ApiError::Refused(why)) if message.get("entities").is_some() => {
                tracing::warn!(why, "a message is sent without its formatting");
                message.as_object_mut().map(|message| message.remove("entities"));
                self.api.call::<Sent>("sendMessage", message).await.map(|sent| sent.message_id)
            }
            Err(e) => Err(e),
        }
    }

    async fn write(&self, delivery: &Delivery, (chat, topic): (i64, Option<i64>)) -> Outcome {
        // What the house itself writes holds commands and calls, to be read letter by letter.
        let asks = delivery.asks();
        let written = match asks.is_empty() {
            true => Formatted::of_markdown(&markdown_of(delivery)),
            false => Formatted::plain(&delivery.message.clone().unwrap_or_default()),
        };
        let parts = written.parts(LONGEST);
        if parts.is_empty() && delivery.files.is_empty() {
            return Outcome::Refused { why: "nothing of it can be shown: it holds marks of Markdown alone".to_owned() };
        }
        // In a group others wrote since, and what the messenger answers by hand may lie far back.
        let answered = match delivery.intent {
            Intent::Reply if chat < 0 || delivery.origin == MESSENGER => self.answered(delivery).await,
            _ => Ok(None),
        };
        let answered = match answered {
            Ok(answered) => answered,
            Err(e) => return outcome(e),
        };
        let (count, began, mut sent) = (parts.len() + delivery.files.len(), Instant::now(), Vec::new());
        let mut not_taken: Vec<String> = Vec::new();
        let texts = parts.iter().map(Piece::Text);
        for (n, piece) in texts.chain(delivery.files.iter().map(Piece::File)).enumerate() {
            let mut message = piece.message(chat);
            if let Some(topic) = topic {
                message["message_thread_id"] = json!(topic);
            }
            if let (0, Some((_, answered))) = (n, answered) {
                message["reply_parameters"] = reply_to(answered);
            }
            if n + 1 == parts.len() && !asks.is_empty() && self.is_owners(delivery) {
                message["reply_markup"] = keyboard(&asks);
            }
            loop {
                match self.piece(&piece, &mut message).await {
                    Ok((id, refused)) => {
                        not_taken.extend(refused);
                        break sent.push(id);
                    }
                    Err(ApiError::TooMany(after)) if n > 0 && began.elapsed() + after < PATIENCE => sleep(after).await,
                    Err(e) if n == 0 => return outcome(e),
                    // Sent again from the begin, the first parts would be there twice.
                    Err(e) => return Outcome::Unknown { why: format!("{n} of its {count} parts arrived: {e}") },
                }
            }
        }
        match not_taken.is_empty() {
            true => Outcome::Sent { receipt: json!({"chat_id": chat, "message_ids": sent}) },
            // Its words arrived, and whoever reads them was told; whoever sent it must know, too.
            false => Outcome::Refused {
                why: format!("its words arrived, and not all of its files: {}", not_taken.join("; ")),
            },
        }
    }

    fn is_owners(&self, delivery: &Delivery) -> bool {
        let own = self.outbox.owner().identities.get(CHANNEL);
        own.is_some_and(|own| *own == delivery.target) && delivery.thread.is_none()
    }
}

fn no_number(target: &str) -> String {
    format!("`{target}` is no one's number on Telegram; numbers come from messages")
}

/// A delivery's words, its subject above them.
fn markdown_of(delivery: &Delivery) -> String {
    let message = delivery.message.clone().unwrap_or_default();
    match delivery.subject.as_deref().filter(|subject| !subject.trim().is_empty()) {
        Some(subject) => format!("**{}**\n\n{message}", subject.replace('*', "∗")),
        None => message,
    }
}

/// What goes as one message.
enum Piece<'a> {
    Text(&'a Formatted),
    File(&'a OutFile),
}

impl Piece<'_> {
    /// The call's arguments, but for the file.
    fn message(&self, chat: i64) -> Value {
        let Piece::Text(part) = self else { return json!({"chat_id": chat}) };
        let mut message = json!({"chat_id": chat, "text": part.text,
                                 // A preview would fetch the address, and tell its owner what stands in it.
                                 "link_preview_options": {"is_disabled": true}});
        let entities = part.entities();
        if !entities.is_empty() {
            message["entities"] = json!(entities);
        }
        message
    }
}

fn reply_to(message: i64) -> Value {
    json!({"message_id": message, "allow_sending_without_reply": true})
}

fn outcome(e: ApiError) -> Outcome {
    let why = e.to_string();
    match e {
        ApiError::TooMany(after) => Outcome::NotSent { why, retry_after: Some(after) },
        ApiError::Token(_) | ApiError::Conflict(_) => Outcome::NotSent { why, retry_after: Some(TOKEN_AGAIN) },
        ApiError::Unreachable(_) => Outcome::NotSent { why, retry_after: None },
        ApiError::Forbidden(_) | ApiError::Refused(_) | ApiError::Moved(_) => Outcome::Refused { why },
        ApiError::Unknown(_) => Outcome::Unknown { why },
    }
}

#[async_trait]
impl Channel for TelegramChannel {
    fn name(&self) -> &str {
        CHANNEL
    }

    fn per_minute(&self, delivery: &Delivery) -> Option<u32> {
        let (chat, _) = chat_of(delivery.thread.as_deref(), &delivery.target)?;
        Some(PER_MINUTE[usize::from(chat < 0)])
    }

    fn conversation(&self, delivery: &Delivery) -> Option<Conversation> {
        Some(Conversation {
            channel: CHANNEL.to_owned(),
            endpoint: endpoint(self.api.bot_id()),
            thread: delivery.thread.clone(),
            sender: delivery.target.clone(),
        })
    }

    fn shown(&self, delivery: &Delivery) -> Result<Shown, WouldRefuse> {
        chat_of(delivery.thread.as_deref(), &delivery.target)
            .ok_or_else(|| WouldRefuse(no_number(&delivery.target)))?;
        let parts = Formatted::of_markdown(&markdown_of(delivery)).parts(LONGEST);
        let notes = (parts.len() > 1).then(|| format!("It comes in {} messages.", parts.len()));
        Ok(Shown { messages: parts.into_iter().map(|part| part.text).collect(), notes: notes.into_iter().collect() })
    }

    async fn send(&self, delivery: &Delivery) -> Outcome {
        let Some(chat) = chat_of(delivery.thread.as_deref(), &delivery.target) else {
            return Outcome::Refused { why: no_number(&delivery.target) };
        };
        match (delivery.intent, delivery.emoji.as_deref()) {
            (Intent::React, Some(emoji)) => match self.react(delivery, emoji).await {
                Ok(receipt) => Outcome::Sent { receipt },
                Err(e) => outcome(e),
            },
            _ => self.write(delivery, chat).await,
        }
    }
}
