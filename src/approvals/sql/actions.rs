//! Calls that wait or waited: parked, found again, listed, expired.

use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use super::failed;
use crate::types::{Action, Cause, Filter, RiskTier, Status};
use base::{TenantId, Trust};
use store::{AsRows, Lease, StoreError, Tx};

/// What [`action`] reads.
pub(super) const COLUMNS: &str = "id, butler, session_id, tool_name, args_shown, args_sha256, agent_summary, why, cause,
        exposure, risk_tier, status, requested_at, expires_at, decided_by, decided_at, decision_reason, approval_rule_id,
        execution_result, trust, recipient, sources, proposal, tool_args";

/// A call that is to wait, as its row has it.
pub(crate) struct ParkedRow<'a> {
    pub butler: &'a str,
    pub session: Uuid,
    pub tool: &'a str,
    /// The exact arguments, their hash, and what of them people may see.
    pub args: &'a str,
    pub args_sha256: &'a str,
    pub args_shown: &'a Value,
    pub summary: &'a str,
    pub why: Option<&'a str>,
    pub cause: Cause,
    pub exposure: &'a Value,
    pub request: &'a Value,
    pub risk_tier: RiskTier,
    pub expires_at: Timestamp,
    pub requested_at: Timestamp,
    pub trust: Trust,
    pub recipient: Option<&'a Value>,
    pub sources: &'a Value,
    pub proposal: Option<Uuid>,
}

/// Puts a call on record to wait. `None`: the session waits for the same call already.
pub(crate) async fn park(
    tx: &mut Tx<'_>,
    tenant: &TenantId,
    row: &ParkedRow<'_>,
) -> Result<Option<Action>, StoreError> {
    let sql = format!(
        "INSERT INTO shared.pending_actions (id, tenant_id, butler, session_id, tool_name, tool_args, args_sha256,
             args_shown, agent_summary, why, cause, exposure, request, risk_tier, expires_at, requested_at, trust,
             recipient, sources, proposal)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)
         ON CONFLICT (session_id, args_sha256) WHERE status = 'pending' DO NOTHING RETURNING {COLUMNS}"
    );
    let params: store::Params<'_> = &[
        &Uuid::now_v7(),
        &tenant.as_str(),
        &row.butler,
        &row.session,
        &row.tool,
        &row.args,
        &row.args_sha256,
        row.args_shown,
        &row.summary,
        &row.why,
        &row.cause.as_str(),
        row.exposure,
        row.request,
        &row.risk_tier.as_str(),
        &row.expires_at,
        &row.requested_at,
        &row.trust.as_str(),
        &row.recipient,
        row.sources,
        &row.proposal,
    ];
    tx.query_opt(&sql, params).await.first_typed().map_err(failed())
}

/// The last call of a session with these arguments.
pub(crate) async fn latest_like(tx: &mut Tx<'_>, session: Uuid, hash: &str) -> Result<Option<Action>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM shared.pending_actions WHERE session_id = $1 AND args_sha256 = $2 ORDER BY seq DESC LIMIT 1"
    );
    tx.query_opt(&sql, &[&session, &hash]).await.first_typed().map_err(failed())
}

/// The same call of another try at the same work. `earlier_tries`: a query of the ids of those sessions, where `$1` is
/// the one that asks now.
pub(crate) async fn asked_before(
    tx: &mut Tx<'_>,
    (tenant, butler): (&TenantId, &str),
    (session, earlier_tries): (Uuid, &str),
    hash: &str,
) -> Result<Option<Action>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM shared.pending_actions
         WHERE tenant_id = $3 AND butler = $4 AND args_sha256 = $2 AND status IN ('pending', 'approved', 'executed', 'rejected')
           AND session_id IN ({earlier_tries})
         ORDER BY seq DESC LIMIT 1"
    );
    tx.query_opt(&sql, &[&session, &hash, &tenant.as_str(), &butler]).await.first_typed().map_err(failed())
}

store::row! {
    /// A call that nobody decided on in time.
    pub(crate) struct ExpiredRow {
        pub id: Uuid,
        pub tenant_id: String,
    }
}

