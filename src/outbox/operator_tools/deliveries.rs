//! What became of deliveries: one, its tries, all of a request, those that a search finds, and how many of which.

use serde_json::{Value, json};

use super::{channel, id, id_of, limit, offset, page, shows, since, text};
use crate::handle::Outbox;
use crate::sql::tools::{self as sql, Wanted};
use tools::{Tool, ToolCall, ToolError, handler};

pub(super) fn tools(outbox: &Outbox) -> Vec<Tool> {
    let delivery = json!({"delivery_id": id_of("Id of the delivery, as notify or messenger_delivery_search gave it")});
    let butler = text(31, "The butler that wanted it said");
    let (searching, counting) = (outbox.clone(), outbox.clone());
    vec![
        Tool::built_in(
            "messenger_delivery_status",
            "How one delivery stands: its state (pending, deferred, waiting, sending, sent, unknown, failed, dead), why, when it \
             is due and what the other side's receipt says. `unknown` means that it left and nobody knows whether \
             it arrived.",
            delivery.clone(),
            &["delivery_id"],
            shows(),
            handler(|call| async move { one(&call).await }),
        ),
        Tool::built_in(
            "messenger_delivery_search",
            "Deliveries of all butlers, the newest first, by who wanted them, channel, intent, state and time.",
            json!({"origin_butler": butler, "channel": text(31, "chat, email, telegram, …"),
                   "intent": {"type": "string", "enum": ["send", "reply", "react"]},
                   "status": {"type": "string", "enum": ["pending", "deferred", "waiting", "sending", "sent", "unknown", "failed",
                                                         "dead"]},
                   "since": since(), "until": text(64, "Before this time"), "limit": limit(), "offset": offset()}),
            &[],
            shows(),
            handler(move |call| search(call, searching.clone())),
        ),
        Tool::built_in(
            "messenger_delivery_attempts",
            "The tries of one delivery in their order, each with its end: sent, not_sent, refused, unknown, or lost \
             (nobody was there to see it). None yet is an empty list.",
            delivery,
            &["delivery_id"],
            shows(),
            handler(attempts),
        ),
        Tool::built_in(
            "messenger_delivery_trace",
            "Everything that was to leave for one request, by any butler, with each try: what was wanted, tried, and \
             what came of it.",
            json!({"request_id": id_of("Id of the request, as a session or a delivery carries it")}),
            &["request_id"],
            shows(),
            handler(trace),
        ),
        Tool::built_in(
            "messenger_delivery_stats",
            "How many deliveries came to which state, with their tries and the seconds from wanted to sent, for each \
             channel, butler, intent, state or day.",
            json!({"since": since(), "until": text(64, "Before this time"),
                   "group_by": {"type": "string", "enum": ["channel", "origin_butler", "intent", "status", "day"],
                                "default": "channel"}}),
            &[],
            shows(),
            handler(move |call| stats(call, counting.clone())),
        ),
    ]
}

fn unknown() -> ToolError {
    let why = "There is no delivery with that id; messenger_delivery_search shows what there is.";
    ToolError::refused("not_found", why)
}

async fn one(call: &ToolCall) -> Result<Value, ToolError> {
    sql::one(call, id(call, "delivery_id")).await?.ok_or_else(unknown)
}

async fn attempts(call: ToolCall) -> Result<Value, ToolError> {
    one(&call).await?;
    Ok(sql::tries_of(&call, id(&call, "delivery_id")).await?.into())
}

async fn search(call: ToolCall, outbox: Outbox) -> Result<Value, ToolError> {
    let channel = channel(&call, &outbox).await?;
    let (since, until) = call.span()?;
    let (limit, offset) = page(&call);
    let wanted = Wanted { origin: call.text("origin_butler"), channel: channel.as_deref(), since, limit, offset };
    let which = (call.text("intent"), call.text("status"));
    Ok(sql::search(&call, &wanted, which, until).await?.into())
}

async fn trace(call: ToolCall) -> Result<Value, ToolError> {
    let request = id(&call, "request_id");
    let mut found = sql::of_request(&call, request).await?;
    if found.is_empty() {
        let why =
            "Nothing was to be sent for a request of that id; messenger_delivery_search shows deliveries with theirs.";
        return Err(ToolError::refused("not_found", why));
    }
    let tries = sql::tries_of_request(&call, request).await?;
    for delivery in &mut found {
        let own = tries.iter().filter(|a| a["delivery_id"] == delivery["delivery_id"]);
        delivery["tries"] = own.cloned().collect();
    }
    Ok(json!({"request_id": request, "deliveries": found}))
}

async fn stats(call: ToolCall, outbox: Outbox) -> Result<Value, ToolError> {
    let (since, until) = call.span()?;
    let by = call.text("group_by").unwrap_or("channel");
    let groups = sql::counts(&call, by, (since, until)).await?;
    Ok(
        json!({"until": until.unwrap_or_else(|| outbox.clock().now()).to_string(), "since": since.map(|t| t.to_string()),
              "groups": groups}),
    )
}
