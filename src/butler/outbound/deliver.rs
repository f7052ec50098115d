//! `deliver`: what the switchboard wants said, through the same door as every `notify`.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::define;
use inbox::SWITCHBOARD;
use outbox::{Outbox, SendRequest, egress_target, send};
use tools::{Effect, EgressTargetFn, Meta, Tool, ToolCall, ToolError, handler};

/// The tool, for the switchboard alone.
pub fn deliver_tool(outbox: &Outbox) -> Tool {
    let text =
        |most: u32, what: &str| json!({"type": "string", "minLength": 1, "maxLength": most, "description": what});
    let schema = json!({"type": "object", "additionalProperties": false, "properties": {
        "channel": text(31, "chat, email, telegram, …; without it the one that the owner chose"),
        "message": text(65536, "The text, unchanged"),
        "recipient": text(500, "A person whom the household knows; without it the owner"),
        "metadata": {"type": "object", "description": "subject and priority (high, medium, low) of the message"},
        "source_butler": text(31, "Who says it: the switchboard. Another butler calls notify itself"),
        "notify_request": {"type": "object", "description": "The same as a notify.v1 request, instead of the arguments above"}}});
    let description = "Send a message in the switchboard's name: to the owner, or to somebody whom the household knows. \
                       Whoever wrote is answered with notify.";
    let definition =
        define("deliver", description, schema, Meta { sends_out: true, ..Meta::write(Effect::Once) }.labelled());
    let (targeting, outbox) = (outbox.clone(), outbox.clone());
    let egress_target: EgressTargetFn = Arc::new(move |call| {
        let outbox = targeting.clone();
        Box::pin(async move {
            match wanted(call) {
                Ok(wanted) => egress_target(&outbox, call, wanted.channel, wanted.recipient).await,
                // It is refused with its sentence as soon as it is let in.
                Err(_) => Ok(None),
            }
        })
    });
    let sending = handler(move |call| {
        let outbox = outbox.clone();
        async move {
            let wanted = wanted(&call)?;
            send(&call, &outbox, wanted).await
        }
    });
    Tool::new(&definition, sending).with_egress_target(egress_target)
}

fn words<'a>(of: Option<&'a Map<String, Value>>, name: &str) -> Option<&'a str> {
    of?.get(name)?.as_str().map(str::trim).filter(|text| !text.is_empty())
}

/// What the arguments want sent, as they stand or as `notify_request` has it.
fn wanted(call: &ToolCall) -> Result<SendRequest<'_>, ToolError> {
    let refused = |code, why: String| Err(ToolError::refused(code, why));
    let map = |name: &str| call.args.get(name).and_then(Value::as_object);
    let request = map("notify_request");
    for who in [call.text("source_butler"), words(request, "origin_butler")].into_iter().flatten() {
        if who != SWITCHBOARD {
            let why =
                format!("Nothing was sent: {who} says in its own name what it wants said; it calls notify itself.");
            return refused("not_your_name", why);
        }
    }
    let metadata = map("metadata");
    let wanted = match request {
        None => SendRequest {
            channel: call.text("channel"),
            recipient: call.text("recipient"),
            subject: words(metadata, "subject"),
            message: call.text("message").unwrap_or_default(),
            priority: words(metadata, "priority"),
            ..SendRequest::default()
        },
        Some(_) if call.text("message").is_some() || call.text("recipient").is_some() => {
            return refused("twice", "Nothing was sent: give message or notify_request, not both.".to_owned());
        }
        Some(request) => {
            let delivery = request.get("delivery").and_then(Value::as_object);
            if let Some(intent) = words(delivery, "intent").filter(|intent| *intent != "send") {
                let why = format!(
                    "Nothing was sent: {intent} is for the session that deals with the message; it calls notify."
                );
                return refused("not_here", why);
            }
            SendRequest {
                channel: words(delivery, "channel"),
                recipient: words(delivery, "recipient"),
                subject: words(delivery, "subject"),
                message: words(delivery, "message").unwrap_or_default(),
                priority: words(delivery, "priority"),
                ..SendRequest::default()
            }
        }
    };
    if wanted.message.trim().is_empty() {
        return refused("empty", "Nothing was sent: there is no message.".to_owned());
    }
    Ok(wanted)
}
