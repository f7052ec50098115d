/*---
description: >-
  Bring back a deleted task. task_list with deleted set to true lists them.
args:
  task_id: {type: string, format: uuid, required: true, description: "The id of the deleted task."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT (p.t).id, (p.t).contact_id, (p.t).title, (p.t).due_on, (p.t).completed_at IS NOT NULL AS completed
  FROM task_keep(:task_id::uuid, false) p;
