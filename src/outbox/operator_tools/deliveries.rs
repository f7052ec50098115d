//! What became of deliveries: one, its tries, all of a request, those that a search finds, and how many of which.

use serde_json::{Value, json};

use super::{channel, define, id, id_of, limit, offset, page, shows, since, text};
use crate::handle::Outbox;
use tools::{Tool, ToolCall, ToolError, handler};

/// What is told of a delivery.
pub(super) const COLUMNS: &str = "d.id AS delivery_id, d.origin AS origin_butler, d.request_id, d.kind, d.intent,
    d.channel, d.target AS recipient, d.subject, left(d.message, 500) AS message, d.emoji, d.priority, d.state,
    d.reason, d.last_error AS error, d.due_at, d.attempts, d.created_at, d.settled_at";

pub(super) fn tools(outbox: &Outbox) -> Vec<Tool> {
    let delivery = json!({"delivery_id": id_of("Id of the delivery, as notify or messenger_delivery_search gave it")});
    let butler = text(31, "The butler that wanted it said");
    let (searching, counting) = (outbox.clone(), outbox.clone());
    vec![
        Tool::new(
            &define(
                "messenger_delivery_status",
                "How one delivery stands: its state (pending, deferred, waiting, sending, sent, unknown, failed, dead), why, when it \
                 is due and what the other side's receipt says. `unknown` means that it left and nobody knows whether \
                 it arrived.",
                delivery.clone(),
                &["delivery_id"],
                shows(),
            ),
            handler(status),
        ),
        Tool::new(
            &define(
                "messenger_delivery_search",
                "Deliveries of all butlers, the newest first, by who wanted them, channel, intent, state and time.",
                json!({"origin_butler": butler, "channel": text(31, "chat, email, telegram, …"),
                       "intent": {"type": "string", "enum": ["send", "reply", "react"]},
                       "status": {"type": "string", "enum": ["pending", "deferred", "waiting", "sending", "sent", "unknown", "failed",
                                                             "dead"]},
                       "since": since(), "until": text(64, "Before this time"), "limit": limit(), "offset": offset()}),
                &[],
                shows(),
            ),
            handler(move |call| search(call, searching.clone())),
        ),
        Tool::new(
            &define(
                "messenger_delivery_attempts",
                "The tries of one delivery in their order, each with its end: sent, not_sent, refused, unknown, or lost \
                 (nobody was there to see it). None yet is an empty list.",
                delivery,
                &["delivery_id"],
                shows(),
            ),
            handler(attempts),
        ),
        Tool::new(
            &define(
                "messenger_delivery_trace",
                "Everything that was to leave for one request, by any butler, with each try: what was wanted, tried, and \
                 what came of it.",
                json!({"request_id": id_of("Id of the request, as a session or a delivery carries it")}),
                &["request_id"],
                shows(),
            ),
            handler(trace),
        ),
        Tool::new(
            &define(
                "messenger_delivery_stats",
                "How many deliveries came to which state, with their tries and the seconds from wanted to sent, for each \
                 channel, butler, intent, state or day.",
                json!({"since": since(), "until": text(64, "Before this time"),
                       "group_by": {"type": "string", "enum": ["channel", "origin_butler", "intent", "status", "day"],
                                    "default": "channel"}}),
                &[],
                shows(),
            ),
            handler(move |call| stats(call, counting.clone())),
        ),
    ]
}

fn unknown() -> ToolError {
    let why = "There is no delivery with that id; messenger_delivery_search shows what there is.";
    ToolError::refused("not_found", why)
}

async fn one(call: &ToolCall) -> Result<Value, ToolError> {
    let sql = format!(
        "SELECT {COLUMNS}, d.receipt, d.failures, d.discarded,
                CASE WHEN d.state = 'pending' AND d.available_at > clock_timestamp() THEN d.available_at END AS not_before
         FROM shared.deliveries() d WHERE d.id = $1"
    );
    let mut rows = call.objects(&sql, &[&id(call, "delivery_id")]).await?;
    rows.pop().ok_or_else(unknown)
}

async fn status(call: ToolCall) -> Result<Value, ToolError> {
    one(&call).await
}

