//! `schedule_list|create|update|delete|trigger`.

use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio_postgres::Row;
use uuid::Uuid;

use super::cron::CronTimes;
use super::dispatch::{Dispatch, Firing};
use crate::base::Trust;
use crate::store::StoreError;
use crate::tools::{Definition, Effect, Meta, Tool, ToolCall, ToolError, handler};

const COLUMNS: &str = "id, name, cron, prompt, dispatch_mode, job_name, job_args, timezone, start_at, end_at, until_at,
    display_title, calendar_event_id, source, enabled, next_run_at, last_run_at, last_result, created_at, updated_at, trust";

/// The schedule tools of one butler; `target` runs what `schedule_trigger` asks for.
pub fn schedule_tools(time_zone: &str, target: Arc<dyn Dispatch>) -> Vec<Tool> {
    static DEFS: OnceLock<Vec<Arc<Definition>>> = OnceLock::new();
    let defs = DEFS.get_or_init(definitions);
    let zone: Arc<str> = time_zone.into();
    let create = {
        let zone = zone.clone();
        handler(move |call| create(call, zone.clone()))
    };
    let trigger = handler(move |call| trigger(call, target.clone()));
    let handlers = [handler(list), create, handler(update), handler(delete), trigger];
    defs.iter().zip(handlers).map(|(d, h)| Tool::new(d, h)).collect()
}

fn fields() -> Map<String, Value> {
    let time = |description: &str| json!({"type": "string", "format": "date-time", "description": description});
    let text = |description: &str| json!({"type": "string", "description": description});
    let Value::Object(fields) = json!({
        "name": {"type": "string", "minLength": 1, "maxLength": 100, "description": "Unique name of the schedule"},
        "cron": text("Five fields (minute hour day month weekday), seconds optional in front; e.g. 0 8 * * 1-5"),
        "prompt": text("What to do when it is due, for dispatch_mode prompt"),
        "dispatch_mode": {"type": "string", "enum": ["prompt", "job"],
                          "description": "prompt starts a session, job runs a built-in job"},
        "job_name": text("Which job, for dispatch_mode job"),
        "job_args": {"type": "object", "description": "Arguments of the job"},
        "timezone": text("IANA name; the owner's zone by default"),
        "start_at": time("Not before this"),
        "end_at": time("End of the calendar event that this stands for"),
        "until_at": time("Not after this"),
        "display_title": text("How calendars show it"),
        "calendar_event_id": text("The calendar event that this stands for"),
    }) else {
        unreachable!("the literal above is an object")
    };
    fields
}

fn definitions() -> Vec<Arc<Definition>> {
    let define = |name: &str, description: &str, properties: Value, required: Value, meta: Meta| {
        let schema =
            json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
        Arc::new(Definition::new(name, description, schema, meta).expect("a schema in the source is right"))
    };
    let id = json!({"type": "string", "format": "uuid", "description": "Id of the schedule (from schedule_list)"});
    let ids = json!({"task_id": id, "id": id});
    let mut changes = fields();
    changes.insert("task_id".into(), id.clone());
    changes.insert("id".into(), id.clone());
    changes.insert("enabled".into(), json!({"type": "boolean", "description": "false pauses it"}));
    vec![
        define(
            "schedule_list",
            "List this butler's schedules with their next and last run.",
            json!({}),
            json!([]),
            Meta::read(),
        ),
        define(
            "schedule_create",
            "Create a recurring schedule: a prompt for a new session, or a job, at the times of a cron expression.",
            Value::Object(fields()),
            json!(["name", "cron"]),
            Meta::write(Effect::Once),
        ),
        define(
            "schedule_update",
            "Change a schedule. Only the given fields change.",
            Value::Object(changes),
            json!([]),
            Meta::write(Effect::Idempotent),
        ),
        define(
            "schedule_delete",
            "Delete a schedule made by schedule_create. Those of butler.toml can only be switched off.",
            ids.clone(),
            json!([]),
            Meta { destructive: true, ..Meta::write(Effect::Idempotent) },
        ),
        define(
            "schedule_trigger",
            "Run a schedule once, now. Its next due time stays.",
            ids,
            json!([]),
            Meta::write(Effect::Once),
        ),
    ]
}

/// A schedule's row as tools show it.
fn show(row: &Row) -> Value {
    let time = |i: usize| row.get::<_, Option<Timestamp>>(i).map(|t| t.to_string());
    let text = |i: usize| row.get::<_, Option<String>>(i);
    json!({
        "id": row.get::<_, Uuid>(0), "name": text(1), "cron": text(2), "prompt": text(3), "dispatch_mode": text(4),
        "job_name": text(5), "job_args": row.get::<_, Option<Value>>(6), "timezone": text(7), "start_at": time(8),
        "end_at": time(9), "until_at": time(10), "display_title": text(11), "calendar_event_id": text(12),
        "source": text(13), "enabled": row.get::<_, bool>(14), "next_run_at": time(15), "last_run_at": time(16),
        "last_result": row.get::<_, Option<Value>>(17), "created_at": time(18), "updated_at": time(19),
    })
}

