//! Old messages that a connector shall bring in: jobs that people make, and that connectors ask for and report on. Each
//! has a limit of rows for an hour and of money for a day.

use jiff::civil::Date;
use jiff::{Timestamp, Unit};
use serde_json::{Value, json};
use tokio_postgres::Row;
use uuid::Uuid;

use super::connectors::names;
use super::tools::{define, operators};
use tools::{Effect, Meta, Tool, ToolCall, ToolError, handler};

const COLUMNS: &str =
    "j.id, j.connector_type, j.endpoint_identity, j.target_categories, j.date_from::text, j.date_to::text,
    j.rate_limit_per_hour, j.daily_cost_cap_cents, j.status, j.cursor, j.rows_processed, j.rows_skipped,
    j.cost_spent_cents, j.error, j.created_at, j.updated_at,
    CASE WHEN j.hour = date_trunc('hour', shared.clock()) THEN j.hour_rows ELSE 0 END,
    CASE WHEN j.day = shared.today() THEN j.day_cents ELSE 0 END";
/// What a job has used of its day is all that it may.
const CAPPED: &str =
    "j.day IS NOT DISTINCT FROM shared.today() AND j.day_cents > 0 AND j.day_cents >= j.daily_cost_cap_cents";

/// The tools.
#[allow(clippy::too_many_lines, reason = "a list of definitions")]
pub(super) fn tools() -> Vec<Tool> {
    let text = |description: &str| json!({"type": "string", "maxLength": 2000, "description": description});
    let count = |description: &str| json!({"type": "integer", "minimum": 0, "maximum": 1_000_000_000, "description": description});
    let id = json!({"type": "string", "format": "uuid", "description": "Id of the job (from backfill_list)"});
    let of_connector = ["connector_type", "endpoint_identity"];
    let mut create = names();
    create["target_categories"] = json!({"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 200},
                                         "maxItems": 100, "description": "What to bring in, as the connector names it"});
    create["date_from"] = json!({"type": "string", "format": "date"});
    create["date_to"] = json!({"type": "string", "format": "date", "description": "This day included"});
    create["rate_limit_per_hour"] = json!({"type": "integer", "minimum": 1, "maximum": 1_000_000, "default": 100});
    create["daily_cost_cap_cents"] = json!({"type": "integer", "minimum": 0, "maximum": 1_000_000, "default": 500});
    let mut progress = names();
    progress["job_id"] = id.clone();
    progress["rows_processed"] = count("Handed in since the last report");
    progress["rows_skipped"] = count("Left out since the last report");
    progress["cost_spent_cents_delta"] = count("Spent since the last report");
    progress["cursor"] = json!({"type": "object", "description": "Where to go on"});
    progress["status"] = json!({"type": "string", "enum": ["active", "completed", "error"]});
    progress["error"] = text("What went wrong, for status error");
    let mut listed = names();
    listed["status"] = json!({"type": "string", "enum": ["pending", "active", "paused", "completed", "cancelled", "error",
                                                         "cost_capped"]});
    listed["limit"] = json!({"type": "integer", "minimum": 1, "maximum": 1000, "default": 100});
    let mut tools = vec![
        Tool::new(
            &define(
                "create_backfill_job",
                "Let a connector bring in old messages of some days, so many in an hour and for so much money a day.",
                create,
                &["connector_type", "endpoint_identity", "target_categories", "date_from", "date_to"],
                operators(Effect::Once),
            ),
            handler(create_job),
        ),
        Tool::new(
            &define(
                "backfill.poll",
                "For connectors: the job to work on, if there is one, and how many rows it may bring in now.",
                names(),
                &of_connector,
                operators(Effect::Idempotent),
            ),
            handler(poll),
        ),
        Tool::new(
            &define(
                "backfill.progress",
                "For connectors: what was done of a job since the last report. The answer says whether to go on.",
                progress,
                &[
                    "job_id",
                    "connector_type",
                    "endpoint_identity",
                    "rows_processed",
                    "rows_skipped",
                    "cost_spent_cents_delta",
                ],
                operators(Effect::Once),
            ),
            handler(progressed),
        ),
        Tool::new(
            &define(
                "backfill_list",
                "The jobs that bring in old messages, newest first.",
                listed,
                &[],
                Meta { reads_untrusted: true, ..Meta::read() },
            ),
            handler(list),
        ),
    ];
    for (name, description, change) in [
        ("backfill_pause", "Pause a job.", Change { to: "paused", from: &["pending", "active", "cost_capped"] }),
        ("backfill_resume", "Let a paused job go on.", Change { to: "pending", from: &["paused"] }),
        (
            "backfill_cancel",
            "End a job for good.",
            Change { to: "cancelled", from: &["pending", "active", "paused", "cost_capped"] },
        ),
    ] {
        let def = define(name, description, json!({"job_id": id}), &["job_id"], operators(Effect::Idempotent));
        tools.push(Tool::new(&def, handler(move |call| set(call, change))));
    }
    tools
}