async fn attempts(call: ToolCall) -> Result<Value, ToolError> {
    one(&call).await?;
    let sql = "SELECT n, begun_at, ended_at, outcome, detail FROM shared.delivery_attempts()
               WHERE delivery_id = $1 ORDER BY n";
    Ok(call.objects(sql, &[&id(&call, "delivery_id")]).await?.into())
}

async fn search(call: ToolCall, outbox: Outbox) -> Result<Value, ToolError> {
    let channel = channel(&call, &outbox).await?;
    let (since, until) = call.span()?;
    let (limit, offset) = page(&call);
    let sql = format!(
        "SELECT {COLUMNS} FROM shared.deliveries() d
         WHERE ($1::text IS NULL OR d.origin = $1) AND ($2::text IS NULL OR d.channel = $2)
           AND ($3::text IS NULL OR d.intent = $3) AND ($4::text IS NULL OR d.state = $4)
           AND ($5::timestamptz IS NULL OR d.created_at >= $5) AND ($6::timestamptz IS NULL OR d.created_at < $6)
         ORDER BY d.seq DESC LIMIT $7 OFFSET $8"
    );
    let (origin, intent, state) = (call.text("origin_butler"), call.text("intent"), call.text("status"));
    let rows = call.objects(&sql, &[&origin, &channel, &intent, &state, &since, &until, &limit, &offset]).await?;
    Ok(rows.into())
}

async fn trace(call: ToolCall) -> Result<Value, ToolError> {
    let request = id(&call, "request_id");
    let sql = format!("SELECT {COLUMNS}, d.receipt FROM shared.deliveries() d WHERE d.request_id = $1 ORDER BY d.seq");
    let mut found = call.objects(&sql, &[&request]).await?;
    if found.is_empty() {
        let why =
            "Nothing was to be sent for a request of that id; messenger_delivery_search shows deliveries with theirs.";
        return Err(ToolError::refused("not_found", why));
    }
    let sql = "SELECT a.delivery_id, a.n, a.begun_at, a.ended_at, a.outcome, a.detail
               FROM shared.delivery_attempts() a JOIN shared.deliveries() d ON d.id = a.delivery_id
               WHERE d.request_id = $1 ORDER BY a.begun_at, a.n";
    let tries = call.objects(sql, &[&request]).await?;
    for delivery in &mut found {
        let own = tries.iter().filter(|a| a["delivery_id"] == delivery["delivery_id"]);
        delivery["tries"] = own.cloned().collect();
    }
    Ok(json!({"request_id": request, "deliveries": found}))
}

async fn stats(call: ToolCall, outbox: Outbox) -> Result<Value, ToolError> {
    let (since, until) = call.span()?;
    let by = match call.text("group_by").unwrap_or("channel") {
        "origin_butler" => "d.origin",
        "intent" => "d.intent",
        "status" => "d.state",
        "day" => "d.created_at::date::text",
        _ => "d.channel",
    };
    let sql = format!(
        "SELECT {by} AS \"group\", count(*) AS deliveries, count(*) FILTER (WHERE d.state = 'sent') AS sent,
                count(*) FILTER (WHERE d.state IN ('pending', 'deferred', 'waiting', 'sending')) AS waiting,
                count(*) FILTER (WHERE d.state IN ('failed', 'dead')) AS failed,
                count(*) FILTER (WHERE d.state = 'unknown') AS unknown, sum(d.attempts) AS attempts,
                round(percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM d.settled_at - d.created_at))
                      FILTER (WHERE d.state = 'sent')::numeric, 3) AS median_s_to_sent
         FROM shared.deliveries() d
         WHERE ($1::timestamptz IS NULL OR d.created_at >= $1) AND ($2::timestamptz IS NULL OR d.created_at < $2)
         GROUP BY 1 ORDER BY 1"
    );
    let groups = call.objects(&sql, &[&since, &until]).await?;
    Ok(
        json!({"until": until.unwrap_or_else(|| outbox.clock().now()).to_string(), "since": since.map(|t| t.to_string()),
              "groups": groups}),
    )
}
