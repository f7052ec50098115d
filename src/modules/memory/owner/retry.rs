//! `memory_retry`: takes up what consolidation has given up.

use serde_json::{Value, json};
use uuid::Uuid;

use super::super::tools::{With, maybe_id, settled};
use super::owners;
use memory::sql::{Rows, upkeep};
use memory::write::WriteError;
use tools::{ToolCall, ToolError};

pub(super) async fn memory_retry(call: ToolCall, with: With) -> Result<Value, ToolError> {
    let which = maybe_id(&call, "memory_id")?;
    let mut lease = call.lease().await?;
    let mut tx = call.begin(&mut lease).await?;
    let done = retry(&mut tx, which).await;
    let again = settled(tx, done).await?;
    drop(lease);
    let mut run = Value::Null;
    if let Some(runs) = with.runs.as_ref().filter(|_| again > 0) {
        // Where nothing has a schedule they wait for whoever asks for a run.
        run = match runs.consolidate(&call).await {
            Ok(started) => started["status"].clone(),
            Err(e) => {
                tracing::info!(butler = %call.butler, error = %e, "episodes that wait again are left to the next consolidation");
                Value::Null
            }
        };
    }
    Ok(json!({"again": again, "run": run}))
}

async fn retry(tx: &mut dyn Rows, which: Option<Uuid>) -> Result<i64, WriteError> {
    let again = upkeep::retry(tx, which).await.map_err(owners)?;
    if let Some(id) = which.filter(|_| again == 0) {
        return Err(WriteError::refused("not_found", format!("Consolidation has not given up {id}.")));
    }
    Ok(again)
}
