//! Requests to send something (`notify.v1`), looked at without sending: whether they are sound, and where they would
//! go.

use serde_json::{Map, Value, json};

use super::shows;
use crate::handle::Outbox;
use crate::household::CHAT;
use crate::tool::deferred_until;
use base::Priority;
use tools::{Tool, ToolCall, ToolError, handler};

const SCHEMA: &str = "notify.v1";
const INTENTS: [&str; 3] = ["send", "reply", "react"];
/// What an answer must know of the request that it answers.
const OF_REQUEST: [&str; 4] = ["request_id", "source_channel", "source_endpoint_identity", "source_sender_identity"];
/// The longest text that is sent.
const MAX_TEXT: usize = 65_536;

pub(super) fn tools(outbox: &Outbox) -> Vec<Tool> {
    let request = json!({"notify_request": {"type": "object",
        "description": "notify.v1: schema_version, origin_butler, delivery {intent, channel, message, recipient, subject, \
                        emoji, priority}, and for reply and react the request_context that is answered"}});
    let (checking, trying) = (outbox.clone(), outbox.clone());
    vec![
        Tool::built_in(
            "messenger_validate_notify",
            "Whether a notify.v1 request is sound, with every mistake in it. Nobody is looked up and nothing is sent; \
             messenger_dry_run says where it would go.",
            request.clone(),
            &["notify_request"],
            shows(),
            handler(move |call| validate(call, checking.clone())),
        ),
        Tool::built_in(
            "messenger_dry_run",
            "What would become of a notify.v1 request now: over which channel, to whom, whether that leaves the \
             household, and whether it waits for the end of the quiet hours. Nothing is sent and nothing is kept.",
            request,
            &["notify_request"],
            shows(),
            handler(move |call| dry_run(call, trying.clone())),
        ),
    ]
}

fn object<'a>(of: &'a Map<String, Value>, name: &str) -> Option<&'a Map<String, Value>> {
    of.get(name).and_then(Value::as_object)
}

fn words<'a>(of: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    of.get(name).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty())
}

/// The request, if it is one.
fn request(call: &ToolCall) -> Result<&Map<String, Value>, ToolError> {
    let none = Map::is_empty;
    let found = object(&call.args, "notify_request").filter(|r| !none(r));
    let found = found.ok_or_else(|| {
        ToolError::refused("no_request", "notify_request is empty; it needs origin_butler and delivery (notify.v1).")
    })?;
    match found.get("schema_version").map(|v| v.as_str().unwrap_or_default()) {
        None | Some(SCHEMA) => Ok(found),
        Some(other) => {
            let why = format!("The messenger understands {SCHEMA}, not {other:?}; say schema_version: \"{SCHEMA}\".");
            Err(ToolError::refused("unknown_contract", why))
        }
    }
}

/// Every mistake in a request.
fn mistakes(request: &Map<String, Value>, channels: &[String]) -> Vec<String> {
    let mut wrong = Vec::new();
    if words(request, "origin_butler").is_none() {
        wrong.push("origin_butler: say which butler wants it said".to_owned());
    }
    let Some(delivery) = object(request, "delivery") else {
        wrong.push("delivery: it is missing; it says intent, channel, message".to_owned());
        return wrong;
    };
    let intent = words(delivery, "intent").unwrap_or("send");
    if !INTENTS.contains(&intent) {
        wrong.push(format!("delivery.intent: there is no intent {intent}; there are: {}", INTENTS.join(", ")));
    }
    if let Some(channel) = words(delivery, "channel").filter(|c| intent == "send" && !channels.iter().any(|k| k == c)) {
        let there = channels.join(", ");
        wrong.push(format!("delivery.channel: there is no channel {channel} just now; there are: {there}"));
    }
    let (message, emoji) = (words(delivery, "message"), words(delivery, "emoji"));
    match intent {
        "react" => {
            if emoji.is_none() {
                wrong.push("delivery.emoji: react needs one".to_owned());
            }
            if message.is_some() {
                wrong.push("delivery.message: react takes an emoji only".to_owned());
            }
        }
        _ => {
            if message.is_none() {
                wrong.push("delivery.message: it is empty".to_owned());
            }
            if emoji.is_some() {
                wrong.push(format!("delivery.emoji: {intent} takes a message only"));
            }
        }
    }
    if let Some(long) = message.map(str::len).filter(|len| *len > MAX_TEXT) {
        wrong.push(format!("delivery.message: {long} bytes; at most {MAX_TEXT} are sent"));
    }
    if let Some(priority) = words(delivery, "priority").filter(|p| !["high", "medium", "low"].contains(p)) {
        wrong.push(format!("delivery.priority: there is no priority {priority}; there are: high, medium, low"));
    }
    if intent == "reply" || intent == "react" {
        let context = object(request, "request_context");
        for name in OF_REQUEST {
            if context.and_then(|c| words(c, name)).is_none() {
                wrong.push(format!("request_context.{name}: {intent} needs it"));
            }
        }
        for name in ["recipient", "subject"] {
            if words(delivery, name).is_some() {
                wrong.push(format!("delivery.{name}: {intent} goes to whoever wrote; leave it out"));
            }
        }
    }
    wrong
}