/// Ends what nobody decided in time, of all tenants.
pub(crate) async fn expire(tx: &mut Tx<'_>, butler: &str, now: Timestamp) -> Result<Vec<ExpiredRow>, StoreError> {
    let sql = "UPDATE shared.pending_actions SET status = 'expired'
               WHERE butler = $1 AND status = 'pending' AND expires_at <= $2 RETURNING id, tenant_id";
    tx.query(sql, &[&butler, &now]).await.typed().map_err(failed())
}

/// How many calls of a butler wait.
pub(crate) async fn count_waiting(
    lease: &mut Lease,
    tenant: &TenantId,
    butler: &str,
    now: Timestamp,
) -> Result<i64, StoreError> {
    let sql = "SELECT count(*) FROM shared.pending_actions
               WHERE tenant_id = $1 AND butler = $2 AND status = 'pending' AND expires_at > $3";
    Ok(lease.read(sql, &[&tenant.as_str(), &butler, &now]).await.cell("count").map_err(failed())?.unwrap_or(0))
}

/// One call.
pub(crate) async fn one(lease: &mut Lease, tenant: &TenantId, id: Uuid) -> Result<Option<Action>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM shared.pending_actions WHERE id = $1 AND tenant_id = $2");
    lease.read(&sql, &[&id, &tenant.as_str()]).await.first_typed().map_err(failed())
}

/// Whether a call of one of these sessions waits or waited.
pub(crate) async fn any_of(lease: &mut Lease, tenant: &TenantId, sessions: &[Uuid]) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM shared.pending_actions WHERE tenant_id = $1 AND session_id = ANY($2) LIMIT 1";
    Ok(!lease.read(sql, &[&tenant.as_str(), &sessions]).await.map_err(failed())?.is_empty())
}

/// The ids of a tenant's actions and proposals, each with its butler.
pub(crate) const IDS: &str = "SELECT id, butler FROM shared.pending_actions WHERE tenant_id = $1
     UNION SELECT proposal, butler FROM shared.pending_actions WHERE tenant_id = $1";

/// Calls that fit, newest first.
pub(crate) async fn list(
    lease: &mut Lease,
    tenant: &TenantId,
    filter: &Filter,
    limit: i64,
) -> Result<Vec<Action>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM shared.pending_actions
         WHERE tenant_id = $1 AND ($2::text IS NULL OR butler = $2) AND ($3::text IS NULL OR status = $3)
           AND ($4::text IS NULL OR tool_name = $4) AND ($5::uuid IS NULL OR approval_rule_id = $5)
           AND ($6::timestamptz IS NULL OR requested_at >= $6)
           AND ($8::uuid IS NULL
                OR seq < (SELECT b.seq FROM shared.pending_actions b WHERE b.tenant_id = $1 AND b.id = $8))
           AND ($9::uuid[] IS NULL OR session_id = ANY ($9))
         ORDER BY seq DESC LIMIT $7"
    );
    let status = filter.status.map(Status::as_str);
    let Filter { butler, tool_name, rule, since, before, sessions, .. } = filter;
    let params: store::Params<'_> =
        &[&tenant.as_str(), butler, &status, tool_name, rule, since, &limit, before, sessions];
    lease.read(&sql, params).await.typed().map_err(failed())
}

store::row! {
    /// A call of which a rule is to be made.
    pub(crate) struct SuggestedRow {
        pub butler: String,
        pub tool_name: String,
        pub risk_tier: String,
        /// The exact arguments.
        pub tool_args: String,
        /// What of them people may see.
        pub args_shown: Value,
    }
}

/// What a rule for calls like this one is made of.
pub(crate) async fn to_suggest_from(
    lease: &mut Lease,
    tenant: &TenantId,
    id: Uuid,
) -> Result<Option<SuggestedRow>, StoreError> {
    let sql = "SELECT butler, tool_name, risk_tier, tool_args, args_shown FROM shared.pending_actions
               WHERE id = $1 AND tenant_id = $2";
    lease.query_opt(sql, &[&id, &tenant.as_str()]).await.first_typed().map_err(failed())
}
