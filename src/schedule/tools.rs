//! `schedule_list|create|update|delete|trigger|done` and `schedule_costs`.

use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use jiff::civil::Date;
use serde::Deserialize;
use serde_json::{Value, json};

use super::actor::Scheduler;
use super::dispatch::{How, NOT_NOW};
use super::edit::{create, finished, update};
use super::show::show;
use super::sql;
use super::target::{Target, unknown};
use tools::{Definition, Effect, Meta, Tool, ToolCall, ToolError, handler};

/// The schedule tools of one butler.
pub fn schedule_tools(schedules: &Scheduler) -> Vec<Tool> {
    static DEFS: LazyLock<Vec<Arc<Definition>>> = LazyLock::new(definitions);
    macro_rules! with {
        ($f:ident) => {{
            let schedules = schedules.clone();
            handler(move |call| $f(call, schedules.clone()))
        }};
    }
    let handlers =
        [handler(list), with!(create), with!(update), with!(delete), with!(trigger), with!(costs), handler(done)];
    DEFS.iter().zip(handlers).map(|(d, h)| Tool::new(d, h)).collect()
}

fn fields() -> Value {
    let time = |description: &str| json!({"type": "string", "format": "date-time", "description": description});
    let text = |description: &str| json!({"type": "string", "description": description});
    json!({
        "name": {"type": "string", "minLength": 1, "maxLength": 100, "description":
                 "Unique name of the schedule; the first words of the prompt, if not given"},
        "cron": text("Five fields (minute hour day month weekday), seconds optional in front; e.g. 0 8 * * 1-5"),
        "every": text("In the place of cron: a period such as 90m or 4 hours, counted from start_at, else from now"),
        "at": text("In the place of cron: once, at this moment, such as tomorrow 9:00, monday 18:30, or 2026-12-24T18:00"),
        "in": text("In the place of cron: once, after this time from now, such as 45m or 2 days"),
        "prompt": text("What to do when it is due, for dispatch_mode prompt"),
        "dispatch_mode": {"type": "string", "enum": ["prompt", "job"],
                          "description": "prompt starts a session, job runs a job"},
        "job_name": text("Which job, for dispatch_mode job"),
        "job_args": {"type": "object", "description": "Arguments of the job"},
        "timezone": text("IANA name; the owner's zone by default"),
        "start_at": time("Not before this"),
        "end_at": time("End of the calendar event that this stands for"),
        "until_at": time("Not after this"),
        "priority": {"type": "integer", "minimum": 1, "maximum": 3, "description":
                     "3 is ordinary; 2 goes before it; 1 goes before people's messages, for urgent upkeep only"},
        "require_idle": {"type": "boolean", "description":
                         "Wait until the butler has had no session for 3 seconds, for at most 30 minutes; skipped if the next time comes before"},
        "missed": {"type": "string", "enum": ["skip", "run_once", "backfill"], "description":
                   "What becomes of times that pass while butlerd is off: nothing, one run for all, or a run for each"},
        "missed_window": text("How far back missed times are made up for; 7d by default"),
        "overlap": {"type": "string", "enum": ["skip", "queue"], "description":
                    "What becomes of a time that comes while an earlier run is at work"},
        "display_title": text("How calendars show it"),
        "calendar_event_id": text("The calendar event that this stands for"),
        "reply_channel": {"type": "string", "minLength": 1, "maxLength": 31, "description":
                          "Of a prompt: the channel over which its session sends the outcome by notify"},
        "reply_to": {"type": "string", "minLength": 1, "maxLength": 500,
                     "description": "To whom on reply_channel; the owner by default"},
    })
}

