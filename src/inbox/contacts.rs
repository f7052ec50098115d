//! `contact_identity_add|list|remove`: who writes under which identity. A sender noted here is known; who the owner is,
//! the settings say.

use serde_json::{Value, json};

use super::define::{define, operators};
use super::sql::contacts as sql;
use base::text::plain_identity;
use tools::{Effect, Meta, Tool, ToolCall, ToolError, handler};

/// The tools.
pub(super) fn tools() -> Vec<Tool> {
    let channel = json!({"type": "string", "pattern": "^[a-z][a-z0-9_]{0,30}$", "description": "telegram, email, …"});
    let identity = json!({"type": "string", "minLength": 1, "maxLength": 500,
                          "description": "The address, number or id under which the person writes there"});
    let name = json!({"type": "string", "minLength": 1, "maxLength": 200, "description": "What the person is called"});
    vec![
        Tool::new(
            &define(
                "contact_identity_add",
                "Note under which identity a person writes on a channel, so that their messages are those of somebody \
                 known. A person of that name is made where there is none.",
                json!({"name": name, "channel": channel, "identity": identity}),
                &["name", "channel", "identity"],
                operators(Effect::Idempotent),
            ),
            handler(add),
        ),
        Tool::new(
            &define(
                "contact_identity_list",
                "The people whom the household knows, each with a channel and an identity.",
                json!({}),
                &[],
                Meta::read(),
            ),
            handler(list),
        ),
        Tool::new(
            &define(
                "contact_identity_remove",
                "Forget that somebody writes under this identity: from then on they are a stranger.",
                json!({"channel": channel, "identity": identity}),
                &["channel", "identity"],
                Meta { destructive: true, ..operators(Effect::Idempotent) },
            ),
            handler(remove),
        ),
    ]
}

fn argument<'a>(call: &'a ToolCall, name: &str) -> &'a str {
    call.text(name).map(str::trim).unwrap_or_default()
}

async fn add(call: ToolCall) -> Result<Value, ToolError> {
    let (name, channel, identity) =
        (argument(&call, "name"), argument(&call, "channel"), plain_identity(argument(&call, "identity")));
    if name.is_empty() || identity.is_empty() {
        return Err(ToolError::refused("invalid_arguments", "A name and an identity hold more than blanks."));
    }
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
