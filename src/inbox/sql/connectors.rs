//! The statements on `connector_registry` and `connector_refusals`.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use crate::types::{AccountHealth, Taken};
use store::{Lease, StoreError};
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
    #[derive(Serialize)]
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
        /// How many messages it did not take in, and the newest of them.
        pub refused_in_all: i64,
        pub refused: Value,
    }
}

/// All connectors.
pub async fn list(call: &ToolCall) -> Result<Vec<ConnectorRow>, ToolError> {
    let sql =
        "SELECT c.connector_type, c.endpoint_identity, c.instance_id, c.version, c.state, c.error_message, c.uptime_s,
                c.counters, c.checkpoint, c.capabilities, c.first_seen_at, c.last_seen_at, c.disconnected_at,
                r.refused_in_all, r.refused
         FROM connector_registry c, LATERAL (
             SELECT count(*) AS refused_in_all,
                    coalesce(jsonb_agg(jsonb_build_object('id', n.message, 'why', n.why, 'at', n.refused_at)
                                       ORDER BY n.nth) FILTER (WHERE n.nth <= 20), '[]') AS refused
             FROM (SELECT f.message, f.why, f.refused_at, row_number() OVER (ORDER BY f.refused_at DESC, f.message) AS nth
                   FROM connector_refusals f WHERE f.connector_type = c.connector_type
                                               AND f.endpoint_identity = c.endpoint_identity) n) r
         ORDER BY c.connector_type, c.endpoint_identity";
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

/// Who wants to serve an account, and for how long.
pub struct LeaseWanted<'a> {
    pub connector_type: &'a str,
    pub endpoint_identity: &'a str,
    pub instance_id: &'a str,
    pub lease: Uuid,
    pub seconds: f64,
}

/// Takes an account that nobody holds, that the same instance held before, or that is held by this lease already.
pub async fn take(db: &mut Lease, wanted: &LeaseWanted<'_>, now: Timestamp) -> Result<Taken, StoreError> {
    let failed = || StoreError::query("taking a connector's account");
    let sql =
        "INSERT INTO connector_registry AS c (connector_type, endpoint_identity, instance_id, state, uptime_s, counters,
            last_seen_at, lease_id, lease_until)
        VALUES ($1, $2, $3, 'healthy', 0, '{}', $6, $4, clock_timestamp() + make_interval(secs => $5))
        ON CONFLICT (tenant_id, connector_type, endpoint_identity) DO UPDATE SET
            instance_id = $3, last_seen_at = $6, disconnected_at = NULL,
            lease_id = $4, lease_until = clock_timestamp() + make_interval(secs => $5)
        WHERE c.lease_id IS NULL OR c.lease_id = $4 OR c.instance_id = $3 OR c.lease_until < clock_timestamp()
        RETURNING checkpoint";
    let LeaseWanted { connector_type, endpoint_identity, instance_id, lease, seconds } = wanted;
    let params: store::Params<'_> = &[connector_type, endpoint_identity, instance_id, lease, seconds, &now];
    if let Some(row) = db.query_opt(sql, params).await.map_err(failed())? {
        return Ok(Taken::Held { checkpoint: row.get("checkpoint") });
    }
    let sql = "SELECT instance_id FROM connector_registry WHERE connector_type = $1 AND endpoint_identity = $2";
    let rows = db.read(sql, &[connector_type, endpoint_identity]).await.map_err(failed())?;
    Ok(Taken::Elsewhere { instance: rows.first().map(|row| row.get("instance_id")).unwrap_or_default() })
}

/// Moves the checkpoint of the account that is held by this lease, were it past its time: nobody has taken it since.
/// Whether it is held.
pub async fn checkpoint(db: &mut Lease, lease: Uuid, cursor: &Value, now: Timestamp) -> Result<bool, StoreError> {
    let sql = "UPDATE connector_registry SET checkpoint = $2, last_seen_at = $3
               WHERE lease_id = $1";
    let moved = db.execute(sql, &[&lease, cursor, &now]).await;
    Ok(moved.map_err(StoreError::query("moving a connector's checkpoint"))? == 1)
}

/// Notes how the holder of this lease is.
pub async fn report(db: &mut Lease, lease: Uuid, health: &AccountHealth<'_>, now: Timestamp) -> Result<(), StoreError> {
    let sql = "UPDATE connector_registry SET state = $2, error_message = $3, uptime_s = $4, counters = $5,
                   last_seen_at = $6, version = $7, capabilities = coalesce($8, capabilities)
               WHERE lease_id = $1";
    let AccountHealth { state, error, uptime, counters, capabilities } = health;
    let uptime = i64::try_from(uptime.as_secs()).unwrap_or(i64::MAX);
    let version = env!("CARGO_PKG_VERSION");
    let noted = db.execute(sql, &[&lease, state, error, &uptime, counters, &now, &version, capabilities]).await;
    noted.map(drop).map_err(StoreError::query("noting how a connector is"))
}

/// Notes a message that an account's connector does not take in. Its sender may have chosen words of both.
pub async fn refuse(
    db: &mut Lease,
    (kind, endpoint): (&str, &str),
    (message, why): (&str, &str),
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO connector_refusals (connector_type, endpoint_identity, message, why, refused_at, trust)
               VALUES ($1, $2, $3, $4, $5, 'stranger')
               ON CONFLICT (tenant_id, connector_type, endpoint_identity, message)
               DO UPDATE SET why = excluded.why, refused_at = excluded.refused_at";
    let noted = db.execute(sql, &[&kind, &endpoint, &message, &why, &now]).await;
    noted.map(drop).map_err(StoreError::query("noting a message that was not taken in"))
}

/// Gives up this lease.
pub async fn give_back(db: &mut Lease, lease: Uuid) -> Result<(), StoreError> {
    let sql = "UPDATE connector_registry SET lease_id = NULL, lease_until = NULL WHERE lease_id = $1";
    db.execute(sql, &[&lease]).await.map(drop).map_err(StoreError::query("giving back a connector's account"))
}