async fn list(call: ToolCall) -> Result<Value, ToolError> {
    let rows = call.query(&format!("SELECT {COLUMNS} FROM scheduled_tasks ORDER BY name"), &[]).await?;
    Ok(rows.iter().map(show).collect())
}

#[derive(Deserialize, Default)]
struct Fields {
    task_id: Option<Uuid>,
    id: Option<Uuid>,
    name: Option<String>,
    cron: Option<String>,
    prompt: Option<String>,
    dispatch_mode: Option<String>,
    job_name: Option<String>,
    job_args: Option<Value>,
    timezone: Option<String>,
    start_at: Option<Timestamp>,
    end_at: Option<Timestamp>,
    until_at: Option<Timestamp>,
    display_title: Option<String>,
    calendar_event_id: Option<String>,
    enabled: Option<bool>,
}

impl Fields {
    fn target(&self) -> Result<Uuid, ToolError> {
        match (self.task_id, self.id) {
            (Some(a), Some(b)) if a != b => {
                Err(ToolError::refused("invalid_arguments", "task_id and id name two different schedules."))
            }
            (Some(id), _) | (None, Some(id)) => Ok(id),
            (None, None) => Err(ToolError::refused("invalid_arguments", "task_id is needed; see schedule_list.")),
        }
    }

    /// Exactly one of prompt and job, by the mode.
    fn check_mode(mode: &str, prompt: Option<&str>, job: Option<&str>) -> Result<(), ToolError> {
        let ok = match mode {
            "job" => job.is_some() && prompt.is_none(),
            _ => prompt.is_some_and(|p| !p.trim().is_empty()) && job.is_none(),
        };
        let need = if mode == "job" { "a job_name and no prompt" } else { "a prompt and no job_name" };
        if ok {
            Ok(())
        } else {
            Err(ToolError::refused("invalid_arguments", format!("dispatch_mode {mode} takes {need}.")))
        }
    }
}

fn times(cron: &str, zone: &str) -> Result<CronTimes, ToolError> {
    CronTimes::parse(cron, zone).map_err(|e| ToolError::refused("invalid_cron", e.to_string()))
}

/// The next due time within the schedule's bounds.
fn next_run(
    times: &CronTimes,
    now: Timestamp,
    start: Option<Timestamp>,
    until: Option<Timestamp>,
) -> Option<Timestamp> {
    times.next(start.map_or(now, |s| s.max(now))).filter(|t| until.is_none_or(|u| *t <= u))
}

async fn create(call: ToolCall, owner_zone: Arc<str>) -> Result<Value, ToolError> {
    let f: Fields = call.parse()?;
    let mode = f.dispatch_mode.as_deref().unwrap_or("prompt");
    Fields::check_mode(mode, f.prompt.as_deref(), f.job_name.as_deref())?;
    let zone = f.timezone.as_deref().unwrap_or(&owner_zone);
    let (name, cron) = (f.name.as_deref().unwrap_or_default(), f.cron.as_deref().unwrap_or_default());
    let times = times(cron, zone)?;
    let Some(next) = next_run(&times, call.store.clock().now(), f.start_at, f.until_at) else {
        return Err(ToolError::refused("never_due", "With these bounds the schedule would never be due."));
    };
    let id = Uuid::now_v7();
    let mut lease = call.lease().await?;
    let sql = format!(
        "INSERT INTO scheduled_tasks (id, name, cron, prompt, dispatch_mode, job_name, job_args, timezone, start_at,
             end_at, until_at, display_title, calendar_event_id, source, next_run_at,
             trust)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 'db', $14, $15) RETURNING {COLUMNS}"
    );
    let inserted = call
        .effect_on(
            &mut lease,
            &sql,
            &[
                &id,
                &name,
                &cron,
                &f.prompt,
                &mode,
                &f.job_name,
                &f.job_args,
                &zone,
                &f.start_at,
                &f.end_at,
                &f.until_at,
                &f.display_title,
                &f.calendar_event_id,
                &next,
                &call.context().trust.as_str(),
            ],
        )
        .await;
    let rows = inserted.map_err(|e| match e.code() {
        Some(c) if *c == tokio_postgres::error::SqlState::UNIQUE_VIOLATION => {
            ToolError::refused("already_exists", format!("There is a schedule `{name}` already; use schedule_update."))
        }
        _ => ToolError::Store(StoreError::Query { step: "storing a schedule", source: e }),
    })?;
    Ok(answer(rows.first(), id, "created"))
}

fn answer(row: Option<&Row>, id: Uuid, status: &str) -> Value {
    let mut shown = row.map(show).unwrap_or_else(|| json!({}));
    if let Value::Object(o) = &mut shown {
        o.insert("id".into(), json!(id));
        o.insert("status".into(), json!(status));
        o.insert("task_type".into(), json!("cron"));
    }
    shown
}

