//! Schedules as tools and people see them.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::sql::TaskRow;
use base::HumanDuration;

fn period(ms: i64) -> String {
    HumanDuration::from_millis(ms.unsigned_abs()).to_string()
}

fn text(time: Option<Timestamp>) -> Option<String> {
    time.map(|t| t.to_string())
}

/// A schedule.
pub(super) fn show(task: &TaskRow) -> Value {
    let paused = task.paused_at.is_some();
    // What rests has no next run, whatever it will have when it goes on.
    let next = task.next_run_at.filter(|_| !paused);
    let mut shown = json!({
        "id": task.id, "name": task.name, "cron": task.cron, "prompt": task.prompt,
        "dispatch_mode": task.dispatch_mode, "job_name": task.job_name, "job_args": task.job_args,
        "timezone": task.timezone, "start_at": text(task.start_at), "end_at": text(task.end_at),
        "until_at": text(task.until_at), "display_title": task.display_title,
        "calendar_event_id": task.calendar_event_id, "source": task.source, "enabled": task.enabled && !paused,
        "next_run_at": text(next), "last_run_at": text(task.last_run_at), "last_result": task.last_result,
        "created_at": text(Some(task.created_at)), "updated_at": text(Some(task.updated_at)),
    });
    let more = json!({
        "task_type": task.timing().kind(), "every": task.every_ms.map(period), "at": text(task.run_at),
        "paused": paused, "priority": task.priority, "require_idle": task.require_idle, "missed": task.missed,
        "missed_window": period(task.missed_window_s.saturating_mul(1000)), "overlap": task.overlap,
        "reply_channel": task.reply_channel, "reply_to": task.reply_to, "location": task.location,
        "description": task.description,
    });
    if let (Value::Object(shown), Value::Object(more)) = (&mut shown, more) {
        shown.extend(more);
    }
    shown
}
