/*---
description: >-
  Bring back a deleted task. task_list with deleted set to true lists them.
examples:
  - Restore the task that I deleted for Agnes.
  - Bring back the deleted task with the ladder.
  - Doris does need help painting after all, put it back on my plate.
  - I crossed out the flowers for Edith too soon, undo that.
  - That favour for Yannick we dropped should be on my agenda again.
args:
  task_id: {type: string, format: uuid, required: true, description: "The id of the deleted task."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT p.id, p.contact_id, p.title, p.due_on, p.completed_at IS NOT NULL AS completed
  FROM task_keep(:task_id::uuid, false) p;
