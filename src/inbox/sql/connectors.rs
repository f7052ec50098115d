//! The statements on `connector_registry`.

use jiff::Timestamp;
use serde_json::Value;

use tools::{ToolCall, ToolError};

/// A connector's sign of life.
pub struct SignOfLife<'a> {
    pub connector_type: &'a str,
    pub endpoint_identity: &'a str,
    pub instance_id: &'a str,
    pub version: Option<&'a str>,
    pub state: &'a str,
    pub error_message: Option<&'a str>,
    pub uptime_s: i64,
    pub counters: &'a Value,
    pub checkpoint: Option<&'a Value>,
    pub capabilities: Option<&'a Value>,
}

/// Notes a sign of life as the call's effect. The first registers the connector.
pub async fn heard(call: &ToolCall, sign: SignOfLife<'_>, now: Timestamp) -> Result<(), ToolError> {
    let sql =
        "INSERT INTO connector_registry (connector_type, endpoint_identity, instance_id, version, state, error_message,
            uptime_s, counters, checkpoint, capabilities, last_seen_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
        ON CONFLICT (tenant_id, connector_type, endpoint_identity) DO UPDATE SET
            instance_id = $3, version = $4, state = $5, error_message = $6, uptime_s = $7, counters = $8,
            checkpoint = coalesce($9, connector_registry.checkpoint),
            capabilities = coalesce($10, connector_registry.capabilities), last_seen_at = $11, disconnected_at = NULL";
    let SignOfLife { connector_type, endpoint_identity, instance_id, version, state, .. } = sign;
    let SignOfLife { error_message, uptime_s, counters, checkpoint, capabilities, .. } = sign;
    let who: store::Params<'_> = &[&connector_type, &endpoint_identity, &instance_id, &version];
    let how: store::Params<'_> = &[&state, &error_message, &uptime_s, &counters, &checkpoint, &capabilities, &now];
    call.effect(sql, &[who, how].concat()).await.map(drop)
}

store::row! {
    /// A connector on record.
    pub struct ConnectorRow {
        pub connector_type: String,
        pub endpoint_identity: String,
        pub instance_id: String,
        pub version: Option<String>,
        pub state: String,
        pub error_message: Option<String>,
        pub uptime_s: i64,
        pub counters: Value,
        pub checkpoint: Option<Value>,
        pub capabilities: Option<Value>,
        pub first_seen_at: Timestamp,
        pub last_seen_at: Timestamp,
        pub disconnected_at: Option<Timestamp>,
    }
}

/// All connectors.
pub async fn list(call: &ToolCall) -> Result<Vec<ConnectorRow>, ToolError> {
    let sql =
        "SELECT connector_type, endpoint_identity, instance_id, version, state, error_message, uptime_s, counters,
                      checkpoint, capabilities, first_seen_at, last_seen_at, disconnected_at
               FROM connector_registry ORDER BY connector_type, endpoint_identity";
    Ok(call.query(sql, &[]).await?.iter().map(ConnectorRow::from).collect())
}

/// Signs a connector off as the call's effect. Returns its instance.
pub async fn sign_off(
    call: &ToolCall,
    kind: Option<&str>,
    endpoint: Option<&str>,
) -> Result<Option<String>, ToolError> {
    let sql = "UPDATE connector_registry SET disconnected_at = coalesce(disconnected_at, shared.clock())
               WHERE connector_type = $1 AND endpoint_identity = $2 RETURNING instance_id";
    Ok(call.effect(sql, &[&kind, &endpoint]).await?.first().map(|row| row.get("instance_id")))
}

/// Whether a connector was signed off and has given no sign of life since.
pub async fn is_off(call: &ToolCall, kind: Option<&str>, endpoint: Option<&str>) -> Result<bool, ToolError> {
    let sql = "SELECT 1 FROM connector_registry
               WHERE connector_type = $1 AND endpoint_identity = $2 AND disconnected_at IS NOT NULL";
    Ok(!call.query(sql, &[&kind, &endpoint]).await?.is_empty())
}
