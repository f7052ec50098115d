//! What tools make of schedules, under their butler's role.

use jiff::Timestamp;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use super::task::{TaskRow, WHAT_IT_IS, insert_into};
use store::{AsRows, StoreError};
use tools::{EffectTx, ToolCall, ToolError};

/// Makes a schedule. `None`: there is one of its name.
pub(crate) async fn insert(call: &ToolCall, task: &TaskRow) -> Result<Option<TaskRow>, ToolError> {
    let mut lease = call.lease().await?;
    let sql = format!("{} RETURNING *", insert_into(""));
    match call.effect_on(&mut lease, &sql, &[&task.json()]).await {
        Ok(rows) => Ok(rows.first().map(TaskRow::from)),
        Err(e) if e.code() == Some(&SqlState::UNIQUE_VIOLATION) => Ok(None),
        Err(e) => Err(StoreError::query("storing a schedule")(e).into()),
    }
}

/// A schedule, which nobody else changes meanwhile.
pub(crate) async fn locked(tx: &mut EffectTx<'_, '_>, id: Uuid) -> Result<Option<TaskRow>, ToolError> {
    tx.query_opt("SELECT * FROM scheduled_tasks WHERE id = $1 FOR UPDATE", &[&id]).await.first_typed()
}

pub(crate) async fn name_is_taken(tx: &mut EffectTx<'_, '_>, name: &str) -> Result<bool, ToolError> {
    Ok(tx.query_opt("SELECT 1 FROM scheduled_tasks WHERE name = $1", &[&name]).await?.is_some())
}

/// The names that begin so.
pub(crate) async fn names_like(call: &ToolCall, beginning: &str) -> Result<Vec<String>, ToolError> {
    let sql = "SELECT name FROM scheduled_tasks WHERE starts_with(name, $1)";
    Ok(call.query(sql, &[&beginning]).await?.iter().map(|row| row.get("name")).collect())
}

/// A new next time, which switches it on. `None`: both stay as they are.
type Next = Option<Option<Timestamp>>;

/// Switches it on or off, and nothing else: the schedule stays what its source says.
pub(crate) async fn switch(tx: &mut EffectTx<'_, '_>, id: Uuid, next: Next) -> Result<Option<TaskRow>, ToolError> {
    let sql = "UPDATE scheduled_tasks SET updated_at = shared.clock(), enabled = enabled OR $2,
                      next_run_at = CASE WHEN $2 THEN $3 ELSE next_run_at END
               WHERE id = $1 RETURNING *";
    tx.query_opt(sql, &[&id, &next.is_some(), &next.flatten()]).await.first_typed()
}

/// Makes it what `task` says.
pub(crate) async fn change(
    tx: &mut EffectTx<'_, '_>,
    task: &TaskRow,
    next: Next,
) -> Result<Option<TaskRow>, ToolError> {
    let sql = format!(
        "UPDATE scheduled_tasks SET updated_at = shared.clock(), enabled = enabled OR $2,
                next_run_at = CASE WHEN $2 THEN $3 ELSE next_run_at END,
                ({WHAT_IT_IS}) = (SELECT {WHAT_IT_IS} FROM jsonb_populate_record(NULL::scheduled_tasks, $4))
         WHERE id = $1 RETURNING *"
    );
    tx.query_opt(&sql, &[&task.id, &next.is_some(), &next.flatten(), &task.json()]).await.first_typed()
}

/// Where a schedule comes from, if there is one of this id.
pub(crate) async fn source_of(call: &ToolCall, id: Uuid) -> Result<Option<String>, ToolError> {
    call.query("SELECT source FROM scheduled_tasks WHERE id = $1", &[&id]).await.cell("source")
}

/// Deletes a schedule that a tool has made, and its runs.
pub(crate) async fn delete(call: &ToolCall, id: Uuid) -> Result<(), ToolError> {
    call.effect("DELETE FROM scheduled_tasks WHERE id = $1 AND source = 'db'", &[&id]).await.map(drop)
}