/// A job as it is shown.
struct Job {
    id: Uuid,
    status: String,
    /// Rows that it may still bring in within this hour.
    rows_left: i64,
    shown: Value,
}

fn job(row: &Row) -> Job {
    let (rate, cap): (i32, i32) = (row.get(6), row.get(7));
    let (hour_rows, day_cents): (i64, i64) = (row.get(16), row.get(17));
    let (id, status): (Uuid, String) = (row.get(0), row.get(8));
    let rows_left = (i64::from(rate) - hour_rows).max(0);
    let shown = json!({
        "job_id": id, "connector_type": row.get::<_, String>(1), "endpoint_identity": row.get::<_, String>(2),
        "target_categories": row.get::<_, Vec<String>>(3), "date_from": row.get::<_, String>(4),
        "date_to": row.get::<_, String>(5), "rate_limit_per_hour": rate, "daily_cost_cap_cents": cap, "status": status,
        "cursor": row.get::<_, Option<Value>>(9), "rows_processed": row.get::<_, i64>(10),
        "rows_skipped": row.get::<_, i64>(11), "cost_spent_cents": row.get::<_, i64>(12),
        "error": row.get::<_, Option<String>>(13), "created_at": row.get::<_, Timestamp>(14).to_string(),
        "updated_at": row.get::<_, Timestamp>(15).to_string(),
        "rows_left_this_hour": rows_left, "cents_left_today": (i64::from(cap) - day_cents).max(0),
    });
    Job { id, status, rows_left, shown }
}

/// Seconds until the hour is over, and with it the limit of rows.
fn next_hour(now: Timestamp) -> i64 {
    3600 - now.round(Unit::Second).unwrap_or(now).as_second().rem_euclid(3600)
}

fn number(call: &ToolCall, name: &str) -> Option<i64> {
    call.args.get(name).and_then(Value::as_i64)
}

fn no_such_job() -> ToolError {
    ToolError::refused("not_found", "There is no such job; backfill_list shows what there is.")
}

async fn create_job(call: ToolCall) -> Result<Value, ToolError> {
    let (from, to) = (call.text("date_from").unwrap_or_default(), call.text("date_to").unwrap_or_default());
    let (Ok(first), Ok(last)) = (from.parse::<Date>(), to.parse::<Date>()) else {
        return Err(ToolError::refused("invalid_arguments", "date_from and date_to are days, as in 2026-01-31."));
    };
    if first > last {
        return Err(ToolError::refused("wrong_days", format!("date_from ({from}) is after date_to ({to}).")));
    }
    let categories: Vec<&str> = call
        .args
        .get("target_categories")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let sql = format!(
        "INSERT INTO backfill_jobs AS j (id, connector_type, endpoint_identity, target_categories, date_from, date_to,
             rate_limit_per_hour, daily_cost_cap_cents)
         VALUES ($1, $2, $3, $4, $5::text::date, $6::text::date, $7::bigint::int, $8::bigint::int) RETURNING {COLUMNS}"
    );
    let (rate, cap) =
        (number(&call, "rate_limit_per_hour").unwrap_or(100), number(&call, "daily_cost_cap_cents").unwrap_or(500));
    let (kind, endpoint) = (call.text("connector_type"), call.text("endpoint_identity"));
    let rows = call.effect(&sql, &[&Uuid::now_v7(), &kind, &endpoint, &categories, &from, &to, &rate, &cap]).await?;
    Ok(rows.first().map(|row| job(row).shown).unwrap_or_default())
}

