//! How the channels are: what waits, what was put off and until when, and how the last tries ended. There is no breaker
//! and no counter besides the outbox: what is told here are its rows.

use serde_json::{Value, json};

use super::{channel, shows, text};
use crate::delivery::Delivery;
use crate::handle::Outbox;
use crate::sql::tools as sql;
use base::TenantId;
use tools::{Tool, ToolCall, ToolError, handler};

pub(super) fn tools(outbox: &Outbox) -> Vec<Tool> {
    let named = || text(31, "Only this channel: chat, email, telegram, …");
    let (depth, limits, circuits) = (outbox.clone(), outbox.clone(), outbox.clone());
    vec![
        Tool::built_in(
            "messenger_queue_depth",
            "What has not left yet, for each channel: how much is pending, deferred, waiting for the channel \
             itself and being sent, since when the oldest waits and when the next is due.",
            json!({"channel": named()}),
            &[],
            shows(),
            handler(move |call| queue(call, depth.clone())),
        ),
        Tool::built_in(
            "messenger_rate_limit_status",
            "For each recipient on a channel with something waiting or tried within the last minute: the tries of that \
             minute, the limit where the channel has one, and until when the other side or the limit puts it off.",
            json!({"channel": named(), "identity_scope": text(500, "Only this recipient, as messenger_delivery_search shows it")}),
            &[],
            shows(),
            handler(move |call| rates(call, limits.clone())),
        ),
        Tool::built_in(
            "messenger_circuit_status",
            "Whether each channel works: whether it is connected, when something was last sent, how the last try that \
             failed ended, how many failed in a row, and until when what waits is put off. No channel is ever closed \
             by itself: a delivery is tried again by its own times.",
            json!({"channel": named()}),
            &[],
            shows(),
            handler(move |call| states(call, circuits.clone())),
        ),
    ]
}

/// The channels that are asked about: the named one, or all that are connected or were used.
async fn asked(call: &ToolCall, outbox: &Outbox) -> Result<Vec<String>, ToolError> {
    if let Some(named) = channel(call, outbox).await? {
        return Ok(vec![named]);
    }
    let mut all: Vec<String> = outbox.ways().into_keys().collect();
    all.extend(sql::used_channels(call).await?);
    all.sort();
    all.dedup();
    Ok(all)
}

async fn queue(call: ToolCall, outbox: Outbox) -> Result<Value, ToolError> {
    let asked = asked(&call, &outbox).await?;
    let channels = sql::queues(&call, &asked).await?;
    let count =
        |c: &Value| ["pending", "deferred", "waiting", "sending"].iter().filter_map(|s| c[*s].as_i64()).sum::<i64>();
    Ok(json!({"total": channels.iter().map(count).sum::<i64>(), "channels": channels}))
}

async fn rates(call: ToolCall, outbox: Outbox) -> Result<Value, ToolError> {
    let asked = asked(&call, &outbox).await?;
    let scope = call.text("identity_scope");
    if let Some(scope) = scope
        && !sql::ever_to(&call, scope, &asked).await?
    {
        let why = format!("Nothing was ever to be sent to {scope} there; messenger_delivery_search shows recipients.");
        return Err(ToolError::refused("not_found", why));
    }
    let mut lanes = sql::rates(&call, &asked, scope).await?;
    for lane in &mut lanes {
        let (channel, target) = (lane["channel"].as_str().unwrap_or_default(), lane["recipient"].as_str());
        let most = limit_of(&outbox, &call.context().tenant_id, channel, target.unwrap_or_default());
        lane["limit_per_minute"] = json!(most);
    }
    Ok(lanes.into())
}

/// How many tries a minute the channel lets go to this end; `None`: it has no limit of its own.
fn limit_of(outbox: &Outbox, tenant: &TenantId, channel: &str, target: &str) -> Option<u32> {
    outbox.channel(channel)?.per_minute(&Delivery::sketch(tenant, channel, target, outbox.clock().now()))
}

async fn states(call: ToolCall, outbox: Outbox) -> Result<Value, ToolError> {
    let asked = asked(&call, &outbox).await?;
    let mut channels = sql::states(&call, &asked).await?;
    for shown in &mut channels {
        let there = shown["channel"].as_str().and_then(|name| outbox.channel(name));
        let failing = shown["failed_in_a_row"].as_i64().unwrap_or(0) > 0;
        shown["connected"] = json!(there.is_some());
        shown["carries_answers"] = json!(there.is_some_and(|c| c.answers()));
        shown["state"] = json!(match (shown["connected"] == true, failing) {
            (false, _) => "not_connected",
            (true, true) => "failing",
            (true, false) => "working",
        });
    }
    Ok(channels.into())
}
