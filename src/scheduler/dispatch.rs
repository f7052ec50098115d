//! The tick: claims what is due, row first, and hands it on.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use super::cron::CronTimes;
use crate::access::Caller;
use crate::base::{Backoff, SessionId, TenantId, Trust};
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
    /// Of whoever made the schedule.
    pub trust: Trust,
    /// The call that makes it fire, if one does: then the new session is caused by that call's session.
    pub caller: Option<Caller>,
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
pub async fn tick(
    store: &Store,
    tenant: &TenantId,
    target: &dyn Dispatch,
    caller: Option<&Caller>,
) -> Result<usize, StoreError> {
    let mut dispatched = 0;
    while let Some((mut firing, fire_at)) = claim_next(store, tenant).await? {
        firing.caller = caller.cloned();
        crate::base::crash::point("schedule.claimed");
        let task_id = firing.task_id;
        let ended = target.dispatch(firing).await;
        settle_surely(store, tenant, task_id, fire_at, &ended).await;
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
            "SELECT id, name, prompt, job_name, job_args, cron, timezone, next_run_at, until_at, trust
             FROM scheduled_tasks
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
    let times = CronTimes::parse(row.get(5), row.get(6));
    let Ok(times) = times.inspect_err(|e| tracing::error!(schedule = %id, error = %e, "schedule switched off")) else {
        // One that can't be read must not keep the others from being due.
        let why = json!({"ok": false, "error": "its time can't be read any more; set cron and timezone again"});
        tx.execute("UPDATE scheduled_tasks SET enabled = false, last_result = $2 WHERE id = $1", &[&id, &why])
            .await
            .map_err(StoreError::query("switching a schedule off"))?;
        tx.commit().await.map_err(StoreError::query("switching a schedule off"))?;
        return Box::pin(claim_next(store, tenant)).await;
    };
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
        trust: Trust::from_name(row.get(9)),
        caller: None,
    };
    Ok(Some((firing, fire_at)))
}

/// Settles, however long the database is away; what can't be settled is closed by the next start.
async fn settle_surely(store: &Store, tenant: &TenantId, task: Uuid, fire_at: Timestamp, ended: &Dispatched) {
    let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));
    for _ in 0..30 {
        match settle(store, tenant, task, fire_at, ended).await {
            Ok(()) => return,
            Err(e) => tracing::warn!(schedule = %task, error = %e, "a schedule's run is not settled yet"),
        }
        tokio::time::sleep(backoff.next_delay()).await;
    }
    tracing::error!(schedule = %task, "a schedule's run could not be settled");
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