async fn poll(call: ToolCall) -> Result<Value, ToolError> {
    let (kind, endpoint) = (call.text("connector_type"), call.text("endpoint_identity"));
    let gone = "SELECT 1 FROM connector_registry
                WHERE connector_type = $1 AND endpoint_identity = $2 AND disconnected_at IS NOT NULL";
    if !call.query(gone, &[&kind, &endpoint]).await?.is_empty() {
        let why = "This connector was signed off; its next sign of life (connector.heartbeat) lets it work again.";
        return Err(ToolError::refused("signed_off", why));
    }
    let sql = format!(
        "WITH next AS (SELECT j.id FROM backfill_jobs j
                       WHERE j.connector_type = $1 AND j.endpoint_identity = $2
                         AND j.status IN ('pending', 'active', 'cost_capped') AND NOT ({CAPPED})
                       ORDER BY j.created_at, j.id LIMIT 1 FOR UPDATE)
         UPDATE backfill_jobs j SET status = 'active', updated_at = shared.clock() FROM next WHERE j.id = next.id
         RETURNING {COLUMNS}"
    );
    let rows = call.effect(&sql, &[&kind, &endpoint]).await?;
    Ok(match rows.first().map(job) {
        None => json!({"job": null}),
        Some(job) if job.rows_left == 0 => json!({"job": null, "retry_after_s": next_hour(call.store.clock().now())}),
        Some(job) => json!({"job": job.shown}),
    })
}

async fn progressed(call: ToolCall) -> Result<Value, ToolError> {
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
    let id = id_of(&call);
    let (kind, endpoint) = (call.text("connector_type"), call.text("endpoint_identity"));
    let count = |name: &str| number(&call, name).unwrap_or(0);
    let (done, skipped, cents) = (count("rows_processed"), count("rows_skipped"), count("cost_spent_cents_delta"));
    let (status, error) = (call.text("status"), call.text("error"));
    let cursor = call.args.get("cursor");
    let rows = call.effect(&sql, &[&id, &kind, &endpoint, &done, &skipped, &cents, &cursor, &status, &error]).await?;
    let Some(job) = rows.first().map(job) else {
        let message = "There is no such job of this connector, or it is over; backfill.poll says what there is to do.";
        return Err(ToolError::refused("not_found", message));
    };
    let goes_on = job.status == "active" && job.rows_left > 0;
    let wait = (job.status == "active" && !goes_on).then(|| next_hour(call.store.clock().now()));
    Ok(json!({"status": "ok", "job_status": job.status, "continue": goes_on, "rows_left_this_hour": job.rows_left,
              "retry_after_s": wait}))
}

fn id_of(call: &ToolCall) -> Uuid {
    call.text("job_id").and_then(|id| id.parse().ok()).unwrap_or_default()
}

/// What people do with a job.
#[derive(Clone, Copy)]
struct Change {
    to: &'static str,
    from: &'static [&'static str],
}

async fn set(call: ToolCall, change: Change) -> Result<Value, ToolError> {
    let sql = format!(
        "UPDATE backfill_jobs AS j SET status = $2, updated_at = shared.clock()
         WHERE id = $1 AND (status = ANY($3) OR status = $2) RETURNING {COLUMNS}"
    );
    let id = id_of(&call);
    let rows = call.effect(&sql, &[&id, &change.to, &change.from]).await?;
    if let Some(row) = rows.first() {
        return Ok(job(row).shown);
    }
    let rows = call.query(&format!("SELECT {COLUMNS} FROM backfill_jobs j WHERE id = $1"), &[&id]).await?;
    let found = rows.first().map(job).ok_or_else(no_such_job)?;
    let message =
        format!("Job {} is {}; only one that is {} can be.", found.id, found.status, change.from.join(" or "));
    Err(ToolError::refused("wrong_state", message))
}

async fn list(call: ToolCall) -> Result<Value, ToolError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM backfill_jobs j
         WHERE ($1::text IS NULL OR connector_type = $1) AND ($2::text IS NULL OR endpoint_identity = $2)
           AND ($3::text IS NULL OR status = $3)
         ORDER BY created_at DESC, id DESC LIMIT $4"
    );
    let limit = number(&call, "limit").unwrap_or(100);
    let (kind, endpoint, status) = (call.text("connector_type"), call.text("endpoint_identity"), call.text("status"));
    let rows = call.query(&sql, &[&kind, &endpoint, &status, &limit]).await?;
    if rows.is_empty()
        && let (Some(kind), Some(endpoint)) = (kind, endpoint)
    {
        let known = "SELECT 1 FROM connector_registry WHERE connector_type = $1 AND endpoint_identity = $2
                     UNION ALL SELECT 1 FROM backfill_jobs WHERE connector_type = $1 AND endpoint_identity = $2 LIMIT 1";
        if call.query(known, &[&kind, &endpoint]).await?.is_empty() {
            let why = format!(
                "No connector {kind} of {endpoint} has ever been heard of; connector_list shows which there are."
            );
            return Err(ToolError::refused("not_found", why));
        }
    }
    Ok(rows.iter().map(|row| job(row).shown).collect())
}
