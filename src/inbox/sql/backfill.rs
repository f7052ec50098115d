//! The statements on `backfill_jobs`.

use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use store::AsRows;
use tools::{ToolCall, ToolError};

store::row! {
    /// A job. What it has used counts for the present hour and day.
    pub struct JobRow {
        pub id: Uuid,
        pub connector_type: String,
        pub endpoint_identity: String,
        pub target_categories: Vec<String>,
        pub date_from: String,
        pub date_to: String,
        pub rate_limit_per_hour: i32,
        pub daily_cost_cap_cents: i32,
        pub status: String,
        pub cursor: Option<Value>,
        pub rows_processed: i64,
        pub rows_skipped: i64,
        pub cost_spent_cents: i64,
        pub error: Option<String>,
        pub created_at: Timestamp,
        pub updated_at: Timestamp,
        pub hour_rows: i64,
        pub day_cents: i64,
    }
}

const COLUMNS: &str =
    "j.id, j.connector_type, j.endpoint_identity, j.target_categories, j.date_from::text AS date_from,
    j.date_to::text AS date_to, j.rate_limit_per_hour, j.daily_cost_cap_cents, j.status, j.cursor, j.rows_processed,
    j.rows_skipped, j.cost_spent_cents, j.error, j.created_at, j.updated_at,
    CASE WHEN j.hour = date_trunc('hour', shared.clock()) THEN j.hour_rows ELSE 0 END AS hour_rows,
    CASE WHEN j.day = shared.today() THEN j.day_cents ELSE 0 END AS day_cents";

/// What a job has used of its day is all that it may.
const CAPPED: &str =
    "j.day IS NOT DISTINCT FROM shared.today() AND j.day_cents > 0 AND j.day_cents >= j.daily_cost_cap_cents";

/// A job that is to be made.
pub struct NewJob<'a> {
    pub connector: Connector<'a>,
    pub categories: &'a [&'a str],
    /// Days, as in 2026-01-31.
    pub from: &'a str,
    pub to: &'a str,
    pub rate: i64,
    pub cap: i64,
}

/// A connector by its type and endpoint.
#[derive(Clone, Copy)]
pub struct Connector<'a> {
    pub kind: Option<&'a str>,
    pub endpoint: Option<&'a str>,
}

/// Makes a job as the call's effect.
pub async fn create(call: &ToolCall, new: NewJob<'_>) -> Result<Option<JobRow>, ToolError> {
    let sql = format!(
        "INSERT INTO backfill_jobs AS j (id, connector_type, endpoint_identity, target_categories, date_from, date_to,
             rate_limit_per_hour, daily_cost_cap_cents)
         VALUES ($1, $2, $3, $4, $5::text::date, $6::text::date, $7::bigint::int, $8::bigint::int) RETURNING {COLUMNS}"
    );
    let NewJob { connector: Connector { kind, endpoint }, categories, from, to, rate, cap } = new;
    call.effect(&sql, &[&Uuid::now_v7(), &kind, &endpoint, &categories, &from, &to, &rate, &cap]).await.first_typed()
}

/// Takes up the connector's next job as the call's effect.
pub async fn take_up(call: &ToolCall, connector: Connector<'_>) -> Result<Option<JobRow>, ToolError> {
    let sql = format!(
        "WITH next AS (SELECT j.id FROM backfill_jobs j
                       WHERE j.connector_type = $1 AND j.endpoint_identity = $2
                         AND j.status IN ('pending', 'active', 'cost_capped') AND NOT ({CAPPED})
                       ORDER BY j.created_at, j.id LIMIT 1 FOR UPDATE)
         UPDATE backfill_jobs j SET status = 'active', updated_at = shared.clock() FROM next WHERE j.id = next.id
         RETURNING {COLUMNS}"
    );
    Ok(call.effect(&sql, &[&connector.kind, &connector.endpoint]).await?.first().map(JobRow::from))
}

