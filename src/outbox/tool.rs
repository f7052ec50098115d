//! How a tool's call becomes a delivery, and the tools that channels bring to the messenger.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use super::delivery::NewDelivery;
use super::files::{OutFile, files_to_save};
use super::handle::Outbox;
use super::quiet;
use super::recipient::Recipient;
use super::sql::post;
use super::sql::views::DeliveryStatus;
use base::{Label, Principal, Priority, crash};
use tools::{
    self, Definition, Effect, EgressRecipient, EgressTargetFn, Meta, SchemaError, Tool, ToolCall, ToolError, handler,
};

/// What a call hears that would send what it did not write to somebody else.
pub const ATTACHMENTS_TO_OWNER: &str = "Nothing was sent: a stored attachment goes to the owner alone. To others goes what you write into a file yourself.";
/// What a call hears that says the same once more with other files.
pub const FILES_TOO_LATE: &str =
    "Nothing was sent: the very same words were said before. Send the files with other words.";
/// A caller waits this long for the end of what leaves at once.
const WAIT: Duration = Duration::from_secs(2);

/// Until when something of this priority waits, if it does.
pub fn deferred_until(outbox: &Outbox, priority: Priority) -> Option<Timestamp> {
    let owner = outbox.owner();
    let now = outbox.clock().now();
    (priority != Priority::High).then(|| quiet::until(now, owner.quiet_hours, &owner.zone)).flatten()
}

impl Outbox {
    /// Posts a letter in the call's own transaction. Which row it is, and whether it is new.
    pub async fn enqueue(&self, call: &ToolCall, delivery: &NewDelivery<'_>) -> Result<(Uuid, bool), ToolError> {
        let posted = post::queue(call, &delivery.row(), delivery.holds, delivery.files).await?;
        let posted = posted.ok_or_else(|| ToolError::Internal("nothing was posted".to_owned()))?;
        if !posted.attached {
            return Err(ToolError::refused("said_already", FILES_TOO_LATE));
        }
        crash::point("notify.committed");
        self.wake();
        Ok((posted.delivery, posted.fresh))
    }

    /// Posts a letter that is to leave at once, and answers with what became of it by then.
    pub async fn send(&self, call: &ToolCall, delivery: &NewDelivery<'_>) -> Result<Value, ToolError> {
        let tenant = &call.context().tenant_id;
        let _waiting = self.wait_for(delivery.id);
        let (id, fresh) = self.enqueue(call, delivery).await?;
        // It is committed: that its end can't be read now changes nothing.
        let posted = self.outcome(tenant, id, WAIT).await.unwrap_or_else(|e| {
            tracing::debug!(error = %e, "the outcome of a delivery can't be read yet");
            DeliveryStatus::open(id, delivery.due_at)
        });
        if posted.error.is_some()
            && let Err(e) = self.heard(tenant, id).await
        {
            tracing::debug!(error = %e, "a butler may be told of a delivery twice");
        }
        Ok(answer(delivery.recipient, &posted, fresh))
    }
}

/// The answer to whoever wanted it sent.
fn answer(recipient: &Recipient, posted: &DeliveryStatus, fresh: bool) -> Value {
    let mut said = json!({"status": "ok", "delivery_id": posted.delivery, "state": posted.state,
                          "channel": recipient.channel, "recipient": recipient.name});
    let why = posted.error.as_deref().unwrap_or("no reason is on record");
    match posted.state.as_str() {
        "deferred" => {
            said["status"] = json!("deferred");
            said["deliver_at"] = json!(posted.due_at.to_string());
        }
        "failed" | "dead" => {
            said["status"] = json!("error");
            said["code"] = json!("not_delivered");
            said["error"] = json!(format!("It was not delivered: {why}."));
        }
        "unknown" => {
            said["status"] = json!("unknown");
            said["error"] = json!(format!("It left, and nobody knows whether it arrived: {why}. Don't send it again."));
        }
        "waiting" => {
            said["note"] = json!(format!("It was not sent, and stays until it can be: {why}. Don't send it again."))
        }
        "pending" | "sending" => {
            said["note"] = json!("It is on its way; you will hear if it can't be delivered.");
        }
        _ => {}
    }
    if !fresh {
        said["duplicate"] = json!(true);
    }
    said
}

/// Tells the door where a call goes that names a channel and a recipient, each or neither. `channel`: the only one.
pub fn egress_target_fn(outbox: &Outbox, channel: Option<&str>) -> EgressTargetFn {
    let (outbox, channel) = (outbox.clone(), channel.map(str::to_owned));
    Arc::new(move |call| {
        let (outbox, channel) = (outbox.clone(), channel.clone());
        Box::pin(async move {
            let channel = channel.as_deref().or_else(|| call.text("channel"));
            egress_target(&outbox, call, channel, call.text("recipient")).await
        })
    })
}

/// Tells the door where a call goes whose channel and recipient these are.
pub async fn egress_target(
    outbox: &Outbox,
    call: &ToolCall,
    channel: Option<&str>,
    recipient: Option<&str>,
) -> Result<Option<tools::EgressTarget>, ToolError> {
    let mut lease = call.lease().await?;
    let recipient = outbox.resolve_recipient(&mut lease, &call.context().tenant_id, channel, recipient).await?;
    Ok(recipient.ok().map(|recipient| recipient.told()))
}

