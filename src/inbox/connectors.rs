//! The connector registry: `connector.heartbeat`, `connector_list`, `connector_disconnect`. A connector registers
//! itself by its first sign of life.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::define::operators;
use super::sql::connectors::{self as sql, SignOfLife};
use tools::{Effect, Meta, Tool, ToolCall, ToolError, handler};

const HEARTBEAT_SCHEMA: &str = "connector.heartbeat.v1";
/// Connectors give a sign of life every two minutes.
const ONLINE: SignedDuration = SignedDuration::from_mins(2);
/// Two that were missed.
const STALE: SignedDuration = SignedDuration::from_mins(4);

/// How a connector is, by its last sign of life.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum Liveness {
    Online,
    Stale,
    Offline,
    /// It was signed off, and nothing came since.
    Disconnected,
}

impl Liveness {
    fn at(last_seen: Timestamp, disconnected: bool, now: Timestamp) -> Self {
        match now.duration_since(last_seen) {
            _ if disconnected => Liveness::Disconnected,
            age if age <= ONLINE => Liveness::Online,
            age if age <= STALE => Liveness::Stale,
            _ => Liveness::Offline,
        }
    }
}

/// The arguments that name one connector.
pub(super) fn names() -> Value {
    json!({
        "connector_type": {"type": "string", "pattern": "^[a-z][a-z0-9_]{0,30}$", "description": "telegram_bot, gmail, …"},
        "endpoint_identity": {"type": "string", "minLength": 1, "maxLength": 500,
                              "description": "The household's own end: a bot, a mailbox"}})
}

/// The tools.
pub(super) fn tools() -> Vec<Tool> {
    let object = |properties: Value, required: &[&str]| json!({"type": "object", "additionalProperties": false, "properties": properties, "required": required});
    let number = json!({"type": "integer", "minimum": 0});
    let mut connector = names();
    connector["instance_id"] = json!({"type": "string", "minLength": 1, "maxLength": 200});
    connector["version"] = json!({"type": ["string", "null"], "maxLength": 100});
    let status = json!({"state": {"type": "string", "enum": ["healthy", "degraded", "error"]},
                        "error_message": {"type": ["string", "null"], "maxLength": 2000}, "uptime_s": number});
    let counters = ["messages_ingested", "messages_failed", "source_api_calls", "checkpoint_saves", "dedupe_accepted"];
    let counted: serde_json::Map<String, Value> = counters.iter().map(|c| ((*c).to_owned(), number.clone())).collect();
    let checkpoint = json!({"cursor": {}, "updated_at": {"type": ["string", "null"], "format": "date-time"}});
    let heartbeat = json!({
        "schema_version": {"type": "string", "enum": [HEARTBEAT_SCHEMA]},
        "connector": object(connector, &["connector_type", "endpoint_identity", "instance_id"]),
        "status": object(status, &["state", "uptime_s"]),
        "counters": object(Value::Object(counted), &counters),
        "checkpoint": object(checkpoint, &["cursor"]),
        "capabilities": {"type": "object"},
        "sent_at": {"type": "string", "format": "date-time"}});
    vec![
        Tool::built_in(
            "connector.heartbeat",
            "A connector's sign of life (connector.heartbeat.v1), every two minutes. The first registers it.",
            heartbeat,
            &["schema_version", "connector", "status", "counters", "sent_at"],
            operators(Effect::Idempotent),
            handler(heartbeat_of),
        ),
        Tool::built_in(
            "connector_list",
            "The connectors that hand messages in, and how each is.",
            json!({}),
            &[],
            Meta { reads_untrusted: true, ..Meta::read() },
            handler(list),
        ),
        Tool::built_in(
            "connector_disconnect",
            "Sign a connector off: it counts as gone until its next sign of life.",
            names(),
            &["connector_type", "endpoint_identity"],
            operators(Effect::Idempotent),
            handler(disconnect),
        ),
    ]
}

#[derive(Deserialize)]
struct Heartbeat {
    connector: Named,
    status: Status,
    counters: Value,
    checkpoint: Option<Value>,
    capabilities: Option<Value>,
}

#[derive(Deserialize)]
struct Named {
    connector_type: String,
    endpoint_identity: String,
    instance_id: String,
    version: Option<String>,
}

#[derive(Deserialize)]
struct Status {
    state: String,
    error_message: Option<String>,
    uptime_s: i64,
}

async fn heartbeat_of(call: ToolCall) -> Result<Value, ToolError> {
    let Heartbeat { connector, status, counters, checkpoint, capabilities } = call.parse()?;
    if status.state == "error" && status.error_message.as_deref().is_none_or(|m| m.trim().is_empty()) {
        let why = "status.state is error, and error_message does not say which; people must be able to help it.";
        return Err(ToolError::refused("no_reason", why));
    }
    let now = call.store.clock().now();
    let sign = SignOfLife {
        connector_type: &connector.connector_type,
        endpoint_identity: &connector.endpoint_identity,
        instance_id: &connector.instance_id,
        version: connector.version.as_deref(),
        state: &status.state,
        error_message: status.error_message.as_deref(),
        uptime_s: status.uptime_s,
        counters: &counters,
        checkpoint: checkpoint.as_ref(),
        capabilities: capabilities.as_ref(),
    };
    sql::heard(&call, sign, now).await?;
    Ok(json!({"status": "accepted", "server_time": now.to_string()}))
}

async fn list(call: ToolCall) -> Result<Value, ToolError> {
    let now = call.store.clock().now();
    let shown = sql::list(&call).await?.into_iter().map(|c| {
        let mut shown = json!(c);
        shown["liveness"] = json!(Liveness::at(c.last_seen_at, c.disconnected_at.is_some(), now));
        shown
    });
    Ok(shown.collect())
}

async fn disconnect(call: ToolCall) -> Result<Value, ToolError> {
    match sql::sign_off(&call, call.text("connector_type"), call.text("endpoint_identity")).await? {
        Some(instance) => Ok(json!({"status": "ok", "instance_id": instance})),
        None => Err(ToolError::refused("not_found", "No connector of that type and endpoint has ever been heard of.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connector_is_as_alive_as_its_last_sign() {
        let seen: Timestamp = "2026-11-01T08:00:00Z".parse().unwrap();
        let at = |seconds| Liveness::at(seen, false, seen + SignedDuration::from_secs(seconds));
        assert_eq!((at(0), at(120), at(121)), (Liveness::Online, Liveness::Online, Liveness::Stale));
        assert_eq!((at(240), at(241)), (Liveness::Stale, Liveness::Offline));
        assert_eq!(Liveness::at(seen, true, seen), Liveness::Disconnected);
    }
}
