//! What people are shown of schedules, and how one is named on a command line.

use serde_json::{Value, json};
use uuid::Uuid;

use super::actor::Scheduler;
use super::show::{LISTED, RUN, RUN_COLUMNS, run, show};
use base::TenantId;
use store::StoreError;

/// Most rows that one answer holds.
const MOST: i64 = 500;

fn failed() -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query("looking at schedules")
}

impl Scheduler {
    /// The tenant's schedules with their last runs; those named by an id, its beginning, or a name, if one is given.
    pub async fn listed(&self, tenant: &TenantId, key: Option<&str>) -> Result<Vec<Value>, StoreError> {
        let mut lease = self.inner.store.tenant(tenant).await?;
        let columns: Vec<String> = LISTED.split(',').map(|c| format!("t.{}", c.trim())).collect();
        let sql = format!(
            "SELECT {}, {RUN} FROM scheduled_tasks t
             LEFT JOIN LATERAL (SELECT * FROM schedule_runs o WHERE o.task_id = t.id AND o.state <> 'due'
                                ORDER BY o.created_at DESC, o.fire_at DESC LIMIT 1) r ON true
             WHERE $1::text IS NULL OR t.name = $1 OR (length($1) >= 4 AND starts_with(t.id::text, lower($1)))
             ORDER BY t.name LIMIT $2",
            columns.join(", ")
        );
        let rows = lease.query(&sql, &[&key, &MOST]).await.map_err(failed())?;
        let butler = self.inner.butler.as_str();
        Ok(rows
            .iter()
            .map(|row| {
                let last = row.get::<_, Option<Uuid>>(columns.len()).map(|_| run(row, columns.len()));
                let mut shown = show(row);
                if let Value::Object(o) = &mut shown {
                    o.insert("butler".into(), json!(butler));
                    o.insert("last".into(), json!(last));
                }
                shown
            })
            .collect())
    }

    /// The newest runs of a schedule, the newest first.
    pub async fn history(&self, tenant: &TenantId, id: Uuid, limit: u32) -> Result<Vec<Value>, StoreError> {
        let mut lease = self.inner.store.tenant(tenant).await?;
        let sql = format!(
            "SELECT {RUN} FROM schedule_runs r WHERE r.task_id = $1 ORDER BY r.created_at DESC, r.fire_at DESC LIMIT $2"
        );
        let rows = lease.query(&sql, &[&id, &i64::from(limit).min(MOST)]).await.map_err(failed())?;
        debug_assert!(rows.first().is_none_or(|r| r.len() == RUN_COLUMNS));
        Ok(rows.iter().map(|row| run(row, 0)).collect())
    }
}

/// Pausing and going on.
pub(super) mod rest {
    use jiff::Timestamp;
    use uuid::Uuid;

    use crate::due::{Decision, rested};
    use crate::rows::{TASK, Task};
    use tools::{EffectTx, ToolError};

    /// From now on nothing fires, and what waits does not begin.
    pub async fn begin(tx: &mut EffectTx<'_, '_>, id: Uuid, now: Timestamp) -> Result<(), ToolError> {
        tx.query("UPDATE scheduled_tasks SET paused_at = $2 WHERE id = $1", &[&id, &now]).await?;
        tx.query(
            "UPDATE schedule_runs SET state = 'skipped', reason = 'paused before it began', finished_at = $2
             WHERE task_id = $1 AND state = 'due'",
            &[&id, &now],
        )
        .await?;
        Ok(())
    }

    /// Goes on with the next time. Those that passed meanwhile were not missed: one row says how many they were.
    pub async fn end(tx: &mut EffectTx<'_, '_>, id: Uuid, now: Timestamp) -> Result<(), ToolError> {
        let sql = format!("SELECT {TASK} FROM scheduled_tasks t WHERE id = $1");
        let Some(task) = tx.query_opt(&sql, &[&id]).await?.as_ref().map(Task::of) else { return Ok(()) };
        let plan = task.plan().map_err(|e| ToolError::refused("invalid_cron", e.to_string()))?;
        let due = rested(now, &plan, "paused");
        for decision in due.decisions {
            let Decision::Skip { fire_at, until, count, more, reason, cause } = decision else { continue };
            let times = i32::try_from(count).unwrap_or(i32::MAX);
            tx.query(
                "INSERT INTO schedule_runs (id, task_id, fire_at, until_at, times, more, cause, state, reason, trust,
                                            created_at, finished_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $10, 'skipped', $7, $8, $9, $9)
                 ON CONFLICT (task_id, fire_at) DO NOTHING",
                &[
                    &Uuid::now_v7(),
                    &id,
                    &fire_at,
                    &until,
                    &times,
                    &more,
                    &reason,
                    &task.trust.as_str(),
                    &now,
                    &cause.as_str(),
                ],
            )
            .await?;
        }
        tx.query(
            "UPDATE scheduled_tasks SET paused_at = NULL, next_run_at = $2, decided_at = $3,
                    enabled = enabled AND $2::timestamptz IS NOT NULL
             WHERE id = $1",
            &[&id, &due.next, &now],
        )
        .await?;
        Ok(())
    }
}
