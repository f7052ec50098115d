//! What came to a bad end: looking, and what people do about it.

use serde_json::{Value, json};

use super::{channel, id, id_of, limit, offset, operators, page, shows, since, text};
use crate::handle::Outbox;
use crate::sql::tools::{self as sql, Wanted};
use crate::views::DeliveryError;
use base::task;
use tools::{Tool, ToolCall, ToolError, handler};

pub(super) fn tools(outbox: &Outbox) -> Vec<Tool> {
    let dead = id_of("Id of the delivery, from messenger_dead_letter_list");
    let (listing, replaying, discarding) = (outbox.clone(), outbox.clone(), outbox.clone());
    vec![
        Tool::built_in(
            "messenger_dead_letter_list",
            "Deliveries that came to a bad end and wait for a person, the newest first. error_class: refused (the \
             other side won't take it), exhausted (tried too often), expired (could not leave for a day), no_answer \
             and lost (nobody knows whether it arrived).",
            json!({"channel": text(31, "chat, email, telegram, …"), "origin_butler": text(31, "The butler that wanted it said"),
                   "error_class": {"type": "string", "enum": ["refused", "exhausted", "expired", "no_answer", "lost"]},
                   "since": since(), "limit": limit(), "offset": offset(),
                   "include_discarded": {"type": "boolean", "default": false,
                                         "description": "Also those that a person has put aside"}}),
            &[],
            shows(),
            handler(move |call| list(call, listing.clone())),
        ),
        Tool::built_in(
            "messenger_dead_letter_inspect",
            "One bad end with all that is on record: the whole text, the tries, and what can be done about it.",
            json!({"dead_letter_id": dead}),
            &["dead_letter_id"],
            shows(),
            handler(inspect),
        ),
        Tool::built_in(
            "messenger_dead_letter_replay",
            "For people: send one once more that surely did not arrive. Its tries begin anew. One of which it is not \
             known whether it arrived is resolved first (`butlerd deliveries`).",
            json!({"dead_letter_id": dead}),
            &["dead_letter_id"],
            operators(),
            handler(move |call| replay(call, replaying.clone())),
        ),
        Tool::built_in(
            "messenger_dead_letter_discard",
            "For people: put one aside, with the reason. It stays on record (include_discarded), and can still be \
             replayed.",
            json!({"dead_letter_id": dead, "reason": text(1000, "Why nothing more is to be done about it")}),
            &["dead_letter_id", "reason"],
            operators(),
            handler(move |call| discard(call, discarding.clone())),
        ),
    ]
}

async fn list(call: ToolCall, outbox: Outbox) -> Result<Value, ToolError> {
    let channel = channel(&call, &outbox).await?;
    let (since, _) = call.span()?;
    let (limit, offset) = page(&call);
    let all = call.args.get("include_discarded").and_then(Value::as_bool).unwrap_or(false);
    let wanted = Wanted { origin: call.text("origin_butler"), channel: channel.as_deref(), since, limit, offset };
    Ok(sql::dead(&call, &wanted, (call.text("error_class"), all)).await?.into())
}

/// The bad end that is meant.
async fn one(call: &ToolCall) -> Result<Value, ToolError> {
    let found = sql::dead_one(call, id(call, "dead_letter_id")).await?;
    found.ok_or_else(|| {
        let why =
            "There is no delivery of that id that came to a bad end; messenger_dead_letter_list shows those that did.";
        ToolError::refused("not_found", why)
    })
}

async fn inspect(call: ToolCall) -> Result<Value, ToolError> {
    let mut found = one(&call).await?;
    found["tries"] = sql::tries_of(&call, id(&call, "dead_letter_id")).await?.into();
    found["message"] = found["whole_message"].take();
    if let Some(map) = found.as_object_mut() {
        map.remove("whole_message");
    }
    found["replay_eligible"] = json!(found["state"] != "unknown");
    found["next"] = json!(match found["state"].as_str() {
        Some("unknown") => "A person looks whether it arrived and says so: butlerd deliveries resolve.",
        _ =>
            "A person sends it again with messenger_dead_letter_replay, or puts it aside with \
              messenger_dead_letter_discard.",
    });
    Ok(found)
}

/// Does it in a task of its own: what is committed is begun, even when the caller hangs up just now.
async fn done(
    work: impl Future<Output = Result<crate::Changed, DeliveryError>> + Send + 'static,
) -> Result<Value, ToolError> {
    let ended = task::spawn(task::Kind::Request, "dead-letter", work).await;
    match ended.map_err(|e| ToolError::Internal(format!("changing a delivery: {e}")))? {
        Ok(changed) => Ok(json!({"status": "ok", "dead_letter_id": changed.id, "before": changed.before,
                                 "state": changed.state})),
        Err(DeliveryError::Store(e)) => Err(e.into()),
        Err(e) => Err(ToolError::refused("not_now", format!("Nothing was changed: {e}."))),
    }
}

async fn replay(call: ToolCall, outbox: Outbox) -> Result<Value, ToolError> {
    let found = one(&call).await?;
    if found["state"] == "unknown" {
        let why = "Nobody knows whether this one arrived: sent again, the other side may get it twice. Find out, and say \
                   so: butlerd deliveries resolve.";
        return Err(ToolError::refused("outcome_unknown", why));
    }
    let (tenant, delivery) = (call.context().tenant_id.clone(), id(&call, "dead_letter_id"));
    done(async move { outbox.retry(&tenant, delivery).await }).await
}

async fn discard(call: ToolCall, outbox: Outbox) -> Result<Value, ToolError> {
    let found = one(&call).await?;
    if let Some(by) = found["discarded"]["by"].as_str() {
        let reason = found["discarded"]["reason"].as_str().unwrap_or_default();
        let why = format!("It was put aside already, by {by}: {reason}. There is nothing more to do.");
        return Err(ToolError::refused("discarded", why));
    }
    let (tenant, delivery) = (call.context().tenant_id.clone(), id(&call, "dead_letter_id"));
    let by = call.caller.label().to_owned();
    let reason = call.text("reason").unwrap_or_default().to_owned();
    done(async move { outbox.discard(&tenant, delivery, &by, &reason).await }).await
}
