//! Schedules that `butler.toml` and the house declare, as the owner role stores them.

use super::task::{TaskRow, WHAT_IT_IS, insert_into};
use store::{Lease, StoreError};

/// The schedule that a tenant has under this name.
pub(crate) async fn stored(
    lease: &mut Lease,
    schema: &str,
    tenant: &str,
    name: &str,
) -> Result<Option<TaskRow>, StoreError> {
    let sql = format!("SELECT * FROM \"{schema}\".scheduled_tasks WHERE name = $1 AND tenant_id = $2");
    let row = lease.query_opt(&sql, &[&name, &tenant]).await;
    Ok(row.map_err(StoreError::query("looking at a declared schedule"))?.as_ref().map(TaskRow::from))
}

/// Makes its row, or makes it what is declared now; one that a tool has made or changed stays.
pub(crate) async fn store_declared(lease: &mut Lease, schema: &str, task: &TaskRow) -> Result<(), StoreError> {
    let set: Vec<String> = WHAT_IT_IS.split(", ").map(|column| format!("{column} = excluded.{column}")).collect();
    let sql = format!(
        "{} ON CONFLICT (tenant_id, name) DO UPDATE SET {}, enabled = excluded.enabled,
                next_run_at = excluded.next_run_at, updated_at = shared.clock()
         WHERE t.source <> 'db'",
        insert_into(&format!("\"{schema}\".")),
        set.join(", ")
    );
    lease.execute(&sql, &[&task.json()]).await.map(drop).map_err(StoreError::query("storing a declared schedule"))
}

/// Switches off what was declared and is none of `names` any more; what of it waits does not begin.
pub(crate) async fn switch_off_others(
    lease: &mut Lease,
    schema: &str,
    tenant: &str,
    names: &[String],
) -> Result<(), StoreError> {
    let runs = format!(
        "UPDATE \"{schema}\".schedule_runs r
         SET state = 'skipped', reason = 'its schedule is no longer declared', finished_at = shared.clock()
         FROM \"{schema}\".scheduled_tasks t
         WHERE t.id = r.task_id AND t.tenant_id = $2 AND r.state = 'due' AND t.source <> 'db'
           AND NOT t.name = ANY($1)"
    );
    let tasks = format!(
        "UPDATE \"{schema}\".scheduled_tasks SET enabled = false, updated_at = shared.clock()
         WHERE source <> 'db' AND tenant_id = $2 AND enabled AND NOT name = ANY($1)"
    );
    let both = lease.query_with((&runs, &[&names, &tenant]), (&tasks, &[&names, &tenant])).await;
    both.map(drop).map_err(StoreError::query("switching off schedules that are no longer declared"))
}
