//! Audit rows for people: the newest first, page by page back in time.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use base::TenantId;
use store::{Lease, StoreError};

store::row! {
    /// A call on record.
    #[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
    pub struct AuditedCall {
        pub id: i64,
        pub session_id: Option<Uuid>,
        pub request_id: Uuid,
        /// Who called; of a call in a session its session is known.
        pub caller: String,
        pub tool: String,
        pub arguments: Value,
        /// `ok`, `refused`, `error`, `cancelled`
        pub outcome: String,
        pub detail: Option<String>,
        /// `none`: it looked and changed nothing.
        pub effect: String,
        pub called_at: Timestamp,
        pub duration_us: i64,
    }
}

pub(super) const COLUMNS: &str =
    "id, session_id, request_id, caller, tool, arguments, outcome, detail, effect, called_at, duration_us";

/// Which calls to look for. Nothing set: all of them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AuditFilter {
    pub tool: Option<String>,
    pub session: Option<Uuid>,
    pub outcome: Option<String>,
}

/// Some calls, and from where to look on.
#[derive(Clone, Debug, Default)]
pub struct AuditedCalls {
    /// The newest first.
    pub calls: Vec<AuditedCall>,
    /// All rows of this time and later were looked at. `None`: all that there are.
    pub seen_from: Option<Timestamp>,
}

/// The first stretch of time that is looked at; each next one is four times as long, up to the longest.
const FIRST: SignedDuration = SignedDuration::from_hours(1);
const LONGEST: SignedDuration = SignedDuration::from_hours(24 * 14);
/// So long one page looks. Where a filter finds little, the next page goes on.
const PATIENCE: Duration = Duration::from_secs(2);

/// A butler's calls before `before` (with an id: before that row among those of the same time), at most so many. Time is
/// walked back in growing stretches, so that a page costs the same wherever it lies.
pub async fn audited(
    lease: &mut Lease,
    schema: &str,
    tenant: &TenantId,
    filter: &AuditFilter,
    (before, id): (Timestamp, i64),
    most: i64,
) -> Result<AuditedCalls, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM \"{schema}\".tool_calls
         WHERE tenant_id = $1 AND called_at <= $2 AND (called_at < $2 OR id < $3) AND called_at >= $4
           AND ($5::text IS NULL OR tool = $5) AND ($6::uuid IS NULL OR session_id = $6)
           AND ($7::text IS NULL OR outcome = $7)
         ORDER BY called_at DESC, id DESC LIMIT $8"
    );
    let older = format!("SELECT FROM \"{schema}\".tool_calls WHERE tenant_id = $1 AND called_at < $2 LIMIT 1");
    let mut found = AuditedCalls::default();
    let (mut upper, mut upper_id, mut span) = (before, id, FIRST);
    let begun = Instant::now();
    loop {
        let lower = upper.saturating_sub(span).unwrap_or(Timestamp::MIN);
        let left = most - i64::try_from(found.calls.len()).unwrap_or(most);
        let rows = lease
            .read(
                &sql,
                &[&tenant.as_str(), &upper, &upper_id, &lower, &filter.tool, &filter.session, &filter.outcome, &left],
            )
            .await
            .map_err(StoreError::query("reading the audit"))?;
        found.calls.extend(rows.iter().map(AuditedCall::from));
        if found.calls.len() as i64 >= most {
            found.seen_from = found.calls.last().map(|call| call.called_at);
            return Ok(found);
        }
        (upper, upper_id, span) = (lower, i64::MIN, span.saturating_mul(4).min(LONGEST));
        let older = lease.read(&older, &[&tenant.as_str(), &upper]).await;
        if older.map_err(StoreError::query("reading the audit"))?.is_empty() {
            return Ok(found);
        }
        if begun.elapsed() >= PATIENCE {
            found.seen_from = Some(upper);
            return Ok(found);
        }
    }
}
