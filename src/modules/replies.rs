//! The tools by which the messenger answers a stored message: whom an answer reaches, the message's row says, and no
//! argument.

use std::sync::Arc;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::contract::{ModuleContext, ModuleError};
use crate::inbound::Inbound;
use base::{Label, Priority, RequestContext, Trust};
use outbox::{NewDelivery, Outbox, Recipient};
use tools::{Definition, Effect, EgressTargetFn, Meta, Tool, ToolCall, ToolError, handler};

/// A channel's tool of the messenger: a row of the outbox like any other answer.
pub(crate) fn reply_tool(cx: &ModuleContext, channel: &'static str, name: &str) -> Result<Tool, ModuleError> {
    let about =
        format!("Answer a message that came over {channel}, where it was written. It reaches whoever wrote it.");
    let arguments = json!({
        "request_id": {"type": "string", "format": "uuid", "description": "Of the message that is answered"},
        "message": {"type": "string", "minLength": 1, "maxLength": 65536, "description": "The text, unchanged"}});
    let meta = Meta { sends_out: true, ..Meta::write(Effect::Once) }.labelled();
    let definition = Definition::of(name, &about, arguments, json!(["request_id", "message"]), meta);
    let definition = definition.map_err(ModuleError::new)?;
    let (reaching, inbound, outbox) = (cx.inbound.clone(), cx.inbound.clone(), cx.outbox.clone());
    let egress_target: EgressTargetFn = Arc::new(move |call| {
        let inbound = reaching.clone();
        Box::pin(async move {
            let asked = message_of(call, &inbound, channel).await?;
            Ok(asked.map(|asked| inbound.answer_reaches(&asked)))
        })
    });
    let replying = handler(move |call| reply(call, inbound.clone(), outbox.clone(), channel));
    Ok(Tool::new(&definition, replying).with_egress_target(egress_target))
}

/// The message that a call answers; `None`: there is no such message on the channel.
async fn message_of(call: &ToolCall, inbound: &Inbound, channel: &str) -> Result<Option<RequestContext>, ToolError> {
    let request: Uuid = call.text("request_id").and_then(|id| id.parse().ok()).unwrap_or_default();
    let asked = inbound.context(&call.context().tenant_id, request).await?;
    let asked = asked.filter(|asked| asked.source_channel == channel);
    if let Some(asked) = &asked {
        // No word of it is shown, but that it came, and whether its sender may be told by itself.
        call.shows(&Label { trust: Trust::Owner, audience: asked.audience.clone() });
    }
    Ok(asked)
}

async fn reply(call: ToolCall, inbound: Inbound, outbox: Outbox, channel: &str) -> Result<Value, ToolError> {
    let Some(asked) = message_of(&call, &inbound, channel).await? else {
        let why = format!("Nothing was sent: there is no message of this request_id that came over {channel}.");
        return Err(ToolError::refused("not_found", why));
    };
    let recipient = Recipient {
        channel: channel.to_owned(),
        target: asked.source_sender_identity.clone(),
        thread: asked.source_thread_identity.clone(),
        name: asked.source_sender_identity.clone(),
        contact: None,
        own: !inbound.answer_reaches(&asked).outward,
    };
    let delivery = NewDelivery {
        id: Uuid::now_v7(),
        recipient: &recipient,
        request: &asked,
        session: call.session().map(|s| s.0),
        kind: "message",
        answers: true,
        subject: None,
        message: call.text("message").unwrap_or_default(),
        priority: Priority::High,
        due_at: outbox.clock().now(),
        deferred: None,
        holds: None,
        files: &[],
    };
    let (id, fresh) = outbox.enqueue(&call, &delivery).await?;
    // To whom it goes is not told: strangers choose their names themselves.
    let mut said = json!({"status": "ok", "delivery_id": id, "channel": channel,
                          "note": "It is on its way; you will hear if it can't be delivered."});
    if !fresh {
        said["duplicate"] = json!(true);
    }
    Ok(said)
}
