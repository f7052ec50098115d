//! Old messages that a connector shall bring in: jobs that people make, and that connectors ask for and report on. Each
//! has a limit of rows for an hour and of money for a day.

use jiff::civil::Date;
use jiff::{Timestamp, Unit};
use serde_json::{Value, json};
use uuid::Uuid;

use super::connectors::names;
use super::define::operators;
use super::sql::backfill::{self as sql, Connector, JobRow, NewJob, Progress};
use super::sql::connectors;
use tools::{Effect, Meta, Tool, ToolCall, ToolError, handler};

/// The tools.
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
        Tool::built_in(
            "create_backfill_job",
            "Let a connector bring in old messages of some days, so many in an hour and for so much money a day.",
            create,
            &["connector_type", "endpoint_identity", "target_categories", "date_from", "date_to"],
            operators(Effect::Once),
            handler(create_job),
        ),
        Tool::built_in(
            "backfill.poll",
            "For connectors: the job to work on, if there is one, and how many rows it may bring in now.",
            names(),
            &of_connector,
            operators(Effect::Idempotent),
            handler(poll),
        ),
        Tool::built_in(
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
            handler(progressed),
        ),
        Tool::built_in(
            "backfill_list",
            "The jobs that bring in old messages, newest first.",
            listed,
            &[],
            Meta { reads_untrusted: true, ..Meta::read() },
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
        let (job, run) = (json!({"job_id": id}), handler(move |call| set(call, change)));
        tools.push(Tool::built_in(name, description, job, &["job_id"], operators(Effect::Idempotent), run));
    }
    tools
}

impl JobRow {
    /// Rows that it may still bring in within this hour.
    fn rows_left(&self) -> i64 {
        (i64::from(self.rate_limit_per_hour) - self.hour_rows).max(0)
    }

    fn shown(self) -> Value {
        let cents_left = (i64::from(self.daily_cost_cap_cents) - self.day_cents).max(0);
        json!({
            "job_id": self.id, "connector_type": self.connector_type, "endpoint_identity": self.endpoint_identity,
            "target_categories": self.target_categories, "date_from": self.date_from, "date_to": self.date_to,
            "rate_limit_per_hour": self.rate_limit_per_hour, "daily_cost_cap_cents": self.daily_cost_cap_cents,
            "status": self.status, "cursor": self.cursor, "rows_processed": self.rows_processed,
            "rows_skipped": self.rows_skipped, "cost_spent_cents": self.cost_spent_cents, "error": self.error,
            "created_at": self.created_at.to_string(), "updated_at": self.updated_at.to_string(),
            "rows_left_this_hour": self.rows_left(), "cents_left_today": cents_left,
        })
    }
}

/// Seconds until the hour is over, and with it the limit of rows.
fn next_hour(now: Timestamp) -> i64 {
    3600 - now.round(Unit::Second).unwrap_or(now).as_second().rem_euclid(3600)
}

fn number(call: &ToolCall, name: &str) -> Option<i64> {
    call.args.get(name).and_then(Value::as_i64)
}

fn connector(call: &ToolCall) -> Connector<'_> {
    Connector { kind: call.text("connector_type"), endpoint: call.text("endpoint_identity") }
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
    let rate = number(&call, "rate_limit_per_hour").unwrap_or(100);
    let cap = number(&call, "daily_cost_cap_cents").unwrap_or(500);
    let new = NewJob { connector: connector(&call), categories: &categories, from, to, rate, cap };
    Ok(sql::create(&call, new).await?.map(JobRow::shown).unwrap_or_default())
}

async fn poll(call: ToolCall) -> Result<Value, ToolError> {
    let asking = connector(&call);
    if connectors::is_off(&call, asking.kind, asking.endpoint).await? {
        let why = "This connector was signed off; its next sign of life (connector.heartbeat) lets it work again.";
        return Err(ToolError::refused("signed_off", why));
    }
    Ok(match sql::take_up(&call, asking).await? {
        None => json!({"job": null}),
        Some(job) if job.rows_left() == 0 => json!({"job": null, "retry_after_s": next_hour(call.store.clock().now())}),
        Some(job) => json!({"job": job.shown()}),
    })
}

async fn progressed(call: ToolCall) -> Result<Value, ToolError> {
    let count = |name: &str| number(&call, name).unwrap_or(0);
    let progress = Progress {
        id: id_of(&call),
        connector: connector(&call),
        done: count("rows_processed"),
        skipped: count("rows_skipped"),
        cents: count("cost_spent_cents_delta"),
        cursor: call.args.get("cursor"),
        status: call.text("status"),
        error: call.text("error"),
    };
    let Some(job) = sql::report(&call, progress).await? else {
        let message = "There is no such job of this connector, or it is over; backfill.poll says what there is to do.";
        return Err(ToolError::refused("not_found", message));
    };
    let goes_on = job.status == "active" && job.rows_left() > 0;
    let wait = (job.status == "active" && !goes_on).then(|| next_hour(call.store.clock().now()));
    Ok(json!({"status": "ok", "rows_left_this_hour": job.rows_left(), "job_status": job.status, "continue": goes_on,
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
    let id = id_of(&call);
    if let Some(job) = sql::change(&call, id, change.to, change.from).await? {
        return Ok(job.shown());
    }
    let Some(found) = sql::one(&call, id).await? else {
        return Err(ToolError::refused("not_found", "There is no such job; backfill_list shows what there is."));
    };
    let message =
        format!("Job {} is {}; only one that is {} can be.", found.id, found.status, change.from.join(" or "));
    Err(ToolError::refused("wrong_state", message))
}

async fn list(call: ToolCall) -> Result<Value, ToolError> {
    let asked = connector(&call);
    let jobs = sql::list(&call, asked, call.text("status"), number(&call, "limit").unwrap_or(100)).await?;
    if jobs.is_empty()
        && let Connector { kind: Some(kind), endpoint: Some(endpoint) } = asked
        && !sql::is_known(&call, asked).await?
    {
        let why =
            format!("No connector {kind} of {endpoint} has ever been heard of; connector_list shows which there are.");
        return Err(ToolError::refused("not_found", why));
    }
    Ok(jobs.into_iter().map(JobRow::shown).collect())
}
