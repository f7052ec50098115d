//! Messages as people look at them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::types::Tier;
use base::TenantId;
use store::{Lease, StoreError};
use tools::{ToolCall, ToolError};

store::row! {
    /// One message with its parts and answers.
    #[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
    #[schemars(rename = "Message")]
    pub struct Entry {
        pub request_id: Uuid,
        /// `accepted`, `processing`, `done`, `dead`
        pub state: String,
        pub tier: String = |row| name_of(Tier::from_number(row.get("tier"))),
        pub channel: String,
        pub sender: String,
        pub thread: Option<String>,
        pub trust: String,
        pub received_at: Timestamp,
        pub settled_at: Option<Timestamp>,
        // What it says, its parts and its answers stand in other tables.
        pub body: String = |_| String::new(),
        pub triage: Option<Value>,
        pub attempts: i32,
        pub last_error: Option<String>,
        pub segments: Vec<Value> = |_| Vec::new(),
        pub replies: Vec<Value> = |_| Vec::new(),
    }
}

fn name_of(tier: Tier) -> String {
    let name = serde_json::to_value(tier).ok();
    name.and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}

const COLUMNS: &str =
    "request_id, state, tier, channel, sender, thread, trust, received_at, settled_at, triage, attempts,
    last_error";

fn failed() -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query("reading the inbox")
}

/// One message of a tenant.
pub async fn one(
    lease: &mut Lease,
    schema: &str,
    tenant: &TenantId,
    request: Uuid,
) -> Result<Option<Entry>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM \"{schema}\".message_inbox WHERE tenant_id = $1 AND request_id = $2");
    Ok(lease.read(&sql, &[&tenant.as_str(), &request]).await.map_err(failed())?.first().map(Entry::from))
}

/// The ids of a tenant's messages.
pub fn ids(schema: &str) -> String {
    format!("SELECT request_id AS id FROM \"{schema}\".message_inbox WHERE tenant_id = $1")
}

/// The newest messages of a tenant; of one state, if that is named; those that came before another, if that is.
pub async fn newest(
    lease: &mut Lease,
    schema: &str,
    tenant: &TenantId,
    (state, before): (Option<&str>, Option<Uuid>),
    limit: i64,
) -> Result<Vec<Entry>, StoreError> {
    let table = format!("\"{schema}\".message_inbox");
    let older = format!("($2::uuid IS NULL OR seq < (SELECT b.seq FROM {table} b WHERE b.request_id = $2))");
    let (select, order) = (format!("SELECT {COLUMNS} FROM {table}"), "ORDER BY seq DESC LIMIT $3");
    let rows = match state {
        Some(state) => {
            let sql = format!("{select} WHERE tenant_id = $1 AND {older} AND state = $4 {order}");
            lease.read(&sql, &[&tenant.as_str(), &before, &limit, &state]).await
        }
        None => {
            let sql = format!("{select} WHERE tenant_id = $1 AND {older} {order}");
            lease.read(&sql, &[&tenant.as_str(), &before, &limit]).await
        }
    };
    Ok(rows.map_err(failed())?.iter().map(Entry::from).collect())
}

store::row! {
    /// A message as it came in.
    pub struct PastRow {
        pub request_id: Uuid,
        pub received_at: Timestamp,
        pub channel: String,
        pub provider: String,
        pub endpoint: String,
        pub external_event_id: Option<String>,
        pub thread: Option<String>,
        pub observed_at: Timestamp,
        pub body: String,
        pub attachments: Value,
        pub envelope: Value,
        pub triage: Option<Value>,
    }
}

/// The newest messages, as they came in.
pub async fn past(call: &ToolCall, last: i64) -> Result<Vec<PastRow>, ToolError> {
    let sql =
        "SELECT request_id, received_at, channel, provider, endpoint, external_event_id, thread, observed_at, body,
                      attachments, envelope, triage
               FROM message_inbox ORDER BY seq DESC LIMIT $1";
    Ok(call.query(sql, &[&last]).await?.iter().map(PastRow::from).collect())
}
