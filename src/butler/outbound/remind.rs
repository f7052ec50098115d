//! `remind`: a message to the owner at its time, for which no session is started; or a session of the butler's own
//! then.

use std::sync::{Arc, LazyLock};

use jiff::civil::DateTime;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use uuid::Uuid;

use super::define;
use base::{Priority, text};
use outbox::{NewDelivery, Outbox, egress_target_fn};
use schedule::Scheduler;
use tools::{Definition, Effect, EgressTargetFn, Meta, Tool, ToolCall, ToolError, handler};

/// The furthest time that a reminder may have.
const FURTHEST: SignedDuration = SignedDuration::from_hours(24 * 366 * 10);

pub fn remind_tool(outbox: &Outbox, schedules: &Scheduler) -> Tool {
    static DEFINITION: LazyLock<Arc<Definition>> = LazyLock::new(|| {
        let schema = json!({"type": "object", "additionalProperties": false, "properties": {
            "message": {"type": "string", "minLength": 1, "maxLength": 65536, "description": "What the owner is told then, as it stands"},
            "prompt": {"type": "string", "minLength": 1, "maxLength": 65536,
                       "description": "In its place: what a session of yours is to do then"},
            "channel": {"type": "string", "pattern": "^[a-z][a-z0-9_-]{0,30}$",
                        "description": "Of the message; without it the one that the owner chose"},
            "delay_minutes": {"type": "integer", "description": "In so many minutes; or give remind_at"},
            "remind_at": {"type": "string", "minLength": 1, "maxLength": 64,
                          "description": "When: 2026-11-24T09:00 in the owner's time zone, or with an offset or Z"},
            "request_context": {}}});
        let description = "Remind the owner of something once, at a time, or have a prompt done then.";
        define("remind", description, schema, Meta { sends_out: true, ..Meta::write(Effect::Once) })
    });
    let telling = egress_target_fn(outbox, None);
    let egress_target: EgressTargetFn = Arc::new(move |call| {
        let telling = telling.clone();
        // What a session will say then, it is asked about then.
        Box::pin(async move { if call.text("prompt").is_some() { Ok(None) } else { telling(call).await } })
    });
    let (outbox, schedules) = (outbox.clone(), schedules.clone());
    Tool::new(&DEFINITION, handler(move |call| remind(call, outbox.clone(), schedules.clone())))
        .with_egress_target(egress_target)
}

fn refused<T>(why: impl Into<String>) -> Result<T, ToolError> {
    Err(ToolError::refused("invalid_arguments", why))
}

/// A moment as people and models write it: with an offset, or in the owner's zone.
fn moment(text: &str, outbox: &Outbox) -> Option<Timestamp> {
    let text = text.trim();
    if let Ok(at) = text.parse::<Timestamp>() {
        return Some(at);
    }
    let local = text.parse::<DateTime>().ok()?;
    local.to_zoned(outbox.owner().zone.clone()).ok().map(|zoned| zoned.timestamp())
}

/// When the call wants it.
fn due(call: &ToolCall, outbox: &Outbox) -> Result<Timestamp, ToolError> {
    let now = outbox.clock().now();
    let at = match (call.args.get("delay_minutes").and_then(Value::as_i64), call.text("remind_at")) {
        (Some(_), Some(_)) => return refused("Give delay_minutes or remind_at, not both."),
        (None, None) => return refused("Say when: give delay_minutes or remind_at."),
        (Some(minutes), None) if minutes < 1 => return refused("delay_minutes must be at least 1."),
        (Some(minutes), None) => now.checked_add(SignedDuration::from_mins(minutes.min(1 << 32))).ok(),
        (None, Some(text)) => match moment(text, outbox) {
            Some(at) => Some(at),
            None => return refused(format!("remind_at is not a time: {text}. Write it as 2026-11-24T09:00.")),
        },
    };
    let Some(at) = at.filter(|at| at.duration_since(now) <= FURTHEST) else {
        return refused("That is more than ten years away.");
    };
    if at <= now {
        return refused(format!("{at} is in the past; it is {now} now."));
    }
    Ok(at)
}

async fn remind(call: ToolCall, outbox: Outbox, schedules: Scheduler) -> Result<Value, ToolError> {
    let message = match (call.text("message"), call.text("prompt")) {
        (Some(_), Some(_)) => return refused("Give message or prompt, not both."),
        (None, None) => {
            return refused("Say what: give message, which the owner is told then, or prompt, which is done then.");
        }
        (None, Some(_)) if call.text("channel").is_some() => {
            return refused("channel goes with message; the session of a prompt says itself whom it tells what.");
        }
        (_, Some(text)) | (Some(text), _) if text.trim().is_empty() => return refused("The message is empty."),
        (None, Some(prompt)) => {
            let at = due(&call, &outbox)?;
            let about = prompt.split_whitespace().collect::<Vec<_>>().join(" ");
            let name = format!("remind {at}: {}", text::truncate(&about, 60));
            let made = schedule::once(&call, &schedules, name, prompt, at).await?;
            return Ok(json!({"id": made["id"], "status": made["status"], "name": made["name"],
                             "remind_at": at.to_string(), "prompt": prompt}));
        }
        (Some(message), None) => message,
    };
    let at = due(&call, &outbox)?;
    let tenant = call.context().tenant_id.clone();
    let mut lease = call.lease().await?;
    let recipient = match outbox.resolve_recipient(&mut lease, &tenant, call.text("channel"), None).await? {
        Ok(recipient) => recipient,
        Err(nobody) => return nobody.answer(),
    };
    drop(lease);
    let delivery = NewDelivery {
        id: Uuid::now_v7(),
        recipient: &recipient,
        request: call.context(),
        session: call.session().map(|s| s.0),
        kind: "reminder",
        answers: false,
        subject: None,
        message,
        // The owner wanted it at this time, quiet or not.
        priority: Priority::High,
        due_at: at,
        deferred: Some("scheduled"),
        holds: None,
        files: &[],
    };
    let (id, fresh) = outbox.enqueue(&call, &delivery).await?;
    let mut said = json!({"id": id, "delivery_id": id, "status": "scheduled", "remind_at": at.to_string(),
                          "channel": recipient.channel, "message": message});
    if !fresh {
        said["duplicate"] = json!(true);
    }
    Ok(said)
}
