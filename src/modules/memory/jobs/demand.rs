//! Consolidation and cleanup when somebody asks for them.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::Notify;
use uuid::Uuid;

use super::CONSOLIDATION;
use crate::memory::Memory;
use crate::memory::tools::Runs;
use tools::{ToolCall, ToolError};

/// Most episodes that one call takes away.
const MOST: i32 = 50_000;

/// A run by hand of the schedule: its row is written here, and the butler's loop lets it run. Whoever asks does not wait for
/// its sessions, because a session that asks may hold the very slot that they wait for.
pub(super) struct OnDemand {
    pub memory: Arc<Memory>,
    pub due: Arc<Notify>,
}

#[async_trait]
impl Runs for OnDemand {
    async fn consolidate(&self, call: &ToolCall) -> Result<Value, ToolError> {
        let mut lease = call.lease().await?;
        let mut tx = call.begin(&mut lease).await?;
        let sql = "SELECT t.id, t.name,
                          (SELECT r.id FROM schedule_runs r WHERE r.task_id = t.id AND r.state IN ('due', 'running') LIMIT 1)
                   FROM scheduled_tasks t WHERE t.job_name = ANY($1) ORDER BY t.enabled DESC, t.name LIMIT 1 FOR UPDATE OF t";
        let Some(task) = tx.query_opt(sql, &[&CONSOLIDATION]).await? else {
            tx.rollback().await?;
            let why = "Consolidation has no schedule of yours here, so there is nothing to run now; episodes of every tenant \
                       are taken along by the household's own. `butlerd schedule list` shows what there is.";
            return Err(ToolError::refused("not_scheduled", why));
        };
        let (id, schedule): (Uuid, String) = (task.get(0), task.get(1));
        let (run, status) = match task.get::<_, Option<Uuid>>(2) {
            Some(open) => (open, "under_way"),
            None => {
                let run = Uuid::now_v7();
                let sql = "INSERT INTO schedule_runs (id, task_id, fire_at, cause, state)
                           VALUES ($1, $2, shared.clock(), 'manual', 'due')";
                tx.query(sql, &[&run, &id]).await?;
                (run, "started")
            }
        };
        tx.commit().await?;
        self.due.notify_one();
        Ok(json!({"status": status, "run_id": run, "schedule": schedule,
            "note": "It goes on by itself; memory_stats says how it ended."}))
    }

    async fn clean_up(&self, call: &ToolCall, most: u32) -> Result<Value, ToolError> {
        let mut lease = call.lease().await?;
        let mut tx = call.begin(&mut lease).await?;
        let sql = "SELECT expired, beyond, unlearned FROM memory_clean($1, $2)";
        let row = tx.query_opt(sql, &[&i64::from(most.max(1)), &MOST]).await?;
        tx.commit().await?;
        let Some(row) = row else { return Ok(json!({"expired_deleted": 0, "capacity_deleted": 0})) };
        let (expired, beyond): (Vec<Uuid>, Vec<Uuid>) = (row.get(0), row.get(1));
        let counts = json!({"expired_deleted": expired.len(), "capacity_deleted": beyond.len(),
            "never_consolidated": row.get::<_, i64>(2)});
        self.memory.gone(&call.context().tenant_id, &[expired, beyond].concat());
        Ok(counts)
    }
}
