//! Which schedule a call means.

use serde::Deserialize;
use uuid::Uuid;

use tools::ToolError;

/// Which schedule is meant.
#[derive(Deserialize, Default, Clone, Copy, PartialEq)]
pub(super) struct Target {
    task_id: Option<Uuid>,
    id: Option<Uuid>,
}

impl Target {
    pub fn of(id: Uuid) -> Self {
        Self { task_id: Some(id), id: None }
    }
    pub fn id(&self) -> Result<Uuid, ToolError> {
        match (self.task_id, self.id) {
            (Some(a), Some(b)) if a != b => {
                Err(ToolError::refused("invalid_arguments", "task_id and id name two different schedules."))
            }
            (Some(id), _) | (None, Some(id)) => Ok(id),
            (None, None) => Err(ToolError::refused("invalid_arguments", "task_id is needed; see schedule_list.")),
        }
    }
}

pub(super) fn unknown(id: Uuid) -> ToolError {
    ToolError::refused("not_found", format!("There is no schedule {id}; schedule_list shows those there are."))
}
