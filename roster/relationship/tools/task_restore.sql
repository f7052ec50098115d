/*---
description: >-
  Bring back a deleted task. task_list with deleted set to true lists them.
args:
  task_id: {type: string, format: uuid, required: true, description: "The id of the deleted task."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT p.id, p.contact_id, p.title, p.due_on, p.completed_at IS NOT NULL AS completed
  FROM task_keep(:task_id::uuid, false) p;