impl Recipient {
    /// As the door is told.
    fn told(&self) -> tools::EgressTarget {
        let to = match self.own && self.name != self.target {
            true => format!("{} on {}", self.name, self.channel),
            false => format!("{} ({}) on {}", self.name, self.target, self.channel),
        };
        let recipient = EgressRecipient {
            name: Some(self.name.clone()).filter(|name| *name != self.target),
            channel: self.channel.clone(),
            address: self.target.clone(),
        };
        let those = (!self.own).then(|| Principal::person(&self.channel, &self.target));
        let those = Some(those.into_iter().collect());
        tools::EgressTarget { outward: !self.own, to, recipient: Some(recipient), those }
    }
}

/// The name of the tool that sends over a channel.
pub fn send_tool_name(channel: &str) -> String {
    format!("{channel}_send_message")
}

/// A channel's tool of the messenger: a row of the outbox like any other.
pub fn send_tool(outbox: &Outbox, channel: &str) -> Result<Tool, SchemaError> {
    let text =
        |most: u32, what: &str| json!({"type": "string", "minLength": 1, "maxLength": most, "description": what});
    let schema = json!({"type": "object", "additionalProperties": false, "required": ["message"], "properties": {
        "recipient": text(500, "To whom: a person whom the household knows, or a configured end; without it the owner"),
        "message": text(65536, "The text, unchanged"),
        "subject": text(500, "A subject, where the channel has one"),
        "priority": {"type": "string", "enum": ["high", "medium", "low"], "default": "medium"}}});
    let meta = Meta { sends_out: true, ..Meta::write(Effect::Once) }.labelled();
    let about = format!("Send a text over {channel}.");
    let definition = Definition::new(&send_tool_name(channel), &about, schema, meta)?;
    let egress_target = egress_target_fn(outbox, Some(channel));
    let (outbox, channel) = (outbox.clone(), channel.to_owned());
    let sending = handler(move |call| {
        let (outbox, channel) = (outbox.clone(), channel.clone());
        async move { send(&call, &outbox, SendRequest { channel: Some(&channel), ..SendRequest::of(&call) }).await }
    });
    Ok(Tool::new(&Arc::new(definition), sending).with_egress_target(egress_target))
}

/// What somebody wants sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct SendRequest<'a> {
    pub channel: Option<&'a str>,
    pub recipient: Option<&'a str>,
    pub subject: Option<&'a str>,
    pub message: &'a str,
    pub priority: Option<&'a str>,
    /// The label of what the message holds and the call was not shown. It goes to the owner alone.
    pub holds: Option<&'a Label>,
    /// What goes along.
    pub files: &'a [OutFile],
    /// The files are not all the call's own words: they go to the owner alone.
    pub files_of_others: bool,
}

impl<'a> SendRequest<'a> {
    /// As the call's arguments say it, but for the channel.
    pub fn of(call: &'a ToolCall) -> Self {
        Self {
            recipient: call.text("recipient"),
            subject: call.text("subject"),
            message: call.text("message").unwrap_or_default(),
            priority: call.text("priority"),
            ..Self::default()
        }
    }
}

/// Sends it in the call's name.
pub async fn send(call: &ToolCall, outbox: &Outbox, wanted: SendRequest<'_>) -> Result<Value, ToolError> {
    let tenant = call.context().tenant_id.clone();
    let mut lease = call.lease().await?;
    let recipient = match outbox.resolve_recipient(&mut lease, &tenant, wanted.channel, wanted.recipient).await? {
        Ok(recipient) => recipient,
        Err(nobody) => return nobody.answer(),
    };
    drop(lease);
    if wanted.files_of_others && !recipient.own {
        return Err(ToolError::refused("owner_only", ATTACHMENTS_TO_OWNER));
    }
    if wanted.holds.is_some() && !recipient.own {
        return Err(ToolError::refused("owner_only", "Nothing was sent: only the owner is shown a quote."));
    }
    let shows_files = outbox.channel(&recipient.channel).is_none_or(|channel| channel.carries_files());
    let below = (!shows_files && !wanted.files.is_empty()).then(|| files_to_save(wanted.files));
    let message = below.map(|below| format!("{}\n\n{below}", wanted.message));
    let priority = wanted.priority.map(Priority::from_name).unwrap_or_default();
    let quiet = deferred_until(outbox, priority);
    let delivery = NewDelivery {
        id: Uuid::now_v7(),
        recipient: &recipient,
        request: call.context(),
        session: call.session().map(|s| s.0),
        kind: "message",
        answers: false,
        subject: wanted.subject,
        message: message.as_deref().unwrap_or(wanted.message),
        priority,
        due_at: quiet.unwrap_or_else(|| outbox.clock().now()),
        deferred: quiet.map(|_| "quiet_hours"),
        holds: wanted.holds,
        files: wanted.files,
    };
    outbox.send(call, &delivery).await
}
