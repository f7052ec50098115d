//! Schedules declared in `butler.toml` become rows at boot; rows made by a tool are left alone.

use uuid::Uuid;

use super::cron::{CronError, CronTimes};
use crate::base::TenantId;
use crate::store::{Database, Store, StoreError};

/// A schedule as a `butler.toml` declares it.
#[derive(Debug, Clone)]
pub struct Declared {
    pub name: String,
    pub cron: String,
    /// IANA name; the owner's zone when the file names none.
    pub time_zone: String,
    /// Either a prompt …
    pub prompt: Option<String>,
    /// … or a job.
    pub job_name: Option<String>,
    pub job_args: Option<serde_json::Value>,
    pub enabled: bool,
}

/// Why schedules could not be taken over.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    #[error("schedule `{name}`: {source}")]
    Cron {
        name: String,
        #[source]
        source: CronError,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Closes runs that the last run of the daemon left open, of every tenant; their sessions were interrupted.
pub async fn close_open_runs(db: &Database, schema: &str) -> Result<u64, StoreError> {
    let sql = format!(
        "UPDATE \"{schema}\".schedule_runs SET state = 'failed', reason = 'butlerd stopped before this run was over',
                finished_at = shared.clock()
         WHERE state IN ('due', 'running')"
    );
    let mut lease = db.every_tenant().await?;
    lease.execute(&sql, &[]).await.map_err(StoreError::query("closing interrupted runs of schedules"))
}

/// Makes the rows of source `toml` match the declared schedules; a schedule that is no longer declared is switched off.
pub async fn sync(store: &Store, declared: &[Declared]) -> Result<(), SyncError> {
    let now = store.clock().now();
    let mut lease = store.tenant(&TenantId::owner()).await?;
    let mut names = Vec::new();
    for d in declared {
        let times = CronTimes::parse(&d.cron, &d.time_zone)
            .map_err(|source| SyncError::Cron { name: d.name.clone(), source })?;
        let mode = if d.prompt.is_some() { "prompt" } else { "job" };
        // A kept schedule keeps its next time, so that a due time that passed while butlerd was down is not forgotten.
        lease
            .execute(
                "INSERT INTO scheduled_tasks
                     (id, name, cron, prompt, dispatch_mode, job_name, job_args, timezone, source, enabled, next_run_at,
                      trust)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'toml', $9, $10, 'system')
                 ON CONFLICT (tenant_id, name) DO UPDATE SET
                     cron = $3, prompt = $4, dispatch_mode = $5, job_name = $6, job_args = $7, timezone = $8,
                     enabled = $9, updated_at = shared.clock(),
                     next_run_at = CASE WHEN (scheduled_tasks.cron, scheduled_tasks.timezone) = ($3, $8)
                                        THEN scheduled_tasks.next_run_at ELSE $10 END
                 WHERE scheduled_tasks.source = 'toml'",
                &[
                    &Uuid::now_v7(),
                    &d.name,
                    &d.cron,
                    &d.prompt,
                    &mode,
                    &d.job_name,
                    &d.job_args,
                    &d.time_zone,
                    &d.enabled,
                    &times.next(now),
                ],
            )
            .await
            .map_err(StoreError::query("storing a declared schedule"))?;
        names.push(d.name.as_str());
    }
    lease
        .execute(
            "UPDATE scheduled_tasks SET enabled = false, updated_at = shared.clock()
             WHERE source = 'toml' AND enabled AND NOT name = ANY($1)",
            &[&names],
        )
        .await
        .map_err(StoreError::query("switching off schedules that are no longer declared"))?;
    Ok(())
}
