//! The tick: claims what is due, row first, and hands it on.

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use super::cron::CronTimes;
use crate::base::{SessionId, TenantId};
use crate::store::{Store, StoreError};

/// One schedule that fires now.
#[derive(Debug, Clone)]
pub struct Firing {
    pub task_id: Uuid,
    pub name: String,
    pub prompt: Option<String>,
    pub job_name: Option<String>,
    pub job_args: Option<Value>,
    pub tenant: TenantId,
}

/// What became of a firing.
#[derive(Debug, Clone)]
pub struct Dispatched {
    pub ok: bool,
    pub session: Option<SessionId>,
    pub error: Option<String>,
}

/// Whoever runs what a schedule asks for.
#[async_trait]
pub trait Dispatch: Send + Sync {
    /// Runs it to its end.
    async fn dispatch(&self, firing: Firing) -> Dispatched;
}

/// Dispatches every enabled schedule that is due, one after the other, and returns how many.
///
/// The run's row and the next due time are committed before the dispatch, so a due time fires at most once; times that
/// passed meanwhile are one late run, not many.
pub async fn tick(store: &Store, tenant: &TenantId, target: &dyn Dispatch) -> Result<usize, StoreError> {
    let mut dispatched = 0;
    while let Some((firing, fire_at)) = claim_next(store, tenant).await? {
        crate::base::crash::point("schedule.claimed");
        let task_id = firing.task_id;
        let ended = target.dispatch(firing).await;
        settle(store, tenant, task_id, fire_at, &ended).await?;
        dispatched += 1;
    }
    Ok(dispatched)
}

async fn claim_next(store: &Store, tenant: &TenantId) -> Result<Option<(Firing, Timestamp)>, StoreError> {
    let now = store.clock().now();
    let mut lease = store.tenant(tenant).await?;
    let mut tx = lease.begin().await.map_err(StoreError::query("looking for due schedules"))?;
    let row = tx
        .query_opt(
            "SELECT id, name, prompt, job_name, job_args, cron, timezone, next_run_at, until_at FROM scheduled_tasks
             WHERE enabled AND next_run_at <= $1 AND (start_at IS NULL OR start_at <= $1)
             ORDER BY next_run_at, id LIMIT 1 FOR UPDATE SKIP LOCKED",
            &[&now],
        )
        .await
        .map_err(StoreError::query("looking for due schedules"))?;
    let Some(row) = row else {
        tx.rollback().await.map_err(StoreError::query("looking for due schedules"))?;
        return Ok(None);
    };
    let (id, fire_at): (Uuid, Timestamp) = (row.get(0), row.get(7));
    let until: Option<Timestamp> = row.get(8);
    let times = CronTimes::parse(row.get(5), row.get(6))
        .map_err(|e| StoreError::Unexpected(format!("schedule {}: {e}", row.get::<_, String>(1))))?;
    let next = times.next(now).filter(|t| until.is_none_or(|u| *t <= u));
    tx.execute(
        "INSERT INTO schedule_runs (task_id, fire_at, state) VALUES ($1, $2, 'running')
         ON CONFLICT (task_id, fire_at) DO NOTHING",
        &[&id, &fire_at],
    )
    .await
    .map_err(StoreError::query("recording a schedule's run"))?;
    tx.execute(
        "UPDATE scheduled_tasks SET next_run_at = $2, last_run_at = $3, enabled = $2::timestamptz IS NOT NULL
         WHERE id = $1",
        &[&id, &next, &now],
    )
    .await
    .map_err(StoreError::query("moving a schedule on"))?;
    tx.commit().await.map_err(StoreError::query("recording a schedule's run"))?;
    let firing = Firing {
        task_id: id,
        name: row.get(1),
        prompt: row.get(2),
        job_name: row.get(3),
        job_args: row.get(4),
        tenant: tenant.clone(),
    };
    Ok(Some((firing, fire_at)))
}

async fn settle(
    store: &Store,
    tenant: &TenantId,
    task: Uuid,
    fire_at: Timestamp,
    ended: &Dispatched,
) -> Result<(), StoreError> {
    let state = if ended.ok { "done" } else { "failed" };
    let session = ended.session.map(|s| s.0);
    let result = json!({"ok": ended.ok, "session_id": session, "error": ended.error});
    let mut lease = store.tenant(tenant).await?;
    lease
        .query_with(
            (
                "UPDATE schedule_runs SET state = $3, reason = $4, session_id = $5, finished_at = shared.clock()
                 WHERE task_id = $1 AND fire_at = $2",
                &[&task, &fire_at, &state, &ended.error, &session],
            ),
            ("UPDATE scheduled_tasks SET last_result = $2 WHERE id = $1", &[&task, &result]),
        )
        .await
        .map_err(StoreError::query("settling a schedule's run"))?;
    Ok(())
}
