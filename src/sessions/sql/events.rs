//! The statements on `session_events`, and how a session ended, which is the last of its events.

use std::sync::LazyLock;

use jiff::Timestamp;
use rust_decimal::Decimal;
use serde_json::Value;
use uuid::Uuid;

use base::TenantId;
use store::{AsRows, Lease, StoreError};
use tools::sql::calls;

/// Stores a batch. One that is written again does no harm.
pub(in crate::sql) const INSERT: &str = "INSERT INTO session_events (session_id, seq, at, kind, body)
    SELECT * FROM unnest($1::uuid[], $2::int[], $3::timestamptz[], $4::text[], $5::jsonb[])
    ON CONFLICT (session_id, seq) DO NOTHING";

store::row! {
    /// An event of a session.
    pub struct EventRow {
        pub seq: i32,
        pub at: Timestamp,
        pub kind: String,
        pub body: Value,
    }
}

/// Events of a session after a number.
pub const PART_OF_EVENTS: &str =
    "SELECT seq, at, kind, body FROM session_events WHERE session_id = $1 AND seq > $2 ORDER BY seq LIMIT $3";

/// Which tools the last session of a request's conversation was told of, if it is one of the newest `$5`: `$1` to `$4` are
/// channel, endpoint, sender and thread.
pub const SHOWN_BEFORE: &str = "SELECT e.body
    FROM (SELECT id, queued_at, context -> 'request' AS request FROM sessions ORDER BY queued_at DESC LIMIT $5) s
    JOIN session_events e ON e.session_id = s.id AND e.kind = 'tools'
    WHERE s.request ->> 'source_channel' = $1 AND s.request ->> 'source_endpoint_identity' = $2
      AND s.request ->> 'source_sender_identity' = $3
      AND s.request ->> 'source_thread_identity' IS NOT DISTINCT FROM $4
    ORDER BY s.queued_at DESC LIMIT 1";

/// The events of a tenant's session after a number, over a lease of the owner's role.
pub async fn events_of(
    lease: &mut Lease,
    schema: &str,
    tenant: &TenantId,
    session: Uuid,
    after: i32,
) -> Result<Vec<EventRow>, StoreError> {
    let sql = format!(
        "SELECT seq, at, kind, body FROM \"{schema}\".session_events
         WHERE tenant_id = $1 AND session_id = $2 AND seq > $3 ORDER BY seq"
    );
    let rows = lease.read(&sql, &[&tenant.as_str(), &session, &after]).await;
    rows.typed().map_err(StoreError::query("reading a session's events"))
}

store::row! {
    /// A session's state, and how it ended if it did.
    pub struct SessionEnd {
        pub state: String,
        pub result: Option<String>,
        pub error_class: Option<String>,
        pub error: Option<String>,
        pub input_tokens: Option<i64>,
        pub output_tokens: Option<i64>,
        pub cost_usd: Option<Decimal>,
        pub completed_at: Option<Timestamp>,
        pub duration_ms: Option<i64>,
        pub tool_calls: i64,
        pub last_seq: i32,
    }
}

static END: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT state, result, error_class, error, input_tokens, output_tokens, cost_usd, completed_at,
                coalesce(duration_ms, (extract(epoch FROM completed_at - queued_at) * 1000)::bigint) AS duration_ms,
                {} AS tool_calls,
                (SELECT coalesce(max(seq), 0) FROM session_events e WHERE e.session_id = sessions.id) AS last_seq
         FROM sessions WHERE id = $1",
        calls::COUNT
    )
});

/// How a session stands.
pub async fn end_of(lease: &mut Lease, session: Uuid) -> Result<Option<SessionEnd>, StoreError> {
    lease.read(&END, &[&session]).await.first_typed().map_err(StoreError::query("reading a session's events"))
}
