//! Schedules and runs as tools and people see them.

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio_postgres::Row;
use uuid::Uuid;

use super::timing::Timing;
use base::HumanDuration;

/// The columns that [`show`] reads.
pub(super) const LISTED: &str = "id, name, cron, prompt, dispatch_mode, job_name, job_args, timezone, start_at, end_at,
    until_at, display_title, calendar_event_id, source, enabled, next_run_at, last_run_at, last_result, created_at,
    updated_at, trust, every_ms, run_at, paused_at, priority, require_idle, missed, missed_window_s, overlap, anchor_at,
    stagger_s";

fn period(ms: i64) -> String {
    HumanDuration::from_millis(ms.unsigned_abs()).to_string()
}

/// The times of a row of [`LISTED`].
pub(super) fn timing(row: &Row) -> Timing {
    Timing {
        cron: row.get(2),
        every_ms: row.get(21),
        anchor_at: row.get(29),
        run_at: row.get(22),
        timezone: row.get(7),
        start_at: row.get(8),
        until_at: row.get(10),
        stagger_s: row.get(30),
    }
}

/// A schedule's row.
pub(super) fn show(row: &Row) -> Value {
    let time = |i: usize| row.get::<_, Option<Timestamp>>(i).map(|t| t.to_string());
    let text = |i: usize| row.get::<_, Option<String>>(i);
    let paused = row.get::<_, Option<Timestamp>>(23).is_some();
    // What rests has no next run, whatever it will have when it goes on.
    let next = if paused { None } else { time(15) };
    let mut shown = json!({
        "id": row.get::<_, Uuid>(0), "name": text(1), "cron": text(2), "prompt": text(3), "dispatch_mode": text(4),
        "job_name": text(5), "job_args": row.get::<_, Option<Value>>(6), "timezone": text(7), "start_at": time(8),
        "end_at": time(9), "until_at": time(10), "display_title": text(11), "calendar_event_id": text(12),
        "source": text(13), "enabled": row.get::<_, bool>(14) && !paused, "next_run_at": next,
        "last_run_at": time(16), "last_result": row.get::<_, Option<Value>>(17), "created_at": time(18),
        "updated_at": time(19),
    });
    let more = json!({
        "task_type": timing(row).kind(), "every": row.get::<_, Option<i64>>(21).map(period), "at": time(22),
        "paused": paused, "priority": row.get::<_, i16>(24), "require_idle": row.get::<_, bool>(25),
        "missed": text(26), "missed_window": period(row.get::<_, i64>(27).saturating_mul(1000)), "overlap": text(28),
    });
    if let (Value::Object(shown), Value::Object(more)) = (&mut shown, more) {
        shown.extend(more);
    }
    shown
}

/// The columns that [`run`] reads, of `schedule_runs r`.
pub(super) const RUN: &str = "r.id, r.fire_at, r.until_at, r.times, r.more, r.cause, r.state, r.reason, r.attempts,
    r.session_id, r.created_at, r.started_at, r.finished_at,
    (SELECT sum(s.cost_usd)::text FROM sessions s WHERE s.run_id = r.id)";
/// How many those are.
pub(super) const RUN_COLUMNS: usize = 14;

/// A run's row.
pub(super) fn run(row: &Row, from: usize) -> Value {
    let time = |i: usize| row.get::<_, Option<Timestamp>>(from + i).map(|t| t.to_string());
    let text = |i: usize| row.get::<_, Option<String>>(from + i);
    json!({
        "run": row.get::<_, Uuid>(from), "fire_at": time(1), "until": time(2), "times": row.get::<_, i32>(from + 3),
        "more": row.get::<_, bool>(from + 4), "cause": text(5), "state": text(6), "reason": text(7),
        "attempts": row.get::<_, i32>(from + 8), "session_id": row.get::<_, Option<Uuid>>(from + 9),
        "created_at": time(10), "started_at": time(11), "finished_at": time(12), "cost_usd": text(13),
    })
}