/// What was done of a job since the last report.
pub struct Progress<'a> {
    pub id: Uuid,
    pub connector: Connector<'a>,
    pub done: i64,
    pub skipped: i64,
    pub cents: i64,
    pub cursor: Option<&'a Value>,
    pub status: Option<&'a str>,
    pub error: Option<&'a str>,
}

/// Adds a report as the call's effect. `None`: the connector has no such job, or it is over.
pub async fn report(call: &ToolCall, progress: Progress<'_>) -> Result<Option<JobRow>, ToolError> {
    let sql = format!(
        "UPDATE backfill_jobs AS j SET
             rows_processed = rows_processed + $4, rows_skipped = rows_skipped + $5,
             cost_spent_cents = cost_spent_cents + $6,
             hour = date_trunc('hour', shared.clock()),
             hour_rows = $4 + $5 + CASE WHEN hour = date_trunc('hour', shared.clock()) THEN hour_rows ELSE 0 END,
             day = shared.today(), day_cents = $6 + CASE WHEN day = shared.today() THEN day_cents ELSE 0 END,
             cursor = coalesce($7, cursor), error = coalesce($9, error), updated_at = shared.clock(),
             status = CASE
                 WHEN status = 'cancelled' THEN status
                 WHEN $8 IN ('completed', 'error') THEN $8
                 WHEN status = 'paused' THEN status
                 WHEN $6 + CASE WHEN day = shared.today() THEN day_cents ELSE 0 END >= greatest(daily_cost_cap_cents, 1)
                 THEN 'cost_capped' ELSE 'active' END
         WHERE id = $1 AND connector_type = $2 AND endpoint_identity = $3 AND status NOT IN ('completed', 'error')
         RETURNING {COLUMNS}"
    );
    let Progress { id, connector: Connector { kind, endpoint }, done, skipped, cents, cursor, status, error } =
        progress;
    call.effect(&sql, &[&id, &kind, &endpoint, &done, &skipped, &cents, &cursor, &status, &error]).await.first_typed()
}

/// Changes a job's status as the call's effect, if it is one of `from`. `None`: it is not.
pub async fn change(call: &ToolCall, id: Uuid, to: &str, from: &[&str]) -> Result<Option<JobRow>, ToolError> {
    let sql = format!(
        "UPDATE backfill_jobs AS j SET status = $2, updated_at = shared.clock()
         WHERE id = $1 AND (status = ANY($3) OR status = $2) RETURNING {COLUMNS}"
    );
    Ok(call.effect(&sql, &[&id, &to, &from]).await?.first().map(JobRow::from))
}

/// One job.
pub async fn one(call: &ToolCall, id: Uuid) -> Result<Option<JobRow>, ToolError> {
    let sql = format!("SELECT {COLUMNS} FROM backfill_jobs j WHERE id = $1");
    Ok(call.query(&sql, &[&id]).await?.first().map(JobRow::from))
}

/// The newest jobs: of a connector, of a status, where these are named.
pub async fn list(
    call: &ToolCall,
    connector: Connector<'_>,
    status: Option<&str>,
    limit: i64,
) -> Result<Vec<JobRow>, ToolError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM backfill_jobs j
         WHERE ($1::text IS NULL OR connector_type = $1) AND ($2::text IS NULL OR endpoint_identity = $2)
           AND ($3::text IS NULL OR status = $3)
         ORDER BY created_at DESC, id DESC LIMIT $4"
    );
    call.query(&sql, &[&connector.kind, &connector.endpoint, &status, &limit]).await.typed()
}

/// Whether a connector was ever heard of, or ever had a job.
pub async fn is_known(call: &ToolCall, connector: Connector<'_>) -> Result<bool, ToolError> {
    let sql = "SELECT 1 FROM connector_registry WHERE connector_type = $1 AND endpoint_identity = $2
               UNION ALL SELECT 1 FROM backfill_jobs WHERE connector_type = $1 AND endpoint_identity = $2 LIMIT 1";
    Ok(!call.query(sql, &[&connector.kind, &connector.endpoint]).await?.is_empty())
}
