//! What became of messages, by their requests.

use serde_json::Value;
use uuid::Uuid;

use crate::types::{Fate, Origin, Stage};
use base::{RequestContext, TenantId};
use store::{AsRows, Lease, StoreError};

store::row! {
    struct FateRow {
        pub request_id: Uuid,
        pub channel: String,
        pub endpoint: String,
        pub thread: Option<String>,
        pub sender: String,
        pub external_event_id: Option<String>,
        pub raw: Option<Value>,
        pub state: String,
        pub handed: bool,
        pub lost: bool,
    }
}

impl From<FateRow> for Fate {
    fn from(row: FateRow) -> Self {
        let stage = match row.state.as_str() {
            "dead" => Stage::Failed,
            "done" if row.lost => Stage::Failed,
            "done" => Stage::Done,
            _ if row.handed => Stage::Working,
            _ => Stage::Seen,
        };
        let FateRow { channel, endpoint, thread, sender, external_event_id: event, raw, .. } = row;
        let raw = raw.unwrap_or_default();
        Fate { request: row.request_id, origin: Origin { channel, endpoint, thread, sender, event, raw }, stage }
    }
}

/// The channel's messages that are not done, the newest first.
pub async fn open(lease: &mut Lease, schema: &str, tenant: &TenantId, channel: &str) -> Result<Vec<Uuid>, StoreError> {
    let sql = format!(
        "SELECT request_id FROM \"{schema}\".message_inbox
         WHERE tenant_id = $1 AND channel = $2 AND state IN ('accepted', 'processing') ORDER BY seq DESC LIMIT 1000"
    );
    let rows = lease.read(&sql, &[&tenant.as_str(), &channel]).await;
    rows.column("request_id").map_err(StoreError::query("reading what is not done"))
}

/// The request that a message is.
pub async fn context(
    lease: &mut Lease,
    schema: &str,
    tenant: &TenantId,
    request: Uuid,
) -> Result<Option<RequestContext>, StoreError> {
    let sql = format!("SELECT context FROM \"{schema}\".message_inbox WHERE tenant_id = $1 AND request_id = $2");
    let rows = lease.read(&sql, &[&tenant.as_str(), &request]).await;
    let context = rows.cell::<Value>("context").map_err(StoreError::query("reading whose message it is"))?;
    Ok(context.and_then(|context| serde_json::from_value(context).ok()))
}

/// How far these messages have come.
pub async fn of(
    lease: &mut Lease,
    schema: &str,
    tenant: &TenantId,
    requests: &[Uuid],
) -> Result<Vec<Fate>, StoreError> {
    let sql = format!(
        "SELECT m.request_id, m.channel, m.endpoint, m.thread, m.sender, m.external_event_id,
                m.envelope -> 'raw' AS raw, m.state,
                coalesce(p.handed, false) AS handed, coalesce(p.lost, false) AS lost
         FROM \"{schema}\".message_inbox m LEFT JOIN LATERAL (
             SELECT bool_or(s.state = 'accepted') AS handed, bool_or(s.state = 'dead') AS lost
             FROM \"{schema}\".route_segments s WHERE s.request_id = m.request_id) p ON true
         WHERE m.tenant_id = $1 AND m.request_id = ANY ($2)"
    );
    let rows = lease.read(&sql, &[&tenant.as_str(), &requests]).await;
    let rows = rows.map_err(StoreError::query("reading what became of messages"))?;
    Ok(rows.iter().map(|row| FateRow::from(row).into()).collect())
}
