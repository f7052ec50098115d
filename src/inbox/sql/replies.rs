//! The statements on `shared.replies`: what people are answered.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use crate::settlement::Answer;
use base::{RequestId, TenantId};
use store::{AsRows, Lease, StoreError, Tx};

/// Writes what the person is told, unless the butler answered itself. A failure is told even after an answer.
pub async fn add(
    tx: &mut Tx<'_>,
    request: RequestId,
    segment: Option<Uuid>,
    butler: &str,
    answer: &Answer,
) -> Result<(), StoreError> {
    let sql =
        "INSERT INTO shared.replies (request_id, segment_id, lane, butler, session_id, kind, message, auto, trust,
                                           context)
               SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10
               WHERE NOT $8 OR NOT EXISTS (SELECT 1 FROM shared.replies WHERE request_id = $1 AND segment_id = $2)
               ON CONFLICT DO NOTHING";
    let kind = if answer.failure { "failure" } else { "reply" };
    let (lane, auto, trust) = (&answer.lane.0, !answer.failure, answer.trust.as_str());
    let context = answer.context.as_ref().map(|context| json!(context));
    let Answer { session, text, .. } = answer;
    let params: store::Params<'_> =
        &[&request.0, &segment, lane, &butler, session, &kind, text, &auto, &trust, &context];
    tx.execute(sql, params).await.map(drop).map_err(StoreError::query("writing an answer"))
}

store::row! {
    /// An answer.
    #[derive(Serialize)]
    pub struct ReplyRow {
        pub seq: i64,
        pub butler: String,
        pub kind: String,
        pub message: Option<String>,
        pub emoji: Option<String>,
        pub auto: bool,
        pub at: Timestamp,
        pub session_id: Option<Uuid>,
        pub segment_id: Option<Uuid>,
    }
}

/// The answers to a tenant's message.
pub async fn of(lease: &mut Lease, tenant: &TenantId, request: Uuid) -> Result<Vec<ReplyRow>, StoreError> {
    let sql = "SELECT seq, butler, kind, message, emoji, auto, at, session_id, segment_id FROM shared.replies
               WHERE tenant_id = $1 AND request_id = $2 ORDER BY seq";
    lease.read(sql, &[&tenant.as_str(), &request]).await.typed().map_err(StoreError::query("reading the inbox"))
}

store::row! {
    /// What was said in a lane and is on its way out.
    pub struct Spoken {
        pub at: Timestamp,
        pub butler: String,
        pub message: Option<String>,
        pub emoji: Option<String>,
        pub trust: String,
        pub audience: Vec<String>,
    }
}

/// The answers in a lane later than `since` that are not `delivered`, the newest first.
pub async fn on_their_way(
    lease: &mut Lease,
    (tenant, lane): (&TenantId, &str),
    since: Timestamp,
    most: i64,
    delivered: &[i64],
) -> Result<Vec<Spoken>, StoreError> {
    let sql = "SELECT at, butler, message, emoji, trust,
                      CASE WHEN context IS NULL THEN audience ELSE audience || shared.heard_by(
                           context ->> 'source_channel', context ->> 'source_sender_identity', context) END AS audience
               FROM shared.replies
               WHERE tenant_id = $1 AND lane = $2 AND at > $3 AND seq <> ALL($4) ORDER BY at DESC LIMIT $5";
    let rows = lease.read(sql, &[&tenant.as_str(), &lane, &since, &delivered, &most]).await;
    rows.typed().map_err(StoreError::query("reading answers that are on their way"))
}

/// Whether a part of a message has an answer.
pub async fn is_there(lease: &mut Lease, segment: Uuid) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM shared.replies WHERE segment_id = $1 LIMIT 1";
    Ok(!lease.read(sql, &[&segment]).await.map_err(StoreError::query("looking for an answer"))?.is_empty())
}
