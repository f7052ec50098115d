//! `contact_identity_add|list|remove`: who writes under which identity. A sender noted here is known; who the owner is,
//! the settings say.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::Inbox;
use super::define::operators;
use super::sql::contacts as sql;
use base::text::plain_identity;
use tools::{Effect, Meta, Tool, ToolCall, ToolError, handler};

/// Channels that people write on, by the names that connectors and settings use.
const USUAL: [&str; 11] =
    ["calendar", "discord", "email", "matrix", "phone", "rss", "signal", "slack", "sms", "telegram", "whatsapp"];

/// The tools.
pub(super) fn tools(inbox: &Inbox) -> Vec<Tool> {
    let known_by_settings: Arc<[String]> = inbox.inner.parts.owner.keys().cloned().collect();
    let channel = json!({"type": "string", "pattern": "^[a-z][a-z0-9_]{0,30}$", "description": "telegram, email, …"});
    let identity = json!({"type": "string", "minLength": 1, "maxLength": 500,
                          "description": "The address, number or id under which the person writes there"});
    let name = json!({"type": "string", "minLength": 1, "maxLength": 200, "description": "What the person is called"});
    vec![
        Tool::built_in(
            "contact_identity_add",
            "Note under which identity a person writes on a channel, so that their messages are those of somebody \
             known. A person of that name is made where there is none.",
            json!({"name": name, "channel": channel, "identity": identity,
                   "new_channel": {"type": "boolean", "description": "No message has come through this channel yet"}}),
            &["name", "channel", "identity"],
            operators(Effect::Idempotent),
            handler(move |call| add(call, known_by_settings.clone())),
        ),
        Tool::built_in(
            "contact_identity_list",
            "The people whom the household knows, each with a channel and an identity.",
            json!({}),
            &[],
            Meta::read(),
            handler(list),
        ),
        Tool::built_in(
            "contact_identity_remove",
            "Forget that somebody writes under this identity: from then on they are a stranger.",
            json!({"channel": channel, "identity": identity}),
            &["channel", "identity"],
            Meta { destructive: true, ..operators(Effect::Idempotent) },
            handler(remove),
        ),
    ]
}

fn argument<'a>(call: &'a ToolCall, name: &str) -> &'a str {
    call.text(name).map(str::trim).unwrap_or_default()
}

/// Refuses an unknown channel: no message would ever match an identity on a mistyped one.
async fn check_channel(call: &ToolCall, channel: &str, by_settings: &[String]) -> Result<(), ToolError> {
    let mut known: BTreeSet<String> = USUAL.iter().map(|usual| (*usual).to_owned()).collect();
    known.extend(by_settings.iter().cloned());
    known.extend(sql::channels(call).await?);
    if known.contains(channel) || call.args["new_channel"] == json!(true) {
        return Ok(());
    }
    let meant = config::nearest(channel, known.iter().map(String::as_str));
    let meant = meant.map(|near| format!(" (did you mean `{near}`?)")).unwrap_or_default();
    let list = known.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let message = format!(
        "No channel is known as `{channel}`{meant}; known are: {list}. Nothing was noted. If messages will come through \
         a new one: butlerd contacts add NAME {channel} IDENTITY --new-channel"
    );
    Err(ToolError::refused("unknown_channel", message))
}

async fn add(call: ToolCall, known_by_settings: Arc<[String]>) -> Result<Value, ToolError> {
    let (name, channel, identity) =
        (argument(&call, "name"), argument(&call, "channel"), plain_identity(argument(&call, "identity")));
    if name.is_empty() || identity.is_empty() {
        return Err(ToolError::refused("invalid_arguments", "A name and an identity hold more than blanks."));
    }
    check_channel(&call, channel, &known_by_settings).await?;
    let Some(person) = sql::add(&call, name, channel, &identity).await? else {
        return Err(ToolError::Internal("nobody was noted".to_owned()));
    };
    let whose = person.name;
    if whose.to_lowercase() != name.to_lowercase() {
        let message = format!(
            "On {channel} {identity} is {whose} already. Remove that first: butlerd contacts rm {channel} {identity}"
        );
        return Err(ToolError::refused("identity_taken", message));
    }
    Ok(json!({"status": "ok", "contact_id": person.contact_id, "name": whose, "channel": channel,
              "identity": identity}))
}

async fn list(call: ToolCall) -> Result<Value, ToolError> {
    Ok(sql::list(&call).await?.into())
}

async fn remove(call: ToolCall) -> Result<Value, ToolError> {
    let (channel, identity) = (argument(&call, "channel"), plain_identity(argument(&call, "identity")));
    match sql::remove(&call, channel, &identity).await? {
        Some(person) => Ok(json!({"status": "ok", "name": person.name, "channel": channel, "identity": identity})),
        None => {
            let message = format!("Nobody is known as {identity} on {channel}; `butlerd contacts list` shows who is.");
            Err(ToolError::refused("not_found", message))
        }
    }
}
