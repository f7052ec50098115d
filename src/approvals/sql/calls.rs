//! Calls that were let through, until they have come to their end, and what their butlers are told of it.

use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use super::failed;
use crate::types::Status;
use base::Label;
use store::{Also, AsRows, Claim, Database, Lease, QueueTable, StoreError, Tx};

store::row! {
    /// A call that was let through.
    pub(crate) struct ApprovedRow {
        pub id: Uuid,
        pub tenant_id: String,
        pub session_id: Uuid,
        pub tool_name: String,
        pub tool_args: String,
        pub args_sha256: String,
        pub request: Value,
        pub cause: String,
        pub recipient: Option<Value>,
    }
}

/// The butlers that have something to do about calls: that were let through, whoever has them in hand, whose time is
/// over, or of whose end they were not told.
pub async fn butlers_due(db: &Database, now: Timestamp) -> Result<Vec<String>, StoreError> {
    let sql = "SELECT butler FROM shared.pending_actions
               WHERE status IN ('pending', 'approved') AND (status = 'approved' OR expires_at <= $1)
               UNION SELECT butler FROM shared.pending_actions
               WHERE handed_back_at IS NULL AND status IN ('rejected', 'expired', 'executed', 'abandoned')";
    let mut lease = db.every_tenant().await?;
    lease.query(sql, &[&now]).await.column("butler").map_err(failed())
}

/// Claims the next call that was let through and is not in hand.
pub(crate) async fn claim(
    lease: &mut Lease,
    table: &QueueTable,
    claim: (Uuid, &str),
    in_hand: &[Uuid],
) -> Result<Option<ApprovedRow>, StoreError> {
    let columns = "q.id, q.tenant_id, q.session_id, q.tool_name, q.tool_args, q.args_sha256, q.request, q.cause, \
                   q.recipient";
    table.claim(lease, claim, (1, in_hand), Also::default(), columns).await.first_typed().map_err(failed())
}

/// How a call ended, as its row has it.
pub(crate) struct SettledCall<'a> {
    pub to: Status,
    pub result: &'a Value,
    pub executed_at: Option<Timestamp>,
    /// Of what the row tells from now on.
    pub label: &'a Label,
}

/// Writes how a call ended. `false`: the claim no longer holds it.
pub(crate) async fn settle(
    tx: &mut Tx<'_>,
    table: &QueueTable,
    claim: &Claim,
    end: &SettledCall<'_>,
) -> Result<bool, StoreError> {
    let sql = table.settling(
        "status = $3, execution_result = $4, executed_at = $5, trust = $6,
         request = request || jsonb_build_object('trust', $6::text, 'audience', to_jsonb($7::text[]))",
    );
    let (trust, audience) = (end.label.trust.as_str(), end.label.audience.names());
    let params: store::Params<'_> =
        &[&claim.row, &claim.id, &end.to.as_str(), end.result, &end.executed_at, &trust, &audience];
    Ok(tx.execute(&sql, params).await.map_err(failed())? > 0)
}

store::row! {
    /// A call that came to its end, of which its butler was not told.
    pub(crate) struct EndedRow {
        pub id: Uuid,
        pub tool_name: String,
        pub args_shown: Value,
        pub status: String,
        pub decision_reason: Option<String>,
        pub execution_result: Option<Value>,
        pub request: Value,
    }
}

/// The first call of which its butler is to be told how it ended. Nobody else tells it until the transaction ends.
pub(crate) async fn next_ended(tx: &mut Tx<'_>, butler: &str) -> Result<Option<EndedRow>, StoreError> {
    let sql = "SELECT id, tool_name, args_shown, status, decision_reason, execution_result, request
               FROM shared.pending_actions
               WHERE butler = $1 AND handed_back_at IS NULL AND status IN ('rejected', 'expired', 'executed', 'abandoned')
               ORDER BY seq LIMIT 1 FOR UPDATE SKIP LOCKED";
    tx.query_opt(sql, &[&butler]).await.first_typed().map_err(failed())
}

/// Whether the owner waits in the conversation that a call came out of. `owner_waits` says so of `a.session_id`.
pub(crate) async fn owner_waits(tx: &mut Tx<'_>, action: Uuid, owner_waits: &str) -> Result<bool, StoreError> {
    let sql = format!("SELECT {owner_waits} AS waits FROM shared.pending_actions a WHERE a.id = $1");
    Ok(tx.query_opt(&sql, &[&action]).await.cell("waits").map_err(failed())?.unwrap_or(false))
}

/// Tells a butler something by a new session. `waits`: the owner waits for what comes of it.
pub(crate) async fn hand_back(
    tx: &mut Tx<'_>,
    butler: &str,
    (request, waits): (&Value, bool),
    (prompt, data): (&str, &Value),
) -> Result<(), StoreError> {
    let sql = "SELECT shared.hand_back($1, $2, $3, $4, $5)";
    tx.query(sql, &[&butler, request, &waits, &prompt, data]).await.map(drop).map_err(failed())
}

/// Notes that its butler is told how a call ended.
pub(crate) async fn handed_back(tx: &mut Tx<'_>, id: Uuid, now: Timestamp) -> Result<(), StoreError> {
    let sql = "UPDATE shared.pending_actions SET handed_back_at = $2 WHERE id = $1";
    tx.execute(sql, &[&id, &now]).await.map(drop).map_err(failed())
}