fn channels(outbox: &Outbox) -> Vec<String> {
    outbox.ways().into_keys().collect()
}

async fn validate(call: ToolCall, outbox: Outbox) -> Result<Value, ToolError> {
    let wrong = mistakes(request(&call)?, &channels(&outbox));
    Ok(json!({"valid": wrong.is_empty(), "schema_version": SCHEMA, "mistakes": wrong}))
}

async fn dry_run(call: ToolCall, outbox: Outbox) -> Result<Value, ToolError> {
    let request = request(&call)?;
    let wrong = mistakes(request, &channels(&outbox));
    if !wrong.is_empty() {
        let why = format!("Nothing would be sent: {}.", wrong.join("; "));
        return Err(ToolError::refused("invalid_notify", why));
    }
    let Some(delivery) = object(request, "delivery") else { return Ok(Value::Null) };
    let intent = words(delivery, "intent").unwrap_or("send");
    if intent != "send" {
        let context = object(request, "request_context");
        let of = |name: &str| context.and_then(|c| words(c, name)).map(str::to_owned);
        let channel = of("source_channel").unwrap_or_default();
        let by = match outbox.takes_answers(&channel) {
            true if channel == CHAT => "the chat reads it",
            true => "the channel carries it",
            false => "nothing yet: it waits for the channel, or for the program that handed the question in to read it",
        };
        return Ok(json!({"would": intent, "channel": channel, "recipient": of("source_sender_identity"),
                         "thread": of("source_thread_identity"),
                         "by": by}));
    }
    let (channel, recipient) = (words(delivery, "channel"), words(delivery, "recipient"));
    let mut lease = call.lease().await?;
    let recipient = match outbox.resolve_recipient(&mut lease, &call.context().tenant_id, channel, recipient).await? {
        Ok(recipient) => recipient,
        Err(nobody) => return Err(ToolError::refused("no_recipient", nobody.sentence())),
    };
    drop(lease);
    let priority = words(delivery, "priority").map(Priority::from_name).unwrap_or_default();
    let quiet = deferred_until(&outbox, priority);
    Ok(json!({"would": "send", "channel": recipient.channel, "recipient": recipient.name, "target": recipient.target,
              "leaves_household": !recipient.own, "priority": priority.as_str(),
              "state": if quiet.is_some() { "deferred" } else { "pending" },
              "deliver_at": quiet.map(|at| at.to_string())}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mistake_is_named() {
        let of = |request: Value| mistakes(request.as_object().unwrap(), &["chat".to_owned()]);
        assert!(of(json!({"origin_butler": "health", "delivery": {"message": "x"}})).is_empty());
        let wrong = of(json!({"delivery": {"intent": "send", "channel": "fax", "emoji": "x", "priority": "soon"}}));
        let fields = ["origin_butler", "delivery.channel", "delivery.message", "delivery.emoji", "delivery.priority"];
        assert_eq!(wrong.len(), fields.len(), "{wrong:?}");
        assert!(fields.iter().all(|field| wrong.iter().any(|w| w.starts_with(field))), "{wrong:?}");
        let wrong =
            of(json!({"origin_butler": "health", "delivery": {"intent": "reply", "message": "x", "recipient": "y"}}));
        assert_eq!(wrong.len(), 5, "{wrong:?}");
    }
}
