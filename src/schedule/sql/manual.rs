//! Runs that somebody asks for and does not wait for, or says are done.

use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use store::{StoreError, Tx};
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
    let Some(task) = tx.query_opt(&find(""), &[&jobs, &true]).await? else { return Ok(None) };
    let run = RequestedRun::of(&task);
    if !run.under_way {
        tx.query(&add(""), &[&run.id, &task.get::<_, Uuid>("id")]).await?;
    }
    Ok(Some(run))
}

/// The schedule of one of the jobs `$1`, and its run that is open; `$2`: also one that is switched off. `schema`: with its
/// point, where the search path has none.
fn find(schema: &str) -> String {
    format!(
        "SELECT t.id, t.name, (SELECT r.id FROM {schema}schedule_runs r
                               WHERE r.task_id = t.id AND r.state IN ('due', 'running') LIMIT 1) AS open
         FROM {schema}scheduled_tasks t
         WHERE t.tenant_id = shared.tenant() AND t.job_name = ANY($1) AND (t.enabled OR $2)
         ORDER BY t.enabled DESC, t.name LIMIT 1 FOR UPDATE OF t"
    )
}

/// A run `$1` of the schedule `$2`, due now.
fn add(schema: &str) -> String {
    format!(
        "INSERT INTO {schema}schedule_runs (id, task_id, fire_at, cause, state)
         VALUES ($1, $2, shared.clock(), 'manual', 'due')"
    )
}

impl RequestedRun {
    /// The run that is open, or a new one, of a row of [`find`].
    fn of(task: &Row) -> Self {
        let open: Option<Uuid> = task.get("open");
        Self { id: open.unwrap_or_else(Uuid::now_v7), schedule: task.get("name"), under_way: open.is_some() }
    }
}

/// What was marked as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marked {
    /// A run at work: it counts as done, and its session goes on to its end.
    AtWork,
    /// A run that waited: it does not begin any more.
    Waiting,
}

/// Marks the current run of a schedule as done: the one at work, else the one that waits. `None`: it has neither.
pub(crate) async fn mark_done(
    tx: &mut EffectTx<'_, '_>,
    task: Uuid,
    now: Timestamp,
) -> Result<Option<Marked>, ToolError> {
    let sql = "UPDATE schedule_runs SET marked_at = coalesce(marked_at, $2) WHERE task_id = $1 AND state = 'running'
               RETURNING id";
    if tx.query_opt(sql, &[&task, &now]).await?.is_some() {
        return Ok(Some(Marked::AtWork));
    }
    let sql = "UPDATE schedule_runs SET state = 'done', marked_at = $2, finished_at = $2, reason = 'marked as done'
               WHERE id = (SELECT id FROM schedule_runs WHERE task_id = $1 AND state = 'due' ORDER BY fire_at LIMIT 1)
                 AND state = 'due'
               RETURNING id";
    Ok(tx.query_opt(sql, &[&task, &now]).await?.map(|_| Marked::Waiting))
}

/// As [`request_run`] of a schedule that is switched on, by the house itself, whatever the labels of other schedules are.
/// For the tenant of the transaction.
pub async fn request_run_of_house(
    tx: &mut Tx<'_>,
    schema: &str,
    jobs: &[&str],
) -> Result<Option<RequestedRun>, StoreError> {
    let (schema, failed) = (format!("\"{schema}\"."), || StoreError::query("asking for a run"));
    let found = tx.query_opt(&find(&schema), &[&jobs, &false]).await.map_err(failed())?;
    let Some(task) = found else { return Ok(None) };
    let run = RequestedRun::of(&task);
    if !run.under_way {
        tx.execute(&add(&schema), &[&run.id, &task.get::<_, Uuid>("id")]).await.map_err(failed())?;
    }
    Ok(Some(run))
}
