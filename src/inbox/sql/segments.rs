//! The statements on `route_segments`: the parts of messages.

use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use base::TenantId;
use store::{AsRows, Lease, StoreError, Tx};
use tools::{ToolCall, ToolError};

pub fn failed() -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query("recording the parts of a message")
}

store::row! {
    /// A message that is not at its end, and a part of it that its butler has, if there is one.
    pub struct Unended {
        pub request_id: Uuid,
        pub id: Option<Uuid>,
        pub butler: Option<String>,
    }
}

/// What stands before a message in its lane.
pub async fn before(lease: &mut Lease, schema: &str, request: Uuid) -> Result<Vec<Unended>, StoreError> {
    let sql = format!(
        "SELECT m.request_id, s.id, s.butler FROM \"{schema}\".message_inbox n
         JOIN \"{schema}\".message_inbox m
           ON m.tenant_id = n.tenant_id AND m.lane = n.lane AND m.seq < n.seq AND m.state IN ('accepted', 'processing')
         LEFT JOIN \"{schema}\".route_segments s ON s.request_id = m.request_id AND s.state = 'accepted'
         WHERE n.request_id = $1"
    );
    lease.read(&sql, &[&request]).await.typed().map_err(StoreError::query("looking at a message's lane"))
}

/// A part that is to be handed to a butler.
pub struct NewPart<'a> {
    pub id: Uuid,
    pub n: i32,
    pub butler: &'a str,
    pub prompt: &'a str,
    pub context: Option<&'a Value>,
    pub chosen_by: &'a str,
}

/// Puts a part on record.
pub async fn add(
    tx: &mut Tx<'_>,
    schema: &str,
    tenant: &TenantId,
    request: Uuid,
    part: NewPart<'_>,
) -> Result<(), StoreError> {
    let sql = format!(
        "INSERT INTO \"{schema}\".route_segments (tenant_id, id, request_id, n, butler, prompt, context, chosen_by, state)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'open')"
    );
    let NewPart { id, n, butler, prompt, context, chosen_by } = part;
    let params: store::Params<'_> = &[&tenant.as_str(), &id, &request, &n, &butler, &prompt, &context, &chosen_by];
    tx.execute(&sql, params).await.map(drop).map_err(failed())
}

/// A part that a session of the switchboard names.
pub struct Draft<'a> {
    pub session: Uuid,
    pub butler: &'a str,
    pub prompt: &'a str,
    pub context: Option<&'a Value>,
    /// Parts that a message may have.
    pub most: i64,
}

/// Puts a draft on record as the call's effect. `false`: the message waits for none, has this one, or has enough.
pub async fn draft(call: &ToolCall, request: Uuid, draft: Draft<'_>) -> Result<bool, ToolError> {
    let sql = "INSERT INTO route_segments (id, request_id, session_id, n, butler, prompt, context, chosen_by, state)
        SELECT $1, m.request_id, $7, 1 + (SELECT count(*)::int FROM route_segments s WHERE s.request_id = m.request_id),
               $3, $4, $5, 'model', 'draft'
        FROM message_inbox m
        WHERE m.request_id = $2 AND m.state = 'processing' AND m.classified_at IS NULL
          AND (SELECT count(*) FROM route_segments s WHERE s.request_id = m.request_id AND s.session_id = $7) < $6
          AND NOT EXISTS (SELECT 1 FROM route_segments s
                          WHERE s.request_id = m.request_id AND s.session_id = $7 AND s.butler = $3 AND s.prompt = $4)
        RETURNING n";
    let Draft { session, butler, prompt, context, most } = draft;
    let rows = call.effect(sql, &[&Uuid::now_v7(), &request, &butler, &prompt, &context, &most, &session]).await?;
    Ok(!rows.is_empty())
}

store::row! {
    /// A part as a session has named it.
    pub struct DraftRow {
        pub butler: String,
        pub prompt: String,
        pub context: Option<Value>,
    }
}

/// What a session has named, and no other that may still be at work on the same message.
pub async fn drafts(lease: &mut Lease, request: Uuid, session: Uuid) -> Result<Vec<DraftRow>, StoreError> {
    let sql = "SELECT butler, prompt, context FROM route_segments
               WHERE request_id = $1 AND session_id = $2 AND state = 'draft' ORDER BY n";
    lease.read(sql, &[&request, &session]).await.typed().map_err(StoreError::query("reading drafts"))
}

/// Forgets the drafts of a message.
pub async fn clear_drafts(lease: &mut Lease, request: Uuid) -> Result<(), StoreError> {
    let sql = "DELETE FROM route_segments WHERE request_id = $1 AND state = 'draft'";
    lease.execute(sql, &[&request]).await.map(drop).map_err(StoreError::query("clearing drafts"))
}