fn definitions() -> Vec<Arc<Definition>> {
    let define = Definition::built_in;
    let id = json!({"type": "string", "format": "uuid", "description": "Id of the schedule (from schedule_list)"});
    let ids = json!({"task_id": id, "id": id});
    let mut changes = fields();
    (changes["task_id"], changes["id"]) = (id.clone(), id);
    changes["enabled"] = json!({"type": "boolean", "description": "false pauses it"});
    changes["clear_reply"] = json!({"type": "boolean", "description": "true: its outcome is sent nowhere"});
    let day = |description: &str| json!({"type": "string", "format": "date", "description": description});
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
            "Create a schedule: a prompt for a new session, or a job, at the times of a cron expression, every so often, \
             or once. It takes one of cron, every, at and in.",
            fields(),
            json!([]),
            Meta::write(Effect::Once),
        ),
        define(
            "schedule_update",
            "Change a schedule. Only the given fields change; at or in alone move the next run of one that comes again.",
            changes,
            json!([]),
            // It answers with all of the schedule.
            Meta { reads_private: true, ..Meta::write(Effect::Idempotent) },
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
            ids.clone(),
            json!([]),
            Meta::write(Effect::Once),
        ),
        define(
            "schedule_costs",
            "What this butler's schedules cost: runs, sessions, tokens and US dollars of each; null is unknown, not 0.",
            json!({"from_date": day("First day; 30 days back by default"), "to_date": day("Last day; today by default")}),
            json!([]),
            Meta { reads_private: false, ..Meta::read() },
        ),
        define(
            "schedule_done",
            "Mark the current run of a schedule as done: the one at work, whose session goes on, or the one that waits.",
            ids,
            json!([]),
            Meta { operators: true, ..Meta::write(Effect::Idempotent) },
        ),
    ]
}

async fn list(call: ToolCall) -> Result<Value, ToolError> {
    Ok(sql::listed(&call).await?.iter().map(show).collect())
}

async fn delete(call: ToolCall, schedules: Scheduler) -> Result<Value, ToolError> {
    let id = call.parse::<Target>()?.id()?;
    match sql::source_of(&call, id).await? {
        None => return Err(unknown(id)),
        Some(source) if source != "db" => {
            let by = if source == "toml" { "declared in butler.toml" } else { "its butler's own" };
            let why = format!(
                "This schedule is {by} and can't be deleted; pause it (schedule_update with enabled=false, or butlerd \
                 schedule pause)."
            );
            return Err(ToolError::refused("declared", why));
        }
        Some(_) => {}
    }
    sql::delete(&call, id).await?;
    schedules.wake();
    Ok(json!({"id": id, "status": "deleted"}))
}

async fn trigger(call: ToolCall, schedules: Scheduler) -> Result<Value, ToolError> {
    let id = call.parse::<Target>()?.id()?;
    let ran = schedules.run_now(&call.context().tenant_id, id, call.caller.clone()).await?;
    let Some((name, ended)) = ran else { return Err(unknown(id)) };
    let why = match ended.how {
        How::Done(note) => {
            return Ok(
                json!({"id": id, "status": "triggered", "name": name, "session_id": ended.session, "result": note}),
            );
        }
        How::Failed(why) | How::Wait { why, .. } => why,
        How::Later(_) => NOT_NOW.to_owned(),
    };
    Ok(json!({"id": id, "status": "error", "error": why, "session_id": ended.session}))
}

async fn done(call: ToolCall) -> Result<Value, ToolError> {
    let id = call.parse::<Target>()?.id()?;
    let now = call.store.clock().now();
    let mut lease = call.lease().await?;
    let mut tx = call.begin(&mut lease).await?;
    let found = async {
        let task = sql::locked(&mut tx, id).await?.ok_or_else(|| unknown(id))?;
        match sql::mark_done(&mut tx, id, now).await? {
            Some(marked) => Ok((task, marked)),
            None => {
                let why = format!("{} has no run at work and none that waits, so there is nothing to mark.", task.name);
                Err(ToolError::refused("no_open_run", why))
            }
        }
    };
    let found = found.await;
    let (task, marked) = finished(tx, found).await?;
    let run = if marked == sql::Marked::AtWork { "at_work" } else { "waiting" };
    Ok(json!({"id": id, "name": task.name, "status": "done", "run": run}))
}

#[derive(Deserialize)]
struct Days {
    from_date: Option<Date>,
    to_date: Option<Date>,
}

async fn costs(call: ToolCall, schedules: Scheduler) -> Result<Value, ToolError> {
    let days: Days = call.parse()?;
    let zone = call.store.time_zone().clone();
    let today = call.store.clock().now().to_zoned(zone.clone()).date();
    let to = days.to_date.unwrap_or(today);
    let from = days.from_date.unwrap_or_else(|| today.saturating_sub(jiff::Span::new().days(30)));
    let start = |day: Date| day.to_zoned(zone.clone()).map(|z| z.timestamp()).unwrap_or(Timestamp::MAX);
    let (begin, end) = (start(from), start(to.tomorrow().unwrap_or(to)));
    let costs = sql::costs(&call, &schedules.worker().pieces, (begin, end)).await?;
    Ok(json!({"from_date": from, "to_date": to, "schedules": costs}))
}
