//! Runs that somebody asks for and does not wait for.

use uuid::Uuid;

use tools::{EffectTx, ToolError};

/// A run that was asked for.
#[derive(Debug, Clone)]
pub struct RequestedRun {
    pub id: Uuid,
    /// Its schedule's name.
    pub schedule: String,
    /// It was there before, waiting or at work.
    pub under_way: bool,
}

/// Lets the schedule of one of these jobs run once, now, unless a run of it is under way; an enabled schedule goes
/// before others. Whoever commits it wakes the butler's schedules then. `None`: no schedule of this tenant has such a
/// job.
pub async fn request_run(tx: &mut EffectTx<'_, '_>, jobs: &[&str]) -> Result<Option<RequestedRun>, ToolError> {
    let sql = "SELECT t.id, t.name,
                      (SELECT r.id FROM schedule_runs r WHERE r.task_id = t.id AND r.state IN ('due', 'running') LIMIT 1) AS open
               FROM scheduled_tasks t WHERE t.job_name = ANY($1) ORDER BY t.enabled DESC, t.name LIMIT 1 FOR UPDATE OF t";
    let Some(task) = tx.query_opt(sql, &[&jobs]).await? else { return Ok(None) };
    let schedule = task.get("name");
    if let Some(id) = task.get("open") {
        return Ok(Some(RequestedRun { id, schedule, under_way: true }));
    }
    let id = Uuid::now_v7();
    let sql = "INSERT INTO schedule_runs (id, task_id, fire_at, cause, state)
               VALUES ($1, $2, shared.clock(), 'manual', 'due')";
    tx.query(sql, &[&id, &task.get::<_, Uuid>("id")]).await?;
    Ok(Some(RequestedRun { id, schedule, under_way: false }))
}