/// Forgets the parts of a message that are of this state.
pub async fn forget(tx: &mut Tx<'_>, schema: &str, request: Uuid, state: &str) -> Result<(), StoreError> {
    let sql = format!("DELETE FROM \"{schema}\".route_segments WHERE request_id = $1 AND state = $2");
    tx.execute(&sql, &[&request, &state]).await.map(drop).map_err(failed())
}

store::row! {
    /// A part that is to be handed over.
    pub struct OpenPart {
        pub id: Uuid,
        pub butler: String,
        pub prompt: String,
        pub context: Option<Value>,
    }
}

/// The parts of a message that are still here.
pub async fn open(lease: &mut Lease, request: Uuid) -> Result<Vec<OpenPart>, StoreError> {
    let sql = "SELECT id, butler, prompt, context FROM route_segments
               WHERE request_id = $1 AND state = 'open' ORDER BY n";
    Ok(lease.read(sql, &[&request]).await.map_err(failed())?.iter().map(OpenPart::from).collect())
}

/// A part's butler has it.
pub async fn accepted(lease: &mut Lease, id: Uuid) -> Result<(), StoreError> {
    let sql = "UPDATE route_segments SET state = 'accepted' WHERE id = $1 AND state = 'open'";
    lease.execute(sql, &[&id]).await.map(drop).map_err(failed())
}

/// Ends a part, unless another has taken its place.
pub async fn settle(
    tx: &mut Tx<'_>,
    schema: &str,
    id: Uuid,
    (state, error): (&str, Option<&str>),
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = format!(
        "UPDATE \"{schema}\".route_segments SET state = $2, settled_at = $3, last_error = $4
         WHERE id = $1 AND state <> 'rerouted'"
    );
    tx.execute(&sql, &[&id, &state, &now, &error]).await.map(drop).map_err(failed())
}

/// Ends those parts of a message as dead that are of these states.
pub async fn end_as_dead(
    tx: &mut Tx<'_>,
    schema: &str,
    request: Uuid,
    (of, why): (&[&str], &str),
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = format!(
        "UPDATE \"{schema}\".route_segments SET state = 'dead', settled_at = $2, last_error = $3
         WHERE request_id = $1 AND state = ANY($4)"
    );
    tx.execute(&sql, &[&request, &now, &why, &of]).await.map(drop).map_err(failed())
}

/// Ends the parts of a message as done.
pub async fn finish(tx: &mut Tx<'_>, schema: &str, request: Uuid, now: Timestamp) -> Result<(), StoreError> {
    let sql = format!(
        "UPDATE \"{schema}\".route_segments SET state = 'done', settled_at = coalesce(settled_at, $2)
         WHERE request_id = $1 AND state IN ('open', 'accepted', 'dead')"
    );
    tx.execute(&sql, &[&request, &now]).await.map(drop).map_err(failed())
}

/// A part makes room for another. What became of it stays on record.
pub async fn replace(tx: &mut Tx<'_>, schema: &str, id: Uuid, now: Timestamp) -> Result<(), StoreError> {
    let sql = format!(
        "UPDATE \"{schema}\".route_segments SET state = 'rerouted', settled_at = coalesce(settled_at, $2) WHERE id = $1"
    );
    tx.execute(&sql, &[&id, &now]).await.map(drop).map_err(failed())
}

store::row! {
    /// A part with what became of it.
    #[derive(Clone)]
    pub struct PartRow {
        pub id: Uuid,
        pub n: i32,
        pub butler: String,
        pub prompt: String,
        pub context: Option<Value>,
        pub state: String,
        pub chosen_by: String,
        pub last_error: Option<String>,
        pub settled_at: Option<Timestamp>,
    }
}

const COLUMNS: &str = "id, n, butler, prompt, context, state, chosen_by, last_error, settled_at";

/// All parts of a message.
pub async fn all(tx: &mut Tx<'_>, schema: &str, request: Uuid) -> Result<Vec<PartRow>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM \"{schema}\".route_segments WHERE request_id = $1 ORDER BY n");
    Ok(tx.query(&sql, &[&request]).await.map_err(failed())?.iter().map(PartRow::from).collect())
}

/// The parts of a tenant's message, without drafts.
pub async fn shown(
    lease: &mut Lease,
    schema: &str,
    tenant: &TenantId,
    request: Uuid,
) -> Result<Vec<PartRow>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM \"{schema}\".route_segments
         WHERE tenant_id = $1 AND request_id = $2 AND state <> 'draft' ORDER BY n"
    );
    lease.read(&sql, &[&tenant.as_str(), &request]).await.typed().map_err(StoreError::query("reading the inbox"))
}
