//! Changing what is remembered: confirming, judging, forgetting, and taking back.

use serde_json::{Value, json};
use uuid::Uuid;

use super::{With, define, id, id_of, in_tx, kind, memory_type, origin, permanence_of, text};
use crate::ModuleError;
use memory::sql::story;
use memory::write::{self, Kind, Permanence, WriteError};
use tools::{Effect, Meta, Tool, ToolCall, ToolError, handler};

pub(super) const NAMES: &[&str] = &[
    "memory_confirm",
    "memory_mark_helpful",
    "memory_mark_harmful",
    "memory_forget",
    "memory_reclassify",
    "memory_undo",
];

pub(super) fn tools(with: &With) -> Result<Vec<Tool>, ModuleError> {
    let meta = Meta::write;
    let judging = || Meta { reads_private: true, ..meta(Effect::Once) };
    let which = || json!({"memory_type": memory_type(), "memory_id": id_of("memory")});
    let with_reason = |mut own: Value| {
        own["reason"] = text(500, "Why, without repeating what it says");
        own
    };
    let both: &[&str] = &["memory_type", "memory_id"];
    Ok(vec![
        tool!(
            with,
            meta(Effect::Once),
            memory_confirm,
            "Say that a fact or a rule still holds: somebody just said so, or it turned out to be so.",
            which(),
            both
        ),
        tool!(
            with,
            judging(),
            memory_mark_helpful,
            "Say that following a rule helped.",
            json!({"rule_id": id_of("rule")}),
            &["rule_id"]
        ),
        tool!(
            with,
            judging(),
            memory_mark_harmful,
            "Say that following a rule did harm. One that keeps doing so is turned into a warning.",
            with_reason(json!({"rule_id": id_of("rule")})),
            &["rule_id"]
        ),
        tool!(
            with,
            meta(Effect::Idempotent),
            memory_forget,
            "Forget a memory: it is found no more and does not come back by itself. memory_undo takes it back.",
            with_reason(which()),
            both
        ),
        tool!(
            with,
            meta(Effect::Idempotent),
            memory_reclassify,
            "Say how long a fact or a rule is likely to stay so.",
            json!({"memory_type": memory_type(), "memory_id": id_of("memory"),
                   "permanence_target": super::permanence(Permanence::Standard)}),
            &["memory_type", "memory_id", "permanence_target"]
        ),
        tool!(
            with,
            meta(Effect::Once),
            memory_undo,
            "Take back what an event did to memories, as memory_why lists them. Refused where something newer stands on it.",
            with_reason(json!({"event": id_of("event")})),
            &["event"]
        ),
    ])
}

async fn memory_confirm(call: ToolCall, with: With) -> Result<Value, ToolError> {
    let (kind, which) = (kind(&call), id(&call, "memory_id")?);
    let origin = origin(&call, &with.memory).await?;
    let event = in_tx!(&call, &with, |tx| write::confirm(&mut tx, &origin, kind, which));
    Ok(json!({"confirmed": true, "id": which, "event": event}))
}

async fn judged(call: &ToolCall, which: Uuid, event: Uuid) -> Result<Value, ToolError> {
    let mut rule = story::shown(&mut &*call, Kind::Rule, which).await?.unwrap_or_default();
    rule["event"] = json!(event);
    Ok(rule)
}

/// The error of a rule that is not there, as callers of the older tools know it.
fn named(done: Result<Uuid, WriteError>) -> Result<Uuid, WriteError> {
    done.map_err(|e| match e {
        WriteError::Refused { code: code @ "not_found", .. } => {
            WriteError::Refused { code, message: "Rule not found".to_owned() }
        }
        e => e,
    })
}

async fn memory_mark_helpful(call: ToolCall, with: With) -> Result<Value, ToolError> {
    let which = id(&call, "rule_id")?;
    let origin = origin(&call, &with.memory).await?;
    let event = in_tx!(&call, &with, |tx| async { named(write::mark_helpful(&mut tx, &origin, which).await) });
    judged(&call, which, event).await
}

async fn memory_mark_harmful(call: ToolCall, with: With) -> Result<Value, ToolError> {
    let (which, reason) = (id(&call, "rule_id")?, call.text("reason"));
    let origin = origin(&call, &with.memory).await?;
    let event = in_tx!(&call, &with, |tx| async { named(write::mark_harmful(&mut tx, &origin, which, reason).await) });
    judged(&call, which, event).await
}

async fn memory_forget(call: ToolCall, with: With) -> Result<Value, ToolError> {
    let (kind, which, reason) = (kind(&call), id(&call, "memory_id")?, call.text("reason"));
    let origin = origin(&call, &with.memory).await?;
    let event = in_tx!(&call, &with, |tx| write::forget(&mut tx, &origin, kind, which, reason));
    Ok(json!({"forgotten": true, "id": which, "event": event}))
}

async fn memory_reclassify(call: ToolCall, with: With) -> Result<Value, ToolError> {
    let (kind, which) = (kind(&call), id(&call, "memory_id")?);
    let to = permanence_of(&call, "permanence_target", Permanence::Standard);
    let origin = origin(&call, &with.memory).await?;
    let event = in_tx!(&call, &with, |tx| write::reclassify(&mut tx, &origin, kind, which, to));
    Ok(json!({"id": which, "permanence": to, "decay_rate": to.decay_rate(), "event": event}))
}

async fn memory_undo(call: ToolCall, with: With) -> Result<Value, ToolError> {
    let (which, reason) = (id(&call, "event")?, call.text("reason"));
    let origin = origin(&call, &with.memory).await?;
    in_tx!(&call, &with, |tx| write::undo(&mut tx, &origin, which, reason));
    Ok(json!({"undone": true, "event": which}))
}