fn unknown(id: Uuid) -> ToolError {
    ToolError::refused("not_found", format!("There is no schedule {id}; schedule_list shows those there are."))
}

async fn update(call: ToolCall) -> Result<Value, ToolError> {
    let f: Fields = call.parse()?;
    let id = f.target()?;
    let mut lease = call.lease().await?;
    let mut tx = call.begin(&mut lease).await?;
    let sql = format!("SELECT {COLUMNS} FROM scheduled_tasks WHERE id = $1 FOR UPDATE");
    let Some(old) = tx.query_opt(&sql, &[&id]).await? else {
        tx.rollback().await?;
        return Err(unknown(id));
    };
    let mode = f.dispatch_mode.clone().unwrap_or_else(|| old.get(4));
    // A change of the mode takes the other mode's field away.
    let keep = |i: usize, of: &str| if mode == of { old.get::<_, Option<String>>(i) } else { None };
    let prompt = f.prompt.clone().or_else(|| keep(3, "prompt"));
    let job = f.job_name.clone().or_else(|| keep(5, "job"));
    let cron = f.cron.clone().unwrap_or_else(|| old.get(2));
    let zone = f.timezone.clone().unwrap_or_else(|| old.get(7));
    let enabled = f.enabled.unwrap_or_else(|| old.get(14));
    let start = f.start_at.or_else(|| old.get(8));
    let until = f.until_at.or_else(|| old.get(10));
    let checked = Fields::check_mode(&mode, prompt.as_deref(), job.as_deref()).and_then(|()| times(&cron, &zone));
    let times = match checked {
        Ok(times) => times,
        Err(e) => {
            tx.rollback().await?;
            return Err(e);
        }
    };
    let trust = call.context().trust.min(Trust::from_name(old.get(20))).as_str();
    let same_times = f.cron.is_none() && f.timezone.is_none() && f.start_at.is_none() && f.until_at.is_none();
    let kept: Option<Timestamp> = old.get(15);
    let next = match kept {
        Some(t) if same_times && old.get::<_, bool>(14) => Some(t),
        _ => next_run(&times, call.store.clock().now(), start, until),
    };
    let sql = format!(
        "UPDATE scheduled_tasks SET name = coalesce($2, name), cron = $3, prompt = $4, dispatch_mode = $5,
             job_name = $6, job_args = coalesce($7, job_args), timezone = $8, start_at = $9,
             end_at = coalesce($10, end_at), until_at = $11, display_title = coalesce($12, display_title),
             calendar_event_id = coalesce($13, calendar_event_id), enabled = $14, next_run_at = $15,
             trust = $16, updated_at = shared.clock()
         WHERE id = $1 RETURNING {COLUMNS}"
    );
    let row = tx
        .query_opt(
            &sql,
            &[
                &id,
                &f.name,
                &cron,
                &prompt,
                &mode,
                &job,
                &f.job_args,
                &zone,
                &start,
                &f.end_at,
                &until,
                &f.display_title,
                &f.calendar_event_id,
                &enabled,
                &next,
                &trust,
            ],
        )
        .await?;
    tx.commit().await?;
    Ok(answer(row.as_ref(), id, "updated"))
}

async fn delete(call: ToolCall) -> Result<Value, ToolError> {
    let f: Fields = call.parse()?;
    let id = f.target()?;
    let found = call.query("SELECT source FROM scheduled_tasks WHERE id = $1", &[&id]).await?;
    match found.first().map(|r| r.get::<_, String>(0)) {
        None => return Err(unknown(id)),
        Some(source) if source == "toml" => {
            return Err(ToolError::refused(
                "declared",
                "This schedule is declared in butler.toml; schedule_update(enabled=false) switches it off.",
            ));
        }
        Some(_) => {}
    }
    call.effect("DELETE FROM scheduled_tasks WHERE id = $1 AND source = 'db'", &[&id]).await?;
    Ok(json!({"id": id, "status": "deleted"}))
}

async fn trigger(call: ToolCall, target: Arc<dyn Dispatch>) -> Result<Value, ToolError> {
    let f: Fields = call.parse()?;
    let id = f.target()?;
    let rows =
        call.query("SELECT name, prompt, job_name, job_args, trust FROM scheduled_tasks WHERE id = $1", &[&id]).await?;
    let Some(row) = rows.first() else { return Err(unknown(id)) };
    let firing = Firing {
        task_id: id,
        name: row.get(0),
        prompt: row.get(1),
        job_name: row.get(2),
        job_args: row.get(3),
        tenant: call.context().tenant_id.clone(),
        trust: Trust::from_name(row.get(4)),
        caller: Some(call.caller.clone()),
    };
    let name = firing.name.clone();
    let ended = target.dispatch(firing).await;
    if !ended.ok {
        let why = ended.error.unwrap_or_else(|| "it failed".to_owned());
        return Ok(json!({"id": id, "status": "error", "error": why, "session_id": ended.session}));
    }
    Ok(json!({"id": id, "status": "triggered", "name": name, "session_id": ended.session}))
}
