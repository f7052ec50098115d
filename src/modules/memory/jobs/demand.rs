//! Consolidation and cleanup when somebody asks for them.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::CONSOLIDATION;
use crate::memory::tools::Runs;
use memory::Memory;
use memory::sql::upkeep::{self, Cleaned};
use schedule::request_run;
use tools::{ToolCall, ToolError};

/// Most episodes that one call takes away.
const MOST: i32 = 50_000;

/// A run by hand of the schedule: its row is written here, and the butler's loop lets it run. Whoever asks does not
/// wait for its sessions, because a session that asks may hold the very slot that they wait for.
pub(super) struct OnDemand {
    pub memory: Arc<Memory>,
    pub due: Arc<Notify>,
}

#[async_trait]
impl Runs for OnDemand {
    async fn consolidate(&self, call: &ToolCall) -> Result<Value, ToolError> {
        let mut lease = call.lease().await?;
        let mut tx = call.begin(&mut lease).await?;
        let Some(run) = request_run(&mut tx, CONSOLIDATION).await? else {
            tx.rollback().await?;
            let why = "Consolidation has no schedule of yours here, so there is nothing to run now; episodes of every tenant \
                       are taken along by the household's own. `butlerd schedule list` shows what there is.";
            return Err(ToolError::refused("not_scheduled", why));
        };
        tx.commit().await?;
        self.due.notify_one();
        let status = if run.under_way { "under_way" } else { "started" };
        Ok(json!({"status": status, "run_id": run.id, "schedule": run.schedule,
            "note": "It goes on by itself; memory_stats says how it ended."}))
    }

    async fn clean_up(&self, call: &ToolCall, most: u32) -> Result<Value, ToolError> {
        let mut lease = call.lease().await?;
        let mut tx = call.begin(&mut lease).await?;
        let cleaned = upkeep::clean(&mut tx, call.store.schema(), most.max(1), MOST).await?;
        tx.commit().await?;
        let Some(Cleaned { expired, beyond, unlearned }) = cleaned else {
            return Ok(json!({"expired_deleted": 0, "capacity_deleted": 0}));
        };
        let counts = json!({"expired_deleted": expired.len(), "capacity_deleted": beyond.len(),
            "never_consolidated": unlearned});
        self.memory.gone(&call.context().tenant_id, &[expired, beyond].concat());
        Ok(counts)
    }
}
