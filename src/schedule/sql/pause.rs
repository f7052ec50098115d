//! Pausing and going on.

use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::plan::RunRow;
use super::task::TaskRow;
use crate::due::rested;
use tools::{EffectTx, ToolError};

/// From now on nothing fires, and what waits does not begin.
pub(crate) async fn pause(tx: &mut EffectTx<'_, '_>, id: Uuid, now: Timestamp) -> Result<(), ToolError> {
    tx.query("UPDATE scheduled_tasks SET paused_at = $2 WHERE id = $1", &[&id, &now]).await?;
    let sql = "UPDATE schedule_runs SET state = 'skipped', reason = 'paused before it began', finished_at = $2
               WHERE task_id = $1 AND state = 'due'";
    tx.query(sql, &[&id, &now]).await.map(drop)
}

/// Goes on with the next time. Those that passed meanwhile were not missed: one row says how many they were.
pub(crate) async fn resume(
    tx: &mut EffectTx<'_, '_>,
    task: &TaskRow,
    (now, spacing): (Timestamp, Duration),
) -> Result<(), ToolError> {
    let plan = task.plan(spacing).map_err(|e| ToolError::refused("invalid_cron", e.to_string()))?;
    let due = rested(now, &plan, "paused");
    for decision in &due.decisions {
        tx.query(&RunRow::insert_into(""), &RunRow::of(task, decision, now).params()).await?;
    }
    let sql = "UPDATE scheduled_tasks SET paused_at = NULL, next_run_at = $2, decided_at = $3,
                      enabled = enabled AND $2::timestamptz IS NOT NULL
               WHERE id = $1";
    tx.query(sql, &[&task.id, &due.next, &now]).await.map(drop)
}
